//! A wish to watch: identify → record → publish.
//!
//! Phase 2, the default: the wish is looked up and, where no live session stands for it, recorded. Phase 1 of the
//! migration: the admission is asked first, and whatever was there before is a conflict.

use std::sync::Arc;

use service::Code;
use session::{
    Admission, Admitted, Created, Error, Found, IdempotencyKey, Kind, Notice, Session, SessionId, Start,
    Ticket, Topic, Version,
};
use tracing::Instrument;

use crate::intents::Done;
use crate::meter::{self, Mode, Outcome};
use crate::site::{Site, bounded};
use crate::trouble::Trouble;
use crate::{ids, limits};

/// Why a start came to nothing, and what it counts as.
struct Failure(Outcome, Trouble);

type Decided = Result<(Outcome, Done), Failure>;

/// How the recording of a session ended.
enum Recorded {
    /// It stands; this write of its mapping is ours.
    Ours(Version),
    /// Another live session stands for the wish.
    Another(Box<Session>),
}

/// Decides a wish and counts what became of it.
pub(crate) async fn start(site: &Arc<Site>, wish: Start) -> Result<Done, Trouble> {
    let mode = if site.ports.admission.is_some() { Mode::Phase1 } else { Mode::Phase2 };
    let decided = match wish.target.kind() {
        Kind::Live if site.options.slots == 0 => {
            let trouble = Trouble::new(Code::ADMISSION_NO_TUNERS, "no tuner slot is configured");
            Err(Failure(Outcome::NoSlots, trouble))
        }
        Kind::Live | Kind::Recording => decide(site, wish).await,
    };
    match decided {
        Ok((outcome, done)) => {
            meter::start(mode, outcome);
            Ok(done)
        }
        Err(Failure(outcome, trouble)) => {
            meter::start(mode, outcome);
            Err(trouble)
        }
    }
}

async fn decide(site: &Arc<Site>, wish: Start) -> Decided {
    let keys = site.options.secrets.candidates(&wish);
    let admission = site.ports.admission.clone();
    // In phase 2 most wishes are repeats, which end here. In phase 1 nothing is looked up before the admission.
    let found = match &admission {
        None => find(site, &keys).await?,
        Some(_) => None,
    };
    if let Some(session) = found.as_ref().and_then(live) {
        return Ok((Outcome::Replay, replay(session)));
    }
    let place = site.starts.clone().try_acquire_owned().map_err(|_| {
        Failure(Outcome::StoreError, Trouble::new(Code::V3_UNAVAILABLE, "too many starts are under way"))
    })?;
    site.room.enter(site).await.map_err(|trouble| Failure(Outcome::SessionsFull, trouble))?;
    let session = fresh(site, wish, &keys).map_err(broken)?;
    let work = {
        let site = site.clone();
        async move {
            let _place = place;
            match admission {
                None => unasked(&site, &session, &keys, found).await,
                Some(admission) => asked(&site, &*admission, session, &keys).await,
            }
        }
    };
    // A client that leaves must not leave half a start behind.
    let done = site.options.tasks.spawn(work.in_current_span()).await;
    done.unwrap_or_else(|error| {
        tracing::error!(%error, "a start ended in the middle");
        Err(Failure(Outcome::StoreError, Trouble::new(Code::INTERNAL, "the start ended in the middle")))
    })
}

/// Phase 2: record, or find who was faster.
async fn unasked(site: &Site, session: &Session, keys: &[IdempotencyKey], found: Option<Found>) -> Decided {
    match record(site, session, keys, found).await.map_err(|error| failed(Outcome::StoreError, error))? {
        Recorded::Another(session) => Ok((Outcome::Replay, replay(&session))),
        Recorded::Ours(version) => match tell(site, session, version).await {
            Told::Yes => Ok((Outcome::Accepted, accepted(session))),
            Told::TakenBack | Told::Unclear => Err(unpublished()),
        },
    }
}

/// Phase 1: ask, then record. What was asked for is given back unless the record with its ticket stands, or may stand.
async fn asked(site: &Site, admission: &dyn Admission, session: Session, keys: &[IdempotencyKey]) -> Decided {
    let admitted = bounded(admission.admit(&session.target, &session.id)).await;
    let ticket = match admitted.map_err(|error| failed(Outcome::LeaseError, error))? {
        Admitted::Yes(ticket) => ticket,
        Admitted::Busy => return Err(conflict()),
    };
    let session = Session { ticket: Some(ticket.clone()), ..session };
    let recorded = match find(site, keys).await {
        Err(failure) => {
            release(admission, &session, &ticket).await;
            return Err(failure);
        }
        Ok(Some(found)) if live(&found).is_some() => {
            release(admission, &session, &ticket).await;
            return Err(conflict());
        }
        Ok(found) => record(site, &session, keys, found).await,
    };
    match recorded {
        Ok(Recorded::Ours(version)) => match tell(site, &session, version).await {
            Told::Yes => Ok((Outcome::Accepted, accepted(&session))),
            Told::TakenBack => {
                release(admission, &session, &ticket).await;
                Err(unpublished())
            }
            Told::Unclear => Err(unpublished()),
        },
        Ok(Recorded::Another(_)) => {
            release(admission, &session, &ticket).await;
            Err(conflict())
        }
        Err(error) => {
            // Where the record may stand, a worker may go on with the ticket: then only time ends it.
            if !matches!(error, Error::Unknown(_)) {
                release(admission, &session, &ticket).await;
            }
            Err(failed(Outcome::StoreError, error))
        }
    }
}

