//! What the header of a script declares, and the Lua that is generated from it.
//!
//! A header is made of comments at the head of a script:
//!
//! ```text
//! --@libs store lease      the files under lib/ that are placed before the script
//! --@keys key...           for readers only
//! --@args name...          ARGV, in this order; the script uses them as local variables
//! --@item name...          ARGV once per key, after the arguments; the script reads them with item(i)
//! --@reply tag name...     a reply, or the reply to one item: the tag, then these fields; `name...` is a list
//! ```
//!
//! `cargo xtask test` includes this file to check the scripts as they are sent, so it depends on nothing else.

use std::fmt::Write;

/// The header of a script.
#[derive(Default, Debug)]
pub struct Signature {
    /// The names of the arguments.
    pub args: Vec<String>,
    /// The names of the arguments of each item.
    pub item: Vec<String>,
    /// The replies.
    pub replies: Vec<ReplyShape>,
    libs: Vec<String>,
}

/// One form of a reply.
#[derive(Debug)]
pub struct ReplyShape {
    /// Its first element.
    pub tag: String,
    /// The names of the elements after the tag.
    pub fields: Vec<String>,
    /// Whether any number of elements follow.
    pub list: bool,
}

impl Signature {
    /// Reads the header of a script.
    pub fn parse(body: &str) -> Self {
        let mut signature = Self::default();
        for line in body.lines() {
            let Some((kind, rest)) =
                line.strip_prefix("--@").map(|line| line.split_once(' ').unwrap_or((line, "")))
            else {
                continue;
            };
            let mut words = rest.split_whitespace().map(str::to_owned);
            match kind {
                "libs" => signature.libs = words.collect(),
                "args" => signature.args = words.collect(),
                "item" => signature.item = words.collect(),
                "reply" => {
                    let tag = words.next().unwrap_or_default();
                    let mut fields: Vec<_> = words.collect();
                    let list = fields.last().is_some_and(|last| last.ends_with("..."));
                    fields.truncate(fields.len() - usize::from(list));
                    signature.replies.push(ReplyShape { tag, fields, list });
                }
                _ => {}
            }
        }
        signature
    }

    /// The Lua that gives arguments their names.
    fn bindings(&self) -> String {
        let mut lua = String::new();
        for (name, index) in self.args.iter().zip(1..) {
            let _ = writeln!(lua, "local {name} = ARGV[{index}]");
        }
        if !self.item.is_empty() {
            let values: Vec<_> = (1..=self.item.len()).map(|index| format!("ARGV[at + {index}]")).collect();
            let _ = writeln!(lua, "local function item(i)");
            let _ = writeln!(lua, "  local at = {} + (i - 1) * {}", self.args.len(), self.item.len());
            let _ = writeln!(lua, "  return {}", values.join(",\n    "));
            let _ = writeln!(lua, "end");
        }
        lua
    }
}

/// The text of a script as the server gets it: its libraries, names for its arguments, and the script itself.
pub fn assemble(signature: &Signature, libs: &[(&str, &str)], body: &str) -> String {
    let mut text = String::new();
    for (_, lib) in libs.iter().filter(|(name, _)| signature.libs.iter().any(|lib| lib == name)) {
        text.push_str(lib);
    }
    text.push_str(&signature.bindings());
    text.push_str(body);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_becomes_names_for_arguments() {
        let signature =
            Signature::parse("-- Adds.\n--@args a b\n--@item x y\n--@reply sum total\n--@reply all n...\n");
        let lua = "local a = ARGV[1]\nlocal b = ARGV[2]\nlocal function item(i)\n  local at = 2 + (i - 1) * 2\n  return \
                   ARGV[at + 1],\n    ARGV[at + 2]\nend\n";
        assert_eq!(signature.bindings(), lua);
        assert_eq!((signature.replies[0].fields.len(), signature.replies[0].list), (1, false));
        assert_eq!((signature.replies[1].fields.len(), signature.replies[1].list), (0, true));
    }
}
