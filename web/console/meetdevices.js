// Camera, microphone and screen of this page: turned on and off, chosen, and lost.
import { canSend } from "./meetsupport.js";

const KINDS = { audio: "microphone", video: "camera" };
const CHOSEN = "meet-devices";
const SOUND = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
/** What is asked of a camera, by the quality that the user chose. */
const PICTURE = {
  standard: { width: { ideal: 1280 }, height: { ideal: 720 }, frameRate: { ideal: 30 } },
  low: { width: { ideal: 640 }, height: { ideal: 360 }, frameRate: { ideal: 15 } },
};

const WHY = {
  NotAllowedError: (name) => `The browser does not let this page use the ${name}. Allow it in the address bar and try again.`,
  NotFoundError: (name) => `There is no ${name}.`,
  NotReadableError: (name) => `Another program uses the ${name}.`,
  OverconstrainedError: (name) => `The chosen ${name} is not there.`,
  EncodingError: (name) => `This browser cannot encode picture and sound, so the ${name} stays off.`,
};

/** Sends `change` when anything is different, and `problem` with a sentence in `detail`. */
export class Devices extends EventTarget {
  /** Live tracks, by what they are. */
  tracks = { audio: null, video: null, screen: null, screenAudio: null };
  /** Whether the user wants to be heard and seen; true only with a live track. */
  on = { audio: false, video: false };

  constructor() {
    super();
    try { this.chosen = JSON.parse(localStorage.getItem(CHOSEN)) ?? {}; } catch { this.chosen = {}; }
    navigator.mediaDevices?.addEventListener("devicechange", () => this.changed());
  }

  get supported() { return Boolean(navigator.mediaDevices?.getUserMedia); }
  get canShare() { return Boolean(navigator.mediaDevices?.getDisplayMedia); }
  get quality() { return this.chosen.quality === "low" ? "low" : "standard"; }

  changed() { this.dispatchEvent(new Event("change")); }
  problem(words) { this.dispatchEvent(new CustomEvent("problem", { detail: words })); }

  /** Keeps a choice for the next time: a device by its kind, or the quality. */
  choose(kind, value) {
    this.chosen[kind] = value;
    try { localStorage.setItem(CHOSEN, JSON.stringify(this.chosen)); } catch { /* storage is switched off: not kept */ }
  }

  /** Turns the microphone or the camera on. Returns whether it is; a failure has its sentence. */
  async turnOn(kind) {
    try {
      if (!canSend()) throw new DOMException("", "EncodingError");
      if (!this.tracks[kind]) this.take(kind, await this.open(kind));
      this.tracks[kind].enabled = true;
      this.on[kind] = true;
      return true;
    } catch (error) {
      this.on[kind] = false;
      this.problem(this.supported ? WHY[error.name]?.(KINDS[kind]) ?? `The ${KINDS[kind]} did not start: ${error.message}` : `This browser gives no access to a ${KINDS[kind]} here.`);
      return false;
    } finally { this.changed(); }
  }

  async open(kind) {
    const wanted = kind === "audio" ? SOUND : PICTURE[this.quality];
    const id = this.chosen[kind];
    const ask = (constraints) => navigator.mediaDevices.getUserMedia({ [kind]: constraints });
    let stream;
    try {
      stream = await ask(id ? { ...wanted, deviceId: { exact: id } } : wanted);
    } catch (error) {
      // The chosen one was unplugged: any other is better than none.
      if (!id || !["OverconstrainedError", "NotFoundError"].includes(error.name)) throw error;
      stream = await ask(wanted);
    }
    return stream.getTracks()[0];
  }

  take(kind, track) {
    this.tracks[kind]?.stop();
    this.tracks[kind] = track;
    track.addEventListener("ended", () => {
      if (this.tracks[kind] !== track) return;
      this.tracks[kind] = null;
      if (kind in this.on) {
        this.on[kind] = false;
        this.problem(`The ${KINDS[kind]} is gone. Choose another one.`);
      } else if (kind === "screen") this.stopSharing();
      this.changed();
    });
  }

  /** Turns it off. The camera's light goes out; a microphone that is kept records nothing. */
  turnOff(kind) {
    this.on[kind] = false;
    if (kind === "audio" && this.tracks.audio) this.tracks.audio.enabled = false;
    else this.stop(kind);
    this.changed();
  }

  /** Changes to another device, also in the meeting. */
  async use(kind, id) {
    this.choose(kind, id);
    if (!this.tracks[kind]) return this.changed();
    const was = this.on[kind];
    this.stop(kind);
    if (was) await this.turnOn(kind);
    else this.changed();
  }

  /** Lets the user choose what of the screen to share. Returns whether it is shared. */
  async share() {
    try {
      const stream = await navigator.mediaDevices.getDisplayMedia({ video: { frameRate: { max: 15 } }, audio: { restrictOwnAudio: true, suppressLocalAudioPlayback: false } });
      for (const track of stream.getTracks()) this.take(track.kind === "video" ? "screen" : "screenAudio", track);
    } catch (error) {
      // Closing the browser's dialog is an answer, not a failure.
      if (error.name !== "NotAllowedError") this.problem(`The screen cannot be shared: ${error.message}`);
    }
    this.changed();
    return Boolean(this.tracks.screen);
  }

  stopSharing() {
    for (const kind of ["screen", "screenAudio"]) this.stop(kind);
    this.changed();
  }

  stop(kind) {
    const track = this.tracks[kind];
    this.tracks[kind] = null;
    track?.stop();
  }

  /** Stops all tracks as the page goes away. What was on is kept for a reload. */
  release() {
    for (const kind of Object.keys(this.tracks)) this.stop(kind);
  }

  /** Stops everything, for the end of a meeting. */
  stopAll() {
    this.release();
    Object.assign(this.on, { audio: false, video: false });
    this.changed();
  }

  /** The devices of a kind (audioinput, videoinput, audiooutput), with names once the user allowed one. */
  async list(kind) {
    const all = (await navigator.mediaDevices?.enumerateDevices?.()) ?? [];
    return all.filter((device) => device.kind === kind).map((device, index) => ({ id: device.deviceId, name: device.label || `${kind === "videoinput" ? "Camera" : "Device"} ${index + 1}` }));
  }

  /** Whether the browser would not ask. */
  async allowed(kind) {
    try { return (await navigator.permissions.query({ name: KINDS[kind] })).state === "granted"; } catch { return false; }
  }
}
