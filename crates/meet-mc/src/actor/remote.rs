//! What meetings need of other nodes: media handlers and the global controller.

use futures_util::future::BoxFuture;
use tenure_meet_wire::{Id, MeetingId};

use crate::meeting::{HandlerInfo, Mutes};

/// A mute to be enforced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MuteOrder {
    /// The meeting.
    pub meeting: MeetingId,
    /// The owner's generation: handlers refuse orders of an older one.
    pub generation: u64,
    /// The participant.
    pub participant: Id,
    /// The mutes, with their epoch.
    pub mutes: Mutes,
    /// The handlers that must enforce it.
    pub handlers: Vec<HandlerInfo>,
}

/// The media handlers of meetings.
pub trait MediaHandlers: Send + Sync + 'static {
    /// Registers a meeting. If no handler accepts it: replacements, if there are any.
    fn register(
        &self,
        meeting: &MeetingId,
        generation: u64,
        handlers: &[HandlerInfo],
    ) -> BoxFuture<'static, Option<Vec<HandlerInfo>>>;

    /// Has a mute enforced; returns the handlers that did not acknowledge it.
    fn enforce_mute(&self, order: MuteOrder) -> BoxFuture<'static, Vec<String>>;

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
}

/// Reports to no global controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGlobalController;

impl GlobalController for NoGlobalController {
    fn meeting_ended(&self, _meeting: &MeetingId, _generation: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Reaches no handler: none acknowledges a mute.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoMediaHandlers;

impl MediaHandlers for NoMediaHandlers {
    fn register(
        &self,
        _meeting: &MeetingId,
        _generation: u64,
        _handlers: &[HandlerInfo],
    ) -> BoxFuture<'static, Option<Vec<HandlerInfo>>> {
        Box::pin(std::future::ready(None))
    }

    fn enforce_mute(&self, order: MuteOrder) -> BoxFuture<'static, Vec<String>> {
        let missing = order.handlers.into_iter().map(|handler| handler.id).collect();
        Box::pin(std::future::ready(missing))
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
