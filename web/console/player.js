// Plays one session in a video element: follows its state, starts playback when it is ready, and sends heartbeats.
import Hls from "./hls.light.min.mjs";
import { tvBeat, tvSession } from "./api.js";

/** Used until the server announces its interval. */
const BEAT = 20_000;
const RETRY = 1_000;

export class Player {
  #video; #listener; #id = null; #source = null; #hls = null; #beat = null; #timer = null; #interval = null;

  /** `change(session)` is called when the session changes, `picture(state, message)` when playback changes. */
  constructor(video, listener) {
    this.#video = video;
    this.#listener = listener;
    video.addEventListener("playing", () => this.#id && listener.picture("playing"));
    video.addEventListener("waiting", () => this.#id && this.#hls && listener.picture("waiting", "Buffering…"));
    addEventListener("pagehide", () => this.leave());
  }

  watch(id) {
    if (id === this.#id) return;
    this.leave();
    this.#id = id;
    this.#follow();
  }

  /** Stops playback. The session continues for other viewers. */
  leave() {
    this.#id = null;
    this.#source?.close();
    this.#hls?.destroy();
    clearInterval(this.#beat);
    clearTimeout(this.#timer);
    this.#source = this.#hls = this.#beat = this.#interval = null;
    if (this.#video.hasAttribute("src") || this.#video.srcObject || this.#video.currentSrc) {
      this.#video.removeAttribute("src");
      this.#video.load();
    }
  }

  #follow() {
    this.#source?.close();
    const id = this.#id, source = (this.#source = new EventSource(`/api/v3/sessions/${id}/events`));
    const receive = (message) => { try { this.#update(id, JSON.parse(message.data)); } catch { /* a keep-alive */ } };
    for (const name of ["message", "state", "session"]) source.addEventListener(name, receive);
    source.onerror = () => { if (source === this.#source) this.#query(id); };
  }

  /** An EventSource hides why it failed, so the session is requested directly. */
  async #query(id) {
    this.#source?.close();
    this.#source = null;
    try {
      this.#update(id, await tvSession(id));
    } catch (refusal) {
      if (id !== this.#id || refusal.status === 401) return;
      if (refusal.status === 404) return this.#update(id, { state: "STOPPED", reason: "R_PROCESS_ENDED" });
    }
    if (id !== this.#id) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => id === this.#id && this.#follow(), RETRY);
  }

  #update(id, session) {
    if (id !== this.#id || !session.state) return;
    this.#listener.change({ sessionId: id, ...session });
    if (id !== this.#id) return;
    const interval = (session.heartbeatIntervalSeconds ?? 0) * 1_000 || BEAT;
    if (interval !== this.#interval) this.#startHeartbeat(id, (this.#interval = interval));
    if ((session.state === "READY" || session.state === "DRAINING") && !this.#hls) this.#play(id, session.playbackUrl ?? `/api/v3/sessions/${id}/hls/index.m3u8`);
  }

  /** Sends heartbeats at the server's interval. */
  #startHeartbeat(id, interval) {
    clearInterval(this.#beat);
    const beat = async () => {
      try { await tvBeat(id); } catch (refusal) { if (id === this.#id && (refusal.status === 410 || refusal.status === 404)) this.#query(id); }
    };
    this.#beat = setInterval(beat, interval);
    beat();
  }

  #play(id, url) {
    if (!Hls.isSupported()) {
      // Safari on iOS plays HLS natively.
      if (!this.#video.canPlayType("application/vnd.apple.mpegurl")) return this.#listener.picture("waiting", "This browser cannot play the stream.");
      this.#hls = { destroy() {} };
      this.#video.src = url;
      return this.#startPlayback();
    }
    const hls = (this.#hls = new Hls({ enableWorker: false, backBufferLength: 30, liveSyncDurationCount: 2, liveMaxLatencyDurationCount: 6 }));
    hls.on(Hls.Events.MANIFEST_PARSED, () => this.#startPlayback());
    let recovered = 0;
    hls.on(Hls.Events.ERROR, (_, { fatal, type, details }) => {
      if (!fatal || id !== this.#id) return;
      if (type === Hls.ErrorTypes.MEDIA_ERROR && recovered++ < 3) return hls.recoverMediaError();
      this.#listener.picture("waiting", `The stream was interrupted (${details}); retrying…`);
      hls.destroy();
      this.#hls = null;
      this.#query(id);
    });
    hls.loadSource(url);
    hls.attachMedia(this.#video);
  }

  async #startPlayback() {
    try { await this.#video.play(); } catch (error) {
      if (error.name !== "NotAllowedError") return;
      // Browsers block sound until the user has interacted with the page.
      this.#video.muted = true;
      try { await this.#video.play(); } catch { /* starts with the next interaction */ }
    }
  }
}
