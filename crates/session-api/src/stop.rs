//! A wish that a session ends.

use session::{CorrelationId, Notice, Reason, SessionId, StopRequest, Topic};

use crate::intents::Done;
use crate::meter::{self, Mode, Outcome};
use crate::site::{Site, bounded};
use crate::trouble::Trouble;
use service::Code;

const WORD: &str = "stream.stop";

/// Asks for the end of a session. What is over or was asked before is a replay.
pub(crate) async fn stop(
    site: &Site,
    id: SessionId,
    correlation: Option<CorrelationId>,
) -> Result<Done, Trouble> {
    let failed = |error: session::Error| {
        meter::intent(WORD, Mode::Any, Outcome::StoreError);
        Trouble::from(error)
    };
    let found = bounded(site.ports.log.get(&id)).await.map_err(failed)?;
    let session = found.ok_or_else(|| Trouble::missing(&id))?;
    let replay = Done { session: id.clone(), replay: true, correlation: session.correlation.clone() };
    if session.state.is_terminal() {
        meter::intent(WORD, Mode::Any, Outcome::Replay);
        return Ok(replay);
    }
    let request = StopRequest {
        session: id.clone(),
        reason: Reason::ClientStop,
        correlation: correlation.clone(),
        at: site.now(),
    };
    let first = bounded(site.ports.log.ask_stop(&request)).await.map_err(failed)?;
    // A repeat wakes the worker once more: the first notice may have been lost.
    let published = bounded(site.ports.bus.publish(&Notice { topic: Topic::Stop, session: id })).await;
    meter::published(Topic::Stop, published.is_ok());
    if let Err(error) = published {
        tracing::warn!(session = %session.id, %error, "a stop is recorded and cannot be published");
        meter::intent(WORD, Mode::Any, Outcome::PublishError);
        let detail = "the stop is recorded and could not be published; send it again";
        return Err(Trouble::new(Code::SERVICE_UNAVAILABLE, detail));
    }
    meter::intent(WORD, Mode::Any, if first { Outcome::Accepted } else { Outcome::Replay });
    match first {
        true => Ok(Done { replay: false, correlation: correlation.unwrap_or(session.correlation), ..replay }),
        false => Ok(replay),
    }
}
