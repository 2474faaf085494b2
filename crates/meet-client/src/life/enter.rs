//! The way to a seat.

use lease::Entropy;
use meet_wire::signaling::client_message::Payload as Ask;
use meet_wire::signaling::server_message::Payload;
use meet_wire::signaling::{
    ClientMessage, ErrorCode, ErrorMessage, JoinRequest, JoinResponse, ServerMessage,
};
use meet_wire::{CloseCode, Id, TraceParent};

use crate::Event;
use crate::dial::Place;
use crate::door::{Admission, DoorError};
use crate::life::{Life, Proof, Setback};
use crate::limits;
use crate::line::Line;
use crate::options::{Ending, State};
use crate::view;

/// A trace of one's own.
pub(super) fn trace(entropy: &dyn Entropy) -> String {
    let (mut trace, mut parent) = ([0; 16], [0; 8]);
    entropy.fill(&mut trace);
    entropy.fill(&mut parent);
    // Zero is not a trace.
    let (trace_id, parent_id) = (u128::from_be_bytes(trace) | 1, u64::from_be_bytes(parent) | 1);
    TraceParent { trace_id, parent_id, flags: 1 }.to_string()
}

fn again(why: impl ToString) -> Setback {
    Setback::Again(why.to_string(), false)
}

impl Life {
    /// One attempt: asks the door, connects, asks for the seat.
    pub(super) async fn enter(&mut self) -> Result<Line, Setback> {
        let admission = self.door.admit().await.map_err(|error| self.turned_away(error))?;
        let place = self.redirect.take().unwrap_or_else(|| admission.place.clone());
        let mut line = match self.connect(&place).await {
            Ok(line) => line,
            Err(why) => {
                self.door.unreachable(&admission, &why).await;
                return Err(again(why));
            }
        };
        let seq = self.next_seq();
        let answered = self.ask_for_seat(&mut line, &admission, seq).await;
        let answer = match answered {
            Ok(answer) => answer,
            Err(setback) => {
                line.session.close_for(CloseCode::Done);
                return Err(setback);
            }
        };
        self.welcomed(answer).await;
        Ok(line)
    }

    fn turned_away(&self, error: DoorError) -> Setback {
        match error {
            // A door that is closed to who was inside: the meeting ended meanwhile.
            DoorError::Refused { code, message } if code == "CONFLICT" && self.proof.is_some() => {
                Setback::Final(Ending::MeetingOver(message))
            }
            DoorError::Refused { code, message } => Setback::Final(Ending::Refused { code, message }),
            DoorError::NotFound(why) if self.proof.is_some() => Setback::Final(Ending::MeetingOver(why)),
            DoorError::NotFound(message) => {
                Setback::Final(Ending::Refused { code: "NOT_FOUND".to_owned(), message })
            }
            DoorError::Unavailable(why) => again(why),
        }
    }

    async fn connect(&self, place: &Place) -> Result<Line, String> {
        let clock = &self.options.clock;
        let late = clock.sleep_until(clock.now() + limits::DIAL);
        let connect = async {
            let session = self.dial.dial(place, &self.trace).await?;
            Line::open(session).await
        };
        tokio::select! {
            line = connect => line.map_err(|error| error.to_string()),
            () = late => Err("no connection in time".to_owned()),
        }
    }

    async fn ask_for_seat(
        &mut self,
        line: &mut Line,
        admission: &Admission,
        seq: u64,
    ) -> Result<ServerMessage, Setback> {
        let clock = self.options.clock.clone();
        let limit = if self.proof.is_some() { limits::RESUME } else { limits::JOIN };
        let late = clock.sleep_until(clock.now() + limit);
        let message = self.join_request(admission, seq);
        let ask = async {
            line.writer.send(&message).await.map_err(again)?;
            line.next().await.map_err(|loss| again(format!("{loss:?}")))
        };
        let answer = tokio::select! {
            answer = ask => answer?,
            () = late => return Err(again("no answer to the join in time")),
        };
        match answer.payload.as_ref() {
            Some(Payload::JoinResponse(_)) => {
                self.unauthorized = 0;
                Ok(answer)
            }
            Some(Payload::Error(error)) => Err(self.refused(error)),
            Some(Payload::RedirectToMc(redirect)) => {
                let hashes = redirect.certificate_sha256.iter().map(|hash| hash.to_vec()).collect();
                self.redirect = Some(Place { url: redirect.new_mc_endpoint.clone(), hashes });
                Err(again("the meeting moved"))
            }
            _ => Err(again("an answer that is none")),
        }
    }

    fn join_request(&self, admission: &Admission, seq: u64) -> ClientMessage {
        let mut join = JoinRequest {
            meeting_id: admission.meeting_id.clone(),
            join_token: admission.token.clone(),
            participant_name: self.options.name.clone(),
            capabilities: self.options.capabilities.clone(),
            attempt_id: self.attempt.clone(),
            ..JoinRequest::default()
        };
        if let Some(proof) = &self.proof {
            join.correlation_id.clone_from(&proof.correlation);
            join.binding_token.clone_from(&proof.token);
            join.last_event_seq = self.shared.view.lock().resume_from();
        }
        ClientMessage {
            payload: Some(Ask::JoinRequest(join)),
            trace_parent: self.trace.clone(),
            seq,
            ..ClientMessage::default()
        }
    }

    /// What a refused join means: some reasons pass.
    fn refused(&mut self, error: &ErrorMessage) -> Setback {
        let last = || {
            let code = error.code().as_str_name().trim_start_matches("ERROR_CODE_").to_owned();
            Setback::Final(Ending::Refused { code, message: error.message.clone() })
        };
        match error.code() {
            ErrorCode::Unauthorized => {
                // The token may have ended on the way; the door gives a new one.
                self.unauthorized += 1;
                if self.unauthorized >= limits::UNAUTHORIZED_TRIES { last() } else { again(&error.message) }
            }
            // The controller that was asked does not have the meeting: it ended, or moved and the door will know.
            ErrorCode::NotFound if self.done => Setback::Final(Ending::MeetingOver(error.message.clone())),
            ErrorCode::NotFound
            | ErrorCode::Migrating
            | ErrorCode::RateLimited
            | ErrorCode::Unavailable
            | ErrorCode::InternalError
            | ErrorCode::Conflict => again(&error.message),
            _ => last(),
        }
    }

    /// The seat is there: what is known, what was under way, and whoever listens hear of it.
    async fn welcomed(&mut self, answer: ServerMessage) {
        let Some(Payload::JoinResponse(welcome)) = &answer.payload else { return };
        let JoinResponse { resumed, replay, applied_seq, .. } = *welcome;
        self.proof =
            Some(Proof { correlation: welcome.correlation_id.clone(), token: welcome.binding_token.clone() });
        self.attempt = Id::new(self.options.clock.wall(), &*self.options.entropy).to_string();
        self.done = false;
        self.seq = self.seq.max(applied_seq);
        view::apply(&mut self.shared.view.lock(), &answer);
        if let Some(flying) = self.flying.take() {
            let verdict = if resumed { flying.resumed(applied_seq) } else { flying.reseated() };
            self.settle(verdict);
        }
        self.shared.state.send_replace(State::Connected);
        self.shared.version.send_modify(|version| *version += 1);
        self.tell(Event::Connected { resumed, replay }).await;
    }
}
