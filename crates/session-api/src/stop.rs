//! Stops a session.

use tenure_session::{CorrelationId, Reason, SessionId, StopRequest};

use crate::error::ApiError;
use crate::intents::IntentOutcome;
use crate::state::{ApiState, bounded};
use crate::telemetry::{self, Mode, Outcome};

const TYPE: &str = "stream.stop";

/// Requests the stop of a session. A repeated request, or one for a session that has ended, is a replay.
pub(crate) async fn stop(
    api: &ApiState,
    id: SessionId,
    correlation: Option<CorrelationId>,
) -> Result<IntentOutcome, ApiError> {
    let failed = |error: tenure_session::Error| {
        telemetry::count_intent(TYPE, Mode::Any, Outcome::StoreError);
        ApiError::from(error)
    };
    let found = bounded(api.ports.log.get(&id)).await.map_err(failed)?;
    let session = found.ok_or_else(|| ApiError::session_not_found(&id))?;
    let replay =
        IntentOutcome { session: id.clone(), replay: true, correlation: session.correlation.clone() };
    if session.state.is_terminal() {
        telemetry::count_intent(TYPE, Mode::Any, Outcome::Replay);
        return Ok(replay);
    }
    let request = StopRequest {
        session: id.clone(),
        reason: Reason::ClientStop,
        correlation: correlation.clone(),
        at: api.now(),
    };
    let first = bounded(api.ports.log.request_stop(&request)).await.map_err(failed)?;
    telemetry::count_stop_event();
    telemetry::count_intent(TYPE, Mode::Any, if first { Outcome::Accepted } else { Outcome::Replay });
    match first {
        true => Ok(IntentOutcome {
            replay: false,
            correlation: correlation.unwrap_or(session.correlation),
            ..replay
        }),
        false => Ok(replay),
    }
}
