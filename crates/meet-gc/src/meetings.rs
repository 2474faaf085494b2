//! Meeting records: `gc:meeting:{id}`, indexed by `gc:code:{code}`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tenure_lease::{Committed, Error, Key, Op, Prefix, Record, Result, Revision};
use tenure_meet_wire::MeetingId;

use crate::error::ApiError;
use crate::gc::GcState;
use crate::limits;

/// The alphabet of codes, without ambiguous characters.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A stored meeting.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Meeting {
    pub(crate) id: String,
    pub(crate) code: String,
    pub(crate) display_name: String,
    pub(crate) max_participants: u32,
    pub(crate) allow_guests: bool,
    /// Whether participants other than hosts wait until a host admits them.
    #[serde(default)]
    pub(crate) waiting_room: bool,
    pub(crate) host_user_id: String,
    #[serde(default)]
    pub(crate) org_id: String,
    pub(crate) created_ms: u64,
    /// Time of the last activity.
    pub(crate) active_ms: u64,
    /// When it was closed. `None` while it is open.
    #[serde(default)]
    pub(crate) closed_ms: Option<u64>,
}

/// A meeting and the revision at which it was read.
#[derive(Clone, Debug)]
pub(crate) struct StoredMeeting {
    pub(crate) meeting: Meeting,
    revision: Revision,
}

impl Meeting {
    fn bytes(&self) -> Result<Arc<[u8]>> {
        let json = serde_json::to_vec(self).map_err(|error| Error::invalid("meeting", error.to_string()))?;
        Ok(Arc::from(json))
    }

    /// Its lease key.
    pub(crate) fn name(&self) -> Result<MeetingId, ApiError> {
        MeetingId::parse(&self.id).ok_or(ApiError::NO_MEETING)
    }
}

impl StoredMeeting {
    fn read(record: &Record) -> Result<Self> {
        let meeting = serde_json::from_slice(&record.value)
            .map_err(|error| Error::invalid("meeting", format!("cannot parse {}: {error}", record.key)))?;
        Ok(Self { meeting, revision: record.revision })
    }
}

/// The key prefix of all meetings.
pub(crate) fn prefix() -> Result<Prefix> {
    Prefix::new("gc:meeting:")
}

fn meeting_key(id: &MeetingId) -> Result<Key> {
    Key::new(format!("gc:meeting:{id}"))
}

fn code_key(code: &str) -> Result<Key> {
    Key::new(format!("gc:code:{code}"))
}

