//! The state of a store in process: every verb as one synchronous step.
//!
//! The caller holds the lock, gives the time, and passes on what the step leaves in [`Out`]. Nothing here
//! waits, reads a clock or touches a disk.

use std::collections::VecDeque;
use std::time::Duration;

use lease::breaks::{self, Break};
use lease::rules::{self, Around, Entry, Expiry, State, Tenant, Verdict};
use lease::{
    Acquired, Busy, Claim, Clock, Digest, End, Error, Floor, Generation, Grant, Holder, Key, Lease, Origin,
    Phase, Refusal, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked, Status,
    Tick, Transfer, Transferred, Ttl, Verb, Verified, Wall, Wipe, Wiped, limits,
};

use super::data::Data;
use super::foreign::Foreign;
use super::out::{Delivery, Out};
use super::queue::Waiter;
use super::rows::{ReignRow, SlotRow, Table as RowTable};
use super::slots::{Past, Rare, Slot, Slots};
use super::ways::Ways;
use crate::sync::oneshot;

/// The moment of a step, on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) tick: Tick,
    pub(crate) wall: Wall,
}

impl Now {
    pub(crate) fn read(clock: &dyn Clock) -> Self {
        Self { tick: clock.now(), wall: clock.wall() }
    }
}

/// Timers looked at for each reign that may end in one step.
const LOOKS: usize = 4;

/// All leases and records of a store.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) slots: Slots,
    pub(crate) data: Data,
    pub(crate) floor: Floor,
    pub(crate) revision: Revision,
    pub(crate) out: Out,
    ways: Ways,
    pub(crate) freed: VecDeque<(u32, Generation)>,
}

impl Table {
    pub(crate) fn new(floor: Floor, revision: Revision, durable: bool) -> Self {
        Self {
            slots: Slots::default(),
            data: Data::default(),
            floor,
            revision,
            out: Out::new(durable),
            ways: Ways::default(),
            freed: VecDeque::new(),
        }
    }

    pub(crate) fn acquire(&mut self, claim: &Claim, now: Now) -> Result<Acquired> {
        let foreign = self.foreign(&claim.key, now);
        let at = self.slots.find_or_insert(&claim.key);
        self.settle_on_access(at, now)?;
        let digest = claim.token.digest();
        let entry = self.entry(at)?;
        let slot = self.slot(at)?;
        let mut around = Around {
            spent: slot.spent(&digest.short(), now.tick),
            ahead: slot
                .rare()
                .map_or(0, |r| r.queue.position(digest).map_or(r.queue.len() as u32, |p| p - 1)),
            foreign: foreign.is_some(),
        };
        if breaks::broken(Break::Overtake) {
            around.ahead = 0;
        }
        match rules::acquire(&entry, claim, now.tick, around) {
            Verdict::Grant => {
                self.slot(at)?.rare_if_any(|rare| rare.queue.expel(digest));
                self.grant_asked(at, claim, now)
            }
            Verdict::Supersede => {
                self.end_reign(at, End::Superseded, now)?;
                self.grant_asked(at, claim, now)
            }
            Verdict::Refresh => self.refresh(at, claim, now),
            Verdict::Busy(busy) => {
                self.forget_unborn(at);
                Ok(Acquired::Busy(foreign.into_iter().fold(busy, Foreign::shown)))
            }
            Verdict::Spent => Err(Refusal::TokenSpent.into()),
        }
    }

    /// Parks a claim that was busy.
    pub(crate) fn park(&mut self, claim: Claim, told: oneshot::Sender<Grant>) -> Result<()> {
        let at = self.slots.find_or_insert(&claim.key);
        self.slot(at)?.rare_mut().queue.park(claim, told)
    }

    /// Whether a claim is still in the queue.
    pub(crate) fn is_parked(&self, key: &Key, digest: &Digest) -> bool {
        let slot = self.slots.get(key);
        slot.and_then(Slot::rare).is_some_and(|rare| rare.queue.position(digest).is_some())
    }

    /// Takes a claim that nobody waits for any more out of the queue and says what is in its way now.
    pub(crate) fn unpark(&mut self, claim: &Claim, now: Now) -> Result<Acquired> {
        let at = self.slots.find_or_insert(&claim.key);
        let slot = self.slot(at)?;
        let place = slot.rare().and_then(|r| r.queue.position(claim.token.digest())).unwrap_or(1);
        slot.rare_if_any(|rare| rare.queue.cancel(claim.token.digest()));
        Ok(match self.acquire(claim, now)? {
            Acquired::Busy(busy) => Acquired::Busy(Busy { position: place, ..busy }),
            granted => granted,
        })
    }

