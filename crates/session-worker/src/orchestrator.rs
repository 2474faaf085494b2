//! The one loop: hears what is new, gives each session a life of its own, and looks after all of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lease::{Event as Change, Tick, Verb, Watch, Watched};
use parking_lot::Mutex;
use session::{Reason, SessionId, State};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::desk::{Broken, Entry};
use crate::known::Known;
use crate::life::{Life, Orders};
use crate::round::{self, Round};
use crate::rows::Asked;
use crate::world::World;
use crate::{Fatal, keys, limits, metric, rows, scan};

/// What the loop waits for. Closed: there is nothing else.
enum Happening {
    /// The guard is lost.
    Lost(lease_keeper::Lost),
    /// The worker is to end.
    Closing,
    /// A life is over.
    Over(Result<(Id, ()), JoinError>),
    /// Something was written.
    Heard(lease::Result<Watched>),
    /// Somebody wants to know the truth now.
    Asked(oneshot::Sender<()>),
    /// It is time to look at everything.
    Round,
}

/// A session that runs, from outside.
pub(crate) struct Handle {
    pub(crate) orders: watch::Sender<Orders>,
    pub(crate) ending: Arc<AtomicBool>,
    /// The session as its life last wrote it.
    pub(crate) entry: Arc<Mutex<Entry>>,
}

pub(crate) struct Orchestrator {
    world: Arc<World>,
    asked: mpsc::Receiver<oneshot::Sender<()>>,
    closing: CancellationToken,
    lives: JoinSet<()>,
    ids: HashMap<Id, SessionId>,
    pub(crate) handles: HashMap<SessionId, Handle>,
    news: Option<Box<dyn Watch>>,
    known: Known,
    round: Round,
    next_round: Tick,
}

impl Orchestrator {
    pub(crate) fn new(
        world: Arc<World>,
        asked: mpsc::Receiver<oneshot::Sender<()>>,
        closing: CancellationToken,
    ) -> Self {
        let next_round = world.clock.now();
        Self {
            world,
            asked,
            closing,
            lives: JoinSet::new(),
            ids: HashMap::new(),
            handles: HashMap::new(),
            news: None,
            known: Known::default(),
            round: Round::default(),
            next_round,
        }
    }

    /// Runs until the guard is lost or the worker is closed; every pipeline is gone by then.
    pub(crate) async fn run(mut self) -> Fatal {
        loop {
            let result = match self.next().await {
                Happening::Lost(lost) => {
                    self.end_all().await;
                    return Fatal::Lost { lost };
                }
                Happening::Closing => {
                    self.end_all().await;
                    return Fatal::Ended;
                }
                Happening::Over(over) => {
                    self.over(over);
                    Ok(())
                }
                Happening::Heard(heard) => self.heard(heard).await,
                Happening::Asked(done) => {
                    let judged = self.compare().await;
                    let _gone = done.send(());
                    judged
                }
                Happening::Round => self.look_around().await,
            };
            if let Err(broken) = result {
                // The loss of the guard comes by itself; all else is tried again in the next round.
                tracing::warn!(target: metric::TARGET, why = %broken, "the sessions could not be looked at");
            }
        }
    }

