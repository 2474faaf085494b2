//! Applies messages to the view.

use tenure_meet_wire::signaling::server_message::Payload;
use tenure_meet_wire::signaling::{JoinResponse, Participant, ServerMessage, Snapshot};

use crate::limits;
use crate::view::{ChatLine, News, Step, View};

/// Applies a message. Events are applied once and in order.
pub fn apply(view: &mut View, message: &ServerMessage) -> Step {
    if message.event_seq > 0 {
        return event(view, message);
    }
    let Some(payload) = &message.payload else { return Step::Nothing };
    match payload {
        Payload::JoinResponse(welcome) => welcomed(view, welcome),
        Payload::Snapshot(part) => roster(view, part),
        Payload::Accepted(_) => Step::Answer(None),
        Payload::Error(error) => Step::Answer(Some(error.clone())),
        Payload::PrepareMove(prepare) => Step::Prepare(prepare.clone()),
        Payload::Frozen(_) => Step::Frozen,
        Payload::Thawed(_) => Step::Thawed,
        Payload::RedirectToMc(redirect) => Step::Redirect(redirect.clone()),
        Payload::UnmuteRequest(ask) => {
            view.asks.insert(ask.participant_id.clone(), ask.clone());
            Step::New(News::UnmuteAsked(ask.clone()))
        }
        Payload::UnmuteResponse(answer) => Step::New(News::UnmuteAnswered(answer.clone())),
        Payload::MuteEnforced(enforced) => Step::New(News::Enforced(enforced.clone())),
        Payload::MediaServersChanged(changed) => {
            view.media_servers.clone_from(&changed.media_servers);
            Step::New(News::MediaServers)
        }
        _ => Step::Nothing,
    }
}

/// The welcome. Without a replay it replaces the whole view.
fn welcomed(view: &mut View, welcome: &JoinResponse) -> Step {
    let (resumed, replay) = (welcome.resumed, welcome.replay);
    view.role = welcome.role();
    view.media_servers.clone_from(&welcome.media_servers);
    // Pending unmute requests are sent again to hosts.
    view.asks.clear();
    view.me.clone_from(&welcome.participant_id);
    if !replay {
        view.people = by_id(&welcome.existing_participants);
        view.missing = welcome.roster_size.saturating_sub(welcome.existing_participants.len() as u32);
        view.event_seq = welcome.event_seq;
        view.durable_seq = welcome.event_seq;
        view.volatile.clear();
    }
    if let Some(own) = &welcome.self_state {
        view.people.insert(own.participant_id.clone(), own.clone());
    }
    Step::Welcome { resumed, replay }
}

fn by_id(people: &[Participant]) -> std::collections::BTreeMap<String, Participant> {
    people.iter().map(|person| (person.participant_id.clone(), person.clone())).collect()
}

/// A part of the roster that did not fit into the welcome.
fn roster(view: &mut View, part: &Snapshot) -> Step {
    for person in &part.participants {
        view.people.insert(person.participant_id.clone(), person.clone());
    }
    view.missing = view.missing.saturating_sub(part.participants.len() as u32);
    Step::Roster
}

fn event(view: &mut View, message: &ServerMessage) -> Step {
    let (seq, durable) = (message.event_seq, message.durable != Some(false));
    if seq <= view.event_seq {
        return repeated(view, message);
    }
    if seq != view.event_seq + 1 {
        return Step::Gap;
    }
    view.event_seq = seq;
    if durable {
        // Events persist in order, so all earlier ones are persisted too.
        view.durable_seq = seq;
        view.volatile.clear();
    } else {
        if view.volatile.len() == limits::VOLATILE {
            view.volatile.pop_front();
        }
        view.volatile.push_back((seq, message.payload.clone()));
    }
    Step::New(happened(view, seq, message.payload.as_ref()))
}

/// An event with the number of an applied one. It must be identical, unless the applied one was not persisted.
fn repeated(view: &mut View, message: &ServerMessage) -> Step {
    let seq = message.event_seq;
    if seq <= view.durable_seq {
        return Step::Repeated;
    }
    let applied = view.volatile.iter().find(|(applied, _)| *applied == seq);
    if applied.is_some_and(|(_, payload)| *payload != message.payload) {
        let durable = view.durable_seq;
        view.lines.retain(|line| line.seq <= durable);
        return Step::Rewritten;
    }
    if message.durable != Some(false) {
        view.durable_seq = seq;
        view.volatile.retain(|(applied, _)| *applied > seq);
    }
    Step::Repeated
}

fn happened(view: &mut View, seq: u64, payload: Option<&Payload>) -> News {
    match payload {
        Some(Payload::ParticipantJoined(joined)) => match &joined.participant {
            Some(person) => {
                view.people.insert(person.participant_id.clone(), person.clone());
                News::Joined(person.clone())
            }
            None => News::Hidden,
        },
        Some(Payload::ParticipantLeft(left)) => {
            view.people.remove(&left.participant_id);
            view.asks.remove(&left.participant_id);
            News::Left { participant_id: left.participant_id.clone(), reason: left.reason() }
        }
        Some(Payload::ParticipantPresence(presence)) => {
            if let Some(person) = view.people.get_mut(&presence.participant_id) {
                person.presence = presence.presence;
            }
            News::Presence(presence.clone())
        }
        Some(Payload::ParticipantMuteUpdate(mute)) => {
            if let Some(person) = view.people.get_mut(&mute.participant_id) {
                person.mute = Some(mute.clone());
            }
            // An unmuted participant has no pending request.
            let over = |ask: &tenure_meet_wire::signaling::UnmuteRequested| {
                !((ask.request_audio && mute.audio_host) || (ask.request_video && mute.video_host))
            };
            if view.asks.get(&mute.participant_id).is_some_and(over) {
                view.asks.remove(&mute.participant_id);
            }
            News::Muted(mute.clone())
        }
        Some(Payload::StreamPublished(published)) => {
            let person = view.people.get_mut(&published.participant_id);
            if let (Some(person), Some(stream)) = (person, &published.stream) {
                person.streams.retain(|known| known.stream_id != stream.stream_id);
                person.streams.push(stream.clone());
            }
            News::Published(published.clone())
        }
        Some(Payload::StreamUnpublished(gone)) => {
            if let Some(person) = view.people.get_mut(&gone.participant_id) {
                person.streams.retain(|known| known.stream_id != gone.stream_id);
            }
            News::Unpublished(gone.clone())
        }
        Some(Payload::ChatMessage(said)) => {
            if view.keep > 0 {
                if view.lines.len() >= view.keep {
                    view.lines.pop_front();
                }
                view.lines.push_back(ChatLine { seq, said: said.clone() });
            }
            News::Chat(said.clone())
        }
        Some(Payload::DataMessage(data)) => News::Data(data.clone()),
        Some(Payload::MeetingEnded(ended)) => {
            view.over = Some(ended.reason.clone());
            News::Ended(ended.reason.clone())
        }
        _ => News::Hidden,
    }
}

#[cfg(test)]
mod tests;
