//! What meetings need of other nodes: media handlers and the global controller.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tenure_meet_wire::internal::ProbeResponse;
use tenure_meet_wire::media::grant::HandlerKeys;
use tenure_meet_wire::{Id, MeetingId};

use crate::actor::moving::{Destination, DrainNotice, DrainReport, GcUnavailable};
use crate::meeting::{HandlerInfo, LeaveReason, MediaRights, Mutes, Seat};

/// A seat as media handlers know it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeatMask {
    /// The participant.
    pub participant: Id,
    /// The user.
    pub user: String,
    /// The epoch of its connection.
    pub epoch: u64,
    /// What its role allows.
    pub rights: MediaRights,
    /// A host muted the microphone.
    pub audio_muted: bool,
    /// A host muted the camera.
    pub video_muted: bool,
    /// The epoch of these mutes.
    pub mute_epoch: u64,
}

impl From<&Seat> for SeatMask {
    fn from(seat: &Seat) -> Self {
        Self {
            participant: seat.participant,
            user: seat.user.clone(),
            epoch: seat.epoch,
            rights: seat.role.media_rights(),
            audio_muted: seat.mutes.audio_host,
            video_muted: seat.mutes.video_host,
            mute_epoch: seat.mutes.epoch,
        }
    }
}

/// A registration of a meeting, or its renewal. It replaces what the handlers know of the meeting's seats.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The meeting.
    pub meeting: MeetingId,
    /// The owner's generation: handlers refuse calls of an older one.
    pub generation: u64,
    /// The handlers, each with the keys of its grants.
    pub handlers: Vec<(HandlerInfo, HandlerKeys)>,
    /// All seats.
    pub seats: Arc<[SeatMask]>,
    /// How often a call that fails is tried.
    pub attempts: usize,
}

/// What a handler answered to a registration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterOutcome {
    /// It serves the meeting.
    Accepted,
    /// It is full or draining.
    Refused,
    /// It knows a newer owner.
    Stale,
    /// It did not answer.
    Failed,
}

/// A mute to be enforced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MuteOrder {
    /// The meeting.
    pub meeting: MeetingId,
    /// The owner's generation.
    pub generation: u64,
    /// The participant.
    pub participant: Id,
    /// The mutes, with their epoch.
    pub mutes: Mutes,
    /// The handlers that must enforce it.
    pub handlers: Vec<HandlerInfo>,
}

/// What a handler answered to a mute order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MuteOutcome {
    /// It enforces this mute, or a later one.
    Enforced,
    /// It does not know the meeting, for example after a restart.
    NotRegistered,
    /// It did not acknowledge the order.
    Failed,
}

/// A participant that left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParticipantRelease {
    /// The meeting.
    pub meeting: MeetingId,
    /// The owner's generation.
    pub generation: u64,
    /// The participant.
    pub participant: Id,
    /// The epoch of its last connection.
    pub epoch: u64,
    /// Why it left.
    pub reason: LeaveReason,
    /// The handlers of the meeting.
    pub handlers: Vec<HandlerInfo>,
}

/// Why a handler is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplaceReason {
    /// It is full or draining.
    Refused,
    /// It cannot be reached.
    Unreachable,
}

/// A request for other handlers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replacement {
    /// The meeting.
    pub meeting: MeetingId,
    /// The handlers to replace.
    pub failed: Vec<String>,
    /// The handlers that stay.
    pub kept: Vec<String>,
    /// Why.
    pub reason: ReplaceReason,
}

/// The media handlers of meetings.
pub trait MediaHandlers: Send + Sync + 'static {
    /// Registers a meeting; returns the outcome of each handler, in order.
    fn register(&self, registration: Registration) -> BoxFuture<'static, Vec<RegisterOutcome>>;

    /// Has a mute enforced; returns the outcome of each handler, in order.
    fn enforce_mute(&self, order: MuteOrder) -> BoxFuture<'static, Vec<MuteOutcome>>;

    /// Has the sessions of a participant ended.
    fn release_participant(&self, release: ParticipantRelease) -> BoxFuture<'static, ()>;

    /// Asks for other handlers; none if there are no others.
    fn replace(&self, replacement: Replacement) -> BoxFuture<'static, Option<Vec<HandlerInfo>>>;

    /// Releases a meeting that ended.
    fn release(
        &self,
        meeting: &MeetingId,
        generation: u64,
        handlers: &[HandlerInfo],
    ) -> BoxFuture<'static, ()>;
}

/// The global controller, as meetings see it.
pub trait GlobalController: Send + Sync + 'static {
    /// Reports that a meeting ended and its lease is released.
    fn meeting_ended(&self, meeting: &MeetingId, generation: u64) -> BoxFuture<'static, ()>;

    /// Probes another meeting controller on its behalf. `None` if that one does not answer in time.
    fn probe_controller(
        &self,
        _grpc_endpoint: &str,
        _meeting_id: &str,
    ) -> BoxFuture<'static, Option<ProbeResponse>> {
        Box::pin(std::future::ready(None))
    }

    /// Reports the begin of a drain; returns targets for the meetings that have one.
    fn draining(
        &self,
        _notice: DrainNotice,
    ) -> BoxFuture<'static, Result<HashMap<MeetingId, Destination>, GcUnavailable>> {
        Box::pin(std::future::ready(Err(GcUnavailable)))
    }

    /// Asks for a target for a meeting; none if no other controller takes it.
    fn request_target(
        &self,
        _meeting: &MeetingId,
        _excluded: &[String],
    ) -> BoxFuture<'static, Result<Option<Destination>, GcUnavailable>> {
        Box::pin(std::future::ready(Err(GcUnavailable)))
    }

    /// Reports the end of a drain.
    fn drained(&self, _report: DrainReport) -> BoxFuture<'static, Result<(), GcUnavailable>> {
        Box::pin(std::future::ready(Err(GcUnavailable)))
    }
}

/// Reports to no global controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGlobalController;

impl GlobalController for NoGlobalController {
    fn meeting_ended(&self, _meeting: &MeetingId, _generation: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Media handlers that answer every call alike: for tests, and where there are none.
#[derive(Clone, Copy, Debug)]
pub struct ScriptedHandlers {
    /// The answer to registrations.
    pub registered: RegisterOutcome,
    /// The answer to mutes.
    pub enforced: MuteOutcome,
}

impl ScriptedHandlers {
    /// Accepts every meeting and every mute.
    pub const ACCEPTING: Self =
        Self { registered: RegisterOutcome::Accepted, enforced: MuteOutcome::Enforced };
    /// Answers nothing.
    pub const SILENT: Self = Self { registered: RegisterOutcome::Failed, enforced: MuteOutcome::Failed };
}

impl MediaHandlers for ScriptedHandlers {
    fn register(&self, registration: Registration) -> BoxFuture<'static, Vec<RegisterOutcome>> {
        Box::pin(std::future::ready(vec![self.registered; registration.handlers.len()]))
    }

    fn enforce_mute(&self, order: MuteOrder) -> BoxFuture<'static, Vec<MuteOutcome>> {
        Box::pin(std::future::ready(vec![self.enforced; order.handlers.len()]))
    }

    fn release_participant(&self, _release: ParticipantRelease) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn replace(&self, _replacement: Replacement) -> BoxFuture<'static, Option<Vec<HandlerInfo>>> {
        Box::pin(std::future::ready(None))
    }

    fn release(
        &self,
        _meeting: &MeetingId,
        _generation: u64,
        _handlers: &[HandlerInfo],
    ) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
