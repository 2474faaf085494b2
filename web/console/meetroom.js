// The meeting: its parts on the page, and what messages and clicks do to them.
import { announce, h, notice, text } from "./dom.js";
import { confirmed } from "./confirm.js";
import { change } from "./meetapi.js";
import { Chat } from "./meetchat.js";
import { Controls } from "./meetcontrols.js";
import { showDetails } from "./meetdetails.js";
import { People } from "./meetpeople.js";
import { inOrder, LEFT, muted, NAMES } from "./meetperson.js";
import { Stage } from "./meetstage.js";
import { Presence, Role } from "./meetwire.js";

/** From this width on, in pixels, the chat is open from the start. */
const WIDE = 1000;

/** What is unusual though the connection works. It is shown only when it lasts, see meetroom.css. */
const HINTS = {
  moving: "The meeting moves to another server. Messages wait and are sent afterwards.",
  paused: "The server cannot store anything at the moment. What you send may be refused.",
};

export class Room {
  constructor({ participant, devices, media, code }) {
    Object.assign(this, { participant, devices, media, code });
    media.room = this;
    /** When a disconnected participant is removed, on the clock of performance.now(). */
    this.until = new Map();
    this.stage = new Stage({ tileActions: (person) => this.actions(person), answer: (id, yes) => this.answer(id, yes), changed: () => this.paint(), stopSharing: () => devices.stopSharing(), forget: (id) => media.forget(id) });
    this.chat = new Chat({ send: (words) => participant.request("chat_request", { text: words }), unread: (count) => this.controls?.badge("chat", count) });
    this.people = new People({ actions: (person) => this.actions(person), admit: (ids) => this.admit(ids), refuse: (person) => this.refuse(person), liftBan: (user) => this.request("lift_ban", { user_id: user.user_id }) });
    this.controls = new Controls({ devices, on: this.handlers() });
    this.banner = h("p", { class: "banner", test: "banner", role: "alert", hidden: true });
    this.alone = h("p", { class: "alone", test: "alone", hidden: true }, "You are the only one here.", h("button", { type: "button", onclick: () => this.copyLink() }, "Copy the link"));
    this.stage.el.append(this.alone);
    this.panelTitle = h("h2", {}, "Chat");
    this.panel = h("aside", { class: "panel", test: "panel" },
      h("div", { class: "bar" }, this.panelTitle, h("span", { class: "grow" }), h("button", { type: "button", class: "quiet", test: "panel-close", "aria-label": "Close", onclick: () => this.openPanel(null) }, "✕")),
      this.chat.el, this.people.el);
    this.el = h("div", { class: "room", test: "room" }, this.banner, this.stage.el, this.panel, this.controls.el);
    this.openPanel(innerWidth >= WIDE ? "chat" : null);
    this.keydown = (event) => this.key(event);
    document.addEventListener("keydown", this.keydown);
    this.devicesChanged = () => { this.tellDevices(); this.paint(); };
    this.deviceProblem = (event) => notice(event.detail, "bad");
    devices.addEventListener("change", this.devicesChanged);
    devices.addEventListener("problem", this.deviceProblem);
    this.hidden = () => this.media.watch(this.stage.watched());
    document.addEventListener("visibilitychange", this.hidden);
    this.timer = setInterval(() => this.countDown(), 500);
  }

  get view() { return this.participant.view; }
  get own() { return this.view.people[this.view.me]; }
  get hosting() { return this.view.role === Role.HOST; }

  handlers() {
    return {
      toggle: (kind) => (this.devices.on[kind] ? this.devices.turnOff(kind) : this.devices.turnOn(kind)),
      share: () => (this.devices.tracks.screen ? this.devices.stopSharing() : this.devices.share()),
      hand: () => this.raiseHand(),
      ask: () => this.askUnmute(),
      leave: () => { this.controls.leave.disabled = true; this.participant.leave(); },
      end: () => this.end(),
      view: (view) => (view ? this.stage.setView(view) : this.stage.view),
      panel: (name) => this.openPanel(this.open === name ? null : name),
      full: () => this.stage.fullScreen(this.el),
      copy: () => this.copyLink(),
      details: () => showDetails({ stats: () => this.media.stats(), quality: () => this.media.quality, nameOf: (id) => this.view.people[id]?.name ?? "A participant" }),
      quality: (quality) => { this.devices.choose("quality", quality); this.devices.use("video", this.devices.chosen.video ?? ""); },
      waitingRoom: (on) => (on == null ? this.waitingRoom : this.setWaitingRoom(on)),
      device: (kind, id) => (kind === "output" ? this.chooseOutput(id) : this.devices.use(kind, id)),
    };
  }

  close() {
    clearInterval(this.timer);
    document.removeEventListener("keydown", this.keydown);
    document.removeEventListener("visibilitychange", this.hidden);
    this.devices.removeEventListener("change", this.devicesChanged);
    this.devices.removeEventListener("problem", this.deviceProblem);
    if (document.fullscreenElement) document.exitFullscreen();
  }

