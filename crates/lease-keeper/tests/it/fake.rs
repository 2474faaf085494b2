//! A store in memory that obeys the rules and fails on demand.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_lease::rules::{self, ActiveReign, ClaimContext, Entry, State, Verdict};
use tenure_lease::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, End, Error, Event, Fence, Floor,
    Generation, Grant, Holder, Key, Lease, Leases, LogEntry, Op, Page, Phase, Prefix, Query, Record, Records,
    Refusal, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked, Status, Tick,
    Token, Transfer, Transferred, Ttl, Verb, Verified, Watch, Watched, Wipe, Wiped, fallback,
};
use tokio::sync::{Notify, broadcast};

use crate::faults::{self, Faults};

pub(crate) struct FakeStore {
    clock: Arc<dyn Clock>,
    state: Mutex<StoreState>,
    changed: Notify,
    events: broadcast::Sender<Event>,
    pub(crate) faults: Faults,
    calls: Mutex<Vec<Call>>,
}

/// A call as the store saw it arrive.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) verb: &'static str,
    pub(crate) keys: Vec<String>,
    pub(crate) at: Tick,
}

#[derive(Default)]
struct StoreState {
    entries: BTreeMap<Key, Entry>,
    spent: Vec<(Key, [u8; 16])>,
    ended: BTreeMap<(Key, Generation), End>,
    queue: BTreeMap<Key, Vec<(u64, Claim)>>,
    tickets: u64,
    revision: u64,
}

