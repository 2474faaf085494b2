//! What one key may do, one operation after the other: `tenure_lease::rules`, with the passing of time as a step of its own.
//!
//! The rules are asked with a clock that stands still. Whether a reign, a delay or a reservation is over is decided
//! beside them: it may be from the earliest moment at which the store's clock can have reached its end, and it must
//! be from the latest one.

use std::hash::{DefaultHasher, Hash, Hasher};

use tenure_lease::rules::{self, ActiveReign, ClaimContext, Entry, State, Verdict};
use tenure_lease::{
    BusyReason, Claim, Digest, Generation, Holder, Key, Meta, Origin, Phase, Revoke, Tick, Token, Ttl,
    Verified, Wall, limits,
};

use super::op::{Op, OpKind};
use super::terms::{Drift, Terms};
use crate::history::{Nanos, Outcome, TokenId};

/// Later than anything.
pub(super) const NEVER: Nanos = Nanos::MAX;
const NOW: Tick = Tick::from_nanos(1);
const FAR: Tick = Tick::from_nanos(u64::MAX);
/// Spent tokens that every engine remembers.
const REMEMBERED: usize = 16;

/// A key between two operations.
#[derive(Clone, Debug)]
pub(super) struct KeyState {
    entry: Entry,
    /// Who holds; none when that is not known.
    token: Option<TokenId>,
    /// The last generation, which is the holder's if there is one, is only known to be at least the one in `entry`.
    loose: bool,
    /// From when on what the key is doing may be over, and until when it may last.
    over: (Nanos, Nanos),
    /// The longest TTL that the reign may go on with, and the longest it ever had: a store that comes back may not
    /// know that it was shortened.
    most: Nanos,
    longest: Nanos,
    /// What time has ended and no grant followed: a restarted store may give it its time back.
    ghost: Option<(State, Option<TokenId>)>,
    spent: Vec<TokenId>,
    buried: Vec<(TokenId, Nanos)>,
    /// The earliest moment at which the last operation can have happened.
    pub(super) clock: Nanos,
}

/// The digest of a token that is never used, and of those that a history names.
fn token(id: TokenId) -> Option<Token> {
    Token::parse(&format!("{id:022}")).ok()
}

fn digest(id: Option<TokenId>) -> Digest {
    id.and_then(token).map_or(Digest::from_bytes([0; 32]), |token| *token.digest())
}

impl KeyState {
    /// A key that was never held.
    pub(super) fn new() -> Self {
        Self {
            entry: Entry::default(),
            token: None,
            loose: false,
            over: (NEVER, NEVER),
            most: 0,
            longest: 0,
            ghost: None,
            spent: Vec::new(),
            buried: Vec::new(),
            clock: 0,
        }
    }

    /// What to remember of having been here.
    pub(super) fn fingerprint(&self, salt: u64) -> u64 {
        let mut hash = DefaultHasher::new();
        salt.hash(&mut hash);
        let (phase, generation) = match &self.entry.state {
            State::Free => (0, 0),
            State::Held(tenant) => (1, tenant.generation.get()),
            State::Delayed { .. } => (2, 0),
            State::Reserved { to, .. } => {
                to.as_str().hash(&mut hash);
                (3, 0)
            }
        };
        (phase, generation, self.token, self.loose, self.over, self.clock).hash(&mut hash);
        (self.most, self.longest, self.tenant().map(|tenant| tenant.ttl.as_millis())).hash(&mut hash);
        self.entry.last.hash(&mut hash);
        self.ghost.as_ref().map(|(state, token)| (matches!(state, State::Held(_)), *token)).hash(&mut hash);
        (&self.spent, &self.buried).hash(&mut hash);
        hash.finish()
    }

    /// Whether an operation without an answer can make a difference here. `late` says that one of those that may come
    /// next was asked when the reign must have been over: only then is it worth to prolong it, and not sooner. To shorten
    /// it may be worth it at any time.
    pub(super) fn may_care(&self, op: &Op, terms: &Terms, late: bool) -> bool {
        if terms.thorough {
            return true;
        }
        let own = self.token == op.token;
        match op.asked {
            OpKind::Renew { ttl } => own && (late || self.would_shorten(op, ttl)),
            OpKind::Transfer => own,
            // One that finds nothing leaves a tombstone, which shows if another claim meets it.
            OpKind::Release => own || self.may_bury(op, terms).is_some(),
            // It ends a reign, which shows.
            OpKind::Acquire { instead_of: Some(_), .. } => self.tenant().is_some(),
            OpKind::Acquire { ttl, .. } => {
                let held = self.tenant().is_some();
                let prolongs = held && own && (late || op.dropped || self.would_shorten(op, Some(ttl)));
                // The current reign may have ended by the time it arrives.
                let least = if terms.rises { self.next() } else { 0 };
                let shown = terms.vague || op.token.is_some_and(|token| terms.shown.contains(&token));
                prolongs
                    || (held && self.token.is_none())
                    || shown
                    || terms.numbers(op, least).next().is_some()
            }
            _ => true,
        }
    }

