// The jitter buffer of one voice: packets come in when the network likes, samples go out at a steady rate. It hides short
// gaps, follows the sender's clock by stretching time, and knows the timestamp of what is heard. No clock and no timers:
// the audio worklet runs it, and tests do.

export const RATE = 48_000;
const ms = (value) => (value * RATE) / 1_000;
/** How much is buffered before a voice begins: between these, in samples, by how unevenly packets come. */
const LEAST = ms(40), MOST = ms(120);
/** Gaps up to this are hidden by repeating what was heard, ever softer. */
const CONCEAL = ms(60);
/** What is repeated. */
const PERIOD = ms(10);
/** Beyond the target by so much, time is stretched: never by more than 2 %. */
const SLACK = ms(12), STRETCH = 0.02;
/** Where two pieces of sound fit together: lags to try, in samples, and how much of them is compared and blended. */
const LAGS = { from: ms(2.5), to: ms(10), step: 4 }, BLEND = ms(5);
/** More than this waits only after the page stood still: the oldest is dropped. */
const HOLD = ms(240);
/** Packets over which the unevenness is measured. */
const WINDOW = 100;

export class JitterBuffer {
  #samples = new Float32Array(RATE);
  #start = 0; #end = 0;
  #endTime = 0; #next = null; #target = LEAST; #arrivals = []; #playing = false; #hidden = 0; #heard = 0; #stretchAt = 0;
  #tail = new Float32Array(PERIOD);
  /** Samples that were made up because packets were lost or late; changes of pace; times that it ran dry. */
  counts = { concealed: 0, stretched: 0, dry: 0, dropped: 0 };

  get buffered() { return this.#end - this.#start; }
  get target() { return this.#target; }
  get playing() { return this.#playing; }
  /** The timestamp of what is heard now, in microseconds. */
  get time() { return this.#endTime - (this.buffered / RATE) * 1e6; }

  /** Adds a packet: its sequence and timestamp in microseconds, its samples, and when it arrived, in milliseconds. */
  push({ sequence, timestamp, samples, arrived }) {
    const contiguous = this.#next === null || sequence === this.#next;
    this.#next = sequence + 1;
    this.#measure(arrived - timestamp / 1_000);
    const jump = Math.round(((timestamp - this.#endTime) / 1e6) * RATE);
    if (this.buffered > 0 && jump > 0) this.#append(new Float32Array(Math.min(jump, CONCEAL)));
    // A voice that paused was not cut off; one that lost packets was.
    if (!contiguous || jump <= 0) this.counts.concealed += this.#hidden;
    this.#hidden = 0;
    this.#append(samples);
    this.#endTime = timestamp + (samples.length / RATE) * 1e6;
    if (this.buffered > HOLD) this.#drop(this.buffered - this.#target);
  }

  /** Fills the output and adds to what is there. Returns whether anything was heard. */
  pull(output) {
    if (!this.#playing) {
      if (this.buffered < this.#target) return false;
      this.#playing = true;
      this.#drop(this.buffered - this.#target);
    }
    this.#stretch();
    const count = Math.min(output.length, this.buffered);
    for (let index = 0; index < count; index++) output[index] += this.#samples[this.#start + index];
    if (count) this.#remember(count);
    this.#start += count;
    this.#heard += count;
    if (count < output.length) this.#conceal(output, count);
    return true;
  }

  #append(samples) {
    if (this.#end + samples.length > this.#samples.length) {
      this.#samples.copyWithin(0, this.#start, this.#end);
      this.#end -= this.#start;
      this.#start = 0;
    }
    const room = Math.min(samples.length, this.#samples.length - this.#end);
    this.#samples.set(samples.subarray(0, room), this.#end);
    this.#end += room;
  }

  #drop(count) {
    this.#start += Math.floor(count);
    this.counts.dropped += Math.floor(count);
  }

  /** The target is how unevenly packets came lately, and a packet more. */
  #measure(distance) {
    this.#arrivals.push(distance);
    if (this.#arrivals.length > WINDOW) this.#arrivals.shift();
    const sorted = [...this.#arrivals].sort((a, b) => a - b);
    const spread = sorted[Math.floor((sorted.length - 1) * 0.95)] - sorted[0];
    this.#target = Math.min(MOST, Math.max(LEAST, ms(spread + 20)));
  }

  #remember(count) {
    const from = Math.max(0, this.#start + count - PERIOD);
    const last = this.#samples.subarray(from, this.#start + count);
    if (last.length === PERIOD) this.#tail.set(last);
  }

  /** Repeats the end of what was heard, softer each time; after that the voice begins again with a full buffer. */
  #conceal(output, from) {
    for (let index = from; index < output.length; index++) {
      if (this.#hidden >= CONCEAL) {
        this.#playing = false;
        this.counts.dry++;
        return;
      }
      output[index] += this.#tail[this.#hidden % PERIOD] * (1 - this.#hidden / CONCEAL);
      this.#hidden++;
    }
  }

  /** Leaves out or repeats a piece of a few milliseconds, blended so that it is not heard. */
  #stretch() {
    const excess = this.buffered - this.#target;
    if (Math.abs(excess) < SLACK || this.#heard < this.#stretchAt || this.buffered < LAGS.to + BLEND) return;
    const at = this.#start, lag = this.#bestLag(at);
    const fade = (index) => index / BLEND;
    if (excess > 0) {
      for (let index = 0; index < BLEND; index++) this.#samples[at + lag + index] = this.#samples[at + index] * (1 - fade(index)) + this.#samples[at + lag + index] * fade(index);
      this.#start += lag;
    } else {
      if (at < lag) return;
      // The piece before the one that comes next is heard again.
      for (let index = 0; index < BLEND; index++) this.#samples[at - lag + index] = this.#samples[at + index] * (1 - fade(index)) + this.#samples[at - lag + index] * fade(index);
      this.#start -= lag;
    }
    this.counts.stretched++;
    this.#stretchAt = this.#heard + lag / STRETCH;
  }

  #bestLag(at) {
    let best = LAGS.from, most = -Infinity;
    for (let lag = LAGS.from; lag <= LAGS.to; lag += LAGS.step) {
      let product = 0, energy = 1e-9;
      for (let index = 0; index < BLEND; index += 2) {
        product += this.#samples[at + index] * this.#samples[at + lag + index];
        energy += this.#samples[at + lag + index] ** 2;
      }
      const likeness = product / Math.sqrt(energy);
      if (likeness > most) [best, most] = [lag, likeness];
    }
    return best;
  }
}
