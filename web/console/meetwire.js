// The protocol of meetings: proto/tenure/meet/signaling/v1/signaling.proto, as far as this page speaks it.
//
// A message is four bytes of big-endian length and protobuf. Fields are [number, type]; a type in brackets is repeated. Numbers are plain
// numbers: what is beyond 2^53 is refused. What is not known here is skipped.

const SCHEMA = {
  ParticipantCapabilities: { video_codecs: [1, ["string"]], audio_codecs: [2, ["string"]], supports_simulcast: [3, "bool"], max_video_streams: [4, "uint"] },
  JoinRequest: {
    meeting_id: [1, "string"], join_token: [2, "string"], participant_name: [3, "string"], capabilities: [4, "ParticipantCapabilities"],
    correlation_id: [5, "string"], binding_token: [6, "string"], last_event_seq: [7, "uint"], attempt_id: [8, "string"],
  },
  JoinResponse: {
    participant_id: [1, "string"], user_id: [2, "string"], existing_participants: [3, ["Participant"]], media_servers: [4, ["MediaServerInfo"]],
    correlation_id: [6, "string"], binding_token: [7, "string"], resumed: [8, "bool"], event_seq: [9, "uint"], applied_seq: [10, "uint"], role: [11, "uint"],
    disconnect_grace_ms: [12, "uint"], replay: [13, "bool"], self_state: [14, "Participant"], roster_size: [15, "uint"],
  },
  MediaServerInfo: { media_handler_url: [1, "string"], certificate_sha256: [3, ["bytes"]], role: [4, "uint"] },
  Participant: {
    participant_id: [1, "string"], name: [2, "string"], streams: [3, ["MediaStream"]], joined_at: [4, "uint"], user_id: [5, "string"], role: [6, "uint"],
    presence: [7, "uint"], mute: [8, "ParticipantMuteUpdate"],
  },
  MediaStream: { stream_id: [1, "uint"], stream_type: [2, "uint"], metadata: [3, "string"] },
  ParticipantJoined: { participant: [1, "Participant"] },
  ParticipantLeft: { participant_id: [1, "string"], reason: [2, "uint"] },
  ParticipantPresence: { participant_id: [1, "string"], presence: [2, "uint"], grace_ms: [3, "uint"] },
  ParticipantMuteUpdate: {
    participant_id: [1, "string"], audio_self: [2, "bool"], video_self: [3, "bool"], audio_host: [4, "bool"], video_host: [5, "bool"],
    host_muted_by: [6, "string"], mute_epoch: [7, "uint"], reason: [8, "string"],
  },
  MuteRequest: { audio_muted: [1, "bool"], video_muted: [2, "bool"] },
  HostMuteRequest: { participant_id: [1, "string"], audio: [2, "bool"], video: [3, "bool"], reason: [4, "string"] },
  MuteEnforced: { participant_id: [1, "string"], mute_epoch: [2, "uint"], enforced: [3, "bool"], missing_handlers: [4, ["string"]] },
  UnmuteRequest: { request_audio: [1, "bool"], request_video: [2, "bool"] },
  UnmuteRequested: { request_audio: [1, "bool"], request_video: [2, "bool"], participant_id: [3, "string"], expires_in_ms: [4, "uint"] },
  UnmuteResponse: { participant_id: [1, "string"], audio_approved: [2, "bool"], video_approved: [3, "bool"] },
  LeaveRequest: {},
  KickRequest: { participant_id: [1, "string"], reason: [2, "string"] },
  EndMeetingRequest: {},
  MeetingEnded: { reason: [1, "string"] },
  ChatRequest: { text: [1, "string"] },
  ChatMessage: { participant_id: [1, "string"], name: [2, "string"], text: [3, "string"], sent_at: [4, "uint"] },
  DataMessage: { participant_id: [1, "string"], topic: [2, "string"], payload: [3, "bytes"], to_participant_ids: [4, ["string"]] },
  StreamPublished: { participant_id: [1, "string"], stream: [2, "MediaStream"] },
  StreamUnpublished: { participant_id: [1, "string"], stream_id: [2, "uint"] },
  RedirectToMc: { new_mc_endpoint: [1, "string"], meeting_id: [2, "string"], reason: [3, "string"], certificate_sha256: [4, ["bytes"]] },
  Frozen: { event_seq: [1, "uint"] },
  Snapshot: { event_seq: [1, "uint"], participants: [2, ["Participant"]], media_servers: [3, ["MediaServerInfo"]] },
  Accepted: {},
  Ping: { nonce: [1, "uint"] },
  Pong: { nonce: [1, "uint"] },
  ErrorMessage: { code: [1, "uint"], message: [2, "string"] },
  MediaServersChanged: { media_servers: [1, ["MediaServerInfo"]] },
  ClientMessage: {
    join_request: [1, "JoinRequest"], mute_request: [7, "MuteRequest"], host_mute_request: [8, "HostMuteRequest"], unmute_request: [9, "UnmuteRequest"],
    unmute_response: [10, "UnmuteResponse"], leave_request: [30, "LeaveRequest"], chat_request: [31, "ChatRequest"], kick_request: [34, "KickRequest"],
    end_meeting_request: [35, "EndMeetingRequest"], ping: [36, "Ping"],
    trace_parent: [20, "string"], trace_state: [21, "string"], seq: [22, "uint"], acknowledged_event_seq: [24, "uint"],
  },
  ServerMessage: {
    join_response: [1, "JoinResponse"], participant_joined: [2, "ParticipantJoined"], participant_left: [3, "ParticipantLeft"],
    stream_published: [4, "StreamPublished"], error: [7, "ErrorMessage"], participant_mute_update: [8, "ParticipantMuteUpdate"],
    unmute_request: [9, "UnmuteRequested"], unmute_response: [10, "UnmuteResponse"], redirect_to_mc: [11, "RedirectToMc"], accepted: [30, "Accepted"],
    participant_presence: [31, "ParticipantPresence"], chat_message: [32, "ChatMessage"], data_message: [33, "DataMessage"],
    stream_unpublished: [34, "StreamUnpublished"], mute_enforced: [35, "MuteEnforced"], meeting_ended: [36, "MeetingEnded"], snapshot: [37, "Snapshot"],
    frozen: [39, "Frozen"], pong: [40, "Pong"], media_servers_changed: [41, "MediaServersChanged"],
    seq: [22, "uint"], event_seq: [23, "uint"], durable: [24, "presence"],
  },
};

