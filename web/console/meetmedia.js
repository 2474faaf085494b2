// Between the meeting and its media: which tracks are sent, which streams the meeting knows of, and what handlers report.
import { notice } from "./dom.js";
import { Media } from "./media.js";
import { muted } from "./meetperson.js";
import { MhConnectionState, StreamType } from "./meetschema.js";

/** The streams of a participant, by their number. */
const STREAMS = { audio: [1, StreamType.AUDIO], video: [2, StreamType.VIDEO], screen: [3, StreamType.SCREEN], screenAudio: [4, StreamType.AUDIO] };
const STATES = { connecting: MhConnectionState.CONNECTING, open: MhConnectionState.CONNECTED, closed: MhConnectionState.FAILED };

export class RoomMedia {
  /** `participant` and `devices` are those of the room. Call it in the click that joins. */
  constructor({ participant, devices }) {
    Object.assign(this, { participant, devices });
    this.media = new Media();
    this.published = new Map();
    this.reported = new Map();
    this.room = null;
    this.media.start(devices.chosen.output).catch((error) => notice(`Sound does not work: ${error.message}`, "bad"));
    const on = (kind, act) => this.media.addEventListener(kind, (event) => act(event.detail));
    on("levels", ({ levels, own }) => this.room?.stage.levels({ ...levels, [this.participant.view.me]: own }));
    on("speaker", ({ participant: id }) => this.room?.setSpeaker(id));
    on("quality", ({ level, details }) => { this.quality = this.room?.controls.setQuality(level, details); });
    on("problem", ({ words }) => notice(words, "bad"));
    on("unsupported", ({ participant: id, codec }) => notice(`This browser cannot show the picture of ${this.participant.view.people[id]?.name ?? "a participant"}: it has no decoder for ${codec}.`, "bad"));
    on("refused", ({ words }) => notice(`The media handler refused: ${words}`, "bad"));
    on("grants", () => this.participant.request("media_grant_request").catch(() => {}));
    on("status", ({ statuses }) => this.reportStatus(statuses));
    on("active", ({ url }) => { this.active = url; this.room?.paintBanner(); });
    on("silenced", ({ silenced }) => { this.silenced = silenced; this.room?.paintBanner(); });
    this.wake = () => this.media.resume();
    addEventListener("pointerdown", this.wake);
    addEventListener("keydown", this.wake);
  }

  /** Takes what a message says of handlers. */
  received(message) {
    const servers = message.join_response?.media_servers ?? message.media_servers_changed?.media_servers;
    if (message.join_response && !message.join_response.resumed) this.published.clear();
    if (servers?.length) this.media.setServers(servers);
  }

  /** Sends what the devices give and the meeting allows. */
  sync(own) {
    const { devices, media } = this;
    const allowed = (kind) => Boolean(own) && muted(own, kind) !== "host";
    const tracks = {
      audio: devices.on.audio && allowed("audio") ? devices.tracks.audio : null,
      video: devices.on.video && allowed("video") ? devices.tracks.video : null,
      screen: allowed("video") ? devices.tracks.screen : null,
      screenAudio: allowed("audio") ? devices.tracks.screenAudio : null,
    };
    media.send(tracks);
    if (this.participant.state === "live") for (const name of Object.keys(STREAMS)) this.publish(name, Boolean(tracks[name]));
  }

  /** The meeting learns of a stream when it begins and when it ends. */
  publish(name, on) {
    if ((this.published.get(name) ?? false) === on) return;
    this.published.set(name, on);
    const [stream_id, type] = STREAMS[name];
    const request = on ? this.participant.request("publish_stream", { stream_id, type }) : this.participant.request("unpublish_stream", { stream_id });
    request.catch(() => this.published.delete(name));
  }

  /** The controller hears how the connections to handlers are, so that it can replace one. */
  reportStatus(statuses) {
    const changed = statuses.filter(({ url, state }) => this.reported.get(url) !== state && state !== "connecting");
    for (const { url, state } of changed) this.reported.set(url, state);
    if (!changed.length || this.participant.state !== "live") return;
    this.participant.notify("media_connection_update", { statuses: changed.map(({ url, state, why, code }) => ({
      mh_url: url, state: STATES[state], failure_reason: state === "closed" ? why.slice(0, 200) : undefined, failure_code: state === "closed" ? code : undefined, observed_at: Date.now() })) });
  }

  watch(wanted) { this.media.watch(wanted); }
  forget(key) { this.media.forget(key); }
  stats() { return this.media.stats(); }
  setOutput(id) { return this.media.setOutput(id); }

  close() {
    removeEventListener("pointerdown", this.wake);
    removeEventListener("keydown", this.wake);
    this.media.close();
  }
}