    /// Whether the answer to this claim is on its way until it was told or lost: then its caller says which. Without
    /// a disk an answer arrives with the step, and what a remote holder was granted stays: the same token will ask
    /// again.
    pub(crate) fn takes_time(&self, claim: &Claim) -> bool {
        self.out.is_durable() && claim.origin == Origin::Local
    }

    /// The caller of a claim heard of its grant.
    pub(crate) fn told(&mut self, lease: &Lease) {
        if let Some(at) = self.slots.find(&lease.key) {
            self.ways.arrive(at, lease.generation);
        }
    }

    /// Forgets a claim that went away before its caller heard of its grant, and gives the key back unless another
    /// claim of that token was told or still waits. The token is not spent by that: its owner may still be alive
    /// and ask again.
    pub(crate) fn lost(&mut self, lease: &Lease, digest: &Digest, now: Now) -> Result<()> {
        let Some(at) = self.slots.find(&lease.key) else { return Ok(()) };
        self.slot(at)?.rare_if_any(|rare| rare.queue.cancel(digest));
        let generation = lease.generation;
        if self.ways.lose(at, generation)
            && rules::release(&self.entry(at)?, digest, Some(generation), now.tick)
        {
            self.end_reign_as(at, End::Released, [0; 16], now)?;
            self.pass_on(at, None, now)?;
        }
        Ok(())
    }

    pub(crate) fn release(&mut self, release: &Release, now: Now) -> Result<Released> {
        let at = self.slots.find_or_insert(&release.key);
        self.settle_on_access(at, now)?;
        let digest = release.token.digest();
        let entry = self.entry(at)?;
        if !rules::release(&entry, digest, release.generation, now.tick) {
            let slot = self.slot(at)?;
            let live = entry.live(now.tick).is_some_and(|t| t.digest == *digest);
            if !live && !slot.spent(&digest.short(), now.tick) && !breaks::broken(Break::NoTombstone) {
                let until = now.tick + Duration::from_millis(limits::TOMBSTONE_MS);
                slot.rare_mut().queue.expel(digest);
                slot.rare_mut().bury(digest.short(), now.tick, until);
                self.slots.arm(at);
            }
            self.forget_unborn(at);
            return Ok(Released::NotHeld);
        }
        self.end_reign(at, End::Released, now)?;
        if !breaks::broken(Break::LostWake) {
            self.pass_on(at, release.to.as_ref(), now)?;
        }
        Ok(Released::Released)
    }

    pub(crate) fn transfer(&mut self, transfer: &Transfer, now: Now) -> Result<Transferred> {
        let Some(at) = self.slots.find(&transfer.key) else { return Ok(Transferred::NotHeld) };
        if !rules::transfer(&self.entry(at)?, transfer.token.digest(), transfer.generation, now.tick) {
            return Ok(Transferred::NotHeld);
        }
        let Some(heir) = self.slot(at)?.rare_mut().queue.pop_holder(&transfer.to) else {
            return Ok(Transferred::NoSuccessor);
        };
        self.end_reign(at, End::Transferred, now)?;
        self.grant_parked(at, heir, now).map(Transferred::Transferred)
    }

    pub(crate) fn revoke(&mut self, revoke: &Revoke, now: Now) -> Result<Revoked> {
        let Some(at) = self.slots.find(&revoke.key) else { return Ok(Revoked::Stale { current: None }) };
        match rules::revoke(&self.entry(at)?, revoke, now.tick) {
            Err(current) => Ok(Revoked::Stale { current }),
            Ok(delay) => {
                self.end_reign(at, End::Revoked, now)?;
                if delay.is_zero() || breaks::broken(Break::NoDelay) {
                    self.pass_on(at, None, now)?;
                } else {
                    self.slots.set(at, State::Delayed { until: now.tick + delay });
                    self.slots.arm(at);
                    self.write_slot(at, now)?;
                }
                Ok(Revoked::Revoked { delay })
            }
        }
    }

