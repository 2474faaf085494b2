//! The scripts, loaded once and called by their digest.

use std::sync::LazyLock;

use redis::Script as Loaded;

/// One script.
pub(super) struct Script {
    /// Its name, for errors and metrics.
    pub(super) name: &'static str,
    /// Its text.
    pub(super) text: String,
    /// Its digest.
    pub(super) sha: String,
    /// Whether what it publishes matters more than its own answer.
    pub(super) tells: bool,
}

/// The scripts whose messages somebody waits for.
const TELLING: [&str; 1] = ["release"];

impl Script {
    fn new(name: &'static str, parts: &[&str]) -> Self {
        let text = parts.join("\n");
        let sha = Loaded::new(&text).get_hash().to_owned();
        Self { name, text, sha, tells: TELLING.contains(&name) }
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal, [$($part:literal),*];)*) => {
        $(
            $(#[$doc])*
            pub(super) static $name: LazyLock<Script> = LazyLock::new(|| {
                Script::new($file, &[
                    $(include_str!(concat!("../scripts/", $part, ".lua")),)*
                    include_str!(concat!("../scripts/", $file, ".lua")),
                ])
            });
        )*
    };
}

scripts! {
    /// Claims.
    ACQUIRE = "acquire", ["head", "known", "acquire_free", "seal", "prelude", "reign"];
    /// Releases.
    RELEASE = "release", ["head", "known", "release_heir", "release_own", "seal", "prelude", "reign"];
    /// Renewals.
    RENEW = "renew", [];
    /// Brings keys up to date.
    TOUCH = "touch", ["head", "prelude", "reign"];
    /// Keys that time may have changed.
    DUE = "due", [];
    /// Hands a key to a parked successor.
    TRANSFER = "transfer", ["head", "prelude", "reign"];
    /// Ends a reign by force.
    REVOKE = "revoke", ["head", "prelude", "reign"];
    /// What keys are doing.
    INSPECT = "inspect", ["head", "prelude"];
    /// The last reigns.
    HISTORY = "history", ["head", "prelude", "reign"];
    /// What a token is to a key.
    VERIFY = "verify", ["head", "prelude"];
    /// Ends every reign under a prefix.
    WIPE = "wipe", ["head", "prelude", "reign"];
    /// The last revision.
    TIP = "tip", ["head", "prelude", "reign"];
    /// Writes of records and logs.
    COMMIT = "commit", ["head", "prelude", "reign"];
    /// Reads of records.
    READ = "read", [];
    /// Reads of logs.
    LOG = "log", [];
    /// Which keys have a TTL.
    ENDING = "ending", [];
    /// News that a lease allows.
    ANNOUNCE = "announce", [];
}
