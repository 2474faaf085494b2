//! Enforcement: after a call of the owner, nothing is forwarded that it forbids.

use std::sync::Arc;

use tenure_lease::Tick;
use tenure_meet_wire::Id;
use tenure_meet_wire::internal::MhRejectionReason;
use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::media::message::media_event::Payload;

use super::group::Group;
use super::meeting::{Meeting, State, mute_message};
use super::track::{Kind, TrackKey};
use crate::limits;
use crate::registry::{MuteMask, Registration};

impl Meeting {
    /// Takes a registration of the owner into account.
    pub(crate) async fn register(&self, registration: Registration) -> Result<(), MhRejectionReason> {
        let now = self.now();
        let groups = {
            let mut state = self.state.lock();
            let before: Vec<(Id, Option<MuteMask>)> =
                state.members.keys().map(|id| (*id, state.control.mask(*id))).collect();
            state.control.register(registration, now)?;
            state.last_call = now;
            for (participant, before) in before {
                state.announce_mask(participant, before);
            }
            state.sweep(now)
        };
        self.called.send_modify(|calls| *calls += 1);
        self.drop_unnamed();
        self.unread(groups).await;
        Ok(())
    }

    /// Sets the mask of a participant and returns after nothing more is forwarded that it forbids.
    pub(crate) async fn enforce(
        &self,
        participant: Id,
        mask: MuteMask,
    ) -> Result<u64, (u64, MhRejectionReason)> {
        let now = self.now();
        let (epoch, groups) = {
            let mut state = self.state.lock();
            let before = state.control.mask(participant);
            let epoch = state.control.enforce(participant, mask)?;
            state.last_call = now;
            state.announce_mask(participant, before);
            (epoch, state.sweep(now))
        };
        self.called.send_modify(|calls| *calls += 1);
        if !self.unread(groups).await {
            return Err((epoch, MhRejectionReason::Unspecified));
        }
        Ok(epoch)
    }

    /// Waits until no pump holds one of these groups. `false` if that takes too long.
    async fn unread(&self, groups: Vec<Arc<Group>>) -> bool {
        let clock = &self.shared.clock;
        let all = async {
            for group in groups {
                group.unread().await;
            }
        };
        tokio::select! {
            biased;
            () = all => true,
            () = clock.sleep_until(clock.now() + limits::MUTE) => false,
        }
    }
}

impl State {
    /// Tells a participant that its mask changed, and asks for key frames where it may send again.
    fn announce_mask(&mut self, participant: Id, before: Option<MuteMask>) {
        let (Some(mask), Some(member)) = (self.control.mask(participant), self.members.get(&participant))
        else {
            return;
        };
        if Some(mask) != before {
            member.link.tell(Payload::Mute(mute_message(mask)), 0);
        }
    }

    /// Erases what must not be forwarded any more: groups with the code of a mute, and datagrams that wait. Returns the
    /// groups that may still be read.
    pub(crate) fn sweep(&mut self, now: Tick) -> Vec<Arc<Group>> {
        self.update_receivers(now);
        let published: Vec<(TrackKey, Kind)> = self
            .tracks
            .values()
            .filter_map(|track| Some((track.key.clone(), track.current()?.kind)))
            .collect();
        let mut groups = Vec::new();
        for (key, kind) in published {
            if self.may_forward(&key, kind, now) {
                self.wake_publisher(&key, now);
                continue;
            }
            match kind {
                Kind::Audio => self.silence(key.participant),
                Kind::Video | Kind::Screen => {
                    if let Some(track) = self.tracks.get_mut(&key) {
                        groups.extend(track.erase(StreamCode::Muted));
                    }
                }
            }
        }
        groups
    }

    /// Notes which members may receive, so that a packet need not look it up for each of them.
    pub(crate) fn update_receivers(&mut self, now: Tick) {
        let receivers: Vec<(Id, bool)> = self
            .members
            .keys()
            .map(|participant| (*participant, self.may_receive(*participant, now)))
            .collect();
        for (participant, receives) in receivers {
            let Some(member) = self.members.get_mut(&participant) else { continue };
            if std::mem::replace(&mut member.receives, receives) && !receives {
                member.outbox.clear();
                member.subscriptions.values().for_each(|subscription| subscription.order.wake());
            }
        }
    }

    /// Drops the audio of a participant that waits to be sent.
    fn silence(&mut self, participant: Id) {
        self.selection.remove(participant);
        for member in self.members.values_mut() {
            member.outbox.retain(|(from, _)| *from != participant);
        }
    }

    /// Asks a publisher that may send for the key frames that its subscribers lack.
    fn wake_publisher(&mut self, key: &TrackKey, now: Tick) {
        let Some(track) = self.tracks.get(key) else { return };
        let lacking: Vec<usize> = track
            .publication
            .iter()
            .filter_map(|publication| publication.needed.as_ref())
            .flat_map(|(renditions, _)| renditions.iter().map(|rendition| *rendition as usize))
            .filter(|at| track.renditions.get(*at).is_some_and(|rendition| rendition.newest.is_none()))
            .collect();
        let Some(track) = self.tracks.get_mut(key) else { return };
        for at in lacking {
            if let Some(rendition) = track.renditions.get_mut(at) {
                rendition.requests.want(true, now);
            }
        }
        track.request_keyframes(now);
    }
}
