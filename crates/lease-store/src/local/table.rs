//! The state of an engine in process: every verb is one synchronous step.
//!
//! The caller holds the lock, passes the time, and handles the [`Effects`] of the step. Nothing here waits, reads a clock
//! or does I/O.

use std::collections::VecDeque;
use std::time::Duration;

use tenure_lease::breaks::{self, Break};
use tenure_lease::rules::{self, ActiveReign, ClaimContext, Entry, Expiry, State, Verdict};
use tenure_lease::{
    Acquired, Busy, Claim, Clock, Digest, End, Error, Floor, Generation, Grant, Holder, Key, Lease, Origin,
    Phase, Refusal, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke, Revoked, Status,
    Tick, Transfer, Transferred, Ttl, Verb, Verified, Wall, Wipe, Wiped, limits,
};

use super::blocking_record::BlockingRecord;
use super::data::Data;
use super::effects::{Effects, GrantDelivery};
use super::pending_grants::PendingGrants;
use super::queue::Waiter;
use super::retention::{FreedKey, Tombstone};
use super::rows::{ReignRow, SlotRow, Table as RowTable};
use super::slots::{PastReign, Slot, SlotDetails, Slots};
use super::spent_tokens::ShortDigest;
use crate::sync::oneshot;

/// The time of a step, on both clocks.
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

/// Stands for a token that stays unspent.
pub(crate) const NO_TOKEN: ShortDigest = [0; 16];

/// Timers checked per reign that may end in one step.
const CHECKS_PER_END: usize = 4;

/// All leases and records of a store.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) slots: Slots,
    pub(crate) data: Data,
    pub(crate) floor: Floor,
    pub(crate) revision: Revision,
    pub(crate) effects: Effects,
    pending_grants: PendingGrants,
    pub(crate) freed: VecDeque<FreedKey>,
    /// The tombstones of all keys, oldest first. Some may be gone.
    pub(crate) tombstones: VecDeque<Tombstone>,
}

impl Table {
    pub(crate) fn new(floor: Floor, revision: Revision, durable: bool) -> Self {
        Self {
            slots: Slots::default(),
            data: Data::default(),
            floor,
            revision,
            effects: Effects::new(durable),
            pending_grants: PendingGrants::default(),
            freed: VecDeque::new(),
            tombstones: VecDeque::new(),
        }
    }

    pub(crate) fn acquire(&mut self, claim: &Claim, now: Now) -> Result<Acquired> {
        self.forget_excess(now);
        let record = self.blocking_record(&claim.key, now);
        let at = self.slots.find_or_insert(&claim.key);
        self.settle_on_access(at, now)?;
        let digest = claim.token.digest();
        let entry = self.entry(at)?;
        let slot = self.slot(at)?;
        let mut around = ClaimContext {
            spent: slot.spent(&digest.short(), now.tick),
            ahead: slot
                .details()
                .map_or(0, |r| r.queue.position(digest).map_or(r.queue.len() as u32, |p| p - 1)),
            foreign: record.is_some(),
        };
        if breaks::broken(Break::Overtake) {
            around.ahead = 0;
        }
        match rules::acquire(&entry, claim, now.tick, around) {
            Verdict::Grant => {
                self.slot(at)?.with_details(|details| details.queue.remove(digest));
                self.grant_to_caller(at, claim, now)
            }
            Verdict::Supersede => {
                self.end_reign(at, End::Superseded, now)?;
                self.grant_to_caller(at, claim, now)
            }
            Verdict::Refresh => self.refresh(at, claim, now),
            Verdict::Busy(busy) => {
                self.forget_if_never_granted(at);
                Ok(Acquired::Busy(record.into_iter().fold(busy, BlockingRecord::describe)))
            }
            Verdict::Spent => Err(Refusal::TokenSpent.into()),
        }
    }

    /// Parks a busy claim.
    pub(crate) fn park(&mut self, claim: Claim, sender: oneshot::Sender<Grant>) -> Result<()> {
        let at = self.slots.find_or_insert(&claim.key);
        self.slot(at)?.details_mut().queue.park(claim, sender)
    }

