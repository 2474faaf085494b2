//! Where meetings run, for operators. Everything is read from the store: the lease, the state and the seats.

use serde::Deserialize;
use tenure_lease::{Key, Phase, Prefix, Query, Status};
use tenure_meet_rpc::history::DrainProgress;
use tenure_meet_wire::MeetingId;

use crate::error::ApiError;
use crate::gc::GcState;
use crate::limits;

/// The phase of a meeting, as far as the store shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RunningPhase {
    /// A controller owns it.
    Active,
    /// A controller owns it, and another one waits for its lease.
    Moving,
    /// Its lease was revoked, and cannot be acquired yet.
    Delayed,
    /// No controller owns it.
    Idle,
}

/// A meeting and where it runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct RunningMeeting {
    pub(crate) id: String,
    pub(crate) display_name: String,
    pub(crate) phase: RunningPhase,
    pub(crate) owner: Option<String>,
    pub(crate) generation: Option<u64>,
    pub(crate) since_ms: Option<u64>,
    pub(crate) people: u32,
    pub(crate) connected: u32,
    pub(crate) handlers: Vec<String>,
    pub(crate) closed: bool,
}

/// The fields of a controller's meeting state that operators see.
#[derive(Deserialize, Default)]
#[serde(default)]
struct StateRow {
    handlers: Vec<HandlerRow>,
}

#[derive(Deserialize)]
struct HandlerRow {
    id: String,
    primary: bool,
}

/// The field of a seat that operators see.
#[derive(Deserialize)]
struct SeatRow {
    away_since_us: Option<u64>,
}

fn phase(status: &Status) -> RunningPhase {
    match (status.phase, status.waiters) {
        (Phase::Held, 0) => RunningPhase::Active,
        (Phase::Held, _) | (Phase::Reserved, _) => RunningPhase::Moving,
        (Phase::Delayed, _) => RunningPhase::Delayed,
        (Phase::Free, _) => RunningPhase::Idle,
    }
}

impl GcState {
    /// Reads a page of meetings that a controller owns, and the position of the next page.
    pub(crate) async fn running(
        &self,
        after: Option<&str>,
        limit: Option<usize>,
    ) -> Result<(Vec<RunningMeeting>, Option<String>), ApiError> {
        let (most, limit) = (limits::RUNNING, limit.unwrap_or(limits::RUNNING / 2));
        if !(1..=most).contains(&limit) {
            return Err(ApiError::BadRequest(format!("limit: expected 1 to {most}")));
        }
        let after = after.map(|id| MeetingId::parse(id).ok_or(ApiError::NO_MEETING)).transpose()?;
        let after = after.map(|id| Key::new(format!("meeting:{id}"))).transpose()?;
        let query = Query { after, limit, ..Query::new(Prefix::new("meeting:")?) };
        let page = self.bounded(self.options.store.list(&query)).await?;
        let mut meetings = Vec::new();
        for status in page.items.iter().filter(|status| status.phase != Phase::Free) {
            let Some(id) = meeting_id(&status.key) else { continue };
            meetings.push(self.describe(&id, status).await?);
        }
        Ok((meetings, page.next.as_ref().and_then(meeting_id).map(|id| id.to_string())))
    }

    /// Reads one meeting.
    pub(crate) async fn running_one(&self, id: &str) -> Result<RunningMeeting, ApiError> {
        let meeting = self.by_id(id).await?.meeting.name()?;
        let lease = Key::new(format!("meeting:{meeting}"))?;
        let status = self.bounded(self.options.store.inspect(&lease)).await?;
        self.describe(&meeting, &status).await
    }

    async fn describe(&self, id: &MeetingId, status: &Status) -> Result<RunningMeeting, ApiError> {
        let record = match self.by_id(id.as_str()).await {
            Ok(kept) => Some(kept.meeting),
            // Its record was deleted, or it was made without this API.
            Err(ApiError::NotFound(_)) => None,
            Err(error) => return Err(error),
        };
        let key = Key::new(format!("meeting:{id}:state"))?;
        let state = self.bounded(self.options.store.get(&key)).await?;
        let mut state: StateRow =
            state.and_then(|record| serde_json::from_slice(&record.value).ok()).unwrap_or_default();
        state.handlers.sort_by_key(|handler| !handler.primary);
        let (mut people, mut connected) = (0, 0);
        self.each(&format!("meeting:{id}:seat:"), |_, value| {
            people += 1;
            let row = serde_json::from_slice::<SeatRow>(value);
            connected += u32::from(row.is_ok_and(|row| row.away_since_us.is_none()));
        })
        .await?;
        let owned = status.phase == Phase::Held;
        Ok(RunningMeeting {
            id: id.to_string(),
            display_name: record.as_ref().map(|meeting| meeting.display_name.clone()).unwrap_or_default(),
            phase: phase(status),
            owner: status.holder.as_ref().filter(|_| owned).map(|holder| holder.as_str().to_owned()),
            generation: status.generation.filter(|_| owned).map(|generation| generation.get()),
            since_ms: status.since.filter(|_| owned).map(|since| since.as_millis()),
            people,
            connected,
            handlers: state.handlers.into_iter().map(|handler| handler.id).collect(),
            closed: record.is_some_and(|meeting| meeting.closed_ms.is_some()),
        })
    }

    /// Reads the drains of the last day, the newest first.
    pub(crate) async fn drains(&self) -> Result<Vec<DrainProgress>, ApiError> {
        let mut drains = Vec::new();
        self.each("gc:drain:", |_, value| drains.extend(DrainProgress::read(value))).await?;
        drains.sort_by_key(|drain| std::cmp::Reverse(drain.started_ms));
        Ok(drains)
    }
}

/// The meeting of a lease key.
fn meeting_id(key: &Key) -> Option<MeetingId> {
    MeetingId::parse(key.as_str().strip_prefix("meeting:")?)
}
