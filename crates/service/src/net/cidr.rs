//! Address ranges.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// A range of addresses, such as `192.168.0.0/16`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cidr {
    network: IpAddr,
    bits: u8,
}

/// An invalid address range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseCidrError(String);

impl Cidr {
    /// An IPv4 range `a.b.0.0/bits`.
    pub const fn v4(a: u8, b: u8, bits: u8) -> Self {
        Self { network: IpAddr::V4(Ipv4Addr::new(a, b, 0, 0)), bits }
    }

    /// An IPv6 range whose first and last groups are given, all others zero.
    pub const fn v6(first: u16, last: u16, bits: u8) -> Self {
        Self { network: IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, last)), bits }
    }

    /// Whether an address is in this range. An IPv4-mapped IPv6 address counts as IPv4.
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
    type Err = ParseCidrError;

    fn from_str(text: &str) -> Result<Self, ParseCidrError> {
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
        parse().ok_or_else(|| ParseCidrError(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.network, self.bits)
    }
}

impl fmt::Display for ParseCidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "invalid address range `{}`; expected for example 192.168.0.0/16", self.0)
    }
}

impl std::error::Error for ParseCidrError {}
