//! What a Redis server keeps for us, and what each script does to it: one atomic step per verb, by `lease::rules`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease::rules::{self, Around, Entry, Expiry, State, Tenant, Verdict};
use lease::{
    Acquired, Busy, Claim, Committed, Digest, End, Fence, Floor, Generation, Grant, Key, Lease, Mark, Meta,
    Mode, Op, Phase, Reason, Record, Refusal, Reign, Release, Released, Renewal, Renewed, Result, Revision,
    Revoke, Revoked, Status, Tick, Transfer, Transferred, Verified, Wall, limits,
};

use super::Break;

/// Who calls, as a script is told: the server process it is connected to, for how long that has been up, how long
/// nothing is granted after a change, and whether the caller has talked to another process before.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) run_id: u64,
    pub(super) uptime: Duration,
    pub(super) quarantine: Duration,
    pub(super) changed: bool,
    pub(super) now: Tick,
    pub(super) wall: Wall,
    pub(super) how: Option<Break>,
}

/// One key.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    pub(super) entry: Entry,
    /// Tokens of the last reigns and how they ended.
    pub(super) past: Vec<([u8; 16], Reign)>,
    tombs: Vec<([u8; 16], Tick)>,
}

/// A record: its value, the revision that wrote it, and when it goes.
type Stored = (Arc<[u8]>, Revision, Option<Tick>);

/// The key space.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub(super) cells: BTreeMap<Key, Cell>,
    floor: Floor,
    /// The server process that raised the floor, and until when nothing is granted.
    incarnation: Option<(u64, Option<Tick>)>,
    pub(super) records: BTreeMap<Key, Stored>,
    marks: BTreeMap<Key, Mark>,
    pub(super) logs: BTreeMap<Key, Vec<Arc<[u8]>>>,
    pub(super) revision: u64,
}

impl Cell {
    fn spent(&self, token: &[u8; 16], now: Tick) -> bool {
        let ended = |reign: &Reign| reign.end.is_some_and(End::spends_token);
        self.past.iter().rev().take(16).any(|(past, reign)| past == token && ended(reign))
            || self.tombs.iter().any(|(tomb, until)| tomb == token && now < *until)
    }

    fn close(&mut self, end: End, wall: Wall) {
        let State::Held(tenant) = std::mem::take(&mut self.entry.state) else { return };
        let reign = Reign {
            holder: tenant.holder,
            generation: tenant.generation,
            from: tenant.since,
            until: Some(wall),
            end: Some(end),
        };
        self.past.push((tenant.digest.short(), reign));
        if self.past.len() > limits::REIGNS {
            self.past.remove(0);
        }
    }

    fn settle(&mut self, head: &Head) {
        match rules::expire(&self.entry, head.now) {
            Expiry::NotYet => {}
            Expiry::Reign => self.close(End::Expired, head.wall),
            Expiry::Hold => self.entry.state = State::Free,
        }
    }

    pub(super) fn status(&self, key: &Key, now: Tick) -> Status {
        let (phase, remaining) = self.entry.phase(now);
        let (holder, meta, since) = match (&self.entry.state, phase) {
            (State::Held(t), Phase::Held) => (Some(t.holder.clone()), t.meta.clone(), Some(t.since)),
            (State::Reserved { to, .. }, Phase::Reserved) => (Some(to.clone()), Meta::default(), None),
            _ => (None, Meta::default(), None),
        };
        let generation = self.entry.last;
        Status { key: key.clone(), phase, holder, generation, remaining, meta, since, waiters: 0 }
    }
}

impl Data {
    /// Raises the floor once per server process, and says how long nothing is granted.
    fn incarnate(&mut self, head: &Head) -> Duration {
        let known = self.incarnation;
        let missing = self.floor == Floor::default();
        let other = known.is_none_or(|(run, _)| run != head.run_id);
        if missing || (other && head.how != Some(Break::KeepsTheFloor)) {
            self.floor = self.floor.raise(head.wall);
        }
        let mut ends = known.and_then(|(_, ends)| ends);
        if missing || other {
            ends = (head.uptime < head.quarantine).then(|| head.now + (head.quarantine - head.uptime));
        }
        if head.changed && ends.is_none() && !head.quarantine.is_zero() {
            ends = Some(head.now + head.quarantine);
        }
        self.incarnation = Some((head.run_id, ends));
        match head.how {
            Some(Break::NoQuarantine) => Duration::ZERO,
            _ => ends.map_or(Duration::ZERO, |ends| ends.since(head.now)),
        }
    }

    fn mint(&self, last: Option<Generation>, head: &Head) -> Result<Generation> {
        match head.how {
            Some(Break::PlainIncrement) => Generation::next(last, Floor::default()),
            _ => Generation::next(last, self.floor),
        }
    }

