// The requests of a participant: one is in flight at a time, the others wait. No network and no clock.
import { Refusal } from "./refusal.js";
import { ErrorCode, frame } from "./meetwire.js";

/** Requests that wait; one more is refused. */
const QUEUE = 64;
/** How long a refused request waits before it is sent again, in milliseconds, and how often. */
const MIGRATING = [500, 120], RATE_LIMITED = [1_000, 4];

export class Requests {
  /** `after(ms, act)` calls `act` later; `wake()` is called when there may be something to send. */
  constructor({ seq, after, wake }) {
    Object.assign(this, { after, wake });
    /** The greatest number that was used. */
    this.seq = seq;
    this.queue = [];
    this.inFlight = null;
    this.frozen = false;
    this.waits = false;
  }

  nextSeq() { return ++this.seq; }

  /** Adds a request; the promise resolves when it took effect. */
  add(kind, payload) {
    if (this.queue.length >= QUEUE) return Promise.reject(new Refusal("QUEUE_FULL", "Too many requests wait already."));
    try {
      frame({ [kind]: payload, seq: Number.MAX_SAFE_INTEGER });
    } catch {
      return Promise.reject(new Refusal("TOO_LONG", "This is too long."));
    }
    return new Promise((done, fail) => {
      this.queue.push({ kind, payload, done, fail, sent: 0, tries: 0 });
      this.wake();
    });
  }

  /** The request to send now, with its number in `sent`, or null. */
  next() {
    if (this.inFlight || !this.queue.length || this.waits || this.frozen) return null;
    this.inFlight = this.queue.shift();
    this.inFlight.sent = this.nextSeq();
    return this.inFlight;
  }

  /** A response came. `refused(error)` makes the refusal of an error. Returns the request that it ended, or null. */
  answered(message, refused) {
    const { inFlight } = this;
    if (!inFlight || inFlight.sent !== message.seq) return null;
    this.inFlight = null;
    if (!message.error) {
      inFlight.done();
      return inFlight;
    }
    const { code } = message.error;
    const [wait, most] = code === ErrorCode.MIGRATING ? MIGRATING : code === ErrorCode.RATE_LIMITED ? [RATE_LIMITED[0] * 2 ** inFlight.tries, RATE_LIMITED[1]] : [0, 0];
    if (inFlight.tries >= most) {
      inFlight.fail(refused(message.error));
      return inFlight;
    }
    // It did not take effect. A new number: the old one may be below another that did.
    this.queue.unshift({ ...inFlight, sent: 0, tries: inFlight.tries + 1 });
    this.waits = true;
    this.after(wait, () => { this.waits = false; this.wake(); });
    return null;
  }

  /** The meeting moves: nothing is sent until it thaws or the next connection is there. */
  freeze() { this.frozen = true; }
  thaw() { this.frozen = false; this.wake(); }

  /** A new connection determines the outcome of the request in flight. */
  resumed({ resumed, applied_seq }) {
    this.seq = Math.max(this.seq, applied_seq);
    this.frozen = false;
    const { inFlight } = this;
    this.inFlight = null;
    if (!inFlight) return;
    if (!resumed) inFlight.fail(new Refusal("UNKNOWN", "Your seat was lost; it may have happened or not."));
    else if (inFlight.sent <= applied_seq) inFlight.done();
    else this.queue.unshift({ ...inFlight, sent: 0 });
  }

  end(refusal) {
    for (const one of [this.inFlight, ...this.queue].filter(Boolean)) one.fail(refusal);
    this.queue = [];
    this.inFlight = null;
  }
}
