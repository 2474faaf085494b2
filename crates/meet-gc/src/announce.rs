//! Settings of a meeting that runs.
//!
//! The record is the truth. A controller takes a meeting with the settings of that moment and is told them again when they change. Two who
//! tell at once may be heard in any order, so each of them looks at the record afterwards and tells again if it says something else.

use lease::Key;
use meet_wire::internal::{MhAssignment, MhRole, RejectionReason};
use serde::Deserialize;

use crate::assign::{Home, Owner};
use crate::book::Meeting;
use crate::gc::Site;
use crate::limits;
use crate::trouble::Trouble;

/// What is read of the row that a controller keeps of its meeting.
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

/// Whether a controller that was told one would be told nothing new by the other.
fn same(one: &Meeting, other: &Meeting) -> bool {
    (one.max_participants, one.allow_guests) == (other.max_participants, other.allow_guests)
}

/// What became of telling a controller.
enum Told {
    /// It has them.
    Taken,
    /// Somebody else has the meeting by now.
    Elsewhere,
    /// It may have them, or not.
    Not(String),
}

impl Site {
    /// Has the controller of a meeting, if there is one, take the settings over. One that cannot be told keeps those that it has.
    pub(crate) async fn announce(&self, meeting: &Meeting) {
        let told = tokio::select! {
            biased;
            told = self.tell(meeting.clone()) => told,
            () = self.pause(limits::ANNOUNCE) => {
                Err(Trouble::Unavailable(format!("no answer within {} s", limits::ANNOUNCE.as_secs())))
            }
        };
        if let Err(trouble) = told {
            let meeting = &meeting.id;
            tracing::warn!(
                meeting,
                ?trouble,
                "a running meeting was not told its settings; they hold from its next owner on"
            );
        }
    }

    /// After a meeting was given to somebody: if its record changed meanwhile, whoever changed it found nobody to tell.
    pub(crate) async fn catch_up(&self, given: &Meeting) {
        match self.by_id(&given.id).await {
            Ok(kept) if same(&kept.meeting, given) => {}
            Ok(kept) => self.announce(&kept.meeting).await,
            Err(trouble) => {
                let meeting = &given.id;
                tracing::warn!(
                    meeting,
                    ?trouble,
                    "whether the settings changed during an assignment is not known"
                );
            }
        }
    }

    async fn tell(&self, mut meeting: Meeting) -> Result<(), Trouble> {
        for _ in 0..limits::TRIES {
            // Whoever takes a meeting that nobody has gets the settings with it.
            let Owner::There(home) = self.owner(&meeting.id).await? else { return Ok(()) };
            let Some(handlers) = self.handlers_of(&meeting).await? else { return Ok(()) };
            let told = self.told(&meeting, &home, handlers).await;
            if let Told::Not(why) = told {
                return Err(Trouble::Unavailable(format!("{}: {why}", home.mc_id)));
            }
            let kept = self.by_id(&meeting.id).await?.meeting;
            if matches!(told, Told::Taken) && same(&kept, &meeting) {
                return Ok(());
            }
            meeting = kept;
        }
        Err(Trouble::Unavailable("it changes too often".to_owned()))
    }

    /// The handlers that a meeting has; none while its controller is about to take it or to put it away. Who gave it out then looks at the
    /// record itself.
    async fn handlers_of(&self, meeting: &Meeting) -> Result<Option<Vec<MhAssignment>>, Trouble> {
        let key = Key::new(format!("meeting:{}:state", meeting.id))?;
        let Some(record) = self.bounded(self.options.store.get(&key)).await? else { return Ok(None) };
        let row: StateRow = serde_json::from_slice(&record.value)
            .map_err(|error| lease::Error::invalid("meeting", format!("{key} cannot be read: {error}")))?;
        let handlers = (!row.ended).then_some(row.handlers);
        Ok(handlers.map(|handlers| handlers.into_iter().map(Into::into).collect()))
    }

    async fn told(&self, meeting: &Meeting, home: &Home, handlers: Vec<MhAssignment>) -> Told {
        match self.send(&home.card.grpc_endpoint, self.request(meeting, handlers, false)).await {
            Ok(answer) if answer.accepted => {
                tracing::info!(mc = home.mc_id, meeting = meeting.id, "told its settings");
                Told::Taken
            }
            Ok(answer) => match answer.rejection_reason() {
                RejectionReason::AlreadyOwned => Told::Elsewhere,
                reason => Told::Not(reason.as_str_name().to_owned()),
            },
            Err(status) => Told::Not(status.to_string()),
        }
    }
}
