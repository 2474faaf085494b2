//! Closes what time has ended, so that history, watchers and queues learn of it within two seconds.

use std::sync::Arc;
use std::time::Duration;

use lease::{Generation, Key, Result};

use super::fault::strange;
use super::names::{Call, INDEX, TOMBS};
use super::reply;
use super::script::{DUE, TOUCH};
use super::shelf::Shelves;
use super::wire::{Repeat, Wire};

/// How often.
const EVERY: Duration = Duration::from_secs(1);
/// Most keys per call.
const KEYS: usize = 500;
/// Most calls in one run.
const ROUNDS: usize = 20;

/// Sweeps for ever. Any number of engines may: what one has closed, the others leave alone.
pub(super) async fn sweep(wire: Arc<Wire>, shelves: Arc<Shelves>) {
    loop {
        wire.clock.sleep_until(wire.clock.now() + EVERY).await;
        shelves.tidy(wire.clock.now());
        for _ in 0..ROUNDS {
            match round(&wire).await {
                Ok(swept) if swept == KEYS => {}
                Ok(_) => break,
                Err(error) => {
                    tracing::debug!(%error, "sweep failed");
                    break;
                }
            }
        }
    }
}

async fn round(wire: &Wire) -> Result<usize> {
    let asked = wire.clock.now();
    let (due, link) = wire
        .run_over(Some(&DUE), wire.budget(), Repeat::Freely, |_, _| {
            let mut call = Call::new(&DUE, 2);
            call.key(INDEX);
            call.key(TOMBS);
            call.number(KEYS as u64);
            call.done()
        })
        .await?;
    let due = reply::array(due)?;
    let [looked, now, rest @ ..] = &due[..] else { return Err(strange("half an answer")) };
    let looked = usize::try_from(reply::int(looked)?).map_err(|_| strange("not a count"))?;
    // Somebody may have set the server's clock.
    link.set_time(asked, u64::try_from(reply::int(now)?).map_err(|_| strange("not a time"))?);
    let rest: Vec<Key> = rest.iter().filter_map(|key| Key::new(reply::text(key).ok()?).ok()).collect();
    if !rest.is_empty() {
        touch(wire, &rest, &vec![None; rest.len()]).await?;
    }
    Ok(looked)
}

/// Brings keys up to date. For each key with a generation, the letter of that reign's end.
pub(super) async fn touch(wire: &Wire, keys: &[Key], reigns: &[Option<Generation>]) -> Result<Vec<u8>> {
    let answer = wire
        .call(&TOUCH, Repeat::Freely, |link, _| {
            let mut call = Call::on(&TOUCH, link, keys.iter());
            reigns.iter().for_each(|generation| call.generation(*generation));
            call.done()
        })
        .await?;
    let letters = reply::exactly(answer, keys.len())?;
    letters.iter().map(|l| reply::bytes(l)?.first().copied().ok_or_else(|| strange("nothing"))).collect()
}
