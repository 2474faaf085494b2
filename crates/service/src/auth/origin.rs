//! Which pages may use a session cookie.
//!
//! The cookie is `SameSite=Strict`, which does not distinguish ports of one host; the `Origin` header does. It is compared
//! with a fixed list and never with `Host`, which the attacker chooses in a DNS rebinding attack.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::{HeaderMap, Method, header};

use crate::code::Code;
use crate::problem::Problem;

/// The exact list of origins.
#[derive(Debug)]
pub(super) struct Origins(BTreeSet<String>);

impl Origins {
    /// The listener's own origins, as `localhost`, as a loopback address and as the address it is bound to,
    /// and those of the settings.
    pub(super) fn new(address: SocketAddr, secure: bool, allowed: &[String]) -> Self {
        let scheme = scheme(secure);
        let mut hosts = vec!["localhost".to_owned(), host(Ipv4Addr::LOCALHOST.into())];
        match address.ip() {
            IpAddr::V6(ip) if ip.is_unspecified() => hosts.push(host(Ipv6Addr::LOCALHOST.into())),
            ip if ip.is_unspecified() => {}
            ip => hosts.push(host(ip)),
        }
        let default_port = if secure { 443 } else { 80 };
        let mut origins: BTreeSet<String> = allowed.iter().cloned().collect();
        for host in hosts {
            // Browsers leave a scheme's own port out.
            if address.port() == default_port {
                origins.insert(format!("{scheme}://{host}"));
            } else {
                origins.insert(format!("{scheme}://{host}:{}", address.port()));
            }
        }
        Self(origins)
    }

    /// The list.
    pub(super) fn list(&self) -> Vec<String> {
        self.0.iter().cloned().collect()
    }

    /// Whether an origin is on the list.
    pub(super) fn contains(&self, origin: &str) -> bool {
        self.0.contains(origin)
    }

    /// Whether a cookie may be used for this request.
    pub(super) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Problem> {
        let stream = is_event_stream(headers);
        if method.is_safe() && !is_websocket(method, headers) && !stream {
            return Ok(());
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (Some(origin), None) => self.allow(origin.to_str().unwrap_or("?")),
            (Some(_), Some(_)) => Err(refused("the request has several Origin headers")),
            // Browsers send no Origin with a same-origin GET, so an EventSource may have none. Its Referer, which scripts
            // cannot forge either, is compared with the same list.
            (None, _) if stream && method.is_safe() => {
                let referer = headers.get(header::REFERER).and_then(|value| value.to_str().ok());
                self.allow(referer.and_then(origin_of).ok_or_else(missing)?)
            }
            (None, _) => Err(missing()),
        }
    }

    /// Whether a page of this origin may log in. Requests without an Origin do not come from a page.
    pub(super) fn check_login(&self, headers: &HeaderMap) -> Result<(), Problem> {
        headers
            .get_all(header::ORIGIN)
            .iter()
            .try_for_each(|origin| self.allow(origin.to_str().unwrap_or("?")))
    }

    fn allow(&self, origin: &str) -> Result<(), Problem> {
        if self.contains(origin) {
            return Ok(());
        }
        Err(refused(&format!(
            "the origin `{origin}` is not allowed; add it to allowed_origins if you trust it"
        )))
    }
}

fn missing() -> Problem {
    refused("a cookie needs an Origin header for this request; programs send `Authorization: Bearer` instead")
}

fn refused(detail: &str) -> Problem {
    Problem::new(Code::ORIGIN_REFUSED, detail)
}

/// HTTP/1.1 upgrades and HTTP/2 extended CONNECT. CONNECT is not safe, so it needs no case of its own.
fn is_websocket(method: &Method, headers: &HeaderMap) -> bool {
    let upgrade = headers
        .get_all(header::UPGRADE)
        .iter()
        .any(|value| value.as_bytes().to_ascii_lowercase().windows(9).any(|window| window == b"websocket"));
    method == Method::CONNECT || upgrade || headers.contains_key(header::SEC_WEBSOCKET_KEY)
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get_all(header::ACCEPT).iter().any(|value| {
        let value = value.as_bytes().to_ascii_lowercase();
        value.windows(17).any(|window| window == b"text/event-stream")
    })
}

