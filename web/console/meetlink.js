// The page's end of the worker that holds connections to meeting controllers.
import { Refusal } from "./refusal.js";
import { scriptUrl } from "./meetscripts.js";

/** Messages of a controller that the page has not read; more and the connection is given up. */
const MAX_WAITING = 10_000;

let worker = null, lastId = 0;
const receivers = new Map();

function tell(message) {
  if (!worker) {
    worker = new Worker(scriptUrl("connections"), { type: "module", name: "connections" });
    worker.onmessage = ({ data }) => receivers.get(data.id)?.(data);
  }
  worker.postMessage(message);
}

/** Calls `act` after this time, also in a page in the background. Returns what cancels it. */
export function after(ms, act) {
  const id = ++lastId;
  receivers.set(id, () => { receivers.delete(id); act(); });
  tell({ kind: "after", id, ms });
  return () => { receivers.delete(id); tell({ kind: "cancel", id }); };
}

/** A connection to the controller at `{ url, hashes }`. Throws a refusal when there is none. */
export async function dial(place) {
  if (!globalThis.WebTransport) throw new Refusal("NO_WEBTRANSPORT", "This browser has no WebTransport. Current versions of Chrome, Edge and Firefox have it.", true);
  const connection = new LinkedConnection(place);
  await connection.opened;
  return connection;
}

class LinkedConnection {
  constructor({ url, hashes }) {
    this.id = ++lastId;
    this.messages = [];
    this.broken = null;
    this.opened = new Promise((done, fail) => Object.assign(this, { done, fail }));
    this.ended = new Promise((done) => { this.over = done; });
    receivers.set(this.id, (data) => this.receive(data));
    tell({ kind: "open", id: this.id, place: { url, hashes } });
  }

  receive(data) {
    if (data.kind === "opened") return this.done();
    if (data.kind === "failed") return void (receivers.delete(this.id), this.fail(new Refusal("UNREACHABLE", data.why)));
    if (data.kind === "suspect") return this.suspect?.();
    if (data.kind === "message" && this.messages.length < MAX_WAITING) this.messages.push(data.message);
    else this.stop(data.ending ?? { code: null, why: "too much to read" });
    this.wake();
  }

  stop(ending) {
    this.broken ??= new Refusal("LOST", ending.why);
    receivers.delete(this.id);
    this.over(ending);
  }

  /** Lets `next(true)` return. */
  wake() {
    const waiting = this.waiting;
    this.waiting = null;
    waiting?.();
  }

  /** The next message; with `idle` also nothing, when there may be something to send. Throws when the connection is gone. */
  async next(idle = false) {
    for (;;) {
      if (this.messages.length) return this.messages.shift();
      if (this.broken) throw this.broken;
      await new Promise((done) => { this.waiting = done; });
      if (idle && !this.messages.length && !this.broken) return null;
    }
  }

  send(message) { tell({ kind: "send", id: this.id, message }); }
  /** The last event that was processed, for the acknowledgements of pings. */
  setSeen(seq) { tell({ kind: "seen", id: this.id, seq }); }

  /** Pings from now on. `suspect()` is called when the controller is silent. */
  watch(suspect) {
    this.suspect = suspect;
    tell({ kind: "watch", id: this.id });
  }

  /** How it ended, after `next` threw: the code of a close, if there was one. */
  loss() { return this.ended; }

  close() {
    tell({ kind: "close", id: this.id });
    this.stop({ code: null, why: "closed by this page" });
    this.wake();
  }
}
