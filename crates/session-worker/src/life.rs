//! The life of one session, from NEW to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lease::{Key, Tick};
use lease_keeper::{Bundle, Lost};
use parking_lot::Mutex;
use session::{Detail, Event, Pipeline as Stage, Reason};
use tokio::sync::watch;

use crate::desk::{Broken, Cause, Entry};
use crate::leases::{self, Taken};
use crate::pipeline::{self, News, Pipeline};
use crate::world::World;
use crate::{folder, limits, metric};

/// What others want of a session. Only ever grows.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Orders {
    /// It should end, for this reason.
    pub(crate) stop: Option<Reason>,
    /// Its end should not wait for anything.
    pub(crate) kill: bool,
    /// It hung while stopping: it is over now, whatever is left of it.
    pub(crate) force: bool,
    /// The worker ends.
    pub(crate) cancel: bool,
}

/// A session that runs, from its own point of view.
pub(crate) struct Life {
    pub(crate) world: Arc<World>,
    pub(crate) entry: Entry,
    pub(crate) orders: watch::Receiver<Orders>,
    /// Set when its leases are about to be given back, so that nobody takes that for a violation.
    pub(crate) ending: Arc<AtomicBool>,
    /// Where others see the session as it was last written.
    shown: Arc<Mutex<Entry>>,
    leases: Bundle,
    /// The taking of leases was broken off: what came of it is given back by the reaper.
    broken_off: bool,
    pipeline: Option<Box<dyn Pipeline>>,
}

/// Why a session comes to its end.
enum Ending {
    /// Somebody wants it.
    Stop(Reason),
    /// It cannot go on.
    Fail(Cause),
    /// What was left of a recording was there for long enough.
    Drained,
    /// The worker ends.
    Cancel,
}

impl Life {
    pub(crate) fn new(
        world: Arc<World>,
        entry: Entry,
        orders: watch::Receiver<Orders>,
        ending: Arc<AtomicBool>,
        shown: Arc<Mutex<Entry>>,
    ) -> Self {
        let (leases, broken_off, pipeline) = (Bundle::default(), false, None);
        Self { world, entry, orders, ending, shown, leases, broken_off, pipeline }
    }

    /// Lives it. What is left behind in every case: no process, no lease, no folder.
    pub(crate) async fn run(mut self) {
        let lived = match self.begin().await {
            Ok(ending) => self.end(ending).await,
            Err(broken) => Err(broken),
        };
        if let Err(broken) = lived {
            let id = &self.entry.session.id;
            tracing::warn!(target: metric::TARGET, session = %id, why = %broken, "the session is given up");
            self.ending.store(true, Ordering::Release);
            self.end_pipeline(true).await;
            self.clean_up().await;
        }
    }

    /// From NEW to the reason of its end.
    async fn begin(&mut self) -> Result<Ending, Broken> {
        let starts = self.world.starts.clone();
        let place = tokio::select! {
            biased;
            ending = interrupted(&self.world, &mut self.orders) => return ending,
            place = starts.acquire_owned() => place,
        };
        self.step(Event::Pick, None).await?;
        if let Some(ending) = self.take_leases().await? {
            return Ok(ending);
        }
        if let Some(ending) = self.start_pipeline().await? {
            return Ok(ending);
        }
        drop(place);
        self.watch().await
    }

    async fn take_leases(&mut self) -> Result<Option<Ending>, Broken> {
        let world = self.world.clone();
        let taken = tokio::select! {
            biased;
            ending = interrupted(&world, &mut self.orders) => {
                self.broken_off = true;
                return ending.map(Some);
            }
            taken = leases::take(&world, &self.entry.session) => taken,
        };
        match taken {
            Taken::All { leases, slot } => {
                self.leases = leases;
                let (pipeline, updated) =
                    (Stage::LeaseAcquired, world.wall().max(self.entry.session.updated));
                let next = session::Session { slot, pipeline, updated, ..self.entry.session.clone() };
                self.entry.save(&world, next).await?;
                *self.shown.lock() = self.entry.clone();
                Ok(None)
            }
            Taken::Busy(detail) => {
                metric::rejected(&self.entry.session, detail);
                let words = match detail {
                    Detail::RejectedNoTuner => "no tuner slots available",
                    _ => "dedup lease held",
                };
                Ok(Some(Ending::Fail(Cause::new(Reason::LeaseBusy, Some(detail), words.to_owned()))))
            }
            Taken::Failed(why) => Ok(Some(Ending::Fail(Cause::new(Reason::Unknown, None, why)))),
        }
    }