    pub(crate) fn wipe(&mut self, wipe: &Wipe, now: Now) -> Result<Wiped> {
        let gate = self.slots.entry_of(&wipe.gate.key);
        let proven = gate.is_some_and(|gate| rules::proven(&gate, &wipe.gate, now.tick));
        if !proven && !breaks::broken(Break::WipeFirst) {
            return Ok(Wiped::Unproven);
        }
        let doomed: Vec<u32> = self
            .slots
            .ordered(wipe.prefix.as_str())
            .map_while(|at| self.slots.at(at).map(|slot| (at, slot)))
            .take_while(|(_, slot)| slot.key.starts_with(&wipe.prefix))
            .filter_map(|(at, slot)| {
                let entry = self.slots.entry(at)?;
                rules::wiped(&slot.key, &entry, wipe, now.tick).then_some(at)
            })
            .take(limits::WIPE + 1)
            .collect();
        if doomed.len() > limits::WIPE {
            return Err(Refusal::TooMany { what: "leases in one wipe", limit: limits::WIPE }.into());
        }
        for at in &doomed {
            self.end_reign(*at, End::Wiped, now)?;
        }
        for at in &doomed {
            self.pass_on(*at, None, now)?;
        }
        Ok(if proven { Wiped::Wiped { count: doomed.len() } } else { Wiped::Unproven })
    }

    pub(crate) fn verify(&self, key: &Key, digest: &Digest, now: Now) -> Verified {
        self.slots.get(key).zip(self.slots.entry_of(key)).map_or(Verified::Wrong, |(slot, entry)| {
            rules::verify(&entry, digest, slot.known(&digest.short(), now.tick), now.tick)
        })
    }

    /// Does what time asks for: ends reigns, delays, reservations and records that are due, at most `most`.
    pub(crate) fn expire(&mut self, now: Now, most: usize) -> Result<usize> {
        let (mut done, mut looks) = (0, most * LOOKS);
        while done < most {
            if let Some(at) = self.slots.due(now.tick, &mut looks) {
                self.settle(at, now)?;
                self.tidy(at, now);
            } else if looks == 0 {
                return Ok(most);
            } else if let Some(key) = self.data.due(now.tick) {
                self.revision = self.revision.next();
                self.data.deleted = self.revision;
                self.out.delete(RowTable::Record, &[key.as_str().as_bytes()]);
                self.out.record_event(self.revision, now.wall, &key, Verb::Deleted);
                self.serve(&key, now)?;
            } else {
                break;
            }
            done += 1;
        }
        Ok(done)
    }