    async fn next(&mut self) -> Happening {
        let heard = async {
            match self.news.as_mut() {
                Some(news) => news.next().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            lost = self.world.loss.told() => Happening::Lost(lost),
            () = self.closing.cancelled() => Happening::Closing,
            Some(over) = self.lives.join_next_with_id() => Happening::Over(over),
            () = self.world.clock.sleep_until(self.next_round) => Happening::Round,
            heard = heard => Happening::Heard(heard),
            Some(done) = self.asked.recv() => Happening::Asked(done),
        }
    }

    async fn heard(&mut self, heard: lease::Result<Watched>) -> Result<(), Broken> {
        match heard {
            Ok(Watched::Event(change)) if change.verb == Verb::Written => self.written(&change).await,
            Ok(Watched::Event(change)) => {
                if let Some(id) =
                    keys::id_in(&change.key, keys::SESSION).filter(|_| change.verb == Verb::Deleted)
                {
                    self.known.forget(&id);
                }
                Ok(())
            }
            Ok(Watched::Lagged) => {
                self.known.doubt();
                self.next_round = self.world.clock.now();
                Ok(())
            }
            Err(error) => {
                // The next round looks at everything and listens again.
                self.news = None;
                self.known.doubt();
                Err(Broken::Store(error.to_string()))
            }
        }
    }

    async fn written(&mut self, change: &Change) -> Result<(), Broken> {
        let world = self.world.clone();
        if let Some(id) = keys::id_in(&change.key, keys::SESSION) {
            // What runs is written by its own life.
            if self.handles.contains_key(&id) {
                return Ok(());
            }
            match scan::one(&world, &id).await {
                Ok(Some(entry)) => {
                    self.known.note(entry.clone());
                    self.take_up(entry);
                }
                Ok(None) => self.known.forget(&id),
                Err(broken) => {
                    self.known.doubt();
                    return Err(broken);
                }
            }
        } else if let Some(id) = keys::id_in(&change.key, keys::STOP)
            && self.handles.contains_key(&id)
        {
            let record = world.ask(world.store.get(&change.key)).await?;
            if let Some(asked) = record.and_then(|record| rows::read_stop(&record.value).ok()) {
                self.stop(&id, &asked);
            }
        }
        Ok(())
    }

    /// Compares claims with leases, and looks whether tuners that are kept out are free.
    async fn compare(&mut self) -> Result<(), Broken> {
        let world = self.world.clone();
        let sessions = self.known.all(&world, &self.handles).await?;
        self.round.judge(&world, &self.handles, &sessions).await?;
        round::offer_again(&world).await;
        Ok(())
    }

    /// Everything once: what was missed, and what only time brings.
    async fn look_around(&mut self) -> Result<(), Broken> {
        let world = self.world.clone();
        self.next_round = world.clock.now() + world.options.reconcile;
        if self.news.is_none() {
            let prefix = keys::prefix(keys::ALL).map_err(|error| Broken::Store(error.to_string()))?;
            // Listening begins before the look, so that nothing falls between the two.
            self.news = Some(world.ask(world.store.watch(&prefix, None)).await?);
            self.known.doubt();
        }
        let sessions = self.known.all(&world, &self.handles).await?;
        let stops = scan::stops(&world).await?;
        for entry in &sessions {
            self.take_up(entry.clone());
        }
        for (id, asked) in &stops {
            self.stop(id, asked);
        }
        let handles = &self.handles;
        self.round.sweep(&world, handles, &sessions).await
    }

    /// Gives a session that nobody runs a life, if it is fresh and there is room.
    fn take_up(&mut self, entry: Entry) {
        let id = entry.session.id.clone();
        let known = self.handles.contains_key(&id);
        if known || entry.session.state != State::New || self.handles.len() >= limits::LIVES {
            return;
        }
        let (orders, heard) = watch::channel(Orders::default());
        let ending = Arc::new(AtomicBool::new(false));
        let shown = Arc::new(Mutex::new(entry.clone()));
        let life = Life::new(self.world.clone(), entry, heard, ending.clone(), shown.clone());
        let task = self.lives.spawn(life.run());
        self.ids.insert(task.id(), id.clone());
        self.handles.insert(id, Handle { orders, ending, entry: shown });
    }

    fn stop(&mut self, id: &SessionId, asked: &Asked) {
        if let Some(handle) = self.handles.get(id) {
            handle.stop(asked.reason, asked.times > 1);
        }
    }

    fn over(&mut self, over: Result<(Id, ()), JoinError>) {
        let id = match &over {
            Ok((id, ())) => *id,
            Err(panicked) => panicked.id(),
        };
        let Some(session) = self.ids.remove(&id) else { return };
        if let Some(handle) = self.handles.remove(&session) {
            let last = handle.entry.lock().clone();
            if !last.session.state.is_terminal() {
                // It was given up in the middle: what its record says is not what it says.
                self.known.doubt();
            }
            self.known.note(last);
        }
        if over.is_err() {
            // Its leases and its process went with it; the next round says so in the record.
            tracing::error!(target: metric::TARGET, %session, "the life of a session ended by a defect");
        }
    }

    /// Ends every life, bounded: the last to be over takes as long as a pipeline may take to be gone.
    async fn end_all(&mut self) {
        for handle in self.handles.values() {
            handle.orders.send_modify(|orders| orders.cancel = true);
        }
        let world = self.world.clone();
        let bound = world.options.stop_timeout + world.options.gone_timeout + limits::GUARD_RELEASE * 2;
        tokio::select! {
            biased;
            () = async { while self.lives.join_next().await.is_some() {} } => {}
            () = world.pause(bound) => {
                tracing::error!(target: metric::TARGET, lives = self.lives.len(), "sessions did not end in time");
            }
        }
        metric::tuners_in_use(0);
        metric::sessions_active(0);
    }
}

impl Handle {
    /// Asks for the end; asked again, without patience. Answers whether that is news.
    pub(crate) fn stop(&self, reason: Reason, again: bool) -> bool {
        self.orders.send_if_modified(|orders| {
            let before = orders.clone();
            orders.stop.get_or_insert(reason);
            orders.kill |= again;
            *orders != before
        })
    }
}
