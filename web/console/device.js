// The device on the other side of a WebSocket: requests with their answers, news, frames. Reconnects by itself.

const WAITS = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
/** A socket with this much unsent takes no more frames. */
const FULL = 32_768;

/** Why the device did not do what was asked; `code` is the stable word. */
export class Refused extends Error {
  constructor(error) {
    super(error.message);
    Object.assign(this, { code: error.code, error });
  }
}

export class Device {
  #socket = null; #next = 1; #waiting = new Map(); #tries = 0; #timer = null; #on;

  /** `on`: state(word), news(message), frame(bytes), open(). */
  constructor(on) {
    this.#on = on;
    this.#open();
    addEventListener("online", () => this.#socket || this.#open());
  }

  #open() {
    clearTimeout(this.#timer);
    this.#on.state(this.#tries ? "reconnecting" : "connecting");
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    socket.onopen = () => { this.#tries = 0; this.#on.state("live"); this.#on.open(); };
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.#heard(data) : this.#on.frame(new Uint8Array(data)));
    socket.onclose = () => this.#closed(socket);
  }

  #heard(data) {
    let message;
    try { message = JSON.parse(data); } catch { return console.warn("the device said something that is no JSON"); }
    const waiting = this.#waiting.get(message.requestId);
    if (!waiting) return this.#on.news(message);
    this.#waiting.delete(message.requestId);
    if (message.success) waiting.done(message.data); else waiting.failed(new Refused(message.error));
  }

  #closed(socket) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    for (const { failed } of this.#waiting.values()) failed(new Refused({ code: "NETWORK", message: "the connection ended" }));
    this.#waiting.clear();
    this.#on.state("reconnecting");
    this.#timer = setTimeout(() => this.#open(), WAITS[Math.min(this.#tries++, WAITS.length - 1)] * (0.75 + Math.random() / 2));
  }

  /** Asks, and promises the answer. */
  ask(type, fields = {}) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Refused({ code: "NETWORK", message: "not connected" }));
    const requestId = `r${this.#next++}`;
    this.#socket.send(JSON.stringify({ ...fields, type, requestId }));
    return new Promise((done, failed) => this.#waiting.set(requestId, { done, failed }));
  }

  /** Sends a frame, unless the line is full: a late frame is worth less than the next one. */
  frame(bytes) {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.#socket.bufferedAmount > FULL) return false;
    this.#socket.send(bytes);
    return true;
  }
}

const LEDS = 320;

/** A frame of render stream version 1. */
export function frame(sequence, pixels) {
  const bytes = new Uint8Array(16 + LEDS * 3);
  const view = new DataView(bytes.buffer);
  bytes.set([0x4b, 0x31, 0x46, 0x31, 1, 1]);
  view.setUint32(8, sequence, true);
  view.setUint16(12, LEDS, true);
  bytes.set(pixels, 16);
  return bytes;
}
