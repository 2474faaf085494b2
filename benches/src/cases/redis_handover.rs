//! Time from a release to the grant of a queued claim, over Redis.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use parking_lot::Mutex;
use redis::aio::MultiplexedConnection;
use tenure_lease::{Acquired, Claim, Holder, Key, Release, Token, Ttl};
use tenure_store::{OsEntropy, Store};
use tenure_testkit::RedisServer;
use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

use super::Bench;
use crate::clock::{Moment, Until, pause};
use crate::machine::Others;
use crate::numbers::{Lags, Spread, median, short};
use crate::peers::recipe::{Bell, Hand};
use crate::report::{self, Goal};

/// How long a key is held before and after the PING, so that all other claims are queued by then.
const HOLD: Duration = Duration::from_millis(2);
/// Timeout of a claim: on a busy machine five hundred claims take ten seconds.
const WAIT: Duration = Duration::from_secs(60);

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading("redis-handover: from the release to the grant of a waiting claim");
    let others = Others::watch();
    let server = RedisServer::start()?;
    let url = server.url();
    let hand = bench.runtime.block_on(Hand::connect(&url, 1))?;
    let store = bench.runtime.block_on(Store::open(&super::store_url(&server)))?;
    let elsewhere =
        Builder::new_multi_thread().enable_all().build().context("cannot build a second runtime")?;
    let apart = [
        Side { store: store.clone(), ping: hand.connection(0), runtime: bench.runtime.handle().clone() },
        Side {
            store: elsewhere.block_on(Store::open(&super::store_url(&server)))?,
            ping: elsewhere.block_on(Hand::connect(&url, 1))?.connection(0),
            runtime: elsewhere.handle().clone(),
        },
    ];
    let time = Duration::from_secs(bench.seconds);
    let mut rows = Vec::new();
    let mut goals = Vec::new();
    for queued in [1, 50] {
        let ways = [
            Way::Tenure(store.clone()),
            Way::Apart(Box::new(apart.clone())),
            Way::Hand(hand.clone(), url.clone()),
        ];
        let mut found = ways.each_ref().map(|_| Rounds::default());
        for _ in 0..bench.rounds {
            for (way, found) in ways.iter().zip(&mut found) {
                found.add(bench.runtime.block_on(round(way, &hand, queued, time))?);
            }
        }
        let names = ["Tenure, one store", "Tenure, two stores", "hand-written PUBLISH in the release"];
        for (name, found) in names.iter().zip(&found) {
            rows.push(found.row(format!("{name}, {queued} queued")));
        }
        for (name, found) in names.iter().zip(&found[..2]) {
            let what = format!("{name}: round trips from release to grant, p50, {queued} queued");
            goals.push(Goal::at_most(what, 4.0, found.trips()));
        }
    }
    report::table(&Rounds::HEAD, &rows);
    report::goals(&goals);
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&[server.pid()])));
    Ok(())
}

/// A way to hand over a key.
#[derive(Clone)]
pub(super) enum Way {
    /// Callers of one store.
    Tenure(Store),
    /// Callers of two stores in turn; each hands over to a caller of the other store.
    Apart(Box<[Side; 2]>),
    Hand(Hand, String),
}

/// A store with its own connections and threads, as in another process.
#[derive(Clone)]
pub(super) struct Side {
    store: Store,
    ping: MultiplexedConnection,
    runtime: Handle,
}

/// The measurements of the callers in one round.
#[derive(Default)]
struct Notes {
    released: Mutex<Option<Moment>>,
    lags: Mutex<Vec<Duration>>,
    pings: Mutex<Vec<Duration>>,
    releases: Mutex<Vec<Duration>>,
}

/// The result of one round.
pub(super) struct Round {
    /// From the call of the release to the grant of the waiting claim.
    pub(super) lags: Lags,
    pings: Lags,
    /// From the call of the release to its own reply.
    releases: Lags,
}

