//! Requests: one is in flight at a time, and it takes effect once.

use std::time::Duration;

use tenure_lease::Tick;
use tenure_lease::breaks::{Break, broken};
use tenure_meet_wire::signaling::client_message::Payload;
use tenure_meet_wire::signaling::{ErrorCode, ErrorMessage};
use tokio::sync::oneshot;

use crate::limits;
use crate::options::Ending;

/// Why a request failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// Rejected by the controller; nothing changed.
    #[error("{code:?}: {message}")]
    No {
        /// The stable code.
        code: ErrorCode,
        /// The message.
        message: String,
    },
    /// The queue is full; the request was not accepted.
    #[error("request queue full")]
    QueueFull,
    /// The message exceeds a frame; it was not accepted.
    #[error("message too long")]
    TooLong,
    /// The participant was lost while the request was in flight: it may have taken effect.
    #[error("participant lost; the request may have taken effect")]
    Unknown,
    /// The client ended before the request was sent.
    #[error("the client ended: {0}")]
    Over(Ending),
}

pub(crate) type Answer = oneshot::Sender<Result<(), Refused>>;

/// A queued request with the channel for its outcome.
pub(crate) struct PendingRequest {
    pub(crate) payload: Payload,
    pub(crate) answer: Answer,
}

/// The request in flight, or waiting for a retry.
pub(crate) struct InFlightRequest {
    pub(crate) asked: PendingRequest,
    /// The number it was sent with. `None` while it waits.
    sent: Option<u64>,
    /// The earliest time to send it.
    pub(crate) at: Option<Tick>,
    tries: u32,
}

/// What a response means for the request in flight.
pub(crate) enum Verdict {
    /// It is finished.
    Done(PendingRequest, Result<(), Refused>),
    /// It is retried later.
    Later(InFlightRequest),
    /// The response is for another request.
    Other(InFlightRequest),
}

impl InFlightRequest {
    pub(crate) fn new(asked: PendingRequest) -> Self {
        Self { asked, sent: None, at: None, tries: 0 }
    }

    /// Whether it is due.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.sent.is_none() && self.at.is_none_or(|at| now >= at)
    }

    /// Whether the controller sends no response to it.
    pub(crate) fn is_notification(&self) -> bool {
        matches!(self.asked.payload, Payload::MediaConnectionUpdate(_))
    }

    /// When it is due, if it waits.
    pub(crate) fn due(&self) -> Option<Tick> {
        if self.sent.is_none() { self.at } else { None }
    }

    pub(crate) fn sent_as(&mut self, seq: u64) {
        self.sent = Some(seq);
    }

    /// Handles a response.
    pub(crate) fn answered(self, seq: u64, error: Option<&ErrorMessage>, now: Tick) -> Verdict {
        if self.sent != Some(seq) {
            return Verdict::Other(self);
        }
        let Some(error) = error else { return Verdict::Done(self.asked, Ok(())) };
        let wait = match error.code() {
            ErrorCode::Migrating if self.tries < limits::MIGRATING_TRIES => limits::MIGRATING,
            ErrorCode::RateLimited if self.tries < limits::RATE_LIMITED_TRIES => {
                limits::RATE_LIMITED * (1 << self.tries)
            }
            code => {
                return Verdict::Done(self.asked, Err(Refused::No { code, message: error.message.clone() }));
            }
        };
        Verdict::Later(self.again(now, wait))
    }

    /// The request did not take effect. It needs a new number, because a higher one may have been applied already.
    fn again(self, now: Tick, wait: Duration) -> Self {
        Self { sent: None, at: Some(now + wait), tries: self.tries + 1, ..self }
    }

    /// A request that waits because the meeting moved is due now.
    pub(crate) fn send_at_once(&mut self) {
        self.at = None;
    }

    /// After a resume: requests up to `applied` took effect.
    pub(crate) fn resumed(self, applied: u64) -> Verdict {
        match self.sent {
            Some(seq) if seq <= applied && !broken(Break::ResendsApplied) => {
                Verdict::Done(self.asked, Ok(()))
            }
            Some(_) if broken(Break::CountsLostAsApplied) => Verdict::Done(self.asked, Ok(())),
            _ => Verdict::Later(Self { sent: None, ..self }),
        }
    }

    /// After a join as a new participant: a sent request may have taken effect, an unsent one is still valid.
    pub(crate) fn rejoined(self) -> Verdict {
        match self.sent {
            Some(_) => Verdict::Done(self.asked, Err(Refused::Unknown)),
            None => Verdict::Later(self),
        }
    }

    /// Fails the request because the client ended.
    pub(crate) fn over(self, ending: &Ending) {
        let refused = if self.sent.is_some() { Refused::Unknown } else { Refused::Over(ending.clone()) };
        let _receiver_dropped = self.asked.answer.send(Err(refused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_meet_wire::signaling::LeaveRequest;

    fn flying(sent: Option<u64>) -> InFlightRequest {
        let (answer, _) = oneshot::channel();
        let mut flying =
            InFlightRequest::new(PendingRequest { payload: Payload::LeaveRequest(LeaveRequest {}), answer });
        flying.sent = sent;
        flying
    }

    fn error(code: ErrorCode) -> ErrorMessage {
        ErrorMessage { code: code.into(), ..ErrorMessage::default() }
    }

    const NOW: Tick = Tick::from_nanos(0);

    #[test]
    fn a_response_completes_a_request_or_schedules_a_retry() {
        assert!(matches!(flying(Some(3)).answered(3, None, NOW), Verdict::Done(_, Ok(()))));
        assert!(matches!(flying(Some(3)).answered(2, None, NOW), Verdict::Other(_)));
        let forbidden = error(ErrorCode::Forbidden);
        assert!(matches!(
            flying(Some(3)).answered(3, Some(&forbidden), NOW),
            Verdict::Done(_, Err(Refused::No { code: ErrorCode::Forbidden, .. }))
        ));
        let Verdict::Later(later) = flying(Some(3)).answered(3, Some(&error(ErrorCode::Migrating)), NOW)
        else {
            panic!("kept")
        };
        assert_eq!(later.due(), Some(NOW + limits::MIGRATING));
        assert!(!later.is_due(NOW) && later.is_due(NOW + limits::MIGRATING));
    }

    #[test]
    fn rate_limited_requests_back_off_and_finally_fail() {
        let (mut waits, mut current, limited) = (Vec::new(), flying(None), error(ErrorCode::RateLimited));
        loop {
            current.sent_as(1);
            match current.answered(1, Some(&limited), NOW) {
                Verdict::Later(later) => {
                    waits.push(later.due().unwrap().since(NOW).as_secs());
                    current = later;
                }
                Verdict::Done(_, refused) => {
                    assert!(matches!(refused, Err(Refused::No { code: ErrorCode::RateLimited, .. })));
                    break;
                }
                Verdict::Other(_) => panic!("the response is for this request"),
            }
        }
        assert_eq!(waits, [1, 2, 4, 8]);
    }

    #[test]
    fn a_resume_settles_a_request_and_a_new_participant_leaves_it_unknown() {
        assert!(matches!(flying(Some(3)).resumed(3), Verdict::Done(_, Ok(()))));
        assert!(matches!(flying(Some(3)).resumed(2), Verdict::Later(again) if again.is_due(NOW)));
        assert!(matches!(flying(None).resumed(9), Verdict::Later(_)));
        assert!(matches!(flying(Some(3)).rejoined(), Verdict::Done(_, Err(Refused::Unknown))));
        assert!(matches!(flying(None).rejoined(), Verdict::Later(_)));
    }
}
