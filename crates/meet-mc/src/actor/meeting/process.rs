//! Processing one input: decide, persist, change the state, publish, run the effects.

use std::time::Duration;

use tenure_lease::Tick;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{Accepted, ErrorCode};

use super::writer::{Durability, PendingEffects};
use super::{Caller, EndReason, MeetingActor, Requester};
use crate::actor::limits;
use crate::actor::outbox::encode_frame;
use crate::meeting::{Context, Effect, Effects, Input, Now, Presence, Refusal, apply};
use crate::{LedgerError, convert, metric};

impl MeetingActor {
    /// Decides, persists, changes the state, publishes.
    pub(super) async fn process(&mut self, input: Input, caller: Caller) -> Result<(), EndReason> {
        let now = self.now();
        let secrets = self.secrets.read().clone();
        let effects = match apply(&self.state, &input, &Context { now, secrets: &secrets }) {
            Ok(effects) => effects,
            // The seat has a newer connection: an answer would reach the wrong one.
            Err(Refusal::NoSeat) => return Ok(()),
            Err(refusal) => {
                self.refuse(convert::refusal_to_wire(&self.state, &refusal), caller);
                return Ok(());
            }
        };
        match self.writer.persist(&effects).await {
            Ok(()) => {}
            Err(LedgerError::NonceSpent) => {
                // Like any invalid proof: the client gets a new seat.
                let Input::Join(mut join) = input else { return Ok(()) };
                join.resume = None;
                return Box::pin(self.process(Input::Join(join), caller)).await;
            }
            Err(error) if error.ends_ownership() => return Err(EndReason::OwnershipLost),
            Err(error) => {
                tracing::warn!(target: metric::TARGET, meeting = %self.state.id, %error, "meeting update not persisted");
                if matches!(input, Input::Timer) {
                    self.postpone_deadlines(now.tick);
                }
                let message = "store unavailable; meeting update not persisted";
                self.refuse(convert::error_payload(ErrorCode::Unavailable, message), caller);
                return Ok(());
            }
        }
        self.record_resume(&input, &effects, now);
        self.state.apply_changes(&effects.changes, now);
        let Effects { write, welcome, then, .. } = effects;
        let requester = match caller {
            Caller::Requester(requester) => Some(requester),
            Caller::Joining { seq, outbox, reply } => {
                if let Some(welcome) = &welcome {
                    self.connections.admit(&self.state, welcome, (seq, outbox, reply));
                }
                // A new owner registers with its first client, also if that client resumes.
                self.handlers.register_once(&self.state);
                None
            }
            Caller::None => None,
        };
        match self.writer.complete(PendingEffects { then, requester }, write, now.tick) {
            Some(durability) => self.publish(durability),
            None => Ok(()),
        }
    }

    /// Publishes new events and runs the pending effects.
    pub(super) fn publish(&mut self, durability: Durability) -> Result<(), EndReason> {
        self.connections.publish(&self.state.log, durability);
        for pending in self.writer.take_pending() {
            for effect in &pending.then {
                self.run_effect(effect, pending.requester, durability)?;
            }
        }
        Ok(())
    }

    fn run_effect(
        &mut self,
        effect: &Effect,
        requester: Option<Requester>,
        durability: Durability,
    ) -> Result<(), EndReason> {
        match effect {
            Effect::Accept => {
                if let Some(Requester { participant, seq }) = requester {
                    let accepted = Some(Payload::Accepted(Accepted {}));
                    self.connections.send(participant, encode_frame(accepted, seq, 0, durability.to_wire()));
                }
            }
            Effect::Send { participant, message } => {
                let payload = convert::direct_to_wire(&self.state, message);
                self.connections.send(*participant, encode_frame(Some(payload), 0, 0, None));
            }
            Effect::Close { participant, epoch, code } => {
                self.connections.close(&self.state, *participant, *epoch, *code);
            }
            Effect::RegisterHandlers => self.handlers.register_once(&self.state),
            Effect::EnforceMute { participant, mutes, by } => {
                self.handlers.enforce_mute(&self.state, *participant, mutes, *by);
            }
            Effect::End => return Err(EndReason::Ended),
        }
        Ok(())
    }

    /// A timer input that could not be persisted is due again later, not at once.
    fn postpone_deadlines(&mut self, now: Tick) {
        for seat in self.state.seats.values_mut() {
            if let Presence::Disconnected { until, .. } = &mut seat.presence {
                *until = (*until).max(now + limits::RETRY);
            }
        }
        if let Some(since) = &mut self.state.empty_since {
            *since = (*since).max(now + limits::RETRY - crate::meeting::limits::EMPTY);
        }
    }

    pub(super) fn refuse(&mut self, payload: Payload, caller: Caller) {
        match caller {
            Caller::Joining { reply, .. } => {
                let _client_gone = reply.send(Err(Box::new(payload)));
            }
            Caller::Requester(Requester { participant, seq }) => {
                self.connections.send(participant, encode_frame(Some(payload), seq, 0, None));
            }
            Caller::None => {}
        }
    }

    /// Counts resumes, and how long the participant was disconnected.
    fn record_resume(&self, input: &Input, effects: &Effects, now: Now) {
        let (Input::Join(join), Some(welcome)) = (input, &effects.welcome) else { return };
        if join.resume.is_none() {
            return;
        }
        metric::resumed(if welcome.resumed { "resumed" } else { "new_seat" });
        let before = self.state.seats.get(&welcome.seat.participant).map(|seat| seat.presence);
        if let (true, Some(Presence::Disconnected { since, .. })) = (welcome.resumed, before) {
            metric::recovered(Duration::from_micros(now.wall.as_micros().saturating_sub(since.as_micros())));
        }
    }
}
