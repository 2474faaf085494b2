// One WebTransport session with a media handler: the control stream, groups both ways and datagrams.
import { MESSAGES } from "./mediaschema.js";
import { CODE, GroupReader, readDatagram, streamError } from "./mediawire.js";
import { Codec, FrameReader } from "./protobuf.js";

const PROTOCOL = "tenure-media-1";
/** Datagrams that wait to be read, and how old one may get before it is sent, in milliseconds. */
const INCOMING = 512, OUTGOING_AGE = 200;
const DIAL = 5_000;
/** Media of an alias that the handler has not named yet waits this long, in milliseconds, and so many datagrams at most. */
const UNNAMED_STREAM = 1_000, UNNAMED_DATAGRAM = 200, MAX_UNNAMED = 32;

const codec = new Codec(MESSAGES);
const kindOf = (event) => Object.keys(event).find((name) => name !== "seq" && typeof event[name] === "object");

export class MediaSession {
  /** `on` has event(kind, payload), group(reader), frames(reader, frames), groupEnd(reader, reset), datagram(packet), closed(why). */
  constructor({ url, hashes, grant, standby, on }) {
    Object.assign(this, { url, hashes, grant, standby, on });
    this.state = "connecting";
    this.seq = 0;
    this.pending = new Map();
    /** What the handler calls tracks: alias to participant and stream. */
    this.tracks = new Map();
    this.unnamed = [];
    this.heardAt = performance.now();
    this.received = { datagrams: 0, groups: 0, bytes: 0 };
  }

  /** Connects and greets. Throws when the handler refuses. */
  async open() {
    const certificates = this.hashes.map((value) => ({ algorithm: "sha-256", value }));
    const options = { protocols: [PROTOCOL], congestionControl: "low-latency", ...(certificates.length ? { serverCertificateHashes: certificates } : {}) };
    this.transport = new WebTransport(this.url, options);
    this.transport.closed.then(({ closeCode, reason }) => this.end(reason || "closed", closeCode), (error) => this.end(error.message, null));
    const late = setTimeout(() => this.close("no answer in time"), DIAL);
    try {
      await this.transport.ready;
      this.setUpDatagrams();
      const stream = await this.transport.createBidirectionalStream();
      this.writer = stream.writable.getWriter();
      this.readControl(stream.readable.getReader());
      const { welcome } = await this.request({ hello: { grant: this.grant, standby: this.standby } });
      if (!welcome) throw new Error("the handler did not welcome this page");
      this.welcome = welcome;
      this.state = "open";
      this.readStreams();
      this.readDatagrams();
      return welcome;
    } catch (error) {
      this.close(error.message);
      throw error;
    } finally { clearTimeout(late); }
  }

  setUpDatagrams() {
    const { datagrams } = this.transport;
    datagrams.incomingHighWaterMark = INCOMING;
    datagrams.outgoingMaxAge = OUTGOING_AGE;
    this.datagramWriter = (datagrams.createWritable?.() ?? datagrams.writable).getWriter();
  }

  get isOpen() { return this.state === "open"; }

  heard(bytes = 0) {
    this.heardAt = performance.now();
    this.received.bytes += bytes;
  }

  /** Sends a request and resolves with the event that answers it. */
  request(payload) {
    const seq = ++this.seq;
    const answer = new Promise((done, fail) => this.pending.set(seq, { done, fail }));
    answer.catch(() => {});
    this.send(payload, seq);
    return answer;
  }

  /** Sends a message that has no answer, or whose answer does not matter. */
  send(payload, seq = 0) {
    this.writer?.write(codec.frame("MediaRequest", { ...payload, seq })).catch((error) => this.close(error.message));
  }

