//! A storm of resumes: all connections end at once while participants chat, and all of them resume.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_meet_client::{Client, Dial, Endpoint, Event, Events, News};
use tenure_meet_wire::transport::{Session, TransportError, quic};
use tokio::task::JoinSet;

use super::server::{BenchServer, dialer, enter};
use crate::cases::Bench;
use crate::clock::{Moment, pause};
use crate::machine::Others;
use crate::numbers::{Lags, short};
use crate::report::{self, Goal};

const CLIENTS: usize = 500;
const MEETINGS: usize = 50;
/// Interval of chat messages in each meeting.
const TALK: Duration = Duration::from_millis(200);
const LAST: &str = "last message";

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("meet-resume: {CLIENTS} clients in {MEETINGS} meetings resume at once"));
    let others = Others::watch();
    let server = BenchServer::start(bench)?;
    let mut rows = Vec::new();
    let (mut worst, mut lost, mut doubled, mut anew) = (Duration::ZERO, 0, 0, 0);
    for round in 0..bench.rounds {
        let storm = bench.runtime.block_on(storm(&server, round))?;
        let lags = Lags::new(storm.lags);
        let [p50, p99, most] = [50.0, 99.0, 100.0].map(|percent| lags.at(percent));
        worst = worst.max(p99);
        (lost, doubled, anew) = (lost + storm.lost, doubled + storm.doubled, anew + storm.anew);
        let counts = [storm.events, storm.lost, storm.doubled, storm.anew].map(|count| count.to_string());
        rows.push([short(p50), short(p99), short(most)].into_iter().chain(counts).collect());
    }
    let head = ["p50", "p99", "max", "events", "lost", "duplicated", "new seats or full rosters"];
    report::table(&head, &rows);
    report::line(&format!(
        "Other work used {:.0} % of the cores.",
        others.share(&[server.pid(), server.redis.pid()])
    ));
    report::goals(&[
        Goal::at_most("time to resume, p99 of the worst round, ms", 1_000.0, worst.as_secs_f64() * 1_000.0),
        Goal::at_most("events lost", 0.0, lost as f64),
        Goal::at_most("events duplicated", 0.0, doubled as f64),
        Goal::at_most("seats lost or full rosters sent", 0.0, anew as f64),
    ]);
    Ok(())
}

#[derive(Default)]
struct Storm {
    lags: Vec<Duration>,
    events: usize,
    lost: usize,
    doubled: usize,
    anew: usize,
}

async fn storm(server: &BenchServer, round: usize) -> Result<Storm> {
    let meetings = server.meetings(MEETINGS).await?;
    let (steady, brittle) = (Arc::new(dialer()?), Arc::new(Brittle::new(dialer()?)));
    let mut talkers = Vec::new();
    for (n, meeting) in meetings.iter().enumerate() {
        let join_api = server.seat(meeting, round * 1_000 + 900 + n)?;
        talkers.push(Arc::new(enter(join_api, steady.clone(), 0).await?.0));
    }
    let mut people = Vec::new();
    for n in 0..CLIENTS {
        let join_api = server.seat(&meetings[n % MEETINGS], round * 1_000 + n)?;
        people.push(enter(join_api, brittle.clone(), 4_096).await?);
    }
    let cut = Arc::new(Mutex::new(None));
    let mut watched: JoinSet<Result<Storm>> = JoinSet::new();
    for (client, events) in people {
        watched.spawn(follow(client, events, cut.clone()));
    }
    let mut talk = JoinSet::new();
    for talker in &talkers {
        let talker = talker.clone();
        talk.spawn(async move {
            loop {
                if talker.chat("word").await.is_err() {
                    return;
                }
                pause(TALK).await;
            }
        });
    }
    pause(Duration::from_secs(1)).await;
    *cut.lock() = Some(Moment::now());
    brittle.cut();
    pause(Duration::from_secs(5)).await;
    talk.shutdown().await;
    for talker in &talkers {
        talker.chat(LAST).await.map_err(|refused| anyhow::anyhow!("{refused:?}"))?;
    }
    let mut all = Storm::default();
    while let Some(one) = watched.join_next().await {
        let one = one??;
        all.lags.extend(one.lags);
        all.events += one.events;
        all.lost += one.lost;
        all.doubled += one.doubled;
        all.anew += one.anew;
    }
    ensure!(all.lags.len() == CLIENTS, "{} of {CLIENTS} resumed", all.lags.len());
    Ok(all)
}

/// Follows a client's events up to the last message.
async fn follow(client: Client, mut events: Events, cut: Arc<Mutex<Option<Moment>>>) -> Result<Storm> {
    let (mut seen, mut last) = (Storm::default(), None);
    while let Some(event) = events.recv().await {
        match event {
            Event::Connected { resumed, replay } => {
                if let Some(cut) = *cut.lock() {
                    seen.lags.push(cut.passed());
                    seen.anew += usize::from(!resumed || !replay);
                }
            }
            Event::News { seq, news, .. } if seq > 0 => {
                seen.events += 1;
                if let Some(last) = last {
                    seen.doubled += usize::from(seq <= last);
                    seen.lost += seq.saturating_sub(last + 1) as usize;
                }
                last = Some(seq);
                if matches!(&news, News::Chat(said) if said.text == LAST) {
                    break;
                }
            }
            Event::Over(ending) => anyhow::bail!("{ending}"),
            _ => {}
        }
    }
    drop(client);
    Ok(seen)
}

/// Connections that can all be closed at once.
struct Brittle {
    dialer: quic::Dialer,
    open: Mutex<Vec<Arc<dyn Session>>>,
}

impl Brittle {
    fn new(dialer: quic::Dialer) -> Self {
        Self { dialer, open: Mutex::new(Vec::new()) }
    }

    fn cut(&self) {
        for session in std::mem::take(&mut *self.open.lock()) {
            session.close(0, "cut");
        }
    }
}

#[async_trait]
impl Dial for Brittle {
    async fn dial(&self, place: &Endpoint, traceparent: &str) -> Result<Arc<dyn Session>, TransportError> {
        let session = Dial::dial(&self.dialer, place, traceparent).await?;
        self.open.lock().push(session.clone());
        Ok(session)
    }
}
