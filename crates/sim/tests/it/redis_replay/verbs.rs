//! Random verbs, encoded as the engine encodes them.

use tenure_lease::{
    Announcement, Claim, Fence, Generation, Holder, Key, Mode, Op, Prefix, Proof, Renewal, Revision, Token,
    Transfer, Ttl,
};
use tenure_sim::redis::server::Reply;
use tenure_sim::rng::Rng;
use tenure_store::redis_protocol::acquire::{self, ClaimRequest, Queue};
use tenure_store::redis_protocol::release::{self, ReleaseRequest, ReleaseScope};
use tenure_store::redis_protocol::{
    Instance, ScriptCall, ServerIdentity, WaiterId, lease, record, server, status,
};

/// The processes whose claims wait. The third one listens to nothing.
pub(super) const INSTANCES: [Instance; 2] = [*b"00000000000000a1", *b"00000000000000a2"];
const ABSENT_INSTANCE: Instance = *b"00000000000000a3";

/// Draws calls, mostly with tokens and generations that the servers know.
pub(super) struct Draw {
    pub(super) rng: Rng,
    tokens: Vec<Token>,
    generations: Vec<u64>,
}

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        let token = |n: u64| Token::parse(&format!("{n:032x}")).unwrap();
        Self { rng: Rng::new(seed), tokens: (1..8).map(token).collect(), generations: vec![1] }
    }

    /// Remembers the generations in a reply.
    pub(super) fn learn(&mut self, reply: &Reply) {
        match reply {
            Reply::Array(Some(items)) => items.iter().for_each(|item| self.learn(item)),
            other => {
                let number = other.text().and_then(|text| text.parse::<u64>().ok());
                self.generations.extend(number.filter(|number| (1 << 40..1 << 53).contains(number)));
                let surplus = self.generations.len().saturating_sub(6);
                self.generations.drain(..surplus);
            }
        }
    }

    /// What another program does to the keys of the store.
    pub(super) fn disturbance(&mut self) -> Vec<String> {
        let key = self.key();
        let words: &[&str] = match self.rng.below(6) {
            0 => &["SET", key.as_str(), "foreign"],
            1 => &["SET", key.as_str(), "foreign", "PX", "300"],
            2 => &["DEL", key.as_str()],
            3 => &["RPUSH", key.as_str(), "of another type"],
            4 => &["SET", "record/0", "written by another program"],
            _ => &["DEL", "tenure:events"],
        };
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn key(&mut self) -> Key {
        Key::new(format!("k/{}", self.rng.below(3))).unwrap()
    }

    fn record(&mut self) -> Key {
        // Some operations on records meet a lease.
        match self.rng.chance(20) {
            true => self.key(),
            false => Key::new(format!("record/{}", self.rng.below(3))).unwrap(),
        }
    }

    fn holder(&mut self) -> Holder {
        Holder::new(format!("node-{}", self.rng.below(3))).unwrap()
    }

    fn token(&mut self) -> Token {
        self.tokens[self.rng.below(self.tokens.len() as u64) as usize].clone()
    }

    fn generation(&mut self) -> Generation {
        // Mostly the last one.
        let newest = self.generations.len() - 1;
        let at = if self.rng.chance(60) { newest } else { self.rng.below(newest as u64 + 1) as usize };
        Generation::new(self.generations[at]).unwrap()
    }

    fn ttl(&mut self) -> Ttl {
        Ttl::from_millis(self.rng.pick(&[500, 1_000, 3_000])).unwrap()
    }

    fn waiter(&mut self) -> WaiterId {
        let digits = format!("{:016x}", self.rng.below(6));
        digits.as_bytes().try_into().unwrap()
    }

    fn server(&mut self) -> ServerIdentity {
        ServerIdentity {
            run_id: if self.rng.chance(3) { "other" } else { "process" }.to_owned(),
            uptime_ms: if self.rng.chance(5) { 100 } else { 100_000 },
            quarantine_ms: self.rng.pick(&[0, 300, 300]),
            replaced_ms: self.rng.chance(2).then(|| self.rng.pick(&[0, 2_900])),
        }
    }

    fn fence(&mut self) -> Fence {
        let mode = if self.rng.chance(50) { Mode::Strict } else { Mode::Monotonic };
        Fence { key: self.key(), token: self.token(), generation: self.generation(), mode }
    }

    pub(super) fn call(&mut self) -> ScriptCall {
        let server = self.server();
        match self.rng.below(24) {
            0..=5 => self.acquire(&server),
            6..=8 => self.release(&server),
            9 | 10 => lease::encode_renew(&server, &[self.renewal(), self.renewal()]),
            11 => {
                let (key, generation) = (self.key(), self.generation());
                lease::encode_settle(&server, std::iter::once((&key, generation)))
            }
            12 => {
                let (key, token, generation, to) =
                    (self.key(), self.token(), self.generation(), self.holder());
                lease::encode_transfer(&server, &Transfer { key, token, generation, to })
            }
            13 => {
                let delay = self.rng.pick(&[None, Some(0), Some(400)]);
                lease::encode_revoke(&server, &self.key(), self.generation(), delay)
            }
            14 => lease::encode_verify(&self.key(), self.token().digest()),
            15 => {
                let gate = Proof { key: self.key(), token: self.token(), generation: self.generation() };
                lease::encode_wipe(&server, &gate, &Prefix::new("k/").unwrap())
            }
            16 => status::encode_inspect(&[self.key(), self.record()]),
            17 => status::encode_history(&server, &self.key()),
            18 => server::encode_sweep(&server, 10),
            19 => match self.rng.chance(50) {
                true => server::encode_open(&server),
                false => server::encode_revision(&server),
            },
            _ => self.record_call(&server),
        }
    }

    fn acquire(&mut self, server: &ServerIdentity) -> ScriptCall {
        let claims: Vec<ClaimRequest> = (0..1 + self.rng.below(2))
            .map(|n| {
                let key = Key::new(format!("k/{}", (self.rng.below(2) + n) % 3)).unwrap();
                let claim = Claim::new(key, self.holder(), self.token(), self.ttl());
                let instead_of = if self.rng.chance(10) { Some(self.generation()) } else { None };
                let (waiter, instance) =
                    (self.waiter(), self.rng.pick(&[INSTANCES[0], INSTANCES[1], ABSENT_INSTANCE]));
                let queue = match self.rng.below(4) {
                    0 | 1 => Queue::Skip,
                    2 => Queue::Join { waiter, instance, wait_ms: self.rng.pick(&[100, 2_000]) },
                    _ => Queue::Leave { waiter },
                };
                ClaimRequest { instead_of, queue, ..ClaimRequest::new(&claim) }
            })
            .collect();
        // No two claims of a call have the same key.
        let distinct =
            if claims.len() == 2 && claims[0].key == claims[1].key { &claims[..1] } else { &claims[..] };
        acquire::encode(server, distinct.iter())
    }

    fn release(&mut self, server: &ServerIdentity) -> ScriptCall {
        let request = ReleaseRequest {
            key: self.key(),
            token: *self.token().digest(),
            generation: if self.rng.chance(50) { Some(self.generation()) } else { None },
            successor: if self.rng.chance(30) { Some(self.holder()) } else { None },
            scope: if self.rng.chance(15) { ReleaseScope::QueueOnly } else { ReleaseScope::Lease },
            waiter: if self.rng.chance(20) { Some(self.waiter()) } else { None },
        };
        release::encode(server, &INSTANCES[0], std::iter::once(&request), self.rng.chance(20))
    }

    fn renewal(&mut self) -> Renewal {
        let ttl = if self.rng.chance(50) { Some(self.ttl()) } else { None };
        Renewal { key: self.key(), token: self.token(), generation: self.generation(), ttl }
    }

    fn record_call(&mut self, server: &ServerIdentity) -> ScriptCall {
        let log = Key::new("log").unwrap();
        match self.rng.below(6) {
            0 | 1 => {
                let fence = if self.rng.chance(50) { Some(self.fence()) } else { None };
                let ops: Vec<Op> = (0..1 + self.rng.below(3)).map(|_| self.op()).collect();
                record::encode_commit(server, fence.as_ref(), &ops)
            }
            2 => record::encode_read(&[self.record(), self.record()]),
            3 => record::encode_discover(&[self.record(), self.key()]),
            4 => record::encode_read_log(&log, self.rng.below(4), 2),
            _ => {
                let announcement = Announcement {
                    fence: self.fence(),
                    channel: Key::new("news").unwrap(),
                    message: b"message".as_slice().into(),
                    latest: self.record(),
                    ttl: self.ttl(),
                    log,
                    max_len: 3,
                };
                record::encode_announce(&[announcement])
            }
        }
    }

    fn op(&mut self) -> Op {
        let (key, value) = (self.record(), self.rng.pick(&[&b"one"[..], b"two", b""]).into());
        let ttl = if self.rng.chance(30) { Some(self.ttl()) } else { None };
        match self.rng.below(5) {
            0 => Op::Put { key, value, ttl },
            1 => Op::PutIfAbsent { key, value, ttl },
            2 => {
                let revision = Revision::new(self.generation().get());
                Op::PutIfRevision { key, value, ttl, revision }
            }
            3 => Op::Delete { key },
            _ => Op::Append { log: Key::new("log").unwrap(), value, max_len: 3 },
        }
    }
}
