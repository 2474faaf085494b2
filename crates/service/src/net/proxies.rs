//! The address of a client behind trusted proxies.

use std::net::{IpAddr, SocketAddr};

use http::HeaderMap;

use crate::net::Cidr;

/// Maximum number of addresses read from `X-Forwarded-For`.
pub const MAX_HOPS: usize = 32;

/// The proxies whose `X-Forwarded-For` is trusted. Without any, the peer of the connection is the client.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TrustedProxies(Vec<Cidr>);

impl From<Vec<Cidr>> for TrustedProxies {
    fn from(networks: Vec<Cidr>) -> Self {
        Self(networks)
    }
}

impl TrustedProxies {
    /// Whether no proxy is trusted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }

    /// The client's address: the first from the right that is not a trusted proxy. `None` if it cannot be determined.
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        let mut client = peer.to_canonical();
        if !self.contains(client) {
            return Some(client);
        }
        let lines: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
        let mut hops = 0;
        for line in lines.into_iter().rev() {
            for hop in line.to_str().ok()?.rsplit(',') {
                hops += 1;
                client = parse_address(hop.trim()).filter(|_| hops <= MAX_HOPS)?;
                if !self.contains(client) {
                    return Some(client);
                }
            }
        }
        // The whole chain consists of trusted proxies: the leftmost is the client.
        Some(client)
    }
}

/// Parses an address as proxies write it: with or without a port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}
