//! The requests of a participant on its control stream.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::message::media_event::Payload;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{Accepted, ClientReport, MediaRequest, Pong};
use tenure_meet_wire::signaling::ErrorCode;

use super::meeting::{Meeting, State};
use super::publish::Refused;
use super::subscribe::PumpStart;

/// The answer to a request, and the pump to start.
type Answer = Result<(Option<Payload>, Option<PumpStart>), Refused>;

const fn accepted() -> Payload {
    Payload::Accepted(Accepted {})
}

impl Meeting {
    /// Performs a request and answers it. Returns the pump to start.
    pub(crate) fn request(self: &Arc<Self>, who: (Id, u64), request: MediaRequest) -> Option<PumpStart> {
        let now = self.now();
        let full = self.shared.load.is_full();
        let mut state = self.state.lock();
        let member = state.member(who.0, who.1)?;
        let link = member.link.clone();
        let seq = request.seq;
        if !member.messages.take(1, now) {
            link.refuse(ErrorCode::RateLimited, "there are too many messages", seq);
            return None;
        }
        let Some(payload) = request.payload else {
            link.refuse(ErrorCode::InvalidRequest, "the request is unknown", seq);
            return None;
        };
        match state.perform(who, payload, full, now) {
            Ok((answer, pump)) => {
                if let Some(answer) = answer {
                    link.tell(answer, seq);
                }
                pump
            }
            Err((code, message)) => {
                link.refuse(code, message, seq);
                None
            }
        }
    }
}

impl State {
    fn perform(&mut self, who: (Id, u64), request: Request, full: bool, now: Tick) -> Answer {
        let done = |done: Result<(), Refused>| done.map(|()| (Some(accepted()), None));
        match request {
            Request::Hello(_) => Err((ErrorCode::InvalidRequest, "Hello was sent before")),
            Request::Publish(publish) => {
                self.publish(who.0, who.1, publish, now).map(|published| (Some(published), None))
            }
            Request::Unpublish(unpublish) => done(self.end_publication(who, unpublish.alias)),
            Request::Subscribe(subscribe) => {
                self.subscribe(who, &subscribe, full, now).map(|(answer, pump)| (Some(answer), pump))
            }
            Request::Change(change) => done(self.change(who, &change, now)),
            Request::Unsubscribe(it) => done(self.end_subscription(who, it.alias)),
            Request::RequestKeyframe(it) => done(self.request_keyframe(who, it.alias, it.rendition, now)),
            Request::Report(report) => {
                self.take_report(who, &report);
                Ok((None, None))
            }
            Request::Activate(_) => {
                self.activate(who, now);
                Ok((Some(accepted()), None))
            }
            Request::Ping(ping) => Ok((Some(Payload::Pong(Pong { nonce: ping.nonce })), None)),
        }
    }

    fn end_publication(&mut self, who: (Id, u64), alias: u32) -> Result<(), Refused> {
        let unknown = (ErrorCode::NotFound, "the alias is not published");
        let alias = u16::try_from(alias).map_err(|_| unknown)?;
        let member = self.member(who.0, who.1).ok_or(unknown)?;
        let key = member.publications.remove(&alias).ok_or(unknown)?;
        self.unpublish(&key, who.1);
        self.end_track(&key, "unpublished");
        self.links.values_mut().for_each(|link| link.end(&key, "unpublished"));
        Ok(())
    }

    /// Media flows from now on.
    fn activate(&mut self, who: (Id, u64), now: Tick) {
        let Some(member) = self.member(who.0, who.1) else { return };
        if !std::mem::take(&mut member.standby) {
            return;
        }
        member.changed.send_modify(|count| *count += 1);
        let keys: Vec<_> = member.subscriptions.values().map(|it| (it.key.clone(), it.share)).collect();
        for subscription in member.subscriptions.values() {
            subscription.order.wake();
        }
        let published: Vec<_> = member.publications.values().cloned().collect();
        for key in published {
            let offer = self.next_offer();
            if let Some(publication) = self.tracks.get_mut(&key).and_then(|track| track.publication.as_mut())
            {
                (publication.standby, publication.offer) = (false, offer);
            }
        }
        for (key, share) in keys {
            self.want_first_keyframe(&key, share, now);
        }
        self.wake_links();
    }

    /// A subscriber that decodes far behind what arrived goes on with the newest group.
    fn take_report(&mut self, who: (Id, u64), report: &ClientReport) {
        let Some(member) = self.members.get_mut(&who.0).filter(|member| member.serial == who.1) else {
            return;
        };
        let rtt = member.link.session.stats().rtt;
        for track in report.tracks.iter().take(crate::limits::SUBSCRIPTIONS) {
            let alias = u16::try_from(track.alias).unwrap_or_default();
            let Some(subscription) = member.subscriptions.get_mut(&alias) else { continue };
            let newest = subscription.current.and_then(|(rendition, _)| {
                let track = self.tracks.get(&subscription.key)?;
                Some(track.renditions.get(usize::from(rendition))?.meter.timestamp_us())
            });
            let behind = newest.unwrap_or_default().saturating_sub(track.timestamp_us);
            if track.timestamp_us > 0 && Duration::from_micros(behind) > subscription.latency + rtt {
                subscription.behind = true;
                subscription.order.wake();
            }
        }
    }
}
