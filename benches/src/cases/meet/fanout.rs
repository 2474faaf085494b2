//! Fan-out: the time until an event reaches all participants of a large meeting.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use parking_lot::Mutex;
use tenure_meet_client::{Event, Events, News};
use tokio::task::JoinSet;

use super::server::{BenchServer, dialer, enter};
use crate::cases::Bench;
use crate::clock::{Moment, pause};
use crate::machine::Others;
use crate::numbers::{Lags, short};
use crate::report::{self, Goal};

const PEOPLE: usize = 200;
/// Participants that send ten chat messages a second each: fifty events a second.
const TALKERS: usize = 5;
const EVERY: Duration = Duration::from_millis(100);
const RATE: usize = 50;

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("meet-fanout: {RATE} events/s to {PEOPLE} participants of one meeting"));
    let others = Others::watch();
    let server = BenchServer::start(bench)?;
    let seconds = bench.seconds * bench.rounds as u64;
    let lags = Lags::new(bench.runtime.block_on(talk(&server, Duration::from_secs(seconds)))?);
    report::table(
        &["deliveries", "p50", "p99", "p99.9", "max"],
        &[vec![
            lags.count().to_string(),
            short(lags.at(50.0)),
            short(lags.at(99.0)),
            short(lags.at(99.9)),
            short(lags.at(100.0)),
        ]],
    );
    report::line(&format!(
        "Other work used {:.0} % of the cores.",
        others.share(&[server.pid(), server.redis.pid()])
    ));
    let wanted = RATE * seconds as usize * PEOPLE;
    report::goals(&[
        Goal::at_most("send to receive, p99, ms", 50.0, lags.at(99.0).as_secs_f64() * 1_000.0),
        Goal::at_least("deliveries ÷ expected deliveries", 0.9, lags.count() as f64 / wanted as f64),
    ]);
    Ok(())
}

async fn talk(server: &BenchServer, time: Duration) -> Result<Vec<Duration>> {
    let meeting = server.meetings(1).await?.pop().context("no meeting")?;
    let dialer = Arc::new(dialer()?);
    let (start, heard) = (Moment::now(), Arc::new(Mutex::new(Vec::new())));
    let (mut people, mut ears) = (Vec::new(), JoinSet::new());
    for n in 0..PEOPLE {
        let (client, events) = enter(server.seat(&meeting, n)?, dialer.clone(), 4_096).await?;
        people.push(Arc::new(client));
        ears.spawn(listen(events, start, heard.clone()));
    }
    pause(Duration::from_secs(1)).await;
    heard.lock().clear();
    let mut talk = JoinSet::new();
    for (n, talker) in people.iter().take(TALKERS).enumerate() {
        let talker = talker.clone();
        talk.spawn(async move {
            // Spread over the interval.
            pause(EVERY / TALKERS as u32 * n as u32).await;
            let began = Moment::now();
            let mut said = 0;
            while began.passed() < time {
                let now = start.passed().as_nanos().to_string();
                if talker.chat(&now).await.is_err() {
                    return;
                }
                said += 1;
                pause((EVERY * said).saturating_sub(began.passed())).await;
            }
        });
    }
    while talk.join_next().await.is_some() {}
    pause(Duration::from_secs(1)).await;
    ears.shutdown().await;
    let heard = std::mem::take(&mut *heard.lock());
    Ok(heard)
}

async fn listen(mut events: Events, start: Moment, heard: Arc<Mutex<Vec<Duration>>>) {
    while let Some(event) = events.recv().await {
        if let Event::News { news: News::Chat(said), .. } = event
            && let Ok(at) = said.text.parse::<u64>()
        {
            heard.lock().push(start.passed().saturating_sub(Duration::from_nanos(at)));
        }
    }
}
