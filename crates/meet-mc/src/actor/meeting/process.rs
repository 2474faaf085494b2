//! Processing one input: decide, persist, change the state, publish, run the effects.

use std::time::Duration;

use tenure_lease::Tick;
use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{Accepted, ErrorCode, MediaServersChanged};
use tenure_meet_wire::{CloseCode, Id};

use super::writer::{Durability, PendingEffects};
use super::{Caller, EndReason, JoinReply, MeetingActor, PendingJoin, Requester};
use crate::actor::limits;
use crate::actor::outbox::encode_frame;
use crate::meeting::{Change, Context, DirectMessage, Effect, Effects, Input, Now, Presence, Refusal, apply};
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
        if let Some(participant) = effects.waits {
            return self.keep_waiting(participant, effects, caller);
        }
        match self.writer.persist(&effects).await {
            Ok(()) => {}
            Err(LedgerError::NonceSpent) => {
                // Like any invalid proof: the client gets a new seat.
                let Caller::Joining(mut pending) = caller else { return Ok(()) };
                pending.join.resume = None;
                return Box::pin(self.process_join(Caller::Joining(pending))).await;
            }
            Err(error) if error.ends_ownership() => return Err(EndReason::OwnershipLost),
            Err(error) => {
                tracing::warn!(target: metric::TARGET, meeting = %self.state.id, %error, "meeting update not persisted");
                match input {
                    Input::Timer => self.postpone_deadlines(now.tick),
                    Input::Disconnected { participant, epoch } => self.unrecorded.push((participant, epoch)),
                    _ => {}
                }
                let message = "store unavailable; meeting update not persisted";
                self.refuse(convert::error_payload(ErrorCode::Unavailable, message), caller);
                return Ok(());
            }
        }
        self.record_resume(&input, &effects, now);
        self.layouts.note(&self.state, &effects.changes, now.tick);
        self.state.apply_changes(&effects.changes, now);
        let Effects { write, welcome, then, .. } = effects;
        let requester = match caller {
            Caller::Requester(requester) => Some(requester),
            Caller::Joining(PendingJoin { seq, outbox, reply, .. }) => {
                if let Some(welcome) = &welcome {
                    let seat = &welcome.seat;
                    let servers = self.grants.media_servers(&secrets, &self.state, seat, now.wall);
                    self.connections.admit(&self.state, welcome, servers, (seq, outbox, reply));
                    self.layouts.forget(seat.participant, now.tick);
                }
                // A new owner registers with its first client, also if that client resumes.
                self.handlers.register_once(&self.state, &secrets);
                None
            }
            Caller::None => None,
        };
        match self.writer.complete(PendingEffects { then, requester }, write, now.tick) {
            Some(durability) => self.publish(durability),
            None => Ok(()),
        }
    }

    /// Completes a request whose changes were in doubt and turned out to be persisted. Its caller was answered
    /// `UNAVAILABLE`, so a seat that it took or resumed has no connection.
    pub(super) fn adopt_doubtful(&mut self) -> Result<(), EndReason> {
        let Some(mut effects) = self.writer.take_doubtful() else { return Ok(()) };
        let now = self.now();
        for change in &mut effects.changes {
            let Change::Seat(seat) = change else { continue };
            if seat.presence != Presence::Connected || self.connections.has(seat.participant, seat.epoch) {
                continue;
            }
            let until = now.tick + self.state.settings.grace;
            seat.presence = Presence::Disconnected { since: now.wall, until };
            if let Some(previous) = &mut seat.binding.previous {
                // Its participant may still ask for the lost answer.
                previous.at = now.wall;
            }
        }
        self.layouts.note(&self.state, &effects.changes, now.tick);
        self.state.apply_changes(&effects.changes, now);
        let pending = PendingEffects { then: effects.then, requester: None };
        match self.writer.complete(pending, effects.write, now.tick) {
            Some(durability) => self.publish(durability),
            None => Ok(()),
        }
    }

    /// Processes a join.
    pub(super) async fn process_join(&mut self, caller: Caller) -> Result<(), EndReason> {
        let Caller::Joining(pending) = &caller else { return Ok(()) };
        let input = Input::Join(pending.join.clone());
        self.process(input, caller).await
    }

    /// The join waits for a host: the client and the hosts are notified.
    fn keep_waiting(&mut self, participant: Id, effects: Effects, caller: Caller) -> Result<(), EndReason> {
        let now = self.now();
        self.state.apply_changes(&effects.changes, now);
        if let Caller::Joining(pending) = caller {
            self.waiting.keep(participant, pending);
            self.send_direct(participant, &DirectMessage::WaitingRoom);
        }
        let pending = PendingEffects { then: effects.then, requester: None };
        match self.writer.complete(pending, effects.write, now.tick) {
            Some(durability) => self.publish(durability),
            None => Ok(()),
        }
    }

    /// Processes the joins of participants that a host admitted.
    pub(super) async fn admit_waiting(&mut self) -> Result<(), EndReason> {
        while let Some(participant) = self.admitted.pop_front() {
            let Some(pending) = self.waiting.take(participant) else { continue };
            self.process_join(Caller::Joining(pending)).await?;
            if self.state.waiting.contains_key(&participant) {
                // The join was refused.
                self.process(Input::StoppedWaiting { participant }, Caller::None).await?;
            }
        }
        Ok(())
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
                self.send_direct(*participant, message);
            }
            Effect::AnswerWithMediaServers => {
                if let Some(Requester { participant, seq }) = requester {
                    self.send_media_servers(participant, seq);
                }
            }
            Effect::Admit(participants) => self.admitted.extend(participants),
            Effect::TurnAway { participant } => self.waiting.close(*participant, CloseCode::Kicked),
            Effect::ReleaseParticipant { participant, epoch, reason } => {
                self.handlers.release_participant(&self.state, *participant, *epoch, *reason);
            }
            Effect::Close { participant, epoch, code } => {
                self.connections.close(&self.state, *participant, *epoch, *code);
            }
            Effect::RegisterHandlers => {
                let secrets = self.secrets.read().clone();
                self.handlers.register_once(&self.state, &secrets);
            }
            Effect::EnforceMute { participant, mutes, by } => {
                self.handlers.enforce_mute(&self.state, *participant, mutes, *by);
            }
            Effect::End => return Err(EndReason::Ended),
        }
        Ok(())
    }

    fn send_direct(&mut self, participant: Id, message: &DirectMessage) {
        let payload = convert::direct_to_wire(&self.state, participant, message);
        match self.waiting.seq(participant) {
            Some(seq) => self.waiting.send(participant, encode_frame(Some(payload), seq, 0, None)),
            None => self.connections.send(participant, encode_frame(Some(payload), 0, 0, None)),
        }
    }

    /// Sends a participant its media handlers with new grants; an error if this owner may not act now.
    pub(super) fn send_media_servers(&mut self, participant: Id, seq: u64) {
        let Some(seat) = self.state.seats.get(&participant) else { return };
        let payload = if self.may_act() {
            let secrets = self.secrets.read().clone();
            let wall = self.clock.wall();
            let media_servers = self.grants.media_servers(&secrets, &self.state, seat, wall);
            Payload::MediaServersChanged(MediaServersChanged { media_servers })
        } else {
            convert::error_payload(ErrorCode::Unavailable, "the meeting is paused; no grants are issued")
        };
        self.connections.send(participant, encode_frame(Some(payload), seq, 0, None));
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
            Caller::Joining(PendingJoin { reply, .. }) => {
                let _client_gone = reply.send(JoinReply::Refused(Box::new(payload)));
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
