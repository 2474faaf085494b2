//! F4: the first frame of one that joins late; and the time from a mute to silence.

use std::time::Duration;

use anyhow::{Context, Result};

use super::peer::{Peer, Record};
use super::sides::Side;
use crate::cases::Bench;
use crate::clock::{Moment, pause};
use crate::numbers::{Lags, short};
use crate::report::{self, Goal};

const FPS: u32 = 30;
const SIZE: usize = 4 * 1024;
const JOINS: usize = 40;
const MUTES: u64 = 20;
const LIMIT: Duration = Duration::from_secs(10);
/// Long enough for all joins and mutes.
const FILM: Duration = Duration::from_secs(600);

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    let side = Side::handler()?;
    bench.runtime.block_on(async {
        let record = Record::new();
        let mut publisher = Peer::connect(&side, 0, 0).await?;
        publisher.publish().await?;
        // A viewer keeps the stream needed.
        let mut viewer = Peer::connect(&side, 1, 0).await?;
        viewer.watch(0).await?;
        viewer.receive(&record);
        let film = publisher.film(&record, FPS, SIZE, FILM, 1);
        tokio::select! {
            filmed = film => filmed.map(drop).context("the publisher ended"),
            measured = measure(&side, &record) => measured,
        }
    })
}

async fn measure(side: &Side, record: &Record) -> Result<()> {
    joins(side).await?;
    mutes(side, record).await
}

async fn joins(side: &Side) -> Result<()> {
    report::heading("media-late: from Subscribe to the first whole frame of a running picture (F4)");
    let mut first = Vec::new();
    for number in 0..JOINS {
        pause(Duration::from_millis(37)).await;
        let record = Record::new();
        let mut viewer = Peer::connect(side, 10 + number, 1).await?;
        let asked = Moment::now();
        viewer.watch(0).await?;
        viewer.receive(&record);
        while record.take().0.is_empty() {
            anyhow::ensure!(asked.passed() < LIMIT, "no frame arrived");
            pause(Duration::from_micros(100)).await;
        }
        first.push(asked.passed());
    }
    let first = Lags::new(first);
    report::table(
        &["joins", "p50", "p99"],
        &[vec![first.count().to_string(), short(first.at(50.0)), short(first.at(99.0))]],
    );
    // Two round trips on loopback are below a millisecond.
    report::goals(&[Goal::at_most("first frame, p99, ms", 6.0, first.at(99.0).as_secs_f64() * 1e3)]);
    Ok(())
}

async fn mutes(side: &Side, record: &Record) -> Result<()> {
    report::heading("media-mute: from the order to its acknowledgement, and what arrives after it");
    let (mut acknowledged, mut later) = (Vec::new(), 0);
    for number in 1..=MUTES {
        let epoch = number * 2;
        let order = |epoch: u64, muted: u64| -> Result<Duration> {
            side.process.send_line(&format!("mute 0 {epoch} {muted}"))?;
            let line = side.process.wait_for_line(|line| line.starts_with("muted "), LIMIT)?;
            let nanos = line.rsplit(' ').next().context("no time")?.parse()?;
            Ok(Duration::from_nanos(nanos))
        };
        acknowledged.push(tokio::task::block_in_place(|| order(epoch, 1))?);
        // What QUIC had before the acknowledgement is on loopback for less than this.
        pause(Duration::from_millis(20)).await;
        drop(record.take());
        pause(Duration::from_millis(300)).await;
        later += record.take().0.len();
        tokio::task::block_in_place(|| order(epoch + 1, 0))?;
        pause(Duration::from_millis(300)).await;
    }
    let acknowledged = Lags::new(acknowledged);
    report::table(
        &["mutes", "acknowledged, p50", "p99", "frames after it"],
        &[vec![
            acknowledged.count().to_string(),
            short(acknowledged.at(50.0)),
            short(acknowledged.at(99.0)),
            later.to_string(),
        ]],
    );
    report::goals(&[
        Goal::at_most("mute acknowledged, p99, ms", 5.0, acknowledged.at(99.0).as_secs_f64() * 1e3),
        Goal::at_most("frames after the acknowledgement", 0.0, later as f64),
    ]);
    Ok(())
}