impl FakeStore {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            state: Mutex::default(),
            changed: Notify::new(),
            events: broadcast::Sender::new(1_024),
            faults: Faults::default(),
            calls: Mutex::default(),
        }
    }

    /// The calls of one verb so far.
    pub(crate) fn calls(&self, verb: &str) -> Vec<Call> {
        self.calls.lock().iter().filter(|call| call.verb == verb).cloned().collect()
    }

    /// The holder of a key.
    pub(crate) fn holder(&self, key: &str) -> Option<(Holder, Generation)> {
        let state = self.state.lock();
        let tenant = state.entries.get(key)?.live(self.clock.now())?;
        Some((tenant.holder.clone(), tenant.generation))
    }

    /// How many claims are parked on a key.
    pub(crate) fn parked(&self, key: &str) -> usize {
        self.state.lock().queue.get(key).map_or(0, Vec::len)
    }

    /// Ends the reign over a key from outside.
    pub(crate) fn end(&self, key: &str, end: End) {
        let key = Key::new(key).unwrap();
        self.finish(&mut self.state.lock(), &key, end, State::Free);
    }

    /// Shortens the TTL of a live reign, as a renewal by another copy of its holder may.
    pub(crate) fn shorten(&self, key: &str, ttl: Ttl) {
        let mut state = self.state.lock();
        let Some(Entry { state: State::Held(tenant), .. }) = state.entries.get_mut(key) else { panic!() };
        tenant.ttl = ttl;
        tenant.expires = self.clock.now() + ttl.as_duration();
    }

    fn arrive(&self, verb: &'static str, keys: Vec<String>) -> Option<faults::Kind> {
        let fault = self.faults.draw(verb, &keys);
        self.calls.lock().push(Call { verb, keys, at: self.clock.now() });
        fault
    }

    fn finish(&self, state: &mut StoreState, key: &Key, end: End, next: State) {
        let Some(entry) = state.entries.get_mut(key) else { return };
        let State::Held(tenant) = std::mem::replace(&mut entry.state, next) else { return };
        state.ended.insert((key.clone(), tenant.generation), end);
        if end.spends_token() {
            state.spent.push((key.clone(), tenant.digest.short()));
        }
        self.tell(state, key, Verb::Ended(end), &tenant);
    }

    fn tell(&self, state: &mut StoreState, key: &Key, verb: Verb, tenant: &ActiveReign) {
        state.revision += 1;
        let event = Event {
            revision: Revision::new(state.revision),
            at: self.clock.wall(),
            key: key.clone(),
            verb,
            holder: Some(tenant.holder.clone()),
            generation: Some(tenant.generation),
        };
        self.events.send(event).ok();
        self.changed.notify_waiters();
    }

    fn grant(&self, state: &mut StoreState, claim: &Claim) -> Result<Lease> {
        let last = state.entries.entry(claim.key.clone()).or_default().last;
        let generation = Generation::next(last, Floor::default())?;
        let tenant = ActiveReign {
            holder: claim.holder.clone(),
            digest: *claim.token.digest(),
            generation,
            ttl: claim.ttl,
            expires: self.clock.now() + claim.ttl.as_duration(),
            since: self.clock.wall(),
            meta: claim.meta.clone(),
            origin: claim.origin,
        };
        let entry = Entry { last: Some(generation), state: State::Held(tenant.clone()) };
        state.entries.insert(claim.key.clone(), entry);
        self.tell(state, &claim.key, Verb::Granted, &tenant);
        let (key, holder, ttl) = (claim.key.clone(), claim.holder.clone(), claim.ttl);
        Ok(Lease { key, holder, generation, ttl })
    }

    /// Decides a claim; `ticket` is its place in the queue, if it has one.
    fn decide(&self, claim: &Claim, ticket: Option<u64>) -> Result<Acquired> {
        let mut state = self.state.lock();
        let now = self.clock.now();
        let queue = state.queue.get(&claim.key).map_or(&[][..], Vec::as_slice);
        let ahead = queue.iter().take_while(|(number, _)| Some(*number) != ticket).count() as u32;
        let spent = state.spent.contains(&(claim.key.clone(), claim.token.digest().short()));
        let entry = state.entries.entry(claim.key.clone()).or_default();
        let parked = ticket.is_some();
        match rules::acquire(entry, claim, now, ClaimContext { spent, ahead, foreign: false }) {
            Verdict::Grant => Ok(Acquired::Granted(Grant { lease: self.grant(&mut state, claim)?, parked })),
            Verdict::Supersede => {
                self.finish(&mut state, &claim.key, End::Superseded, State::Free);
                Ok(Acquired::Granted(Grant { lease: self.grant(&mut state, claim)?, parked }))
            }
            Verdict::Refresh => {
                let State::Held(tenant) = &mut entry.state else { unreachable!() };
                // A parked grant was made by the release before it, and its TTL runs from then.
                if !parked {
                    tenant.expires = now + claim.ttl.as_duration();
                }
                let (key, holder) = (claim.key.clone(), tenant.holder.clone());
                let lease = Lease { key, holder, generation: tenant.generation, ttl: tenant.ttl };
                Ok(Acquired::Granted(Grant { lease, parked }))
            }
            Verdict::Busy(busy) => Ok(Acquired::Busy(busy)),
            Verdict::Spent => Err(Refusal::TokenSpent.into()),
        }
    }

    /// Waits in the queue of a key.
    async fn park(&self, claim: &Claim, end: Tick) -> Result<Acquired> {
        let place = QueuePosition::take(self, claim);
        loop {
            let changed = self.changed.notified();
            let answer = self.decide(claim, Some(place.number))?;
            let now = self.clock.now();
            if matches!(answer, Acquired::Granted(_)) || now >= end {
                return Ok(answer);
            }
            let next = self.state.lock().entries.get(&claim.key).and_then(Entry::next_change);
            let next = next.filter(|at| *at > now).unwrap_or(end).min(end);
            tokio::select! {
                biased;
                () = changed => {}
                () = self.clock.sleep_until(next) => {}
            }
        }
    }

    fn renew_one(&self, state: &mut StoreState, item: &Renewal) -> Renewed {
        let now = self.clock.now();
        let entry = state.entries.entry(item.key.clone()).or_default();
        match rules::renew(entry, item.token.digest(), item.generation, now) {
            Ok(()) => {
                let State::Held(tenant) = &mut entry.state else { unreachable!() };
                tenant.expires = now + tenant.ttl.as_duration();
                Renewed::Renewed { remaining: tenant.ttl.as_duration() }
            }
            Err(Some(end)) => Renewed::Lost(end),
            Err(None) => {
                let ended = state.ended.get(&(item.key.clone(), item.generation));
                Renewed::Lost(ended.copied().unwrap_or(End::Expired))
            }
        }
    }

    /// Grants a key to a waiting successor, if there is one.
    fn grant_to(&self, state: &mut StoreState, key: &Key, to: &Holder, end: End) -> Option<Lease> {
        let queue = state.queue.get(key)?;
        let claim = queue.iter().map(|(_, claim)| claim).find(|claim| claim.holder == *to)?.clone();
        self.finish(state, key, end, State::Free);
        self.grant(state, &claim).ok()
    }

    fn status(&self, state: &StoreState, key: &Key) -> Status {
        let now = self.clock.now();
        let entry = state.entries.get(key).cloned().unwrap_or_default();
        let (phase, remaining) = entry.phase(now);
        let live = entry.live(now);
        Status {
            key: key.clone(),
            phase,
            holder: live.map(|tenant| tenant.holder.clone()),
            generation: entry.last,
            remaining,
            meta: live.map(|tenant| tenant.meta.clone()).unwrap_or_default(),
            since: live.map(|tenant| tenant.since),
            waiters: state.queue.get(key).map_or(0, Vec::len) as u32,
        }
    }
}

