//! A client of the simulated servers: it encodes each verb as the engine does, runs the script, and decodes its reply.

use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Committed, End, Error, Fence, Grant, Key, Lease, LogEntry, Op, Record, Reign, Renewal,
    Renewed, Result, Revoke, Revoked, Status, Tick, Token, Transfer, Transferred, Verified, Wipe, Wiped,
    limits,
};
use tenure_store::redis_protocol::acquire::{self, ClaimReply, ClaimRequest, Queue};
use tenure_store::redis_protocol::release::{self, ReleaseReply, ReleaseRequest};
use tenure_store::redis_protocol::{
    Instance, ScriptCall, ServerIdentity, Value, lease, record, server, status, wake_up_channel,
};

use super::cluster::Cluster;

pub(super) const ENGINE: &str = "simulated redis";
/// How many keys a sweep checks at most.
const SWEEP: usize = 100;

/// The server process that a client is connected to.
#[derive(Clone, Debug)]
struct Connection {
    node: usize,
    run_id: String,
    /// How long that had run when the connection was opened.
    uptime_ms: u64,
    opened: Tick,
    /// Since when the client has not been connected to the process before.
    replaced: Option<Tick>,
}

/// What a client remembers between its calls.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// The server that it calls.
    pub(crate) node: usize,
    number: u64,
    pub(super) instance: Instance,
    /// For how long it asks for a quarantine, where that is less than others do.
    pub(super) quarantine: Option<Duration>,
    connection: Option<Connection>,
}

impl Client {
    /// A client that is connected to nothing yet.
    pub(crate) fn new(node: usize, number: u64) -> Self {
        Self { node, number, instance: hex(number), quarantine: None, connection: None }
    }

    /// The server as the engine describes it to scripts. Connects first where the server is another process than before.
    fn identity(&mut self, cluster: &mut Cluster, now: Tick) -> ServerIdentity {
        let (run_id, uptime_ms) = cluster.identify(self.node);
        let same = |open: &Connection| open.node == self.node && open.run_id == run_id;
        let connection = match self.connection.take() {
            Some(open) if same(&open) => open,
            before => {
                cluster.subscribe(self.node, wake_up_channel(&self.instance), self.number);
                let replaced =
                    before.and_then(|open| if open.run_id == run_id { open.replaced } else { Some(now) });
                Connection { node: self.node, run_id, uptime_ms, opened: now, replaced }
            }
        };
        let since = now.since(connection.opened).as_millis() as u64;
        let identity = ServerIdentity {
            run_id: connection.run_id.clone(),
            uptime_ms: connection.uptime_ms + since,
            quarantine_ms: self.quarantine.unwrap_or(cluster.quarantine).min(cluster.quarantine).as_millis()
                as u64,
            replaced_ms: connection.replaced.map(|since| now.since(since).as_millis() as u64),
        };
        self.connection = Some(connection);
        identity
    }

    /// Runs one script and decodes its reply. A reply that cannot be decoded is recorded as a defect.
    fn call<T>(
        &mut self,
        cluster: &mut Cluster,
        now: Tick,
        encode: impl FnOnce(&ServerIdentity) -> ScriptCall,
        decode: impl FnOnce(&Value) -> Result<T>,
    ) -> Result<T> {
        if !cluster.is_master(self.node) {
            return Err(Error::unavailable(ENGINE, "READONLY: this server is a replica"));
        }
        let call = encode(&self.identity(cluster, now));
        let (value, sure) = cluster.call(self.node, &call);
        let decoded = decode(&value);
        if let Err(error @ Error::Unknown { .. }) = &decoded {
            cluster.defect.get_or_insert(format!("{}: {error}", call.script().name));
        }
        match sure {
            true => decoded,
            false => Err(Error::unknown(ENGINE, "not all replicas have it")),
        }
    }

    /// Opens the store, as an engine does once.
    pub(super) fn open(&mut self, cluster: &mut Cluster, now: Tick) -> Result<()> {
        self.call(cluster, now, server::encode_open, server::decode_open).map(drop)
    }

    /// Brings the keys up to date that are due, as an engine does every second.
    pub(super) fn sweep(&mut self, cluster: &mut Cluster, now: Tick) -> Result<usize> {
        self.call(cluster, now, |server| server::encode_sweep(server, SWEEP), server::decode_sweep)
    }

    pub(super) fn acquire(
        &mut self,
        cluster: &mut Cluster,
        now: Tick,
        claim: &Claim,
        queue: Queue,
    ) -> Result<Acquired> {
        let request = ClaimRequest { queue, ..ClaimRequest::new(claim) };
        let reply = self.call(
            cluster,
            now,
            |server| acquire::encode(server, std::iter::once(&request)),
            |value| acquire::decode(only(value)),
        )?;
        let lease = |generation, ttl, holder| Lease { key: claim.key.clone(), holder, generation, ttl };
        Ok(match reply {
            ClaimReply::Granted(generation) => {
                let lease = lease(generation, claim.ttl, claim.holder.clone());
                Acquired::Granted(Grant { lease, parked: false })
            }
            ClaimReply::Kept(generation, ttl, holder) => {
                Acquired::Granted(Grant { lease: lease(generation, ttl, holder), parked: false })
            }
            ClaimReply::Busy(busy) => Acquired::Busy(busy),
        })
    }