    fn would_shorten(&self, op: &Op, ttl: Option<Nanos>) -> bool {
        let granted = self.tenant().map_or(0, |tenant| tenant.ttl.as_millis() * 1_000_000);
        self.clock.max(op.invoked).saturating_add(ttl.unwrap_or(granted)) < self.over.0
    }

    /// Whether an operation that was asked then comes after the latest end of the reign.
    pub(super) fn is_over_by(&self, asked: Nanos) -> bool {
        self.over.1 < asked
    }

    /// The least generation that may be granted.
    fn next(&self) -> u64 {
        self.entry.last.map_or(1, |last| last.get() + 1)
    }

    /// Every way in which `op` can come next.
    pub(super) fn after(&self, op: &Op, terms: &Terms) -> Vec<Self> {
        let mut ways = Vec::new();
        let mut here = self.clone();
        here.clock = here.clock.max(op.invoked);
        if here.clock > op.returned {
            return ways;
        }
        // It must be over by now.
        if here.clock > here.over.1 {
            here.time_passes();
        }
        let over = here.over.0;
        ways.extend(here.clone().apply(op, terms));
        if over <= op.returned && !matches!(here.entry.state, State::Free) {
            here.clock = here.clock.max(over);
            here.time_passes();
            ways.extend(here.apply(op, terms));
        }
        ways
    }

    /// What the key was doing is over.
    fn time_passes(&mut self) {
        self.over = (NEVER, NEVER);
        let state = std::mem::take(&mut self.entry.state);
        if matches!(state, State::Held(_) | State::Delayed { .. }) {
            self.ghost = Some((state, self.token.take()));
        }
    }

    fn apply(mut self, op: &Op, terms: &Terms) -> Vec<Self> {
        let drift = terms.drift;
        match op.asked {
            OpKind::Restart => self.restarted(),
            OpKind::Acquire { .. } => self.acquired(op, terms),
            _ => {
                let fits = match op.asked {
                    OpKind::Renew { ttl } => self.renewed(op, ttl, drift),
                    OpKind::Release => self.released(op, terms),
                    OpKind::Transfer => self.transferred(op),
                    OpKind::Revoke { delay } => self.revoked(op, delay, drift),
                    OpKind::Verify => self.verified(op),
                    OpKind::Inspect => self.inspected(op),
                    OpKind::Wipe => self.wiped(op),
                    OpKind::Write => self.written(op),
                    OpKind::Acquire { .. } | OpKind::Restart => false,
                };
                if fits { vec![self] } else { Vec::new() }
            }
        }
    }

    fn tenant(&self) -> Option<&ActiveReign> {
        self.entry.live(NOW)
    }

    /// The generation that an answer names is the one that is there; if it was not known, now it is.
    fn names(&mut self, generation: Option<u64>) -> bool {
        let Some(named) = generation.and_then(|g| Generation::new(g).ok()) else { return true };
        let loose = std::mem::take(&mut self.loose);
        match &mut self.entry.state {
            State::Held(tenant) if loose && named >= tenant.generation => {
                tenant.generation = named;
                self.entry.last = Some(named);
                true
            }
            State::Held(tenant) => tenant.generation == named,
            _ if loose && Some(named) >= self.entry.last => {
                self.entry.last = Some(named);
                true
            }
            _ => self.entry.last == Some(named),
        }
    }

    fn holds(&self, op: &Op) -> bool {
        let named = op.generation.and_then(|g| Generation::new(g).ok());
        match self.tenant() {
            Some(tenant) if self.loose => {
                self.token.is_some() && self.token == op.token && named.is_none_or(|g| g >= tenant.generation)
            }
            Some(_) => self.token.is_some() && rules::release(&self.entry, &digest(op.token), named, NOW),
            None => false,
        }
    }

