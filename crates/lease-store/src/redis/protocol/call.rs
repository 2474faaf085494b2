//! A call of a script, ready to be sent.

use redis::Cmd;

use super::Script;

/// A script with its keys and arguments.
pub struct ScriptCall {
    script: &'static Script,
    keys: usize,
    cmd: Cmd,
}

/// A call under construction: first its keys, then its arguments in the order of the script's header.
pub(super) struct CallBuilder {
    script: &'static Script,
    keys: usize,
    cmd: Cmd,
    /// How many arguments have been added.
    added: usize,
}

impl ScriptCall {
    /// The script.
    pub fn script(&self) -> &'static Script {
        self.script
    }

    /// KEYS.
    pub fn keys(&self) -> Vec<Vec<u8>> {
        self.parts().take(self.keys).collect()
    }

    /// ARGV.
    pub fn args(&self) -> Vec<Vec<u8>> {
        self.parts().skip(self.keys).collect()
    }

    /// What follows `EVALSHA sha count`.
    fn parts(&self) -> impl Iterator<Item = Vec<u8>> {
        self.cmd.args_iter().skip(3).map(|arg| match arg {
            redis::Arg::Simple(bytes) => bytes.to_vec(),
            _ => Vec::new(),
        })
    }

    /// The command that calls the script by its digest.
    pub(in crate::redis) fn command(&self) -> &Cmd {
        &self.cmd
    }
}

impl CallBuilder {
    /// A call with these keys.
    pub(super) fn new<K: AsRef<[u8]>>(
        script: &'static Script,
        keys: impl ExactSizeIterator<Item = K>,
    ) -> Self {
        let count = keys.len();
        let mut cmd = Cmd::with_capacity(8 + count * 4, 160 + count * 96);
        cmd.arg("EVALSHA").arg(&script.sha).arg(count);
        for key in keys {
            cmd.arg(key.as_ref());
        }
        Self { script, keys: count, cmd, added: 0 }
    }

    /// Adds an argument.
    pub(super) fn arg(&mut self, name: &str, value: impl AsRef<[u8]>) -> &mut Self {
        self.check(name);
        self.cmd.arg(value.as_ref());
        self
    }

    /// Adds a number.
    pub(super) fn number(&mut self, name: &str, value: u64) -> &mut Self {
        self.check(name);
        self.cmd.arg(value);
        self
    }

    /// Adds a number, or an empty text.
    pub(super) fn optional(&mut self, name: &str, value: Option<u64>) -> &mut Self {
        match value {
            Some(value) => self.number(name, value),
            None => self.arg(name, ""),
        }
    }

    /// Fails a test in which the arguments are not in the order of the header.
    fn check(&mut self, name: &str) {
        debug_assert_eq!(Some(name), self.expected(), "argument {} of {}", self.added + 1, self.script.name);
        self.added += 1;
    }

    fn expected(&self) -> Option<&'static str> {
        let signature = &self.script.signature;
        match self.added.checked_sub(signature.args.len()) {
            None => signature.args.get(self.added).map(String::as_str),
            Some(index) => signature.item.get(index.checked_rem(signature.item.len())?).map(String::as_str),
        }
    }

    /// The finished call.
    pub(super) fn finish(self) -> ScriptCall {
        let signature = &self.script.signature;
        debug_assert!(
            self.added >= signature.args.len()
                && (self.added - signature.args.len()).checked_rem(signature.item.len()).unwrap_or(0) == 0,
            "{} arguments of {}",
            self.added,
            self.script.name
        );
        ScriptCall { script: self.script, keys: self.keys, cmd: self.cmd }
    }
}
