//! What a worker puts right before it begins: its predecessor ended in the middle of things.

use lease::Record;
use session::{Detail, Event, Reason, SessionId, State};

use crate::desk::{Broken, Cause, Entry};
use crate::world::World;
use crate::{Fatal, folder, keys, leftovers, limits, metric, rows, scan};

/// What to do with a session that the predecessor left.
pub(crate) const fn event(state: State) -> Option<Event> {
    match state {
        State::New | State::Stopped | State::Failed | State::Cancelled => None,
        State::Starting => Some(Event::Reset),
        State::Priming | State::Ready | State::Draining | State::Stopping => Some(Event::Fail),
    }
}

/// Half-started sessions start again, all later ones have failed, whatever their age. A tuner on which something of the
/// predecessor still runs is kept out until that is gone.
pub(crate) async fn run(world: &World) -> Result<(), Fatal> {
    let left = leftovers::all();
    let concerned = |record: &Record| {
        let left_over =
            || keys::id_in(&record.key, keys::SESSION).is_some_and(|id| left.contains(id.as_str()));
        rows::glance(&record.value).map_or(true, |glance| event(glance.state).is_some()) || left_over()
    };
    for mut entry in scan::sessions(world, concerned).await.map_err(fatal)? {
        let (id, slot) = (entry.session.id.clone(), entry.session.slot);
        if left.contains(id.as_str()) && !end_leftovers(world, &id).await {
            match slot {
                Some(slot) => world.withhold(slot, &id),
                // Nobody knows which tuner it uses.
                None => world.options.slots.iter().for_each(|slot| world.withhold(*slot, &id)),
            }
        }
        let Some(event) = event(entry.session.state) else { continue };
        recover(world, &mut entry, event).await.map_err(fatal)?;
        let gone = folder::remove(&folder::of(&world.options.output_dir, &id));
        if let Err(error) = gone {
            tracing::warn!(target: metric::TARGET, session = %id, %error, "the folder of a session could not be removed");
        }
    }
    Ok(())
}

pub(crate) async fn recover(world: &World, entry: &mut Entry, event: Event) -> Result<(), Broken> {
    let before = entry.session.state;
    let cause = (event == Event::Fail).then(|| {
        let words = format!("the worker that ran it ended while it was {before}");
        Cause::new(Reason::ProcessEnded, Some(Detail::WorkerRestarted), words)
    });
    entry.session.recovered_from = Some(before);
    match entry.step(world, event, cause).await {
        // Nobody else writes it; if somebody did, it is not ours any more.
        Err(Broken::Changed) => Ok(()),
        other => other,
    }
}

/// Ends what still runs for a session. Answers whether nothing does any more.
async fn end_leftovers(world: &World, id: &SessionId) -> bool {
    let end = world.clock.now() + world.options.gone_timeout;
    while leftovers::kill(id) {
        if world.clock.now() >= end {
            return false;
        }
        world.pause(limits::GONE_LOOK).await;
    }
    true
}

fn fatal(broken: Broken) -> Fatal {
    Fatal::store(broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::Step;

    #[test]
    fn every_state_has_its_recovery_and_the_table_allows_it() {
        for state in State::ALL {
            let next = event(*state).map(|event| state.step(event));
            let expected = match state {
                State::New | State::Stopped | State::Failed | State::Cancelled => None,
                State::Starting => Some(Step::To(State::New)),
                _ => Some(Step::To(State::Failed)),
            };
            assert_eq!(next, expected, "{state}");
        }
    }
}