    /// Ends the reign by its holder's or an operator's will.
    fn end(&mut self) {
        self.entry.state = State::Free;
        self.over = (NEVER, NEVER);
        if let Some(token) = self.token.take() {
            self.spent.push(token);
            if self.spent.len() > REMEMBERED {
                self.spent.remove(0);
            }
        }
        self.ghost = None;
    }

    fn acquired(self, op: &Op, terms: &Terms) -> Vec<Self> {
        let Some(id) = op.token else { return Vec::new() };
        if !op.open() {
            return self.claimed(op, id, terms, None).into_iter().collect();
        }
        // A reign without an answer of its own began under a generation that another answer shows, or was seen without one.
        let mut ways = Vec::new();
        let held = self.token == op.token || self.tenant().is_some();
        if held || terms.thorough || terms.vague || terms.shown.contains(&id) {
            ways.extend(self.clone().claimed(op, id, terms, None));
        }
        // One that replaces a holder begins a reign of its own as well.
        if !held || matches!(op.asked, OpKind::Acquire { instead_of: Some(_), .. }) {
            let numbers = terms.numbers(op, if terms.rises { self.next() } else { 0 });
            ways.extend(numbers.filter_map(|named| self.clone().claimed(op, id, terms, Some(named))));
        }
        ways
    }

    /// A claim took place; `named` is the number of a reign that no answer granted.
    fn claimed(mut self, op: &Op, id: TokenId, terms: &Terms, named: Option<u64>) -> Option<Self> {
        let OpKind::Acquire { ttl, instead_of, .. } = op.asked else { return None };
        let drift = terms.drift;
        // An successor that was promised the key takes it under the number that the transfer named.
        if self.token.is_none()
            && let Some(tenant) = self.tenant()
            && (op.answered == Some(tenant.generation.get()) || op.outcome == Outcome::Unknown)
            && op.word != "busy"
        {
            self.token = Some(id);
            self.begin(op, ttl, drift, op.outcome == Outcome::Unknown);
            return Some(self);
        }
        if self.loose && instead_of.is_some() && op.word != "busy" && !self.names(instead_of) {
            return None;
        }
        let claim = claim(op, id, ttl, instead_of)?;
        let buried = self.buried.iter().find(|(buried, _)| *buried == id).map(|(_, until)| *until);
        let around = ClaimContext { spent: self.spent.contains(&id), ahead: 0, foreign: false };
        match (rules::acquire(&self.entry, &claim, NOW, around), &*op.word) {
            (Verdict::Refresh, "granted" | "parked" | "unknown") => {
                if !self.names(op.answered) {
                    return None;
                }
                self.begin(op, ttl, drift, op.outcome == Outcome::Unknown);
                Some(self)
            }
            (Verdict::Grant | Verdict::Supersede, "granted" | "parked" | "unknown") => {
                if let Some(until) = buried {
                    self.clock = self.clock.max(until);
                    if self.clock > op.returned {
                        return None;
                    }
                }
                if self.tenant().is_some() {
                    self.end();
                }
                self.grant(op, &claim, terms, named)
            }
            (Verdict::Spent, "token_spent") => Some(self),
            (_, "token_spent") => (buried.is_some() || terms.dropped.contains(&id)).then_some(self),
            (Verdict::Busy(busy), "busy") => self.busy(op, busy.reason),
            // Others may have been ahead, or the server may have been in quarantine: that is not this key's state.
            (Verdict::Grant, "busy") => {
                matches!(op.why.as_deref(), Some("queued" | "quarantine" | "foreign") | None).then_some(self)
            }
            _ => None,
        }
    }

    fn busy(mut self, op: &Op, reason: BusyReason) -> Option<Self> {
        let same = op
            .why
            .as_deref()
            .is_none_or(|why| why == reason.as_str() || matches!(why, "queued" | "quarantine" | "foreign"));
        // While a token is unknown the number in the way is the better witness.
        (same && self.names(op.answered)).then_some(self)
    }

    fn grant(mut self, op: &Op, claim: &Claim, terms: &Terms, named: Option<u64>) -> Option<Self> {
        let next = self.next();
        let named = op.answered.or(named);
        let generation = match named {
            Some(named) if terms.rises && named < next => return None,
            Some(named) if self.entry.last.is_some_and(|last| last.get() == named) => return None,
            Some(named) => named,
            None => next,
        };
        let generation = Generation::new(generation).ok()?;
        self.entry.last = Some(generation);
        self.entry.state = State::Held(ActiveReign {
            holder: claim.holder.clone(),
            digest: *claim.token.digest(),
            generation,
            ttl: claim.ttl,
            expires: FAR,
            since: Wall::default(),
            meta: Meta::default(),
            origin: Origin::Local,
        });
        self.token = op.token;
        self.ghost = None;
        self.loose = named.is_none();
        self.longest = 0;
        self.begin(op, claim.ttl.as_duration().as_nanos() as u64, terms.drift, op.open());
        Some(self)
    }

