//! Who speaks: announced to the members of a meeting and reported to its controller.

use std::sync::Arc;

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::internal::MeetingSpeakers;
use tenure_meet_wire::internal::media_coordination_service_client::MediaCoordinationServiceClient;
use tenure_meet_wire::media::message::media_event::Payload;
use tenure_meet_wire::media::message::{SpeakerLevel, Speakers};

use super::meeting::{Meeting, State};
use crate::{limits, metric};

/// What was reported last: its generation and the speakers in their order.
type Report = (u64, Vec<Id>);

impl State {
    /// Announces the speakers to all members if their order changed.
    pub(crate) fn announce_speakers(&mut self, now: Tick) {
        let order = self.selection.order(now);
        let ids: Vec<Id> = order.iter().map(|(id, _)| *id).collect();
        if ids == *self.announced.borrow() {
            return;
        }
        self.announced.send_replace(ids);
        let levels = order
            .into_iter()
            .map(|(id, level)| SpeakerLevel { participant_id: id.to_string(), level: level.into() })
            .collect();
        let speakers = Payload::Speakers(Speakers { levels });
        for member in self.members.values() {
            member.link.tell(speakers.clone(), 0);
        }
    }
}

/// Reports the speakers to the meeting's controller whenever their order changes. One call is in progress at a time, and
/// the next one has what is newest then.
pub(crate) async fn report(meeting: Arc<Meeting>) {
    let (mut announced, mut called) = {
        let state = meeting.state.lock();
        (state.announced.subscribe(), meeting.called.subscribe())
    };
    let clock = meeting.shared.clock.clone();
    let mut reported = None;
    loop {
        let due = meeting.speaker_report(&mut announced, reported.as_ref());
        called.borrow_and_update();
        let Some((endpoint, report)) = due else {
            tokio::select! {
                () = meeting.cancel.cancelled() => return,
                changed = announced.changed() => if changed.is_err() { return },
                // A new owner of the meeting knows no speakers.
                _ = called.changed() => {}
            }
            continue;
        };
        let began = clock.now();
        let sent = tokio::select! {
            () = meeting.cancel.cancelled() => return,
            sent = meeting.send_speakers(&endpoint, &report.1) => sent,
            () = clock.sleep_until(began + limits::SPEAKER_CALL) => false,
        };
        let pause = if sent { limits::SPEAKER_PAUSE } else { limits::SPEAKER_RETRY };
        if sent {
            reported = Some(report);
        }
        tokio::select! {
            () = meeting.cancel.cancelled() => return,
            () = clock.sleep_until(began + pause) => {}
        }
    }
}

impl Meeting {
    /// The report that the controller lacks. A handler whose sessions are all on standby leaves it to the other one.
    fn speaker_report(
        &self,
        announced: &mut tokio::sync::watch::Receiver<Vec<Id>>,
        reported: Option<&Report>,
    ) -> Option<(String, Report)> {
        let state = self.state.lock();
        let report = (state.control.owner.generation, announced.borrow_and_update().clone());
        let serves = state.members.values().any(|member| !member.standby);
        let nothing = reported.is_none() && report.1.is_empty();
        let due = serves && !nothing && reported != Some(&report) && state.control.is_alive(self.now());
        due.then(|| (state.control.owner.mc_endpoint.clone(), report))
    }

    async fn send_speakers(&self, endpoint: &str, speakers: &[Id]) -> bool {
        let Ok(channel) = self.shared.channels.to(endpoint) else { return false };
        let request = MeetingSpeakers {
            meeting_id: self.id.to_string(),
            handler_id: self.shared.id.clone(),
            participant_ids: speakers.iter().map(Id::to_string).collect(),
        };
        match MediaCoordinationServiceClient::new(channel).notify_speakers(request).await {
            Ok(_) => true,
            Err(status) => {
                tracing::debug!(target: metric::TARGET, code = ?status.code(), "speakers not reported");
                false
            }
        }
    }
}
