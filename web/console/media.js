// The page's end of the media worker: devices go in, canvases and speakers come out.
import { scriptUrl } from "./meetscripts.js";
import { canReceive, canSend } from "./meetsupport.js";
import { MediaServerRole } from "./meetwire.js";

const RATE = 48_000;

/** Sends `levels`, `speaker`, `quality`, `active`, `status`, `grants`, `problem`, `silenced` with their data in `detail`. */
export class Media extends EventTarget {
  constructor() {
    super();
    this.tracks = {};
    this.shown = new Map();
    this.waiting = new Map();
    if (!canReceive()) return;
    this.worker = new Worker(scriptUrl("media"), { type: "module", name: "media" });
    this.worker.onmessage = ({ data }) => this.receive(data);
    this.worker.onerror = (event) => this.emit("problem", { words: `Picture and sound do not work: ${event.message ?? "the media worker failed"}` });
  }

  emit(kind, detail) { this.dispatchEvent(new CustomEvent(kind, { detail })); }
  tell(message, transfer = []) { this.worker?.postMessage(message, transfer); }

  receive(message) {
    if (message.kind !== "stats") return this.emit(message.kind, message);
    this.waiting.get(message.id)?.(message.stats);
    this.waiting.delete(message.id);
  }

  /** Opens the way to the speakers. Call it in a click: without one the browser keeps silent. */
  async start(output) {
    if (!this.worker || this.context) return;
    this.context = new AudioContext({ sampleRate: RATE, latencyHint: "interactive" });
    this.context.onstatechange = () => this.emit("silenced", { silenced: this.context?.state === "suspended" });
    this.context.resume().catch(() => {});
    this.emit("silenced", { silenced: this.context.state === "suspended" });
    await this.context.audioWorklet.addModule(scriptUrl("sound"));
    if (output) this.setOutput(output).catch(() => {});
    const playout = new AudioWorkletNode(this.context, "playout", { numberOfInputs: 0, outputChannelCount: [2] });
    playout.connect(this.context.destination);
    const { port1, port2 } = new MessageChannel();
    playout.port.postMessage({ port: port1 }, [port1]);
    this.tell({ kind: "speakers", port: port2 }, [port2]);
    this.ready = true;
    this.send(this.wantedTracks ?? {});
  }

  /** After a reload the browser wants a click before it plays sound. */
  resume() { this.context?.resume().catch(() => {}); }

  async setOutput(id) { await this.context?.setSinkId?.(id === "default" ? "" : id); }

  /** Addresses and grants from the controller. */
  setServers(servers) {
    const usable = servers.filter((server) => server.media_grant?.length);
    this.tell({ kind: "servers", servers: usable.map((server) => ({
      url: server.media_handler_url, hashes: server.certificate_sha256, grant: server.media_grant, role: server.role || MediaServerRole.PRIMARY })) });
  }

  /** Sends these tracks from now on: `{ audio, video, screen, screenAudio }`, null where nothing is sent. */
  send(tracks) {
    this.wantedTracks = tracks;
    if (!this.ready || !canSend()) return;
    for (const name of ["audio", "screenAudio"]) this.setSound(name, tracks[name] ?? null);
    for (const name of ["video", "screen"]) this.setPicture(name, tracks[name] ?? null);
  }

  setSound(name, track) {
    if (this.tracks[name]?.track === track || (!track && !this.tracks[name])) return;
    this.tracks[name]?.stop();
    this.tracks[name] = null;
    if (!track) return this.tell({ kind: "sound", name, port: null });
    const source = this.context.createMediaStreamSource(new MediaStream([track]));
    const capture = new AudioWorkletNode(this.context, "capture", { numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit" });
    const { port1, port2 } = new MessageChannel();
    capture.port.postMessage({ port: port1 }, [port1]);
    source.connect(capture);
    this.tell({ kind: "sound", name, port: port2 }, [port2]);
    this.tracks[name] = { track, stop: () => source.disconnect() };
  }

  setPicture(name, track) {
    if (this.tracks[name]?.track === track || (!track && !this.tracks[name])) return;
    this.tracks[name]?.stop();
    this.tracks[name] = null;
    if (!track) return this.tell({ kind: "picture", name, readable: null });
    this.tracks[name] = { track, stop: globalThis.MediaStreamTrackProcessor ? this.processTrack(name, track) : this.drawTrack(name, track) };
  }

  processTrack(name, track) {
    const { readable } = new MediaStreamTrackProcessor({ track, maxBufferSize: 2 });
    this.tell({ kind: "picture", name, readable }, [readable]);
    return () => {};
  }

  /** Where a track cannot be read, a video element shows it and its frames are taken from there. */
  drawTrack(name, track) {
    const video = Object.assign(document.createElement("video"), { muted: true, srcObject: new MediaStream([track]), playsInline: true });
    video.play().catch(() => {});
    this.tell({ kind: "picture", name, pushed: true });
    let over = false;
    const next = (now) => {
      if (over) return;
      const frame = new VideoFrame(video, { timestamp: Math.round(now * 1_000) });
      this.tell({ kind: "frame", name, frame }, [frame]);
      video.requestVideoFrameCallback(next);
    };
    video.requestVideoFrameCallback(next);
    return () => { over = true; video.srcObject = null; };
  }

  /** Shows these pictures: see Stage.watched(). A canvas is handed to the worker once. */
  watch(wanted) {
    if (!this.worker) return;
    const signature = JSON.stringify(wanted.map(({ canvas: _, ...rest }) => rest));
    const fresh = wanted.filter(({ key, canvas }) => this.shown.get(key)?.canvas !== canvas);
    if (!fresh.length && signature === this.signature) return;
    this.signature = signature;
    const transfer = [];
    const message = wanted.map(({ key, canvas, ...rest }) => {
      if (this.shown.get(key)?.canvas === canvas) return rest;
      this.shown.set(key, { canvas, participant: rest.participant, stream: rest.stream });
      transfer.push(canvas.transferControlToOffscreen());
      return { ...rest, canvas: transfer.at(-1) };
    });
    this.tell({ kind: "watch", wanted: message }, transfer);
  }

  /** A canvas is not shown again. */
  forget(key) {
    const known = this.shown.get(key);
    this.shown.delete(key);
    if (known) this.tell({ kind: "forget", participant: known.participant, stream: known.stream });
  }

  /** Everything that is counted: the details of the connection show it. */
  stats() {
    const id = crypto.randomUUID();
    return new Promise((done) => { this.waiting.set(id, done); this.tell({ kind: "stats", id }); });
  }

  close() {
    for (const name of Object.keys(this.tracks)) this.tracks[name]?.stop();
    this.tell({ kind: "close" });
    this.context?.close();
    this.context = null;
    this.worker = null;
  }
}