    /// Time runs from this operation on. One whose caller went away may be given back at any moment.
    fn begin(&mut self, op: &Op, ttl: Nanos, drift: Drift, unheard: bool) {
        if let State::Held(tenant) = &mut self.entry.state {
            tenant.digest = digest(self.token);
        }
        self.lasts(ttl);
        let latest = if op.returned == NEVER { NEVER } else { op.returned + drift.most(ttl) };
        let earliest = if op.dropped { self.clock } else { self.clock + drift.least(ttl) };
        // A reign that may have been longer before is not known to be shorter for an answer that never came.
        self.over = (earliest, if unheard { NEVER } else { latest });
    }

    /// The reign goes on with this TTL.
    fn lasts(&mut self, ttl: Nanos) {
        if let (State::Held(tenant), Ok(ttl)) = (&mut self.entry.state, Ttl::from_millis(ttl / 1_000_000)) {
            tenant.ttl = ttl;
        }
        (self.most, self.longest) = (ttl, self.longest.max(ttl));
    }

    fn renewed(&mut self, op: &Op, ttl: Option<Nanos>, drift: Drift) -> bool {
        let holds = self.holds(op);
        match (op.outcome, holds) {
            (Outcome::Ok, true) | (Outcome::Unknown, true) => {
                let fits = self.names(op.generation);
                let granted = self.tenant().map_or(0, |t| t.ttl.as_duration().as_nanos() as u64);
                if let Some(ttl) = ttl {
                    self.lasts(ttl);
                }
                let (least, most) = (ttl.unwrap_or(granted), ttl.unwrap_or(self.most));
                let (earliest, latest) = (self.clock + drift.least(least), op.returned);
                self.over = match op.outcome {
                    Outcome::Ok => (earliest, latest.saturating_add(drift.most(most))),
                    // It may have come at any later moment.
                    _ => (self.over.0.min(earliest), NEVER),
                };
                fits
            }
            (Outcome::Refused, holds) => !holds,
            _ => false,
        }
    }

    /// The token that a release without an answer may have given up although it held nothing.
    fn may_bury(&self, op: &Op, terms: &Terms) -> Option<TokenId> {
        let token = op.token.filter(|token| terms.refused.contains(token))?;
        (!self.spent.contains(&token) && self.buried.iter().all(|(buried, _)| *buried != token))
            .then_some(token)
    }

    fn bury(&mut self, token: TokenId, drift: Drift) {
        let until = self.clock + drift.least(limits::TOMBSTONE_MS * 1_000_000);
        self.buried.retain(|(buried, _)| *buried != token);
        self.buried.push((token, until));
    }

    fn released(&mut self, op: &Op, terms: &Terms) -> bool {
        let drift = terms.drift;
        match (op.outcome, self.holds(op)) {
            (Outcome::Refused, false) => {
                // One that names an earlier reign of the holder's does not give its token up.
                let live = self.tenant().is_some() && self.token == op.token;
                if let Some(token) = op.token.filter(|token| !live && !self.spent.contains(token)) {
                    self.bury(token, drift);
                }
                true
            }
            (Outcome::Unknown, false) => {
                let token = self.may_bury(op, terms);
                token.map(|token| self.bury(token, drift)).is_some()
            }
            (Outcome::Ok | Outcome::Unknown, true) => {
                self.end();
                if let Some(to) = op.holder.as_ref().and_then(|to| Holder::new(to).ok()) {
                    let kept = limits::RESERVATION_MS * 1_000_000;
                    self.entry.state = State::Reserved { to, until: FAR };
                    // The successor that was parked has it at once, so it may be over at once.
                    self.over = (self.clock, op.returned.saturating_add(drift.most(kept)));
                }
                true
            }
            _ => false,
        }
    }

