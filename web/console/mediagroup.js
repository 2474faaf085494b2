// The groups of one rendition on their way to the handler: one stream each, begun at a key frame.
import { CODE, groupFrame, groupHeader, streamError } from "./mediawire.js";

/** Bytes of a group that may wait for its stream; more and the group is given up. */
const MAX_WAITING = 1024 * 1024;

export class GroupWriter {
  /** `link` has the active session; `nextGroup()` numbers the groups of a publication. */
  constructor({ link, name, rendition, nextGroup, needKey }) {
    Object.assign(this, { link, name, rendition, nextGroup, needKey });
    this.current = null;
    this.counts = { groups: 0, frames: 0, aborted: 0 };
  }

  /** Sends a frame. Without an open group, or on another session, it must be a key frame. */
  send({ timestamp, key, temporal, payload }) {
    const session = this.link.active;
    const alias = session?.aliases.get(this.name);
    if (!alias) return void this.end();
    if (this.current && this.current.session !== session) this.end();
    if (key) this.begin(session, alias, timestamp);
    if (!this.current) return void this.needKey();
    const group = this.current;
    const bytes = groupFrame({ delta: Math.max(0, timestamp - group.timestamp), key, temporal, payload });
    this.counts.frames++;
    group.write(bytes);
  }

  begin(session, alias, timestamp) {
    // A stream that still holds the last group would only delay this one.
    if (this.current?.isBehind) this.abort(CODE.STALE);
    else this.end();
    const header = groupHeader({ alias, rendition: this.rendition, group: this.nextGroup(), timestamp });
    this.current = new OpenGroup(session, timestamp, () => { this.counts.aborted++; this.current = null; this.needKey(); });
    this.current.write(header);
    this.counts.groups++;
  }

  end() {
    this.current?.finish();
    this.current = null;
  }

  abort(code) {
    this.counts.aborted++;
    this.current?.abort(code);
    this.current = null;
  }
}

/** One stream: what was written before it opened waits. */
class OpenGroup {
  constructor(session, timestamp, lost) {
    Object.assign(this, { session, timestamp, lost });
    this.waiting = [];
    this.bytes = 0;
    this.state = "opening";
    session.openGroup().then((stream) => this.opened(stream), () => this.fail());
  }

  get isBehind() { return this.state === "opening" || (this.writer && this.writer.desiredSize !== null && this.writer.desiredSize <= 0); }

  opened(stream) {
    this.writer = stream.getWriter();
    this.writer.closed.catch(() => this.fail());
    if (this.state === "aborted") return this.abort(this.code);
    for (const bytes of this.waiting) this.put(bytes);
    this.waiting = [];
    if (this.state === "finished") this.writer.close().catch(() => {});
    else this.state = "open";
  }

  write(bytes) {
    if (this.writer) return this.put(bytes);
    this.bytes += bytes.length;
    if (this.bytes > MAX_WAITING) return this.abort(CODE.STALE);
    this.waiting.push(bytes);
  }

  put(bytes) { this.writer.write(bytes).catch(() => this.fail()); }

  finish() {
    this.state = "finished";
    this.writer?.close().catch(() => {});
  }

  abort(code) {
    this.state = "aborted";
    this.code = code;
    this.waiting = [];
    this.writer?.abort(streamError(code)).catch(() => {});
  }

  /** The handler stopped the stream, or the session is gone. */
  fail() {
    if (this.state === "finished" || this.state === "aborted" || this.state === "failed") return;
    this.state = "failed";
    this.lost();
  }
}
