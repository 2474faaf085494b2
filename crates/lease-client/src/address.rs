//! The address of a server.

use tenure_lease::{Error, Result};

/// The default port of `tenure up`.
const DEFAULT_PORT: u16 = 7400;

/// The address in a `tenure://` URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    /// Whether to use TLS.
    pub(crate) tls: bool,
    /// The name or IP address; IPv6 in brackets.
    pub(crate) host: String,
    /// The port.
    pub(crate) port: u16,
}

impl Address {
    /// Parses `tenure://HOST:PORT` or, with TLS, `tenures://HOST:PORT`. The port is optional.
    pub(crate) fn parse(url: &str) -> Result<Self> {
        let invalid = |why: &str| {
            let how = "write tenure://HOST:PORT, or tenures://HOST:PORT for TLS";
            Error::invalid("address", format!("{url:?} {why}; {how}"))
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("tenure", rest)) => (false, rest),
            Some(("tenures", rest)) => (true, rest),
            _ => return Err(invalid("does not begin with tenure:// or tenures://")),
        };
        if rest.contains('@') {
            return Err(invalid("contains a user or a token; pass the token separately"));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let port = port.map_or(Ok(DEFAULT_PORT), str::parse).map_err(|_| invalid("has no valid port"))?;
        let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let v6 = bracketed.is_some_and(|inside| inside.parse::<std::net::Ipv6Addr>().is_ok());
        if host.is_empty() || port == 0 || !(plain || v6) {
            return Err(invalid("has no valid host and port"));
        }
        Ok(Self { tls, host: host.into(), port })
    }

    /// The address as an HTTP URI.
    pub(crate) fn uri(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}:{}", self.host, self.port)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_a_host_and_an_optional_port() {
        let table = [
            ("tenure://127.0.0.1:7411", "http://127.0.0.1:7411"),
            ("tenure://localhost", "http://localhost:7400"),
            ("tenures://leases.example.com/", "https://leases.example.com:7400"),
            ("tenure://[::1]:7411", "http://[::1]:7411"),
            ("tenure://[::1]", "http://[::1]:7400"),
        ];
        for (url, uri) in table {
            assert_eq!(Address::parse(url).unwrap().uri(), uri);
        }
    }

    #[test]
    fn the_error_for_an_invalid_address_shows_the_syntax() {
        for bad in [
            "",
            "http://localhost:7400",
            "tenure:localhost",
            "tenure://",
            "tenure://:7400",
            "tenure://host:",
            "tenure://host:0",
            "tenure://host:99999",
            "tenure://secret@host:1",
            "tenure://host/path",
            "tenure://[nope]:1",
            "tenure://[::1]]",
            "tenure://[[::1]]:7400",
            "tenure://a b:1",
        ] {
            let error = Address::parse(bad).unwrap_err().to_string();
            assert!(error.contains("tenure://HOST:PORT"), "{bad:?}: {error}");
        }
    }
}
