//! Pushes changed settings to the controller of a running meeting.
//!
//! The record is authoritative. A controller receives the current settings with an assignment and again when they change. Concurrent pushes
//! may arrive in any order, so each sender reads the record afterwards and pushes again if it differs.

use serde::Deserialize;
use tenure_lease::Key;
use tenure_meet_wire::internal::{MhAssignment, MhRole, RejectionReason};

use crate::assign::{Assignment, Owner};
use crate::error::ApiError;
use crate::gc::GcState;
use crate::limits;
use crate::meetings::Meeting;

/// The fields of a controller's meeting state that GC reads.
#[derive(Deserialize)]
struct StateRow {
    ended: bool,
    handlers: Vec<HandlerRow>,
}

#[derive(Deserialize)]
struct HandlerRow {
    id: String,
    webtransport_endpoint: String,
    grpc_endpoint: String,
    primary: bool,
    certificates: Vec<Vec<u8>>,
}

impl From<HandlerRow> for MhAssignment {
    fn from(row: HandlerRow) -> Self {
        let role = if row.primary { MhRole::Primary } else { MhRole::Backup };
        Self {
            mh_id: row.id,
            webtransport_endpoint: row.webtransport_endpoint,
            grpc_endpoint: row.grpc_endpoint,
            role: role.into(),
            certificate_sha256: row.certificates.into_iter().map(Into::into).collect(),
            zone: String::new(),
        }
    }
}

/// Whether the two have the same settings for a controller.
fn same(one: &Meeting, other: &Meeting) -> bool {
    (one.max_participants, one.allow_guests, one.waiting_room)
        == (other.max_participants, other.allow_guests, other.waiting_room)
}

/// The outcome of a push.
enum AnnounceOutcome {
    /// The controller applied the settings.
    Taken,
    /// Another controller owns the meeting now.
    Elsewhere,
    /// It is unknown whether the controller applied them.
    Not(String),
}

impl GcState {
    /// Pushes the settings to the controller of a meeting, if it has one. If that fails, the controller keeps its current settings.
    pub(crate) async fn announce(&self, meeting: &Meeting) {
        let outcome = tokio::select! {
            biased;
            outcome = self.push_settings(meeting.clone()) => outcome,
            () = self.pause(limits::ANNOUNCE) => {
                Err(ApiError::Unavailable(format!("no response within {} s", limits::ANNOUNCE.as_secs())))
            }
        };
        if let Err(error) = outcome {
            let meeting = &meeting.id;
            tracing::warn!(
                meeting,
                ?error,
                "cannot push settings to a running meeting; they apply from its next owner on"
            );
        }
    }

    /// After an assignment: pushes the settings if the record changed meanwhile. The change itself found no owner to push to.
    pub(crate) async fn catch_up(&self, given: &Meeting) {
        match self.by_id(&given.id).await {
            Ok(kept) if same(&kept.meeting, given) => {}
            Ok(kept) => self.announce(&kept.meeting).await,
            Err(error) => {
                let meeting = &given.id;
                tracing::warn!(meeting, ?error, "cannot check for settings changed during an assignment");
            }
        }
    }

    async fn push_settings(&self, mut meeting: Meeting) -> Result<(), ApiError> {
        for _ in 0..limits::TRIES {
            // The next owner of an unowned meeting gets the settings with the assignment.
            let Owner::There(home) = self.owner(&meeting.id).await? else { return Ok(()) };
            let Some(handlers) = self.handlers_of(&meeting).await? else { return Ok(()) };
            let outcome = self.push_to(&meeting, &home, handlers).await;
            if let AnnounceOutcome::Not(why) = outcome {
                return Err(ApiError::Unavailable(format!("{}: {why}", home.mc_id)));
            }
            let kept = self.by_id(&meeting.id).await?.meeting;
            if matches!(outcome, AnnounceOutcome::Taken) && same(&kept, &meeting) {
                return Ok(());
            }
            meeting = kept;
        }
        Err(ApiError::Unavailable("the settings change too often".to_owned()))
    }

    /// The handlers of a meeting, or `None` while its controller is taking it over or ending it. The assignment then rereads the
    /// record itself.
    async fn handlers_of(&self, meeting: &Meeting) -> Result<Option<Vec<MhAssignment>>, ApiError> {
        let key = Key::new(format!("meeting:{}:state", meeting.id))?;
        let Some(record) = self.bounded(self.options.store.get(&key)).await? else { return Ok(None) };
        let row: StateRow = serde_json::from_slice(&record.value).map_err(|error| {
            tenure_lease::Error::invalid("meeting", format!("cannot parse {key}: {error}"))
        })?;
        let handlers = (!row.ended).then_some(row.handlers);
        Ok(handlers.map(|handlers| handlers.into_iter().map(Into::into).collect()))
    }

    async fn push_to(
        &self,
        meeting: &Meeting,
        home: &Assignment,
        handlers: Vec<MhAssignment>,
    ) -> AnnounceOutcome {
        match self.send(&home.node_info.grpc_endpoint, self.request(meeting, handlers, false)).await {
            Ok(answer) if answer.accepted => {
                tracing::info!(mc = home.mc_id, meeting = meeting.id, "settings pushed");
                AnnounceOutcome::Taken
            }
            Ok(answer) => match answer.rejection_reason() {
                RejectionReason::AlreadyOwned => AnnounceOutcome::Elsewhere,
                reason => AnnounceOutcome::Not(reason.as_str_name().to_owned()),
            },
            Err(status) => AnnounceOutcome::Not(status.to_string()),
        }
    }
}
