//! Reports of controllers that cannot be reached.
//!
//! Each user of a meeting counts once. Who sits in it is read from the seats that its controller wrote, those of people who just dropped
//! included: a controller that is gone cannot take them out, and with one that is alive they are those who lost it.

use std::collections::BTreeSet;
use std::sync::Arc;

use lease::{Committed, Op, Prefix, Query, Ttl};
use meet_wire::MeetingId;
use meet_wire::internal::meeting_controller_service_client::MeetingControllerServiceClient;
use meet_wire::internal::{ProbeRequest, UnreachableReason};
use meet_wire::jwt::{GuestClaims, JwtError, MeetingClaims};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::assign::{Home, Owner};
use crate::gc::Site;
use crate::trouble::Trouble;
use crate::{limits, metric};

/// A report.
pub(crate) struct Report<'a> {
    pub(crate) meeting_id: &'a str,
    pub(crate) mc_id: &'a str,
    /// The reporter's meeting token.
    pub(crate) token: &'a str,
    pub(crate) reason: UnreachableReason,
}

/// How far the reports have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tally {
    pub(crate) reports: u32,
    pub(crate) quorum: u32,
}

/// How many of `members` must say so.
pub(crate) fn quorum(members: usize) -> u32 {
    (members / 2 + 1) as u32
}

/// What is read of a seat.
#[derive(Deserialize)]
struct SeatRow {
    user: String,
}

impl Site {
    /// Who shows a token of this meeting.
    async fn member(&self, meeting_id: &str, token: &str) -> Result<String, Trouble> {
        let keys = &self.options.keys;
        let (user, meeting) = match keys.check::<MeetingClaims>(token).await {
            Ok(claims) => (claims.sub, claims.meeting_id),
            Err(JwtError::Kind) => {
                let claims = keys.check::<GuestClaims>(token).await.map_err(|_| Trouble::InvalidToken)?;
                (claims.sub, claims.meeting_id)
            }
            Err(_) => return Err(Trouble::InvalidToken),
        };
        if meeting == meeting_id { Ok(user) } else { Err(Trouble::InvalidToken) }
    }

    /// Takes a report, and probes the controller at the first one.
    pub(crate) async fn unreachable(&self, report: Report<'_>) -> Result<Tally, Trouble> {
        let user = self.member(report.meeting_id, report.token).await?;
        self.admit_report(&user)?;
        let meeting = MeetingId::parse(report.meeting_id).ok_or(Trouble::NO_MEETING)?;
        let Owner::There(home) = self.owner(meeting.as_str()).await? else {
            return Err(Trouble::Conflict("the controller is gone already; join again".to_owned()));
        };
        if home.mc_id != report.mc_id {
            return Err(Trouble::Conflict("another controller has the meeting; join again".to_owned()));
        }
        let members = self.members(&meeting).await?;
        if !members.contains(&user) {
            return Err(Trouble::Forbidden("only who sits in the meeting can report".to_owned()));
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

    /// The users that have a seat.
    async fn members(&self, meeting: &MeetingId) -> Result<BTreeSet<String>, Trouble> {
        let mut members = BTreeSet::new();
        self.each(&format!("meeting:{meeting}:seat:"), |_, value| {
            members.extend(serde_json::from_slice::<SeatRow>(value).map(|seat| seat.user));
        })
        .await?;
        Ok(members)
    }

    /// Puts the report of one user down, and counts those of all that still sit there. Also says whether it is new.
    async fn count(
        &self,
        meeting: &MeetingId,
        home: &Home,
        user: &str,
        members: &BTreeSet<String>,
    ) -> Result<(u32, bool), Trouble> {
        let prefix = format!("gc:report:{meeting}:{}:", home.mc_id);
        let ttl = Some(Ttl::from_millis(limits::REPORT.as_millis() as u64)?);
        let key = lease::Key::new(format!("{prefix}{}", short(user)))?;
        let put = Op::PutIfAbsent { key, value: Arc::from([]), ttl };
        let put = self.bounded(self.options.store.commit(&[put])).await?;
        let new = matches!(put, Committed::Written { .. });
        let sitting: BTreeSet<String> = members.iter().map(|user| short(user)).collect();
        let mut reports = 0;
        self.each(&prefix, |key, _| {
            reports +=
                u32::from(key.strip_prefix(prefix.as_str()).is_some_and(|user| sitting.contains(user)));
        })
        .await?;
        Ok((reports, new))
    }

    /// Looks at every record under a prefix.
    async fn each(&self, prefix: &str, mut look: impl FnMut(&str, &[u8])) -> Result<(), Trouble> {
        let mut query = Query::new(Prefix::new(prefix)?);
        let mut seen = 0;
        loop {
            let page = self.bounded(self.options.store.scan(&query)).await?;
            page.items.iter().for_each(|record| look(record.key.as_str(), &record.value));
            seen += page.items.len();
            match page.next {
                Some(next) if seen < limits::SEATS => query.after = Some(next),
                _ => return Ok(()),
            }
        }
    }

    /// Asks the controller itself. What it finds is counted; nothing is done about it yet.
    async fn probe(&self, meeting: &MeetingId, home: &Home) {
        let Ok(line) = self.options.lines.to(&home.card.grpc_endpoint) else {
            return metric::probed("dead");
        };
        let mut client = MeetingControllerServiceClient::new(line);
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
        tracing::warn!(mc = home.mc_id, meeting = %meeting, result, "a reported controller was probed");
    }
}

/// A user as part of a key.
fn short(user: &str) -> String {
    Sha256::digest(user)[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_half_is_a_quorum_and_nobody_is_outvoted_by_nobody() {
        for (members, needed) in [(0, 1), (1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (100, 51)] {
            assert_eq!(quorum(members), needed, "{members}");
        }
    }
}