/** The longest frame, without its length. */
export const FRAME = 65_536;
export const ROLE = { HOST: 1, PARTICIPANT: 2, GUEST: 3 };
export const PRESENCE = { CONNECTED: 1, DISCONNECTED: 2 };
export const LEFT = ["left", "was removed by a host", "lost the connection", "left: the meeting ended", "did not come back"];
export const ERROR = {
  INVALID_REQUEST: 1, UNAUTHORIZED: 2, FORBIDDEN: 3, NOT_FOUND: 4, CONFLICT: 5, INTERNAL_ERROR: 6, CAPACITY_EXCEEDED: 7, MIGRATING: 9, RATE_LIMITED: 10, UNAVAILABLE: 11,
};
export const CLOSE = { DONE: 0, SUPERSEDED: 4001, FENCED: 4002, DRAINING: 4003, KICKED: 4004, PROTOCOL: 4005, TOO_SLOW: 4006 };

const utf8 = new TextEncoder();
const text = new TextDecoder("utf-8", { fatal: true });
const tables = new Map(Object.entries(SCHEMA).map(([name, fields]) =>
  [name, new Map(Object.entries(fields).map(([field, [number, type]]) => [number, [field, type]]))]));

class Writer {
  bytes = [];
  varint(value) {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`no number of the protocol: ${value}`);
    while (value > 127) {
      this.bytes.push((value % 128) | 128);
      value = Math.floor(value / 128);
    }
    this.bytes.push(value);
  }
  chunk(bytes) {
    this.varint(bytes.length);
    for (const byte of bytes) this.bytes.push(byte);
  }
}

function put(writer, number, type, value) {
  if (Array.isArray(type)) {
    for (const item of value ?? []) write(writer, number, type[0], item);
  } else if (value != null && value !== "" && value !== 0 && value !== false) {
    write(writer, number, type, value);
  }
}

