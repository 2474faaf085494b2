//! Compares sides in one process, in alternating slices, with the first side against itself as the control.

use std::time::Duration;

use anyhow::Result;

use crate::clock::{Moment, cpu, nap};
use crate::numbers::{Spread, median};

/// Duration and number of the rounds.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    /// How long one round lasts.
    pub(crate) round: Duration,
    /// How many rounds; the median counts.
    pub(crate) rounds: usize,
    /// How long one side runs before the next.
    pub(crate) slice: Duration,
    /// Whether to wait after each slice until this process is idle, so that background work of one side does not slow
    /// down the next.
    pub(crate) wait_until_idle: bool,
}

/// Work that runs for about the given time and returns how many operations it did.
pub(crate) type Work<'a> = Box<dyn FnMut(Duration) -> Result<u64> + 'a>;

/// One side of a contest.
pub(crate) struct Side<'a> {
    pub(crate) name: String,
    work: Work<'a>,
}

impl<'a> Side<'a> {
    pub(crate) fn new(name: impl Into<String>, work: impl FnMut(Duration) -> Result<u64> + 'a) -> Self {
        Self { name: name.into(), work: Box::new(work) }
    }

    /// Operations per second over one slice.
    fn rate(&mut self, slice: Duration) -> Result<f64> {
        let start = Moment::now();
        let done = (self.work)(slice)?;
        Ok(done as f64 / start.passed().as_secs_f64())
    }
}

/// The result of a contest, one entry per side.
pub(crate) struct Outcome {
    /// Operations per second.
    pub(crate) rates: Vec<Spread>,
    /// The first side's rate over this one's.
    pub(crate) ratios: Vec<Spread>,
    /// The first side against itself.
    pub(crate) control: Spread,
}

/// Runs the sides in turns. The first side is Tenure; it runs twice in every lap, for the control.
pub(crate) fn contest(plan: Plan, sides: &mut [Side<'_>]) -> Result<Outcome> {
    for side in sides.iter_mut() {
        side.rate(plan.slice)?;
        wait_until_idle(plan);
    }
    let turns = sides.len() + 1;
    let laps =
        (plan.round.as_secs_f64() / (plan.slice.as_secs_f64() * turns as f64)).round().max(1.0) as usize;
    let mut rates = vec![Vec::new(); turns];
    let mut ratios = vec![Vec::new(); turns];
    let mut lap_number = 0;
    for _ in 0..plan.rounds {
        let mut of_round = vec![Vec::new(); turns];
        for _ in 0..laps {
            let lap = lap(plan, sides, lap_number)?;
            lap_number += 1;
            for (turn, rate) in lap.iter().enumerate() {
                of_round[turn].push((*rate, lap[0] / rate));
            }
        }
        for (turn, found) in of_round.iter().enumerate() {
            rates[turn].push(median(found.iter().map(|(rate, _)| *rate)));
            ratios[turn].push(median(found.iter().map(|(_, ratio)| *ratio)));
        }
    }
    let control = Spread::of(&ratios[turns - 1]);
    let spreads = |of: &[Vec<f64>]| of[..turns - 1].iter().map(|values| Spread::of(values)).collect();
    Ok(Outcome { rates: spreads(&rates), ratios: spreads(&ratios), control })
}

/// One turn per side, in an order that rotates from lap to lap.
fn lap(plan: Plan, sides: &mut [Side<'_>], number: usize) -> Result<Vec<f64>> {
    let turns = sides.len() + 1;
    let mut rates = vec![0.0; turns];
    for step in 0..turns {
        let place = (step + number / 2) % turns;
        let turn = if number.is_multiple_of(2) { place } else { turns - 1 - place };
        rates[turn] = sides[turn % sides.len()].rate(plan.slice)?;
        wait_until_idle(plan);
    }
    Ok(rates)
}

/// Waits until this process is idle, for at most a second.
fn wait_until_idle(plan: Plan) {
    const LOOK: Duration = Duration::from_millis(4);
    if !plan.wait_until_idle {
        return;
    }
    for _ in 0..250 {
        let before = cpu();
        nap(LOOK);
        if cpu() - before < LOOK / 8 {
            return;
        }
    }
}
