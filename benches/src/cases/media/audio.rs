//! F3: ten speakers and many listeners.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::peer::{Peer, Record};
use super::sides::{Contest, Side, Turn, turn};
use crate::cases::Bench;
use crate::report::{self, Goal};

const SPEAKERS: usize = 10;
const LISTENERS: usize = 100;

struct Hall {
    side: Side,
    speakers: Vec<Peer>,
    _listeners: Vec<Peer>,
    record: Record,
    first: u64,
}

impl Hall {
    async fn open(side: Side) -> Result<Self> {
        let (record, unheard) = (Record::new(), Record::new());
        let (mut speakers, mut listeners) = (Vec::new(), Vec::new());
        for number in 0..SPEAKERS {
            let mut speaker = Peer::connect(&side, number, 0).await?;
            speaker.publish().await?;
            speaker.receive(&unheard);
            speakers.push(speaker);
        }
        for number in SPEAKERS..SPEAKERS + LISTENERS {
            let mut listener = Peer::connect(&side, number, 0).await?;
            listener.listen().await?;
            listener.receive(&record);
            listeners.push(listener);
        }
        Ok(Self { side, speakers, _listeners: listeners, record, first: 1 })
    }

    async fn turn(&mut self, time: Duration) -> Result<Turn> {
        let (first, record) = (self.first, &self.record);
        // Speakers of different loudness, so that the selection is the same in every turn.
        let speakers = self.speakers.iter().zip(20_u8..);
        let load = async {
            try_join_all(speakers.map(|(speaker, level)| speaker.speak(record, level, time, first)))
                .await
                .map(drop)
        };
        let found = turn(&self.side, record, load).await?;
        self.first += time.as_secs() * 50 + 1_000;
        Ok(found)
    }
}

/// Listeners that one core serves: those of the turn over the share of the core that it took.
fn listeners_per_core(turns: &[Turn], time: Duration) -> f64 {
    let cpu: Duration = turns.iter().map(|turn| turn.cpu).sum();
    let share = cpu.as_secs_f64() / (time.as_secs_f64() * turns.len() as f64);
    LISTENERS as f64 / share.max(1e-6)
}

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("media-audio: {SPEAKERS} speakers to {LISTENERS} listeners (F3)"));
    let slice = Duration::from_secs(bench.seconds).div_f64(2.0).max(Duration::from_secs(1));
    let (ours, bare) = (Side::handler()?, Side::bare()?);
    bench.runtime.block_on(async {
        let (mut ours, mut bare) = (Hall::open(ours).await?, Hall::open(bare).await?);
        ours.turn(Duration::from_secs(1)).await?;
        bare.turn(Duration::from_secs(1)).await?;
        let mut contest = Contest::default();
        for _ in 0..bench.rounds {
            contest.ours.push(ours.turn(slice).await?);
            contest.bare.push(bare.turn(slice).await?);
            contest.again.push(ours.turn(slice).await?);
        }
        contest.print(|turn| &turn.packets);
        let (found, peer) =
            (listeners_per_core(&contest.ours, slice), listeners_per_core(&contest.bare, slice));
        report::line(&format!("Listeners per core: tenure {found:.0}, one datagram per packet {peer:.0}."));
        report::goals(&[Goal::at_least("listeners per core ÷ one datagram per packet", 3.0, found / peer)]);
        Ok(())
    })
}
