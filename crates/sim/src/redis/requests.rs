//! Requests of the clients: asked, delivered late or not at all, and answered.

use tenure_lease::{
    Acquired, BusyReason, Claim, Generation, Holder, Key, Release, Released, Renewal, Renewed, Result,
    Revoke, RevokeReason, Revoked, Token, Transfer, Transferred, Ttl, Verified,
};
use tenure_store::redis_protocol::acquire::Queue;
use tenure_store::redis_protocol::release::{ReleaseRequest, decode_wake_up};
use tenure_store::redis_protocol::{Instance, WaiterId};

use super::Profile;
use super::client::{Client, hex};
use super::simulation::{BRIEF_CLIENT, BRIEF_TTL_MS, Belief, CLIENTS, KEYS, MS, RedisSimulation};
use crate::disk::operation::{Operation, acquired, failed, id, phase, unknown};
use crate::history::{Answer, Event, Outcome, What};

/// How long after its last request a waiting claim asks again.
const RECHECK: u64 = 500 * MS;
/// How much longer a claim waits in the server than in its process, in milliseconds.
const GRACE_MS: u64 = 2_000;

/// A request on its way.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    op: u64,
    client: usize,
    /// The client as it was when the request was sent.
    state: Client,
    sent: u64,
    ask: Operation,
    /// Of a claim that may wait.
    wait: Option<Wait>,
}

/// The place of a claim in a queue.
#[derive(Clone, Copy, Debug)]
struct Wait {
    waiter: WaiterId,
    instance: Instance,
    /// When the caller stops waiting.
    give_up: u64,
    /// Since when it has been in the queue.
    parked: Option<u64>,
    /// Whether the history says that a grant may have been missed.
    missed: bool,
    /// Whether this request leaves the queue.
    leaves: bool,
}

/// A claim in a queue, between two of its requests.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    op: u64,
    client: usize,
    claim: Claim,
    wait: Wait,
    recheck: u64,
}

/// A message on its way: a waiting claim was granted.
#[derive(Clone, Copy, Debug)]
pub(super) struct WakeUp {
    waiter: WaiterId,
    generation: Generation,
}

fn answer(outcome: Outcome, word: &'static str, generation: Option<Generation>) -> Answer {
    Answer { outcome, word: word.into(), generation: generation.map(Generation::get), why: None }
}

impl RedisSimulation {
    fn ttl(&mut self, client: usize) -> Ttl {
        let ms: &[u64] = match self.profile {
            Profile::Single if client == BRIEF_CLIENT => &[500, BRIEF_TTL_MS],
            Profile::Strict => &[10_000, 15_000, 30_000],
            _ => &[500, 1_500, 4_000, 10_000],
        };
        self.rng.pick(ms).and_then(|ms| Ttl::from_millis(*ms).ok()).unwrap_or(Ttl::MAX)
    }

    fn claim(&mut self, client: usize) -> Option<Claim> {
        let key = Key::new(format!("k/{}", self.rng.below(KEYS))).ok()?;
        let holder = Holder::new(format!("h{client}")).ok()?;
        let claim = Claim::new(key, holder, Token::random(&self.entropy), self.ttl(client)).remote();
        let wait = self.rng.one_in(3).then(|| std::time::Duration::from_millis(self.rng.within(100, 8_000)));
        Some(Claim { wait, ..claim })
    }

    /// A client sends a request.
    pub(super) fn ask(&mut self) {
        if self.flights.len() > 5 {
            return;
        }
        let belief = self.rng.pick(&self.beliefs).cloned();
        let Some((client, ask)) = self.draw(belief) else { return };
        self.send(client, ask);
    }

    /// Clients that lost their connection send their last releases again.
    pub(super) fn repeat_releases(&mut self) {
        for (client, release) in self.releases.clone() {
            if self.rng.one_in(2) {
                self.send(client, Operation::Release(release));
            }
        }
    }

