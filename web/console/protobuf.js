// The codec of protobuf messages and of the frames that carry them over a stream.
//
// A schema, generated from a .proto file, says what the messages are. Integers are plain numbers; one beyond 2^53 is an
// error. Unknown fields are skipped. A frame is four bytes of big-endian length and one message.

/** The longest message in a frame, in bytes. */
export const MAX_MESSAGE = 65_536;

const VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5;
const WIRE = { uint: VARINT, bool: VARINT, float: FIXED32 };
const wireOf = (type) => WIRE[type] ?? BYTES;

const utf8 = new TextEncoder();
const text = new TextDecoder("utf-8", { fatal: true });

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

/** Encodes and decodes the messages of one schema. */
export class Codec {
  constructor(messages) {
    this.messages = messages;
    this.fields = new Map(Object.entries(messages).map(([name, fields]) =>
      [name, new Map(Object.entries(fields).map(([field, [number, type, label]]) => [number, [field, type, label]]))]));
  }

  /** Encodes a message; a field that is not in the schema is an error. */
  encode(name, message) {
    const [writer, schema] = [new Writer(), this.messages[name]];
    for (const field of Object.keys(message)) if (!schema[field]) throw new TypeError(`${name} has no field ${field}`);
    for (const [field, definition] of Object.entries(schema)) this.writeField(writer, definition, message[field]);
    return Uint8Array.from(writer.bytes);
  }

  writeField(writer, [number, type, label], value) {
    if (label === "repeated") {
      for (const item of value ?? []) this.writeValue(writer, number, type, item);
    } else if (value != null && (label === "optional" || (value !== "" && value !== 0 && value !== false))) {
      this.writeValue(writer, number, type, value);
    }
  }

  writeValue(writer, number, type, value) {
    writer.varint(number * 8 + wireOf(type));
    if (type === "uint") writer.varint(value);
    else if (type === "bool") writer.varint(value ? 1 : 0);
    else if (type === "float") writer.float(value);
    else if (type === "string") writer.chunk(utf8.encode(value));
    else if (type === "bytes") writer.chunk(value);
    else writer.chunk(this.encode(type, value));
  }

  /** Decodes a message. Throws on bytes that are not a valid message of this name. */
  decode(name, bytes) {
    const [message, reader, fields] = [this.defaults(name), new Reader(bytes), this.fields.get(name)];
    while (reader.more) {
      const key = reader.varint();
      const [number, wire] = [Math.floor(key / 8), key % 8];
      const [field, type, label] = fields.get(number) ?? [];
      if (field && label === "repeated" && wire === BYTES && wireOf(type) === VARINT) this.readPacked(reader, type, message[field]);
      else if (!field || wire !== wireOf(type)) reader.skip(wire);
      else if (label === "repeated") message[field].push(this.readValue(reader, type));
      else message[field] = this.readValue(reader, type);
    }
    return message;
  }

  /** Numbers of a repeated field come in one chunk. */
  readPacked(reader, type, into) {
    const packed = new Reader(reader.chunk());
    while (packed.more) into.push(this.readValue(packed, type));
  }

  /** A message with the default values of proto3. Messages and optional fields are absent. */
  defaults(name) {
    const message = {};
    for (const [field, [, type, label]] of Object.entries(this.messages[name])) {
      if (label === "repeated") message[field] = [];
      else if (label === "optional") continue;
      else if (type === "string") message[field] = "";
      else if (type === "uint" || type === "float") message[field] = 0;
      else if (type === "bool") message[field] = false;
    }
    return message;
  }

  readValue(reader, type) {
    if (type === "uint") return reader.varint();
    if (type === "bool") return reader.varint() !== 0;
    if (type === "float") {
      const bytes = reader.chunk(4);
      return new DataView(bytes.buffer, bytes.byteOffset, 4).getFloat32(0, true);
    }
    const chunk = reader.chunk();
    if (type === "string") return text.decode(chunk);
    if (type === "bytes") return chunk.slice();
    return this.decode(type, chunk);
  }

  /** Encodes a message as a frame. */
  frame(name, message) {
    const bytes = this.encode(name, message);
    if (!bytes.length || bytes.length > MAX_MESSAGE) throw new RangeError("message too long for a frame");
    const framed = new Uint8Array(4 + bytes.length);
    new DataView(framed.buffer).setUint32(0, bytes.length);
    framed.set(bytes, 4);
    return framed;
  }
}

/** Splits the bytes of a stream into messages. */
export class FrameReader {
  partial = new Uint8Array(0);

  /** `decode` reads the bytes of one message. */
  constructor(decode) { this.decode = decode; }

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
      messages.push(this.decode(all.subarray(at + 4, at + 4 + length)));
      at += 4 + length;
    }
    this.partial = all.slice(at);
    return messages;
  }
}
