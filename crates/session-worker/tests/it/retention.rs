//! Ended sessions within the retention time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tenure_lease::{Key, Op, Page, Query, Record, Result, Store, StoreLayer, limits};
use tenure_session::{SessionFilter, SessionLog, SessionState};
use tenure_testkit::wait::until_async;

use crate::fixture::{Fixture, LIMIT};
use crate::recovery::write_stale_record;

/// A store that counts scans.
struct CountingStore {
    inner: Arc<dyn Store>,
    sessions: AtomicUsize,
    sweeps: AtomicUsize,
}

impl StoreLayer for CountingStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn scan(&self, query: &Query) -> Result<Page<Record>> {
        match query.prefix.as_str() {
            "v3:session:" => self.sessions.fetch_add(1, Ordering::SeqCst),
            // Scanned once per sweep.
            "v3:seen:" => self.sweeps.fetch_add(1, Ordering::SeqCst),
            _ => 0,
        };
        self.inner.scan(query).await
    }
}

#[tokio::test]
async fn sweeps_do_not_read_ended_sessions() {
    let mut fixture = Fixture::memory().await;
    let over = write_stale_record(&fixture, "1:0:1:", SessionState::Stopped, None).await;
    let record = fixture.store.get(&Key::new(format!("v3:session:{over}")).unwrap()).await.unwrap().unwrap();
    // Slightly more than one page.
    for number in 0..limits::BATCH {
        let key = Key::new(format!("v3:session:over-{number}")).unwrap();
        fixture.store.commit(&[Op::Put { key, value: record.value.clone(), ttl: None }]).await.unwrap();
    }
    let store = Arc::new(CountingStore {
        inner: fixture.store.clone(),
        sessions: AtomicUsize::new(0),
        sweeps: AtomicUsize::new(0),
    });
    fixture.store = store.clone();
    let worker = fixture.worker().await;
    let id = fixture.start("1:0:2:", "high").await;
    fixture.until(&id, SessionState::Ready).await;
    let (sweeps, initial) = (|| store.sweeps.load(Ordering::SeqCst), store.sessions.load(Ordering::SeqCst));
    assert_eq!(initial, 4, "the recovery and the first sweep read everything, two pages each");
    let before = sweeps();
    until_async("some sweeps have run", LIMIT, async || sweeps() >= before + 5).await.unwrap();
    worker.reconcile_now().await;
    assert_eq!(store.sessions.load(Ordering::SeqCst), initial);
    let live = fixture.log.list(SessionFilter::Active, 0, 10).await.unwrap();
    assert_eq!((live.total, &live.sessions[0].id), (1, &id));
    assert_eq!(fixture.log.count().await.unwrap(), limits::BATCH + 2);
    worker.close().await;
}
