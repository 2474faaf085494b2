//! In-memory ports that count calls and inject faults.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_session::{
    Admission, AdmissionOutcome, CreateOutcome, Error, IdempotencyKey, Mapping, Result, Session,
    SessionChanges, SessionEvent, SessionFilter, SessionId, SessionLog, SessionPage, StopRequest, Target,
    Ticket, UnixMs, Version,
};
use tokio::sync::{Barrier, Notify, watch};

/// An injected fault of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The write fails without effect.
    Refused,
    /// The write takes effect, but the response is lost.
    Landed,
    /// The write is lost, and so is the response.
    Lost,
    /// A concurrent session was mapped and is already deleted.
    Taken,
    /// The concurrent session `rival` was mapped.
    OvertakenByRival,
}

#[derive(Default)]
struct Rows {
    version: u64,
    created: usize,
    mappings: BTreeMap<String, (SessionId, Version)>,
    sessions: BTreeMap<SessionId, Session>,
    stops: HashSet<SessionId>,
    seen: HashMap<SessionId, UnixMs>,
}

/// A session log in memory.
pub(crate) struct MemoryLog {
    rows: Arc<Mutex<Rows>>,
    changed: watch::Sender<u64>,
    down: AtomicBool,
    pub(crate) reads: AtomicUsize,
    pub(crate) writes: AtomicUsize,
    pub(crate) creates: AtomicUsize,
    pub(crate) touches: AtomicUsize,
    faults: Mutex<Vec<Fault>>,
    stuck: Mutex<Option<Fault>>,
    /// Concurrent readers wait for each other here.
    pub(crate) read_barrier: Mutex<Option<Arc<Barrier>>>,
    /// Creations wait for this.
    gate: Mutex<Option<Arc<Notify>>>,
}

