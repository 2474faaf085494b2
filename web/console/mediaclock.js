// The clock of what is sent. All tracks of a sender share it, so that receivers can keep lips and voice together.

/** Over this time, in microseconds, the smallest distance counts: the one of a frame that was not held up. */
const WINDOW_US = 5_000_000;
const SLOTS = 5;

export const nowUs = () => Math.round(performance.now() * 1_000);

/** Moves the timestamps of a track, which begin anywhere, onto the clock of performance.now(). */
export class TrackClock {
  #slots = [];
  #last = -1;

  /** Forgets what was measured so far: the first moments of a source may be out of step with the rest. */
  restart() { this.#slots = []; }

  /** The time of a frame with this timestamp of its own that was seen at `now`. Never goes back. */
  stamp(timestamp, now = nowUs()) {
    const slot = Math.floor(now / (WINDOW_US / SLOTS));
    if (this.#slots.at(-1)?.slot !== slot) this.#slots.push({ slot, least: Infinity });
    this.#slots = this.#slots.filter((one) => one.slot > slot - SLOTS);
    const current = this.#slots.at(-1);
    current.least = Math.min(current.least, now - timestamp);
    const offset = Math.min(...this.#slots.map((one) => one.least));
    this.#last = Math.max(this.#last + 1, Math.round(timestamp + offset));
    return this.#last;
  }
}