/// A queue position; dropped with the claim.
struct QueuePosition<'f> {
    fake: &'f FakeStore,
    key: Key,
    number: u64,
}

impl<'f> QueuePosition<'f> {
    fn take(fake: &'f FakeStore, claim: &Claim) -> Self {
        let mut state = fake.state.lock();
        state.tickets += 1;
        let number = state.tickets;
        state.queue.entry(claim.key.clone()).or_default().push((number, claim.clone()));
        Self { fake, key: claim.key.clone(), number }
    }
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        let mut state = self.fake.state.lock();
        if let Some(queue) = state.queue.get_mut(&self.key) {
            queue.retain(|(number, _)| *number != self.number);
        }
        self.fake.changed.notify_waiters();
    }
}

#[async_trait]
impl Leases for FakeStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::in_process("fake")
    }

    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        let fault = self.arrive("acquire", vec![claim.key.to_string()]);
        faults::before(fault, &*self.clock).await?;
        let end = self.clock.now() + claim.wait.unwrap_or_default();
        let answer = match self.decide(&claim, None)? {
            Acquired::Busy(_) if claim.wait.is_some() => self.park(&claim, end).await?,
            answer => answer,
        };
        faults::after(fault, &*self.clock, answer).await
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        let fault = self.arrive("renew", items.iter().map(|item| item.key.to_string()).collect());
        faults::before(fault, &*self.clock).await?;
        let answers = {
            let mut state = self.state.lock();
            let renew = |item: &Renewal| match self.faults.draw("renew item", &[item.key.to_string()]) {
                Some(_) => Err(Error::unavailable("fake", "injected")),
                None => Ok(self.renew_one(&mut state, item)),
            };
            items.iter().map(renew).collect()
        };
        faults::after(fault, &*self.clock, answers).await
    }

    async fn release(&self, release: Release) -> Result<Released> {
        let fault = self.arrive("release", vec![release.key.to_string()]);
        faults::before(fault, &*self.clock).await?;
        let answer = {
            let (mut state, now) = (self.state.lock(), self.clock.now());
            let entry = state.entries.entry(release.key.clone()).or_default();
            if rules::release(entry, release.token.digest(), release.generation, now) {
                let handed = release
                    .to
                    .as_ref()
                    .and_then(|to| self.grant_to(&mut state, &release.key, to, End::Released));
                if handed.is_none() {
                    let until = now + crate::fixture::ms(tenure_lease::limits::RESERVATION_MS);
                    let next = release.to.map_or(State::Free, |to| State::Reserved { to, until });
                    self.finish(&mut state, &release.key, End::Released, next);
                }
                Released::Released
            } else {
                state.spent.push((release.key.clone(), release.token.digest().short()));
                Released::NotHeld
            }
        };
        faults::after(fault, &*self.clock, answer).await
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        let fault = self.arrive("transfer", vec![transfer.key.to_string()]);
        faults::before(fault, &*self.clock).await?;
        let answer = {
            let (mut state, now) = (self.state.lock(), self.clock.now());
            let entry = state.entries.entry(transfer.key.clone()).or_default();
            match rules::transfer(entry, transfer.token.digest(), transfer.generation, now) {
                false => Transferred::NotHeld,
                true => match self.grant_to(&mut state, &transfer.key, &transfer.to, End::Transferred) {
                    Some(lease) => Transferred::Transferred(lease),
                    None => Transferred::NoSuccessor,
                },
            }
        };
        faults::after(fault, &*self.clock, answer).await
    }

    async fn revoke(&self, _: Revoke) -> Result<Revoked> {
        Err(Error::unavailable("fake", "use end()"))
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        let state = self.state.lock();
        let entry = state.entries.get(key).cloned().unwrap_or_default();
        Ok(rules::verify(&entry, token.digest(), false, self.clock.now()))
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        Ok(self.status(&self.state.lock(), key))
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        let fault = self.arrive("list", vec![query.prefix.to_string()]);
        faults::before(fault, &*self.clock).await?;
        let state = self.state.lock();
        let keys = state.entries.keys().filter(|key| key.starts_with(&query.prefix));
        let keys = keys.filter(|key| query.after.as_ref().is_none_or(|after| *key > after));
        let mut items: Vec<_> = keys.map(|key| self.status(&state, key)).collect();
        items.retain(|status| status.phase != Phase::Free);
        let more = items.len() > query.limit;
        items.truncate(query.limit);
        let next = items.last().filter(|_| more).map(|status| status.key.clone());
        Ok(Page { items, next, revision: Revision::new(state.revision) })
    }

    async fn history(&self, _: &Key) -> Result<Vec<Reign>> {
        Err(Error::unavailable("fake", "keeps no history"))
    }

    async fn watch(&self, prefix: &Prefix, _: Option<Revision>) -> Result<Box<dyn Watch>> {
        let fault = self.arrive("watch", vec![prefix.to_string()]);
        faults::before(fault, &*self.clock).await?;
        Ok(Box::new(Watching { prefix: prefix.clone(), events: self.events.subscribe() }))
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        fallback::watch_any(self, prefixes, from).await
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        self.arrive("wipe", vec![wipe.prefix.to_string()]);
        let (mut state, now) = (self.state.lock(), self.clock.now());
        let gate = state.entries.get(&wipe.gate.key).cloned().unwrap_or_default();
        if !rules::is_gate_proven(&gate, &wipe.gate, now) {
            return Ok(Wiped::Unproven);
        }
        let entries = state.entries.iter();
        let doomed: Vec<_> = entries
            .filter(|(key, entry)| rules::is_wiped(key, entry, &wipe, now))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &doomed {
            self.finish(&mut state, key, End::Wiped, State::Free);
        }
        Ok(Wiped::Wiped { count: doomed.len() })
    }
}

