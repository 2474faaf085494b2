//! The address of the client of a request.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::FromRequestParts;
use http::Extensions;
use http::request::Parts;

/// The client of a request: the peer of the connection, or the client that a trusted proxy names. The server adds it to
/// every request; requests that were not received by the server share the unspecified address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientAddress(pub IpAddr);

impl ClientAddress {
    /// The client of a request with these extensions.
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get::<Self>().copied().unwrap_or(Self(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }

    /// The key for rate limits: an IPv4 address, or the /64 network of an IPv6 address, which one client owns whole.
    pub fn rate_limit_key(self) -> IpAddr {
        match self.0.to_canonical() {
            IpAddr::V6(v6) => {
                let [a, b, c, d, ..] = v6.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
            v4 => v4,
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        Ok(Self::of(&parts.extensions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_network_share_a_key() {
        let key = |text: &str| ClientAddress(text.parse().unwrap()).rate_limit_key();
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::9"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
        assert_eq!(key("::ffff:192.0.2.1"), key("192.0.2.1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