    /// When time next changes something.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        [self.slots.next_due(), self.data.next_due()].into_iter().flatten().min()
    }

    pub(crate) fn slot(&mut self, at: u32) -> Result<&mut Slot> {
        self.slots.at_mut(at).ok_or_else(broken)
    }

    pub(crate) fn entry(&self, at: u32) -> Result<Entry> {
        self.slots.entry(at).ok_or_else(broken)
    }

    /// Brings a slot up to date with the time.
    fn settle(&mut self, at: u32, now: Now) -> Result<()> {
        let entry = self.entry(at)?;
        match rules::expire(&entry, now.tick) {
            Expiry::NotYet => Ok(()),
            Expiry::Reign => {
                if let Some(due) = entry.next_change() {
                    let lag = now.tick.since(due);
                    metrics::histogram!("lease_expiry_lag_ms").record(lag.as_secs_f64() * 1_000.0);
                }
                self.end_reign(at, End::Expired, now)?;
                match breaks::broken(Break::WakeWithoutTimer) {
                    true => self.write_slot(at, now),
                    false => self.pass_on(at, None, now),
                }
            }
            Expiry::Hold => {
                self.slots.set(at, State::Free);
                self.pass_on(at, None, now)
            }
        }
    }

    /// Brings a slot up to date because somebody asks for it: nobody waits for a sweep.
    fn settle_on_access(&mut self, at: u32, now: Now) -> Result<()> {
        if breaks::broken(Break::SweeperOnly) {
            return Ok(());
        }
        if breaks::broken(Break::Overtake) && rules::expire(&self.entry(at)?, now.tick) == Expiry::Reign {
            return self.end_reign(at, End::Expired, now);
        }
        self.settle(at, now)
    }

    /// A known break: a renewal brings back what is gone.
    pub(crate) fn revive(&mut self, at: u32, item: &Renewal, now: Now) -> Result<(Renewed, bool)> {
        let ttl = item.ttl.unwrap_or(Ttl::from_secs(1)?);
        let state = State::Held(Tenant {
            holder: Holder::new("revived")?,
            digest: *item.token.digest(),
            generation: item.generation,
            ttl,
            expires: now.tick + ttl.as_duration(),
            since: now.wall,
            meta: lease::Meta::default(),
            origin: Origin::Remote,
        });
        self.slots.set(at, state);
        self.slots.arm(at);
        Ok((Renewed::Renewed { remaining: ttl.as_duration() }, false))
    }

    /// Ends the running reign and leaves the slot free. Whoever calls decides what comes next and writes it.
    pub(crate) fn end_reign(&mut self, at: u32, end: End, now: Now) -> Result<()> {
        let State::Held(tenant) = self.entry(at)?.state else { return Err(broken()) };
        let token = tenant.digest.short();
        self.end_reign_as(at, end, token, now)
    }

    fn end_reign_as(&mut self, at: u32, end: End, token: [u8; 16], now: Now) -> Result<()> {
        self.revision = self.revision.next();
        let State::Held(tenant) = self.entry(at)?.state else { return Err(broken()) };
        self.slots.set(at, State::Free);
        let slot = self.slots.at_mut(at).ok_or_else(broken)?;
        let who = (&tenant.holder, tenant.generation);
        self.out.lease_event(self.revision, now.wall, &slot.key, Verb::Ended(end), who);
        let past = Past {
            holder: tenant.holder,
            generation: tenant.generation,
            from: tenant.since,
            until: now.wall.max(tenant.since),
            end,
            token,
        };
        let n = slot.rare_mut().remember(past);
        if let Some(past) = slot.rare().and_then(|rare| rare.past.back()) {
            let key = [slot.key.as_str().as_bytes(), &[0], &n.to_be_bytes()];
            self.out.put(RowTable::Reign, &key, &ReignRow::of(past));
        }
        Ok(())
    }

    /// Gives a free slot to the named heir or the head of the queue, reserves it, or leaves it free.
    pub(crate) fn pass_on(&mut self, at: u32, to: Option<&Holder>, now: Now) -> Result<()> {
        let carries = self.carries_record(at, now);
        let slot = self.slot(at)?;
        let next = match to {
            Some(heir) => slot.rare_mut().queue.pop_holder(heir),
            None if carries => None,
            None => slot.rare_if_any(|rare| rare.queue.pop()).flatten(),
        };
        if let Some(waiter) = next {
            return self.grant_parked(at, waiter, now).map(drop);
        }
        if let Some(heir) = to {
            let until = now.tick + Duration::from_millis(limits::RESERVATION_MS);
            self.slots.set(at, State::Reserved { to: heir.clone(), until });
            self.slots.arm(at);
        }
        self.write_slot(at, now)?;
        self.note_free(at, now)
    }

    fn grant_asked(&mut self, at: u32, claim: &Claim, now: Now) -> Result<Acquired> {
        let lease = self.grant(at, claim, now)?;
        if self.takes_time(claim) {
            self.ways.begin(at, lease.generation);
        }
        Ok(Acquired::Granted(Grant { lease, parked: false }))
    }

    pub(crate) fn grant_parked(&mut self, at: u32, waiter: Waiter, now: Now) -> Result<Lease> {
        let lease = self.grant(at, &waiter.claim, now)?;
        self.ways.begin(at, lease.generation);
        let grant = Grant { lease: lease.clone(), parked: true };
        self.out.grants.push(Delivery { told: waiter.told, grant, digest: *waiter.claim.token.digest() });
        Ok(lease)
    }

    fn grant(&mut self, at: u32, claim: &Claim, now: Now) -> Result<Lease> {
        let floor = self.floor;
        let slot = self.slots.at_mut(at).ok_or_else(broken)?;
        let generation = match slot.rare().and_then(|rare| rare.past.back()) {
            Some(past) if past.end == End::Transferred && breaks::broken(Break::TransferKeeps) => {
                past.generation
            }
            _ => Generation::next(slot.last, floor)?,
        };
        slot.last = Some(generation);
        self.revision = self.revision.next();
        let who = (&claim.holder, generation);
        self.out.lease_event(self.revision, now.wall, &slot.key, Verb::Granted, who);
        let reign = State::Held(Tenant {
            holder: claim.holder.clone(),
            digest: *claim.token.digest(),
            generation,
            ttl: claim.ttl,
            expires: now.tick + claim.ttl.as_duration(),
            since: now.wall,
            meta: claim.meta.clone(),
            origin: claim.origin,
        });
        self.slots.set(at, reign);
        self.slots.arm(at);
        self.write_slot(at, now)?;
        let (key, holder) = (claim.key.clone(), claim.holder.clone());
        Ok(Lease { key, holder, generation, ttl: claim.ttl })
    }

    fn refresh(&mut self, at: u32, claim: &Claim, now: Now) -> Result<Acquired> {
        let State::Held(Tenant { holder, generation, .. }) = self.entry(at)?.state else {
            return Err(broken());
        };
        match self.takes_time(claim) {
            true => self.ways.join(at, generation),
            false => self.ways.know(at, generation),
        }
        let ttl = claim.ttl;
        let lease = Lease { key: self.slot(at)?.key.clone(), holder, generation, ttl };
        let terms = self.slots.terms_mut(at);
        terms.ttl = ttl;
        terms.expires = now.tick + ttl.as_duration();
        if terms.outlasts_disk(ttl) {
            self.out.raised = true;
            self.write_slot(at, now)?;
        }
        self.slots.arm(at);
        Ok(Acquired::Granted(Grant { lease, parked: false }))
    }

    pub(crate) fn write_slot(&mut self, at: u32, now: Now) -> Result<()> {
        let entry = self.entry(at)?;
        if matches!(entry.state, State::Held(_)) {
            self.slots.terms_mut(at).set_durable();
        }
        let slot = self.slots.at(at).ok_or_else(broken)?;
        self.out.put(RowTable::Slot, &[slot.key.as_str().as_bytes()], &SlotRow::of(slot, &entry, now.tick));
        Ok(())
    }

    pub(crate) fn status(&self, key: &Key, now: Now) -> Status {
        match self.slots.find(key).and_then(|at| self.status_at(at, now)) {
            Some(status) => status,
            None => Status {
                key: key.clone(),
                phase: Phase::Free,
                holder: None,
                generation: None,
                remaining: None,
                meta: lease::Meta::default(),
                since: None,
                waiters: 0,
            },
        }
    }

    /// What the key at a place is doing.
    pub(crate) fn status_at(&self, at: u32, now: Now) -> Option<Status> {
        self.slots.at(at).zip(self.slots.entry(at)).map(|(slot, entry)| slot.status(entry, now.tick))
    }

    pub(crate) fn history(&self, key: &Key, now: Now) -> Vec<Reign> {
        let Some((slot, entry)) = self.slots.get(key).zip(self.slots.entry_of(key)) else {
            return Vec::new();
        };
        let past = slot.rare().into_iter().flat_map(|rare| rare.past.iter().map(Past::reign));
        let mut reigns: Vec<Reign> = past.chain(running(entry, now)).collect();
        reigns.drain(..reigns.len().saturating_sub(limits::REIGNS));
        reigns
    }
}

