//! How a server is run, as far as the safety of leases depends on it.

use tenure_lease::breaks::{Break, broken};

use super::connection::info_field;

/// The oldest version with everything that the scripts use.
const MIN_VERSION: (u32, u32) = (7, 0);
/// The only policy under which a server deletes no key by itself.
const NO_EVICTION: &str = "noeviction";

/// What a server says about itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ServerProfile {
    version: String,
    mode: String,
    maxmemory_policy: String,
    persistence: Persistence,
    /// Whether it was a replica before it became a primary. Then its data may be older than its process.
    was_promoted: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Persistence {
    OnDisk,
    Nothing,
    /// The server does not say whether it takes snapshots.
    Unreadable,
}

impl ServerProfile {
    /// Reads the reply to `INFO`, and the setting `save` where the server lets this client read it.
    pub(super) fn parse(info: &str, save: Option<&str>) -> Self {
        let persistence = match (info_field(info, "aof_enabled"), save) {
            ("1", _) => Persistence::OnDisk,
            (_, Some("")) => Persistence::Nothing,
            (_, Some(_)) => Persistence::OnDisk,
            (_, None) => Persistence::Unreadable,
        };
        let earlier = info_field(info, "master_replid2");
        Self {
            version: info_field(info, "redis_version").to_owned(),
            mode: info_field(info, "redis_mode").to_owned(),
            maxmemory_policy: info_field(info, "maxmemory_policy").to_owned(),
            persistence,
            was_promoted: earlier.is_empty() || earlier.bytes().any(|digit| digit != b'0'),
        }
    }

    /// Whether the uptime of the process says for how long it has taken writes.
    pub(super) fn uptime_counts(&self) -> bool {
        !self.was_promoted
    }

    /// Why leases cannot be kept in such a server, or what its operator should know.
    pub(super) fn check(&self, allow_eviction: bool) -> Result<Vec<String>, String> {
        if version(&self.version).is_none_or(|version| version < MIN_VERSION) {
            let (major, minor) = MIN_VERSION;
            return Err(format!(
                "the server has version {:?}: Redis {major}.{minor} or newer is needed",
                self.version
            ));
        }
        if self.mode == "cluster" {
            return Err("Redis Cluster is not supported: use a server with cluster-enabled no".to_owned());
        }
        let mut warnings = Vec::new();
        if self.maxmemory_policy != NO_EVICTION {
            let policy = match self.maxmemory_policy.as_str() {
                "" => "cannot be read",
                policy => &format!("is {policy}"),
            };
            if !allow_eviction && !broken(Break::AllowsEviction) {
                return Err(format!(
                    "maxmemory-policy {policy}, so the server may delete live leases: set it to {NO_EVICTION}, or \
                     accept that with ?allow_eviction=true"
                ));
            }
            warnings.push(format!(
                "allow_eviction=true: maxmemory-policy {policy}, so the server may delete a live lease and grant it \
                 again"
            ));
        }
        match self.persistence {
            Persistence::OnDisk => {}
            Persistence::Nothing => warnings.push(
                "the server saves nothing to disk (appendonly no, save \"\"): a restart loses all leases and records"
                    .to_owned(),
            ),
            Persistence::Unreadable => warnings.push(
                "the server does not say whether it saves to disk: a restart may lose all leases and records"
                    .to_owned(),
            ),
        }
        Ok(warnings)
    }
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(version: &str, mode: &str, policy: &str, aof: &str) -> String {
        format!(
            "# Server\r\nredis_version:{version}\r\nredis_mode:{mode}\r\n# Memory\r\nmaxmemory_policy:{policy}\r\n\
             # Persistence\r\naof_enabled:{aof}\r\nmaster_replid2:{:040}\r\n",
            0
        )
    }

    fn check(version: &str, mode: &str, policy: &str, allow_eviction: bool) -> Result<Vec<String>, String> {
        ServerProfile::parse(&info(version, mode, policy, "1"), None).check(allow_eviction)
    }

    #[test]
    fn a_server_that_is_too_old_or_may_delete_leases_is_refused_with_the_setting_to_change() {
        for version in ["7.0.0", "7.2.4", "8.0.1", "10.0"] {
            assert_eq!(check(version, "standalone", "noeviction", false), Ok(vec![]), "{version}");
        }
        for version in ["6.2.14", "6.9", "7", "", "unknown"] {
            let refused = check(version, "standalone", "noeviction", true).unwrap_err();
            assert!(refused.contains("7.0 or newer") && refused.contains(version), "{refused}");
        }
        assert!(check("7.0.0", "cluster", "noeviction", true).unwrap_err().contains("cluster-enabled no"));
        for policy in ["volatile-lru", "volatile-ttl", "allkeys-lru", "allkeys-random", ""] {
            let refused = check("7.0.15", "standalone", policy, false).unwrap_err();
            assert!(
                refused.contains("maxmemory-policy") && refused.contains("allow_eviction=true"),
                "{refused}"
            );
            let warnings = check("7.0.15", "standalone", policy, true).unwrap();
            assert!(warnings.len() == 1 && warnings[0].contains("allow_eviction=true"), "{warnings:?}");
        }
    }

    #[test]
    fn a_server_that_saves_nothing_is_named() {
        let warnings = |aof, save| {
            let info = info("7.0.0", "standalone", "noeviction", aof);
            ServerProfile::parse(&info, save).check(false).unwrap().len()
        };
        assert_eq!((warnings("1", Some("")), warnings("0", Some("3600 1"))), (0, 0));
        assert_eq!((warnings("0", Some("")), warnings("0", None)), (1, 1));
    }

    #[test]
    fn the_uptime_of_a_promoted_replica_does_not_count() {
        let info = info("7.0.0", "standalone", "noeviction", "1");
        assert!(ServerProfile::parse(&info, None).uptime_counts());
        let promoted = info.replace("master_replid2:0", "master_replid2:f");
        assert!(!ServerProfile::parse(&promoted, None).uptime_counts());
        assert!(!ServerProfile::parse("", None).uptime_counts(), "unknown is not yes");
    }
}
