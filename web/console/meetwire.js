// The meeting protocol: messages between a participant and its meeting controller.
import { MESSAGES } from "./meetschema.js";
import { Codec, FrameReader } from "./protobuf.js";

export { ErrorCode, LeaveReason, MediaServerRole, Presence, Role, StreamType } from "./meetschema.js";
export { MESSAGES };

/** Close codes of a session. */
export const CLOSE = { DONE: 0, SUPERSEDED: 4001, FENCED: 4002, DRAINING: 4003, KICKED: 4004, PROTOCOL: 4005, TOO_SLOW: 4006 };

const codec = new Codec(MESSAGES);
export const encode = (name, message) => codec.encode(name, message);
export const decode = (name, bytes) => codec.decode(name, bytes);

/** Encodes a client message as a frame. */
export const frame = (message) => codec.frame("ClientMessage", message);

/** Splits the bytes of a stream into server messages. */
export class Frames extends FrameReader {
  constructor() { super((bytes) => codec.decode("ServerMessage", bytes)); }
}