  key(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
    if (event.target.closest?.("input, select, textarea, dialog, [role=menu]")) return;
    if (this.controls.key(event.key)) event.preventDefault();
  }

  openPanel(name) {
    this.open = name;
    this.panel.hidden = !name;
    this.panelTitle.textContent = name === "people" ? "People" : "Chat";
    this.chat.el.hidden = name !== "chat";
    this.people.el.hidden = name !== "people";
    this.chat.setOpen(name === "chat");
    this.controls.setPanel(name);
  }

  async request(kind, payload) {
    try {
      await this.participant.request(kind, payload);
      return true;
    } catch (error) {
      if (!this.participant.ended) notice(error.message, "bad");
      return false;
    }
  }

  /** Tells the meeting which devices are on, where it says otherwise. */
  tellDevices() {
    const { own, devices } = this;
    if (!own || this.participant.state !== "live") return;
    const wanted = { audio_muted: !devices.on.audio, video_muted: !devices.on.video };
    const said = JSON.stringify(wanted);
    if (Boolean(own.mute?.audio_self) === wanted.audio_muted && Boolean(own.mute?.video_self) === wanted.video_muted) this.saidDevices = null;
    else if (this.saidDevices !== said) {
      this.saidDevices = said;
      this.request("mute_request", wanted).then((done) => { if (!done) this.saidDevices = null; });
    }
  }

  /** What can be done about another participant. */
  actions(person) {
    const id = person.participant_id;
    if (!this.hosting || id === this.view.me) return [];
    const mute = (kind) => ({ label: `${muted(person, kind) === "host" ? "Unmute" : "Mute"} the ${NAMES[kind]}`, test: `participant-mute-${kind}`, act: () => this.hostMute(this.view.people[id], kind) });
    const lower = person.hand_raised_at && { label: "Lower the hand", test: "lower-hand", act: () => this.request("raise_hand", { raised: false, participant_id: id }) };
    return [mute("audio"), mute("video"), lower, { label: "Remove…", danger: true, test: "participant-remove", act: () => this.remove(person) }];
  }

  hostMute(person, kind) {
    if (!person) return;
    const now = { audio: Boolean(person.mute?.audio_host), video: Boolean(person.mute?.video_host) };
    this.request("host_mute_request", { participant_id: person.participant_id, ...now, [kind]: !now[kind] });
  }

  async remove(person) {
    const yes = await confirmed({ test: "remove-dialog", title: `Remove ${person.name}?`, lead: "They leave the meeting at once and cannot come back.", button: "Remove" });
    if (yes) this.request("kick_request", { participant_id: person.participant_id });
  }

  async end() {
    const yes = await confirmed({ test: "end-dialog", title: "End the meeting for everyone?", lead: "All people leave at once. The link does not lead here again.", button: "End for everyone" });
    if (yes) this.request("end_meeting_request", {});
  }

  async askUnmute() {
    const mute = this.own?.mute ?? {};
    const sent = await this.request("unmute_request", { request_audio: mute.audio_host, request_video: mute.video_host });
    if (sent) notice("The hosts were asked.");
  }

  async answer(id, yes) {
    const ask = this.view.asks[id];
    if (!ask) return;
    const answered = await this.request("unmute_response", { participant_id: id, audio_approved: yes && ask.request_audio, video_approved: yes && ask.request_video });
    if (answered && this.view.asks[id] === ask) delete this.view.asks[id];
    this.paint();
  }

  raiseHand() { this.request("raise_hand", { raised: !this.own?.hand_raised_at }); }

  /** Admits those who wait: some of them, or all. */
  admit(ids) { this.request("admit", ids ? { participant_ids: ids } : { all: true }); }

  async refuse(person) {
    const yes = await confirmed({ test: "refuse-dialog", title: `Do not admit ${person.name}?`, lead: "They cannot ask again.", button: "Do not admit" });
    if (yes) this.request("kick_request", { participant_id: person.participant_id });
  }

  /** Whether later joins wait for a host; unknown until the server said so. */
  async setWaitingRoom(on) {
    try {
      this.waitingRoom = (await change(this.participant.meetingId, on == null ? {} : { waiting_room: on })).waiting_room;
    } catch (error) { if (on != null) notice(error.message, "bad"); }
  }

  async copyLink() {
    const link = `${location.origin}/meet/${encodeURIComponent(this.code)}`;
    try {
      await navigator.clipboard.writeText(link);
      notice("The link is copied.");
    } catch { notice(link); }
  }

  async chooseOutput(id) {
    this.devices.choose("output", id);
    try { await this.media.setOutput(id); } catch (error) { notice(`The speaker cannot be used: ${error.message}`, "bad"); }
  }

