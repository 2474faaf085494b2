//! The instance id of a process, unique to each start.

use tenure_lease::{Clock, Entropy, Holder, Result};

/// Maximum bytes of the host name in an id; the number and the random part need 29 more.
const HOST_MAX: usize = 90;

/// `hostname-bootNanos-8hex`, new at every call.
///
/// `name` replaces the machine's host name. Characters other than printable ASCII become `_`.
pub fn instance_id(name: Option<&str>, clock: &dyn Clock, entropy: &dyn Entropy) -> Result<Holder> {
    let system = rustix::system::uname();
    let host = name.map_or_else(|| system.nodename().to_string_lossy().into_owned(), str::to_owned);
    let mut plain: String = host.chars().map(|c| if c.is_ascii_graphic() { c } else { '_' }).collect();
    plain.truncate(HOST_MAX);
    if plain.is_empty() {
        plain.push_str("host");
    }
    let nanos = u128::from(clock.wall().as_micros()) * 1_000 + u128::from(clock.now().as_nanos() % 1_000);
    let mut random = [0; 4];
    entropy.fill(&mut random);
    Holder::new(format!("{plain}-{nanos}-{:08x}", u32::from_be_bytes(random)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use tenure_keeper::OsEntropy;
    use tenure_store::BootClock;

    use super::*;

    #[test]
    fn ten_thousand_ids_of_one_host_are_unique_and_well_formed() {
        let ids: HashSet<_> =
            (0..10_000).map(|_| instance_id(None, &BootClock, &OsEntropy).unwrap()).collect();
        assert_eq!(ids.len(), 10_000);
        for id in ids {
            let mut parts = id.as_str().rsplitn(3, '-');
            let (hex, nanos, host) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
            assert!(hex.len() == 8 && hex.bytes().all(|b| b.is_ascii_hexdigit()), "{id}");
            assert!(nanos.len() == 19 && nanos.bytes().all(|b| b.is_ascii_digit()), "{id}");
            assert!(!host.is_empty(), "{id}");
        }
    }

    #[test]
    fn a_name_replaces_the_host_and_is_made_printable() {
        let id = instance_id(Some("küche 1"), &BootClock, &OsEntropy).unwrap();
        assert!(id.as_str().starts_with("k_che_1-"), "{id}");
        assert!(instance_id(Some(&"n".repeat(900)), &BootClock, &OsEntropy).is_ok());
        assert!(instance_id(Some(""), &BootClock, &OsEntropy).unwrap().as_str().starts_with("host-"));
    }
}
