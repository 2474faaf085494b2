// The media of a meeting, as the worker runs it: sources on the way out, pictures and voices on the way in.
import { PictureSource } from "./mediacamera.js";
import { keyOf, MediaLink } from "./medialink.js";
import { Picture } from "./mediapicture.js";
import { SoundSource, Voice } from "./mediasound.js";
import { StreamType } from "./meetschema.js";

/** Streams of a participant, by their number at the controller and at the handler. */
export const STREAMS = { audio: "1", video: "2", screen: "3", screenAudio: "4" };
const BITRATE = { audio: 32_000, screenAudio: 96_000 };
/** The level of voices is shown this often, in milliseconds, and fades after this time. */
const LEVELS = 100, FADE = 400;
const PUMP = 40;
/** A voice without a packet for this long, in milliseconds, is forgotten. */
const VOICE_LIFE = 60_000;
/** Below this distance, in dB, a voice is loud; this is how loud the softest shown one is. */
const SOFTEST = 60;

export class MediaEngine {
  /** `tell(message)` goes to the page. */
  constructor(tell) {
    this.tell = tell;
    this.sources = new Map();
    this.pictures = new Map();
    this.canvases = new Map();
    this.voices = new Map();
    this.voiceTimes = new Map();
    this.muted = { audio_muted: false, video_muted: false };
    this.loudness = 0;
    this.link = new MediaLink({
      group: (group) => this.pictureOf(group.track)?.group(group),
      frames: (group, frames) => this.pictures.get(keyOf(group.track))?.frames(group, frames),
      groupEnd: (group) => this.pictures.get(keyOf(group.track))?.groupEnd(group),
      datagram: (packet, track) => this.voiceOf(track).receive(packet),
      event: (kind, payload, session, name) => this.event(kind, payload, session, name),
      active: (session) => this.activeChanged(session),
      needGrants: () => tell({ kind: "grants" }),
      status: (statuses) => tell({ kind: "status", statuses }),
      published: (name) => this.sources.get(name)?.needKey?.(0),
      refused: (name, error) => tell({ kind: "refused", name, words: error.message }),
    });
    this.subscribe([]);
    this.timers = [setInterval(() => this.showLevels(), LEVELS), setInterval(() => this.report(), 1_000), setInterval(() => this.pictures.forEach((picture) => picture.pump()), PUMP)];
  }

  setServers(servers) { this.link.setServers(servers); }

  /** What this page shows: `{ key, participant, stream, screen, rendition, priority, canvas? }` each. */
  watch(wanted) {
    for (const { participant, stream, canvas } of wanted) {
      if (!canvas) continue;
      const key = keyOf({ participant_id: participant, stream_id: stream });
      this.canvases.set(key, canvas);
      this.pictures.get(key)?.show(canvas);
    }
    this.subscribe(wanted.map(({ participant, stream, screen, rendition, priority }) => ({
      key: keyOf({ participant_id: participant, stream_id: stream }), participant_id: participant, stream_id: stream,
      type: screen ? StreamType.SCREEN : StreamType.VIDEO, max_rendition: rendition, priority,
    })));
  }

  /** The canvas of a stream is not shown again. */
  forget(participant, stream) { this.canvases.delete(keyOf({ participant_id: participant, stream_id: stream })); }

  subscribe(pictures) {
    const all = { key: "voices", participant_id: "", stream_id: "", type: StreamType.AUDIO, priority: 250 };
    this.link.subscribe([all, ...pictures]);
    const keys = new Set(pictures.map(({ key }) => key));
    for (const [key, picture] of this.pictures) {
      if (keys.has(key)) continue;
      picture.close();
      this.pictures.delete(key);
    }
  }

  pictureOf(track) {
    const key = keyOf(track);
    if (!this.link.subscriptions.has(key)) return null;
    if (!this.pictures.has(key)) {
      const picture = new Picture({ track, audioTime: () => this.voiceTime(track.participant_id), needKey: () => this.link.requestKeyframe(track, 0), unsupported: () => this.tell({ kind: "unsupported", participant: track.participant_id, codec: track.codec }) });
      picture.show(this.canvases.get(key));
      this.pictures.set(key, picture);
    }
    return this.pictures.get(key);
  }

  voiceOf(track) {
    const key = keyOf(track);
    if (!this.voices.has(key)) {
      const voice = new Voice({ track, play: (packet) => this.speakers?.postMessage({ id: key, packet }, [packet.samples.buffer]) });
      voice.participant = track.participant_id;
      this.voices.set(key, voice);
    }
    return this.voices.get(key);
  }

  /** The timestamp that a participant's voice is at, or null while it is silent. */
  voiceTime(participant) {
    const known = this.voiceTimes.get(keyOf({ participant_id: participant, stream_id: STREAMS.audio }));
    if (!known || known.time === null || performance.now() - known.at > 200) return null;
    return known.time + (performance.now() - known.at) * 1_000;
  }

  /** The port to the worklet that plays voices. */
  setSpeakers(port) {
    this.speakers = port;
    port.onmessage = ({ data }) => {
      this.loudness = data.loudness;
      const at = performance.now();
      for (const voice of data.voices) this.voiceTimes.set(voice.id, { ...voice, at });
    };
  }

  /** Begins to send a picture, or changes its source. */
  setPicture(name, readable) {
    const source = this.sources.get(name);
    if (!readable) return this.stop(name);
    if (source) return void source.replace(readable);
    const next = new PictureSource({ name, streamId: STREAMS[name], screen: name === "screen", link: this.link, problem: (words) => this.tell({ kind: "problem", words }) });
    next.muted = this.muted.video_muted;
    this.sources.set(name, next);
    next.read(readable);
  }

