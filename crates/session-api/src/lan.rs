//! The LAN guard: clients outside the allowed networks are rejected, whatever token they present.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use tenure_breaks::{Break, broken};
use tenure_service::net::{Cidr, TrustedProxies};
use tenure_service::{Code, Problem};

/// Which clients may connect.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LanPolicy {
    /// The allowed client networks.
    pub allow: Vec<Cidr>,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: TrustedProxies,
}

impl Default for LanPolicy {
    /// Loopback, the private ranges and link-local IPv6; no trusted proxies.
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
        Self { allow, trusted_proxies: TrustedProxies::default() }
    }
}

impl LanPolicy {
    pub(crate) fn check(&self, peer: Option<IpAddr>, headers: &HeaderMap) -> Result<(), Problem> {
        let client = peer.and_then(|peer| self.trusted_proxies.client_address(peer, headers));
        match client {
            _ if broken(Break::AdmitsEveryNetwork) => Ok(()),
            Some(client) if self.allow.iter().any(|network| network.contains(client)) => Ok(()),
            Some(client) => {
                Err(Problem::new(Code::LAN_ONLY, format!("{client} is not in an allowed network")))
            }
            None => Err(Problem::new(Code::LAN_ONLY, "the client's address cannot be determined")),
        }
    }
}

/// Middleware that rejects clients outside the allowed networks.
pub(crate) async fn guard(State(lan): State<Arc<LanPolicy>>, request: Request, next: Next) -> Response {
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|peer| peer.0.ip());
    match lan.check(peer, request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use tenure_service::net::MAX_HOPS;

    use super::*;

    fn passes(lan: &LanPolicy, peer: &str, forwarded: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", HeaderValue::from_str(line).unwrap());
        }
        lan.check(Some(peer.parse().unwrap()), &headers).is_ok()
    }

    fn behind(proxies: &[&str]) -> LanPolicy {
        LanPolicy {
            trusted_proxies: proxies.iter().map(|proxy| proxy.parse().unwrap()).collect::<Vec<Cidr>>().into(),
            ..LanPolicy::default()
        }
    }

    #[test]
    fn by_default_only_local_networks_are_allowed() {
        let lan = LanPolicy::default();
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
        assert!(lan.check(None, &HeaderMap::new()).is_err(), "an unknown peer is rejected");
    }

    #[test]
    fn a_forwarded_address_is_used_only_from_a_trusted_proxy() {
        assert!(!passes(&LanPolicy::default(), "8.8.8.8", &["192.168.1.20"]));
        assert!(passes(&LanPolicy::default(), "192.168.1.20", &["8.8.8.8"]), "the header is not read");
        let lan = behind(&["192.168.1.1"]);
        assert!(!passes(&lan, "192.168.1.1", &["8.8.8.8"]));
        assert!(passes(&lan, "192.168.1.1", &["192.168.1.20"]));
        assert!(passes(&lan, "192.168.1.1", &[]), "the proxy itself is the client");
    }

    #[test]
    fn the_chain_is_walked_from_the_right_to_the_first_untrusted_address() {
        let lan = behind(&["203.0.113.0/24", "192.168.1.1"]);
        // Addresses further left come from the untrusted client.
        assert!(!passes(&lan, "192.168.1.1", &["192.168.1.20, 8.8.8.8, 203.0.113.9"]));
        assert!(passes(&lan, "192.168.1.1", &["8.8.8.8, 192.168.1.20, 203.0.113.9"]));
        assert!(!passes(&lan, "192.168.1.1", &["192.168.1.20", "8.8.8.8"]), "header lines are concatenated");
        assert!(passes(&lan, "192.168.1.1", &["8.8.8.8", "192.168.1.20:4711, [fd12::1]"]));
        assert!(
            !passes(&lan, "192.168.1.1", &["203.0.113.7, 203.0.113.9"]),
            "a trusted proxy is not automatically an allowed client"
        );
    }

    #[test]
    fn a_malformed_chain_is_rejected() {
        let lan = behind(&["192.168.1.1"]);
        let long = vec!["192.168.1.1"; MAX_HOPS + 1].join(",");
        for chain in ["", "unknown", "192.168.1.20, _hidden", "192.168.1.999", "10.0.0.1,,", &long] {
            assert!(!passes(&lan, "192.168.1.1", &[chain]), "{chain}");
        }
    }

    #[test]
    fn address_ranges_round_trip_and_invalid_ones_are_rejected() {
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