  async readControl(reader) {
    const frames = new FrameReader((bytes) => codec.decode("MediaEvent", bytes));
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        this.heard(value.length);
        for (const event of frames.push(value)) this.receive(event);
      }
      this.close("the control stream ended");
    } catch (error) { this.close(error.message); }
  }

  receive(event) {
    const kind = kindOf(event);
    if (kind === "subscribed") this.name(event.subscribed);
    if (kind === "ended") {
      event.ended.track = this.tracks.get(event.ended.alias);
      this.tracks.delete(event.ended.alias);
    }
    const waiting = this.pending.get(event.seq);
    this.pending.delete(event.seq);
    if (kind === "error") waiting?.fail(Object.assign(new Error(event.error.message), { code: event.error.code }));
    else waiting?.done(event);
    if (kind) this.on.event(kind, event[kind], Boolean(waiting));
  }

  /** The handler named a track: what came before it can go on. */
  name(subscribed) {
    this.tracks.set(subscribed.alias, subscribed);
    const ready = this.unnamed.filter((one) => one.alias === subscribed.alias);
    this.unnamed = this.unnamed.filter((one) => one.alias !== subscribed.alias);
    // After the event, so that the track is known.
    queueMicrotask(() => ready.forEach((one) => one.go()));
  }

  /** Resolves with the track of an alias, or null when it stays unknown for this long. */
  track(alias, limit) {
    const known = this.tracks.get(alias);
    if (known) return Promise.resolve(known);
    return new Promise((done) => {
      const waiting = { alias, go: () => done(this.tracks.get(alias) ?? null) };
      this.unnamed.push(waiting);
      setTimeout(() => { this.unnamed = this.unnamed.filter((one) => one !== waiting); waiting.go(); }, limit);
    });
  }

  async readStreams() {
    const streams = this.transport.incomingUnidirectionalStreams.getReader();
    try {
      for (;;) {
        const { value, done } = await streams.read();
        if (done) return;
        this.readGroup(value.getReader());
      }
    } catch { /* the session is over */ }
  }

  async readGroup(reader) {
    const group = new GroupReader();
    let track = null;
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        this.heard(value.length);
        const frames = group.push(value);
        if (group.unknown !== null) return void reader.cancel(streamError(CODE.UNKNOWN)).catch(() => {});
        if (!group.header) continue;
        if (!track) {
          track = await this.track(group.header.alias, UNNAMED_STREAM);
          if (!track) return void reader.cancel(streamError(CODE.NOT_SUBSCRIBED)).catch(() => {});
          this.received.groups++;
          group.track = track;
          group.stop = (code) => reader.cancel(streamError(code)).catch(() => {});
          this.on.group(group);
        }
        if (frames.length) this.on.frames(group, frames);
      }
      group.finish();
      if (track) this.on.groupEnd(group, false);
    } catch {
      if (track) this.on.groupEnd(group, true);
    }
  }

  async readDatagrams() {
    const reader = this.transport.datagrams.readable.getReader();
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return;
        this.heard(value.length);
        let packet;
        try { packet = readDatagram(value); } catch { continue; }
        if (packet.alias) this.deliver(packet);
      }
    } catch { /* the session is over */ }
  }

  async deliver(packet) {
    this.received.datagrams++;
    let track = this.tracks.get(packet.alias);
    if (!track) {
      if (this.unnamed.length >= MAX_UNNAMED) return;
      track = await this.track(packet.alias, UNNAMED_DATAGRAM);
    }
    if (track) this.on.datagram(packet, track);
  }

  sendDatagram(bytes) {
    if (this.isOpen) this.datagramWriter.write(bytes).catch(() => {});
  }

  openGroup() { return this.transport.createUnidirectionalStream(); }

  close(why, closeCode = 0) {
    try { this.transport?.close({ closeCode, reason: why.slice(0, 200) }); } catch { /* it is closed */ }
    this.end(why, null);
  }

  end(why, code) {
    if (this.state === "closed") return;
    this.state = "closed";
    for (const { fail } of this.pending.values()) fail(new Error(why));
    this.pending.clear();
    for (const waiting of this.unnamed) waiting.go();
    this.on.closed(why, code);
  }
}
