//! The session record.

use crate::{
    CorrelationId, Detail, Error, IdempotencyKey, PipelineState, ProfileId, Reason, Result, SessionEvent,
    SessionId, SessionState, Target, TargetKind, Ticket, Transition,
};

/// Milliseconds since the Unix epoch by the wall clock: for records and display, never for deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct UnixMs(pub u64);

impl UnixMs {
    /// Whole seconds.
    pub const fn secs(self) -> u64 {
        self.0 / 1_000
    }

    /// The time since `earlier`; zero if that lies in the future.
    pub const fn since(self, earlier: Self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A session record: created by the session API, updated only by the worker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Session {
    /// Its id.
    pub id: SessionId,
    /// What it plays.
    pub target: Target,
    /// The quality.
    pub profile: ProfileId,
    /// Its lifecycle state.
    pub state: SessionState,
    /// The state of its pipeline.
    pub pipeline: PipelineState,
    /// Why it ended.
    pub reason: Reason,
    /// The specific case of the reason.
    pub detail: Option<Detail>,
    /// The reason in plain language. Never contains a secret.
    pub message: Option<String>,
    /// The first client's name for its request.
    pub correlation: CorrelationId,
    /// The idempotency key it is mapped under.
    pub idempotency: IdempotencyKey,
    /// When it was created.
    pub created: UnixMs,
    /// When it last changed.
    pub updated: UnixMs,
    /// The tuner slot it claims.
    pub slot: Option<u32>,
    /// The state in which a restarted worker found it.
    pub recovered_from: Option<SessionState>,
    /// When its playlist and first segment were published.
    pub published: Option<UnixMs>,
    /// The lease that the API acquired for it in phase 1. Never displayed.
    pub ticket: Option<Ticket>,
}

impl Session {
    /// A session in NEW that no worker has picked up.
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
            state: SessionState::New,
            pipeline: PipelineState::Init,
            reason: Reason::None,
            detail: None,
            message: None,
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

    /// The kind of its target.
    pub const fn kind(&self) -> TargetKind {
        self.target.kind()
    }

    /// The session after an event, or `None` when the event changes nothing. An illegal transition is an error.
    pub fn apply(&self, event: SessionEvent, now: UnixMs) -> Result<Option<Self>> {
        match self.state.transition(event) {
            Transition::Unchanged => Ok(None),
            Transition::Illegal => {
                Err(Error::invalid("event", format!("{event} is illegal in state {}", self.state)))
            }
            Transition::To(state) => {
                let mut next = Self { state, updated: now.max(self.updated), ..self.clone() };
                match state {
                    SessionState::Stopping => next.pipeline = PipelineState::StopRequested,
                    SessionState::Stopped | SessionState::Cancelled => next.pipeline = PipelineState::Stopped,
                    SessionState::Failed => next.pipeline = PipelineState::Fail,
                    SessionState::New => {
                        (next.pipeline, next.slot, next.recovered_from) =
                            (PipelineState::Init, None, Some(self.state))
                    }
                    SessionState::Ready => {
                        (next.pipeline, next.published) = (PipelineState::Serving, Some(next.updated))
                    }
                    SessionState::Starting | SessionState::Priming | SessionState::Draining => {}
                }
                if state.is_terminal() {
                    // Its leases are released or expired.
                    next.ticket = None;
                }
                Ok(Some(next))
            }
        }
    }

    /// Sets the reason, unless one is already set: the first reason is the cause.
    pub fn with_reason(mut self, reason: Reason, detail: Option<Detail>, message: Option<String>) -> Self {
        if self.reason == Reason::None {
            (self.reason, self.detail, self.message) = (reason, detail, message);
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

    fn apply_all(session: &Session, events: &[SessionEvent]) -> Session {
        events.iter().fold(session.clone(), |session, event| {
            session.apply(*event, UnixMs(2_000)).unwrap().unwrap_or(session)
        })
    }

    #[test]
    fn the_first_reason_is_kept() {
        let stopping =
            apply_all(&session(), &[SessionEvent::RequestStop]).with_reason(Reason::ClientStop, None, None);
        let failed = stopping.with_reason(Reason::LeaseExpired, Some(Detail::TunerLeaseLost), None);
        assert_eq!((failed.reason, failed.detail), (Reason::ClientStop, None));
    }

    #[test]
    fn a_session_that_is_reset_claims_no_slot() {
        let starting = Session { slot: Some(1), ..apply_all(&session(), &[SessionEvent::Pick]) };
        let again = apply_all(&starting, &[SessionEvent::Reset]);
        assert_eq!(
            (again.state, again.slot, again.recovered_from),
            (SessionState::New, None, Some(SessionState::Starting))
        );
    }

    #[test]
    fn a_terminal_session_has_no_ticket_and_no_transitions() {
        let ticketed = Session { ticket: Some(Ticket::new("secret")), ..session() };
        let ended = apply_all(&ticketed, &[SessionEvent::RequestStop, SessionEvent::End]);
        assert_eq!((ended.state, ended.ticket.is_some()), (SessionState::Stopped, false));
        assert!(ended.apply(SessionEvent::Pick, UnixMs(3_000)).is_err());
        assert_eq!(ended.apply(SessionEvent::RequestStop, UnixMs(3_000)), Ok(None));
    }

    #[test]
    fn updated_never_decreases_when_the_wall_clock_steps_back() {
        let picked = session().apply(SessionEvent::Pick, UnixMs(5)).unwrap().unwrap();
        assert_eq!(picked.updated, UnixMs(1_000));
    }
}
