//! A store in front of a real one that injects write faults.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_lease::{
    Acquired, Claim, Committed, Error, Fence, Key, LogEntry, Op, Record, Renewal, Renewed, Result, Store,
    StoreLayer, Transfer, Transferred,
};
use tokio::sync::watch;

/// What happens to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WriteFault {
    /// The write lands; its reply is lost.
    ReplyLost,
    /// The write is lost; its outcome is unknown to the caller.
    RequestLost,
    /// The store reports that it is unavailable.
    Unavailable,
    /// The call never returns.
    Hangs,
}

/// A store whose writes fail on demand.
pub struct FaultyStore {
    inner: Arc<dyn Store>,
    scripted: Mutex<VecDeque<WriteFault>>,
    /// Applies to writes that are not scripted.
    default_fault: Mutex<Option<WriteFault>>,
    /// Whether no call is answered.
    silent: watch::Sender<bool>,
    transfers: Mutex<Option<WriteFault>>,
    failing_generation: Mutex<Option<u64>>,
}

impl FaultyStore {
    /// Wraps `inner`, without faults.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            scripted: Mutex::default(),
            default_fault: Mutex::default(),
            silent: watch::Sender::new(false),
            transfers: Mutex::default(),
            failing_generation: Mutex::default(),
        })
    }

    /// Applies one fault to each of the next writes, in order.
    pub fn fail_next_writes(&self, faults: &[WriteFault]) {
        self.scripted.lock().extend(faults);
    }

    /// Applies a fault to every write that is not scripted; `None` ends it.
    pub fn fail_all_writes(&self, fault: Option<WriteFault>) {
        *self.default_fault.lock() = fault;
    }

    /// Answers nothing, as a server that was stopped, or answers again. Calls that wait are performed then, unless
    /// their callers have given up.
    pub fn set_silent(&self, silent: bool) {
        self.silent.send_replace(silent);
    }

    async fn answers(&self) {
        let mut silent = self.silent.subscribe();
        if silent.wait_for(|silent| !silent).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Applies a fault to every transfer of a lease; `None` ends it.
    pub fn fail_transfers(&self, fault: Option<WriteFault>) {
        *self.transfers.lock() = fault;
    }

    /// Refuses all writes of the owner with this generation; `None` ends it.
    pub fn fail_generation(&self, generation: Option<u64>) {
        *self.failing_generation.lock() = generation;
    }

    /// Scripted faults that have not been used.
    pub fn remaining_faults(&self) -> usize {
        self.scripted.lock().len()
    }

    async fn with_fault<T>(&self, write: impl Future<Output = Result<T>>) -> Result<T> {
        let fault = self.scripted.lock().pop_front().or(*self.default_fault.lock());
        self.apply(fault, write).await
    }

    async fn apply<T>(&self, fault: Option<WriteFault>, write: impl Future<Output = Result<T>>) -> Result<T> {
        let unknown = || Error::unknown("faulty store", "no reply");
        self.answers().await;
        match fault {
            None => write.await,
            Some(WriteFault::ReplyLost) => {
                write.await?;
                Err(unknown())
            }
            Some(WriteFault::RequestLost) => Err(unknown()),
            Some(WriteFault::Unavailable) => Err(Error::unavailable("faulty store", "unavailable")),
            Some(WriteFault::Hangs) => std::future::pending().await,
        }
    }
}

impl StoreLayer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        self.answers().await;
        self.inner.acquire(claim).await
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        self.answers().await;
        self.inner.renew(items).await
    }

    async fn get(&self, key: &Key) -> Result<Option<Record>> {
        self.answers().await;
        self.inner.get(key).await
    }

    async fn read_log(&self, log: &Key, after: u64, limit: usize) -> Result<Vec<LogEntry>> {
        self.answers().await;
        self.inner.read_log(log, after, limit).await
    }

    async fn commit(&self, ops: &[Op]) -> Result<Committed> {
        self.with_fault(self.inner.commit(ops)).await
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        let fault = *self.transfers.lock();
        self.apply(fault, self.inner.transfer(transfer)).await
    }

    async fn write_fenced(&self, fence: &Fence, ops: &[Op]) -> Result<Committed> {
        if *self.failing_generation.lock() == Some(fence.generation.get()) {
            return Err(Error::unavailable("faulty store", "unavailable"));
        }
        self.with_fault(self.inner.write_fenced(fence, ops)).await
    }
}
