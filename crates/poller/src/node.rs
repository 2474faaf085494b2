//! A polling node: starting, inspecting and stopping it.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_keeper::{Keeper, OsEntropy, Policy, Terms};
use tenure_lease::{Clock, Store};
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster_view::ClusterView;
use crate::events::RenewalObserver;
use crate::fetch::Fetcher;
use crate::runner::Runner;
use crate::sink::Sink;
use crate::snapshot::ClusterSnapshot;
use crate::timer::TimerQueue;
use crate::worker::WorkerContext;
use crate::{Settings, instance_id, limits};

/// A polling node. Dropping it stops polling without releasing its leases; [`Node::stop`] shuts it down cleanly.
pub struct Node {
    pub(crate) state: Arc<NodeState>,
    stop: CancellationToken,
    flushed: CancellationToken,
    runner: JoinSet<()>,
    sinks: JoinSet<()>,
    _timers: JoinSet<()>,
}

/// State that the event loop shares with the HTTP API.
pub(crate) struct NodeState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) instance: String,
    pub(crate) cluster: Mutex<ClusterView>,
    pub(crate) ownership_events: broadcast::Sender<OwnershipEvent>,
    pub(crate) context: Arc<WorkerContext>,
    /// Ends the event streams of the HTTP API.
    pub(crate) closing: CancellationToken,
}

/// A change of a target's owner, or a node that left, as seen by this node.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct OwnershipEvent {
    pub(crate) id: String,
    pub(crate) verb: &'static str,
    pub(crate) holder: String,
}

impl Node {
    /// Starts polling. Must be called inside a tokio runtime.
    pub fn start(store: Arc<dyn Store>, settings: Settings) -> tenure_lease::Result<Self> {
        let invalid = |reason: String| tenure_lease::Error::invalid("poll", reason);
        settings.check().map_err(|error| invalid(error.to_string()))?;
        let clock = store.clock();
        let holder = instance_id(settings.node_name.as_deref(), &*clock, &OsEntropy)?;
        let settings = Arc::new(settings);
        let fetcher = Fetcher::new(&settings, clock.clone())
            .map_err(|error| invalid(format!("cannot create HTTP client: {error}")))?;
        let (sink, store_writer, webhooks) =
            Sink::open(store.clone(), settings.clone(), fetcher.client().clone());
        let half = settings.renew_interval / 2;
        let keeper = Keeper::builder(store.clone(), holder.clone())
            .window(half)
            .observer(Arc::new(RenewalObserver))
            .build();
        let terms = Terms::new(settings.lease_ttl)
            .heartbeat(settings.renew_interval)
            .policy(Policy::Pause)
            .renew_early(half);
        keeper.check(&terms).map_err(|error| invalid(error.to_string()))?;
        let instance = holder.as_str().to_owned();
        let (started, name) = (clock.now(), settings.node_name.as_deref());
        let cluster = Mutex::new(ClusterView::new(&instance, name, settings.placement, started));
        let (timers, mut timer_task) = (Arc::new(TimerQueue::default()), JoinSet::new());
        timer_task.spawn(timers.clone().run(clock.clone()));
        let context = WorkerContext {
            settings: settings.clone(),
            fetcher,
            sink,
            clock,
            timers,
            instance: instance.clone(),
        };
        let (context, ownership_events) = (Arc::new(context), broadcast::channel(limits::STREAM).0);
        let closing = CancellationToken::new();
        let state =
            Arc::new(NodeState { store, settings, instance, cluster, ownership_events, context, closing });
        let (stop, flushed) = (CancellationToken::new(), CancellationToken::new());
        let (mut runner, mut sinks) = (JoinSet::new(), JoinSet::new());
        sinks.spawn(store_writer.run(flushed.clone()));
        sinks.spawn(webhooks.run());
        let (done, inbox) = mpsc::channel(limits::STREAM);
        runner.spawn(Runner::new(state.clone(), keeper, terms, done).run(inbox, stop.clone()));
        Ok(Self { state, stop, flushed, runner, sinks, _timers: timer_task })
    }

    /// The instance id of this node.
    pub fn instance(&self) -> &str {
        &self.state.instance
    }

    /// The nodes and targets that this node knows.
    pub fn snapshot(&self) -> ClusterSnapshot {
        ClusterSnapshot::capture(&self.state)
    }

    /// Stops polling, hands every target to its successor, removes the heartbeat and publishes the last results, so
    /// that the other nodes continue at once. The shutdown is bounded: leases not released in time expire.
    pub async fn stop(mut self) {
        self.stop.cancel();
        self.state.closing.cancel();
        let clock = self.state.store.clock();
        let timeout = limits::STOP_TIMEOUT * 2 + self.state.settings.lease_ttl.as_duration() / 3;
        join_within(&*clock, &mut self.runner, timeout).await;
        self.flushed.cancel();
        join_within(&*clock, &mut self.sinks, limits::STOP_TIMEOUT).await;
    }
}

async fn join_within(clock: &dyn Clock, tasks: &mut JoinSet<()>, timeout: std::time::Duration) {
    tokio::select! {
        biased;
        () = async { while tasks.join_next().await.is_some() {} } => {}
        () = clock.sleep_until(clock.now() + timeout) => {}
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("instance", &self.state.instance).finish_non_exhaustive()
    }
}
