//! Records failovers for operators.

use tenure_lease::Tick;
use tenure_meet_rpc::history::{MoveEntry, MoveKind, MoveReason, MoveResult};

use crate::assign::Assignment;
use crate::error::ApiError;
use crate::gc::GcState;
use crate::probe::ReportedController;

impl GcState {
    /// Appends a takeover that began at this time to the last moves. A failure is only logged.
    pub(crate) async fn record_takeover(
        &self,
        meeting_id: &str,
        reported: &ReportedController,
        taken: &Result<Assignment, ApiError>,
        began: Tick,
    ) {
        let duration_ms = self.clock.now().since(began).as_millis() as u64;
        let home = taken.as_ref().ok();
        let entry = MoveEntry {
            meeting_id: meeting_id.to_owned(),
            kind: MoveKind::Failover,
            reason: MoveReason::ControllerLost,
            result: if home.is_some() { MoveResult::Completed } else { MoveResult::Failed },
            from_mc: reported.mc_id.clone(),
            to_mc: home.map(|home| home.mc_id.clone()),
            generation: home.map_or(reported.generation, |home| home.generation),
            started_ms: self.now_ms().saturating_sub(duration_ms),
            duration_ms,
            freeze_ms: None,
        };
        let recorded = match entry.append() {
            Ok(append) => self.bounded(self.options.store.commit(&[append])).await.map(|_| ()),
            Err(error) => Err(error),
        };
        if let Err(error) = recorded {
            tracing::warn!(meeting = meeting_id, %error, "cannot record a failover");
        }
    }
}
