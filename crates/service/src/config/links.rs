//! Variables that Kubernetes sets in every pod of a namespace, named after its Services. For a Service called `tenure` they
//! resemble settings; they are ignored instead of reported as mistakes.

use std::net::IpAddr;

/// Whether a variable has the name and the value of a link to a Service called `tenure` or `tenure-…`.
pub(super) fn is_service_link(variable: &str, value: &str) -> bool {
    let well_formed = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if !variable.starts_with("TENURE_") || variable.contains("__") || !variable.chars().all(well_formed) {
        return false;
    }
    if variable.ends_with("_SERVICE_HOST") {
        return is_host(value);
    }
    if variable.ends_with("_SERVICE_PORT") || variable.contains("_SERVICE_PORT_") {
        return is_port(value);
    }
    if variable.ends_with("_PORT") && is_link(value) {
        return true;
    }
    // TENURE_PORT_7400_TCP and, below it, _PROTO, _PORT and _ADDR.
    let ports = variable.match_indices("_PORT_").map(|(at, word)| &variable[at + word.len()..]);
    ports.into_iter().any(|rest| {
        let mut words = rest.split('_');
        let (Some(port), Some(protocol)) = (words.next(), words.next()) else { return false };
        let (detail, end) = (words.next(), words.next());
        let fits = match detail {
            None => is_link(value),
            Some("PROTO") => is_protocol(value),
            Some("PORT") => value == port,
            Some("ADDR") => is_host(value),
            Some(_) => false,
        };
        is_port(port) && is_protocol(&protocol.to_lowercase()) && end.is_none() && fits
    })
}

/// `tcp://10.0.0.1:7400`
fn is_link(value: &str) -> bool {
    let parts = value.split_once("://").and_then(|(protocol, rest)| Some((protocol, rest.rsplit_once(':')?)));
    parts.is_some_and(|(protocol, (host, port))| is_protocol(protocol) && is_host(host) && is_port(port))
}

fn is_protocol(word: &str) -> bool {
    ["tcp", "udp", "sctp"].contains(&word)
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok()
}

fn is_host(text: &str) -> bool {
    text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_a_service_called_tenure_are_known_by_name_and_value() {
        for (variable, value) in [
            ("TENURE_SERVICE_HOST", "10.96.0.17"),
            ("TENURE_SERVICE_PORT", "7400"),
            ("TENURE_SERVICE_PORT_HTTP", "7400"),
            ("TENURE_PORT", "tcp://10.96.0.17:7400"),
            ("TENURE_PORT_7400_TCP", "tcp://10.96.0.17:7400"),
            ("TENURE_PORT_7400_TCP_PROTO", "tcp"),
            ("TENURE_PORT_7400_TCP_PORT", "7400"),
            ("TENURE_PORT_7400_TCP_ADDR", "10.96.0.17"),
            ("TENURE_PORT_7400_UDP_ADDR", "fd00::11"),
            ("TENURE_METRICS_PORT", "tcp://[fd00::11]:9090"),
            ("TENURE_METRICS_SERVICE_HOST", "fd00::11"),
        ] {
            assert!(is_service_link(variable, value), "{variable}={value}");
        }
    }

    #[test]
    fn what_only_resembles_a_link_is_still_a_mistake() {
        for (variable, value) in [
            ("TENURE_PORT", "7400"),
            ("TENURE_PORT", "http://10.96.0.17:7400"),
            ("TENURE_SERVICE_HOST", "example.com"),
            ("TENURE_SERVICE_PORT", "seven"),
            ("TENURE_PORT_7400_TCP_ADDR", "tcp"),
            ("TENURE_PORT_7400_TCP_PORT", "7401"),
            ("TENURE_PORT_7400_HTTP", "tcp://10.96.0.17:7400"),
            ("TENURE_PORT_7400_TCP_ADDR_X", "10.96.0.17"),
            ("TENURE_LIMITS__SERVICE_PORT", "7400"),
            ("TENURE_LISTEN", "tcp://10.96.0.17:7400"),
            ("TENURE_HOST", "10.96.0.17"),
            ("XG2G_SERVICE_HOST", "10.96.0.17"),
        ] {
            assert!(!is_service_link(variable, value), "{variable}={value}");
        }
    }
}