    /// Renews, and asks how those reigns ended that are over.
    pub(super) fn renew(
        &mut self,
        cluster: &mut Cluster,
        now: Tick,
        items: &[Renewal],
    ) -> Result<Vec<Renewed>> {
        let decode = |value: &Value| lease::decode_renew(value, items.len());
        let ttls = self.call(cluster, now, |server| lease::encode_renew(server, items), decode)?;
        let lost: Vec<_> = ttls
            .iter()
            .zip(items)
            .filter(|(ttl, _)| ttl.is_none())
            .map(|(_, item)| (&item.key, item.generation))
            .collect();
        let mut ends = Vec::new();
        if !lost.is_empty() {
            let encode = |server: &ServerIdentity| lease::encode_settle(server, lost.iter().copied());
            ends = self.call(cluster, now, encode, |value| lease::decode_settle(value, lost.len()))?;
        }
        let mut ends = ends.into_iter();
        Ok(ttls
            .into_iter()
            .map(|ttl| match ttl {
                Some(remaining) => Renewed::Renewed { remaining },
                None => Renewed::Lost(ends.next().flatten().unwrap_or(End::Gone)),
            })
            .collect())
    }

    /// Releases. `repeated`: an earlier attempt may have been applied.
    pub(super) fn release(
        &mut self,
        cluster: &mut Cluster,
        now: Tick,
        request: &ReleaseRequest,
        repeated: bool,
    ) -> Result<ReleaseReply> {
        let instance = self.instance;
        self.call(
            cluster,
            now,
            |server| release::encode(server, &instance, std::iter::once(request), repeated),
            |value| release::decode(only(value)),
        )
    }

    pub(super) fn transfer(
        &mut self,
        cluster: &mut Cluster,
        now: Tick,
        transfer: &Transfer,
    ) -> Result<Transferred> {
        let decode = |value: &Value| lease::decode_transfer(transfer, value);
        self.call(cluster, now, |server| lease::encode_transfer(server, transfer), decode)
    }

    pub(super) fn revoke(&mut self, cluster: &mut Cluster, now: Tick, revoke: &Revoke) -> Result<Revoked> {
        let delay = revoke.delay.map(|delay| (delay.as_millis() as u64).min(limits::DELAY_MS));
        let encode =
            |server: &ServerIdentity| lease::encode_revoke(server, &revoke.key, revoke.generation, delay);
        self.call(cluster, now, encode, lease::decode_revoke)
    }

    pub(super) fn verify(
        &mut self,
        cluster: &mut Cluster,
        now: Tick,
        key: &Key,
        token: &Token,
    ) -> Result<Verified> {
        self.call(cluster, now, |_| lease::encode_verify(key, token.digest()), lease::decode_verify)
    }

    pub(super) fn inspect(&mut self, cluster: &mut Cluster, now: Tick, key: &Key) -> Result<Status> {
        let encode = |_: &ServerIdentity| status::encode_inspect(std::slice::from_ref(key));
        self.call(cluster, now, encode, |value| status::decode_inspect(key, only(value)))
    }

    pub(super) fn history(&mut self, cluster: &mut Cluster, now: Tick, key: &Key) -> Result<Vec<Reign>> {
        self.call(cluster, now, |server| status::encode_history(server, key), status::decode_history)
    }

    pub(super) fn wipe(&mut self, cluster: &mut Cluster, now: Tick, wipe: &Wipe) -> Result<Wiped> {
        let encode = |server: &ServerIdentity| lease::encode_wipe(server, &wipe.gate, &wipe.prefix);
        self.call(cluster, now, encode, lease::decode_wipe)
    }

    pub(super) fn commit(
        &mut self,
        cluster: &mut Cluster,
        now: Tick,
        fence: Option<&Fence>,
        ops: &[Op],
    ) -> Result<Committed> {
        Op::check(ops)?;
        let decode = |value: &Value| record::decode_commit(ops, value);
        self.call(cluster, now, |server| record::encode_commit(server, fence, ops), decode)
    }

    pub(super) fn get(&mut self, cluster: &mut Cluster, now: Tick, key: &Key) -> Result<Option<Record>> {
        let encode = |_: &ServerIdentity| record::encode_read(std::slice::from_ref(key));
        self.call(cluster, now, encode, |value| record::decode_read(key, only(value)))
    }

    pub(super) fn read_log(
        &mut self,
        cluster: &mut Cluster,
        now: Tick,
        log: &Key,
        (after, limit): (u64, usize),
    ) -> Result<Vec<LogEntry>> {
        self.call(cluster, now, |_| record::encode_read_log(log, after, limit), record::decode_read_log)
    }
}

/// 16 hexadecimal digits.
pub(super) fn hex(number: u64) -> [u8; 16] {
    std::array::from_fn(|n| b"0123456789abcdef"[(number >> (60 - 4 * n)) as usize & 15])
}

/// The reply to the only item of a call.
fn only(value: &Value) -> &Value {
    match value {
        Value::Array(items) if items.len() == 1 => &items[0],
        other => other,
    }
}
