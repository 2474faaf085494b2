// The picture of one participant: groups of frames from the handler, decoded, kept together with the voice, and drawn.
import { CODE } from "./mediawire.js";

/** Video waits for audio for at most this long, in milliseconds. */
const MOST_WAIT = 200;
/** A group that stands still for this long, in milliseconds, gives way to a newer one. */
const STALL = 150;
/** Frames in the decoder; more and the rest of the group waits. */
const MAX_DECODING = 8;
/** Groups that wait to be decoded. */
const MAX_GROUPS = 4;

export class Picture {
  /** `audioTime()` is the timestamp that the participant's voice is at, or null. `needKey()` asks for a key frame;
   *  `unsupported()` is called when this browser cannot decode the track. */
  constructor({ track, audioTime, needKey, unsupported }) {
    Object.assign(this, { audioTime, needKey, unsupported });
    this.groups = [];
    this.current = null;
    this.shownAt = -1;
    this.counts = { frames: 0, shown: 0, dropped: 0, groups: 0, gap: 0, skew: null };
    this.report = { group: 0, timestamp_us: 0 };
    this.track = track;
    this.openDecoder();
  }

  /** A handler described the track. Only a publisher that began again changes anything: both sessions describe it. */
  restart(track) {
    if (!track.codec || (this.track && track.incarnation <= this.track.incarnation)) return;
    this.track = track;
    this.groups = [];
    this.current = null;
    this.shownAt = -1;
    this.openDecoder();
  }

  openDecoder() {
    try { if (this.decoder?.state !== "closed") this.decoder?.close(); } catch { /* it is closed */ }
    this.decoder = new VideoDecoder({ output: (frame) => this.decoded(frame), error: () => this.failed() });
    const config = { codec: this.track.codec, optimizeForLatency: true };
    VideoDecoder.isConfigSupported(config).then(({ supported }) => supported || this.unsupported(), () => this.unsupported());
    try { this.decoder.configure(config); } catch { /* it says that it does not support this */ }
    this.waitsForKey = true;
  }

  /** A decoder that failed is closed: begin again at a key frame. */
  failed() {
    this.counts.dropped++;
    this.openDecoder();
    this.current = null;
    this.needKey();
  }

  /** Draws on this canvas from now on. */
  show(canvas) {
    this.canvas = canvas;
    this.context = canvas?.getContext("2d", { alpha: false, desynchronized: true });
  }

  /** A group began. Those that began earlier come first. */
  group(group) {
    const entry = { group, frames: [], ended: false, heardAt: performance.now() };
    if (group.header.timestamp < (this.current?.group.header.timestamp ?? -1)) return void group.stop(CODE.STALE);
    this.counts.groups++;
    this.groups.push(entry);
    this.groups.sort((a, b) => a.group.header.timestamp - b.group.header.timestamp);
    while (this.groups.length > MAX_GROUPS) this.abandon(this.groups.shift());
    this.pump();
  }

  frames(group, frames) {
    const entry = this.find(group);
    if (!entry) return;
    entry.frames.push(...frames);
    entry.heardAt = performance.now();
    this.counts.frames += frames.length;
    this.pump();
  }

  groupEnd(group) {
    const entry = this.find(group);
    if (entry) entry.ended = true;
    this.pump();
  }

  find(group) { return [this.current, ...this.groups].find((entry) => entry?.group === group); }

  abandon(entry) {
    if (!entry) return;
    this.counts.dropped += entry.frames.length;
    if (!entry.ended) entry.group.stop(CODE.STALE);
  }

  /** Decodes what can be decoded. Called whenever something arrived, and by a timer. */
  pump() {
    const now = performance.now();
    for (;;) {
      const next = this.groups[0];
      const over = !this.current || (this.current.frames.length === 0 && (this.current.ended || now - this.current.heardAt > STALL));
      if (over && next?.frames.length) {
        if (this.current && !this.current.ended) this.abandon(this.current);
        this.current = this.groups.shift();
      }
      const frame = this.current?.frames[0];
      if (!frame || this.decoder.state !== "configured" || this.decoder.decodeQueueSize >= MAX_DECODING) return;
      this.current.frames.shift();
      if (this.waitsForKey && !frame.key) { this.counts.dropped++; continue; }
      this.waitsForKey = false;
      this.report = { group: this.current.group.header.group, timestamp_us: frame.timestamp };
      try {
        this.decoder.decode(new EncodedVideoChunk({ type: frame.key ? "key" : "delta", timestamp: frame.timestamp, data: frame.payload }));
      } catch { return this.failed(); }
    }
  }

  /** Shows a frame when the voice is there, or at once when there is none. */
  decoded(frame) {
    this.pump();
    // A session that took over sends its group from the beginning: those frames were shown.
    if (frame.timestamp <= this.shownAt) return frame.close();
    const voice = this.audioTime();
    const wait = voice === null ? 0 : Math.min(MOST_WAIT, Math.max(0, (frame.timestamp - voice) / 1_000));
    if (wait < 5) this.draw(frame);
    else setTimeout(() => this.draw(frame), wait);
  }

  draw(frame) {
    if (frame.timestamp <= this.shownAt || !this.context) {
      this.shownAt = Math.max(this.shownAt, frame.timestamp);
      return frame.close();
    }
    const { canvas, context, counts } = this;
    const now = performance.now(), voice = this.audioTime();
    if (this.drawnAt) counts.gap = Math.max(counts.gap, now - this.drawnAt);
    this.drawnAt = now;
    this.shownAt = frame.timestamp;
    if (voice !== null) counts.skew = Math.round((voice - frame.timestamp) / 1_000);
    if (canvas.width !== frame.displayWidth || canvas.height !== frame.displayHeight) Object.assign(canvas, { width: frame.displayWidth, height: frame.displayHeight });
    context.drawImage(frame, 0, 0, canvas.width, canvas.height);
    counts.shown++;
    frame.close();
  }

  close() {
    for (const entry of [this.current, ...this.groups]) if (entry && !entry.ended) entry.group.stop(CODE.NOT_SUBSCRIBED);
    try { this.decoder.close(); } catch { /* it is closed */ }
  }
}