    pub(super) fn acquire(&mut self, claim: &Claim, head: &Head) -> Result<Acquired> {
        let quarantine = self.incarnate(head);
        let foreign = self.records.contains_key(&claim.key);
        let mut cell = self.cells.remove(&claim.key).unwrap_or_default();
        cell.settle(head);
        let spent = cell.spent(&claim.token.digest().short(), head.now);
        let verdict = rules::acquire(&cell.entry, claim, head.now, Around { spent, ahead: 0, foreign });
        let free = matches!(cell.entry.state, State::Free);
        let answer = match verdict {
            Verdict::Grant if free && !quarantine.is_zero() => Ok(Acquired::Busy(Busy {
                holder: None,
                generation: cell.entry.last,
                remaining: Some(quarantine),
                position: 1,
                reason: Reason::Quarantine,
            })),
            Verdict::Grant => self.grant(&mut cell, claim, head),
            Verdict::Supersede => {
                cell.close(End::Superseded, head.wall);
                self.grant(&mut cell, claim, head)
            }
            Verdict::Refresh => {
                let State::Held(tenant) = &mut cell.entry.state else {
                    return Err(Refusal::TokenSpent.into());
                };
                (tenant.ttl, tenant.expires) = (claim.ttl, head.now + claim.ttl.as_duration());
                let (holder, generation) = (tenant.holder.clone(), tenant.generation);
                let lease = Lease { key: claim.key.clone(), holder, generation, ttl: claim.ttl };
                Ok(Acquired::Granted(Grant { lease, parked: false }))
            }
            Verdict::Busy(busy) => Ok(Acquired::Busy(busy)),
            Verdict::Spent => Err(Refusal::TokenSpent.into()),
        };
        self.cells.insert(claim.key.clone(), cell);
        answer
    }

    fn grant(&mut self, cell: &mut Cell, claim: &Claim, head: &Head) -> Result<Acquired> {
        let generation = self.mint(cell.entry.last, head)?;
        cell.entry.last = Some(generation);
        cell.entry.state = State::Held(Tenant {
            holder: claim.holder.clone(),
            digest: *claim.token.digest(),
            generation,
            ttl: claim.ttl,
            expires: head.now + claim.ttl.as_duration(),
            since: head.wall,
            meta: claim.meta.clone(),
            origin: claim.origin,
        });
        let (key, holder) = (claim.key.clone(), claim.holder.clone());
        let lease = Lease { key, holder, generation, ttl: claim.ttl };
        Ok(Acquired::Granted(Grant { lease, parked: false }))
    }

    pub(super) fn renew(&mut self, item: &Renewal, head: &Head) -> Renewed {
        let Some(cell) = self.cells.get_mut(&item.key) else { return Renewed::Lost(End::Gone) };
        match rules::renew(&cell.entry, item.token.digest(), item.generation, head.now) {
            Ok(()) => {
                let State::Held(tenant) = &mut cell.entry.state else { return Renewed::Lost(End::Gone) };
                tenant.ttl = item.ttl.unwrap_or(tenant.ttl);
                tenant.expires = head.now + tenant.ttl.as_duration();
                Renewed::Renewed { remaining: tenant.ttl.as_duration() }
            }
            Err(Some(end)) => Renewed::Lost(end),
            Err(None) => {
                let past = cell.past.iter().find(|(_, reign)| reign.generation == item.generation);
                Renewed::Lost(past.and_then(|(_, reign)| reign.end).unwrap_or(End::Gone))
            }
        }
    }

    pub(super) fn release(&mut self, release: &Release, head: &Head) -> Released {
        self.incarnate(head);
        let cell = self.cells.entry(release.key.clone()).or_default();
        cell.settle(head);
        let digest = release.token.digest();
        if rules::release(&cell.entry, digest, release.generation, head.now) {
            cell.close(End::Released, head.wall);
            if let Some(to) = release.to.clone() {
                let until = head.now + Duration::from_millis(limits::RESERVATION_MS);
                cell.entry.state = State::Reserved { to, until };
            }
            return Released::Released;
        }
        let mine = cell.entry.live(head.now).is_some_and(|tenant| tenant.digest == *digest);
        if !mine && !cell.spent(&digest.short(), head.now) {
            cell.tombs.retain(|(_, until)| head.now < *until);
            cell.tombs.push((digest.short(), head.now + Duration::from_millis(limits::TOMBSTONE_MS)));
        }
        Released::NotHeld
    }

    /// The model parks nobody in the server, so there is never a successor.
    pub(super) fn transfer(&mut self, transfer: &Transfer, head: &Head) -> Transferred {
        let entry = self.cells.get(&transfer.key).map(|cell| &cell.entry);
        let held =
            |entry: &Entry| rules::transfer(entry, transfer.token.digest(), transfer.generation, head.now);
        if entry.is_some_and(held) { Transferred::NoSuccessor } else { Transferred::NotHeld }
    }

