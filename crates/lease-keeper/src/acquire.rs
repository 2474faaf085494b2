//! From a claim to a guard.

use std::time::Duration;

use tenure_lease::{
    Acquired, Busy, BusyReason, Claim, End, Error as StoreError, Generation, Grant, Key, Outcome, Renewal,
    Renewed, Tick, Token,
};

use tenure_lease::breaks::{Break, broken};

use crate::entropy::Jitter;
use crate::keeper::Keeper;
use crate::reaper::PendingRelease;
use crate::reign::{Confirmation, ReignState};
use crate::{Error, Guard, Lost, Result, Terms, telemetry};

/// How a key is acquired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcquireMode {
    wait: Duration,
    instead_of: Option<Generation>,
    /// Without retries: an unknown outcome is an error.
    once: bool,
}

impl AcquireMode {
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

/// Acquires a key. See [`Keeper::acquire`].
pub(crate) async fn acquire(keeper: &Keeper, key: Key, terms: Terms, mode: AcquireMode) -> Result<Guard> {
    keeper.check(&terms)?;
    let start = keeper.clock().now();
    let result = Acquisition::new(keeper, key, terms, mode, start).run().await;
    let label = match &result {
        Ok(_) => "granted",
        Err(Error::Busy { .. }) => "busy",
        Err(error) if error.outcome() == Outcome::Indeterminate => "unknown",
        Err(_) => "failed",
    };
    telemetry::acquire_finished(label, keeper.clock().now().since(start));
    result
}

/// A claim in progress, from its token to its guard.
struct Acquisition<'k> {
    keeper: &'k Keeper,
    key: Key,
    terms: Terms,
    mode: AcquireMode,
    token: Token,
    /// The end of the caller's wait.
    wait_end: Tick,
    /// The end of retries after unknown outcomes.
    retry_end: Tick,
    /// When the TTL of anything granted to this token has ended at the latest.
    expires_by: Tick,
    /// The store may have granted a lease that no guard represents.
    needs_release: bool,
    failures: u32,
}

/// The result of one attempt.
enum Step {
    Done(Box<Guard>),
    Retry,
}

impl<'k> Acquisition<'k> {
    fn new(keeper: &'k Keeper, key: Key, terms: Terms, mode: AcquireMode, now: Tick) -> Self {
        let wait = mode.wait.min(Duration::from_millis(tenure_lease::limits::WAIT_MS));
        let wait_end = now + wait;
        Self {
            token: terms.token.clone().unwrap_or_else(|| Token::random(&*keeper.state().entropy)),
            wait_end,
            retry_end: wait_end + terms.call_timeout(),
            expires_by: now,
            // An earlier grant to a given token is released as well.
            needs_release: terms.token.is_some(),
            failures: 0,
            keeper,
            key,
            terms,
            mode,
        }
    }

    async fn run(mut self) -> Result<Guard> {
        loop {
            match self.send_claim().await {
                (sent, Ok(Acquired::Granted(grant))) => {
                    if let Step::Done(guard) = self.granted(grant, sent).await? {
                        return Ok(*guard);
                    }
                }
                (_, Ok(Acquired::Busy(busy))) => self.busy(busy).await?,
                (_, Err(error)) => self.failed(error, self.retry_end).await?,
            }
        }
    }

    /// Sends the claim once. The send time is read right before the call.
    async fn send_claim(&mut self) -> (Tick, Result<Acquired, StoreError>) {
        let (store, clock) = (self.keeper.store().clone(), self.keeper.clock().clone());
        let holder = self.terms.holder.as_ref().unwrap_or(self.keeper.holder());
        let mut claim = Claim::new(self.key.clone(), holder.clone(), self.token.clone(), self.terms.ttl)
            .meta(self.terms.meta.clone());
        claim.instead_of = self.mode.instead_of;
        let now = clock.now();
        let wait = self.wait_end.since(now);
        claim.wait = (!wait.is_zero()).then_some(wait);
        let waits = claim.wait.is_some() && !broken(Break::BusyIsSettled);
        let limit = now + wait + self.terms.call_timeout();
        self.expires_by = self.expires_by.max(limit + self.terms.ttl.as_duration());
        let before = std::mem::replace(&mut self.needs_release, true);
        let give_up = clock.sleep_until(limit);
        let sent = clock.now();
        let answer = tokio::select! {
            biased;
            answer = store.acquire(claim) => answer,
            () = give_up => Err(unknown(self.keeper)),
        };
        // After a definite refusal, only an earlier request with an unknown outcome may have been granted. If the network
        // duplicated a waiting claim, the later copy may still be in the queue.
        self.needs_release = match &answer {
            Ok(Acquired::Granted(_)) => true,
            Ok(Acquired::Busy(_)) => before || waits,
            Err(error) => before || error.outcome() == Outcome::Indeterminate,
        };
        (sent, answer)
    }