    async fn start_pipeline(&mut self) -> Result<Option<Ending>, Broken> {
        if let Some(ending) = ordered(&self.orders.borrow()) {
            return Ok(Some(ending));
        }
        let world = self.world.clone();
        let times = world.times(self.leases.deadline());
        // Raced with the guard alone: a process that is known is ended as it should be, and one that is not dies when
        // its start is dropped.
        let started = tokio::select! {
            biased;
            _ = world.loss.told() => return Err(Broken::GuardLost),
            started = pipeline::start(&world, &self.entry.session, times) => started,
        };
        match started {
            Ok(started) => self.pipeline = Some(started),
            Err(cause) => return Ok(Some(Ending::Fail(cause))),
        }
        if let Some(ending) = ordered(&self.orders.borrow()) {
            return Ok(Some(ending));
        }
        self.entry.session.pipeline = Stage::FfmpegRunning;
        self.step(Event::Prime, None).await?;
        Ok(None)
    }

    /// Runs until something ends it.
    async fn watch(&mut self) -> Result<Ending, Broken> {
        let world = self.world.clone();
        let began = world.clock.now();
        let mut lost = Box::pin(self.leases.lost());
        let mut drained: Option<Tick> = None;
        loop {
            let Some(pipeline) = self.pipeline.as_mut() else { return Err(Broken::Changed) };
            let (timed, next_look) = (pipeline.is_timed(), world.clock.now() + limits::LOOK);
            let news = tokio::select! {
                biased;
                (key, how) = &mut lost => return Ok(Ending::Fail(lease_lost(&key, how))),
                ending = interrupted(&world, &mut self.orders) => return ending,
                news = pipeline.news(), if drained.is_none() => news,
                () = world.clock.sleep_until(drained.unwrap_or_default()), if drained.is_some() => {
                    return Ok(Ending::Drained);
                }
                () = world.clock.sleep_until(next_look), if timed => {
                    pipeline.extend(world.times(self.leases.deadline())).await;
                    continue;
                }
            };
            match news {
                News::Published => {
                    self.step(Event::Publish, None).await?;
                    metric::first_playlist(&self.entry.session, world.clock.now().since(began));
                }
                News::Drained => {
                    self.step(Event::Drain, None).await?;
                    drained = Some(world.clock.now() + world.options.drain_timeout);
                }
                News::Failed(cause) => return Ok(Ending::Fail(cause)),
            }
        }
    }

    /// Ends it: the pipeline first, then the leases in reverse, then the record says so.
    async fn end(&mut self, ending: Ending) -> Result<(), Broken> {
        self.ending.store(true, Ordering::Release);
        let (event, cause, hard) = match ending {
            Ending::Stop(reason) => {
                self.step(Event::AskStop, Some(Cause::new(reason, None, None))).await?;
                let world = self.world.clone();
                let mut orders = self.orders.clone();
                let _place = tokio::select! {
                    biased;
                    _ = orders.wait_for(|orders| orders.kill || orders.cancel) => None,
                    _ = world.loss.told() => return Err(Broken::GuardLost),
                    place = world.stops.clone().acquire_owned() => place.ok(),
                };
                self.end_pipeline(false).await;
                let forced = self.orders.borrow().force;
                (if forced { Event::Force } else { Event::End }, None, false)
            }
            Ending::Fail(cause) => (Event::Fail, Some(cause), true),
            Ending::Drained => {
                let cause = Cause::new(Reason::ProcessEnded, Some(Detail::EndOfRecording), None);
                (Event::End, Some(cause), true)
            }
            Ending::Cancel => {
                let words = "the worker ended".to_owned();
                (Event::Cancel, Some(Cause::new(Reason::Cancelled, None, words)), false)
            }
        };
        self.end_pipeline(hard).await;
        self.clean_up().await;
        if event == Event::Force {
            self.entry.session.detail = Some(Detail::SweeperForcedStop);
        }
        self.step(event, cause).await
    }

