//! The part of a store that one test has for itself.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tenure_lease::{Capabilities, Claim, Clock, Holder, Key, Prefix, Token, Ttl};

use super::expect_ok;
use crate::{OsEntropy, Store};

/// What a test gets: two handles on one store, and a prefix that no other test uses.
pub struct Harness {
    handles: Mutex<Option<(Store, Store)>>,
    capabilities: Capabilities,
    contract: Option<Capabilities>,
    clock: Arc<dyn Clock>,
    name: String,
    remote: bool,
    virtual_time: bool,
    reopen: Option<Reopen>,
    crash: Option<Crash>,
    stall: Option<Stall>,
    lose_replies: Option<LoseReplies>,
    _keep: Option<Box<dyn Any + Send + Sync>>,
}

type Reopen = Box<dyn Fn() -> BoxFuture<'static, Store> + Send + Sync>;
type Crash = Box<dyn Fn() + Send + Sync>;
type Stall = Box<dyn Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync>;
type LoseReplies = Box<dyn Fn(bool) + Send + Sync>;

/// The longest TTL the suite uses: nothing expires that is not meant to.
const LONG: Duration = Duration::from_secs(25);
/// The shortest TTL the suite uses on real time, where a busy machine may lose some of it.
const SHORT: Duration = Duration::from_millis(500);

impl Harness {
    /// A harness whose second handle is a clone of the first.
    pub fn new(store: Store) -> Self {
        let mut random = [0; 4];
        tenure_lease::Entropy::fill(&OsEntropy, &mut random);
        let name = format!("conf-{:08x}/", u32::from_be_bytes(random));
        let (capabilities, clock) = (store.capabilities(), store.clock());
        let handles = Mutex::new(Some((store.clone(), store)));
        let (reopen, crash, stall, _keep) = (None, None, None, None);
        Self {
            handles,
            capabilities,
            contract: None,
            clock,
            name,
            remote: false,
            virtual_time: false,
            reopen,
            crash,
            stall,
            lose_replies: None,
            _keep,
        }
    }

    /// With a second handle of its own: another connection to the same data.
    pub fn with_second(self, second: Store) -> Self {
        let first = self.store();
        *self.handles.lock() = Some((first, second));
        self
    }

    /// With the capabilities that the contract demands of the engine.
    pub fn with_contract(mut self, contract: Capabilities) -> Self {
        self.contract = Some(contract);
        self
    }

    /// Over a network: what a dropped future leaves behind ends with its TTL, not at once.
    pub fn over_network(mut self) -> Self {
        self.remote = true;
        self
    }

    /// On virtual time: hours pass at once, so every delay is a defect.
    pub fn on_virtual_time(mut self) -> Self {
        self.virtual_time = true;
        self
    }

    /// With a way to stall the store for a time: its process stands still, or its disk does.
    pub fn with_stall(
        mut self,
        stall: impl Fn(Duration) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        self.stall = Some(Box::new(stall));
        self
    }

    /// With a way to lose every reply of the store's server, and to stop losing them.
    pub fn with_lost_replies(mut self, lose: impl Fn(bool) + Send + Sync + 'static) -> Self {
        self.lose_replies = Some(Box::new(lose));
        self
    }

    /// With a way to open the data again after every handle on it is gone.
    pub fn with_restart(
        mut self,
        reopen: impl Fn() -> BoxFuture<'static, Store> + Send + Sync + 'static,
    ) -> Self {
        self.reopen = Some(Box::new(reopen));
        self
    }

    /// With a way to end the store at once: what is not durable by then is lost. It is opened again as after a restart.
    pub fn with_crash(mut self, crash: impl Fn() + Send + Sync + 'static) -> Self {
        self.crash = Some(Box::new(crash));
        self
    }

    /// Keeps a server or a directory for as long as the test runs.
    pub fn keeping(mut self, thing: impl Any + Send + Sync) -> Self {
        self._keep = Some(Box::new(thing));
        self
    }

