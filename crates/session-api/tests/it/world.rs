//! The ports in memory: every write is counted, every fault is caused on purpose.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use session::{
    Admission, Admitted, Among, Bus, Changes, Created, Error, Event, Found, IdempotencyKey, Listed, Notice,
    Result, Session, SessionId, SessionLog, State, StopRequest, Target, Ticket, Topic, UnixMs, Version,
};
use tokio::sync::{Barrier, Notify, watch};

/// What a write does instead of what it should.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// It does not happen, and says so.
    Refused,
    /// It happens, and nobody is told.
    Landed,
    /// It does not happen, and nobody is told.
    Lost,
    /// Somebody else was faster, and is gone again.
    Taken,
    /// Somebody else was faster: the session `rival` stands.
    Overtaken,
}

#[derive(Default)]
struct Rows {
    version: u64,
    mappings: BTreeMap<String, (SessionId, Version)>,
    sessions: BTreeMap<SessionId, Session>,
    stops: HashSet<SessionId>,
    seen: HashMap<SessionId, UnixMs>,
}

/// The sessions, in memory.
pub(crate) struct Memory {
    rows: Arc<Mutex<Rows>>,
    moved: watch::Sender<u64>,
    down: AtomicBool,
    pub(crate) reads: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    pub(crate) creates: AtomicUsize,
    pub(crate) touches: AtomicUsize,
    faults: Mutex<Vec<Fault>>,
    stuck: Mutex<Option<Fault>>,
    /// Those who look wait for each other here before they see anything.
    pub(crate) crowd: Mutex<Option<Arc<Barrier>>>,
}

impl Memory {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            rows: Arc::default(),
            moved: watch::Sender::new(0),
            down: AtomicBool::new(false),
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            creates: AtomicUsize::new(0),
            touches: AtomicUsize::new(0),
            faults: Mutex::default(),
            stuck: Mutex::default(),
            crowd: Mutex::default(),
        })
    }

    /// Whether everything is out of reach.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// The next creations end so, one each.
    pub(crate) fn creations_end(&self, faults: &[Fault]) {
        *self.faults.lock() = faults.iter().rev().copied().collect();
    }

    /// All creations end so.
    pub(crate) fn creations_always_end(&self, fault: Fault) {
        *self.stuck.lock() = Some(fault);
    }

    pub(crate) fn sessions(&self) -> Vec<Session> {
        self.rows.lock().sessions.values().cloned().collect()
    }

    pub(crate) fn mappings(&self) -> usize {
        self.rows.lock().mappings.len()
    }

    pub(crate) fn session(&self, id: &str) -> Session {
        self.rows.lock().sessions[&SessionId::new(id).unwrap()].clone()
    }

    pub(crate) fn seen_at(&self, id: &str) -> Option<UnixMs> {
        self.rows.lock().seen.get(&SessionId::new(id).unwrap()).copied()
    }

    /// What a worker would write.
    pub(crate) fn put(&self, session: Session) {
        let mut rows = self.rows.lock();
        rows.sessions.insert(session.id.clone(), session);
        drop(rows);
        self.moved.send_modify(|moved| *moved += 1);
    }

    pub(crate) fn forget(&self, id: &str) {
        self.rows.lock().sessions.remove(&SessionId::new(id).unwrap());
        self.moved.send_modify(|moved| *moved += 1);
    }

    /// Leads a session through these events.
    pub(crate) fn live_through(&self, id: &str, events: &[Event]) {
        for event in events {
            let session = self.session(id);
            let at = UnixMs(session.updated.0 + 1);
            if let Some(next) = session.after(*event, at).unwrap() {
                self.put(next);
            }
        }
    }

    fn read(&self) -> Result<()> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.up()
    }

    fn write(&self) -> Result<()> {
        self.up()?;
        self.writes.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    fn up(&self) -> Result<()> {
        match self.down.load(Ordering::SeqCst) {
            true => Err(Error::Unavailable("redis://user:hidden-password@store is gone".into())),
            false => Ok(()),
        }
    }

    fn insert(&self, session: &Session, instead_of: Option<Version>) -> Created {
        let mut rows = self.rows.lock();
        let key = session.idempotency.as_str().to_owned();
        if rows.mappings.get(&key).map(|(_, version)| *version) != instead_of
            || rows.sessions.contains_key(&session.id)
        {
            return Created::Taken;
        }
        rows.version += 1;
        let version = Version(rows.version);
        rows.mappings.insert(key, (session.id.clone(), version));
        rows.sessions.insert(session.id.clone(), session.clone());
        Created::Created(version)
    }
}