impl Slot {
    fn rare_if_any<T>(&mut self, f: impl FnOnce(&mut Rare) -> T) -> Option<T> {
        if self.rare().is_some() { Some(f(self.rare_mut())) } else { None }
    }

    /// Why a reign that is not the running one is over, as far as is remembered.
    pub(crate) fn fate(&self, generation: Generation) -> End {
        let past = self.rare().and_then(|rare| rare.past.iter().find(|past| past.generation == generation));
        match past {
            Some(past) => past.end,
            None if self.last > Some(generation) => End::Superseded,
            None => End::Gone,
        }
    }

    fn status(&self, entry: Entry, now: Tick) -> Status {
        let (phase, remaining) = entry.phase(now);
        let (holder, meta, since) = match (entry.state, phase) {
            (State::Held(t), Phase::Held) => (Some(t.holder), t.meta, Some(t.since)),
            (State::Reserved { to, .. }, Phase::Reserved) => (Some(to), lease::Meta::default(), None),
            _ => (None, lease::Meta::default(), None),
        };
        Status {
            key: self.key.clone(),
            phase,
            holder,
            generation: entry.last,
            remaining,
            meta,
            since,
            waiters: self.waiters(),
        }
    }
}

/// The running reign, or the one that time has ended and no one has looked at since.
fn running(entry: Entry, now: Now) -> Option<Reign> {
    let State::Held(tenant) = entry.state else { return None };
    let over = now.tick >= tenant.expires;
    Some(Reign {
        holder: tenant.holder,
        generation: tenant.generation,
        from: tenant.since,
        until: over.then_some(now.wall),
        end: over.then_some(End::Expired),
    })
}

pub(crate) fn broken() -> Error {
    Error::unavailable("local", "the table contradicts itself; this is a defect of Tenure")
}
