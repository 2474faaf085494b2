// A participant in the browser: joins, resumes after a lost connection, moves with its meeting, receives every event once.
import { ParkedJoin } from "./meetmove.js";
import { Requests } from "./meetrequests.js";
import { apply, nothing, resumeFrom } from "./meetview.js";
import { CLOSE, ErrorCode } from "./meetwire.js";
import { Refusal } from "./refusal.js";

const JOIN = 20_000;
/** Less than the five seconds in which the same attempt gets the same answer. */
const RESUME = 4_000;
const BACKOFF_FIRST = 200, BACKOFF = 5_000;
/** How long it tries to connect. */
const GIVE_UP = 300_000;
/** The controller's owner is asked for this often, in milliseconds, while the controller is cut off from its store. */
const ASK_OWNER = 3_000;
/** A token that ends sooner, in milliseconds, is not used again. */
const TOKEN_LEFT = 60_000;

const hex = (bytes) => [...crypto.getRandomValues(new Uint8Array(bytes))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The wait before attempt `number`: doubling, bounded and spread. */
function backoff(number) {
  const full = Math.min(BACKOFF, BACKOFF_FIRST * 2 ** Math.min(number, 16));
  const least = number === 0 ? 0 : full / 2;
  return least + Math.random() * (full - least);
}

/** The word of the API for why a controller was not reached. */
export function reasonOf(words) {
  const known = [[/time/i, "TIMEOUT"], [/refused/i, "CONNECTION_REFUSED"], [/tls|certificate/i, "TLS_ERROR"]];
  return known.find(([pattern]) => pattern.test(words))?.[1] ?? "UNSPECIFIED";
}

export class Participant {
  /** `api.admit()` returns the endpoint and the token. `dial(place)` opens a connection and `after(ms, act)` calls later, see
   *  meetlink.js. `on.state(name)`, `on.hint(name)`, `on.change(message, step)` and `on.over(ending)` are called. `saved` is what
   *  `save()` returned before the page was reloaded. */
  constructor({ api, dial, after, name, on, saved }) {
    Object.assign(this, { api, dial, after, name, on });
    this.view = saved?.view ?? nothing();
    this.proof = saved?.proof ?? null;
    this.attempt = saved?.attempt ?? crypto.randomUUID();
    this.trace = `00-${hex(16)}-${hex(8)}-01`;
    this.requests = new Requests({ seq: saved?.seq ?? 0, after, wake: () => this.connection?.wake() });
    this.redirect = null;
    this.admission = null;
    /** Why the controller was lost, until it is reported. */
    this.failure = null;
    this.parked = null;
    this.state = "connecting";
    this.hint = null;
    this.ended = null;
    this.unauthorized = 0;
  }

  /** What a reloaded page needs to resume. */
  save() {
    // A request in flight may take effect: the next one must have a greater number.
    return { view: this.view, proof: this.proof, seq: this.requests.seq, attempt: this.attempt };
  }

  setState(state) {
    this.state = state;
    this.on.state(state);
  }

  /** What is unusual though the connection works: `moving`, `paused` or null. */
  setHint(hint) {
    if (this.hint === hint) return;
    this.hint = hint;
    this.cancelOwner?.();
    this.cancelOwner = hint === "paused" ? this.after(ASK_OWNER, () => this.askOwner()) : null;
    this.on.hint?.(hint);
  }

  pause(ms) { return new Promise((done) => this.after(ms, done)); }

  /** The result, or a refusal after this time. */
  within(ms, promise, what) {
    let cancel;
    const late = new Promise((_, fail) => { cancel = this.after(ms, () => fail(new Refusal("TIMEOUT", what))); });
    return Promise.race([promise, late]).finally(() => cancel());
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
        await Promise.race([this.pause(backoff(number++)), new Promise((done) => { this.retryNow = done; })]);
        continue;
      }
      if (this.ended) { connection.close(); break; }
      number = 0;
      await this.stay(connection);
      since = performance.now();
      if (!this.ended) this.setState("reconnecting");
    }
    return this.ended;
  }

  /** Exchanges messages until the connection is lost, and moves with the meeting. */
  async stay(connection) {
    for (;;) {
      const loss = await this.exchange(connection);
      if (loss && !loss.final && this.parked) this.setHint("moving");
      const next = loss?.final ? null : await this.parked?.joined;
      this.parked?.leave(next);
      this.parked = null;
      connection.close();
      if (!next || this.ended) {
        next?.connection.close();
        return this.lost(loss ?? { code: null, why: "" });
      }
      connection = next.connection;
      this.welcomed(next.answer, true);
    }
  }

  end(code, message) {
    if (this.ended) return this.ended;
    this.ended = { code, message };
    this.retryNow?.();
    this.parked?.leave();
    this.cancelOwner?.();
    this.requests.end(new Refusal(code, message));
    this.setState("over");
    this.on.over(this.ended);
    return this.ended;
  }

  lost({ code, why }) {
    const inFlight = this.requests.inFlight?.kind;
    this.done = code === CLOSE.DONE;
    // A participant that leaves does not reconnect to repeat it: if the request was lost, the grace period ends the membership.
    if (this.left || inFlight === "leave_request") this.end("LEFT", "You left the meeting.");
    else if (this.view.over !== null) this.end("OVER", this.view.over || "The meeting is over.");
    else if (this.done && inFlight === "end_meeting_request") this.end("OVER", "You ended the meeting.");
    else if (code === CLOSE.SUPERSEDED) this.end("SUPERSEDED", "Your seat was taken over in another window.");
    else if (code === CLOSE.KICKED) this.end("KICKED", "A host removed you from the meeting.");
    else if (code === CLOSE.PROTOCOL) this.end("PROTOCOL", "The server does not understand this page. Reload it.");
    // Only a loss without a close says something about the controller.
    if (code === null && !this.redirect && why) this.failure = reasonOf(why);
    this.setHint(null);
  }

  /** One attempt: asks where the meeting is, connects, joins. */
  async connect() {
    const admission = await this.whereabouts();
    const place = this.redirect ?? admission;
    this.redirect = null;
    let connection;
    try {
      connection = await this.dial(place);
    } catch (error) {
      this.failure = reasonOf(String(error.message));
      throw error;
    }
    this.joining = connection;
    try {
      await this.join(connection, admission);
      return connection;
    } catch (error) {
      const { code } = this.waits ? await connection.loss() : {};
      connection.close();
      if (code === CLOSE.KICKED) throw new Refusal("KICKED", "A host did not let you in.", true);
      throw error;
    } finally {
      this.joining = null;
      this.waits = false;
    }
  }

  /** The controller to dial, with a token. One that was lost is reported first, and the answer names the one to dial. */
  async whereabouts() {
    const { failure, admission } = this;
    this.failure = null;
    const home = failure && admission ? await this.api.unreachable(admission, { reason: failure }) : null;
    const usable = home && admission.until - Date.now() > TOKEN_LEFT;
    this.admission = usable ? { ...admission, ...home } : await this.admit();
    this.meetingId = this.admission.meetingId;
    return this.admission;
  }

  async admit() {
    try {
      return await this.api.admit();
    } catch (error) {
      if (error.code === "MEETING_ENDED") throw new Refusal("OVER", "The meeting is over. Its host can open it again.", true);
      // A participant that gets NOT_FOUND or closed for its own meeting knows that it ended.
      if (error.final && ["NOT_FOUND", "CONFLICT"].includes(error.code) && this.proof) throw new Refusal("OVER", "The meeting is over.", true);
      throw error;
    }
  }

  /** The request to join, or to resume. */
  joinRequest(admission, extra = {}) {
    const join = { meeting_id: admission.meetingId, join_token: admission.token, participant_name: this.name, attempt_id: this.attempt, ...extra };
    if (this.proof) Object.assign(join, { correlation_id: this.proof.correlation, binding_token: this.proof.token, last_event_seq: resumeFrom(this.view) });
    return { join_request: join, trace_parent: this.trace, seq: this.requests.nextSeq() };
  }

  async join(connection, admission) {
    connection.send(this.joinRequest(admission));
    let answer = await this.within(this.proof ? RESUME : JOIN, connection.next(), "no answer to the join");
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

  follow({ new_mc_endpoint, certificate_sha256 }) { this.redirect = { url: new_mc_endpoint, hashes: certificate_sha256 }; }

  refused({ code, message }) {
    const word = Object.keys(ErrorCode).find((name) => ErrorCode[name] === code) ?? "UNKNOWN";
    if (code === ErrorCode.MEETING_ENDED || (code === ErrorCode.NOT_FOUND && this.done)) return new Refusal("OVER", "The meeting is over.", true);
    if (code === ErrorCode.UNAUTHORIZED) {
      this.api.forget?.();
      return new Refusal(word, message, ++this.unauthorized >= 3);
    }
    const transient = [ErrorCode.NOT_FOUND, ErrorCode.MIGRATING, ErrorCode.RATE_LIMITED, ErrorCode.UNAVAILABLE, ErrorCode.INTERNAL_ERROR, ErrorCode.CONFLICT].includes(code);
    return new Refusal(word, message, !transient);
  }

  welcomed(message, moved = false) {
    const welcome = message.join_response;
    this.proof = { correlation: welcome.correlation_id, token: welcome.binding_token };
    this.attempt = crypto.randomUUID();
    this.unauthorized = 0;
    this.done = false;
    apply(this.view, message);
    this.requests.resumed(welcome);
    this.setHint(null);
    this.setState("live");
    this.on.change(message, moved ? "moved" : "welcome");
  }

  /** Sends a request; the promise resolves when it took effect. Without a connection it waits. */
  request(kind, payload = {}) {
    if (this.ended) return Promise.reject(new Refusal(this.ended.code, this.ended.message));
    return this.requests.add(kind, payload);
  }

  /** Sends a message that has no answer, if there is a connection. */
  notify(kind, payload) { this.connection?.send({ [kind]: payload, acknowledged_event_seq: this.view.seq }); }

  /** Leaves the meeting; after five seconds without an answer the page leaves anyway. */
  async leave() {
    if (this.joining) {
      this.end("LEFT", "You left.");
      return this.joining?.close();
    }
    await this.within(5_000, this.request("leave_request"), "no response").catch(() => {});
    this.left = true;
    this.end("LEFT", "You left the meeting.");
    this.connection?.close();
  }

  /** Exchanges messages until the connection ends, and returns how; null when the next connection is there. */
  async exchange(connection) {
    this.connection = connection;
    connection.watch(() => this.suspect());
    try {
      while (!this.parked?.ready) {
        const request = this.requests.next();
        if (request) connection.send({ [request.kind]: request.payload, seq: request.sent, acknowledged_event_seq: this.view.seq });
        const message = await connection.next(true);
        if (message) this.received(message, connection);
      }
      return null;
    } catch (error) {
      // This side gave the connection up for a reason of its own, or it is gone.
      if (error.code !== "LOST") return { code: null, why: "", final: ["OVER", "GAP"].includes(error.code) };
      const loss = await connection.loss();
      return { ...loss, final: [CLOSE.DONE, CLOSE.SUPERSEDED, CLOSE.KICKED, CLOSE.PROTOCOL].includes(loss.code) };
    } finally {
      this.connection = null;
    }
  }

  /** The controller is silent. Others may find it silent too: the API decides. */
  suspect() { if (this.admission) this.api.unreachable(this.admission, { reason: "TIMEOUT", suspect: true }); }

  received(message, connection) {
    const step = apply(this.view, message);
    if (message.event_seq > 0) {
      connection.setSeen(this.view.seq);
      if (this.hint === "paused") this.setHint(null);
    }
    // New media servers may be the answer to a request for grants.
    if (step === "answer" || message.media_servers_changed) {
      const over = this.requests.answered(message, (error) => this.refused(error));
      this.left ||= over?.kind === "leave_request" && !message.error;
    }
    this.moves(message);
    this.on.change(message, step);
    if (step === "redirect") {
      this.follow(message.redirect_to_mc);
      throw new Refusal("MOVED", "the meeting moved");
    }
    if (step === "gap" || step === "rewritten") throw new Refusal("GAP", "events are missing");
    if (this.view.over !== null) throw new Refusal("OVER", "the meeting is over");
  }

  /** What a controller says about a move, or about its store. */
  moves({ prepare_move, frozen, thawed, paused }) {
    if (prepare_move) {
      this.parked?.leave();
      const place = { url: prepare_move.new_mc_endpoint, hashes: prepare_move.certificate_sha256 };
      const request = () => this.joinRequest(this.admission, { move_ticket: prepare_move.move_ticket });
      this.parked = new ParkedJoin({ place, request, dial: this.dial, after: this.after, joined: () => this.connection?.wake() });
    }
    if (frozen) {
      this.requests.freeze();
      this.setHint("moving");
    }
    if (thawed) {
      this.parked?.leave();
      this.parked = null;
      this.setHint(null);
      this.requests.thaw();
    }
    if (paused) this.setHint("paused");
  }

  /** The controller is cut off from its store: another one may own the meeting by now. */
  async askOwner() {
    const known = this.admission;
    const found = await this.api.admit().catch(() => null);
    if (this.hint !== "paused" || this.ended) return;
    if (found && (Number(found.generation ?? 0) > Number(known.generation ?? 0) || found.mcId !== known.mcId)) {
      this.admission = found;
      this.redirect = found;
      return this.connection?.close();
    }
    this.cancelOwner = this.after(ASK_OWNER, () => this.askOwner());
  }
}
