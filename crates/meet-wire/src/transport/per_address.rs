//! Counts what each address has open, so that one address cannot take every place.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits;

/// A bound per address. Cloning shares the counts.
#[derive(Clone, Debug)]
pub struct AddressLimit {
    most: usize,
    counts: Arc<Mutex<HashMap<Option<IpAddr>, usize>>>,
}

/// A place of an address, until it is dropped.
#[derive(Debug)]
pub struct AddressPermit {
    counts: Arc<Mutex<HashMap<Option<IpAddr>, usize>>>,
    address: Option<IpAddr>,
}

/// An IPv6 network of 64 bits belongs to one customer, and counts as one address.
fn network(address: SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        ip => ip,
    }
}

impl AddressLimit {
    /// At most this many places per address.
    pub fn new(most: usize) -> Self {
        Self { most, counts: Arc::default() }
    }

    /// Takes a place, or `None` when the address has no more. Without an address, one count is shared.
    pub fn take(&self, address: Option<SocketAddr>) -> Option<AddressPermit> {
        let mut counts = self.counts.lock();
        let known = address.map(network);
        let address = known.filter(|ip| counts.contains_key(&Some(*ip)) || counts.len() < limits::ADDRESSES);
        let count = counts.entry(address).or_default();
        if *count >= self.most {
            return None;
        }
        *count += 1;
        Some(AddressPermit { counts: self.counts.clone(), address })
    }
}

impl Drop for AddressPermit {
    fn drop(&mut self) {
        let mut counts = self.counts.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Option<SocketAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn an_address_has_a_bound_of_its_own_until_its_places_are_free() {
        let limit = AddressLimit::new(2);
        let (first, _second) = (limit.take(at("10.0.0.1:1")), limit.take(at("10.0.0.1:2")));
        assert!(limit.take(at("10.0.0.1:3")).is_none());
        assert!(limit.take(at("10.0.0.2:1")).is_some(), "another address is not affected");
        drop(first);
        assert!(limit.take(at("10.0.0.1:3")).is_some());
        assert!(limit.take(None).is_some());
    }

    #[test]
    fn addresses_of_one_ipv6_network_count_as_one() {
        let limit = AddressLimit::new(1);
        let _one = limit.take(at("[2001:db8:0:1::1]:1")).unwrap();
        assert!(limit.take(at("[2001:db8:0:1::2]:1")).is_none());
        assert!(limit.take(at("[2001:db8:0:2::1]:1")).is_some());
        let _mapped = limit.take(at("[::ffff:10.0.0.1]:1")).unwrap();
        assert!(limit.take(at("10.0.0.1:1")).is_none());
    }
}