#[async_trait]
impl SessionLog for Memory {
    async fn find(&self, keys: &[IdempotencyKey]) -> Result<Option<Found>> {
        self.read()?;
        let seen = {
            let rows = self.rows.lock();
            let found = keys.iter().filter_map(|key| {
                let (id, version) = rows.mappings.get(key.as_str())?;
                let session = rows.sessions.get(id).cloned();
                Some(Found { key: key.clone(), version: *version, session })
            });
            let found: Vec<Found> = found.collect();
            let live =
                |found: &&Found| found.session.as_ref().is_some_and(|session| !session.state.is_terminal());
            found.iter().find(live).or(found.first()).cloned()
        };
        let crowd = self.crowd.lock().clone();
        if let Some(crowd) = crowd {
            crowd.wait().await;
        }
        Ok(seen)
    }

    async fn create(&self, session: &Session, instead_of: Option<Version>) -> Result<Created> {
        self.creates.fetch_add(1, Ordering::SeqCst);
        // Nobody looks together any more once somebody writes.
        self.crowd.lock().take();
        let fault = self.faults.lock().pop().or(*self.stuck.lock());
        match fault {
            None => {
                self.write()?;
                Ok(self.insert(session, instead_of))
            }
            Some(Fault::Refused) => Err(Error::Unavailable("refused".into())),
            Some(Fault::Landed) => {
                self.write()?;
                self.insert(session, instead_of);
                Err(Error::Unknown("the answer was cut".into()))
            }
            Some(Fault::Lost) => Err(Error::Unknown("the question was cut".into())),
            Some(Fault::Taken) => Ok(Created::Taken),
            Some(Fault::Overtaken) => {
                let id = SessionId::new("rival")?;
                self.insert(&Session { id, ticket: None, ..session.clone() }, instead_of);
                Ok(Created::Taken)
            }
        }
    }