/// Writes record and mapping, over the mapping of a session that is over. Who was faster is looked for again; so is
/// what became of a write without an answer.
async fn record(
    site: &Site,
    session: &Session,
    keys: &[IdempotencyKey],
    mut found: Option<Found>,
) -> session::Result<Recorded> {
    let log = &*site.ports.log;
    let mut unclear = None;
    for _ in 0..limits::ATTEMPTS {
        let over = found.take().filter(|found| found.key == session.idempotency).map(|found| found.version);
        match bounded(log.create(session, over)).await {
            Ok(Created::Created(version)) => return Ok(Recorded::Ours(version)),
            Ok(Created::Taken) => {}
            Err(error @ Error::Unknown(_)) => unclear = Some(error),
            // It did not happen; what was sent before it may have.
            Err(error) => return Err(unclear.unwrap_or(error)),
        }
        found = match bounded(log.find(keys)).await {
            Ok(found) => found,
            // A look changes nothing, whatever became of it.
            Err(error) => return Err(unclear.unwrap_or_else(|| Error::Unavailable(error.to_string()))),
        };
        match found.as_ref().and_then(|found| Some((found.version, found.session.as_ref()?))) {
            Some((version, seen)) if seen.id == session.id => return Ok(Recorded::Ours(version)),
            Some((_, seen)) if !seen.state.is_terminal() => {
                return Ok(Recorded::Another(Box::new(seen.clone())));
            }
            _ => {}
        }
    }
    Err(unclear.unwrap_or_else(|| Error::Unavailable("the wish changes hands too fast".into())))
}

/// Whether the bus knows of a session that was recorded.
enum Told {
    /// It does, or a worker found the session by itself.
    Yes,
    /// It does not, and the session was taken back.
    TakenBack,
    /// It does not, and the session may stand.
    Unclear,
}

async fn tell(site: &Site, session: &Session, version: Version) -> Told {
    let notice = Notice { topic: Topic::Start, session: session.id.clone() };
    let published = bounded(site.ports.bus.publish(&notice)).await;
    meter::published(Topic::Start, published.is_ok());
    let Err(error) = published else { return Told::Yes };
    tracing::warn!(session = %session.id, %error, "a start cannot be published; taking it back");
    match bounded(site.ports.log.withdraw(session, version)).await {
        Ok(true) => Told::TakenBack,
        Ok(false) => Told::Yes,
        Err(error) => {
            tracing::warn!(session = %session.id, %error, "a start may stand though it was not published");
            Told::Unclear
        }
    }
}

/// Gives back what was admitted. What cannot be given back ends with its time.
async fn release(admission: &dyn Admission, session: &Session, ticket: &Ticket) {
    if let Err(error) = bounded(admission.release(&session.target, ticket)).await {
        tracing::warn!(session = %session.id, %error, "an admission cannot be given back; it ends with its time");
    }
}

async fn find(site: &Site, keys: &[IdempotencyKey]) -> Result<Option<Found>, Failure> {
    bounded(site.ports.log.find(keys)).await.map_err(|error| failed(Outcome::StoreError, error))
}

fn fresh(site: &Site, wish: Start, keys: &[IdempotencyKey]) -> session::Result<Session> {
    let now = site.now();
    let id: SessionId = ids::session(now)?;
    let correlation = wish.correlation.map_or_else(|| ids::correlation(now), Ok)?;
    let key = keys.first().ok_or_else(|| Error::Unavailable("there is no key".into()))?;
    Ok(Session::new(id, wish.target, wish.profile, correlation, key.clone(), now))
}

fn live(found: &Found) -> Option<&Session> {
    found.session.as_ref().filter(|session| !session.state.is_terminal())
}

fn accepted(session: &Session) -> Done {
    Done { session: session.id.clone(), replay: false, correlation: session.correlation.clone() }
}

fn replay(session: &Session) -> Done {
    Done { replay: true, ..accepted(session) }
}

fn failed(outcome: Outcome, error: Error) -> Failure {
    Failure(outcome, error.into())
}

fn broken(error: Error) -> Failure {
    failed(Outcome::StoreError, error)
}

fn conflict() -> Failure {
    let mut trouble = Trouble::new(Code::LEASE_BUSY, "the channel is leased");
    trouble.0 = trouble.0.with("retryAfterSeconds", 1);
    Failure(Outcome::Conflict, trouble)
}

fn unpublished() -> Failure {
    let detail = "the start could not be published; send the same intent again";
    Failure(Outcome::PublishError, Trouble::new(Code::SERVICE_UNAVAILABLE, detail))
}