    pub(super) fn revoke(&mut self, revoke: &Revoke, head: &Head) -> Revoked {
        self.incarnate(head);
        let cell = self.cells.entry(revoke.key.clone()).or_default();
        cell.settle(head);
        match rules::revoke(&cell.entry, revoke, head.now) {
            Err(current) => Revoked::Stale { current },
            Ok(delay) => {
                cell.close(End::Revoked, head.wall);
                if !delay.is_zero() {
                    cell.entry.state = State::Delayed { until: head.now + delay };
                }
                Revoked::Revoked { delay }
            }
        }
    }

    pub(super) fn verify(&self, key: &Key, digest: &Digest, now: Tick) -> Verified {
        let Some(cell) = self.cells.get(key) else { return Verified::Wrong };
        let short = digest.short();
        let known = cell.past.iter().any(|(past, _)| *past == short) || cell.spent(&short, now);
        rules::verify(&cell.entry, digest, known, now)
    }

    pub(super) fn wipe(&mut self, wipe: &lease::Wipe, head: &Head) -> lease::Wiped {
        self.incarnate(head);
        let gate = self.cells.get(&wipe.gate.key).map(|cell| &cell.entry);
        if !gate.is_some_and(|gate| rules::proven(gate, &wipe.gate, head.now)) {
            return lease::Wiped::Unproven;
        }
        let doomed: Vec<&mut Cell> = self
            .cells
            .iter_mut()
            .filter(|(key, cell)| rules::wiped(key, &cell.entry, wipe, head.now))
            .map(|(_, cell)| cell)
            .collect();
        let count = doomed.len();
        doomed.into_iter().for_each(|cell| cell.close(End::Wiped, head.wall));
        lease::Wiped::Wiped { count }
    }

    pub(super) fn commit(&mut self, ops: &[Op], fence: Option<&Fence>, head: &Head) -> Result<Committed> {
        Op::check(ops)?;
        self.incarnate(head);
        self.records.retain(|_, (_, _, expires)| expires.is_none_or(|at| head.now < at));
        if let Some(fence) = fence {
            let entry = self.cells.get(&fence.key).map(|cell| cell.entry.clone()).unwrap_or_default();
            let mark = self.marks.get(&fence.key);
            if let Err(current) = rules::fence(&entry, fence, mark, head.now) {
                return Ok(Committed::FencedOut { current });
            }
        }
        for (index, op) in ops.iter().enumerate() {
            let cell = self.cells.get(op.key());
            let leased = cell.is_some_and(|cell| cell.entry.phase(head.now).0 != Phase::Free);
            if leased && !matches!(op, Op::Append { .. }) {
                return Err(Refusal::KeyIsLeased { key: op.key().to_string() }.into());
            }
            let found = self.records.get(op.key()).map(|(_, revision, _)| *revision);
            let holds = match op {
                Op::PutIfAbsent { .. } => found.is_none(),
                Op::PutIfRevision { revision, .. } => found == Some(*revision),
                _ => true,
            };
            if !holds {
                return Ok(Committed::Conflict { index, found });
            }
        }
        if let Some(fence) = fence.filter(|fence| fence.mode == Mode::Monotonic) {
            self.marks.insert(fence.key.clone(), Mark::new(fence.generation, fence.token.digest()));
        }
        self.revision = (self.revision + ops.len() as u64).max(head.wall.as_micros());
        let revision = Revision::new(self.revision);
        for op in ops {
            match op {
                Op::Put { key, value, ttl }
                | Op::PutIfAbsent { key, value, ttl }
                | Op::PutIfRevision { key, value, ttl, .. } => {
                    let expires = ttl.map(|ttl| head.now + ttl.as_duration());
                    self.records.insert(key.clone(), (value.clone(), revision, expires));
                }
                Op::Delete { key } => drop(self.records.remove(key)),
                Op::Append { log, value, max_len } => {
                    let entries = self.logs.entry(log.clone()).or_default();
                    entries.push(value.clone());
                    let excess = entries.len().saturating_sub(*max_len);
                    entries.drain(..excess);
                }
            }
        }
        Ok(Committed::Written { revision })
    }

    pub(super) fn get(&self, key: &Key, now: Tick) -> Option<Record> {
        let (value, revision, expires) = self.records.get(key)?;
        let alive = expires.is_none_or(|at| now < at);
        let remaining = expires.map(|at| at.since(now));
        alive.then(|| Record { key: key.clone(), value: value.clone(), revision: *revision, remaining })
    }
}
