// Live updates. Events only trigger a refresh of the list. The stream is opened before the list is requested, so no change
// is missed, and after every reconnect the list is requested again.
import { Refusal, watchUrl, whoami } from "./api.js";

const VERBS = ["granted", "released", "expired", "transferred", "revoked", "superseded", "wiped", "holder_died", "gone"];
const FIRST_WAIT = 400;
const LONGEST_WAIT = 5_000;
/** A hidden page closes its stream after this time: browsers allow few connections per server. */
const UNSEEN = 30_000;

/** Runs `work` on request, never twice at once. Requests during a run lead to one more run, with growing intervals. */
export function paced(work) {
  const least = 120, most = 1_200;
  let running = false, again = false, gap = least, last = -Infinity, timer = null;
  async function run() {
    timer = null;
    running = true;
    last = performance.now();
    try { await work(); } finally { running = false; }
    if (again) { again = false; ask(); }
  }
  function ask() {
    if (running) return void (again = true);
    if (timer !== null) return;
    const calm = performance.now() - last;
    gap = calm > most ? least : Math.min(most, gap * 1.3);
    timer = setTimeout(run, Math.max(0, gap - calm));
  }
  ask.stop = () => { clearTimeout(timer); again = false; timer = -1; };
  return ask;
}

/** One stream of changes under a prefix that outlives restarts of the server. */
export class Live {
  #source = null; #prefix = null; #last = null; #failures = 0; #timer = null; #fresh = false; #tell; #onEvent; #onResync; #onSignedOut;

  constructor({ onState, onEvent, onResync, onSignedOut }) {
    this.#tell = onState; this.#onEvent = onEvent; this.#onResync = onResync; this.#onSignedOut = onSignedOut;
    addEventListener("online", () => this.nudge());
    let unseen;
    document.addEventListener("visibilitychange", () => {
      clearTimeout(unseen);
      if (document.hidden) unseen = setTimeout(() => this.#close(), UNSEEN);
      else this.nudge();
    });
    addEventListener("pagehide", () => this.#close());
    addEventListener("pageshow", (event) => event.persisted && this.nudge());
  }

  /** Watches another prefix from now on. */
  watch(prefix) {
    if (prefix === this.#prefix && this.#source) return;
    this.#close();
    [this.#prefix, this.#last, this.#failures] = [prefix, null, 0];
    this.#tell("connecting");
    this.#open();
  }

  stop() {
    this.#close();
    this.#prefix = null;
  }

  /** Tries at once when a retry is pending. */
  nudge() {
    if (this.#prefix !== null && !this.#source) this.#retry();
  }

  /** The first list after opening: a revision below the resume point means that the store was reset, so start over. */
  listed(revision) {
    if (this.#fresh && Number(this.#last) > Number(revision)) {
      this.#last = null;
      this.#open();
    }
    this.#fresh = false;
  }

  /** Another call got no response: the stream may be half open. */
  doubt() {
    if (this.#source) this.#failed(this.#source);
  }

  #close() {
    this.#source?.close();
    this.#source = null;
    clearTimeout(this.#timer);
  }

  #open() {
    this.#close();
    const source = (this.#source = new EventSource(watchUrl(this.#prefix, this.#last)));
    source.onopen = () => {
      this.#failures = 0;
      this.#fresh = true;
      this.#tell("live");
      this.#onResync();
    };
    source.onerror = () => this.#failed(source);
    for (const verb of VERBS) source.addEventListener(verb, (message) => this.#received(verb, message));
    source.addEventListener("lagged", () => {
      this.#last = null;
      this.#onResync();
    });
  }

  #received(verb, message) {
    if (message.lastEventId) this.#last = message.lastEventId;
    let data = {};
    try { data = JSON.parse(message.data); } catch { /* a change without details still triggers a refresh */ }
    this.#onEvent({ verb, key: data.key, holder: data.holder ?? "", generation: data.generation ?? "" });
  }

  #failed(source) {
    if (source !== this.#source) return;
    // Refused rather than interrupted, perhaps because of the resume point: start without one.
    if (source.readyState === EventSource.CLOSED) this.#last = null;
    this.#close();
    const wait = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** this.#failures++) * (0.75 + Math.random() / 2);
    this.#tell("reconnecting");
    this.#timer = setTimeout(() => this.#retry(), wait);
  }

  /** An EventSource hides why it failed; a plain request shows whether the user is signed out or offline. */
  async #retry() {
    clearTimeout(this.#timer);
    const prefix = this.#prefix;
    const marker = (this.#source = { close() {} });
    try {
      await whoami();
    } catch (error) {
      if (this.#source !== marker) return;
      if (error instanceof Refusal && error.status === 401) return this.#onSignedOut();
      if (error instanceof Refusal && error.status !== 404) return this.#failed(marker);
    }
    if (this.#source !== marker || prefix !== this.#prefix) return;
    // Requests work but the stream does not: show that, and rely on the regular refresh.
    if (this.#failures > 3) this.#tell("polling");
    this.#open();
  }
}
