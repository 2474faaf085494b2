//! What becomes of a wish.

use crate::{
    CorrelationId, Detail, Error, Event, IdempotencyKey, Kind, Pipeline, ProfileId, Reason, Result,
    SessionId, State, Step, Target, Ticket,
};

/// Milliseconds since 1970, on the clock on the wall: for people and records, never for deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UnixMs(pub u64);

impl UnixMs {
    /// Whole seconds.
    pub const fn secs(self) -> u64 {
        self.0 / 1_000
    }

    /// How long this is after `earlier`; zero when it is not.
    pub const fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A session: the record that the door writes once and the worker writes from then on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its name.
    pub id: SessionId,
    /// What is watched.
    pub target: Target,
    /// In which quality.
    pub profile: ProfileId,
    /// Where it is in its life.
    pub state: State,
    /// How far its pipeline is.
    pub pipeline: Pipeline,
    /// Why it ended.
    pub reason: Reason,
    /// Which case of that.
    pub detail: Option<Detail>,
    /// The same for people: never a secret.
    pub words: Option<String>,
    /// What the first client called its request.
    pub correlation: CorrelationId,
    /// Under which key the wish is found.
    pub idempotency: IdempotencyKey,
    /// When it was wished.
    pub created: UnixMs,
    /// When it last changed.
    pub updated: UnixMs,
    /// The tuner it claims.
    pub slot: Option<u32>,
    /// What it was when a worker found it after a restart.
    pub recovered_from: Option<State>,
    /// When its playlist and first segment were there.
    pub published: Option<UnixMs>,
    /// What the door took for it in phase 1; never shown.
    pub ticket: Option<Ticket>,
}

impl Session {
    /// A wish that nobody has taken up.
    pub fn new(
        id: SessionId,
        target: Target,
        profile: ProfileId,
        correlation: CorrelationId,
        idempotency: IdempotencyKey,
        now: UnixMs,
    ) -> Self {
        Self {
            id,
            target,
            profile,
            state: State::New,
            pipeline: Pipeline::Init,
            reason: Reason::None,
            detail: None,
            words: None,
            correlation,
            idempotency,
            created: now,
            updated: now,
            slot: None,
            recovered_from: None,
            published: None,
            ticket: None,
        }
    }

    /// Live or recording.
    pub const fn kind(&self) -> Kind {
        self.target.kind()
    }

    /// The same session after an event, or none when the event changes nothing. An event that cannot happen here is an
    /// error: the one table decides.
    pub fn after(&self, event: Event, now: UnixMs) -> Result<Option<Self>> {
        match self.state.step(event) {
            Step::Stay => Ok(None),
            Step::Illegal => Err(Error::invalid(
                "event",
                format!("{event} cannot happen to a session that is {}", self.state),
            )),
            Step::To(state) => {
                let mut next = Self { state, updated: now.max(self.updated), ..self.clone() };
                match state {
                    State::Stopping => next.pipeline = Pipeline::StopRequested,
                    State::Stopped | State::Cancelled => next.pipeline = Pipeline::Stopped,
                    State::Failed => next.pipeline = Pipeline::Fail,
                    State::New => {
                        (next.pipeline, next.slot, next.recovered_from) =
                            (Pipeline::Init, None, Some(self.state))
                    }
                    State::Ready => (next.pipeline, next.published) = (Pipeline::Serving, Some(next.updated)),
                    State::Starting | State::Priming | State::Draining => {}
                }
                if state.is_terminal() {
                    // Whatever it held is given back or past its end.
                    next.ticket = None;
                }
                Ok(Some(next))
            }
        }
    }

    /// The same session with why. A reason that is there stays: the first is the cause.
    pub fn because(mut self, reason: Reason, detail: Option<Detail>, words: Option<String>) -> Self {
        if self.reason == Reason::None {
            (self.reason, self.detail, self.words) = (reason, detail, words);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session::new(
            SessionId::new("s1").unwrap(),
            Target::new(Some("1:0:1"), None, None).unwrap(),
            ProfileId::new("high").unwrap(),
            CorrelationId::new("c1").unwrap(),
            IdempotencyKey::from_hex(&"0".repeat(64)).unwrap(),
            UnixMs(1_000),
        )
    }

    fn after(session: &Session, events: &[Event]) -> Session {
        events.iter().fold(session.clone(), |session, event| {
            session.after(*event, UnixMs(2_000)).unwrap().unwrap_or(session)
        })
    }

    #[test]
    fn the_first_reason_is_the_cause() {
        let stopping = after(&session(), &[Event::AskStop]).because(Reason::ClientStop, None, None);
        let failed = stopping.because(Reason::LeaseExpired, Some(Detail::TunerLeaseLost), None);
        assert_eq!((failed.reason, failed.detail), (Reason::ClientStop, None));
    }

    #[test]
    fn a_session_that_starts_again_claims_no_slot() {
        let starting = Session { slot: Some(1), ..after(&session(), &[Event::Pick]) };
        let again = after(&starting, &[Event::Reset]);
        assert_eq!(
            (again.state, again.slot, again.recovered_from),
            (State::New, None, Some(State::Starting))
        );
    }

    #[test]
    fn what_is_over_keeps_no_ticket_and_goes_nowhere() {
        let wished = Session { ticket: Some(Ticket::new("secret")), ..session() };
        let ended = after(&wished, &[Event::AskStop, Event::End]);
        assert_eq!((ended.state, ended.ticket.is_some()), (State::Stopped, false));
        assert!(ended.after(Event::Pick, UnixMs(3_000)).is_err());
        assert_eq!(ended.after(Event::AskStop, UnixMs(3_000)), Ok(None));
    }

    #[test]
    fn a_wall_clock_that_steps_back_does_not_turn_the_record_back() {
        let picked = session().after(Event::Pick, UnixMs(5)).unwrap().unwrap();
        assert_eq!(picked.updated, UnixMs(1_000));
    }
}
