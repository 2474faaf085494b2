//! Joins and resumes.

use bytes::Bytes;
use tenure_lease::Entropy;
use tenure_meet_wire::signaling::client_message::Payload as Ask;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{
    ClientMessage, ErrorCode, ErrorMessage, JoinRequest, JoinResponse, ServerMessage,
};
use tenure_meet_wire::transport::TransportError;
use tenure_meet_wire::{CloseCode, Id, TraceParent};

use crate::Event;
use crate::connection::Connection;
use crate::dial::Endpoint;
use crate::driver::{Driver, Proof, Setback};
use crate::join_api::{Admission, JoinApiError, UnreachableReason};
use crate::limits;
use crate::options::{Ending, State};
use crate::view;

/// Generates a trace context.
pub(super) fn trace(entropy: &dyn Entropy) -> String {
    let (mut trace, mut parent) = ([0; 16], [0; 8]);
    entropy.fill(&mut trace);
    entropy.fill(&mut parent);
    // An all-zero trace id is invalid.
    let (trace_id, parent_id) = (u128::from_be_bytes(trace) | 1, u64::from_be_bytes(parent) | 1);
    TraceParent { trace_id, parent_id, flags: 1 }.to_string()
}

fn again(why: impl ToString) -> Setback {
    Setback::Again(why.to_string(), false)
}

fn unreachable(reason: UnreachableReason, why: impl ToString) -> Setback {
    Setback::Unreachable(reason, why.to_string())
}

/// The reason in a report of a failed dial. QUIC names its errors only in words.
fn reason(error: &TransportError) -> UnreachableReason {
    let text = error.to_string().to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    match () {
        () if says(&["certificate", "tls", "crypto"]) => UnreachableReason::TlsError,
        () if says(&["timed out", "timeout"]) => UnreachableReason::Timeout,
        () if says(&["refused"]) => UnreachableReason::ConnectionRefused,
        () => UnreachableReason::Unspecified,
    }
}

impl Driver {
    /// One attempt: calls the join API, connects, and joins or resumes.
    pub(super) async fn enter(&mut self) -> Result<Connection, Setback> {
        let admission = match (self.home.take(), &self.admission) {
            // The token of the lost connection is good there too.
            (Some(home), Some(last)) => last.at(home),
            _ => self.join_api.admit().await.map_err(|error| self.turned_away(error))?,
        };
        self.admission = Some(admission.clone());
        let place = self.redirect.take().unwrap_or_else(|| admission.place.clone());
        let mut connection = self.connect(&place).await?;
        let seq = self.next_seq();
        let answered = self.ask_for_seat(&mut connection, &admission, seq).await;
        let answer = match answered {
            Ok(answer) => answer,
            Err(setback) => {
                connection.session.close_for(CloseCode::Done);
                return Err(setback);
            }
        };
        self.welcomed(answer).await;
        Ok(connection)
    }

    fn turned_away(&self, error: JoinApiError) -> Setback {
        match error {
            // The meeting ended while this client was disconnected.
            JoinApiError::Refused { code, message }
                if matches!(code.as_str(), "CONFLICT" | "MEETING_ENDED") && self.proof.is_some() =>
            {
                Setback::Final(Ending::MeetingOver(message))
            }
            JoinApiError::Refused { code, message } => Setback::Final(Ending::Refused { code, message }),
            JoinApiError::NotFound(why) if self.proof.is_some() => Setback::Final(Ending::MeetingOver(why)),
            JoinApiError::NotFound(message) => {
                Setback::Final(Ending::Refused { code: "NOT_FOUND".to_owned(), message })
            }
            JoinApiError::Unavailable(why) => again(why),
        }
    }

    async fn connect(&self, place: &Endpoint) -> Result<Connection, Setback> {
        let clock = &self.options.clock;
        let late = clock.sleep_until(clock.now() + limits::DIAL);
        let connect = async {
            let session = self.dial.dial(place, &self.trace).await?;
            Connection::open(session).await
        };
        tokio::select! {
            biased;
            connection = connect => connection.map_err(|error| unreachable(reason(&error), error)),
            () = late => Err(unreachable(UnreachableReason::Timeout, "connect timed out")),
        }
    }