    async fn withdraw(&self, session: &Session, version: Version) -> Result<bool> {
        self.write()?;
        let mut rows = self.rows.lock();
        if rows.sessions.get(&session.id).is_none_or(|kept| kept.state != State::New) {
            return Ok(false);
        }
        let key = session.idempotency.as_str();
        if rows.mappings.get(key).is_some_and(|(id, kept)| *id == session.id && *kept == version) {
            rows.mappings.remove(key);
        }
        rows.sessions.remove(&session.id);
        Ok(true)
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>> {
        self.read()?;
        Ok(self.rows.lock().sessions.get(id).cloned())
    }

    async fn count(&self) -> Result<usize> {
        self.up()?;
        Ok(self.rows.lock().sessions.len())
    }

    async fn list(&self, among: Among, offset: usize, limit: usize) -> Result<Listed> {
        self.read()?;
        let mut all = self.sessions();
        all.retain(|session| among == Among::All || !session.state.is_terminal());
        all.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        let total = all.len();
        Ok(Listed { sessions: all.into_iter().skip(offset).take(limit).collect(), total })
    }

    async fn ask_stop(&self, stop: &StopRequest) -> Result<bool> {
        self.write()?;
        Ok(self.rows.lock().stops.insert(stop.session.clone()))
    }

    async fn seen(&self, id: &SessionId) -> Result<Option<UnixMs>> {
        self.read()?;
        Ok(self.rows.lock().seen.get(id).copied())
    }

    async fn touch(&self, id: &SessionId, at: UnixMs) -> Result<()> {
        self.write()?;
        self.touches.fetch_add(1, Ordering::SeqCst);
        let mut rows = self.rows.lock();
        let seen = rows.seen.entry(id.clone()).or_default();
        *seen = at.max(*seen);
        Ok(())
    }

    async fn changes(&self, id: &SessionId) -> Result<Box<dyn Changes>> {
        self.read()?;
        // The state of before is told again: whoever listens must cope with that.
        Ok(Box::new(Following {
            id: id.clone(),
            last: None,
            moved: self.moved.subscribe(),
            rows: self.rows.clone(),
        }))
    }
}

struct Following {
    id: SessionId,
    last: Option<Session>,
    moved: watch::Receiver<u64>,
    rows: Arc<Mutex<Rows>>,
}

#[async_trait]
impl Changes for Following {
    async fn next(&mut self) -> Result<Option<Session>> {
        loop {
            let now = self.rows.lock().sessions.get(&self.id).cloned();
            if now != self.last || now.is_none() {
                self.last = now.clone();
                return Ok(now);
            }
            if self.moved.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

/// What the bus was told.
#[derive(Default)]
pub(crate) struct Told {
    notices: Mutex<Vec<Notice>>,
    fails: AtomicBool,
    /// A worker that is faster than the failure.
    worker: Mutex<Option<Arc<Memory>>>,
    gate: Mutex<Option<Arc<Notify>>>,
    pub(crate) asked: AtomicUsize,
}

impl Told {
    pub(crate) fn set_failing(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Before a publication fails, a worker takes the session up.
    pub(crate) fn set_worker(&self, log: Arc<Memory>) {
        *self.worker.lock() = Some(log);
    }

    /// Publications wait for this.
    pub(crate) fn set_gate(&self, gate: Arc<Notify>) {
        *self.gate.lock() = Some(gate);
    }

    pub(crate) fn count(&self, topic: Topic) -> usize {
        self.notices.lock().iter().filter(|notice| notice.topic == topic).count()
    }
}

#[async_trait]
impl Bus for Told {
    async fn publish(&self, notice: &Notice) -> Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let gate = self.gate.lock().clone();
        if let Some(gate) = gate {
            gate.notified().await;
        }
        if self.fails.load(Ordering::SeqCst) {
            let worker = self.worker.lock().clone();
            if let Some(log) = worker {
                log.live_through(notice.session.as_str(), &[Event::Pick]);
            }
            return Err(Error::Unavailable("the bus is gone".into()));
        }
        self.notices.lock().push(notice.clone());
        Ok(())
    }
}

/// One lease per target, and what was given back.
#[derive(Default)]
pub(crate) struct Leases {
    held: Mutex<HashMap<String, Ticket>>,
    pub(crate) asked: AtomicUsize,
    pub(crate) released: AtomicUsize,
    fails: AtomicBool,
}

/// How every ticket begins.
pub(crate) const TICKET: &str = "ticket-that-nobody-sees";

impl Leases {
    pub(crate) fn set_failing(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    pub(crate) fn held(&self) -> usize {
        self.held.lock().len()
    }
}

#[async_trait]
impl Admission for Leases {
    async fn admit(&self, target: &Target, session: &SessionId) -> Result<Admitted> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("the leases are gone".into()));
        }
        let mut held = self.held.lock();
        if held.contains_key(target.id()) {
            return Ok(Admitted::Busy);
        }
        let ticket = Ticket::new(format!("{TICKET}-{session}"));
        held.insert(target.id().to_owned(), ticket.clone());
        Ok(Admitted::Yes(ticket))
    }

    async fn release(&self, target: &Target, ticket: &Ticket) -> Result<()> {
        let mut held = self.held.lock();
        assert_eq!(held.get(target.id()), Some(ticket), "only what was given can be given back");
        held.remove(target.id());
        self.released.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}