impl MemoryLog {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            rows: Arc::default(),
            changed: watch::Sender::new(0),
            down: AtomicBool::new(false),
            reads: AtomicUsize::new(0),
            writes: AtomicUsize::new(0),
            creates: AtomicUsize::new(0),
            touches: AtomicUsize::new(0),
            faults: Mutex::default(),
            stuck: Mutex::default(),
            read_barrier: Mutex::default(),
            gate: Mutex::default(),
        })
    }

    /// Creations wait for this.
    pub(crate) fn set_gate(&self, gate: Arc<Notify>) {
        *self.gate.lock() = Some(gate);
    }

    /// The number of sessions created, including deleted ones.
    pub(crate) fn created(&self) -> usize {
        self.rows.lock().created
    }

    /// The number of sessions with a stop request.
    pub(crate) fn stops(&self) -> usize {
        self.rows.lock().stops.len()
    }

    /// Makes every call fail.
    pub(crate) fn set_unavailable(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// Injects a fault into each of the next creations.
    pub(crate) fn fail_next_creates(&self, faults: &[Fault]) {
        *self.faults.lock() = faults.iter().rev().copied().collect();
    }

    /// Injects the fault into all creations.
    pub(crate) fn fail_all_creates(&self, fault: Fault) {
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

    pub(crate) fn last_seen_at(&self, id: &str) -> Option<UnixMs> {
        self.rows.lock().seen.get(&SessionId::new(id).unwrap()).copied()
    }

    /// Writes a record, as a worker would.
    pub(crate) fn put(&self, session: Session) {
        let mut rows = self.rows.lock();
        rows.sessions.insert(session.id.clone(), session);
        drop(rows);
        self.changed.send_modify(|changed| *changed += 1);
    }

    pub(crate) fn delete(&self, id: &str) {
        self.rows.lock().sessions.remove(&SessionId::new(id).unwrap());
        self.changed.send_modify(|changed| *changed += 1);
    }

    /// Applies events to a session.
    pub(crate) fn apply_events(&self, id: &str, events: &[SessionEvent]) {
        for event in events {
            let session = self.session(id);
            let at = UnixMs(session.updated.0 + 1);
            if let Some(next) = session.apply(*event, at).unwrap() {
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
            true => Err(Error::Unavailable("redis://user:hidden-password@store unavailable".into())),
            false => Ok(()),
        }
    }

    fn insert(&self, session: &Session, instead_of: Option<Version>) -> CreateOutcome {
        let mut rows = self.rows.lock();
        let key = session.idempotency.as_str().to_owned();
        if rows.mappings.get(&key).map(|(_, version)| *version) != instead_of
            || rows.sessions.contains_key(&session.id)
        {
            return CreateOutcome::AlreadyMapped;
        }
        rows.version += 1;
        rows.created += 1;
        let version = Version(rows.version);
        rows.mappings.insert(key, (session.id.clone(), version));
        rows.sessions.insert(session.id.clone(), session.clone());
        CreateOutcome::Created(version)
    }
}

#[async_trait]
impl SessionLog for MemoryLog {
    async fn find_mapping(&self, keys: &[IdempotencyKey]) -> Result<Option<Mapping>> {
        self.read()?;
        let seen = {
            let rows = self.rows.lock();
            let found = keys.iter().filter_map(|key| {
                let (id, version) = rows.mappings.get(key.as_str())?;
                let session = rows.sessions.get(id).cloned();
                Some(Mapping { key: key.clone(), version: *version, session })
            });
            let found: Vec<Mapping> = found.collect();
            let live =
                |found: &&Mapping| found.session.as_ref().is_some_and(|session| !session.state.is_terminal());
            found.iter().find(live).or(found.first()).cloned()
        };
        let read_barrier = self.read_barrier.lock().clone();
        if let Some(read_barrier) = read_barrier {
            read_barrier.wait().await;
        }
        Ok(seen)
    }

    async fn create(&self, session: &Session, instead_of: Option<Version>) -> Result<CreateOutcome> {
        self.creates.fetch_add(1, Ordering::SeqCst);
        // Readers stop waiting for each other after the first write.
        self.read_barrier.lock().take();
        let gate = self.gate.lock().clone();
        if let Some(gate) = gate {
            gate.notified().await;
        }
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
                Err(Error::Unknown("the response was lost".into()))
            }
            Some(Fault::Lost) => Err(Error::Unknown("the request was lost".into())),
            Some(Fault::Taken) => Ok(CreateOutcome::AlreadyMapped),
            Some(Fault::OvertakenByRival) => {
                let id = SessionId::new("rival")?;
                self.insert(&Session { id, ticket: None, ..session.clone() }, instead_of);
                Ok(CreateOutcome::AlreadyMapped)
            }
        }
    }

    async fn get(&self, id: &SessionId) -> Result<Option<Session>> {
        self.read()?;
        Ok(self.rows.lock().sessions.get(id).cloned())
    }

    async fn count(&self) -> Result<usize> {
        self.up()?;
        Ok(self.rows.lock().sessions.len())
    }

    async fn list(&self, among: SessionFilter, offset: usize, limit: usize) -> Result<SessionPage> {
        self.read()?;
        let mut all = self.sessions();
        all.retain(|session| among == SessionFilter::All || !session.state.is_terminal());
        all.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        let total = all.len();
        Ok(SessionPage { sessions: all.into_iter().skip(offset).take(limit).collect(), total })
    }

    async fn request_stop(&self, stop: &StopRequest) -> Result<bool> {
        self.write()?;
        Ok(self.rows.lock().stops.insert(stop.session.clone()))
    }

    async fn last_seen(&self, id: &SessionId) -> Result<Option<UnixMs>> {
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

    async fn changes(&self, id: &SessionId) -> Result<Box<dyn SessionChanges>> {
        self.read()?;
        // The current state is delivered again, which subscribers must tolerate.
        Ok(Box::new(MemoryChanges {
            id: id.clone(),
            last: None,
            changed: self.changed.subscribe(),
            rows: self.rows.clone(),
        }))
    }
}

struct MemoryChanges {
    id: SessionId,
    last: Option<Session>,
    changed: watch::Receiver<u64>,
    rows: Arc<Mutex<Rows>>,
}

#[async_trait]
impl SessionChanges for MemoryChanges {
    async fn next(&mut self) -> Result<Option<Session>> {
        loop {
            let now = self.rows.lock().sessions.get(&self.id).cloned();
            if now != self.last || now.is_none() {
                self.last = now.clone();
                return Ok(now);
            }
            if self.changed.changed().await.is_err() {
                return Ok(None);
            }
        }
    }
}

/// One lease per target; counts releases.
#[derive(Default)]
pub(crate) struct FakeAdmission {
    held: Mutex<HashMap<String, Ticket>>,
    pub(crate) asked: AtomicUsize,
    pub(crate) released: AtomicUsize,
    fails: AtomicBool,
}

/// The prefix of every ticket.
pub(crate) const TICKET: &str = "secret-ticket";

impl FakeAdmission {
    pub(crate) fn set_failing(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    pub(crate) fn held(&self) -> usize {
        self.held.lock().len()
    }
}

#[async_trait]
impl Admission for FakeAdmission {
    async fn admit(&self, target: &Target, session: &SessionId) -> Result<AdmissionOutcome> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if self.fails.load(Ordering::SeqCst) {
            return Err(Error::Unavailable("the leases are unavailable".into()));
        }
        let mut held = self.held.lock();
        if held.contains_key(target.id()) {
            return Ok(AdmissionOutcome::Busy);
        }
        let ticket = Ticket::new(format!("{TICKET}-{session}"));
        held.insert(target.id().to_owned(), ticket.clone());
        Ok(AdmissionOutcome::Granted(ticket))
    }

    async fn release(&self, target: &Target, ticket: &Ticket) -> Result<()> {
        let mut held = self.held.lock();
        assert_eq!(held.get(target.id()), Some(ticket), "only a granted ticket can be released");
        held.remove(target.id());
        self.released.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}