    /// Whether a claim is still in the queue.
    pub(crate) fn is_parked(&self, key: &Key, digest: &Digest) -> bool {
        let slot = self.slots.get(key);
        slot.and_then(Slot::details).is_some_and(|details| details.queue.position(digest).is_some())
    }

    /// Removes a claim whose wait is over from the queue, and acquires without waiting.
    pub(crate) fn unpark(&mut self, claim: &Claim, now: Now) -> Result<Acquired> {
        let at = self.slots.find_or_insert(&claim.key);
        let slot = self.slot(at)?;
        let position = slot.details().and_then(|r| r.queue.position(claim.token.digest())).unwrap_or(1);
        slot.with_details(|details| details.queue.remove_abandoned(claim.token.digest()));
        Ok(match self.acquire(claim, now)? {
            Acquired::Busy(busy) => Acquired::Busy(Busy { position, ..busy }),
            granted => granted,
        })
    }

    /// Whether the grant of this claim stays pending until its caller confirms or abandons it. Without a disk the caller
    /// receives it with the step; a remote holder's grant stays, because the same token will be used again.
    pub(crate) fn awaits_confirmation(&self, claim: &Claim) -> bool {
        self.effects.is_durable() && claim.origin == Origin::Local
    }

    /// The caller of a claim received its grant.
    pub(crate) fn confirm_grant(&mut self, lease: &Lease) {
        if let Some(at) = self.slots.find(&lease.key) {
            self.pending_grants.confirm(at, lease.generation);
        }
    }