    fn transferred(&mut self, op: &Op) -> bool {
        match (op.outcome, &*op.word, self.holds(op)) {
            (Outcome::Refused, "not_held", holds) => !holds,
            (Outcome::Refused, _, holds) => holds,
            (_, _, true) => {
                let Some(tenant) = self.tenant().cloned() else { return false };
                self.end();
                let next = tenant.generation.get() + 1;
                let Ok(generation) = Generation::new(op.answered.unwrap_or(next)) else { return false };
                if generation <= tenant.generation {
                    return false;
                }
                self.entry.last = Some(generation);
                self.entry.state =
                    State::Held(ActiveReign { generation, digest: Digest::from_bytes([0; 32]), ..tenant });
                self.loose = op.answered.is_none();
                self.over = (self.clock, NEVER);
                true
            }
            _ => false,
        }
    }

    fn revoked(&mut self, op: &Op, delay: Option<Nanos>, drift: Drift) -> bool {
        let (Some(generation), Ok(key)) =
            (op.generation.and_then(|g| Generation::new(g).ok()), Key::new("k"))
        else {
            return false;
        };
        if self.loose && op.outcome != Outcome::Refused && !self.names(op.generation) {
            return false;
        }
        let ask = Revoke { key, generation, delay: None, reason: tenure_lease::RevokeReason::default() };
        match (op.outcome, rules::revoke(&self.entry, &ask, NOW)) {
            (Outcome::Refused, Err(_)) => self.tenant().is_none() || self.names(op.answered),
            (Outcome::Ok | Outcome::Unknown, Ok(_)) => {
                let latest = self.over.1;
                self.end();
                let over = match delay {
                    Some(0) => return true,
                    Some(delay) => {
                        (self.clock + drift.least(delay), op.returned.saturating_add(drift.most(delay)))
                    }
                    None => (self.clock, latest),
                };
                self.entry.state = State::Delayed { until: FAR };
                self.over = over;
                true
            }
            _ => false,
        }
    }

    fn verified(&mut self, op: &Op) -> bool {
        let live = matches!(rules::verify(&self.entry, &digest(op.token), false, NOW), Verified::Live { .. });
        match &*op.word {
            "live" => live && self.token == op.token && self.names(op.answered),
            _ => !live,
        }
    }

    fn inspected(&mut self, op: &Op) -> bool {
        let phase = match self.entry.phase(NOW).0 {
            Phase::Free => "free",
            Phase::Held => "held",
            Phase::Delayed => "delayed",
            Phase::Reserved => "reserved",
        };
        phase == op.word && self.names(op.answered)
    }

    /// The gate's own key is exempt, and a history does not say which that is: a wipe may end this reign.
    fn wiped(&mut self, op: &Op) -> bool {
        if self.tenant().is_some() && op.outcome != Outcome::Refused {
            self.end();
        }
        true
    }

    fn written(&mut self, op: &Op) -> bool {
        match &*op.word {
            "written" => self.holds(op) && self.names(op.generation),
            "fenced_out" => !self.holds(op),
            _ => true,
        }
    }

    /// A store that comes back ends the leases of its own process, gives the others their time again, forgets
    /// reservations and, if it likes, tombstones, and may not know that a reign's time was up, or was shortened.
    fn restarted(mut self) -> Vec<Self> {
        for (_, until) in &mut self.buried {
            *until = self.clock;
        }
        self.most = self.longest;
        let mut ways = Vec::new();
        if matches!(self.entry.state, State::Free)
            && let Some((state, token)) = self.ghost.clone()
        {
            let mut again = self.clone();
            again.entry.state = state;
            (again.token, again.over) = (token, (self.clock, NEVER));
            ways.push(again);
        }
        match self.entry.state {
            State::Free => ways.push(self),
            State::Reserved { .. } => {
                self.time_passes();
                ways.push(self);
            }
            State::Delayed { .. } => {
                self.over.1 = NEVER;
                ways.push(self);
            }
            State::Held(_) => {
                let mut died = self.clone();
                died.time_passes();
                died.ghost = None;
                self.over.1 = NEVER;
                ways.extend([died, self]);
            }
        }
        ways
    }
}

fn claim(op: &Op, id: TokenId, ttl: Nanos, instead_of: Option<u64>) -> Option<Claim> {
    let holder = Holder::new(op.holder.as_deref().unwrap_or("-")).ok()?;
    let ttl = Ttl::from_millis(ttl / 1_000_000).ok()?;
    let claim = Claim::new(Key::new("k").ok()?, holder, token(id)?, ttl);
    Some(match instead_of.and_then(|g| Generation::new(g).ok()) {
        Some(dead) => claim.instead_of(dead),
        None => claim,
    })
}
