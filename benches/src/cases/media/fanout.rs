//! F1: one picture to many, memory per subscriber; F5: one of 100 readers stalls.

use std::time::Duration;

use anyhow::Result;

use super::peer::{Peer, Record};
use super::sides::{Contest, Side, Turn, turn};
use crate::cases::Bench;
use crate::machine::Others;
use crate::numbers::{Lags, short};
use crate::report::{self, Goal};

const FPS: u32 = 60;
const SIZE: usize = 4 * 1024;
const VIEWERS: [usize; 4] = [25, 50, 100, 300];
const STALLED_OF: usize = 100;

/// A publisher and its viewers on one server.
struct Audience {
    side: Side,
    publisher: Peer,
    record: Record,
    viewers: Vec<Peer>,
    group: u64,
}

impl Audience {
    async fn open(side: Side) -> Result<Self> {
        let mut publisher = Peer::connect(&side, 0, 0).await?;
        publisher.publish().await?;
        let record = Record::new();
        // Nothing comes back to the publisher.
        publisher.receive(&record);
        Ok(Self { side, publisher, record, viewers: Vec::new(), group: 1 })
    }

    async fn grow(&mut self, count: usize) -> Result<()> {
        while self.viewers.len() < count {
            let mut viewer = self.add().await?;
            viewer.receive(&self.record);
            self.viewers.push(viewer);
        }
        Ok(())
    }

    async fn add(&self) -> Result<Peer> {
        let number = self.viewers.len() + 1;
        let mut viewer = Peer::connect(&self.side, number, 1).await?;
        viewer.watch(0).await?;
        Ok(viewer)
    }

    async fn turn(&mut self, time: Duration) -> Result<Turn> {
        let (first, record, publisher) = (self.group, &self.record, &self.publisher);
        let load = async { publisher.film(record, FPS, SIZE, time, first).await.map(drop) };
        let found = turn(&self.side, record, load).await?;
        // Groups rise for the life of a stream.
        self.group += time.as_secs() + 10;
        Ok(found)
    }
}

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    let others = Others::watch();
    let slice = Duration::from_secs(bench.seconds).div_f64(2.0).max(Duration::from_secs(1));
    let (ours, bare) = (Side::handler()?, Side::bare()?);
    let pids = [ours.process.pid(), bare.process.pid()];
    bench.runtime.block_on(async {
        let empty = ours.resident()?;
        let (mut ours, mut bare) = (Audience::open(ours).await?, Audience::open(bare).await?);
        for count in VIEWERS {
            report::heading(&format!("media-fanout: {FPS} fps × 4 KB to {count} viewers (F1)"));
            ours.grow(count).await?;
            bare.grow(count).await?;
            ours.turn(Duration::from_secs(1)).await?;
            bare.turn(Duration::from_secs(1)).await?;
            let mut contest = Contest::default();
            for _ in 0..bench.rounds {
                contest.ours.push(ours.turn(slice).await?);
                contest.bare.push(bare.turn(slice).await?);
                contest.again.push(ours.turn(slice).await?);
            }
            contest.print(|turn| &turn.frames);
            report::line(&format!(
                "Frames per second of CPU: tenure {}, bare forwarder {}.",
                Contest::per_core(&contest.ours),
                Contest::per_core(&contest.bare)
            ));
            let p99 = |turns: &[Turn]| Contest::worst(turns, 99.0, |turn| &turn.frames).as_secs_f64() * 1e3;
            let delivered: usize = contest.ours.iter().map(|turn| turn.frames.count()).sum();
            let sent = f64::from(FPS) * slice.as_secs_f64() * bench.rounds as f64 * count as f64;
            report::goals(&[
                contest.goal(&format!("fan-out to {count}")),
                Goal::at_most(
                    "p99, ms, against 1.2 × the forwarder's",
                    1.2 * p99(&contest.bare),
                    p99(&contest.ours),
                ),
                Goal::at_least("frames delivered ÷ sent", 0.98, delivered as f64 / sent),
            ]);
        }
        let per_viewer = ours.side.resident()?.saturating_sub(empty) as f64 / 1e3 / ours.viewers.len() as f64;
        report::goals(&[Goal::at_most("resident KB per subscriber, 300 viewers", 400.0, per_viewer)]);
        anyhow::Ok(())
    })?;
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&pids)));
    stalled(bench, slice)
}

fn stalled(bench: &Bench<'_>, slice: Duration) -> Result<()> {
    report::heading(&format!("media-stalled: one of {STALLED_OF} readers stalls (F5)"));
    let side = Side::handler()?;
    bench.runtime.block_on(async {
        let mut audience = Audience::open(side).await?;
        audience.grow(STALLED_OF - 1).await?;
        audience.turn(Duration::from_secs(1)).await?;
        let measure = async |audience: &mut Audience| -> Result<Lags> {
            let mut lags = Vec::new();
            for _ in 0..bench.rounds {
                lags.push(audience.turn(slice).await?.frames.at(99.0));
            }
            Ok(Lags::new(lags))
        };
        let calm = measure(&mut audience).await?;
        let before = audience.side.resident()?;
        let mut stalled = audience.add().await?;
        stalled.stall();
        let found = measure(&mut audience).await?;
        let grown = audience.side.resident()?.saturating_sub(before) as f64 / 1e6;
        let ratio = found.at(50.0).as_secs_f64() / calm.at(50.0).as_secs_f64();
        report::table(
            &["p99 of the others", "without", "with one that stalls"],
            &[vec!["median of the rounds".to_owned(), short(calm.at(50.0)), short(found.at(50.0))]],
        );
        report::goals(&[
            Goal::at_most("p99 with a stalled reader ÷ without", 1.05, ratio),
            Goal::at_most("resident memory grows by, MB", 10.0, grown),
        ]);
        drop(stalled);
        Ok(())
    })
}
