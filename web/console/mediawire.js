// Media on the wire: groups of video frames on unidirectional streams, and audio packets in datagrams. The same rules and
// limits as meet-wire's.

export const MAX_FRAME = 1024 * 1024;
export const MAX_GROUP = 8 * 1024 * 1024;
export const MAX_DATAGRAM = 1_150;
const MAX_SPAN_US = 10_000_000;
const MAX_ALIAS = 65_535;
const GROUP = 0x01, AUDIO = 0x02, KEEP_ALIVE = 0x03;
/** The level of silence; lower ones are -dBov. */
export const SILENCE = 127;
/** Codes of reset and stop. */
export const CODE = { UNKNOWN: 0, STALE: 1, MUTED: 2, SUPERSEDED: 3, RENDITION_SWITCHED: 4, TOO_LARGE: 5, NOT_SUBSCRIBED: 6 };

/** What resets or stops a stream with a code. Chromium takes one argument, newer browsers two. */
export function streamError(streamErrorCode) {
  const error = new WebTransportError({ streamErrorCode });
  return error.streamErrorCode === streamErrorCode ? error : new WebTransportError("", { streamErrorCode });
}

/** Why bytes of media are refused. */
export class MediaError extends Error {}

const malformed = (what) => new MediaError(`malformed ${what}`);
const tooLarge = (what) => new MediaError(`${what} exceeds its limit`);
const truncated = () => new MediaError("the stream ended inside a frame");

/** The bytes of a number: a varint of QUIC in its shortest form, up to 2^53 - 1. */
export function varint(value) {
  if (!Number.isSafeInteger(value) || value < 0) throw malformed("number");
  if (value < 0x40) return [value];
  if (value < 0x4000) return [0x40 | (value >> 8), value & 255];
  if (value < 0x40000000) return [0x80 | (value >> 24), (value >> 16) & 255, (value >> 8) & 255, value & 255];
  const [high, low] = [Math.floor(value / 2 ** 32), value % 2 ** 32];
  return [0xc0 | (high >>> 24), (high >> 16) & 255, (high >> 8) & 255, high & 255, low >>> 24, (low >> 16) & 255, (low >> 8) & 255, low & 255];
}

/** Reads numbers from bytes; `number` returns null until one is complete. */
class Numbers {
  constructor(bytes, at = 0) { this.bytes = bytes; this.at = at; }

  number() {
    const first = this.bytes[this.at];
    if (first === undefined) return null;
    const length = 1 << (first >> 6);
    if (this.at + length > this.bytes.length) return null;
    let value = first & 0x3f;
    for (let index = 1; index < length; index++) value = value * 256 + this.bytes[this.at + index];
    if (!Number.isSafeInteger(value)) throw malformed("number");
    this.at += length;
    return value;
  }

  byte() {
    const byte = this.bytes[this.at];
    if (byte === undefined) return null;
    this.at += 1;
    return byte;
  }
}

/** What a group's stream begins with. */
export const groupHeader = ({ alias, rendition, group, timestamp }) =>
  Uint8Array.from([GROUP, alias, rendition, group, timestamp].flatMap(varint));

/** A frame: its header and its payload in one chunk. */
export function groupFrame({ delta, key = false, discardable = false, temporal = 0, payload }) {
  if (payload.length > MAX_FRAME) throw tooLarge("frame");
  const flags = Number(key) | (Number(discardable) << 1) | ((temporal & 3) << 2);
  const head = [...varint(payload.length), ...varint(delta), flags];
  const bytes = new Uint8Array(head.length + payload.length);
  bytes.set(head);
  bytes.set(payload, head.length);
  return bytes;
}

/** Reads a stream frame by frame, and holds it to the limits. An error is final. */
export class GroupReader {
  /** The header, once it was read; of a stream of another type, `unknown` is its type. */
  header = null;
  unknown = null;
  #chunks = []; #length = 0; #total = 0; #first = null;

