//! Sessions are for the house: who comes from outside is refused, whatever token it has.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use service::{Code, Problem};

use crate::limits;

/// A range of addresses, such as `192.168.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cidr {
    network: IpAddr,
    bits: u8,
}

/// A text that is no range of addresses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoNetwork(String);

/// Who may come in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lan {
    /// The networks that clients may have.
    pub allow: Vec<Cidr>,
    /// The proxies whose `X-Forwarded-For` is believed.
    pub trusted: Vec<Cidr>,
}

impl Cidr {
    const fn v4(a: u8, b: u8, bits: u8) -> Self {
        Self { network: IpAddr::V4(Ipv4Addr::new(a, b, 0, 0)), bits }
    }

    const fn v6(first: u16, last: u16, bits: u8) -> Self {
        Self { network: IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last)), bits }
    }

    /// Whether an address is in this range. An IPv4 address in the clothes of IPv6 is what it is below them.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.network, address.to_canonical()) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                prefix(u128::from(network.to_bits()) << 96, self.bits)
                    == prefix(u128::from(address.to_bits()) << 96, self.bits)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                prefix(network.to_bits(), self.bits) == prefix(address.to_bits(), self.bits)
            }
            _ => false,
        }
    }
}

fn prefix(bits: u128, length: u8) -> u128 {
    bits.checked_shr(128 - u32::from(length)).unwrap_or(0)
}

impl FromStr for Cidr {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let parse = || {
            let (network, bits) = match text.split_once('/') {
                Some((network, bits)) => (network, Some(bits)),
                None => (text, None),
            };
            let network: IpAddr = network.parse().ok()?;
            let most = if network.is_ipv4() { 32 } else { 128 };
            let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
            (bits <= most).then_some(Self { network, bits })
        };
        parse().ok_or_else(|| NoNetwork(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

impl fmt::Display for NoNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no range of addresses such as 192.168.0.0/16", self.0)
    }
}

impl std::error::Error for NoNetwork {}

impl Default for Lan {
    /// Loopback, the private ranges and link-local IPv6; no proxy is believed.
    fn default() -> Self {
        let allow = vec![
            Cidr::v4(10, 0, 8),
            Cidr::v4(172, 16, 12),
            Cidr::v4(192, 168, 16),
            Cidr::v4(127, 0, 8),
            Cidr::v6(0, 1, 128),
            Cidr::v6(0xfc00, 0, 7),
            Cidr::v6(0xfe80, 0, 10),
        ];
        Self { allow, trusted: Vec::new() }
    }
}

impl Lan {
    /// The address of the client, or none when it cannot be known: from the right the first that is no trusted proxy.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        let trusted = |address: IpAddr| self.trusted.iter().any(|proxy| proxy.contains(address));
        if !trusted(peer) {
            return Some(peer);
        }
        let mut client = peer;
        let lines: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
        let mut hops = 0;
        for line in lines.into_iter().rev() {
            for hop in line.to_str().ok()?.rsplit(',') {
                hops += 1;
                client = address(hop.trim()).filter(|_| hops <= limits::HOPS)?;
                if !trusted(client) {
                    return Some(client);
                }
            }
        }
        // All of them are proxies of the house: the first one asks for itself.
        Some(client)
    }

    pub(crate) fn check(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Result<(), Problem> {
        let client = peer.and_then(|peer| self.client(peer.to_canonical(), headers));
        match client {
            Some(client) if self.allow.iter().any(|network| network.contains(client)) => Ok(()),
            Some(client) => {
                Err(Problem::new(Code::LAN_ONLY, format!("{client} is not of an allowed network")))
            }
            None => Err(Problem::new(Code::LAN_ONLY, "the client's address cannot be known")),
        }
    }
}

/// An address, as proxies write it: bare, or with a port.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse().map(|address: SocketAddr| address.ip()));
    address.ok().map(|address: IpAddr| address.to_canonical())
}

