//! How a claim becomes a guard.

use std::time::Duration;

use lease::{
    Acquired, Busy, Claim, Deadline, End, Error as StoreError, Generation, Grant, Happened, Key, Reason,
    Renewal, Renewed, Tick, Token,
};

use lease::breaks::{Break, broken};

use crate::entropy::Jitter;
use crate::keeper::Keeper;
use crate::reaper::Debt;
use crate::reign::Reign;
use crate::{Error, Guard, Lost, Result, Terms, telemetry};

/// How a key is wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want {
    wait: Duration,
    instead_of: Option<Generation>,
    /// Ask once: any doubt is an error.
    once: bool,
}

impl Want {
    pub(crate) const fn waiting(wait: Duration) -> Self {
        Self { wait, instead_of: None, once: false }
    }

    pub(crate) const fn instead_of(dead: Generation) -> Self {
        Self { wait: Duration::ZERO, instead_of: Some(dead), once: false }
    }

    pub(crate) const fn once(instead_of: Option<Generation>) -> Self {
        Self { wait: Duration::ZERO, instead_of, once: true }
    }
}

/// Takes a key. See [`Keeper::acquire`].
pub(crate) async fn acquire(keeper: &Keeper, key: Key, terms: Terms, want: Want) -> Result<Guard> {
    keeper.check(&terms)?;
    let start = keeper.clock().now();
    let result = Pursuit::new(keeper, key, terms, want, start).run().await;
    let word = match &result {
        Ok(_) => "granted",
        Err(Error::Busy { .. }) => "busy",
        Err(error) if error.happened() == Happened::Maybe => "unknown",
        Err(_) => "failed",
    };
    telemetry::acquire_answered(word, keeper.clock().now().since(start));
    result
}

/// A claim under way, from the making of its token to its guard.
struct Pursuit<'k> {
    keeper: &'k Keeper,
    key: Key,
    terms: Terms,
    want: Want,
    token: Token,
    /// The end of the wait that the caller allows.
    wait_end: Tick,
    /// The end of tries to find out what happened.
    give_up: Tick,
    /// When the TTL of anything granted to this token has run out at the latest.
    bound: Tick,
    /// Something may be held in the store that no guard stands for.
    owed: bool,
    failures: u32,
}

/// What one question led to.
enum Step {
    Done(Box<Guard>),
    Again,
}

impl<'k> Pursuit<'k> {
    fn new(keeper: &'k Keeper, key: Key, terms: Terms, want: Want, now: Tick) -> Self {
        let wait = want.wait.min(Duration::from_millis(lease::limits::WAIT_MS));
        let wait_end = now + wait;
        Self {
            token: terms.token.clone().unwrap_or_else(|| Token::random(&*keeper.shared().entropy)),
            wait_end,
            give_up: wait_end + terms.patience(),
            bound: now,
            // What an earlier grant of a given token left is given back with the rest.
            owed: terms.token.is_some(),
            failures: 0,
            keeper,
            key,
            terms,
            want,
        }
    }

    async fn run(mut self) -> Result<Guard> {
        loop {
            match self.ask().await {
                (sent, Ok(Acquired::Granted(grant))) => {
                    if let Step::Done(guard) = self.granted(grant, sent).await? {
                        return Ok(*guard);
                    }
                }
                (_, Ok(Acquired::Busy(busy))) => self.busy(busy).await?,
                (_, Err(error)) => self.failed(error, self.give_up).await?,
            }
        }
    }

    /// Sends the claim once. The send time is read right before the call.
    async fn ask(&mut self) -> (Tick, Result<Acquired, StoreError>) {
        let (store, clock) = (self.keeper.store().clone(), self.keeper.clock().clone());
        let holder = self.terms.holder.as_ref().unwrap_or(self.keeper.holder());
        let mut claim = Claim::new(self.key.clone(), holder.clone(), self.token.clone(), self.terms.ttl)
            .meta(self.terms.meta.clone());
        claim.instead_of = self.want.instead_of;
        let now = clock.now();
        let wait = self.wait_end.since(now);
        claim.wait = (!wait.is_zero()).then_some(wait);
        let waits = claim.wait.is_some() && !broken(Break::BusyIsSettled);
        let limit = now + wait + self.terms.patience();
        self.bound = self.bound.max(limit + self.terms.ttl.as_duration());
        let before = std::mem::replace(&mut self.owed, true);
        let give_up = clock.sleep_until(limit);
        let sent = clock.now();
        let answer = tokio::select! {
            biased;
            answer = store.acquire(claim) => answer,
            () = give_up => Err(unknown(self.keeper)),
        };
        // A clear no leaves only what an earlier, unanswered request may have brought; and, where the network
        // doubled a claim that waits, the copy that came later still stands in the queue, for nobody.
        self.owed = match &answer {
            Ok(Acquired::Granted(_)) => true,
            Ok(Acquired::Busy(_)) => before || waits,
            Err(error) => before || error.happened() == Happened::Maybe,
        };
        (sent, answer)
    }

