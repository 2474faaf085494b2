// The codec of the meeting protocol: frames of protobuf messages over a WebTransport stream.
//
// A frame is four bytes of big-endian length and one message. meetschema.js, generated from the .proto file, says what
// the messages are. Integers are plain numbers; one beyond 2^53 is an error. Unknown fields are skipped.

import { MESSAGES } from "./meetschema.js";

export { ErrorCode, LeaveReason, Presence, Role } from "./meetschema.js";

/** The longest message in a frame, in bytes. */
export const MAX_MESSAGE = 65_536;
/** Close codes of a session. */
export const CLOSE = { DONE: 0, SUPERSEDED: 4001, FENCED: 4002, DRAINING: 4003, KICKED: 4004, PROTOCOL: 4005, TOO_SLOW: 4006 };

const VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5;
const WIRE = { uint: VARINT, bool: VARINT, float: FIXED32 };
const wireOf = (type) => WIRE[type] ?? BYTES;

const utf8 = new TextEncoder();
const text = new TextDecoder("utf-8", { fatal: true });
const fieldsByNumber = new Map(Object.entries(MESSAGES).map(([name, fields]) =>
  [name, new Map(Object.entries(fields).map(([field, [number, type, label]]) => [number, [field, type, label]]))]));

class Writer {
  bytes = [];
  varint(value) {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`not an unsigned integer: ${value}`);
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
  float(value) {
    this.bytes.push(...new Uint8Array(Float32Array.of(value).buffer));
  }
}

function writeField(writer, [number, type, label], value) {
  if (label === "repeated") {
    for (const item of value ?? []) writeValue(writer, number, type, item);
  } else if (value != null && (label === "optional" || (value !== "" && value !== 0 && value !== false))) {
    writeValue(writer, number, type, value);
  }
}

function writeValue(writer, number, type, value) {
  writer.varint(number * 8 + wireOf(type));
  if (type === "uint") writer.varint(value);
  else if (type === "bool") writer.varint(value ? 1 : 0);
  else if (type === "float") writer.float(value);
  else if (type === "string") writer.chunk(utf8.encode(value));
  else if (type === "bytes") writer.chunk(value);
  else writer.chunk(encode(type, value));
}

/** Encodes a message; a field that is not in the schema is an error. */
export function encode(name, message) {
  const [writer, schema] = [new Writer(), MESSAGES[name]];
  for (const field of Object.keys(message)) if (!schema[field]) throw new TypeError(`${name} has no field ${field}`);
  for (const [field, definition] of Object.entries(schema)) writeField(writer, definition, message[field]);
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
        if (!Number.isSafeInteger(value)) throw new RangeError("integer beyond 2^53");
        return value;
      }
      scale *= 128;
    }
    throw new RangeError("varint longer than ten bytes");
  }
  byte() {
    if (!this.more) throw new RangeError("truncated message");
    return this.bytes[this.at++];
  }
  chunk(length = this.varint()) {
    if (this.at + length > this.bytes.length) throw new RangeError("truncated message");
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }
  skip(wire) {
    if (wire === VARINT) while (this.byte() > 127);
    else if (wire === FIXED64) this.chunk(8);
    else if (wire === BYTES) this.chunk();
    else if (wire === FIXED32) this.chunk(4);
    else throw new RangeError(`unknown wire type ${wire}`);
  }
}

/** A message with the default values of proto3. Messages and optional fields are absent. */
function defaults(name) {
  const message = {};
  for (const [field, [, type, label]] of Object.entries(MESSAGES[name])) {
    if (label === "repeated") message[field] = [];
    else if (label === "optional") continue;
    else if (type === "string") message[field] = "";
    else if (type === "uint" || type === "float") message[field] = 0;
    else if (type === "bool") message[field] = false;
  }
  return message;
}

function readValue(reader, type) {
  if (type === "uint") return reader.varint();
  if (type === "bool") return reader.varint() !== 0;
  if (type === "float") {
    const bytes = reader.chunk(4);
    return new DataView(bytes.buffer, bytes.byteOffset, 4).getFloat32(0, true);
  }
  const chunk = reader.chunk();
  if (type === "string") return text.decode(chunk);
  if (type === "bytes") return chunk.slice();
  return decode(type, chunk);
}

/** Decodes a message. Throws on bytes that are not a valid message of this name. */
export function decode(name, bytes) {
  const [message, reader, fields] = [defaults(name), new Reader(bytes), fieldsByNumber.get(name)];
  while (reader.more) {
    const key = reader.varint();
    const [number, wire] = [Math.floor(key / 8), key % 8];
    const [field, type, label] = fields.get(number) ?? [];
    if (!field || wire !== wireOf(type)) reader.skip(wire);
    else if (label === "repeated") message[field].push(readValue(reader, type));
    else message[field] = readValue(reader, type);
  }
  return message;
}

/** Encodes a client message as a frame. */
export function frame(message) {
  const bytes = encode("ClientMessage", message);
  if (!bytes.length || bytes.length > MAX_MESSAGE) throw new RangeError("message too long for a frame");
  const framed = new Uint8Array(4 + bytes.length);
  new DataView(framed.buffer).setUint32(0, bytes.length);
  framed.set(bytes, 4);
  return framed;
}

/** Splits the bytes of a stream into server messages. */
export class Frames {
  partial = new Uint8Array(0);

  /** Adds bytes and returns the messages that are complete. Throws on an invalid frame. */
  push(bytes) {
    const all = new Uint8Array(this.partial.length + bytes.length);
    all.set(this.partial);
    all.set(bytes, this.partial.length);
    const messages = [];
    let at = 0;
    while (all.length - at >= 4) {
      const length = new DataView(all.buffer).getUint32(at);
      if (length === 0 || length > MAX_MESSAGE) throw new RangeError(`invalid frame length ${length}`);
      if (all.length - at < 4 + length) break;
      messages.push(decode("ServerMessage", all.subarray(at + 4, at + 4 + length)));
      at += 4 + length;
    }
    this.partial = all.slice(at);
    return messages;
  }
}
