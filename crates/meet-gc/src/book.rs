//! The book of meetings: `gc:meeting:{id}`, found by `gc:code:{code}`.

use std::sync::Arc;

use lease::{Committed, Error, Key, Op, Prefix, Record, Result, Revision};
use meet_wire::MeetingId;
use serde::{Deserialize, Serialize};

use crate::gc::Site;
use crate::limits;
use crate::trouble::Trouble;

/// What codes are made of: nothing that is taken for something else.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// A meeting, as it is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Meeting {
    pub(crate) id: String,
    pub(crate) code: String,
    pub(crate) display_name: String,
    pub(crate) max_participants: u32,
    pub(crate) allow_guests: bool,
    pub(crate) host_user_id: String,
    #[serde(default)]
    pub(crate) org_id: String,
    pub(crate) created_ms: u64,
    /// When something last happened.
    pub(crate) active_ms: u64,
    /// Since when it is closed; none when it is open.
    #[serde(default)]
    pub(crate) closed_ms: Option<u64>,
}

/// A meeting and the revision under which it was read.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    pub(crate) meeting: Meeting,
    revision: Revision,
}

impl Meeting {
    fn bytes(&self) -> Result<Arc<[u8]>> {
        let json = serde_json::to_vec(self).map_err(|error| Error::invalid("meeting", error.to_string()))?;
        Ok(Arc::from(json))
    }

    /// The name under which it has its lease.
    pub(crate) fn name(&self) -> Result<MeetingId, Trouble> {
        MeetingId::parse(&self.id).ok_or(Trouble::NO_MEETING)
    }
}

impl Kept {
    fn read(record: &Record) -> Result<Self> {
        let meeting = serde_json::from_slice(&record.value)
            .map_err(|error| Error::invalid("meeting", format!("{} cannot be read: {error}", record.key)))?;
        Ok(Self { meeting, revision: record.revision })
    }
}

/// Where all meetings are.
pub(crate) fn prefix() -> Result<Prefix> {
    Prefix::new("gc:meeting:")
}

fn meeting_key(id: &MeetingId) -> Result<Key> {
    Key::new(format!("gc:meeting:{id}"))
}

fn code_key(code: &str) -> Result<Key> {
    Key::new(format!("gc:code:{code}"))
}

/// Whether a text can be a code.
fn is_code(text: &str) -> bool {
    text.len() == limits::CODE && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

impl Site {
    /// A code that nobody guesses.
    pub(crate) fn fresh_code(&self) -> String {
        let mut bytes = [0; limits::CODE];
        self.options.entropy.fill(&mut bytes);
        bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte % 32)])).collect()
    }

    /// Keeps a new meeting under its code. The code is another one if somebody has it.
    pub(crate) async fn enter(&self, mut meeting: Meeting) -> Result<Meeting, Trouble> {
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
                // It may have happened: then it is there.
                Err(error @ Error::Unknown { .. }) => match self.by_id(&meeting.id).await {
                    Ok(kept) if kept.meeting == meeting => return Ok(meeting),
                    _ => return Err(error.into()),
                },
                Err(error) => return Err(error.into()),
            }
        }
        Err(Trouble::Unavailable("no code is free".to_owned()))
    }

    /// The meeting with this id.
    pub(crate) async fn by_id(&self, id: &str) -> Result<Kept, Trouble> {
        let id = MeetingId::parse(id).ok_or(Trouble::NO_MEETING)?;
        let record = self.bounded(self.options.store.get(&meeting_key(&id)?)).await?;
        Ok(Kept::read(&record.ok_or(Trouble::NO_MEETING)?)?)
    }

    /// The meeting with this code.
    pub(crate) async fn by_code(&self, code: &str) -> Result<Kept, Trouble> {
        if !is_code(code) {
            return Err(Trouble::NO_MEETING);
        }
        let record = self.bounded(self.options.store.get(&code_key(code)?)).await?;
        let record = record.ok_or(Trouble::NO_MEETING)?;
        let id = std::str::from_utf8(&record.value).map_err(|_| Trouble::NO_MEETING)?;
        let kept = self.by_id(id).await?;
        if kept.meeting.code == code { Ok(kept) } else { Err(Trouble::NO_MEETING) }
    }

    /// Changes a meeting, however often others change it meanwhile.
    pub(crate) async fn change(
        &self,
        mut kept: Kept,
        change: impl Fn(&mut Meeting),
    ) -> Result<Meeting, Trouble> {
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
        Err(Trouble::Conflict("others change the meeting at the same time; nothing was written".to_owned()))
    }

    /// Notes that something happens in a meeting, every few minutes at most. A note that fails costs nobody anything now.
    pub(crate) async fn touch(&self, kept: Kept) {
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
            tracing::warn!(?error, "cannot note that a meeting is used");
        }
    }

    /// Reads a page of meetings.
    pub(crate) async fn page(&self, after: Option<Key>) -> Result<(Vec<Kept>, Option<Key>)> {
        let query = lease::Query { after, ..lease::Query::new(prefix()?) };
        let page = self.bounded(self.options.store.scan(&query)).await?;
        let read = page.items.iter().filter_map(|record| {
            Kept::read(record).inspect_err(|error| tracing::warn!(%error, "a meeting is left out")).ok()
        });
        Ok((read.collect(), page.next))
    }

    /// Forgets a meeting, unless it changed since it was read.
    pub(crate) async fn forget(&self, kept: &Kept) -> Result<bool, Trouble> {
        let (key, value) = (meeting_key(&kept.meeting.name()?)?, kept.meeting.bytes()?);
        // One commit may not write and delete one key: what is left for a second is nothing.
        let soon = lease::Ttl::from_millis(1_000)?;
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
    fn only_what_can_be_a_code_is_looked_for() {
        assert!(is_code("abcdefghijkmn"));
        for bad in ["", "abcdefghijkm", "abcdefghijkmnp", "ABCDEFGHIJKMN", "abcdefghijklm", "abc:efghijkmn"] {
            assert!(!is_code(bad), "{bad}");
        }
    }
}
