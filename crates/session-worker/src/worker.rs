//! The worker as the binary sees it.

use std::sync::Arc;

use lease::Store;
use lease_keeper::{Gate, Keeper, Slots};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::orchestrator::Orchestrator;
use crate::pattern::Projector;
use crate::world::{Loss, World};
use crate::{Fatal, Launcher, Options, guard, keys, limits, metric, pipeline, recovery};

/// The one orchestrator of the sessions of a store: holds the guard, runs what the door records. Dropping it ends
/// everything as [`Worker::close`] does, without waiting.
pub struct Worker {
    world: Arc<World>,
    /// None once it was given back.
    gate: Mutex<Option<Gate>>,
    tasks: TaskTracker,
    closing: CancellationToken,
    /// Dropped with the worker, it ends everything.
    _ends: DropGuard,
    questions: mpsc::Sender<oneshot::Sender<()>>,
    fatal: watch::Receiver<Option<Fatal>>,
}

/// Whether a worker does its work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Readiness {
    /// It holds the guard and takes sessions up.
    Ready,
    /// It is over, for this reason.
    NotReady(&'static str),
}

impl Worker {
    /// Takes the guard, ends what an earlier worker left, puts its sessions right, and begins to take sessions up. As long
    /// as this has not returned, nothing is ready: it may wait for the TTL of the guard and two seconds.
    pub async fn start(
        store: Arc<dyn Store>,
        options: Options,
        launcher: Arc<dyn Launcher>,
    ) -> Result<Self, Fatal> {
        options.check()?;
        pipeline::check(&options, &*store.clock()).await?;
        metric::describe();
        let projector = Projector::open(&options, store.clock())?;
        let (loss, window) = (Loss::default(), options.heartbeat / 2);
        let keeper = Keeper::builder(store.clone(), guard::holder(&options)?).window(window).build();
        let gate = guard::open(&keeper, &options, &loss).await?;
        guard::wipe(&gate).await?;
        let prefix = keys::prefix(keys::TUNER).map_err(Fatal::store)?;
        let slots = Slots::under(&keeper, prefix, options.slots.clone()).map_err(Fatal::store)?;
        let world = World::new(store, keeper, gate.share(), loss, options, launcher, slots, projector);
        let world = Arc::new(world);
        recovery::run(&world).await?;

        let (closing, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (questions, asked) = mpsc::channel(limits::QUESTIONS);
        let (say, fatal) = watch::channel(None);
        let orchestrator = Orchestrator::new(world.clone(), asked, closing.clone());
        let projector = world.projector.clone();
        let ends = closing.clone();
        tasks.spawn(async move { projector.run(ends).await });
        tasks.spawn(async move {
            let ended = orchestrator.run().await;
            say.send_replace(Some(ended));
        });
        tasks.close();
        let (gate, ends) = (Mutex::new(Some(gate)), closing.clone().drop_guard());
        Ok(Self { world, gate, tasks, closing, _ends: ends, questions, fatal })
    }

    /// Whether it does its work.
    pub fn readiness(&self) -> Readiness {
        match self.world.loss.is_told() || self.fatal.borrow().is_some() {
            true => Readiness::NotReady("the guard is lost"),
            false if self.closing.is_cancelled() => Readiness::NotReady("it is being ended"),
            false => Readiness::Ready,
        }
    }

    /// Waits until it cannot go on: the guard is lost, and every pipeline was ended. The process must end then.
    pub async fn failed(&self) -> Fatal {
        let mut fatal = self.fatal.clone();
        match fatal.wait_for(Option::is_some).await {
            Ok(fatal) => fatal.clone().unwrap_or(Fatal::Ended),
            Err(_) => Fatal::Ended,
        }
    }

    /// Compares records and leases now and looks after tuners that are kept out, as is done every few seconds anyway.
    pub async fn reconcile_now(&self) {
        let (done, answered) = oneshot::channel();
        if self.questions.send(done).await.is_ok() {
            // A worker that ends meanwhile answers nothing, and there is nothing to wait for.
            drop(answered.await);
        }
    }

    /// Ends every pipeline, gives everything back in reverse and the guard last. Bounded; a second time changes nothing.
    pub async fn close(&self) {
        self.closing.cancel();
        self.tasks.wait().await;
        let gate = self.gate.lock().take();
        if let Some(gate) = gate {
            within(&self.world, async { drop(gate.close().await) }).await;
            within(&self.world, self.world.keeper.settled()).await;
        }
    }
}

async fn within(world: &World, act: impl Future<Output = ()>) {
    tokio::select! {
        () = act => {}
        () = world.pause(limits::GUARD_RELEASE) => {}
    }
}