    fn send(&mut self, client: usize, ask: Operation) {
        self.ops += 1;
        let (op, sent) = (self.ops, self.time.now());
        self.note(What::Invoked { op, client: client as u32, call: ask.call() });
        let wait = match &ask {
            Operation::Acquire(claim) => claim.wait.map(|wait| {
                self.waiters += 1;
                Wait {
                    waiter: hex(self.waiters),
                    instance: self.clients[client].instance,
                    give_up: sent + wait.as_nanos() as u64,
                    parked: None,
                    missed: false,
                    leaves: false,
                }
            }),
            _ => None,
        };
        let state = self.clients[client].clone();
        self.flights.push(Flight { op, client, state, sent, ask, wait });
    }

    fn draw(&mut self, belief: Option<Belief>) -> Option<(usize, Operation)> {
        let request = match (self.rng.weighted(&[8, 8, 4, 3, 2, 1, 1, 1, 1, 1]), belief) {
            (1, Some(b)) => {
                let renewal =
                    Renewal { key: b.key, token: b.token, generation: b.generation, ttl: Some(b.ttl) };
                (b.client, Operation::Renew(renewal))
            }
            (2, Some(b)) => {
                self.stop_acting(&b.token);
                let release = self.release(b.key, b.token)?;
                self.releases.push((b.client, release.clone()));
                if self.releases.len() > 4 {
                    self.releases.remove(0);
                }
                (b.client, Operation::Release(release))
            }
            // A client that got no reply sends its release again.
            (8, _) if !self.releases.is_empty() => {
                let at = self.rng.below(self.releases.len() as u64) as usize;
                let (client, release) = self.releases[at].clone();
                (client, Operation::Release(release))
            }
            // The holder is known to be dead. What an order owes to that during a quarantine is not modelled.
            (9, Some(b)) if self.profile != Profile::Strict => {
                self.stop_acting(&b.token);
                let client = self.rng.below(CLIENTS) as usize;
                let claim = Claim { wait: None, key: b.key, ..self.claim(client)? };
                (client, Operation::Acquire(claim.instead_of(b.generation)))
            }
            (3, _) if !self.claims.is_empty() => {
                let at = self.rng.below(self.claims.len() as u64) as usize;
                let (client, claim) = self.claims[at].clone();
                (client, Operation::Acquire(claim))
            }
            (4, Some(b)) => (b.client, Operation::Inspect(b.key)),
            (5, Some(b)) => (b.client, Operation::Verify(b.key, b.token)),
            (6, Some(b)) => {
                // Nothing is granted for the rest of the reign, which its holder may believe in.
                let delay = None;
                (
                    b.client,
                    Operation::Revoke(Revoke {
                        key: b.key,
                        generation: b.generation,
                        delay,
                        reason: RevokeReason::default(),
                    }),
                )
            }
            (7, Some(b)) => {
                self.stop_acting(&b.token);
                let to = Holder::new(format!("h{}", self.rng.below(CLIENTS))).ok()?;
                let (key, token, generation) = (b.key, b.token, b.generation);
                (b.client, Operation::Transfer(Transfer { key, token, generation, to }))
            }
            _ => {
                let client = self.rng.below(CLIENTS) as usize;
                let claim = self.claim(client)?;
                self.claims.push((client, claim.clone()));
                if self.claims.len() > 4 {
                    self.claims.remove(0);
                }
                (client, Operation::Acquire(claim))
            }
        };
        Some(request)
    }

    /// A holder that gives a key back does not act on it any more.
    pub(super) fn stop_acting(&mut self, token: &Token) {
        self.beliefs.retain(|belief| belief.token != *token);
        self.given_up.insert(id(token));
    }

    fn release(&mut self, key: Key, token: Token) -> Option<Release> {
        let to = match self.rng.one_in(6) {
            true => Some(Holder::new(format!("h{}", self.rng.below(CLIENTS))).ok()?),
            false => None,
        };
        Some(Release { to, ..Release::new(key, token) })
    }

    /// One of the requests arrives, perhaps long after it was sent, and its reply does or does not.
    pub(super) fn deliver(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        // No two requests arrive at one moment: floors that two masters raise differ by the time between them.
        self.time.advance(MS);
        let at = self.rng.below(self.flights.len() as u64) as usize;
        let flight = self.flights.swap_remove(at);
        let lost = self.rng.one_in(12);
        let answer = match lost && self.rng.one_in(2) {
            true => Some(unknown("lost")),
            false => self.arrive(&flight, lost),
        };
        if let Some(answer) = answer {
            self.note(What::Returned { op: flight.op, answer });
        }
    }