    /// The store.
    pub fn store(&self) -> Store {
        match &*self.handles.lock() {
            Some((store, _)) => store.clone(),
            None => panic!("the store is closed"),
        }
    }

    /// Another handle on the same data.
    pub fn second(&self) -> Store {
        match &*self.handles.lock() {
            Some((_, second)) => second.clone(),
            None => panic!("the store is closed"),
        }
    }

    /// Closes the store and opens it again. The test has dropped its own handles before.
    pub async fn restart(&self) {
        drop(self.handles.lock().take());
        let Some(reopen) = &self.reopen else { panic!("this harness cannot restart") };
        let store = reopen().await;
        *self.handles.lock() = Some((store.clone(), store));
    }

    /// Ends the store without a chance to make anything more durable, and opens it again. The test has dropped its own
    /// handles before.
    pub async fn crash(&self) {
        match &self.crash {
            Some(crash) => crash(),
            None => panic!("this harness cannot crash its store; to close it would show nothing"),
        }
        self.restart().await;
    }

    /// Stalls the store for `time`.
    pub async fn stall(&self, time: Duration) {
        match &self.stall {
            Some(stall) => stall(time).await,
            None => panic!("this harness cannot stall its store; a sleep would show nothing"),
        }
    }

    /// Loses every reply of the store's server, or none from now on.
    pub fn lose_replies(&self, lost: bool) {
        let Some(lose) = &self.lose_replies else { panic!("this harness cannot lose replies") };
        lose(lost);
    }

    /// What the engine promises.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// What the contract demands of the engine.
    pub fn contract(&self) -> Capabilities {
        match self.contract {
            Some(contract) => contract,
            None => panic!("this harness does not say what the contract demands of {:?}", self.capabilities),
        }
    }

    /// The clock of the test.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Whether hours pass at once.
    pub fn virtual_time(&self) -> bool {
        self.virtual_time
    }

    /// A key of this test.
    pub fn key(&self, name: &str) -> Key {
        expect_ok(Key::new(format!("{}{name}", self.name)))
    }

    /// The beginning of every key of this test.
    pub fn prefix(&self) -> Prefix {
        self.under("")
    }

    /// The beginning of some keys of this test.
    pub fn under(&self, name: &str) -> Prefix {
        expect_ok(Prefix::new(format!("{}{name}", self.name)))
    }

    /// A fresh token.
    pub fn token(&self) -> Token {
        Token::random(&OsEntropy)
    }

    /// A name.
    pub fn holder(&self, name: &str) -> Holder {
        expect_ok(Holder::new(name))
    }

    /// A TTL that runs out soon.
    pub fn ttl(&self) -> Ttl {
        let short = expect_ok(Ttl::from_millis(SHORT.as_millis() as u64));
        if self.virtual_time { self.capabilities.min_ttl } else { self.capabilities.min_ttl.max(short) }
    }

    /// A TTL that does not run out during a test.
    pub fn long_ttl(&self) -> Ttl {
        expect_ok(Ttl::from_millis(LONG.as_millis() as u64)).min(self.capabilities.max_ttl)
    }

    /// A TTL for a claim whose future is dropped: long where the store must notice by itself.
    pub fn orphan_ttl(&self) -> Ttl {
        if self.remote { self.ttl() } else { self.long_ttl() }
    }

    /// A claim with a fresh token and a long TTL.
    pub fn claim(&self, key: &Key, who: &str) -> Claim {
        Claim::new(key.clone(), self.holder(who), self.token(), self.long_ttl())
    }

    /// The same with the longest TTL there is, for what takes a while.
    pub fn patient_claim(&self, key: &Key, who: &str) -> Claim {
        Claim::new(key.clone(), self.holder(who), self.token(), self.capabilities.max_ttl)
    }

    /// The same with a TTL that runs out soon.
    pub fn brief_claim(&self, key: &Key, who: &str) -> Claim {
        Claim::new(key.clone(), self.holder(who), self.token(), self.ttl())
    }
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Harness({} at {})", self.capabilities.engine, self.name)
    }
}
