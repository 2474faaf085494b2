//! Which addresses polls and webhooks may connect to.
//!
//! A target is written by a user, and its host may resolve to an address that only this machine can reach: the metadata
//! service of a cloud, or a neighbor without a password. So every address is checked after DNS, for each redirect, and
//! the connection goes to the address that was checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tenure_service::net::Cidr;

/// Addresses that are always denied unless `allow` contains them.
const DENIED: [Cidr; 8] = [
    // "This network": on most systems it reaches the machine itself.
    Cidr::v4(0, 0, 8),
    // Link-local, which contains the metadata services of most clouds.
    Cidr::v4(169, 254, 16),
    // Multicast and reserved ranges, with the broadcast address.
    Cidr::v4(224, 0, 4),
    Cidr::v4(240, 0, 4),
    Cidr::v6(0, 0, 128),
    Cidr::v6(0xfe80, 0, 10),
    Cidr::v6(0xfec0, 0, 10),
    Cidr::v6(0xff00, 0, 8),
];

/// Metadata services outside the link-local ranges: of Alibaba Cloud, of Oracle Cloud, and of AWS over IPv6.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
];

/// Loopback, private and shared ranges, denied by `deny_private`.
const PRIVATE: [Cidr; 7] = [
    Cidr::v4(10, 0, 8),
    Cidr::v4(100, 64, 10),
    Cidr::v4(127, 0, 8),
    Cidr::v4(172, 16, 12),
    Cidr::v4(192, 168, 16),
    Cidr::v6(0, 1, 128),
    Cidr::v6(0xfc00, 0, 7),
];

/// The addresses to which the poller connects. By default link-local addresses and metadata services are denied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressFilter {
    /// Ranges that are allowed whatever the others say.
    pub allow: Vec<Cidr>,
    /// Ranges that are denied.
    pub deny: Vec<Cidr>,
    /// Whether loopback and private ranges are denied.
    pub deny_private: bool,
}

/// No address of a host may be connected to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("address {0} is not allowed; see poll.allow_cidrs")]
pub(crate) struct DeniedAddress(pub(crate) IpAddr);

impl AddressFilter {
    /// Whether the poller may connect to an address.
    pub fn permits(&self, address: IpAddr) -> bool {
        let address = embedded_ipv4(address.to_canonical());
        let within = |ranges: &[Cidr]| ranges.iter().any(|range| range.contains(address));
        within(&self.allow)
            || !(within(&self.deny)
                || within(&DENIED)
                || METADATA.contains(&address)
                || (self.deny_private && within(&PRIVATE)))
    }

    /// Checks a URL whose host is an address. Names are checked when they are resolved.
    pub(crate) fn check_url(&self, url: &Url) -> Result<(), DeniedAddress> {
        let address = match url.host() {
            Some(url::Host::Ipv4(address)) => IpAddr::V4(address),
            Some(url::Host::Ipv6(address)) => IpAddr::V6(address),
            Some(url::Host::Domain(_)) | None => return Ok(()),
        };
        if self.permits(address) { Ok(()) } else { Err(DeniedAddress(address)) }
    }
}

/// The IPv4 address that a NAT64 gateway (`64:ff9b::/96`) or a 6to4 relay (`2002::/16`) would connect to.
fn embedded_ipv4(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [a, b, c, _, _, _, g, h] = v6.segments();
    let join = |high: u16, low: u16| IpAddr::V4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match (a, b) {
        (0x64, 0xff9b) if v6.segments()[2..6] == [0; 4] => join(g, h),
        (0x2002, high) => join(high, c),
        _ => address,
    }
}

/// Resolves names to the addresses that the filter permits.
#[derive(Clone)]
pub(crate) struct FilteredResolver(pub(crate) AddressFilter);

impl Resolve for FilteredResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let filter = self.0.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let denied = found.iter().map(SocketAddr::ip).find(|address| !filter.permits(*address));
            let permitted: Vec<SocketAddr> =
                found.into_iter().filter(|address| filter.permits(address.ip())).collect();
            match denied {
                Some(address) if permitted.is_empty() => Err(DeniedAddress(address).into()),
                _ => Ok(Box::new(permitted.into_iter()) as Addrs),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(filter: &AddressFilter, address: &str) -> bool {
        filter.permits(address.parse().unwrap())
    }

    #[test]
    fn link_local_and_metadata_addresses_are_denied_in_every_notation() {
        let filter = AddressFilter::default();
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "fd00:ec2::254",
            "100.100.100.200",
            "0.0.0.0",
            "::",
            "255.255.255.255",
            "224.0.0.1",
        ] {
            assert!(!permits(&filter, address), "{address}");
        }
        for address in ["127.0.0.1", "192.168.1.20", "8.8.8.8", "2001:db8::1", "fd12::1"] {
            assert!(permits(&filter, address), "{address}");
        }
    }

    #[test]
    fn private_ranges_are_denied_by_setting_and_exceptions_win() {
        let private = AddressFilter { deny_private: true, ..AddressFilter::default() };
        for address in ["127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.0.1", "100.64.0.1", "::1", "fd12::1"]
        {
            assert!(!permits(&private, address), "{address}");
        }
        let exceptions = AddressFilter {
            allow: vec!["10.1.0.0/16".parse().unwrap(), "169.254.7.7".parse().unwrap()],
            deny: vec!["8.8.8.0/24".parse().unwrap()],
            ..private
        };
        assert!(permits(&exceptions, "10.1.2.3") && permits(&exceptions, "169.254.7.7"));
        assert!(!permits(&exceptions, "10.2.0.1") && !permits(&exceptions, "8.8.8.8"));
    }

    #[test]
    fn addresses_in_urls_are_checked_in_every_notation() {
        let filter = AddressFilter::default();
        for url in
            ["http://169.254.169.254/", "http://0xa9fea9fe/", "http://2852039166/", "http://[fe80::1]/"]
        {
            assert!(filter.check_url(&url.parse().unwrap()).is_err(), "{url}");
        }
        assert!(filter.check_url(&"http://example.com/".parse().unwrap()).is_ok());
    }
}