    /// Runs a request. No answer: the claim waits.
    fn arrive(&mut self, flight: &Flight, lost: bool) -> Option<Answer> {
        let mut state = flight.state.clone();
        if !self.cluster.is_master(state.node) {
            // READONLY: it did not happen, and its sender looks for the master.
            self.clients[flight.client].node = self.current;
            return Some(answer(Outcome::Refused, "unavailable", None));
        }
        // A busy server reads its clock a little later than the moment at which the script began.
        let lag = if self.rng.one_in(8) { self.rng.below(3 * MS) } else { 0 };
        self.cluster.set_time_lag(lag / 1_000);
        let result = self.run(&mut state, flight, lost);
        self.cluster.set_time_lag(0);
        self.time.advance(lag);
        self.collect_wake_ups();
        let mine = &mut self.clients[flight.client];
        if mine.node == state.node {
            *mine = state;
        }
        match result {
            _ if lost => Some(unknown("lost")),
            Ok(answer) => answer,
            Err(error) => Some(failed(&error)),
        }
    }

    fn run(&mut self, client: &mut Client, flight: &Flight, lost: bool) -> Result<Option<Answer>> {
        let now = self.now();
        let cluster = &mut self.cluster;
        Ok(Some(match &flight.ask {
            Operation::Acquire(claim) => return self.run_claim(client, flight, claim, lost),
            Operation::Renew(renewal) => {
                let renewed = client.renew(cluster, now, std::slice::from_ref(renewal))?;
                self.finish_renewal(flight.sent, renewal, renewed.first(), lost)
            }
            Operation::Release(release) => {
                let reply = client.release(cluster, now, &ReleaseRequest::from(release.clone()), false)?;
                if !lost && let Some((waiter, generation)) = reply.granted {
                    self.wake_ups.push(WakeUp { waiter, generation });
                }
                match reply.released {
                    Released::Released => answer(Outcome::Ok, "released", None),
                    Released::NotHeld => answer(Outcome::Refused, "not_held", None),
                }
            }
            Operation::Transfer(transfer) => match client.transfer(cluster, now, transfer)? {
                Transferred::Transferred(lease) => answer(Outcome::Ok, "transferred", Some(lease.generation)),
                Transferred::NotHeld => answer(Outcome::Refused, "not_held", None),
                Transferred::NoSuccessor => answer(Outcome::Refused, "no_successor", None),
            },
            Operation::Revoke(revoke) => match client.revoke(cluster, now, revoke)? {
                Revoked::Revoked { .. } => answer(Outcome::Ok, "revoked", None),
                Revoked::Stale { current } => answer(Outcome::Refused, "stale", current),
            },
            Operation::Verify(key, token) => match client.verify(cluster, now, key, token)? {
                Verified::Live { generation, .. } => answer(Outcome::Ok, "live", Some(generation)),
                Verified::Ended => answer(Outcome::Ok, "ended", None),
                Verified::Wrong => answer(Outcome::Ok, "wrong", None),
            },
            Operation::Inspect(key) => {
                let status = client.inspect(cluster, now, key)?;
                answer(Outcome::Ok, phase(status.phase), status.generation)
            }
            Operation::Commit(_) | Operation::Fenced(..) => unknown("not simulated"),
        }))
    }

