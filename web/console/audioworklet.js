// In the audio thread: the voices of others are mixed and played, and what the microphone hears is cut into packets. Both
// talk to the media worker through a MessagePort.
import { JitterBuffer, RATE } from "./jitter.js";

/** Samples of a packet: 20 ms. */
const PACKET = 960;
/** How often the worker hears what is played, in samples. */
const REPORT = RATE / 20;
/** Voices that were silent for this long, in samples, are forgotten. */
const IDLE = RATE * 30;
const MAX_VOICES = 64;

class Playout extends AudioWorkletProcessor {
  constructor() {
    super();
    this.voices = new Map();
    this.at = 0;
    this.port.onmessage = ({ data }) => {
      this.worker = data.port;
      this.worker.onmessage = (message) => this.receive(message.data);
    };
  }

  receive({ id, packet, gone }) {
    if (gone) return void this.voices.delete(id);
    if (!this.voices.has(id)) {
      if (this.voices.size >= MAX_VOICES) return;
      this.voices.set(id, { buffer: new JitterBuffer(), last: this.at });
    }
    this.voices.get(id).buffer.push(packet);
  }

  process(_, [output]) {
    const [first, ...others] = output;
    for (const [id, voice] of this.voices) {
      if (voice.buffer.pull(first)) voice.last = this.at;
      else if (this.at - voice.last > IDLE) this.voices.delete(id);
    }
    for (const channel of others) channel.set(first);
    const before = Math.floor(this.at / REPORT);
    this.at += first.length;
    if (Math.floor(this.at / REPORT) !== before && this.worker) this.report(first);
    return true;
  }

  report(samples) {
    const loudness = Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
    const voices = [...this.voices].map(([id, { buffer }]) => ({ id, time: buffer.playing ? buffer.time : null, buffered: buffer.buffered / 48, target: buffer.target / 48, counts: buffer.counts }));
    this.worker.postMessage({ voices, loudness });
  }
}

class Capture extends AudioWorkletProcessor {
  constructor() {
    super();
    this.samples = new Float32Array(PACKET);
    this.filled = 0;
    this.at = 0;
    this.port.onmessage = ({ data }) => { this.worker = data.port; };
  }

  process([input]) {
    if (!input.length) return true;
    for (let index = 0; index < input[0].length; index++) {
      let sum = 0;
      for (const channel of input) sum += channel[index];
      this.samples[this.filled++] = sum / input.length;
      if (this.filled === PACKET) this.send();
    }
    return true;
  }

  send() {
    const { samples } = this;
    this.at += PACKET;
    this.filled = 0;
    this.samples = new Float32Array(PACKET);
    this.worker?.postMessage({ samples, timestamp: Math.round(((this.at - PACKET) / RATE) * 1e6) }, [samples.buffer]);
  }
}

registerProcessor("playout", Playout);
registerProcessor("capture", Capture);
