// One session in one video element: follows its life, plays it when it is ready, and says that somebody watches.
import Hls from "./hls.light.min.mjs";
import { tvBeat, tvSession } from "./api.js";

/** Until the server says how often. */
const BEAT = 20_000;
const RETRY = 1_000;

export class Player {
  #video; #tell; #id = null; #source = null; #hls = null; #beat = null; #timer = null; #interval = null;

  /** `change(session)` hears what becomes of the session, `picture(state, words)` what becomes of the picture. */
  constructor(video, tell) {
    this.#video = video;
    this.#tell = tell;
    video.addEventListener("playing", () => this.#id && tell.picture("playing"));
    video.addEventListener("waiting", () => this.#id && this.#hls && tell.picture("waiting", "The picture is catching up…"));
    addEventListener("pagehide", () => this.leave());
  }

  watch(id) {
    if (id === this.#id) return;
    this.leave();
    this.#id = id;
    this.#follow();
  }

  /** Lets go. The session goes on: others may watch it. */
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
    const news = (message) => { try { this.#heard(id, JSON.parse(message.data)); } catch { /* a sign of life */ } };
    for (const name of ["message", "state", "session"]) source.addEventListener(name, news);
    source.onerror = () => { if (source === this.#source) this.#ask(id); };
  }

  /** An EventSource hides why it failed; a plain request says what became of the session. */
  async #ask(id) {
    this.#source?.close();
    this.#source = null;
    try {
      this.#heard(id, await tvSession(id));
    } catch (refusal) {
      if (id !== this.#id || refusal.status === 401) return;
      if (refusal.status === 404) return this.#heard(id, { state: "STOPPED", reason: "R_PROCESS_ENDED" });
    }
    if (id !== this.#id) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => id === this.#id && this.#follow(), RETRY);
  }

  #heard(id, session) {
    if (id !== this.#id || !session.state) return;
    this.#tell.change({ sessionId: id, ...session });
    if (id !== this.#id) return;
    const interval = (session.heartbeatIntervalSeconds ?? 0) * 1_000 || BEAT;
    if (interval !== this.#interval) this.#keep(id, (this.#interval = interval));
    if ((session.state === "READY" || session.state === "DRAINING") && !this.#hls) this.#play(id, session.playbackUrl ?? `/api/v3/sessions/${id}/hls/index.m3u8`);
  }

  /** Says that somebody watches, as often as the server wants to hear it. */
  #keep(id, interval) {
    clearInterval(this.#beat);
    const beat = async () => {
      try { await tvBeat(id); } catch (refusal) { if (id === this.#id && (refusal.status === 410 || refusal.status === 404)) this.#ask(id); }
    };
    this.#beat = setInterval(beat, interval);
    beat();
  }

  #play(id, url) {
    if (!Hls.isSupported()) {
      // Safari on telephones plays such lists by itself.
      if (!this.#video.canPlayType("application/vnd.apple.mpegurl")) return this.#tell.picture("waiting", "This browser cannot play the picture.");
      this.#hls = { destroy() {} };
      this.#video.src = url;
      return this.#roll();
    }
    const hls = (this.#hls = new Hls({ enableWorker: false, backBufferLength: 30, liveSyncDurationCount: 2, liveMaxLatencyDurationCount: 6 }));
    hls.on(Hls.Events.MANIFEST_PARSED, () => this.#roll());
    let recovered = 0;
    hls.on(Hls.Events.ERROR, (_, { fatal, type, details }) => {
      if (!fatal || id !== this.#id) return;
      if (type === Hls.ErrorTypes.MEDIA_ERROR && recovered++ < 3) return hls.recoverMediaError();
      this.#tell.picture("waiting", `The picture was interrupted (${details}); trying again…`);
      hls.destroy();
      this.#hls = null;
      this.#ask(id);
    });
    hls.loadSource(url);
    hls.attachMedia(this.#video);
  }

  async #roll() {
    try { await this.#video.play(); } catch (error) {
      if (error.name !== "NotAllowedError") return;
      // Browsers keep sound back until somebody has pressed something on the page.
      this.#video.muted = true;
      try { await this.#video.play(); } catch { /* the next press plays it */ }
    }
  }
}
