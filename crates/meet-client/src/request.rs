//! Requests: one is under way at a time, and it takes effect once.

use std::time::Duration;

use lease::Tick;
use meet_wire::signaling::client_message::Payload;
use meet_wire::signaling::{ErrorCode, ErrorMessage};
use tokio::sync::oneshot;

use crate::limits;
use crate::options::Ending;

/// Why a request did nothing, or why nobody knows.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused {
    /// The meeting says no; nothing changed.
    #[error("{code:?}: {message}")]
    No {
        /// The stable word.
        code: ErrorCode,
        /// In words.
        message: String,
    },
    /// Too many requests wait already; this one was not taken.
    #[error("too many requests wait already")]
    QueueFull,
    /// The message does not fit into a frame; it was not taken.
    #[error("the message is too long")]
    TooLong,
    /// The seat was lost while the request was under way: it may have taken effect.
    #[error("the seat was lost; the request may have taken effect")]
    Unknown,
    /// The client ended before the request was sent.
    #[error("the client ended: {0}")]
    Over(Ending),
}

pub(crate) type Answer = oneshot::Sender<Result<(), Refused>>;

/// A request and who waits for its answer.
pub(crate) struct Asked {
    pub(crate) payload: Payload,
    pub(crate) answer: Answer,
}

/// The request that is under way, or waits to be sent again.
pub(crate) struct Flying {
    pub(crate) asked: Asked,
    /// The number under which it was sent; none while it waits.
    sent: Option<u64>,
    /// Not before this.
    pub(crate) at: Option<Tick>,
    tries: u32,
}

/// What an answer means for the request that is under way.
pub(crate) enum Verdict {
    /// It is over.
    Done(Asked, Result<(), Refused>),
    /// It is to be sent again, later.
    Later(Flying),
    /// It was not meant.
    Other(Flying),
}

impl Flying {
    pub(crate) fn new(asked: Asked) -> Self {
        Self { asked, sent: None, at: None, tries: 0 }
    }

    /// Whether it is to be sent by now.
    pub(crate) fn is_due(&self, now: Tick) -> bool {
        self.sent.is_none() && self.at.is_none_or(|at| now >= at)
    }

    /// When it is to be sent, if it waits.
    pub(crate) fn due(&self) -> Option<Tick> {
        if self.sent.is_none() { self.at } else { None }
    }

    pub(crate) fn sent_as(&mut self, seq: u64) {
        self.sent = Some(seq);
    }

    /// Takes an answer.
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

    /// It did not take effect: a new number, since the old one may be below another that did.
    fn again(self, now: Tick, wait: Duration) -> Self {
        Self { sent: None, at: Some(now + wait), tries: self.tries + 1, ..self }
    }

    /// What a new connection says of it: the seat is the same, and requests up to `applied` took effect.
    pub(crate) fn resumed(self, applied: u64) -> Verdict {
        match self.sent {
            Some(seq) if seq <= applied => Verdict::Done(self.asked, Ok(())),
            _ => Verdict::Later(Self { sent: None, ..self }),
        }
    }

    /// The seat is another one: what was sent may have taken effect, what was not may still be.
    pub(crate) fn reseated(self) -> Verdict {
        match self.sent {
            Some(_) => Verdict::Done(self.asked, Err(Refused::Unknown)),
            None => Verdict::Later(self),
        }
    }

    /// Nothing comes any more.
    pub(crate) fn over(self, ending: &Ending) {
        let refused = if self.sent.is_some() { Refused::Unknown } else { Refused::Over(ending.clone()) };
        let _nobody_waits = self.asked.answer.send(Err(refused));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meet_wire::signaling::LeaveRequest;

    fn flying(sent: Option<u64>) -> Flying {
        let (answer, _) = oneshot::channel();
        let mut flying = Flying::new(Asked { payload: Payload::LeaveRequest(LeaveRequest {}), answer });
        flying.sent = sent;
        flying
    }

    fn error(code: ErrorCode) -> ErrorMessage {
        ErrorMessage { code: code.into(), ..ErrorMessage::default() }
    }

    const NOW: Tick = Tick::from_nanos(0);

    #[test]
    fn an_answer_ends_a_request_or_has_it_sent_again_later() {
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
    fn rate_limits_are_waited_out_longer_each_time_and_not_for_ever() {
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
                Verdict::Other(_) => panic!("it was meant"),
            }
        }
        assert_eq!(waits, [1, 2, 4, 8]);
    }

    #[test]
    fn a_resume_says_what_became_of_it_and_a_new_seat_leaves_it_open() {
        assert!(matches!(flying(Some(3)).resumed(3), Verdict::Done(_, Ok(()))));
        assert!(matches!(flying(Some(3)).resumed(2), Verdict::Later(again) if again.is_due(NOW)));
        assert!(matches!(flying(None).resumed(9), Verdict::Later(_)));
        assert!(matches!(flying(Some(3)).reseated(), Verdict::Done(_, Err(Refused::Unknown))));
        assert!(matches!(flying(None).reseated(), Verdict::Later(_)));
    }
}