  /** Adds bytes and returns the frames that are complete, with absolute timestamps. */
  push(bytes) {
    this.#total += bytes.length;
    if (this.#total > MAX_GROUP) throw tooLarge("group");
    if (this.unknown !== null) return [];
    this.#chunks.push(bytes);
    this.#length += bytes.length;
    const frames = [];
    if (!this.header && !this.#readHeader()) return frames;
    for (let frame = this.#readFrame(); frame; frame = this.#readFrame()) frames.push(frame);
    return frames;
  }

  /** Checks that the stream may end here. */
  finish() {
    if (this.unknown === null && (!this.header || this.#length > 0 || this.#first === null)) throw truncated();
  }

  /** All unread bytes in one piece. Joined only when something can be read: a long frame is not copied again and again. */
  #joined() {
    if (this.#chunks.length === 1) return this.#chunks[0];
    const all = new Uint8Array(this.#length);
    let at = 0;
    for (const chunk of this.#chunks) { all.set(chunk, at); at += chunk.length; }
    this.#chunks = [all];
    return all;
  }

  #take(count) {
    const rest = this.#joined().subarray(count);
    this.#chunks = rest.length ? [rest] : [];
    this.#length = rest.length;
  }

  #readHeader() {
    const numbers = new Numbers(this.#joined());
    const kind = numbers.number();
    if (kind === null) return false;
    if (kind !== GROUP) {
      this.unknown = kind;
      this.#chunks = [];
      this.#length = 0;
      return false;
    }
    const [alias, rendition, group, timestamp] = [numbers.number(), numbers.number(), numbers.number(), numbers.number()];
    if (timestamp === null) return false;
    if (alias < 1 || alias > MAX_ALIAS) throw malformed("alias");
    if (rendition > 255) throw malformed("rendition");
    this.header = { alias, rendition, group, timestamp };
    this.#take(numbers.at);
    return true;
  }

  #readFrame() {
    if (this.#needed && this.#length < this.#needed) return null;
    this.#needed = 0;
    if (!this.#length) return null;
    const numbers = new Numbers(this.#joined());
    const length = numbers.number();
    if (length > MAX_FRAME) throw tooLarge("frame");
    const delta = length === null ? null : numbers.number();
    const flags = delta === null ? null : numbers.byte();
    if (flags === null) return null;
    const key = (flags & 1) !== 0;
    if (this.#first === null && !key) throw new MediaError("the group does not begin with a key frame");
    if (delta - (this.#first ?? delta) > MAX_SPAN_US) throw tooLarge("group's time");
    const end = numbers.at + length;
    if (this.#length < end) {
      this.#needed = end;
      return null;
    }
    this.#first ??= delta;
    const payload = this.#joined().slice(numbers.at, end);
    this.#take(end);
    return { timestamp: this.header.timestamp + delta, key, discardable: (flags & 2) !== 0, temporal: (flags >> 2) & 3, payload };
  }

  /** Bytes that the next frame needs with its header, when that is known. */
  #needed = 0;
}

/** An audio packet as a datagram. */
export function audioDatagram({ alias, sequence, timestamp, level, redundant = new Uint8Array(0), payload }) {
  if (level > SILENCE) throw malformed("level");
  const head = [AUDIO, ...varint(alias), ...varint(sequence), ...varint(timestamp), level, ...varint(redundant.length)];
  const length = head.length + redundant.length + payload.length;
  if (length > MAX_DATAGRAM) throw tooLarge("datagram");
  const bytes = new Uint8Array(length);
  bytes.set(head);
  bytes.set(redundant, head.length);
  bytes.set(payload, head.length + redundant.length);
  return bytes;
}

/** Reads a datagram: an audio packet, `{ keepAlive: true }`, or `{ unknown: type }`. */
export function readDatagram(bytes) {
  if (bytes.length > MAX_DATAGRAM) throw tooLarge("datagram");
  if (!bytes.length) throw truncated();
  if (bytes[0] === KEEP_ALIVE) {
    if (bytes.length !== 1) throw malformed("keep-alive");
    return { keepAlive: true };
  }
  if (bytes[0] !== AUDIO) return { unknown: bytes[0] };
  const numbers = new Numbers(bytes, 1);
  const whole = (value) => { if (value === null) throw truncated(); return value; };
  const alias = whole(numbers.number());
  if (alias < 1 || alias > MAX_ALIAS) throw malformed("alias");
  const [sequence, timestamp, level] = [whole(numbers.number()), whole(numbers.number()), whole(numbers.byte())];
  if (level > SILENCE) throw malformed("level");
  const end = whole(numbers.number()) + numbers.at;
  if (end > bytes.length) throw truncated();
  return { alias, sequence, timestamp, level, redundant: bytes.slice(numbers.at, end), payload: bytes.slice(end) };
}
