//! The scripts.
//!
//! Each begins with a [header](super::header) that names its keys, arguments and replies. The Lua that binds arguments to
//! names is generated from it; on this side each argument is encoded, and each field of a reply decoded, under its name.
//! So an order that differs between the two fails at once.

use std::sync::LazyLock;

use redis::Value;
use tenure_lease::{Result, breaks};

use super::header::{self, Signature};
use super::reply::Fields;
use crate::redis::fault::unexpected_reply;

/// A script as the server gets it.
#[derive(Debug)]
pub struct Script {
    /// Its name, for errors.
    pub name: &'static str,
    /// Its full text.
    pub text: String,
    /// The SHA-1 of the text, by which it is called.
    pub sha: String,
    /// What its header declares.
    pub signature: Signature,
}

/// The libraries, in the order in which they are placed before a script.
const LIBS: [(&str, &str); 2] = [
    ("store", include_str!("../../scripts/lib/store.lua")),
    ("lease", include_str!("../../scripts/lib/lease.lua")),
];

impl Script {
    fn new(name: &'static str, body: &'static str) -> Self {
        let signature = Signature::parse(body);
        let text = breaks::patched(header::assemble(&signature, &LIBS, body));
        let sha = redis::Script::new(&text).get_hash().to_owned();
        Self { name, text, sha, signature }
    }

    /// Reads a reply by the shape that its tag names.
    pub(super) fn read<'a>(&'a self, value: &'a Value) -> Result<Fields<'a>> {
        let parts = super::reply::elements(value)?;
        let (tag, values) = parts.split_first().ok_or_else(|| unexpected_reply("an empty array"))?;
        let tag = super::reply::text(tag)?;
        let shape = self.signature.replies.iter().find(|shape| shape.tag == tag);
        let shape = shape.ok_or_else(|| unexpected_reply(&format!("{}: {tag:?}", self.name)))?;
        let expected = shape.fields.len();
        if values.len() < expected || (values.len() > expected && !shape.list) {
            let why = format!("{}: {tag} with {} fields, not {expected}", self.name, values.len());
            return Err(unexpected_reply(&why));
        }
        Ok(Fields { shape, values })
    }
}

macro_rules! scripts {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $(
            $(#[$doc])*
            pub static $name: LazyLock<Script> = LazyLock::new(|| {
                Script::new($file, include_str!(concat!("../../scripts/", $file, ".lua")))
            });
        )*

        /// Every script there is.
        pub fn all() -> Vec<&'static Script> {
            vec![$(&*$name),*]
        }
    };
}

scripts! {
    /// Claims keys.
    ACQUIRE = "acquire";
    /// Publishes and stores messages under leases.
    ANNOUNCE = "announce";
    /// Writes records and logs.
    COMMIT = "commit";
    /// Reads plain strings of any program.
    DISCOVER = "discover";
    /// Lists the reigns of a key.
    HISTORY = "history";
    /// Describes keys.
    INSPECT = "inspect";
    /// Opens the store.
    OPEN = "open";
    /// Reads entries of a log.
    READ_LOG = "read_log";
    /// Reads records.
    READ_RECORDS = "read_records";
    /// Releases keys.
    RELEASE = "release";
    /// Renews leases.
    RENEW = "renew";
    /// Reads the last revision.
    REVISION = "revision";
    /// Ends a reign by force.
    REVOKE = "revoke";
    /// Brings keys up to date.
    SETTLE = "settle";
    /// Brings all keys up to date that are due.
    SWEEP = "sweep";
    /// Hands a key to a waiting successor.
    TRANSFER = "transfer";
    /// Says what a token is to a key.
    VERIFY = "verify";
    /// Ends every reign under a prefix.
    WIPE = "wipe";
}

#[cfg(test)]
mod tests {
    use super::super::header::ReplyShape;
    use super::*;

    fn body(script: &Script) -> String {
        let path = format!("{}/src/scripts/{}.lua", env!("CARGO_MANIFEST_DIR"), script.name);
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn every_file_of_scripts_is_a_declared_script() {
        let folder = format!("{}/src/scripts", env!("CARGO_MANIFEST_DIR"));
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".lua").map(str::to_owned))
            .collect();
        files.sort_unstable();
        assert_eq!(files, all().iter().map(|script| script.name).collect::<Vec<_>>());
    }

    #[test]
    fn every_patch_of_a_known_break_changes_a_script() {
        for (what, correct, _) in breaks::PATCHES {
            let applies = all().iter().any(|script| script.text.contains(correct));
            assert!(applies || breaks::broken(*what), "no script contains what {what:?} replaces");
        }
    }

    #[test]
    fn every_script_takes_its_items_in_the_order_of_its_header() {
        for script in all() {
            let body = body(script);
            let item = &script.signature.item;
            assert_eq!(item.is_empty(), !body.contains("item(i)"), "{}", script.name);
            for line in body.lines().filter(|line| line.contains(" = item(i)")) {
                let names = line.trim().strip_prefix("local ").unwrap().split(" = ").next().unwrap();
                for (given, declared) in names.split(", ").zip(item) {
                    assert!(given == "_" || given == declared, "{}: {given} is {declared}", script.name);
                }
            }
        }
    }

    #[test]
    fn every_declared_reply_is_made_with_its_fields_and_no_other_is() {
        for script in all() {
            let body = body(script);
            let replies = &script.signature.replies;
            assert!(!replies.is_empty(), "{}", script.name);
            for ReplyShape { tag, .. } in replies {
                assert!(body.contains(&format!("'{tag}'")), "{}: {tag}", script.name);
            }
            for made in body.split("{ '").skip(1) {
                let (tag, rest) = made.split_once('\'').unwrap();
                let shape = replies.iter().find(|shape| shape.tag == tag);
                let shape = shape.unwrap_or_else(|| panic!("{}: {tag} is not declared", script.name));
                assert_eq!(top_level_commas(rest), shape.fields.len(), "{}: {tag}", script.name);
            }
        }
    }

    /// Commas before the brace that closes a table, outside of parentheses.
    fn top_level_commas(text: &str) -> usize {
        let (mut depth, mut commas) = (0, 0);
        for c in text.chars() {
            match c {
                '(' | '{' => depth += 1,
                ')' => depth -= 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => commas += 1,
                _ => {}
            }
        }
        commas
    }

    #[test]
    fn functions_fit_on_a_screen() {
        for (name, text) in all()
            .iter()
            .map(|script| (script.name, body(script)))
            .chain(LIBS.iter().map(|(name, text)| (*name, (*text).to_owned())))
        {
            let mut start = None;
            for (number, line) in text.lines().enumerate() {
                if line.starts_with("local function ") {
                    start = Some(number);
                } else if line == "end"
                    && let Some(start) = start.take()
                {
                    assert!(number - start < 40, "{name}:{}", start + 1);
                }
            }
        }
    }
}
