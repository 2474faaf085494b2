// A participant's view of its meeting, and what a message does to it. No network and no clock: the same rules as the Rust client's.

/** Lines of chat that are kept. */
const LINES = 500;
/** Events that were received and may not be durable. */
const VOLATILE = 1_024;

export const nothing = () => ({
  me: "", role: 0, people: {}, missing: 0, seq: 0, durable: 0, asks: {}, lines: [], over: null, volatile: [], known: false, waiting: [], banned: [],
});

/** The event after which a new connection continues. A number that was never used requests the whole state. */
export const resumeFrom = (view) => (view.known && view.missing === 0 ? view.durable : Number.MAX_SAFE_INTEGER);

/** Applies a message and returns what it was: welcome, roster, new, repeated, gap, rewritten, answer, redirect or nothing. */
export function apply(view, message) {
  if (message.event_seq > 0) return event(view, message);
  if (message.join_response) return welcomed(view, message.join_response);
  if (message.snapshot) {
    for (const person of message.snapshot.participants) view.people[person.participant_id] = person;
    view.missing = Math.max(0, view.missing - message.snapshot.participants.length);
    return "roster";
  }
  if (message.accepted || message.error) return "answer";
  if (message.redirect_to_mc) return "redirect";
  if (message.unmute_request) {
    view.asks[message.unmute_request.participant_id] = message.unmute_request;
    return "new";
  }
  if (message.waiting) {
    view.waiting = message.waiting.participants;
    return "new";
  }
  if (message.banned) {
    view.banned = message.banned.users;
    return "new";
  }
  return message.unmute_response || message.mute_enforced || message.media_servers_changed ? "new" : "nothing";
}

function welcomed(view, welcome) {
  Object.assign(view, { role: welcome.role, me: welcome.participant_id, asks: {}, waiting: [], banned: [], known: true });
  if (!welcome.replay) {
    view.people = Object.fromEntries(welcome.existing_participants.map((person) => [person.participant_id, person]));
    view.missing = Math.max(0, welcome.roster_size - welcome.existing_participants.length);
    Object.assign(view, { seq: welcome.event_seq, durable: welcome.event_seq, volatile: [] });
  }
  if (welcome.self_state) view.people[welcome.participant_id] = welcome.self_state;
  return "welcome";
}

function event(view, message) {
  const [seq, durable] = [message.event_seq, message.durable !== false];
  if (seq <= view.seq) return repeated(view, message, durable);
  if (seq !== view.seq + 1) return "gap";
  view.seq = seq;
  if (durable) {
    view.durable = seq;
    view.volatile = [];
  } else {
    view.volatile.push([seq, signature(message)]);
    if (view.volatile.length > VOLATILE) view.volatile.shift();
  }
  happened(view, message);
  return "new";
}

/** What makes an event the same event. */
function signature({ seq: _seq, durable: _durable, ...rest }) { return JSON.stringify(rest); }

function repeated(view, message, durable) {
  const seq = message.event_seq;
  if (seq <= view.durable) return "repeated";
  const received = view.volatile.find(([number]) => number === seq);
  if (received && received[1] !== signature(message)) {
    view.lines = view.lines.filter((line) => line.seq <= view.durable);
    view.known = false;
    return "rewritten";
  }
  if (durable) {
    view.durable = seq;
    view.volatile = view.volatile.filter(([number]) => number > seq);
  }
  return "repeated";
}

function happened(view, message) {
  const person = (id) => view.people[id];
  if (message.participant_joined?.participant) {
    const joined = message.participant_joined.participant;
    view.people[joined.participant_id] = joined;
  } else if (message.participant_left) {
    delete view.people[message.participant_left.participant_id];
    delete view.asks[message.participant_left.participant_id];
  } else if (message.participant_presence) {
    const { participant_id, presence } = message.participant_presence;
    if (person(participant_id)) person(participant_id).presence = presence;
  } else if (message.participant_mute_update) {
    const mute = message.participant_mute_update;
    if (person(mute.participant_id)) person(mute.participant_id).mute = mute;
    const ask = view.asks[mute.participant_id];
    if (ask && !((ask.request_audio && mute.audio_host) || (ask.request_video && mute.video_host))) delete view.asks[mute.participant_id];
  } else if (message.hand) {
    const { participant_id, raised_at } = message.hand;
    if (person(participant_id)) person(participant_id).hand_raised_at = raised_at;
  } else if (message.stream_published?.stream) {
    const { participant_id, stream } = message.stream_published;
    if (person(participant_id)) person(participant_id).streams = [...person(participant_id).streams.filter((known) => known.stream_id !== stream.stream_id), stream];
  } else if (message.stream_unpublished) {
    const { participant_id, stream_id } = message.stream_unpublished;
    if (person(participant_id)) person(participant_id).streams = person(participant_id).streams.filter((known) => known.stream_id !== stream_id);
  } else if (message.chat_message) {
    view.lines.push({ seq: message.event_seq, ...message.chat_message });
    if (view.lines.length > LINES) view.lines.shift();
  } else if (message.meeting_ended) {
    view.over = message.meeting_ended.reason;
  }
}
