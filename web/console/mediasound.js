// Voices: packets of others put in order and decoded, and the own one encoded.
import { TrackClock } from "./mediaclock.js";
import { audioDatagram, SILENCE } from "./mediawire.js";

const RATE = 48_000;
/** A missing packet is waited for until so many later ones came. */
const REORDER = 3;
/** A greater step in the sequence is a new beginning. */
const LEAP = 200;
/** The length of a packet, in microseconds. */
const PACKET_US = 20_000;
/** A voice this soft for so many packets is silent: nothing is encoded but one packet in so many. The encoder's own DTX is
 *  off, because browsers leave its packets out without a word and count their timestamps wrongly afterwards. */
const QUIET_LEVEL = 65, QUIET_AFTER = 20, QUIET_EVERY = 20;
/** From this loss on, in thousandths, each packet carries the one before. */
const LOSSY = 20;
/** Packets in a decoder; those that give no sound are forgotten. */
const MAX_DECODING = 64, MAX_ENCODING = 50;
/** After so many packets a source runs evenly. */
const WARM_UP = 50;
const CONFIG = { codec: "opus", sampleRate: RATE, numberOfChannels: 1 };

/** Puts packets in order without doubles: pure but for what it remembers. */
export class PacketOrder {
  expected = null;
  #waiting = new Map();
  lost = 0;

  /** Adds a packet and returns those that are due, in order. A lost one that the next packet repeats is among them. */
  push(packet) {
    if (this.expected === null || Math.abs(packet.sequence - this.expected) > LEAP) {
      this.expected = packet.sequence;
      this.#waiting.clear();
    }
    if (packet.sequence < this.expected || this.#waiting.has(packet.sequence)) return [];
    this.#waiting.set(packet.sequence, packet);
    const due = [];
    while (this.#waiting.size) {
      const next = this.#waiting.get(this.expected) ?? this.#repeated();
      if (next) {
        this.#waiting.delete(next.sequence);
        due.push(next);
      } else if (this.#waiting.size <= REORDER) break;
      else this.lost++;
      this.expected++;
    }
    return due;
  }

  #repeated() {
    const after = this.#waiting.get(this.expected + 1);
    if (!after?.redundant.length) return null;
    return { ...after, sequence: this.expected, timestamp: after.timestamp - PACKET_US, payload: after.redundant, redundant: new Uint8Array(0) };
  }
}

/** The voice of one participant, on its way to the speakers. */
export class Voice {
  /** `play(packet)` takes decoded samples. */
  constructor({ track, play }) {
    Object.assign(this, { track, play });
    this.order = new PacketOrder();
    /** What is in the decoder, in order: browsers count its timestamps on from the first, whatever comes later. */
    this.decoding = [];
    this.level = SILENCE;
    this.levelAt = performance.now();
    this.packets = 0;
    this.open();
  }

  open() {
    this.decoder = new AudioDecoder({ output: (data) => this.decoded(data), error: () => this.open() });
    this.decoder.configure(CONFIG);
    this.decoding = [];
  }

  /** A handler described the track. A publisher that began again, as after every unmute, also counts from the beginning. */
  restart(track) {
    if (track.incarnation <= this.track.incarnation) return;
    this.track = track;
    this.order = new PacketOrder();
  }

  receive(packet) {
    this.packets++;
    this.level = packet.level;
    this.levelAt = performance.now();
    const arrived = performance.now();
    for (const one of this.order.push(packet)) {
      if (!one.payload.length) continue;
      this.decoding.push({ sequence: one.sequence, timestamp: one.timestamp, arrived });
      if (this.decoding.length > MAX_DECODING) this.decoding.shift();
      try {
        this.decoder.decode(new EncodedAudioChunk({ type: "key", timestamp: one.timestamp, duration: PACKET_US, data: one.payload }));
      } catch { this.open(); }
    }
  }

  decoded(data) {
    const from = this.decoding.shift();
    const samples = new Float32Array(data.numberOfFrames);
    data.copyTo(samples, { planeIndex: 0, format: "f32-planar" });
    data.close();
    if (from) this.play({ ...from, samples });
  }

  close() { try { this.decoder.close(); } catch { /* it is closed */ } }
}

/** How loud samples are, as on the wire: 0 is the loudest, 127 silence. */
export function levelOf(samples) {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  const loudness = Math.sqrt(sum / samples.length);
  return loudness > 0 ? Math.min(SILENCE, Math.max(0, Math.round(-20 * Math.log10(loudness)))) : SILENCE;
}

/** The own voice, or the sound of a shared screen: samples in, datagrams out. */
export class SoundSource {
  /** `send(name, bytes(alias))` sends a datagram on all sessions; `failed(error)` is called when the encoder gives up. */
  constructor({ name, port, bitrate, send, failed }) {
    Object.assign(this, { name, port, send });
    this.clock = new TrackClock();
    this.sequence = 0;
    this.count = 0;
    this.level = SILENCE;
    /** What is in the encoder, in order: browsers count timestamps on from the first, whatever comes later. */
    this.encoding = [];
    this.previous = new Uint8Array(0);
    this.quiet = 0;
    this.loss = 0;
    this.encoder = new AudioEncoder({ output: (chunk) => this.encoded(chunk), error: failed });
    this.encoder.configure({ ...CONFIG, bitrate, opus: { frameDuration: PACKET_US, application: "voip" } });
    port.onmessage = ({ data }) => this.heard(data);
  }

  heard({ samples, timestamp }) {
    if (this.encoder.state !== "configured") return;
    if (++this.count === WARM_UP) this.clock.restart();
    const time = this.clock.stamp(timestamp);
    this.level = levelOf(samples);
    this.quiet = this.level >= QUIET_LEVEL ? this.quiet + 1 : 0;
    if (this.quiet > QUIET_AFTER && this.quiet % QUIET_EVERY !== 0) return;
    this.encoding.push({ timestamp: time, level: this.level });
    if (this.encoding.length > MAX_ENCODING) this.encoding.shift();
    const data = new AudioData({ format: "f32-planar", sampleRate: RATE, numberOfFrames: samples.length, numberOfChannels: 1, timestamp: time, data: samples });
    this.encoder.encode(data);
    data.close();
  }

  encoded(chunk) {
    const { timestamp, level } = this.encoding.shift() ?? { timestamp: chunk.timestamp, level: this.level };
    const payload = new Uint8Array(chunk.byteLength);
    chunk.copyTo(payload);
    const redundant = this.loss > LOSSY ? this.previous : new Uint8Array(0);
    const packet = { sequence: this.sequence++, timestamp, level: level >= QUIET_LEVEL ? SILENCE : level, redundant, payload };
    this.previous = payload;
    this.send(this.name, (alias) => {
      try { return audioDatagram({ alias, ...packet }); } catch { return audioDatagram({ alias, ...packet, redundant: new Uint8Array(0) }); }
    });
  }

  close() {
    this.port.onmessage = null;
    this.port.close();
    try { this.encoder.close(); } catch { /* it is closed */ }
  }
}