    /// Drops a claim whose caller did not receive its grant, and releases the key unless another claim with that token
    /// received it or still waits. The token is not spent: its owner may acquire again.
    pub(crate) fn abandon_grant(&mut self, lease: &Lease, digest: &Digest, now: Now) -> Result<()> {
        let Some(at) = self.slots.find(&lease.key) else { return Ok(()) };
        self.slot(at)?.with_details(|details| details.queue.remove_abandoned(digest));
        let generation = lease.generation;
        if self.pending_grants.abandon(at, generation)
            && rules::release(&self.entry(at)?, digest, Some(generation), now.tick)
        {
            self.end_reign_as(at, End::Released, NO_TOKEN, now)?;
            self.grant_to_next(at, None, now)?;
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
                slot.details_mut().queue.remove(digest);
                self.add_tombstone(at, digest.short(), now)?;
            }
            self.forget_if_never_granted(at);
            return Ok(Released::NotHeld);
        }
        self.end_reign(at, End::Released, now)?;
        if !breaks::broken(Break::LostWake) {
            self.grant_to_next(at, release.to.as_ref(), now)?;
        }
        self.forget_excess(now);
        Ok(Released::Released)
    }

    pub(crate) fn transfer(&mut self, transfer: &Transfer, now: Now) -> Result<Transferred> {
        let Some(at) = self.slots.find(&transfer.key) else { return Ok(Transferred::NotHeld) };
        if !rules::transfer(&self.entry(at)?, transfer.token.digest(), transfer.generation, now.tick) {
            return Ok(Transferred::NotHeld);
        }
        let Some(successor) = self.slot(at)?.details_mut().queue.pop_holder(&transfer.to) else {
            return Ok(Transferred::NoSuccessor);
        };
        self.end_reign(at, End::Transferred, now)?;
        self.grant_parked(at, successor, now).map(Transferred::Transferred)
    }

    pub(crate) fn revoke(&mut self, revoke: &Revoke, now: Now) -> Result<Revoked> {
        let Some(at) = self.slots.find(&revoke.key) else { return Ok(Revoked::Stale { current: None }) };
        match rules::revoke(&self.entry(at)?, revoke, now.tick) {
            Err(current) => Ok(Revoked::Stale { current }),
            Ok(delay) => {
                self.end_reign(at, End::Revoked, now)?;
                if delay.is_zero() || breaks::broken(Break::NoDelay) {
                    self.grant_to_next(at, None, now)?;
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
        let proven = gate.is_some_and(|gate| rules::is_gate_proven(&gate, &wipe.gate, now.tick));
        if !proven && !breaks::broken(Break::WipeFirst) {
            return Ok(Wiped::Unproven);
        }
        let doomed = self.wiped(wipe, now);
        if doomed.len() > limits::WIPE {
            return Err(Refusal::TooMany { what: "leases in one wipe", limit: limits::WIPE }.into());
        }
        for at in &doomed {
            self.end_reign(*at, End::Wiped, now)?;
        }
        for at in &doomed {
            self.grant_to_next(*at, None, now)?;
        }
        Ok(if proven { Wiped::Wiped { count: doomed.len() } } else { Wiped::Unproven })
    }

    /// The slots that a wipe ends, one more than it may at most.
    pub(crate) fn wiped(&self, wipe: &Wipe, now: Now) -> Vec<u32> {
        self.slots
            .ordered(wipe.prefix.as_str())
            .map_while(|at| self.slots.at(at).map(|slot| (at, slot)))
            .take_while(|(_, slot)| slot.key.starts_with(&wipe.prefix))
            .filter_map(|(at, slot)| {
                let entry = self.slots.entry(at)?;
                rules::is_wiped(&slot.key, &entry, wipe, now.tick).then_some(at)
            })
            .take(limits::WIPE + 1)
            .collect()
    }

    pub(crate) fn verify(&self, key: &Key, digest: &Digest, now: Now) -> Verified {
        self.slots.get(key).zip(self.slots.entry_of(key)).map_or(Verified::Wrong, |(slot, entry)| {
            rules::verify(&entry, digest, slot.known(&digest.short(), now.tick), now.tick)
        })
    }

    /// Ends reigns, delays, reservations and records that are due, at most `most`.
    pub(crate) fn expire(&mut self, now: Now, most: usize) -> Result<usize> {
        let (mut done, mut checks) = (0, most * CHECKS_PER_END);
        while done < most {
            if let Some(at) = self.slots.due(now.tick, &mut checks) {
                self.settle(at, now)?;
                self.tidy(at, now);
            } else if checks == 0 {
                return Ok(most);
            } else if let Some(key) = self.data.due(now.tick) {
                self.revision = self.revision.next();
                self.data.deleted = self.revision;
                self.effects.delete(RowTable::Record, &[key.as_str().as_bytes()]);
                self.effects.record_event(self.revision, now.wall, &key, Verb::Deleted);
                self.grant_after_record(&key, now)?;
            } else {
                break;
            }
            done += 1;
        }
        Ok(done)
    }

    /// When something next expires.
    pub(crate) fn next_due(&self) -> Option<Tick> {
        [self.slots.next_due(), self.data.next_due()].into_iter().flatten().min()
    }

    pub(crate) fn slot(&mut self, at: u32) -> Result<&mut Slot> {
        self.slots.at_mut(at).ok_or_else(broken)
    }

    pub(crate) fn entry(&self, at: u32) -> Result<Entry> {
        self.slots.entry(at).ok_or_else(broken)
    }

    /// Ends what has expired in a slot.
    fn settle(&mut self, at: u32, now: Now) -> Result<()> {
        let entry = self.entry(at)?;
        match rules::expire(&entry, now.tick) {
            Expiry::NotYet => Ok(()),
            Expiry::Reign => {
                if let Some(due) = entry.next_change() {
                    let lag = now.tick.since(due);
                    metrics::histogram!("tenure_lease_expiry_lag_seconds").record(lag.as_secs_f64());
                }
                self.end_reign(at, End::Expired, now)?;
                match breaks::broken(Break::WakeWithoutTimer) {
                    true => self.write_slot(at, now),
                    false => self.grant_to_next(at, None, now),
                }
            }
            Expiry::Hold => {
                self.slots.set(at, State::Free);
                self.grant_to_next(at, None, now)
            }
        }
    }

    /// Ends what has expired in a slot that is being accessed, without waiting for the timer.
    fn settle_on_access(&mut self, at: u32, now: Now) -> Result<()> {
        if breaks::broken(Break::SweeperOnly) {
            return Ok(());
        }
        if breaks::broken(Break::Overtake) && rules::expire(&self.entry(at)?, now.tick) == Expiry::Reign {
            return self.end_reign(at, End::Expired, now);
        }
        self.settle(at, now)
    }

    /// A known break: a renewal recreates a reign.
    pub(crate) fn revive(&mut self, at: u32, item: &Renewal, now: Now) -> Result<(Renewed, bool)> {
        let ttl = item.ttl.unwrap_or(Ttl::from_secs(1)?);
        let state = State::Held(ActiveReign {
            holder: Holder::new("revived")?,
            digest: *item.token.digest(),
            generation: item.generation,
            ttl,
            expires: now.tick + ttl.as_duration(),
            since: now.wall,
            meta: tenure_lease::Meta::default(),
            origin: Origin::Remote,
        });
        self.slots.set(at, state);
        self.slots.arm(at);
        Ok((Renewed::Renewed { remaining: ttl.as_duration() }, false))
    }

    /// Ends the running reign and leaves the slot free. The caller decides what follows and writes the slot.
    pub(crate) fn end_reign(&mut self, at: u32, end: End, now: Now) -> Result<()> {
        let State::Held(tenant) = self.entry(at)?.state else { return Err(broken()) };
        let token = tenant.digest.short();
        self.end_reign_as(at, end, token, now)
    }

    fn end_reign_as(&mut self, at: u32, end: End, token: ShortDigest, now: Now) -> Result<()> {
        self.revision = self.revision.next();
        let State::Held(tenant) = self.entry(at)?.state else { return Err(broken()) };
        self.slots.set(at, State::Free);
        let slot = self.slots.at_mut(at).ok_or_else(broken)?;
        let who = (&tenant.holder, tenant.generation);
        self.effects.lease_event(self.revision, now.wall, &slot.key, Verb::Ended(end), who);
        let past = PastReign {
            holder: tenant.holder,
            generation: tenant.generation,
            from: tenant.since,
            until: now.wall.max(tenant.since),
            end,
            token,
            ended: now.tick,
        };
        let (n, oldest) = slot.details_mut().remember(past);
        if let Some(past) = slot.details().and_then(|details| details.past.back()) {
            let key = [slot.key.as_str().as_bytes(), &[0], &n.to_be_bytes()];
            self.effects.put(RowTable::Reign, &key, &ReignRow::of(past));
        }
        match oldest {
            Some(oldest) => self.keep_spent_token(at, &oldest, now),
            None => Ok(()),
        }
    }

    /// Grants a free slot to the named successor or the head of the queue, reserves it, or leaves it free.
    pub(crate) fn grant_to_next(&mut self, at: u32, to: Option<&Holder>, now: Now) -> Result<()> {
        let blocked = self.waiters_blocked_by_record(at, now);
        let slot = self.slot(at)?;
        let next = match to {
            Some(successor) => slot.details_mut().queue.pop_holder(successor),
            None if blocked => None,
            None => slot.with_details(|details| details.queue.pop()).flatten(),
        };
        if let Some(waiter) = next {
            return self.grant_parked(at, waiter, now).map(drop);
        }
        if let Some(successor) = to {
            let until = now.tick + Duration::from_millis(limits::RESERVATION_MS);
            self.slots.set(at, State::Reserved { to: successor.clone(), until });
            self.slots.arm(at);
        }
        self.write_slot(at, now)?;
        self.note_free(at, now)
    }

    fn grant_to_caller(&mut self, at: u32, claim: &Claim, now: Now) -> Result<Acquired> {
        let lease = self.grant(at, claim, now)?;
        if self.awaits_confirmation(claim) {
            self.pending_grants.begin(at, lease.generation);
        }
        Ok(Acquired::Granted(Grant { lease, parked: false }))
    }

    pub(crate) fn grant_parked(&mut self, at: u32, waiter: Waiter, now: Now) -> Result<Lease> {
        let lease = self.grant(at, &waiter.claim, now)?;
        self.pending_grants.begin(at, lease.generation);
        let grant = Grant { lease: lease.clone(), parked: true };
        self.effects.grants.push(GrantDelivery {
            senders: waiter.senders,
            grant,
            digest: *waiter.claim.token.digest(),
        });
        Ok(lease)
    }

    fn grant(&mut self, at: u32, claim: &Claim, now: Now) -> Result<Lease> {
        let floor = self.floor;
        let slot = self.slots.at_mut(at).ok_or_else(broken)?;
        let generation = match slot.details().and_then(|details| details.past.back()) {
            Some(past) if past.end == End::Transferred && breaks::broken(Break::TransferKeeps) => {
                past.generation
            }
            _ => Generation::next(slot.last, floor)?,
        };
        slot.last = Some(generation);
        self.revision = self.revision.next();
        let who = (&claim.holder, generation);
        self.effects.lease_event(self.revision, now.wall, &slot.key, Verb::Granted, who);
        let reign = State::Held(ActiveReign {
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
        let State::Held(ActiveReign { holder, generation, .. }) = self.entry(at)?.state else {
            return Err(broken());
        };
        match self.awaits_confirmation(claim) {
            true => self.pending_grants.join(at, generation),
            false => self.pending_grants.mark_received(at, generation),
        }
        let ttl = claim.ttl;
        let lease = Lease { key: self.slot(at)?.key.clone(), holder, generation, ttl };
        let hot = self.slots.hot_mut(at);
        hot.ttl = ttl;
        hot.expires = now.tick + ttl.as_duration();
        if hot.outlasts_disk(ttl) {
            self.effects.raised = true;
            self.write_slot(at, now)?;
        }
        self.slots.arm(at);
        Ok(Acquired::Granted(Grant { lease, parked: false }))
    }

    pub(crate) fn write_slot(&mut self, at: u32, now: Now) -> Result<()> {
        let entry = self.entry(at)?;
        if matches!(entry.state, State::Held(_)) {
            self.slots.hot_mut(at).set_durable();
        }
        let slot = self.slots.at(at).ok_or_else(broken)?;
        self.effects.put(
            RowTable::Slot,
            &[slot.key.as_str().as_bytes()],
            &SlotRow::of(slot, &entry, now.tick),
        );
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
                meta: tenure_lease::Meta::default(),
                since: None,
                waiters: 0,
            },
        }
    }

    /// The status of the key in a slot.
    pub(crate) fn status_at(&self, at: u32, now: Now) -> Option<Status> {
        self.slots.at(at).zip(self.slots.entry(at)).map(|(slot, entry)| slot.status(entry, now.tick))
    }

    pub(crate) fn history(&self, key: &Key, now: Now) -> Vec<Reign> {
        let Some((slot, entry)) = self.slots.get(key).zip(self.slots.entry_of(key)) else {
            return Vec::new();
        };
        let past = slot.details().into_iter().flat_map(|details| details.past.iter().map(PastReign::reign));
        let mut reigns: Vec<Reign> = past.chain(running(entry, now)).collect();
        reigns.drain(..reigns.len().saturating_sub(limits::REIGNS));
        reigns
    }
}

impl Slot {
    fn with_details<T>(&mut self, f: impl FnOnce(&mut SlotDetails) -> T) -> Option<T> {
        if self.details().is_some() { Some(f(self.details_mut())) } else { None }
    }

    /// Why a reign other than the running one ended, as far as the history shows.
    pub(crate) fn end_of(&self, generation: Generation) -> End {
        let past =
            self.details().and_then(|details| details.past.iter().find(|past| past.generation == generation));
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
            (State::Reserved { to, .. }, Phase::Reserved) => (Some(to), tenure_lease::Meta::default(), None),
            _ => (None, tenure_lease::Meta::default(), None),
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

/// The running reign, or an expired one that has not been settled.
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
    Error::unavailable("local", "internal error: inconsistent lease table")
}
