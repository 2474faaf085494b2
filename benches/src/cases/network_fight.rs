//! Many clients compete for one key: the rate of handovers, and how fairly they are shared.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use tenure_lease::{Acquired, Claim, Holder, Key, Release, Token, Ttl};
use tenure_store::{OsEntropy, Store};
use tenure_testkit::{EtcdServer, RedisServer};
use tokio::sync::Mutex;

use super::Bench;
use crate::callers::together;
use crate::clock::Until;
use crate::contest::{Side, contest};
use crate::machine::Others;
use crate::peers::etcd;
use crate::peers::recipe::{Bell, Hand};
use crate::peers::tenure::Up;
use crate::report::{self, Goal};

const CLIENTS: usize = 64;
/// Long enough that the last turns of a slice do not matter.
const SLICE: Duration = Duration::from_millis(1_000);
const KEY: &str = "fight";

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("network-fight: {CLIENTS} clients, one key"));
    let others = Others::watch();
    let (disk, memory, theirs) = (bench.folder("tenure")?, bench.folder("memory")?, bench.folder("etcd")?);
    let durable = Up::start(disk.path(), None)?;
    let fleeting = Up::start(memory.path(), Some("memory:"))?;
    let server = EtcdServer::builder().dir(theirs.path()).start()?;
    let redis = RedisServer::start()?;
    let (lasting, passing, one, many, hand, bells) = bench.runtime.block_on(async {
        let lasting = durable.clients(CLIENTS).await?;
        let passing = fleeting.clients(CLIENTS).await?;
        let one = etcd::clients(&server.endpoint(), CLIENTS, 1).await?;
        let many = etcd::clients(&server.endpoint(), CLIENTS, CLIENTS).await?;
        let hand = Hand::connect(&redis.url(), CLIENTS).await?;
        let mut bells = Vec::new();
        for _ in 0..CLIENTS {
            bells.push(Arc::new(Mutex::new(Bell::hang(&redis.url(), KEY).await?)));
        }
        anyhow::Ok((lasting, passing, one, many, hand, bells))
    })?;
    let ledgers: [Arc<Ledger>; 5] = std::array::from_fn(|_| Arc::default());
    let ours = |stores: &Vec<Store>, ledger: &Arc<Ledger>, slice| {
        together(bench.runtime, CLIENTS, slice, |me, until| {
            tenure(stores[me].clone(), ledger.clone(), me, until)
        })
    };
    let locks = |clients: &Vec<etcd::Client>, ledger: &Arc<Ledger>, slice| {
        together(bench.runtime, CLIENTS, slice, |me, until| {
            lock(clients[me].clone(), ledger.clone(), me, until)
        })
    };
    let recipe = |ledger: &Arc<Ledger>, slice| {
        together(bench.runtime, CLIENTS, slice, |me, until| {
            by_hand(hand.clone(), bells[me].clone(), ledger.clone(), me, until)
        })
    };
    let mut sides = [
        Side::new("Tenure, in memory", |slice| ours(&passing, &ledgers[0], slice)),
        Side::new("Tenure, durable", |slice| ours(&lasting, &ledgers[1], slice)),
        Side::new("etcd Lock, 1 connection", |slice| locks(&one, &ledgers[2], slice)),
        Side::new("etcd Lock, one connection per client", |slice| locks(&many, &ledgers[3], slice)),
        Side::new("Redis, PUBLISH in the release", |slice| recipe(&ledgers[4], slice)),
    ];
    let outcome = contest(bench.plan(SLICE, false), &mut sides)?;
    report::outcome("hand-overs", &sides, &outcome);
    let rows: Vec<_> = sides.iter().zip(&ledgers).map(|(side, ledger)| ledger.row(&side.name)).collect();
    report::table(&["side", "Jain's index", "fewest turns of a client", "most"], &rows);
    let (durable_ratio, redis_ratio) = (outcome.ratios[1].median, outcome.ratios[4].median);
    let etcd = outcome.ratios[2].median.min(outcome.ratios[3].median);
    report::goals(&[
        Goal::at_least("handovers, in memory ÷ Redis", 10.0, redis_ratio).in_contest(&outcome),
        Goal::at_least("handovers, in memory ÷ etcd's best", 10.0, etcd).in_contest(&outcome),
        Goal::at_least("stricter: handovers, durable ÷ Redis'", 10.0, redis_ratio / durable_ratio)
            .in_contest(&outcome),
        Goal::at_least("stricter: handovers, durable ÷ etcd's best", 10.0, etcd / durable_ratio)
            .in_contest(&outcome),
        Goal::at_least("Jain's index, in memory", 0.99, ledgers[0].jain()),
        Goal::at_least("Jain's index, durable", 0.99, ledgers[1].jain()),
    ]);
    let pids = [durable.pid(), fleeting.pid(), server.pid(), redis.pid()];
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&pids)));
    Ok(())
}

