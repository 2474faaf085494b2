// One connection to a meeting controller: a WebTransport session and its one stream, with pings. It runs in a worker, because
// browsers slow down the timers of pages in the background and such a page must not look lost.
import { CLOSE, Frames, frame } from "./meetwire.js";

/** A dial ends after this time, in milliseconds. */
const DIAL = 1_500;
/** The controller is pinged when nothing was sent for this long, in milliseconds. */
const PING = 500;
/** After this much silence the controller is suspected, and after this much the connection is lost. */
const SUSPECT = 1_000, LOST = 2_000;
const TICK = 250;
/** How long the reason of a close may take after the stream broke, in milliseconds. */
const REASON = 1_000;

/** How long a controller has been silent, from the ticks of a timer. A tick that came late counts once: then this side stood
 *  still, and what the controller sent meanwhile may not have been read. */
export class Silence {
  #heard = true; #at; #silent = 0; #suspected = false;

  constructor(now) { this.#at = now; }

  hear() { this.#heard = true; }

  /** What a tick finds: nothing, `suspect` once, or `lost`. */
  tick(now) {
    const passed = Math.min(now - this.#at, 2 * TICK);
    this.#at = now;
    this.#silent = this.#heard ? 0 : this.#silent + passed;
    if (this.#heard) this.#suspected = false;
    this.#heard = false;
    if (this.#silent >= LOST) return "lost";
    if (this.#silent < SUSPECT || this.#suspected) return null;
    this.#suspected = true;
    return "suspect";
  }
}

export class Connection {
  /** `on` has message(message), suspect() and closed({ code, why }), which is called once. */
  constructor({ url, hashes }, on) {
    Object.assign(this, { url, hashes, on });
    this.seen = 0;
    this.sentAt = 0;
    this.over = false;
  }

  /** Connects. Throws when there is no connection in time. */
  async open() {
    const serverCertificateHashes = this.hashes.map((value) => ({ algorithm: "sha-256", value }));
    this.session = new WebTransport(this.url, this.hashes.length ? { serverCertificateHashes } : {});
    this.session.closed.catch(() => {}); // lost() reads it
    let timer;
    const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error("timeout: no connection in time")), DIAL); });
    try {
      const stream = await Promise.race([this.session.ready.then(() => this.session.createBidirectionalStream()), late]);
      this.writer = stream.writable.getWriter();
      this.read(stream.readable.getReader());
    } catch (error) {
      this.close();
      throw error;
    } finally { clearTimeout(timer); }
  }

  async read(reader) {
    const frames = new Frames();
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        this.silence?.hear();
        for (const message of frames.push(value)) this.on.message(message);
      }
      this.lost("the stream ended");
    } catch (error) { this.lost(String(error.message ?? error)); }
  }

  send(message) {
    if (this.over) return;
    this.sentAt = performance.now();
    this.writer.write(frame(message)).catch((error) => this.lost(String(error.message ?? error)));
  }

  /** From now on, pings and judges the silence of the controller. */
  watch() {
    this.silence = new Silence(performance.now());
    this.timer ??= setInterval(() => this.tick(performance.now()), TICK);
  }

  tick(now) {
    const found = this.silence.tick(now);
    if (found === "suspect") this.on.suspect();
    if (found === "lost") return void this.lost("timeout: no response", 0);
    if (now - this.sentAt >= PING) this.send({ ping: { nonce: 1 }, acknowledged_event_seq: this.seen });
  }

  /** The connection is gone. The code of a close may come a moment after the stream broke. */
  async lost(why, wait = REASON) {
    if (this.over) return;
    this.stop();
    const closed = this.session.closed.then(({ closeCode, reason }) => ({ code: closeCode ?? 0, why: reason || why }), () => ({ code: null, why }));
    const unknown = new Promise((done) => setTimeout(() => done({ code: null, why }), wait));
    const ending = await Promise.race([closed, unknown]);
    this.end();
    this.on.closed(ending);
  }

  stop() {
    this.over = true;
    clearInterval(this.timer);
  }

  close() {
    this.stop();
    this.end();
  }

  end() { try { this.session.close({ closeCode: CLOSE.DONE, reason: "done" }); } catch { /* it is closed */ } }
}