    /// Ends the pipeline and waits until nothing of it is left. `hard` gives it no time of its own, and neither does
    /// whoever is impatient, a lost lease or a lost guard.
    async fn end_pipeline(&mut self, hard: bool) {
        let Some(mut pipeline) = self.pipeline.take() else { return };
        let world = self.world.clone();
        let (patience, gone) = (world.clock.now() + world.options.stop_timeout, world.options.gone_timeout);
        let mut killed = hard;
        match hard {
            true => pipeline.kill().await,
            false => pipeline.stop().await,
        }
        let mut lost = Box::pin(self.leases.lost());
        let mut give_up = killed.then(|| world.clock.now() + gone);
        while !pipeline.is_gone() {
            let now = world.clock.now();
            if self.orders.borrow().force || give_up.is_some_and(|end| now >= end) {
                if let Some(slot) = self.entry.session.slot {
                    world.withhold(slot, &self.entry.session.id);
                }
                return;
            }
            let impatient = self.orders.borrow().kill || world.loss.is_told() || now >= patience;
            if impatient && !killed {
                killed = true;
                give_up = Some(now + gone);
            }
            if killed {
                pipeline.kill().await;
            }
            tokio::select! {
                biased;
                _ = &mut lost, if !killed => {
                    killed = true;
                    give_up = Some(now + gone);
                }
                () = world.pause(limits::GONE_LOOK) => {}
            }
        }
    }

    /// Gives the leases back and removes the folder.
    async fn clean_up(&mut self) {
        let (world, leases) = (self.world.clone(), std::mem::take(&mut self.leases));
        // What is not given back here is the reaper's, for as long as it may be held. Without the guard there is no time.
        match world.loss.is_told() {
            true => drop(leases),
            false => drop(leases.release().await),
        }
        if self.broken_off {
            tokio::select! {
                biased;
                _ = world.loss.told() => {}
                () = world.keeper.settled() => {}
                () = world.pause(limits::GUARD_RELEASE) => {}
            }
        }
        let (id, root) = (self.entry.session.id.clone(), world.options.output_dir.clone());
        let removed = tokio::task::spawn_blocking(move || folder::remove(&folder::of(&root, &id)));
        match removed.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let id = &self.entry.session.id;
                tracing::warn!(target: metric::TARGET, session = %id, %error, "the folder could not be removed");
            }
            Err(_) => tracing::warn!(target: metric::TARGET, "the folder could not be removed"),
        }
    }

    async fn step(&mut self, event: Event, cause: Option<Cause>) -> Result<(), Broken> {
        let world = self.world.clone();
        self.entry.step(&world, event, cause).await?;
        *self.shown.lock() = self.entry.clone();
        Ok(())
    }
}

/// Waits for an order, or for the loss of the guard.
async fn interrupted(world: &World, orders: &mut watch::Receiver<Orders>) -> Result<Ending, Broken> {
    tokio::select! {
        biased;
        _ = world.loss.told() => Err(Broken::GuardLost),
        order = orders.wait_for(|orders| ordered(orders).is_some()) => {
            // Without anybody to give orders the worker ends.
            Ok(order.ok().and_then(|orders| ordered(&orders)).unwrap_or(Ending::Cancel))
        }
    }
}

/// What orders mean for a session that runs. Who asked for its end comes before the end of the worker.
fn ordered(orders: &Orders) -> Option<Ending> {
    match orders {
        Orders { stop: Some(reason), .. } => Some(Ending::Stop(*reason)),
        Orders { cancel: true, .. } => Some(Ending::Cancel),
        Orders { kill: true, .. } | Orders { force: true, .. } => Some(Ending::Stop(Reason::ClientStop)),
        _ => None,
    }
}

fn lease_lost(key: &Key, how: Lost) -> Cause {
    metric::lease_lost();
    Cause::new(Reason::LeaseExpired, Some(leases::lost_detail(key)), format!("{key} was lost: {how}"))
}