  /** Shows the state of the connection to the controller. */
  connected(state) {
    this.chat.connected(state === "live");
    this.el.dataset.state = state;
    this.paintBanner();
    if (state === "live") this.tellDevices();
  }

  /** One sentence for what is wrong with the connection, or with the sound. */
  paintBanner() {
    const { state } = this.el.dataset;
    const hint = state === "live" ? this.participant.hint : null;
    const words = {
      live: HINTS[hint] ?? (this.media.silenced ? "The browser waits for a click before it plays sound." : ""),
      connecting: "Connecting…", over: "", reconnecting: "The connection is lost. Reconnecting… Messages wait and are sent afterwards.",
    }[state] ?? "";
    this.banner.hidden = !words;
    this.banner.classList.toggle("quiet", Boolean(hint));
    text(this.banner, words);
  }

  /** The loudest participant; null when all are silent. The last one stays large. */
  setSpeaker(id) {
    if (id === this.stage.speaking) return;
    this.stage.speaking = id;
    this.stage.speaker = id ?? this.stage.speaker;
    this.paint();
  }

  /** Shows a message that was applied, and the new state. */
  received(message, step, title) {
    this.title = title || this.title;
    if (title) document.title = `${title} · Tenure`;
    const joined = step === "welcome" || step === "moved";
    if (joined && !message.join_response.replay) this.chat.clear();
    if (joined) this.saidDevices = null;
    if (step === "welcome" && this.hosting && this.waitingRoom === undefined) this.setWaitingRoom(null);
    if (step === "new" || step === "welcome") this.report(message, step);
    this.media.received(message);
    this.tellDevices();
    this.paint();
  }

  report(message, step) {
    const who = (id) => (id === this.view.me ? "You" : this.view.people[id]?.name ?? this.names?.get(id) ?? "A participant");
    const { chat } = this;
    if (step === "welcome") {
      if (!message.join_response.resumed && this.joined) chat.news("You lost your seat and have a new one.");
      else if (message.join_response.resumed) chat.news("You are back.");
      this.joined = true;
    }
    if (message.participant_joined?.participant) chat.news(`${message.participant_joined.participant.name} joined`);
    if (message.participant_left) {
      chat.news(`${who(message.participant_left.participant_id)} ${LEFT[message.participant_left.reason] ?? "left"}`);
      this.until.delete(message.participant_left.participant_id);
    }
    if (message.participant_presence) {
      const { participant_id, presence, grace_ms } = message.participant_presence;
      if (presence === Presence.DISCONNECTED) this.until.set(participant_id, performance.now() + grace_ms);
      else this.until.delete(participant_id);
    }
    if (message.hand?.raised && message.hand.participant_id !== this.view.me) chat.news(`${who(message.hand.participant_id)} raises a hand`);
    if (message.waiting?.participants.length) {
      const names = message.waiting.participants.map((person) => person.name);
      const fresh = names.find((name) => !this.waited?.includes(name));
      if (fresh) notice(`${fresh} waits to be let in.`);
      this.waited = names;
    }
    if (message.unmute_request) announce(`${who(message.unmute_request.participant_id)} asks to be unmuted`);
    if (message.unmute_response) {
      const granted = message.unmute_response.audio_approved || message.unmute_response.video_approved;
      notice(granted ? "A host unmuted you." : "A host does not want to unmute you now.", granted ? "good" : "bad");
    }
    if (message.mute_enforced && !message.mute_enforced.enforced) notice(`The mute is not enforced by ${message.mute_enforced.missing_handlers.join(", ")}.`, "bad");
  }

  paint() {
    const { view, devices, hosting, own } = this;
    // Of the own devices this page knows before the meeting does.
    const truly = (person) => ({ ...person, mute: { ...person.mute, audio_self: !devices.on.audio, video_self: !devices.on.video } });
    const people = inOrder(view).map((person) => (person === own ? truly(person) : person));
    this.names = new Map([...(this.names ?? []), ...people.map((person) => [person.participant_id, person.name])].slice(-2000));
    this.chat.paint(view);
    this.stage.paint({ view, people, hosting, local: { video: devices.on.video ? devices.tracks.video : null, screen: devices.tracks.screen } });
    this.people.paint({ view, people, hosting });
    this.alone.hidden = people.length !== 1 || view.missing > 0;
    this.controls.setTitle(this.title, people.length);
    this.controls.badge("people", hosting ? view.waiting.length : 0);
    if (own) this.controls.paint({ own, sharing: Boolean(devices.tracks.screen), hand: own.hand_raised_at, hosting });
    this.media.sync(own);
    this.media.watch(this.stage.watched());
  }

  countDown() {
    for (const [, tile] of this.stage.tiles) {
      if (!tile.away.hidden) tile.countDown(Math.ceil(((this.until.get(tile.person.participant_id) ?? 0) - performance.now()) / 1000));
    }
  }
}
