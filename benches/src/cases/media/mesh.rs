//! F2: ten participants that see and hear each other.

use std::time::Duration;

use anyhow::Result;
use futures_util::future::try_join_all;

use super::peer::{Peer, Record};
use super::sides::{Contest, Side, Turn, turn};
use crate::cases::Bench;
use crate::report;

const PEOPLE: usize = 10;
const FPS: u32 = 30;
const SIZE: usize = 4 * 1024;
const LEVEL: u8 = 30;

struct Mesh {
    side: Side,
    people: Vec<Peer>,
    record: Record,
    first: u64,
}

impl Mesh {
    async fn open(side: Side) -> Result<Self> {
        let (mut people, record) = (Vec::new(), Record::new());
        for number in 0..PEOPLE {
            let mut person = Peer::connect(&side, number, 0).await?;
            person.publish().await?;
            people.push(person);
        }
        for (own, person) in people.iter_mut().enumerate() {
            for other in (0..PEOPLE).filter(|other| *other != own) {
                person.watch(other).await?;
            }
            person.listen().await?;
            person.receive(&record);
        }
        Ok(Self { side, people, record, first: 1 })
    }

    async fn turn(&mut self, time: Duration) -> Result<Turn> {
        let (first, record) = (self.first, &self.record);
        let one = |person| async move {
            let person: &Peer = person;
            tokio::try_join!(
                person.film(record, FPS, SIZE, time, first),
                person.speak(record, LEVEL, time, first * 50)
            )
        };
        let load = async { try_join_all(self.people.iter().map(one)).await.map(drop) };
        let found = turn(&self.side, record, load).await?;
        self.first += time.as_secs() + 10;
        Ok(found)
    }
}

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("media-mesh: {PEOPLE} × {PEOPLE}, {FPS} fps × 4 KB and audio (F2)"));
    let slice = Duration::from_secs(bench.seconds).div_f64(2.0).max(Duration::from_secs(1));
    let (ours, bare) = (Side::handler()?, Side::bare()?);
    bench.runtime.block_on(async {
        let (mut ours, mut bare) = (Mesh::open(ours).await?, Mesh::open(bare).await?);
        ours.turn(Duration::from_secs(1)).await?;
        bare.turn(Duration::from_secs(1)).await?;
        let mut contest = Contest::default();
        for _ in 0..bench.rounds {
            contest.ours.push(ours.turn(slice).await?);
            contest.bare.push(bare.turn(slice).await?);
            contest.again.push(ours.turn(slice).await?);
        }
        contest.print(|turn| &turn.frames);
        report::goals(&[contest.goal("mesh")]);
        Ok(())
    })
}