function write(writer, number, type, value) {
  const wire = type === "uint" || type === "bool" ? 0 : 2;
  writer.varint(number * 8 + wire);
  if (type === "uint") writer.varint(value);
  else if (type === "bool") writer.varint(1);
  else if (type === "string") writer.chunk(utf8.encode(value));
  else if (type === "bytes") writer.chunk(value);
  else writer.chunk(encode(type, value));
}

/** A message as bytes; fields that are not in the schema are an error. */
export function encode(name, message) {
  const writer = new Writer();
  for (const field of Object.keys(message)) if (!SCHEMA[name][field]) throw new TypeError(`${name} has no ${field}`);
  for (const [field, [number, type]] of Object.entries(SCHEMA[name])) put(writer, number, type, message[field]);
  return Uint8Array.from(writer.bytes);
}

class Reader {
  constructor(bytes) { this.bytes = bytes; this.at = 0; }
  get more() { return this.at < this.bytes.length; }
  varint() {
    let value = 0, scale = 1;
    for (let count = 0; count < 10; count++) {
      const byte = this.byte();
      value += (byte & 127) * scale;
      if (byte < 128) {
        if (!Number.isSafeInteger(value)) throw new RangeError("a number beyond 2^53");
        return value;
      }
      scale *= 128;
    }
    throw new RangeError("a number without an end");
  }
  byte() {
    if (!this.more) throw new RangeError("cut short");
    return this.bytes[this.at++];
  }
  chunk(length = this.varint()) {
    if (this.at + length > this.bytes.length) throw new RangeError("cut short");
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
  skip(wire) {
    if (wire === 0) while (this.byte() > 127);
    else if (wire === 1) this.chunk(8);
    else if (wire === 2) this.chunk();
    else if (wire === 5) this.chunk(4);
    else throw new RangeError("no such kind of field");
  }
}

function blank(name) {
  const message = {};
  for (const [field, [, type]] of Object.entries(SCHEMA[name])) {
    if (Array.isArray(type)) message[field] = [];
    else if (type === "string") message[field] = "";
    else if (type === "uint") message[field] = 0;
    else if (type === "bool") message[field] = false;
  }
  return message;
}

function read(reader, type) {
  if (type === "uint") return reader.varint();
  if (type === "bool" || type === "presence") return reader.varint() !== 0;
  const chunk = reader.chunk();
  if (type === "string") return text.decode(chunk);
  if (type === "bytes") return chunk.slice();
  return decode(type, chunk);
}

/** A message from bytes: every plain field is there, messages only if they were sent. Throws at what is no such message. */
export function decode(name, bytes) {
  const [message, reader, table] = [blank(name), new Reader(bytes), tables.get(name)];
  while (reader.more) {
    const key = reader.varint();
    const [number, wire] = [Math.floor(key / 8), key % 8];
    const [field, type] = table.get(number) ?? [];
    const plain = Array.isArray(type) ? type[0] : type;
    const expected = plain === "uint" || plain === "bool" || plain === "presence" ? 0 : 2;
    if (!field || wire !== expected) reader.skip(wire);
    else if (Array.isArray(type)) message[field].push(read(reader, plain));
    else message[field] = read(reader, plain);
  }
  return message;
}

/** A message of a client as a frame. */
export function frame(message) {
  const bytes = encode("ClientMessage", message);
  if (!bytes.length || bytes.length > FRAME) throw new RangeError("too long for a frame");
  const framed = new Uint8Array(4 + bytes.length);
  new DataView(framed.buffer).setUint32(0, bytes.length);
  framed.set(bytes, 4);
  return framed;
}

/** What a stream gives, as messages of a server. */
export class Frames {
  kept = new Uint8Array(0);

  /** Takes bytes and gives the messages that are whole with them. Throws at what no server says. */
  push(bytes) {
    const all = new Uint8Array(this.kept.length + bytes.length);
    all.set(this.kept);
    all.set(bytes, this.kept.length);
    const messages = [];
    let at = 0;
    while (all.length - at >= 4) {
      const length = new DataView(all.buffer).getUint32(at);
      if (length === 0 || length > FRAME) throw new RangeError("no frame");
      if (all.length - at < 4 + length) break;
      messages.push(decode("ServerMessage", all.subarray(at + 4, at + 4 + length)));
      at += 4 + length;
    }
    this.kept = all.slice(at);
    return messages;
  }
}
