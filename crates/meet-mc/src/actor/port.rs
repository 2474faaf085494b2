//! What a meeting needs of media handlers.

use futures_util::future::BoxFuture;
use meet_wire::{Id, MeetingId};

use crate::meeting::{Handler, Mutes};

/// A mute to be enforced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MuteOrder {
    /// The meeting.
    pub meeting: MeetingId,
    /// The generation under which it is owned: handlers take no word of an older one.
    pub generation: u64,
    /// Whose.
    pub participant: Id,
    /// The mutes, with their epoch.
    pub mutes: Mutes,
    /// The handlers to tell.
    pub handlers: Vec<Handler>,
}

/// The way to media handlers.
pub trait MediaPort: Send + Sync + 'static {
    /// Tells handlers of a meeting. When none of them takes it: others to be used instead, if there are any.
    fn register(
        &self,
        meeting: &MeetingId,
        generation: u64,
        handlers: &[Handler],
    ) -> BoxFuture<'static, Option<Vec<Handler>>>;

    /// Has a mute enforced, and says which handlers have not acknowledged it.
    fn enforce(&self, order: MuteOrder) -> BoxFuture<'static, Vec<String>>;

    /// Tells handlers that they may forget a meeting.
    fn release(&self, meeting: &MeetingId, generation: u64, handlers: &[Handler]) -> BoxFuture<'static, ()>;
}

/// Who is told what became of meetings.
pub trait Home: Send + Sync + 'static {
    /// A meeting is over, and its lease is given back.
    fn ended(&self, meeting: &MeetingId, generation: u64) -> BoxFuture<'static, ()>;
}

/// Nobody is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHome;

impl Home for NoHome {
    fn ended(&self, _meeting: &MeetingId, _generation: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A port to no handlers: whoever is named has not acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHandlers;

impl MediaPort for NoHandlers {
    fn register(
        &self,
        _meeting: &MeetingId,
        _generation: u64,
        _handlers: &[Handler],
    ) -> BoxFuture<'static, Option<Vec<Handler>>> {
        Box::pin(std::future::ready(None))
    }

    fn enforce(&self, order: MuteOrder) -> BoxFuture<'static, Vec<String>> {
        let missing = order.handlers.into_iter().map(|handler| handler.id).collect();
        Box::pin(std::future::ready(missing))
    }

    fn release(
        &self,
        _meeting: &MeetingId,
        _generation: u64,
        _handlers: &[Handler],
    ) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}