    /// A grant becomes a guard if its deadline counts from a known send time and has not passed. Otherwise one renewal
    /// must succeed first.
    async fn granted(&mut self, grant: Grant, sent: Tick) -> Result<Step> {
        let Grant { lease, parked } = grant;
        if lease.ttl < self.terms.ttl {
            self.terms.ttl = lease.ttl;
            self.terms.heartbeat = self.terms.heartbeat.min(lease.ttl.as_duration() / 3);
        }
        let remaining = lease.ttl.as_duration();
        if parked && broken(Break::ParkedFromReply) {
            let replied = Confirmation { sent: self.keeper.clock().now(), remaining };
            return Ok(Step::Done(Box::new(self.guard(lease, replied))));
        }
        let confirmation = Confirmation { sent, remaining };
        if !parked && !self.deadline_passed(confirmation) {
            return Ok(Step::Done(Box::new(self.guard(lease, confirmation))));
        }
        let confirm_end = self.keeper.clock().now() + self.terms.ttl.as_duration();
        self.failures = 0;
        loop {
            match self.confirm(lease.generation).await {
                (sent, Ok(Renewed::Renewed { remaining })) => {
                    let confirmation = Confirmation { sent, remaining };
                    if !self.deadline_passed(confirmation) {
                        return Ok(Step::Done(Box::new(self.guard(lease, confirmation))));
                    }
                    self.failed(unknown(self.keeper), confirm_end).await?;
                }
                (_, Ok(Renewed::Lost(end))) => return self.lost(end),
                (_, Err(error)) => self.failed(error, confirm_end).await?,
            }
        }
    }

    async fn confirm(&mut self, generation: Generation) -> (Tick, Result<Renewed, StoreError>) {
        let (store, clock) = (self.keeper.store().clone(), self.keeper.clock().clone());
        let item = [Renewal { key: self.key.clone(), token: self.token.clone(), generation, ttl: None }];
        let limit = clock.now() + self.terms.renewal_timeout();
        self.expires_by = self.expires_by.max(limit + self.terms.ttl.as_duration());
        let give_up = clock.sleep_until(limit);
        let sent = clock.now();
        let answer = tokio::select! {
            biased;
            answer = store.renew(&item) => answer,
            () = give_up => Err(unknown(self.keeper)),
        };
        let first = answer.and_then(|mut answers| answers.pop().unwrap_or_else(|| Err(unknown(self.keeper))));
        (sent, first)
    }

    /// The grant ended before it could be used. An expired token may be granted again, a spent one may not.
    fn lost(&mut self, end: End) -> Result<Step> {
        let in_time = self.keeper.clock().now() < self.retry_end;
        if in_time && !end.spends_token() && !self.mode.once {
            return Ok(Step::Retry);
        }
        self.needs_release = false;
        Err(Error::Lost { key: self.key.clone(), lost: Lost::Ended(end) })
    }

    /// A store may return busy before the wait is over (after a restart, or if the queue is full): then retry.
    async fn busy(&mut self, busy: Busy) -> Result<()> {
        let clock = self.keeper.clock().clone();
        let now = clock.now();
        if now >= self.wait_end || busy.reason == BusyReason::NotThatGeneration {
            return Err(Error::Busy { key: self.key.clone(), busy });
        }
        let most = self.terms.back_off(u32::MAX);
        let pause = busy.remaining.unwrap_or(most).clamp(self.terms.back_off(1), most);
        clock.sleep_until(self.wait_end.min(now + pause)).await;
        Ok(())
    }

    /// Waits before the next attempt, or returns the error if there is none.
    async fn failed(&mut self, error: StoreError, end: Tick) -> Result<()> {
        let clock = self.keeper.clock().clone();
        self.failures += 1;
        let next = clock.now() + self.terms.back_off(self.failures);
        let permanent = matches!(error, StoreError::Invalid { .. } | StoreError::Refused(_));
        if permanent || self.mode.once || next >= end {
            return Err(error.into());
        }
        clock.sleep_until(next).await;
        if broken(Break::NewTokenOnRetry) {
            self.token = Token::random(&*self.keeper.state().entropy);
        }
        Ok(())
    }

    fn deadline_passed(&self, confirmation: Confirmation) -> bool {
        let deadline = confirmation.deadline(&self.terms, &self.keeper.state().margins);
        deadline.passed(self.keeper.clock().now())
    }

    fn guard(&mut self, lease: tenure_lease::Lease, confirmation: Confirmation) -> Guard {
        let state = self.keeper.state();
        let jitter = Jitter::draw(&*state.entropy);
        let reign =
            ReignState::new(self.terms.clone(), state.margins, confirmation, state.clock.now(), jitter);
        self.needs_release = false;
        Guard::new(self.keeper, lease, self.token.clone(), reign)
    }
}

/// Dropped or failed with an unknown outcome: the reaper releases by the token alone.
impl Drop for Acquisition<'_> {
    fn drop(&mut self) {
        if self.needs_release {
            let (key, token) = (self.key.clone(), self.token.clone());
            let (ttl, expires_by) = (self.terms.ttl, self.expires_by);
            let release = PendingRelease { lease: None, key, token, ttl, expires_by };
            self.keeper.state().reaper.enqueue(release);
        }
    }
}

fn unknown(keeper: &Keeper) -> StoreError {
    StoreError::unknown(keeper.store().capabilities().engine, "no usable response in time")
}
