//! Holding one key.

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure_keeper::{Error, Guard, Handoff, LeaseHandle, Policy, Result, TransferOutcome};
use tenure_lease::{Clock, HighWaterMark, Holder, Key, Mode, Op};

use super::{Process, ms};
use crate::history::{TokenId, token_id};
use crate::plan::Ending;
use crate::rng::Rng;

/// A guard, and the note in the history when it is let go.
pub(crate) struct Hold {
    process: Arc<Process>,
    guard: Option<Guard>,
    key: Key,
    token: TokenId,
    held: LeaseHandle,
}

impl Deref for Hold {
    type Target = LeaseHandle;

    fn deref(&self) -> &LeaseHandle {
        &self.held
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        drop(self.guard.take());
        let now = self.process.true_now();
        let mut state = self.process.simulation.lock();
        if state.lives(self.process.host, self.process.client) {
            state.record.dropped(now, self.process.client, self.key.as_str(), self.token);
            state.record.forget_held(self.process.host, &self.key);
        }
    }
}

impl Hold {
    pub(crate) fn new(process: &Arc<Process>, guard: Guard, token: TokenId) -> Self {
        let (key, held) = (guard.key().clone(), guard.share());
        process.simulation.lock().record.remember_held(process.host, &key, guard.generation());
        let hold = Self { process: process.clone(), guard: Some(guard), key, token, held };
        process.believe(&hold);
        hold
    }
}

impl Process {
    /// Takes a guard in an attempt of its own.
    pub(crate) async fn take(
        self: &Arc<Self>,
        taking: impl Future<Output = Result<Guard>>,
    ) -> Result<Option<Hold>> {
        let mut attempt = self.attempt();
        let guard = attempt.of(taking).await?;
        let token = attempt.keep(guard.key(), guard.generation());
        Ok(Some(Hold::new(self, guard, token)))
    }

    pub(super) async fn hold(
        self: &Arc<Self>,
        key: u8,
        wait: Duration,
        acts: u8,
        end: Ending,
        mut rng: Rng,
    ) -> Result<()> {
        let mut terms = self.terms()?;
        if rng.chance(20) {
            terms = terms.policy(Policy::Abort);
        }
        if rng.chance(10) {
            terms = terms.max_hold(ms(self.plan.ttl_ms));
        }
        let taking = self.keeper.acquire(self.key(key)?, terms, wait);
        let Some(mut hold) = self.take(taking).await? else { return Ok(()) };
        self.acts(&hold, acts, &mut rng).await;
        let Some(guard) = hold.guard.take() else { return Ok(()) };
        match end {
            Ending::Drop => drop(guard),
            Ending::Release => drop(guard.release().await?),
            Ending::To(successor) => drop(guard.release_to(self.name(successor)?).await?),
            Ending::Transfer(successor) => {
                let moving = guard.transfer(self.name(successor)?);
                match self.while_moving(&hold, moving, &mut rng).await {
                    TransferOutcome::NoSuccessor(guard) => drop(guard.release().await?),
                    TransferOutcome::InDoubt { guard, .. } => drop(guard),
                    TransferOutcome::Transferred(_) | TransferOutcome::NotHeld(_) => {}
                }
            }
            Ending::Handoff(successor) => {
                let drain = self.sleep(ms(rng.below(u64::from(self.plan.ttl_ms / 2)) as u32));
                let moving =
                    Handoff::new(guard, self.name(successor)?).drain(drain).within(ms(self.plan.ttl_ms));
                drop(self.while_moving(&hold, moving, &mut rng).await?);
            }
            Ending::Keep => {
                hold.guard = Some(guard);
                let end = self.now() + ms(self.plan.ttl_ms * 2);
                while self.now() < end && hold.state().lost().is_none() {
                    self.act(&hold, &mut rng).await;
                }
                self.believe(&hold);
            }
        }
        Ok(())
    }

    /// Goes on asking for permits while the lease moves away: none must be given. What was begun is finished.
    async fn while_moving<T>(
        self: &Arc<Self>,
        held: &LeaseHandle,
        moving: impl Future<Output = T>,
        rng: &mut Rng,
    ) -> T {
        let over = AtomicBool::new(false);
        let moving = async {
            let moved = moving.await;
            over.store(true, Ordering::Relaxed);
            moved
        };
        let acting = async {
            while !over.load(Ordering::Relaxed) {
                self.act(held, rng).await;
            }
        };
        futures_util::future::join(moving, acting).await.0
    }

    pub(super) async fn run(self: &Arc<Self>, key: u8, wait: Duration, acts: u8, mut rng: Rng) -> Result<()> {
        let taking = self.keeper.acquire(self.key(key)?, self.terms()?, wait);
        let Some(mut hold) = self.take(taking).await? else { return Ok(()) };
        let Some(guard) = hold.guard.take() else { return Ok(()) };
        let process = self.clone();
        guard.run(|held| async move { process.acts(&held, acts, &mut rng).await }).await;
        Ok(())
    }

    fn name(&self, host: u8) -> Result<Holder> {
        Ok(super::holder(&self.plan, u32::from(host))?)
    }

    /// Acts so often.
    pub(crate) async fn acts(self: &Arc<Self>, held: &LeaseHandle, acts: u8, rng: &mut Rng) {
        for _ in 0..acts {
            self.act(held, rng).await;
        }
    }

    /// Asks for one permit and acts under it, or rests.
    pub(crate) async fn act(self: &Arc<Self>, held: &LeaseHandle, rng: &mut Rng) {
        let ttl = u64::from(self.plan.ttl_ms);
        self.believe(held);
        self.write_late(rng);
        let need = Duration::from_millis(if rng.chance(50) { 0 } else { rng.below(ttl) });
        let Ok(permit) = held.permit(need) else {
            return self.sleep(Duration::from_millis(rng.within(5, ttl / 4))).await;
        };
        let mark = self.mark(&permit);
        let mode = if rng.chance(50) { Mode::Strict } else { Mode::Monotonic };
        let fence = permit.fence(mode);
        let written = HighWaterMark::new(fence.generation, fence.token.digest());
        let token = token_id(fence.token.digest().as_bytes());
        match rng.below(4) {
            0 | 1 => self.write(&fence.key, written, token),
            2 => {
                if let Ok(log) = Key::new("log") {
                    let op = Op::Append { log, value: Arc::from(&b"x"[..]), max_len: 4 };
                    drop(
                        self.bounded(tenure_lease::Records::write_fenced(&*self.store, &fence, &[op])).await,
                    );
                }
            }
            _ => {}
        }
        // Some acts use their permit to its last moment.
        let until = match rng.below(4) {
            0 => permit.deadline().tick(),
            1 => self.now() + need,
            _ => self.now() + Duration::from_millis(rng.below(ttl / 4)),
        };
        self.clock.sleep_until(until.min(permit.deadline().tick())).await;
        drop(mark);
        self.old.lock().push((fence.key, written, token));
    }

    /// Writes once more what was written before, as a process does that was stopped in between.
    fn write_late(&self, rng: &mut Rng) {
        let old = self.old.lock();
        if !old.is_empty() && rng.chance(30) {
            let (key, mark, token) = old[rng.below(old.len() as u64) as usize].clone();
            drop(old);
            self.write(&key, mark, token);
        }
    }
}

/// An error that only says that there is no guard.
pub(crate) fn none<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Error::Busy { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
