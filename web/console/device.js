// A client of the control protocol over a WebSocket: requests, broadcasts and frames. Reconnects automatically.

const RECONNECT_DELAYS = [1_000, 2_000, 4_000, 8_000, 16_000, 30_000];
/** Frames are dropped while this many bytes are unsent. */
const MAX_BUFFERED = 32_768;

/** An error response of the device; `code` is stable. */
export class DeviceError extends Error {
  constructor(error) {
    super(error.message);
    Object.assign(this, { code: error.code, error });
  }
}

export class Device {
  #socket = null; #next = 1; #pending = new Map(); #tries = 0; #timer = null; #on;

  /** `on` has the handlers state(name), broadcast(message), frame(bytes) and open(). */
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
    socket.onmessage = ({ data }) => (typeof data === "string" ? this.#receive(data) : this.#on.frame(new Uint8Array(data)));
    socket.onclose = () => this.#closed(socket);
  }

  #receive(data) {
    let message;
    try { message = JSON.parse(data); } catch { return console.warn("the device sent invalid JSON"); }
    const pending = this.#pending.get(message.requestId);
    if (!pending) return this.#on.broadcast(message);
    this.#pending.delete(message.requestId);
    if (message.success) pending.resolve(message.data); else pending.reject(new DeviceError(message.error));
  }

  #closed(socket) {
    if (socket !== this.#socket) return;
    this.#socket = null;
    for (const { reject } of this.#pending.values()) reject(new DeviceError({ code: "NETWORK", message: "connection lost" }));
    this.#pending.clear();
    this.#on.state("reconnecting");
    this.#timer = setTimeout(() => this.#open(), RECONNECT_DELAYS[Math.min(this.#tries++, RECONNECT_DELAYS.length - 1)] * (0.75 + Math.random() / 2));
  }

  /** Sends a command and resolves with the data of its reply. */
  request(type, fields = {}) {
    if (this.#socket?.readyState !== WebSocket.OPEN) return Promise.reject(new DeviceError({ code: "NETWORK", message: "not connected" }));
    const requestId = `r${this.#next++}`;
    this.#socket.send(JSON.stringify({ ...fields, type, requestId }));
    return new Promise((resolve, reject) => this.#pending.set(requestId, { resolve, reject }));
  }

  /** Sends a frame, unless too many bytes are unsent: a late frame is worth less than the next one. */
  frame(bytes) {
    if (this.#socket?.readyState !== WebSocket.OPEN || this.#socket.bufferedAmount > MAX_BUFFERED) return false;
    this.#socket.send(bytes);
    return true;
  }
}

const LEDS = 320;

/** Encodes a render stream frame, version 1. */
export function frame(sequence, pixels) {
  const bytes = new Uint8Array(16 + LEDS * 3);
  const view = new DataView(bytes.buffer);
  bytes.set([0x4b, 0x31, 0x46, 0x31, 1, 1]);
  view.setUint32(8, sequence, true);
  view.setUint16(12, LEDS, true);
  bytes.set(pixels, 16);
  return bytes;
}