    fn run_claim(
        &mut self,
        client: &mut Client,
        flight: &Flight,
        claim: &Claim,
        lost: bool,
    ) -> Result<Option<Answer>> {
        let now = self.now();
        let queue = match flight.wait {
            None => Queue::Skip,
            Some(wait) if wait.leaves => Queue::Leave { waiter: wait.waiter },
            Some(wait) => {
                let left = wait.give_up.saturating_sub(self.time.now()) / MS;
                let (waiter, instance) = (wait.waiter, wait.instance);
                Queue::Join { waiter, instance, wait_ms: left + GRACE_MS }
            }
        };
        let mut reply = client.acquire(&mut self.cluster, now, claim, queue)?;
        if lost {
            return Ok(None);
        }
        match (&mut reply, flight.wait) {
            (Acquired::Granted(grant), wait) => {
                grant.parked = wait.is_some_and(|wait| wait.parked.is_some());
                // Where another claim of its token was granted, the place in the queue is left behind.
                if let Some(Wait { parked: Some(since), missed: false, .. }) = wait {
                    self.note_missed_grant(since, flight);
                }
                // The reign may have begun before this request, which then has prolonged it.
                self.granted(flight.client, claim, grant.lease.generation, Some(flight.sent));
            }
            (Acquired::Busy(busy), Some(mut wait)) => {
                if !wait.missed
                    && let Some(since) = wait.parked
                {
                    self.note_missed_grant(since, flight);
                    wait.missed = true;
                }
                if !wait.leaves && busy.reason != BusyReason::NotThatGeneration {
                    let recheck = wait.give_up.min(self.time.now() + RECHECK);
                    wait.parked = wait.parked.or(Some(self.time.now()));
                    let (op, client, claim) = (flight.op, flight.client, claim.clone());
                    self.waiting.push(Waiting { op, client, claim, wait, recheck });
                    return Ok(None);
                }
            }
            _ => {}
        }
        Ok(Some(acquired(&reply)))
    }

    /// A claim that waited and found the key busy again may have been granted in between and have expired before its
    /// client learned of it. The history has a second claim for that, without an answer.
    fn note_missed_grant(&mut self, since: u64, flight: &Flight) {
        self.ops += 1;
        let what = What::Invoked { op: self.ops, client: flight.client as u32, call: flight.ask.call() };
        let at = self.history.events.partition_point(|event| event.at <= since);
        self.history.events.insert(at, Event { at: since, what });
    }

    fn finish_renewal(
        &mut self,
        sent: u64,
        renewal: &Renewal,
        renewed: Option<&Renewed>,
        lost: bool,
    ) -> Answer {
        match renewed {
            Some(Renewed::Renewed { .. }) => {
                if !lost {
                    self.renewed(sent, renewal);
                }
                answer(Outcome::Ok, "renewed", None)
            }
            Some(Renewed::Lost(end)) => {
                if !lost {
                    self.beliefs.retain(|b| b.token != renewal.token || b.generation != renewal.generation);
                }
                Answer { why: Some(end.as_str().into()), ..answer(Outcome::Refused, "lost", None) }
            }
            None => unknown("no reply"),
        }
    }

    /// Takes what the servers published. Now and then a message is lost with its connection.
    pub(super) fn collect_wake_ups(&mut self) {
        for message in self.cluster.take_published() {
            if message.subscribers.is_empty() || self.rng.one_in(10) {
                continue;
            }
            match decode_wake_up(&message.message) {
                Some((waiter, generation)) => self.wake_ups.push(WakeUp { waiter, generation }),
                None => self.fail(format!("unexpected message {:?}", message.message)),
            }
        }
    }

    /// A message arrives, or a waiting claim asks again or gives up.
    pub(super) fn wake(&mut self) {
        let now = self.time.now();
        if !self.wake_ups.is_empty() {
            let at = self.rng.below(self.wake_ups.len() as u64) as usize;
            let WakeUp { waiter, generation } = self.wake_ups.swap_remove(at);
            if let Some(at) = self.waiting.iter().position(|waiting| waiting.wait.waiter == waiter) {
                let Waiting { op, client, claim, .. } = self.waiting.swap_remove(at);
                self.granted(client, &claim, generation, None);
                // A message does not wait for the replicas: the grant counts once a renewal was answered.
                let answer = match self.profile {
                    Profile::Strict => unknown("granted by a message"),
                    _ => answer(Outcome::Ok, "parked", Some(generation)),
                };
                self.note(What::Returned { op, answer });
            }
        }
        let due: Vec<usize> = (0..self.waiting.len()).filter(|at| self.waiting[*at].recheck <= now).collect();
        if let Some(at) = self.rng.pick(&due).copied() {
            let Waiting { op, client, claim, wait, .. } = self.waiting.swap_remove(at);
            let wait = Some(Wait { leaves: now >= wait.give_up, ..wait });
            let state = self.clients[client].clone();
            self.flights.push(Flight { op, client, state, sent: now, ask: Operation::Acquire(claim), wait });
        }
    }
}