  /** Begins to send sound from a worklet's port. */
  setSound(name, port) {
    this.stop(name);
    if (!port) return;
    this.link.publish(name, { stream_id: STREAMS[name], type: StreamType.AUDIO, codec: "opus", renditions: [], temporal_layers: 1, incarnation: Date.now() });
    this.sources.set(name, new SoundSource({ name, port, bitrate: BITRATE[name], send: (source, make) => this.sendSound(source, make), failed: (error) => this.tell({ kind: "problem", words: `This browser cannot encode the sound, so others do not hear it: ${error.message}` }) }));
  }

  stop(name) {
    const source = this.sources.get(name);
    if (!source) return;
    this.sources.delete(name);
    source.close();
    this.link.unpublish(name);
  }

  /** Sound goes to all sessions, so that a change of handlers is not heard. */
  sendSound(name, make) {
    if (this.muted.audio_muted) return;
    for (const session of this.link.sessions) {
      const alias = session.isOpen && session.aliases.get(name);
      if (alias) session.sendDatagram(make(alias));
    }
  }

  event(kind, payload, session, name) {
    const source = name && this.sources.get(name);
    if (kind === "subscribed") this.named(payload);
    else if (kind === "keyframe_needed") source?.needKey?.(payload.rendition);
    else if (kind === "renditions_needed") source?.need?.(session, payload.renditions);
    else if (kind === "mute" || kind === "welcome") this.setMuted(payload.muted ?? payload);
    else if (kind === "speakers") this.tell({ kind: "speaker", participant: payload.levels[0]?.participant_id ?? null });
    else if (kind === "report" && session === this.link.active) this.reported(payload, session);
  }

  named(track) {
    (track.type === StreamType.AUDIO ? this.voices : this.pictures).get(keyOf(track))?.restart(track);
  }

  setMuted(mask) {
    if (!mask || mask.mute_epoch < (this.muted.mute_epoch ?? 0)) return;
    this.muted = mask;
    for (const name of ["video", "screen"]) if (this.sources.has(name)) this.sources.get(name).muted = mask.video_muted;
  }

  activeChanged(session) {
    for (const source of this.sources.values()) source.encoders?.forEach((one) => { one.wantsKey = true; });
    this.tell({ kind: "active", url: session?.url ?? null });
  }

  /** The handler's view of the connection. */
  reported({ rtt_ms, loss_permille, tracks }, session) {
    for (const { alias, lag_ms } of tracks) {
      const name = [...session.aliases].find(([, own]) => own === alias)?.[0];
      const source = this.sources.get(name);
      if (source?.encoders) source.lag = Math.max(source.lag, lag_ms);
    }
    for (const source of this.sources.values()) if (source instanceof SoundSource) source.loss = loss_permille;
    const level = loss_permille > 50 || rtt_ms > 400 ? "poor" : loss_permille > 15 || rtt_ms > 200 ? "fair" : "good";
    this.tell({ kind: "quality", level, details: `${rtt_ms} ms, ${loss_permille / 10} % lost` });
  }

  showLevels() {
    const loud = (level) => Math.max(0, 1 - level / SOFTEST);
    const levels = {};
    for (const voice of this.voices.values()) {
      const value = performance.now() - voice.levelAt < FADE ? loud(voice.level) : 0;
      levels[voice.participant] = Math.max(levels[voice.participant] ?? 0, value);
    }
    const own = this.sources.get("audio");
    this.tell({ kind: "levels", levels, own: own ? loud(own.level) : 0 });
  }

  /** Forgets voices that were silent for long: their participants may have left. */
  forgetVoices() {
    for (const [key, voice] of this.voices) {
      if (performance.now() - voice.levelAt < VOICE_LIFE) continue;
      voice.close();
      this.voices.delete(key);
      this.voiceTimes.delete(key);
      this.speakers?.postMessage({ id: key, gone: true });
    }
  }

  /** Once a second, to the active handler: how far pictures and voices are. */
  report() {
    this.forgetVoices();
    const { active } = this.link;
    if (!active?.isOpen) return;
    const tracks = [];
    for (const [alias, track] of active.tracks) {
      const picture = this.pictures.get(keyOf(track)), voice = this.voiceTimes.get(keyOf(track));
      if (picture) tracks.push({ alias, ...picture.report, decode_queue: picture.decoder.decodeQueueSize, dropped: picture.counts.dropped });
      else if (voice) tracks.push({ alias, concealed: Math.round(voice.counts.concealed / 960) });
    }
    active.send({ report: { tracks } });
  }

  /** Everything that is counted. */
  stats() {
    const { sessions, active } = this.link;
    return {
      sessions: sessions.map((session) => ({ url: session.url, state: session.state, active: session === active, ...session.received })),
      pictures: Object.fromEntries([...this.pictures].map(([key, { counts, track }]) => [key, { ...counts, codec: track.codec }])),
      voices: Object.fromEntries([...this.voices].map(([key, { packets, order, level }]) => [key, { packets, lost: order.lost, level, ...this.voiceTimes.get(key)?.counts, playing: this.voiceTimes.get(key)?.time != null }])),
      sources: Object.fromEntries([...this.sources].map(([name, source]) => [name, { ...source.counts, sequence: source.sequence, renditions: source.encoders?.map(({ writer }) => writer.counts) }])),
      loudness: this.loudness, muted: this.muted,
    };
  }

  close() {
    this.timers.forEach(clearInterval);
    for (const name of [...this.sources.keys()]) this.stop(name);
    for (const one of [...this.pictures.values(), ...this.voices.values()]) one.close();
    this.link.close();
  }
}
