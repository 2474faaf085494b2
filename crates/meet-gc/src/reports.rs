//! Reports of unreachable controllers.
//!
//! Each user of a meeting counts once. The members are the participant records of the controller, including recently disconnected ones: a
//! dead controller cannot remove them, and under a live one they are the users that lost it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tenure_lease::{Committed, Op, Prefix, Query, Ttl};
use tenure_meet_wire::MeetingId;
use tenure_meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use tenure_meet_wire::internal::{ProbeRequest, UnreachableReason};
use tenure_meet_wire::jwt::{GuestClaims, JwtError, MeetingClaims};

use crate::assign::{Assignment, Owner};
use crate::error::ApiError;
use crate::gc::GcState;
use crate::{limits, metric};

/// A report.
pub(crate) struct Report<'a> {
    pub(crate) meeting_id: &'a str,
    pub(crate) mc_id: &'a str,
    /// The reporter's meeting token.
    pub(crate) token: &'a str,
    pub(crate) reason: UnreachableReason,
}

/// The current tally.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    pub(crate) reports: u32,
    pub(crate) quorum: u32,
}

/// Reports needed among `members`.
pub(crate) fn quorum(members: usize) -> u32 {
    (members / 2 + 1) as u32
}

/// The fields of a participant record that GC reads.
#[derive(Deserialize)]
struct ParticipantRow {
    user: String,
}

impl GcState {
    /// The user of a meeting token.
    async fn member(&self, meeting_id: &str, token: &str) -> Result<String, ApiError> {
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

    /// Counts a report, and probes the controller on the first one.
    pub(crate) async fn unreachable(&self, report: Report<'_>) -> Result<Tally, ApiError> {
        let user = self.member(report.meeting_id, report.token).await?;
        self.admit_report(&user)?;
        let meeting = MeetingId::parse(report.meeting_id).ok_or(ApiError::NO_MEETING)?;
        let Owner::There(home) = self.owner(meeting.as_str()).await? else {
            return Err(ApiError::Conflict("the controller is gone already; join again".to_owned()));
        };
        if home.mc_id != report.mc_id {
            return Err(ApiError::Conflict("another controller has the meeting; join again".to_owned()));
        }
        let members = self.members(&meeting).await?;
        if !members.contains(&user) {
            return Err(ApiError::Forbidden("only participants of the meeting can report".to_owned()));
        }
        let (reports, new) = self.count(&meeting, &home, &user, &members).await?;
        let tally = Tally { reports, quorum: quorum(members.len()) };
        if new {
            metric::unreachable(report.reason);
            tracing::warn!(mc = home.mc_id, %meeting, ?tally, reason = ?report.reason, "reported");
        }
        if new && reports == 1 {
            self.probe(&meeting, &home).await;
        }
        Ok(tally)
    }

    /// The users among the participants.
    async fn members(&self, meeting: &MeetingId) -> Result<BTreeSet<String>, ApiError> {
        let mut members = BTreeSet::new();
        self.each(&format!("meeting:{meeting}:seat:"), |_, value| {
            members.extend(serde_json::from_slice::<ParticipantRow>(value).map(|row| row.user));
        })
        .await?;
        Ok(members)
    }

    /// Stores the report of one user and counts the reports of current members. Also returns whether it is new.
    async fn count(
        &self,
        meeting: &MeetingId,
        home: &Assignment,
        user: &str,
        members: &BTreeSet<String>,
    ) -> Result<(u32, bool), ApiError> {
        let prefix = format!("gc:report:{meeting}:{}:", home.mc_id);
        let ttl = Some(Ttl::from_millis(limits::REPORT.as_millis() as u64)?);
        let key = tenure_lease::Key::new(format!("{prefix}{}", short(user)))?;
        let put = Op::PutIfAbsent { key, value: Arc::from([]), ttl };
        let put = self.bounded(self.options.store.commit(&[put])).await?;
        let new = matches!(put, Committed::Written { .. });
        let current: BTreeSet<String> = members.iter().map(|user| short(user)).collect();
        let mut reports = 0;
        self.each(&prefix, |key, _| {
            reports +=
                u32::from(key.strip_prefix(prefix.as_str()).is_some_and(|user| current.contains(user)));
        })
        .await?;
        Ok((reports, new))
    }

    /// Visits every record under a prefix.
    async fn each(&self, prefix: &str, mut visit: impl FnMut(&str, &[u8])) -> Result<(), ApiError> {
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

    /// Probes the controller. The result is only counted for now.
    async fn probe(&self, meeting: &MeetingId, home: &Assignment) {
        let Ok(channel) = self.options.channels.to(&home.node_info.grpc_endpoint) else {
            return metric::probed("dead");
        };
        let mut client = MeetingControllerServiceClient::new(channel);
        let late = self.clock.sleep_until(self.clock.now() + limits::PROBE);
        let answer = tokio::select! {
            biased;
            answer = client.probe(ProbeRequest { meeting_id: meeting.as_str().to_owned() }) => answer.ok(),
            () = late => None,
        };
        let result = match answer.map(tonic::Response::into_inner) {
            Some(answer) if answer.owns_meeting => "alive",
            Some(_) => "lost_meeting",
            None => "dead",
        };
        metric::probed(result);
        tracing::warn!(mc = home.mc_id, meeting = %meeting, result, "probed a reported controller");
    }
}

/// A short form of a user id for keys.
fn short(user: &str) -> String {
    Sha256::digest(user)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quorum_is_more_than_half_and_at_least_one() {
        for (members, needed) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (100, 51)] {
            assert_eq!(quorum(members), needed, "{members}");
        }
    }
}