/// One holder and `queued` waiting callers take turns until the time is over.
pub(super) async fn round(way: &Way, hand: &Hand, queued: usize, time: Duration) -> Result<Round> {
    let notes = Arc::new(Notes::default());
    let until = Until::after(time);
    let mut callers = JoinSet::new();
    for me in 0..=queued {
        let (notes, ping) = (notes.clone(), hand.connection(0));
        match way.clone() {
            Way::Tenure(store) => callers.spawn(tenure(store, me, notes, ping, until)),
            Way::Apart(sides) => {
                let Side { store, ping, runtime } = sides[me % 2].clone();
                callers.spawn_on(tenure(store, me, notes, ping, until), &runtime)
            }
            Way::Hand(hand, url) => callers.spawn(by_hand(hand, url, notes, ping, until)),
        };
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    let taken = |of: &Mutex<Vec<Duration>>| Lags::new(std::mem::take(&mut *of.lock()));
    Ok(Round { lags: taken(&notes.lags), pings: taken(&notes.pings), releases: taken(&notes.releases) })
}

async fn tenure(
    store: Store,
    me: usize,
    notes: Arc<Notes>,
    mut ping: MultiplexedConnection,
    until: Until,
) -> Result<()> {
    let (key, holder) = (Key::new("handover")?, Holder::new(format!("caller-{me}"))?);
    while !until.over() {
        let token = Token::random(&OsEntropy);
        let claim = Claim::new(key.clone(), holder.clone(), token.clone(), Ttl::from_secs(10)?).waiting(WAIT);
        if let Acquired::Busy(busy) = store.acquire(claim).await? {
            bail!("not granted: {busy:?}");
        }
        notes.granted(&mut ping).await?;
        let start = notes.giving_back();
        store.release(Release::new(key.clone(), token)).await?;
        notes.given_back(start);
    }
    Ok(())
}

async fn by_hand(
    hand: Hand,
    url: String,
    notes: Arc<Notes>,
    mut ping: MultiplexedConnection,
    until: Until,
) -> Result<()> {
    let mut bell = Bell::hang(&url, "hand/over").await?;
    while !until.over() {
        let secret = hand.acquire_told(0, "hand/over", &mut bell).await?;
        notes.granted(&mut ping).await?;
        let start = notes.giving_back();
        hand.release_telling(0, "hand/over", &secret).await?;
        notes.given_back(start);
    }
    Ok(())
}

impl Notes {
    fn giving_back(&self) -> Moment {
        let now = Moment::now();
        *self.released.lock() = Some(now);
        now
    }

    fn given_back(&self, start: Moment) {
        self.releases.lock().push(start.passed());
    }

    /// Records the duration of the handover, then holds the key and measures a round trip.
    async fn granted(&self, connection: &mut MultiplexedConnection) -> Result<()> {
        if let Some(released) = self.released.lock().take() {
            let lag = released.passed();
            self.lags.lock().push(lag);
        }
        pause(HOLD).await;
        let start = Moment::now();
        let _: String = redis::cmd("PING").query_async(connection).await?;
        self.pings.lock().push(start.passed());
        pause(HOLD).await;
        Ok(())
    }
}

/// The rounds of one side.
#[derive(Default)]
pub(super) struct Rounds(Vec<Round>);

impl Rounds {
    pub(super) const HEAD: [&'static str; 7] = [
        "way",
        "hand-overs",
        "p50 [min–max of rounds]",
        "p99",
        "release p50",
        "PING p50",
        "p50 in round trips",
    ];

    pub(super) fn add(&mut self, round: Round) {
        self.0.push(round);
    }

    pub(super) fn medians(&self, of: impl Fn(&Round) -> Duration) -> Vec<f64> {
        self.0.iter().map(|round| of(round).as_secs_f64()).collect()
    }

    /// The median over the rounds of the handover in round trips.
    fn trips(&self) -> f64 {
        median(self.0.iter().map(|r| r.lags.at(50.0).as_secs_f64() / r.pings.at(50.0).as_secs_f64()))
    }

    pub(super) fn row(&self, name: String) -> Vec<String> {
        let time = |seconds: f64| short(Duration::from_secs_f64(seconds));
        let lags = Spread::of(&self.medians(|round| round.lags.at(50.0)));
        let slow = median(self.medians(|round| round.lags.at(99.0)));
        let release = median(self.medians(|round| round.releases.at(50.0)));
        let ping = median(self.medians(|round| round.pings.at(50.0)));
        vec![
            name,
            self.0.iter().map(|round| round.lags.count()).sum::<usize>().to_string(),
            format!("{} [{}–{}]", time(lags.median), time(lags.min), time(lags.max)),
            time(slow),
            time(release),
            time(ping),
            format!("{:.2}", self.trips()),
        ]
    }
}
