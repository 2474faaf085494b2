//! Plain strings that any program may have written.

use tenure_lease::{Key, Prefix, Record, Refusal, Result, limits};

use super::client::{Client, Retry};
use super::fault::unexpected_reply;
use super::protocol::{record, reply};

/// Keys per step of a scan: more would delay all other clients.
const SCAN_COUNT: usize = 1_000;
/// Most strings read in one call.
const READ_BATCH: usize = 500;

/// A plain string.
pub(super) struct DiscoveredRecord {
    pub(super) record: Record,
    /// Whether it has a TTL.
    pub(super) expires: bool,
}

/// Every plain string under a prefix, ordered by key.
pub(super) async fn discover(client: &Client, prefix: &Prefix) -> Result<Vec<Record>> {
    let keys = scan_keys(client, prefix).await?;
    let records = read_strings(client, &keys).await?;
    check_count(records.len())?;
    Ok(records.into_iter().map(|found| found.record).collect())
}

/// Every key under a prefix, in order. The server walks over all of its keys.
pub(super) async fn scan_keys(client: &Client, prefix: &Prefix) -> Result<Vec<Key>> {
    let pattern = glob_pattern(prefix.as_str());
    let (mut keys, mut cursor) = (Vec::new(), "0".to_owned());
    loop {
        let value = client
            .read(|| {
                let mut cmd = redis::cmd("SCAN");
                cmd.arg(&cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_COUNT);
                cmd
            })
            .await?;
        let [next, found] = reply::exactly(&value, 2)? else { return Err(unexpected_reply("not a scan")) };
        reply::text(next)?.clone_into(&mut cursor);
        // A key that is not a valid name is not shown.
        keys.extend(reply::elements(found)?.iter().filter_map(|key| Key::new(reply::text(key).ok()?).ok()));
        check_count(keys.len() / 2)?;
        if cursor == "0" {
            break;
        }
    }
    // A scan may return a key twice.
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Refuses more records than a discovery returns.
pub(super) fn check_count(records: usize) -> Result<()> {
    match records > limits::DISCOVERY {
        true => Err(Refusal::TooMany { what: "records under a prefix", limit: limits::DISCOVERY }.into()),
        false => Ok(()),
    }
}

/// The strings under these keys, except leases.
pub(super) async fn read_strings(client: &Client, keys: &[Key]) -> Result<Vec<DiscoveredRecord>> {
    let mut records = Vec::with_capacity(keys.len());
    for part in keys.chunks(READ_BATCH) {
        let value = client.call(Retry::Idempotent, |_| record::encode_discover(part)).await?;
        for (value, key) in reply::exactly(&value, part.len())?.iter().zip(part) {
            let found = record::decode_discover(key, value)?;
            records.extend(found.map(|(record, expires)| DiscoveredRecord { record, expires }));
        }
    }
    Ok(records)
}

/// A pattern for every key that begins with `prefix`.
fn glob_pattern(prefix: &str) -> String {
    let mut pattern = String::with_capacity(prefix.len() + 8);
    for c in prefix.chars() {
        if "*?[]\\^".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('*');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_characters_of_a_prefix_are_escaped() {
        assert_eq!(glob_pattern("session:"), "session:*");
        assert_eq!(glob_pattern("a*b[c]?"), "a\\*b\\[c\\]\\?*");
    }
}