    /// A grant is a guard if its deadline counts from a known send and has not passed; else one renewal of it
    /// must succeed first.
    async fn granted(&mut self, grant: Grant, sent: Tick) -> Result<Step> {
        let Grant { lease, parked } = grant;
        if lease.ttl < self.terms.ttl {
            self.terms.ttl = lease.ttl;
            self.terms.heartbeat = self.terms.heartbeat.min(lease.ttl.as_duration() / 3);
        }
        if parked && broken(Break::ParkedFromReply) {
            return Ok(Step::Done(Box::new(self.guard(lease, self.keeper.clock().now()))));
        }
        if !parked && !self.too_late(sent) {
            return Ok(Step::Done(Box::new(self.guard(lease, sent))));
        }
        let confirm_end = self.keeper.clock().now() + self.terms.ttl.as_duration();
        self.failures = 0;
        loop {
            match self.confirm(lease.generation).await {
                (sent, Ok(Renewed::Renewed { .. })) if !self.too_late(sent) => {
                    return Ok(Step::Done(Box::new(self.guard(lease, sent))));
                }
                (_, Ok(Renewed::Renewed { .. })) => self.failed(unknown(self.keeper), confirm_end).await?,
                (_, Ok(Renewed::Lost(end))) => return self.lost(end),
                (_, Err(error)) => self.failed(error, confirm_end).await?,
            }
        }
    }

    async fn confirm(&mut self, generation: Generation) -> (Tick, Result<Renewed, StoreError>) {
        let (store, clock) = (self.keeper.store().clone(), self.keeper.clock().clone());
        let item = [Renewal { key: self.key.clone(), token: self.token.clone(), generation, ttl: None }];
        let limit = clock.now() + self.terms.attempt();
        self.bound = self.bound.max(limit + self.terms.ttl.as_duration());
        let give_up = clock.sleep_until(limit);
        let sent = clock.now();
        let answer = tokio::select! {
            biased;
            answer = store.renew(&item) => answer,
            () = give_up => Err(unknown(self.keeper)),
        };
        let first = answer.and_then(|answers| answers.first().copied().ok_or_else(|| unknown(self.keeper)));
        (sent, first)
    }

    /// The grant ended before it could be used. An expired token may start anew; a spent one may not.
    fn lost(&mut self, end: End) -> Result<Step> {
        let in_time = self.keeper.clock().now() < self.give_up;
        if in_time && !end.spends_token() && !self.want.once {
            return Ok(Step::Again);
        }
        self.owed = false;
        Err(Error::Lost { key: self.key.clone(), lost: Lost::Ended(end) })
    }

    /// A store may say busy before the wait is over (it restarted, or the queue is full): ask again then.
    async fn busy(&mut self, busy: Busy) -> Result<()> {
        let clock = self.keeper.clock().clone();
        let now = clock.now();
        if now >= self.wait_end || busy.reason == Reason::NotThatGeneration {
            return Err(Error::Busy { key: self.key.clone(), busy });
        }
        let most = self.terms.back_off(u32::MAX);
        let pause = busy.remaining.unwrap_or(most).clamp(self.terms.back_off(1), most);
        clock.sleep_until(self.wait_end.min(now + pause)).await;
        Ok(())
    }

    /// Waits before the next try, or answers that there is none.
    async fn failed(&mut self, error: StoreError, end: Tick) -> Result<()> {
        let clock = self.keeper.clock().clone();
        self.failures += 1;
        let next = clock.now() + self.terms.back_off(self.failures);
        let hopeless = matches!(error, StoreError::Invalid { .. } | StoreError::Refused(_));
        if hopeless || self.want.once || next >= end {
            return Err(error.into());
        }
        clock.sleep_until(next).await;
        if broken(Break::NewTokenOnRetry) {
            self.token = Token::random(&*self.keeper.shared().entropy);
        }
        Ok(())
    }

    fn too_late(&self, sent: Tick) -> bool {
        let deadline = Deadline::from_send(sent, self.terms.ttl, &self.keeper.shared().margins);
        deadline.passed(self.keeper.clock().now())
    }

    fn guard(&mut self, lease: lease::Lease, sent: Tick) -> Guard {
        let shared = self.keeper.shared();
        let jitter = Jitter::draw(&*shared.entropy);
        let reign = Reign::new(self.terms.clone(), shared.margins, sent, shared.clock.now(), jitter);
        self.owed = false;
        Guard::new(self.keeper, lease, self.token.clone(), reign)
    }
}

/// Given up, dropped or failed in doubt: the reaper sends a release by token alone.
impl Drop for Pursuit<'_> {
    fn drop(&mut self) {
        if self.owed {
            let (key, token) = (self.key.clone(), self.token.clone());
            let debt = Debt { key, token, ttl: self.terms.ttl, until: self.bound };
            self.keeper.shared().reaper.owe(debt);
        }
    }
}

fn unknown(keeper: &Keeper) -> StoreError {
    StoreError::unknown(keeper.store().capabilities().engine, "no usable answer in time")
}
