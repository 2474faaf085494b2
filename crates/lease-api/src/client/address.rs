//! Where a server is.

use lease::{Error, Result};

/// The port of `tenure up`.
const PORT: u16 = 7400;

/// The address in a `tenure://` URL.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Address {
    /// Whether to speak TLS.
    pub(super) tls: bool,
    /// The name or IP address; IPv6 in brackets.
    pub(super) host: String,
    /// The port.
    pub(super) port: u16,
}

impl Address {
    /// Reads `tenure://HOST:PORT` or, with TLS, `tenures://HOST:PORT`. The port may be left out.
    pub(super) fn parse(url: &str) -> Result<Self> {
        let wrong = |why: &str| {
            let how = "write tenure://HOST:PORT, or tenures://HOST:PORT for TLS";
            Error::invalid("address", format!("{url:?} {why}; {how}"))
        };
        let (tls, rest) = match url.split_once("://") {
            Some(("tenure", rest)) => (false, rest),
            Some(("tenures", rest)) => (true, rest),
            _ => return Err(wrong("does not begin with tenure:// or tenures://")),
        };
        if rest.contains('@') {
            return Err(wrong("has a user or a token in it, and tokens do not belong into addresses"));
        }
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let port = port.map_or(Ok(PORT), str::parse).map_err(|_| wrong("has no valid port"))?;
        let plain = host.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_".contains(&b));
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let v6 = bracketed.is_some_and(|inside| inside.parse::<std::net::Ipv6Addr>().is_ok());
        if host.is_empty() || port == 0 || !(plain || v6) {
            return Err(wrong("has no valid host and port"));
        }
        Ok(Self { tls, host: host.into(), port })
    }

    /// The address for an HTTP client.
    pub(super) fn uri(&self) -> String {
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
    fn an_address_has_a_scheme_a_host_and_perhaps_a_port() {
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
    fn a_wrong_address_says_how_to_write_one() {
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
