// A participant in the browser: joins, resumes after a lost connection, receives every event once.
import { apply, nothing, resumeFrom } from "./meetview.js";
import { CLOSE, ErrorCode, Frames, frame } from "./meetwire.js";

/** Requests that wait while there is no connection; one more is refused. */
const QUEUE = 64;
const DIAL = 10_000, JOIN = 20_000;
/** Less than the five seconds in which the same attempt gets the same answer. */
const RESUME = 4_000;
const PING = 2_500, SILENCE = 8_000;
const MIGRATING = [500, 120], RATE_LIMITED = [1_000, 4];
const BACKOFF_FIRST = 200, BACKOFF = 5_000;
/** How long it tries to connect. */
const GIVE_UP = 300_000;

/** Why a request failed; `final` when a retry cannot succeed. */
export class Refusal extends Error {
  constructor(code, message, final = false) {
    super(message || code);
    Object.assign(this, { code, final });
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** The result, or a refusal after this time. */
function withTimeout(ms, promise, what) {
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
  /** `api.admit()` returns the endpoint and the token. `on.state(name)`, `on.change(message, step)` and `on.over(ending)` are called. `saved` is
   *  what `save()` returned before the page was reloaded. */
  constructor({ api, name, on, saved }) {
    Object.assign(this, { api, name, on });
    this.view = saved?.view ?? nothing();
    this.proof = saved?.proof ?? null;
    this.seq = saved?.seq ?? 0;
    this.attempt = saved?.attempt ?? crypto.randomUUID();
    this.trace = `00-${hex(16)}-${hex(8)}-01`;
    this.queue = [];
    this.inFlight = null;
    this.redirect = null;
    this.state = "connecting";
    this.ended = null;
    this.unauthorized = 0;
  }

  /** What a reloaded page needs to resume. */
  save() {
    // A request in flight may take effect: the next one must have a greater number.
    return { view: this.view, proof: this.proof, seq: this.seq, attempt: this.attempt };
  }

  setState(state) {
    this.state = state;
    this.on.state(state);
  }

  /** Runs until the end and returns the reason. */
  async run() {
    let [number, since] = [0, performance.now()];
    while (!this.ended) {
      let connection;
      try {
        connection = await this.connect();
      } catch (error) {
        if (error.final) return this.end(error.code, error.message);
        if (performance.now() - since > GIVE_UP) return this.end("GAVE_UP", error.message);
        await Promise.race([pause(backoff(number++)), this.woken()]);
        continue;
      }
      if (this.ended) { connection.close(); break; }
      number = 0;
      const loss = await this.exchange(connection);
      connection.close();
      since = performance.now();
      this.lost(loss);
      if (!this.ended) this.setState("reconnecting");
    }
    return this.ended;
  }

  /** Resolves when the browser reports that the network is back. */
  woken() {
    return new Promise((done) => { this.wake = done; });
  }

  end(code, message) {
    if (this.ended) return this.ended;
    this.ended = { code, message };
    this.wake?.();
    for (const asked of [this.inFlight, ...this.queue].filter(Boolean)) asked.fail(new Refusal(code, message));
    this.queue = [];
    this.inFlight = null;
    this.setState("over");
    this.on.over(this.ended);
    return this.ended;
  }

  lost({ code, why }) {
    const leaving = this.inFlight?.kind === "leave_request", ending = this.inFlight?.kind === "end_meeting_request";
    this.done = code === CLOSE.DONE;
    // A participant that leaves does not reconnect to repeat it: if the request was lost, the grace period ends the membership.
    if (this.left || leaving) this.end("LEFT", "You left the meeting.");
    else if (this.view.over !== null) this.end("OVER", this.view.over || "The meeting is over.");
    else if (this.done && ending) this.end("OVER", "You ended the meeting.");
    else if (code === CLOSE.SUPERSEDED) this.end("SUPERSEDED", "Your seat was taken over in another window.");
    else if (code === CLOSE.KICKED) this.end("KICKED", "A host removed you from the meeting.");
    else if (code === CLOSE.PROTOCOL) this.end("PROTOCOL", "The server does not understand this page. Reload it.");
    this.why = why;
  }

  /** One attempt: requests a token, connects, joins. */
  async connect() {
    const admission = await this.admit();
    this.meetingId = admission.meetingId;
    const place = this.redirect ?? admission;
    this.redirect = null;
    let connection;
    try {
      connection = await Connection.open(place);
    } catch (error) {
      this.api.unreachable?.(admission, String(error.message ?? error));
      throw error;
    }
    this.joining = connection;
    try {
      await this.join(connection, admission);
      return connection;
    } catch (error) {
      const { code } = this.waits ? await connection.loss(error) : {};
      connection.close();
      if (code === CLOSE.KICKED) throw new Refusal("KICKED", "A host did not let you in.", true);
      throw error;
    } finally {
      this.joining = null;
      this.waits = false;
    }
  }

  async admit() {
    try {
      return await this.api.admit();
    } catch (error) {
      // A participant that gets NOT_FOUND or closed for its own meeting knows that it ended.
      if (error.final && ["NOT_FOUND", "CONFLICT"].includes(error.code) && this.proof) throw new Refusal("OVER", "The meeting is over.", true);
      throw error;
    }
  }

  async join(connection, admission) {
    const join = { meeting_id: admission.meetingId, join_token: admission.token, participant_name: this.name, attempt_id: this.attempt };
    if (this.proof) Object.assign(join, { correlation_id: this.proof.correlation, binding_token: this.proof.token, last_event_seq: resumeFrom(this.view) });
    connection.send({ join_request: join, trace_parent: this.trace, seq: ++this.seq });
    let answer = await withTimeout(this.proof ? RESUME : JOIN, connection.next(), "no answer to the join");
    // In the waiting room the answer comes when a host admits the participant.
    for (; answer.waiting; answer = await connection.next()) {
      this.waits = true;
      this.on.waiting?.(answer.waiting);
    }
    if (answer.redirect_to_mc) this.follow(answer.redirect_to_mc);
    if (answer.error) throw this.refused(answer.error);
    if (!answer.join_response) throw new Refusal("PROTOCOL", "unexpected response");
    this.welcomed(answer);
  }

  follow(redirect) {
    this.redirect = { url: redirect.new_mc_endpoint, hashes: redirect.certificate_sha256 };
  }

  refused({ code, message }) {
    const word = Object.keys(ErrorCode).find((name) => ErrorCode[name] === code) ?? "UNKNOWN";
    if (code === ErrorCode.NOT_FOUND && this.done) return new Refusal("OVER", "The meeting is over.", true);
    if (code === ErrorCode.UNAUTHORIZED) {
      this.api.forget?.();
      return new Refusal(word, message, ++this.unauthorized >= 3);
    }
    const transient = [ErrorCode.NOT_FOUND, ErrorCode.MIGRATING, ErrorCode.RATE_LIMITED, ErrorCode.UNAVAILABLE, ErrorCode.INTERNAL_ERROR, ErrorCode.CONFLICT].includes(code);
    return new Refusal(word, message, !transient);
  }

  welcomed(message) {
    const welcome = message.join_response;
    this.proof = { correlation: welcome.correlation_id, token: welcome.binding_token };
    this.attempt = crypto.randomUUID();
    this.unauthorized = 0;
    this.done = false;
    this.seq = Math.max(this.seq, welcome.applied_seq);
    apply(this.view, message);
    const inFlight = this.inFlight;
    if (inFlight?.sent) {
      // One request is in flight at a time, so this determines its outcome.
      this.inFlight = null;
      if (!welcome.resumed) inFlight.fail(new Refusal("UNKNOWN", "Your seat was lost; it may have happened or not."));
      else if (inFlight.sent <= welcome.applied_seq) inFlight.done();
      else this.queue.unshift({ ...inFlight, sent: 0 });
    }
    this.setState("live");
    this.on.change(message, "welcome");
  }

  /** Sends a request; the promise resolves when it took effect. Without a connection it waits. */
  request(kind, payload = {}) {
    if (this.ended) return Promise.reject(new Refusal(this.ended.code, this.ended.message));
    if (this.queue.length >= QUEUE) return Promise.reject(new Refusal("QUEUE_FULL", "Too many requests wait already."));
    try {
      frame({ [kind]: payload, seq: Number.MAX_SAFE_INTEGER });
    } catch {
      return Promise.reject(new Refusal("TOO_LONG", "This is too long."));
    }
    return new Promise((done, fail) => {
      this.queue.push({ kind, payload, done, fail, sent: 0, tries: 0 });
      this.connection?.kick();
    });
  }

  /** Sends a message that has no answer, if there is a connection. */
  notify(kind, payload) { this.connection?.send({ [kind]: payload, acknowledged_event_seq: this.view.seq }); }

  /** Leaves the meeting; after five seconds without an answer the page leaves anyway. */
  async leave() {
    if (this.joining) {
      this.end("LEFT", "You left.");
      return this.joining?.close();
    }
    await withTimeout(5_000, this.request("leave_request"), "no response").catch(() => {});
    this.left = true;
    this.end("LEFT", "You left the meeting.");
    this.connection?.close();
  }

  /** Exchanges messages until the connection ends, and returns how it ended. */
  async exchange(connection) {
    this.connection = connection;
    connection.pinging(() => this.view.seq);
    try {
      for (;;) {
        this.sendNext(connection);
        const message = await connection.next(true);
        if (message) this.received(message);
      }
    } catch (error) {
      return await connection.loss(error);
    } finally {
      this.connection = null;
    }
  }

  sendNext(connection) {
    if (this.inFlight || !this.queue.length || this.waiting) return;
    this.inFlight = this.queue.shift();
    this.inFlight.sent = ++this.seq;
    connection.send({ [this.inFlight.kind]: this.inFlight.payload, seq: this.seq, acknowledged_event_seq: this.view.seq });
  }

  received(message) {
    const step = apply(this.view, message);
    // New media servers may be the answer to a request for grants.
    if (step === "answer" || message.media_servers_changed) this.answered(message);
    this.on.change(message, step);
    if (step === "redirect") {
      this.follow(message.redirect_to_mc);
      throw new Refusal("MOVED", "the meeting moved");
    }
    if (step === "gap" || step === "rewritten") throw new Refusal("GAP", "events are missing");
    if (this.view.over !== null) throw new Refusal("OVER", "the meeting is over");
  }

  answered(message) {
    const inFlight = this.inFlight;
    if (!inFlight || inFlight.sent !== message.seq) return;
    this.inFlight = null;
    if (!message.error) {
      this.left ||= inFlight.kind === "leave_request";
      return inFlight.done();
    }
    const { code } = message.error;
    const [wait, most] = code === ErrorCode.MIGRATING ? MIGRATING : code === ErrorCode.RATE_LIMITED ? [RATE_LIMITED[0] * 2 ** inFlight.tries, RATE_LIMITED[1]] : [0, 0];
    if (inFlight.tries >= most) return inFlight.fail(this.refused(message.error));
    // It did not take effect. A new number: the old one may be below another that did.
    this.queue.unshift({ ...inFlight, sent: 0, tries: inFlight.tries + 1 });
    this.waiting = setTimeout(() => { this.waiting = null; this.connection?.kick(); }, wait);
  }
}

/** One connection: a session and its one stream. */
class Connection {
  static async open({ url, hashes }) {
    if (!globalThis.WebTransport) throw new Refusal("NO_WEBTRANSPORT", "This browser has no WebTransport. Current versions of Chrome, Edge and Firefox have it.", true);
    const serverCertificateHashes = hashes.map((value) => ({ algorithm: "sha-256", value }));
    const session = new WebTransport(url, hashes.length ? { serverCertificateHashes } : {});
    session.closed.catch(() => {}); // loss() reads it
    try {
      const opened = session.ready.then(() => session.createBidirectionalStream());
      return new Connection(session, await withTimeout(DIAL, opened, "no connection in time"));
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

  /** Pings, and closes the connection when no response comes. */
  pinging(seen) {
    this.timer = setInterval(() => {
      if (performance.now() - this.heardAt > SILENCE) {
        this.broken ??= new Error("no response");
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