struct Watching {
    prefix: Prefix,
    events: broadcast::Receiver<Event>,
}

#[async_trait]
impl Watch for Watching {
    async fn next(&mut self) -> Result<Watched> {
        loop {
            match self.events.recv().await {
                Ok(event) if event.key.starts_with(&self.prefix) => return Ok(Watched::Event(event)),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return Ok(Watched::Lagged),
                Err(broadcast::error::RecvError::Closed) => return Err(Error::unavailable("fake", "gone")),
            }
        }
    }
}

#[async_trait]
impl Records for FakeStore {
    async fn commit(&self, _: &[Op]) -> Result<Committed> {
        Err(Error::unavailable("fake", "keeps no records"))
    }

    /// Checks the fence and writes nothing.
    async fn write_fenced(&self, fence: &Fence, _: &[Op]) -> Result<Committed> {
        let state = self.state.lock();
        let entry = state.entries.get(&fence.key).cloned().unwrap_or_default();
        Ok(match rules::fence(&entry, fence, false, None, self.clock.now()) {
            Ok(()) => Committed::Written { revision: Revision::new(state.revision) },
            Err(current) => Committed::FencedOut { current },
        })
    }

    async fn get(&self, _: &Key) -> Result<Option<Record>> {
        Ok(None)
    }

    async fn scan(&self, _: &Query) -> Result<Page<Record>> {
        Err(Error::unavailable("fake", "keeps no records"))
    }

    async fn discover(&self, prefix: &Prefix) -> Result<Vec<Record>> {
        fallback::discover(self, prefix).await
    }

    async fn announce(&self, items: &[Announcement]) -> Result<Vec<bool>> {
        fallback::announce(self, items).await
    }

    async fn read_log(&self, _: &Key, _: u64, _: usize) -> Result<Vec<LogEntry>> {
        Err(Error::unavailable("fake", "keeps no records"))
    }
}