/// `scheme://host:port` of an absolute URL.
fn origin_of(url: &str) -> Option<&str> {
    let authority = url.find("://")? + 3;
    let end = url[authority..].find(['/', '?', '#']).map_or(url.len(), |at| authority + at);
    Some(&url[..end])
}

fn scheme(secure: bool) -> &'static str {
    if secure { "https" } else { "http" }
}

fn host(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    }
}

/// The address a person on this machine opens: an unspecified address becomes loopback.
pub(crate) fn base_url(address: SocketAddr, secure: bool) -> String {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("{}://{}:{}", scheme(secure), host(ip), address.port())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn origins(address: &str, secure: bool) -> Vec<String> {
        Origins::new(address.parse().unwrap(), secure, &[]).0.into_iter().collect()
    }

    #[test]
    fn a_listener_has_its_own_origins_in_every_form_a_browser_uses() {
        assert_eq!(origins("127.0.0.1:7400", false), ["http://127.0.0.1:7400", "http://localhost:7400"]);
        assert_eq!(
            origins("192.168.1.5:7400", true),
            ["https://127.0.0.1:7400", "https://192.168.1.5:7400", "https://localhost:7400"]
        );
        assert_eq!(
            origins("[::]:7400", false),
            ["http://127.0.0.1:7400", "http://[::1]:7400", "http://localhost:7400"]
        );
        assert_eq!(origins("127.0.0.1:443", true), ["https://127.0.0.1", "https://localhost"]);
    }

    fn check(method: Method, headers: &[(&'static str, &str)]) -> bool {
        let allowed = ["https://console.example".to_owned()];
        let origins = Origins::new("127.0.0.1:7400".parse().unwrap(), false, &allowed);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        origins.check(&method, &map).is_ok()
    }

    #[test]
    fn unsafe_methods_need_an_allowed_origin() {
        for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::CONNECT] {
            assert!(check(method.clone(), &[("origin", "http://127.0.0.1:7400")]), "{method}");
            assert!(check(method.clone(), &[("origin", "https://console.example")]), "{method}");
            assert!(!check(method.clone(), &[]), "{method}");
            for other in [
                "null",
                "",
                "http://127.0.0.1:7401",
                "https://127.0.0.1:7400",
                "http://127.0.0.1:7400/",
                "HTTP://127.0.0.1:7400",
                "http://evil.example",
            ] {
                assert!(!check(method.clone(), &[("origin", other)]), "{method} {other}");
            }
        }
    }

    #[test]
    fn the_host_header_does_not_allow_an_origin() {
        let headers = [("origin", "http://evil.example:7400"), ("host", "evil.example:7400")];
        assert!(!check(Method::POST, &headers));
    }

    #[test]
    fn several_origins_are_refused() {
        let headers = [("origin", "http://127.0.0.1:7400"), ("origin", "http://evil.example")];
        assert!(!check(Method::POST, &headers));
    }

    #[test]
    fn a_plain_get_needs_no_origin_but_a_websocket_does() {
        assert!(check(Method::GET, &[]));
        assert!(!check(Method::GET, &[("upgrade", "websocket")]));
        assert!(!check(Method::GET, &[("upgrade", "WebSocket"), ("referer", "http://127.0.0.1:7400/")]));
        assert!(check(Method::GET, &[("upgrade", "websocket"), ("origin", "http://localhost:7400")]));
    }

    #[test]
    fn an_event_source_needs_an_origin_or_the_referer_that_browsers_send_in_its_place() {
        let accept = ("accept", "text/event-stream");
        assert!(!check(Method::GET, &[accept]));
        assert!(check(Method::GET, &[accept, ("origin", "http://127.0.0.1:7400")]));
        assert!(!check(Method::GET, &[accept, ("origin", "http://127.0.0.1:8080")]));
        assert!(check(Method::GET, &[accept, ("referer", "http://127.0.0.1:7400/leases?x=1")]));
        assert!(!check(Method::GET, &[accept, ("referer", "http://127.0.0.1:7400.evil.example/")]));
        assert!(!check(Method::GET, &[accept, ("referer", "http://127.0.0.1:7400@evil.example/")]));
        let both = [accept, ("origin", "http://evil.example"), ("referer", "http://127.0.0.1:7400/")];
        assert!(!check(Method::GET, &both));
    }
}