    async fn ask_for_seat(
        &mut self,
        connection: &mut Connection,
        admission: &Admission,
        seq: u64,
    ) -> Result<ServerMessage, Setback> {
        let clock = self.options.clock.clone();
        let limit = if self.proof.is_some() { limits::RESUME } else { limits::JOIN };
        let late = clock.sleep_until(clock.now() + limit);
        let message = self.join_request(admission, Bytes::new(), seq);
        let ask = async {
            connection.writer.send(&message).await.map_err(again)?;
            connection.next().await.map_err(|loss| match loss.unreachable() {
                Some(reason) => unreachable(reason, format!("{loss:?}")),
                None => again(format!("{loss:?}")),
            })
        };
        let mut answer = tokio::select! {
            biased;
            answer = ask => answer?,
            () = late => return Err(unreachable(UnreachableReason::Timeout, "join timed out")),
        };
        while matches!(answer.payload, Some(Payload::Waiting(_))) {
            // A host admits this client or turns it away; the controller bounds the wait.
            answer = connection.next().await.map_err(|loss| again(format!("{loss:?}")))?;
        }
        match answer.payload.as_ref() {
            Some(Payload::JoinResponse(_)) => {
                self.unauthorized = 0;
                Ok(answer)
            }
            Some(Payload::Error(error)) => Err(self.refused(error)),
            Some(Payload::RedirectToMc(redirect)) => {
                let hashes = redirect.certificate_sha256.iter().map(|hash| hash.to_vec()).collect();
                self.redirect = Some(Endpoint { url: redirect.new_mc_endpoint.clone(), hashes });
                Err(again("meeting moved"))
            }
            _ => Err(again("unexpected response")),
        }
    }

    pub(super) fn join_request(&self, admission: &Admission, move_ticket: Bytes, seq: u64) -> ClientMessage {
        let mut join = JoinRequest {
            meeting_id: admission.meeting_id.clone(),
            join_token: admission.token.clone(),
            participant_name: self.options.name.clone(),
            capabilities: self.options.capabilities.clone(),
            attempt_id: self.attempt.clone(),
            move_ticket,
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

    /// Decides whether a rejected join is final or retried.
    fn refused(&mut self, error: &ErrorMessage) -> Setback {
        let last = || {
            let code = error.code().as_str_name().trim_start_matches("ERROR_CODE_").to_owned();
            Setback::Final(Ending::Refused { code, message: error.message.clone() })
        };
        match error.code() {
            ErrorCode::Unauthorized => {
                // The token may have expired. The join API issues a new one.
                self.unauthorized += 1;
                if self.unauthorized >= limits::UNAUTHORIZED_TRIES { last() } else { again(&error.message) }
            }
            // The controller does not own the meeting: it ended, or it moved and the join API knows where.
            ErrorCode::MeetingEnded if self.proof.is_some() => {
                Setback::Final(Ending::MeetingOver(error.message.clone()))
            }
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

    /// Applies the welcome to the view, settles the request in flight and publishes the event.
    pub(super) async fn welcomed(&mut self, answer: ServerMessage) {
        let Some(Payload::JoinResponse(welcome)) = &answer.payload else { return };
        let JoinResponse { resumed, replay, applied_seq, .. } = *welcome;
        self.proof =
            Some(Proof { correlation: welcome.correlation_id.clone(), token: welcome.binding_token.clone() });
        self.attempt = Id::new(self.options.clock.wall(), &*self.options.entropy).to_string();
        self.done = false;
        self.redirect = None;
        self.frozen = false;
        self.parking.stop();
        self.seq = self.seq.max(applied_seq);
        view::apply(&mut self.shared.view.lock(), &answer);
        if let Some(flying) = self.flying.take() {
            let verdict = if resumed { flying.resumed(applied_seq) } else { flying.rejoined() };
            self.settle(verdict);
        }
        self.shared.state.send_replace(State::Connected);
        self.shared.version.send_modify(|version| *version += 1);
        self.publish_event(Event::Connected { resumed, replay }).await;
    }
}
