// Meeting controllers inside the page, for tests of the page's participant: a test says what they answer and when time passes.
import { Participant } from "/meetclient.js";

class Connection {
  constructor(url) {
    Object.assign(this, { url, sent: [], inbox: [], seen: 0, closed: false });
    this.ended = new Promise((done) => { this.end = done; });
  }

  send(message) { this.sent.push(message); }
  setSeen(seq) { this.seen = seq; }
  watch(suspect) { this.suspect = suspect; }
  loss() { return this.ended; }
  close() { this.closed = true; this.lose({ code: null, why: "closed by this page" }); }
  wake() { const waiting = this.waiting; this.waiting = null; waiting?.(); }

  async next(idle = false) {
    for (;;) {
      if (this.inbox.length) return this.inbox.shift();
      if (this.broken) throw this.broken;
      await new Promise((done) => { this.waiting = done; });
      if (idle && !this.inbox.length && !this.broken) return null;
    }
  }

  /** The controller says something. */
  say(message) { this.inbox.push({ event_seq: 0, seq: 0, ...message }); this.wake(); }

  /** It ends. */
  lose(ending) {
    this.broken ??= Object.assign(new Error(ending.why), { code: "LOST" });
    this.end(ending);
    this.wake();
  }

  /** The last request to join, and what it may be answered with. */
  get join() { return this.sent.findLast((message) => message.join_request); }
  welcome(changes = {}) {
    const answer = { participant_id: "me", correlation_id: "c", binding_token: `from ${this.url}`, existing_participants: [], roster_size: 0, event_seq: 7, applied_seq: 0, resumed: Boolean(this.join.join_request.binding_token), replay: Boolean(this.join.join_request.binding_token), media_servers: [], ...changes };
    this.say({ join_response: answer, seq: this.join.seq });
  }

  /** What was said in chat, by the numbers of the requests. */
  get chats() { return this.sent.filter((message) => message.chat_request).map((message) => [message.seq, message.chat_request.text]); }
}

export class Scene {
  connections = []; dials = []; reports = []; states = []; hints = []; steps = []; timers = []; now = 0; refusing = new Set();
  home = null;
  admission = { meetingId: "m", token: "t", until: Date.now() + 3_600_000, mcId: "one", url: "one", hashes: [], generation: "1" };

  constructor() {
    this.participant = new Participant({
      name: "Ada", dial: (place) => this.dial(place), after: (ms, act) => this.after(ms, act),
      api: { admit: async () => ({ ...this.admission }), unreachable: async ({ mcId }, report) => { this.reports.push({ mcId, ...report }); return this.home; } },
      on: { state: (state) => this.states.push(state), hint: (hint) => this.hints.push(hint), change: (_, step) => this.steps.push(step), over: (ending) => { this.over = ending.code; } },
    });
    this.running = this.participant.run();
  }

  async dial({ url }) {
    this.dials.push(url);
    if (this.refusing.has(url)) throw new Error("refused");
    this.connections.push(new Connection(url));
    return this.connections.at(-1);
  }

  after(ms, act) {
    const timer = { at: this.now + ms, act };
    this.timers.push(timer);
    return () => { this.timers = this.timers.filter((one) => one !== timer); };
  }

  /** Time passes, and what is due happens. */
  async pass(ms) {
    this.now += ms;
    for (const timer of this.timers.filter(({ at }) => at <= this.now)) {
      this.timers = this.timers.filter((one) => one !== timer);
      timer.act();
    }
    await this.settle();
  }

  /** Lets everything happen that waits for nothing. */
  async settle() { for (let turn = 0; turn < 60; turn++) await null; }

  /** The last connection, once there are so many. */
  async connection(count) {
    await this.settle();
    if (this.connections.length < count) throw new Error(`${this.connections.length} connections, dialled ${this.dials}`);
    return this.connections[count - 1];
  }

  /** A participant that joined. */
  async joined() {
    const one = await this.connection(1);
    one.welcome();
    await this.settle();
    return one;
  }
}