/// Lets in who comes from an allowed network.
pub(crate) async fn guard(State(lan): State<Arc<Lan>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    match lan.check(peer, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn passes(lan: &Lan, peer: &str, forwarded: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", HeaderValue::from_str(line).unwrap());
        }
        lan.check(Some(peer.parse().unwrap()), &headers).is_ok()
    }

    fn behind(proxies: &[&str]) -> Lan {
        Lan { trusted: proxies.iter().map(|proxy| proxy.parse().unwrap()).collect(), ..Lan::default() }
    }

    #[test]
    fn by_default_the_house_and_nobody_else_comes_in() {
        let lan = Lan::default();
        let inside = [
            "10.0.0.1",
            "10.255.255.255",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.20",
            "127.0.0.1",
            "::1",
            "fd12::1",
            "fe80::1",
            "::ffff:192.168.1.20",
        ];
        for peer in inside {
            assert!(passes(&lan, peer, &[]), "{peer}");
        }
        let outside = [
            "8.8.8.8",
            "11.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.169.0.1",
            "0.0.0.0",
            "2001:db8::1",
            "::2",
            "::ffff:8.8.8.8",
        ];
        for peer in outside {
            assert!(!passes(&lan, peer, &[]), "{peer}");
        }
        assert!(lan.check(None, &HeaderMap::new()).is_err(), "unknown is not yes");
    }

    #[test]
    fn a_forwarded_address_is_believed_from_a_trusted_proxy_only() {
        assert!(!passes(&Lan::default(), "8.8.8.8", &["192.168.1.20"]));
        assert!(passes(&Lan::default(), "192.168.1.20", &["8.8.8.8"]), "the header is not read");
        let lan = behind(&["192.168.1.1"]);
        assert!(!passes(&lan, "192.168.1.1", &["8.8.8.8"]));
        assert!(passes(&lan, "192.168.1.1", &["192.168.1.20"]));
        assert!(passes(&lan, "192.168.1.1", &[]), "the proxy asks for itself");
    }

    #[test]
    fn the_chain_is_walked_from_the_right_to_the_first_that_is_not_trusted() {
        let lan = behind(&["203.0.113.0/24", "192.168.1.1"]);
        // What stands further left was written by whoever is not trusted.
        assert!(!passes(&lan, "192.168.1.1", &["192.168.1.20, 8.8.8.8, 203.0.113.9"]));
        assert!(passes(&lan, "192.168.1.1", &["8.8.8.8, 192.168.1.20, 203.0.113.9"]));
        assert!(!passes(&lan, "192.168.1.1", &["192.168.1.20", "8.8.8.8"]), "lines follow one another");
        assert!(passes(&lan, "192.168.1.1", &["8.8.8.8", "192.168.1.20:4711, [fd12::1]"]));
        assert!(
            !passes(&lan, "192.168.1.1", &["203.0.113.7, 203.0.113.9"]),
            "a trusted proxy is no allowed client"
        );
    }

    #[test]
    fn a_chain_that_cannot_be_read_is_refused() {
        let lan = behind(&["192.168.1.1"]);
        let long = vec!["192.168.1.1"; limits::HOPS + 1].join(",");
        for chain in ["", "unknown", "192.168.1.20, _hidden", "192.168.1.999", "10.0.0.1,,", &long] {
            assert!(!passes(&lan, "192.168.1.1", &[chain]), "{chain}");
        }
    }

    #[test]
    fn a_network_survives_its_text_and_near_misses_are_refused() {
        for text in ["10.0.0.0/8", "0.0.0.0/0", "::/0", "fc00::/7", "192.168.1.1/32", "::1/128"] {
            assert_eq!(text.parse::<Cidr>().unwrap().to_string(), text);
        }
        assert_eq!("192.168.1.1".parse::<Cidr>().unwrap().to_string(), "192.168.1.1/32");
        for text in ["", "10.0.0.0/33", "::/129", "10.0.0/8", "10.0.0.0/", "10.0.0.0/-1", "x/8"] {
            assert!(text.parse::<Cidr>().is_err(), "{text}");
        }
        let all: Cidr = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("8.8.8.8".parse().unwrap()) && !all.contains("2001:db8::1".parse().unwrap()));
    }
}