/// How often each client has held the key.
struct Ledger {
    last: AtomicUsize,
    turns: [AtomicU64; CLIENTS],
}

impl Default for Ledger {
    fn default() -> Self {
        Self { last: AtomicUsize::new(CLIENTS), turns: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Ledger {
    /// Records that `me` holds the key. Returns 1 if another client held it before, which makes it a handover.
    fn took(&self, me: usize) -> u64 {
        let handed = self.last.swap(me, Ordering::Relaxed) != me;
        self.turns[me].fetch_add(u64::from(handed), Ordering::Relaxed);
        handed.into()
    }

    fn turns(&self) -> Vec<f64> {
        self.turns.iter().map(|turns| turns.load(Ordering::Relaxed) as f64).collect()
    }

    /// Jain's fairness index: 1 for equal shares, 1/n when one client had all turns.
    fn jain(&self) -> f64 {
        let turns = self.turns();
        let (sum, squares) = turns.iter().fold((0.0, 0.0), |(sum, squares), n| (sum + n, squares + n * n));
        sum * sum / (turns.len() as f64 * squares)
    }

    fn row(&self, name: &str) -> Vec<String> {
        let turns = self.turns();
        let least = turns.iter().copied().fold(f64::INFINITY, f64::min);
        let most = turns.iter().copied().fold(0.0, f64::max);
        vec![name.to_owned(), format!("{:.3}", self.jain()), format!("{least:.0}"), format!("{most:.0}")]
    }
}

async fn tenure(store: Store, ledger: Arc<Ledger>, me: usize, until: Until) -> Result<u64> {
    let (key, holder) = (Key::new(KEY)?, Holder::new(format!("client-{me}"))?);
    let mut done = 0;
    while !until.over() {
        let token = Token::random(&OsEntropy);
        let claim = Claim::new(key.clone(), holder.clone(), token.clone(), Ttl::from_secs(10)?)
            .waiting(Duration::from_secs(30));
        if let Acquired::Busy(busy) = store.acquire(claim).await? {
            bail!("not granted: {busy:?}");
        }
        done += ledger.took(me);
        store.release(Release::new(key.clone(), token)).await?;
    }
    Ok(done)
}

async fn lock(mut client: etcd::Client, ledger: Arc<Ledger>, me: usize, until: Until) -> Result<u64> {
    let mut done = 0;
    while !until.over() {
        let key = client.lock(KEY).await?;
        done += ledger.took(me);
        client.unlock(key).await?;
    }
    Ok(done)
}

async fn by_hand(
    hand: Hand,
    bell: Arc<Mutex<Bell>>,
    ledger: Arc<Ledger>,
    me: usize,
    until: Until,
) -> Result<u64> {
    let mut bell = bell.lock().await;
    let mut done = 0;
    while !until.over() {
        let secret = hand.acquire_told(me, KEY, &mut bell).await?;
        done += ledger.took(me);
        hand.release_telling(me, KEY, &secret).await?;
    }
    Ok(done)
}
