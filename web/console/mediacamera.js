// A picture on its way out: the frames of a camera or a screen, encoded in the renditions that are needed.
import { TrackClock } from "./mediaclock.js";
import { chooseCodec, encoderConfig } from "./mediacodec.js";
import { GroupWriter } from "./mediagroup.js";
import { adapt, calm, MAX_QUEUE, renditionsFor } from "./mediarate.js";
import { StreamType } from "./meetschema.js";

/** A key frame comes at least this often, in microseconds: for the lowest rendition, the others, and screens. */
const KEY_US = { lowest: 2_000_000, other: 4_000_000, screen: 8_000_000 };
/** A key frame on request comes at most this often, in microseconds. */
const KEY_LEAST_US = 250_000;
/** A picture that stands still is encoded again after this time, in milliseconds. */
const STILL = 1_000;
/** After so many failures of encoders without a picture between them, the page says so. */
const MAX_FAILURES = 5;

export class PictureSource {
  /** `link` carries it; `problem(words)` reports what the user should know. */
  constructor({ name, streamId, screen, link, problem }) {
    Object.assign(this, { name, streamId, screen, link, problem });
    this.clock = new TrackClock();
    this.group = 0;
    this.encoders = [];
    /** What each session's subscribers need; null until its handler said so. */
    this.needed = new Map();
    this.rate = calm();
    this.lag = 0;
    this.queue = 0;
    this.failures = 0;
    this.closed = false;
    this.counts = { captured: 0, skipped: 0 };
    this.timer = setInterval(() => this.each(), STILL);
  }

  /** Reads frames until the source ends or another takes its place. */
  async read(readable) {
    const reader = readable.getReader();
    this.reader = reader;
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done || this.closed) { value?.close(); break; }
        await this.take(value);
      }
    } catch { /* the source is gone: the page says so */ }
    if (this.reader === reader) this.reader = null;
  }

  /** Changes to the frames of another device, in the same publication. */
  async replace(readable) {
    const old = this.reader;
    // Another device counts its timestamps from elsewhere, and may give what can be encoded.
    this.clock.restart();
    this.failures = 0;
    this.read(readable);
    await old?.cancel().catch(() => {});
  }

  async take(frame) {
    this.counts.captured++;
    if (!this.renditions) await this.begin(frame);
    this.last?.close();
    this.last = null;
    if (this.choice) this.encode(frame);
    if (this.screen && !this.closed) this.last = frame;
    else frame.close();
    this.lastAt = performance.now();
  }

  async begin(frame) {
    this.renditions = renditionsFor(frame.displayWidth, frame.displayHeight, { screen: this.screen, fps: this.screen ? 15 : 30 });
    this.choice = await chooseCodec(this.renditions, { screen: this.screen });
    if (!this.choice) return this.problem("This browser cannot encode the picture, so others do not see it.");
    for (const rendition of this.renditions) this.encoders.push(this.open(rendition));
    this.link.publish(this.name, {
      stream_id: this.streamId, type: this.screen ? StreamType.SCREEN : StreamType.VIDEO, codec: this.choice.codec,
      renditions: this.renditions, temporal_layers: 1, incarnation: Date.now(),
    });
  }

  open(rendition) {
    const one = { rendition, keyAt: -Infinity, wantsKey: true, frameAt: -Infinity, scale: 0 };
    one.writer = new GroupWriter({ link: this.link, name: this.name, rendition: rendition.index, nextGroup: () => this.group++, needKey: () => { one.wantsKey = true; } });
    one.make = () => {
      one.encoder = new VideoEncoder({ output: (chunk, meta) => this.encoded(one, chunk, meta), error: () => this.failed(one) });
      one.scale = 0;
      one.wantsKey = true;
    };
    one.make();
    return one;
  }

  /** The renditions to encode: what subscribers of any session need, within what this machine can do. */
  wanted() {
    const sets = [...this.needed].filter(([session]) => session.isOpen).map(([, set]) => set);
    const most = Math.min(this.encoders.length, this.rate.renditions);
    const all = sets.length ? new Set(sets.flatMap((set) => [...set])) : new Set([0]);
    // A rendition that is given up is served by the best that is left.
    return new Set([...all].map((index) => Math.min(index, most - 1)));
  }

  encode(frame) {
    const timestamp = this.clock.stamp(frame.timestamp);
    const wanted = this.wanted();
    for (const one of this.encoders) {
      if (!wanted.has(one.rendition.index) || !this.link.active?.aliases.has(this.name) || this.muted) { one.writer.end(); one.wantsKey = true; continue; }
      this.queue = Math.max(this.queue, one.encoder.encodeQueueSize);
      const due = timestamp - one.frameAt >= (1e6 / one.rendition.max_fps) * 0.8;
      if (!due) continue;
      if (one.encoder.encodeQueueSize > MAX_QUEUE) { this.counts.skipped++; continue; }
      this.configure(one);
      const interval = this.screen ? KEY_US.screen : one.rendition.index === 0 ? KEY_US.lowest : KEY_US.other;
      const since = timestamp - one.keyAt;
      const keyFrame = since >= interval || (one.wantsKey && since >= KEY_LEAST_US);
      if (keyFrame) { one.keyAt = timestamp; one.wantsKey = false; }
      one.frameAt = timestamp;
      const stamped = new VideoFrame(frame, { timestamp });
      one.encoder.encode(stamped, { keyFrame });
      stamped.close();
    }
  }

  configure(one) {
    if (one.scale === this.rate.scale) return;
    one.scale = this.rate.scale;
    one.encoder.configure(encoderConfig(this.choice, one.rendition, one.scale));
  }

  /** An encoder that failed is closed: begin again. A source that fails every time is reported once. */
  failed(one) {
    if (this.closed) return;
    one.make();
    if (++this.failures === MAX_FAILURES) this.problem(`This browser cannot encode the picture of this ${this.screen ? "screen" : "camera"}, so others do not see it. Choose another one.`);
  }

  encoded(one, chunk) {
    this.failures = 0;
    const payload = new Uint8Array(chunk.byteLength);
    chunk.copyTo(payload);
    one.writer.send({ timestamp: chunk.timestamp, key: chunk.type === "key", temporal: 0, payload });
  }

  /** A subscriber needs a key frame. */
  needKey(rendition) {
    const one = this.encoders[Math.min(rendition, this.encoders.length - 1)];
    if (one) one.wantsKey = true;
  }

  need(session, renditions) { this.needed.set(session, new Set(renditions)); }

  /** Once a second: the rate follows what the encoder and the handler can do, and a still picture is sent again. */
  each() {
    this.rate = adapt(this.rate, { queue: this.queue, lag: this.lag }, this.encoders.length);
    this.queue = 0;
    this.lag = 0;
    if (this.last && performance.now() - this.lastAt >= STILL) {
      const again = new VideoFrame(this.last, { timestamp: this.last.timestamp + STILL * 1_000 });
      this.last.close();
      this.last = again;
      this.lastAt = performance.now();
      this.encode(again);
    }
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    this.reader?.cancel().catch(() => {});
    this.last?.close();
    this.link.unpublish(this.name);
    for (const { encoder, writer } of this.encoders) {
      writer.end();
      try { encoder.close(); } catch { /* it is closed */ }
    }
  }
}
