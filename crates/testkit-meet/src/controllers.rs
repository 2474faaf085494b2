//! Controllers of one process that call each other and their GC directly.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use tenure_meet_mc::SeatTimeouts;
use tenure_meet_mc::actor::{
    Announced, Announcement, Arriving, Controller, Controllers, Destination, DrainNotice, DrainReport,
    GcUnavailable, GlobalController, Resumed,
};
use tenure_meet_wire::MeetingId;

/// A call between controllers that a test lets fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MoveCall {
    /// The announcement of a move.
    Announce,
    /// The report that the meeting is frozen.
    Prepare,
    /// The report that the meeting runs at the target.
    Resumed,
    /// Every call to GC.
    Gc,
}

#[derive(Default)]
struct Shared {
    controllers: Mutex<BTreeMap<String, Controller>>,
    failing: Mutex<BTreeSet<MoveCall>>,
    drained: Mutex<Vec<DrainReport>>,
}

/// The other controllers and GC, as one controller sees them.
#[derive(Clone, Default)]
pub struct LocalControllers {
    mc_id: String,
    shared: Arc<Shared>,
}

impl LocalControllers {
    /// The same controllers, as the controller of this id sees them.
    #[must_use]
    pub fn seen_by(&self, mc_id: &str) -> Self {
        Self { mc_id: mc_id.to_owned(), shared: self.shared.clone() }
    }

    pub(crate) fn add(&self, controller: &Controller) {
        self.shared.controllers.lock().insert(controller.id().to_owned(), controller.clone());
    }

    /// A controller that is gone: calls to it fail.
    pub fn remove(&self, mc_id: &str) {
        self.shared.controllers.lock().remove(mc_id);
    }

    /// Lets calls of this kind fail, or succeed again.
    pub fn set_failing(&self, call: MoveCall, fails: bool) {
        let mut failing = self.shared.failing.lock();
        let _known = if fails { failing.insert(call) } else { failing.remove(&call) };
    }

    /// The reports of finished drains.
    pub fn drained(&self) -> Vec<DrainReport> {
        self.shared.drained.lock().clone()
    }

    /// Where a controller is found.
    pub fn destination(mc_id: &str) -> Destination {
        Destination {
            mc_id: mc_id.to_owned(),
            grpc_endpoint: mc_id.to_owned(),
            webtransport_endpoint: format!("https://{mc_id}/wt/mc"),
            certificates: Vec::new(),
        }
    }

    fn reach(&self, mc_id: &str, call: MoveCall) -> Option<Controller> {
        let up = !self.shared.failing.lock().contains(&call);
        self.shared.controllers.lock().get(mc_id).filter(|_| up).cloned()
    }

    fn gc(&self) -> Result<(), GcUnavailable> {
        let down = self.shared.failing.lock().contains(&MoveCall::Gc);
        if down { Err(GcUnavailable) } else { Ok(()) }
    }

    fn others(&self, excluded: &[String]) -> Vec<Destination> {
        let known: Vec<Controller> = self.shared.controllers.lock().values().cloned().collect();
        let other = known.iter().filter(|other| {
            let id = other.id();
            id != self.mc_id && !other.is_draining() && !excluded.iter().any(|excluded| excluded == id)
        });
        other.map(|other| Self::destination(other.id())).collect()
    }
}

impl Controllers for LocalControllers {
    fn announce(&self, to: &Destination, announcement: Announcement) -> BoxFuture<'static, Option<usize>> {
        let (controller, from) = (self.reach(&to.mc_id, MoveCall::Announce), self.mc_id.clone());
        Box::pin(async move {
            let grace = Duration::from_secs(30);
            let arriving = Arriving {
                meeting: announcement.meeting,
                generation: announcement.generation,
                from_endpoint: from.clone(),
                from_mc: from,
                timeouts: SeatTimeouts { grace, binding_ttl: grace },
            };
            match controller?.announce(arriving).await {
                Announced::Accepted { parked } => Some(parked),
                Announced::Rejected(_) => None,
            }
        })
    }

    fn prepare(
        &self,
        to: &Destination,
        announcement: Announcement,
        last_event: u64,
    ) -> BoxFuture<'static, bool> {
        let controller = self.reach(&to.mc_id, MoveCall::Prepare);
        let Announcement { meeting, generation } = announcement;
        Box::pin(async move {
            match controller {
                Some(controller) => controller.is_prepared(&meeting, generation, last_event).await,
                None => false,
            }
        })
    }

    fn resumed(&self, previous_endpoint: &str, resumed: Resumed) -> BoxFuture<'static, bool> {
        let controller = self.reach(previous_endpoint, MoveCall::Resumed);
        Box::pin(async move {
            let Some(controller) = controller else { return false };
            controller.on_resumed(resumed).await;
            true
        })
    }
}

impl GlobalController for LocalControllers {
    fn meeting_ended(&self, _meeting: &MeetingId, _generation: u64) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn draining(
        &self,
        notice: DrainNotice,
    ) -> BoxFuture<'static, Result<HashMap<MeetingId, Destination>, GcUnavailable>> {
        let others = self.others(&[]);
        let targets = notice.meetings.into_iter().zip(others.into_iter().cycle()).collect();
        Box::pin(std::future::ready(self.gc().map(|()| targets)))
    }

    fn request_target(
        &self,
        _meeting: &MeetingId,
        excluded: &[String],
    ) -> BoxFuture<'static, Result<Option<Destination>, GcUnavailable>> {
        let other = self.others(excluded).into_iter().next();
        Box::pin(std::future::ready(self.gc().map(|()| other)))
    }

    fn drained(&self, report: DrainReport) -> BoxFuture<'static, Result<(), GcUnavailable>> {
        let reported = self.gc().map(|()| self.shared.drained.lock().push(report));
        Box::pin(std::future::ready(reported))
    }
}
