//! The server process, and the scripts that concern the whole store.

use redis::Value;
use tenure_lease::{Result, Revision};

use super::ScriptCall;
use super::call::CallBuilder;
use super::reply;
use super::script::{OPEN, REVISION, SWEEP, Script};

/// The server process that a connection ends in, as a client sees it.
#[derive(Clone, Debug)]
pub struct ServerIdentity {
    /// Lives as long as the process.
    pub run_id: String,
    /// How long the process has run, at least.
    pub uptime_ms: u64,
    /// How long this client has free keys not granted after the server was replaced; 0 adds nothing to what others ask for.
    pub quarantine_ms: u64,
    /// How long ago this client came from another process, if it did.
    pub replaced_ms: Option<u64>,
}

impl ServerIdentity {
    /// Writes the arguments that most scripts begin with.
    pub(super) fn write(&self, call: &mut CallBuilder) {
        call.arg("run_id", &self.run_id)
            .number("uptime_ms", self.uptime_ms)
            .number("quarantine_ms", self.quarantine_ms)
            .optional("replaced_ms", self.replaced_ms);
    }

    /// A call that begins with them.
    pub(super) fn call<K: AsRef<[u8]>>(
        &self,
        script: &'static Script,
        keys: impl ExactSizeIterator<Item = K>,
    ) -> CallBuilder {
        let mut call = CallBuilder::new(script, keys);
        self.write(&mut call);
        call
    }
}

fn no_keys() -> std::iter::Empty<&'static str> {
    std::iter::empty()
}

/// Opens the store: from here on generations are greater than any that was minted elsewhere before.
pub fn encode_open(server: &ServerIdentity) -> ScriptCall {
    server.call(&OPEN, no_keys()).finish()
}

/// The last revision.
pub fn decode_open(value: &Value) -> Result<Revision> {
    reply::revision(OPEN.read(value)?.text("revision")?)
}

/// Reads the last revision.
pub fn encode_revision(server: &ServerIdentity) -> ScriptCall {
    server.call(&REVISION, no_keys()).finish()
}

/// The last revision.
pub fn decode_revision(value: &Value) -> Result<Revision> {
    reply::revision(REVISION.read(value)?.text("revision")?)
}

/// Brings at most `limit` keys up to date that are due.
pub fn encode_sweep(server: &ServerIdentity, limit: usize) -> ScriptCall {
    let mut call = server.call(&SWEEP, no_keys());
    call.number("limit", limit as u64);
    call.finish()
}

/// How many keys were checked.
pub fn decode_sweep(value: &Value) -> Result<usize> {
    SWEEP.read(value)?.count("count")
}
