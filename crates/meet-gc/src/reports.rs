//! Reports of unreachable controllers.
//!
//! Each user counts once per generation of a meeting, for ten seconds. The members are the users that were connected when the controller
//! was lost: those with a connected seat, and those whose seat was disconnected just now. A dead controller cannot change the seats, and
//! under a live one they are the users that lost it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tenure_lease::{Committed, Key, Op, Prefix, Query, Ttl};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::UnreachableReason;
use tenure_meet_wire::jwt::{GuestClaims, JwtError, MeetingClaims};

use crate::error::ApiError;
use crate::gc::GcState;
use crate::verdict::Tally;
use crate::{limits, metric};

/// A report.
pub(crate) struct Report<'a> {
    pub(crate) meeting_id: &'a str,
    pub(crate) mc_id: &'a str,
    /// The reporter's meeting token.
    pub(crate) token: &'a str,
    pub(crate) reason: UnreachableReason,
    /// The connection is silent but not lost: the report causes a probe and does not count.
    pub(crate) suspect: bool,
}

/// The users of a meeting.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Members {
    /// Those with a seat.
    seated: BTreeSet<String>,
    /// Those that were connected when the controller was lost.
    connected: BTreeSet<String>,
}

impl Members {
    pub(crate) fn have_seat(&self, user: &str) -> bool {
        self.seated.contains(user)
    }
}

/// The fields of a participant record that GC reads.
#[derive(Deserialize)]
struct ParticipantRow {
    user: String,
    #[serde(default)]
    away_since_us: Option<u64>,
}

impl GcState {
    /// The user of a meeting token.
    pub(crate) async fn reporter(&self, meeting_id: &str, token: &str) -> Result<String, ApiError> {
        let keys = &self.options.keys;
        let (user, meeting) = match keys.check::<MeetingClaims>(token).await {
            Ok(claims) => (claims.sub, claims.meeting_id),
            Err(JwtError::Kind) => {
                let claims = keys.check::<GuestClaims>(token).await.map_err(|_| ApiError::InvalidToken)?;
                (claims.sub, claims.meeting_id)
            }
            Err(_) => return Err(ApiError::InvalidToken),
        };
        if meeting == meeting_id { Ok(user) } else { Err(ApiError::InvalidToken) }
    }

    /// The users among the participants.
    pub(crate) async fn members(&self, meeting: &MeetingId) -> Result<Members, ApiError> {
        let recently = self.now_ms().saturating_sub(limits::REPORT.as_millis() as u64) * 1_000;
        let mut members = Members::default();
        self.each(&format!("meeting:{meeting}:seat:"), |_, value| {
            let Ok(row) = serde_json::from_slice::<ParticipantRow>(value) else { return };
            if row.away_since_us.is_none_or(|since| since >= recently) {
                members.connected.insert(row.user.clone());
            }
            members.seated.insert(row.user);
        })
        .await?;
        Ok(members)
    }

    /// Stores the report of one user, unless it is only a suspicion, and counts the reports of members.
    pub(crate) async fn count(
        &self,
        meeting: &MeetingId,
        generation: u64,
        user: &str,
        members: &Members,
        report: &Report<'_>,
    ) -> Result<Tally, ApiError> {
        let prefix = format!("gc:report:{meeting}:{generation}:");
        if !report.suspect {
            let ttl = Some(Ttl::from_millis(limits::REPORT.as_millis() as u64)?);
            let key = Key::new(format!("{prefix}{}", short(user)))?;
            let put = Op::PutIfAbsent { key, value: Arc::from([]), ttl };
            let put = self.bounded(self.options.store.commit(&[put])).await?;
            if matches!(put, Committed::Written { .. }) {
                metric::unreachable(report.reason);
            }
        }
        let current: BTreeSet<String> = members.connected.iter().map(|user| short(user)).collect();
        let mut reports = 0;
        self.each(&prefix, |key, _| {
            reports +=
                u32::from(key.strip_prefix(prefix.as_str()).is_some_and(|user| current.contains(user)));
        })
        .await?;
        let tally = Tally { reports, members: current.len() as u32 };
        tracing::warn!(mc = report.mc_id, %meeting, ?tally, reason = ?report.reason, suspect = report.suspect, "reported");
        Ok(tally)
    }

    /// Visits every record under a prefix.
    pub(crate) async fn each(
        &self,
        prefix: &str,
        mut visit: impl FnMut(&str, &[u8]),
    ) -> Result<(), ApiError> {
        let mut query = Query::new(Prefix::new(prefix)?);
        let mut seen = 0;
        loop {
            let page = self.bounded(self.options.store.scan(&query)).await?;
            page.items.iter().for_each(|record| visit(record.key.as_str(), &record.value));
            seen += page.items.len();
            match page.next {
                Some(next) if seen < limits::SEATS => query.after = Some(next),
                _ => return Ok(()),
            }
        }
    }
}

/// A short form of a user id for keys.
fn short(user: &str) -> String {
    Sha256::digest(user)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
