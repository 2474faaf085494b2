// A participant in the browser: joins, keeps its seat over lost connections, sees every event once.
import { apply, nothing, resumeFrom } from "./meetview.js";
import { CLOSE, ERROR, Frames, frame } from "./meetwire.js";

/** Requests that wait while there is no connection; one more is refused. */
const QUEUE = 64;
const DIAL = 10_000, JOIN = 20_000;
/** Less than the five seconds in which the same attempt gets the same answer. */
const RESUME = 4_000;
const PING = 2_500, SILENCE = 8_000;
const MIGRATING = [500, 120], RATE_LIMITED = [1_000, 4];
const BACKOFF_FIRST = 200, BACKOFF = 5_000;
/** How long a connection is looked for. */
const GIVE_UP = 300_000;

/** Why something leads to nothing; `final` when asking again is of no use. */
export class Refusal extends Error {
  constructor(code, message, final = false) {
    super(message || code);
    Object.assign(this, { code, final });
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** The outcome, or a refusal after so long. */
function within(ms, promise, what) {
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Refusal("TIMEOUT", what)), ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const hex = (bytes) => [...crypto.getRandomValues(new Uint8Array(bytes))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The wait before attempt `number`: doubling, bounded and spread. */
function backoff(number) {
  const full = Math.min(BACKOFF, BACKOFF_FIRST * 2 ** Math.min(number, 16));
  const least = number === 0 ? 0 : full / 2;
  return least + Math.random() * (full - least);
}

export class Participant {
  /** `door.admit()` says where and with which token; `on.state(word)`, `on.change(message, step)` and `on.over(ending)` are told; `kept` is what
   *  `keep()` gave in an earlier life of the page. */
  constructor({ door, name, on, kept }) {
    Object.assign(this, { door, name, on });
    this.view = kept?.view ?? nothing();
    this.proof = kept?.proof ?? null;
    this.seq = kept?.seq ?? 0;
    this.attempt = kept?.attempt ?? crypto.randomUUID();
    this.trace = `00-${hex(16)}-${hex(8)}-01`;
    this.queue = [];
    this.flying = null;
    this.redirect = null;
    this.state = "connecting";
    this.ended = null;
    this.unauthorized = 0;
  }

  /** What a later life of the page needs to come back to this seat. */
  keep() {
    // A request that is under way may take effect: the next one must have a greater number.
    return { view: this.view, proof: this.proof, seq: this.seq, attempt: this.attempt };
  }

  says(state) {
    this.state = state;
    this.on.state(state);
  }

  /** Lives until the end and says which it was. */
  async run() {
    let [number, since] = [0, performance.now()];
    while (!this.ended) {
      let line;
      try {
        line = await this.enter();
      } catch (error) {
        if (error.final) return this.end(error.code, error.message);
        if (performance.now() - since > GIVE_UP) return this.end("GAVE_UP", error.message);
        await Promise.race([pause(backoff(number++)), this.woken()]);
        continue;
      }
      if (this.ended) { line.close(); break; }
      number = 0;
      const loss = await this.talk(line);
      line.close();
      since = performance.now();
      this.lost(loss);
      if (!this.ended) this.says("reconnecting");
    }
    return this.ended;
  }

  /** The network is back, as far as the browser knows: no need to wait longer. */
  woken() {
    return new Promise((done) => { this.wake = done; });
  }

  end(code, message) {
    if (this.ended) return this.ended;
    this.ended = { code, message };
    this.wake?.();
    for (const asked of [this.flying, ...this.queue].filter(Boolean)) asked.fail(new Refusal(code, message));
    this.queue = [];
    this.flying = null;
    this.says("over");
    this.on.over(this.ended);
    return this.ended;
  }

  lost({ code, why }) {
    const leaving = this.flying?.kind === "leave_request", ending = this.flying?.kind === "end_meeting_request";
    this.done = code === CLOSE.DONE;
    // Who wants to leave does not come back to say so: if it was not heard, the seat ends by its time.
    if (this.left || leaving) this.end("LEFT", "You left the meeting.");
    else if (this.view.over !== null) this.end("OVER", this.view.over || "The meeting is over.");
    else if (this.done && ending) this.end("OVER", "You ended the meeting.");
    else if (code === CLOSE.SUPERSEDED) this.end("SUPERSEDED", "Your seat was taken over in another window.");
    else if (code === CLOSE.KICKED) this.end("KICKED", "A host removed you from the meeting.");
    else if (code === CLOSE.PROTOCOL) this.end("PROTOCOL", "The server does not understand this page. Reload it.");
    this.why = why;
  }

  /** One attempt: asks the door, connects, asks for the seat. */
  async enter() {
    const admission = await this.admit();
    const place = this.redirect ?? admission;
    this.redirect = null;
    let line;
    try {
      line = await Line.open(place);
    } catch (error) {
      this.door.unreachable?.(admission, String(error.message ?? error));
      throw error;
    }
    try {
      await this.knock(line, admission);
      return line;
    } catch (error) {
      line.close();
      throw error;
    }
  }

  async admit() {
    try {
      return await this.door.admit();
    } catch (error) {
      // Who had a seat and is told that there is no such meeting, or that it is closed, has seen its end.
      if (error.final && ["NOT_FOUND", "CONFLICT"].includes(error.code) && this.proof) throw new Refusal("OVER", "The meeting is over.", true);
      throw error;
    }
  }

  async knock(line, admission) {
    const join = { meeting_id: admission.meetingId, join_token: admission.token, participant_name: this.name, attempt_id: this.attempt };
    if (this.proof) Object.assign(join, { correlation_id: this.proof.correlation, binding_token: this.proof.token, last_event_seq: resumeFrom(this.view) });
    line.send({ join_request: join, trace_parent: this.trace, seq: ++this.seq });
    const answer = await within(this.proof ? RESUME : JOIN, line.next(), "no answer to the join");
    if (answer.redirect_to_mc) this.follow(answer.redirect_to_mc);
    if (answer.error) throw this.refused(answer.error);
    if (!answer.join_response) throw new Refusal("PROTOCOL", "an answer that is none");
    this.welcomed(answer);
  }

  follow(redirect) {
    this.redirect = { url: redirect.new_mc_endpoint, hashes: redirect.certificate_sha256 };
  }

  refused({ code, message }) {
    const word = Object.keys(ERROR).find((name) => ERROR[name] === code) ?? "UNKNOWN";
    if (code === ERROR.NOT_FOUND && this.done) return new Refusal("OVER", "The meeting is over.", true);
    if (code === ERROR.UNAUTHORIZED) {
      this.door.forget?.();
      return new Refusal(word, message, ++this.unauthorized >= 3);
    }
    const passes = [ERROR.NOT_FOUND, ERROR.MIGRATING, ERROR.RATE_LIMITED, ERROR.UNAVAILABLE, ERROR.INTERNAL_ERROR, ERROR.CONFLICT].includes(code);
    return new Refusal(word, message, !passes);
  }

  welcomed(message) {
    const welcome = message.join_response;
    this.proof = { correlation: welcome.correlation_id, token: welcome.binding_token };
    this.attempt = crypto.randomUUID();
    this.unauthorized = 0;
    this.done = false;
    this.seq = Math.max(this.seq, welcome.applied_seq);
    apply(this.view, message);
    const flying = this.flying;
    if (flying?.sent) {
      // One request is under way at a time, so this says exactly what became of it.
      this.flying = null;
      if (!welcome.resumed) flying.fail(new Refusal("UNKNOWN", "Your seat was lost; it may have happened or not."));
      else if (flying.sent <= welcome.applied_seq) flying.done();
      else this.queue.unshift({ ...flying, sent: 0 });
    }
    this.says("live");
    this.on.change(message, "welcome");
  }

  /** Asks for something; the promise is kept when it took effect. While there is no connection it waits. */
  ask(kind, payload = {}) {
    if (this.ended) return Promise.reject(new Refusal(this.ended.code, this.ended.message));
    if (this.queue.length >= QUEUE) return Promise.reject(new Refusal("QUEUE_FULL", "Too many requests wait already."));
    try {
      frame({ [kind]: payload, seq: Number.MAX_SAFE_INTEGER });
    } catch {
      return Promise.reject(new Refusal("TOO_LONG", "This is too long."));
    }
    return new Promise((done, fail) => {
      this.queue.push({ kind, payload, done, fail, sent: 0, tries: 0 });
      this.line?.kick();
    });
  }

  /** Gives up the seat; after five seconds without an answer the page goes anyway. */
  async leave() {
    await within(5_000, this.ask("leave_request"), "nobody answers").catch(() => {});
    this.left = true;
    this.end("LEFT", "You left the meeting.");
    this.line?.close();
  }

  /** Talks until the connection ends, and says how. */
  async talk(line) {
    this.line = line;
    line.pinging(() => this.view.seq);
    try {
      for (;;) {
        this.sendNext(line);
        const message = await line.next(true);
        if (message) this.heard(message);
      }
    } catch (error) {
      return await line.loss(error);
    } finally {
      this.line = null;
    }
  }

  sendNext(line) {
    if (this.flying || !this.queue.length || this.waiting) return;
    this.flying = this.queue.shift();
    this.flying.sent = ++this.seq;
    line.send({ [this.flying.kind]: this.flying.payload, seq: this.seq, acknowledged_event_seq: this.view.seq });
  }

  heard(message) {
    const step = apply(this.view, message);
    if (step === "answer") this.answered(message);
    this.on.change(message, step);
    if (step === "redirect") {
      this.follow(message.redirect_to_mc);
      throw new Refusal("MOVED", "the meeting moved");
    }
    if (step === "gap" || step === "rewritten") throw new Refusal("GAP", "events are missing");
    if (this.view.over !== null) throw new Refusal("OVER", "the meeting is over");
  }

  answered(message) {
    const flying = this.flying;
    if (!flying || flying.sent !== message.seq) return;
    this.flying = null;
    if (!message.error) {
      this.left ||= flying.kind === "leave_request";
      return flying.done();
    }
    const { code } = message.error;
    const [wait, most] = code === ERROR.MIGRATING ? MIGRATING : code === ERROR.RATE_LIMITED ? [RATE_LIMITED[0] * 2 ** flying.tries, RATE_LIMITED[1]] : [0, 0];
    if (flying.tries >= most) return flying.fail(this.refused(message.error));
    // It did not take effect. A new number: the old one may be below another that did.
    this.queue.unshift({ ...flying, sent: 0, tries: flying.tries + 1 });
    this.waiting = setTimeout(() => { this.waiting = null; this.line?.kick(); }, wait);
  }
}

/** One connection: a session and its one stream. */
class Line {
  static async open({ url, hashes }) {
    if (!globalThis.WebTransport) throw new Refusal("NO_WEBTRANSPORT", "This browser has no WebTransport. Current versions of Chrome, Edge and Firefox have it.", true);
    const serverCertificateHashes = hashes.map((value) => ({ algorithm: "sha-256", value }));
    const session = new WebTransport(url, hashes.length ? { serverCertificateHashes } : {});
    session.closed.catch(() => {}); // looked at when it matters
    try {
      const made = session.ready.then(() => session.createBidirectionalStream());
      return new Line(session, await within(DIAL, made, "no connection in time"));
    } catch (error) {
      close(session);
      throw error;
    }
  }

  constructor(session, stream) {
    this.session = session;
    this.writer = stream.writable.getWriter();
    this.reader = stream.readable.getReader();
    this.frames = new Frames();
    this.messages = [];
    this.heardAt = performance.now();
    this.pump();
  }

  async pump() {
    try {
      for (;;) {
        const { value, done } = await this.reader.read();
        if (done) break;
        this.heardAt = performance.now();
        this.messages.push(...this.frames.push(value));
        this.kick();
      }
    } catch (error) {
      this.broken = error;
    }
    this.broken ??= new Error("the stream ended");
    this.kick();
  }

  kick() {
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

  send(message) {
    this.writer.write(frame(message)).catch((error) => { this.broken ??= error; this.kick(); });
  }

  /** Says now and then that it is there, and gives up when nobody answers. */
  pinging(seen) {
    this.timer = setInterval(() => {
      if (performance.now() - this.heardAt > SILENCE) {
        this.broken ??= new Error("nobody answers");
        return this.kick();
      }
      this.send({ ping: { nonce: 1 }, acknowledged_event_seq: seen() });
    }, PING);
  }

  /** How it ended: the code of a close, if there was one. It may come a moment after the stream broke. */
  async loss(error) {
    const closed = this.session.closed.then(({ closeCode, reason }) => ({ code: closeCode ?? 0, why: reason }), (cause) => ({ code: null, why: String(cause) }));
    const unknown = pause(error instanceof Refusal ? 0 : 1_000).then(() => ({ code: null, why: String(error.message ?? error) }));
    return Promise.race([closed, unknown]);
  }

  close() {
    clearInterval(this.timer);
    close(this.session);
  }
}

function close(session) {
  try { session.close({ closeCode: CLOSE.DONE, reason: "done" }); } catch { /* it is closed */ }
}