/// Whether the text is a well-formed code.
fn is_code(text: &str) -> bool {
    text.len() == limits::CODE && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

impl GcState {
    /// Generates an unguessable code.
    pub(crate) fn fresh_code(&self) -> String {
        let mut bytes = [0; limits::CODE];
        self.options.entropy.fill(&mut bytes);
        bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
    }

    /// Stores a new meeting under its code. Generates another code if it is taken.
    pub(crate) async fn enter(&self, mut meeting: Meeting) -> Result<Meeting, ApiError> {
        let id = meeting.name()?;
        for _ in 0..limits::WRITES {
            let (key, code) = (meeting_key(&id)?, code_key(&meeting.code)?);
            let ops = [
                Op::PutIfAbsent { key, value: meeting.bytes()?, ttl: None },
                Op::PutIfAbsent { key: code, value: Arc::from(meeting.id.as_bytes()), ttl: None },
            ];
            match self.bounded(self.options.store.commit(&ops)).await {
                Ok(Committed::Written { .. }) => return Ok(meeting),
                Ok(Committed::Conflict { .. } | Committed::FencedOut { .. }) => {
                    meeting.code = self.fresh_code()
                }
                // The write may have taken effect. Then the record exists.
                Err(error @ Error::Unknown { .. }) => match self.by_id(&meeting.id).await {
                    Ok(kept) if kept.meeting == meeting => return Ok(meeting),
                    _ => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Err(ApiError::Unavailable("no free meeting code".to_owned()))
    }

    /// Reads a meeting by id.
    pub(crate) async fn by_id(&self, id: &str) -> Result<StoredMeeting, ApiError> {
        let id = MeetingId::parse(id).ok_or(ApiError::NO_MEETING)?;
        let record = self.bounded(self.options.store.get(&meeting_key(&id)?)).await?;
        Ok(StoredMeeting::read(&record.ok_or(ApiError::NO_MEETING)?)?)
    }

    /// Reads a meeting by code.
    pub(crate) async fn by_code(&self, code: &str) -> Result<StoredMeeting, ApiError> {
        if !is_code(code) {
            return Err(ApiError::NO_MEETING);
        }
        let record = self.bounded(self.options.store.get(&code_key(code)?)).await?;
        let record = record.ok_or(ApiError::NO_MEETING)?;
        let id = std::str::from_utf8(&record.value).map_err(|_| ApiError::NO_MEETING)?;
        let kept = self.by_id(id).await?;
        if kept.meeting.code == code { Ok(kept) } else { Err(ApiError::NO_MEETING) }
    }

    /// Whether a host ended the meeting and no host has joined since. Its controller keeps that record.
    pub(crate) async fn is_ended(&self, meeting: &Meeting) -> Result<bool, ApiError> {
        let key = Key::new(format!("meeting:{}:ended", meeting.id))?;
        Ok(self.bounded(self.options.store.get(&key)).await?.is_some())
    }

    /// Updates a meeting, retrying on concurrent changes.
    pub(crate) async fn change(
        &self,
        mut kept: StoredMeeting,
        change: impl Fn(&mut Meeting),
    ) -> Result<Meeting, ApiError> {
        for _ in 0..limits::WRITES {
            let mut changed = kept.meeting.clone();
            change(&mut changed);
            if changed == kept.meeting {
                return Ok(changed);
            }
            let (key, value) = (meeting_key(&changed.name()?)?, changed.bytes()?);
            let put = Op::PutIfRevision { key, value, ttl: None, revision: kept.revision };
            match self.bounded(self.options.store.commit(&[put])).await? {
                Committed::Written { .. } => return Ok(changed),
                Committed::Conflict { .. } | Committed::FencedOut { .. } => {
                    kept = self.by_id(&changed.id).await?;
                }
            }
        }
        Err(ApiError::Conflict("concurrent changes to the meeting; nothing was written".to_owned()))
    }

    /// Records activity in a meeting, at most every few minutes. Failures are only logged.
    pub(crate) async fn touch(&self, kept: StoredMeeting) {
        let now = self.now_ms();
        let fresh = now.saturating_sub(kept.meeting.active_ms) < limits::TOUCH.as_millis() as u64;
        if fresh && kept.meeting.closed_ms.is_none() {
            return;
        }
        let touched = self.change(kept, |meeting| {
            meeting.active_ms = meeting.active_ms.max(now);
            meeting.closed_ms = None;
        });
        if let Err(error) = touched.await {
            tracing::warn!(?error, "cannot record meeting activity");
        }
    }

    /// Reads a page of meetings.
    pub(crate) async fn page(&self, after: Option<Key>) -> Result<(Vec<StoredMeeting>, Option<Key>)> {
        let query = tenure_lease::Query { after, ..tenure_lease::Query::new(prefix()?) };
        let page = self.bounded(self.options.store.scan(&query)).await?;
        let read = page.items.iter().filter_map(|record| {
            StoredMeeting::read(record)
                .inspect_err(|error| tracing::warn!(%error, "skipping a malformed meeting record"))
                .ok()
        });
        Ok((read.collect(), page.next))
    }

    /// Deletes a meeting unless it changed since it was read.
    pub(crate) async fn forget(&self, kept: &StoredMeeting) -> Result<bool, ApiError> {
        let (key, value) = (meeting_key(&kept.meeting.name()?)?, kept.meeting.bytes()?);
        // One commit cannot write and delete the same key.
        let soon = tenure_lease::Ttl::from_millis(1_000)?;
        let ops = [
            Op::PutIfRevision { key, value, ttl: Some(soon), revision: kept.revision },
            Op::Delete { key: code_key(&kept.meeting.code)? },
        ];
        let committed = self.bounded(self.options.store.commit(&ops)).await?;
        Ok(matches!(committed, Committed::Written { .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_codes_are_looked_up() {
        assert!(is_code("abcdefghijkmn"));
        for bad in ["", "abcdefghijkm", "abcdefghijkmnp", "ABCDEFGHIJKMN", "abcdefghijklm", "abc:efghijkmn"] {
            assert!(!is_code(bad), "{bad}");
        }
    }
}
