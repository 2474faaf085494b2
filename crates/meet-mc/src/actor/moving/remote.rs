//! What a move needs of other controllers and of GC.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tenure_meet_wire::MeetingId;

use super::{Destination, DrainReason};

/// The global controller does not answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the global controller is unavailable")]
pub struct GcUnavailable;

/// The begin of a drain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DrainNotice {
    /// The meetings that run here.
    pub meetings: Vec<MeetingId>,
    /// How long the drain may take.
    pub deadline: Duration,
    /// Why.
    pub reason: DrainReason,
}

/// A meeting that moves, with the generation that it leaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Announcement {
    /// The meeting.
    pub meeting: MeetingId,
    /// The generation.
    pub generation: u64,
}

/// A meeting that arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Resumed {
    /// The meeting.
    pub meeting: MeetingId,
    /// The generation under which it is held now.
    pub generation: u64,
    /// The last event that was restored.
    pub last_event: u64,
}

/// Other meeting controllers.
pub trait Controllers: Send + Sync + 'static {
    /// Announces a move; returns how many clients wait at the target, or none if it does not take the meeting.
    fn announce(&self, to: &Destination, announcement: Announcement) -> BoxFuture<'static, Option<usize>>;

    /// Reports that the meeting stopped all changes after `last_event`. Returns whether the target can continue there.
    fn prepare(
        &self,
        to: &Destination,
        announcement: Announcement,
        last_event: u64,
    ) -> BoxFuture<'static, bool>;

    /// Reports to the previous owner that the meeting runs here. Returns whether it got the report.
    fn resumed(&self, previous_endpoint: &str, resumed: Resumed) -> BoxFuture<'static, bool>;
}

/// There are no other controllers.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoControllers;

impl Controllers for NoControllers {
    fn announce(&self, _to: &Destination, _announcement: Announcement) -> BoxFuture<'static, Option<usize>> {
        Box::pin(std::future::ready(None))
    }

    fn prepare(
        &self,
        _to: &Destination,
        _announcement: Announcement,
        _last_event: u64,
    ) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }

    fn resumed(&self, _previous_endpoint: &str, _resumed: Resumed) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }
}
