//! Known breaks of the Redis engine: a patched script, or a patched argument of every call.

/// One way to be wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Break {
    /// Generations are counted up by one and nothing else.
    PlainIncrement,
    /// The floor is not raised for another server process.
    KeepsFloor,
    /// An incarnation is identified by the server process alone. A master that was a replica for a while is then taken
    /// for the same as before, though its data was replaced by older data.
    ProcessOnly,
    /// Free keys are granted right after a restart.
    NoQuarantine,
    /// Replies do not wait for the replicas.
    IgnoresWait,
    /// A renewal does not check whether the reign is over.
    RenewsExpired,
    /// A release does not check the token.
    ReleaseUnchecked,
    /// A token that was released is granted again.
    GrantsSpentTokens,
    /// Releases, revocations and wipes hand a key on during a quarantine.
    HandsOnInQuarantine,
    /// A running quarantine is not extended for a client that needs a longer one.
    FirstClientDecides,
    /// The server deletes keys that have a TTL, as it does under an eviction policy.
    Evicts,
}

impl Break {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::PlainIncrement,
        Self::KeepsFloor,
        Self::ProcessOnly,
        Self::NoQuarantine,
        Self::IgnoresWait,
        Self::RenewsExpired,
        Self::ReleaseUnchecked,
        Self::GrantsSpentTokens,
        Self::HandsOnInQuarantine,
        Self::FirstClientDecides,
        Self::Evicts,
    ];

    /// Describes what is wrong, as the end of a sentence about the engine.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::PlainIncrement => "counts generations up by one and nothing else",
            Self::KeepsFloor => "does not raise the floor for another server process",
            Self::ProcessOnly => "takes a master that was a replica for a while for the same as before",
            Self::NoQuarantine => "grants free keys right after a restart",
            Self::IgnoresWait => "replies before the replicas have the change",
            Self::RenewsExpired => "renews a reign that has expired",
            Self::ReleaseUnchecked => "releases without a check of the token",
            Self::GrantsSpentTokens => "grants a token again after its release",
            Self::HandsOnInQuarantine => "hands a key on during a quarantine",
            Self::FirstClientDecides => "lets the first client decide how long a quarantine lasts",
            Self::Evicts => "runs on a server that deletes live leases",
        }
    }

    /// What is replaced in the scripts, and by what.
    const fn patch(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::PlainIncrement => Some((
                "math.max(tonumber(lease.last) or 0, store.floor) + 1",
                "(tonumber(lease.last) or 0) + 1",
            )),
            Self::KeepsFloor => {
                Some(("store.floor = math.min(", "store.floor = floor > 0 and floor or math.min("))
            }
            Self::RenewsExpired => Some((" and fields[3] == values[i] and tonumber(fields[4]) > now", "")),
            Self::ReleaseUnchecked => {
                Some(("lease.state == 'held' and lease.token == token", "lease.state == 'held'"))
            }
            Self::GrantsSpentTokens => Some(("if is_spent(lease, claim.token)", "if false")),
            Self::HandsOnInQuarantine => Some((
                "if store.quarantine > 0 and not (",
                "if store.quarantine > 0 and not ending and not (",
            )),
            Self::FirstClientDecides => Some((
                "if wanted > quarantine_end and wanted > now then",
                "if quarantine_end <= started and wanted > now then",
            )),
            Self::ProcessOnly | Self::NoQuarantine | Self::IgnoresWait | Self::Evicts => None,
        }
    }

    /// A script with this break.
    pub(super) fn apply(self, text: &str) -> String {
        match self.patch() {
            Some((correct, broken)) => text.replace(correct, broken),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_store::redis_protocol::script;

    use super::*;

    #[test]
    fn every_patch_changes_a_script() {
        for how in Break::ALL.into_iter().filter(|how| how.patch().is_some()) {
            let changed = script::all().iter().any(|script| how.apply(&script.text) != script.text);
            assert!(changed, "no script contains what the patch for {how:?} replaces");
        }
    }
}
