//! A polling node: what is started, looked at and stopped.

use std::fmt;
use std::sync::Arc;

use lease::{Clock, Store};
use lease_keeper::{Keeper, OsEntropy, Policy, Terms};
use parking_lot::Mutex;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::alarm::Alarms;
use crate::book::Book;
use crate::events::Renewals;
use crate::fetch::Fetcher;
use crate::runner::Runner;
use crate::sink::Sink;
use crate::view::Picture;
use crate::worker::Kit;
use crate::{Settings, instance_id, limits};

/// A polling node. Dropping it stops it without giving anything back; [`Node::stop`] does it in order.
pub struct Node {
    pub(crate) desk: Arc<Desk>,
    stop: CancellationToken,
    flushed: CancellationToken,
    runner: JoinSet<()>,
    sinks: JoinSet<()>,
    _ringer: JoinSet<()>,
}

/// What the loop shares with those who look.
pub(crate) struct Desk {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) instance: String,
    pub(crate) book: Mutex<Book>,
    pub(crate) moves: broadcast::Sender<Moved>,
    pub(crate) kit: Arc<Kit>,
    /// Ends the streams of those who look.
    pub(crate) closing: CancellationToken,
}

/// A target changed hands, as far as this node knows.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Moved {
    pub(crate) id: String,
    pub(crate) verb: &'static str,
    pub(crate) holder: String,
}

impl Node {
    /// Starts polling. Must be called inside a tokio runtime.
    pub fn start(store: Arc<dyn Store>, settings: Settings) -> lease::Result<Self> {
        let invalid = |why: String| lease::Error::invalid("poll", why);
        settings.check().map_err(|error| invalid(error.to_string()))?;
        let clock = store.clock();
        let holder = instance_id(settings.node_name.as_deref(), &*clock, &OsEntropy)?;
        let settings = Arc::new(settings);
        let fetcher = Fetcher::new(&settings, clock.clone())
            .map_err(|error| invalid(format!("no HTTP client: {error}")))?;
        let (sink, carrier, caller) = Sink::open(store.clone(), settings.clone(), fetcher.client().clone());
        let half = settings.renew_interval / 2;
        let keeper =
            Keeper::builder(store.clone(), holder.clone()).window(half).observer(Arc::new(Renewals)).build();
        let terms = Terms::new(settings.lease_ttl)
            .heartbeat(settings.renew_interval)
            .policy(Policy::Pause)
            .together(half);
        keeper.check(&terms).map_err(|error| invalid(error.to_string()))?;
        let instance = holder.as_str().to_owned();
        let (started, name) = (clock.now(), settings.node_name.as_deref());
        let book = Mutex::new(Book::new(&instance, name, settings.placement, started));
        let (alarms, mut ringer) = (Arc::new(Alarms::default()), JoinSet::new());
        ringer.spawn(alarms.clone().ring(clock.clone()));
        let kit =
            Kit { settings: settings.clone(), fetcher, sink, clock, alarms, instance: instance.clone() };
        let (kit, moves) = (Arc::new(kit), broadcast::channel(limits::STREAM).0);
        let closing = CancellationToken::new();
        let desk = Arc::new(Desk { store, settings, instance, book, moves, kit, closing });
        let (stop, flushed) = (CancellationToken::new(), CancellationToken::new());
        let (mut runner, mut sinks) = (JoinSet::new(), JoinSet::new());
        sinks.spawn(carrier.run(flushed.clone()));
        sinks.spawn(caller.run());
        let (done, inbox) = mpsc::channel(limits::STREAM);
        runner.spawn(Runner::new(desk.clone(), keeper, terms, done).run(inbox, stop.clone()));
        Ok(Self { desk, stop, flushed, runner, sinks, _ringer: ringer })
    }

    /// The instance id.
    pub fn instance(&self) -> &str {
        &self.desk.instance
    }

    /// What this node knows.
    pub fn picture(&self) -> Picture {
        Picture::of(&self.desk)
    }

    /// Stops polling, hands every target to its heir, takes the heartbeat away and tells the last results: the
    /// others go on at once. Bounded: what does not end in time is left to the TTLs.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.desk.closing.cancel();
        let clock = self.desk.store.clock();
        let patience = limits::JOIN * 2 + self.desk.settings.lease_ttl.as_duration() / 3;
        ended(&*clock, &mut self.runner, patience).await;
        self.flushed.cancel();
        ended(&*clock, &mut self.sinks, limits::JOIN).await;
    }
}

async fn ended(clock: &dyn Clock, tasks: &mut JoinSet<()>, patience: std::time::Duration) {
    tokio::select! {
        biased;
        () = async { while tasks.join_next().await.is_some() {} } => {}
        () = clock.sleep_until(clock.now() + patience) => {}
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("instance", &self.desk.instance).finish_non_exhaustive()
    }
}
