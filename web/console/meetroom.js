// The meeting itself: participants, chat, and what a participant and a host can do.
import { announce, byId, colour, h, notice, s, text } from "./dom.js";
import { LeaveReason, Presence, Role } from "./meetwire.js";

const ICONS = {
  audio: ["M12 4a2.5 2.5 0 0 1 2.5 2.5v5a2.5 2.5 0 0 1-5 0v-5A2.5 2.5 0 0 1 12 4z", "M6.5 11.5a5.5 5.5 0 0 0 11 0", "M12 17v3"],
  video: ["M4 8.5A1.5 1.5 0 0 1 5.5 7h7A1.5 1.5 0 0 1 14 8.5v7a1.5 1.5 0 0 1-1.5 1.5h-7A1.5 1.5 0 0 1 4 15.5z", "M14 11l6-3v8l-6-3"],
};
const icon = (kind, off) => s("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, ICONS[kind].map((d) => s("path", { d })), off && s("path", { d: "M4 4l16 16" }));
const LEFT = {
  [LeaveReason.VOLUNTARY]: "left",
  [LeaveReason.KICKED]: "was removed by a host",
  [LeaveReason.CONNECTION_LOST]: "lost the connection",
  [LeaveReason.MEETING_ENDED]: "left: the meeting ended",
  [LeaveReason.TIMEOUT]: "did not come back",
};
const ROLES = { [Role.HOST]: "host", [Role.PARTICIPANT]: "participant", [Role.GUEST]: "guest" };
const NAMES = { audio: "microphone", video: "camera" };
const SHORT = { audio: "mic", video: "camera" };
/** Lines of the log on the page. */
const MAX_LINES = 500;

/** How a track of a participant is muted: by a host, by the participant, or not. */
const muted = (person, kind) => (person.mute?.[`${kind}_host`] ? "host" : person.mute?.[`${kind}_self`] ? "self" : "no");
const MUTED = { host: "muted by a host", self: "muted", no: "on" };
const initials = (name) => name.split(/\s+/).filter(Boolean).slice(0, 2).map((word) => [...word][0]).join("").toUpperCase() || "?";

export class Room {
  constructor({ participant, devices, code }) {
    Object.assign(this, { participant, devices });
    this.tiles = new Map();
    this.colours = new Map();
    /** When a disconnected participant is removed, on the clock of performance.now(). */
    this.until = new Map();
    this.lastSeq = 0;
    const act = (kind, payload) => this.request(kind, payload);
    this.title = h("h1", { test: "title" }, "Meeting");
    this.count = h("span", { class: "hint", test: "count" });
    this.list = h("ul", { class: "participants", test: "participants", "aria-label": "People" });
    this.log = h("ol", { test: "chat", role: "log", "aria-label": "Chat", tabindex: "0" });
    this.field = h("input", { test: "chat-text", maxlength: 2000, autocomplete: "off", placeholder: "Message to everyone", "aria-label": "Message to everyone" });
    const own = (kind) => h("button", { test: `mute-${kind}`, type: "button", onclick: () => this.muteOwn(kind) });
    this.own = { audio: own("audio"), video: own("video") };
    this.unmute = h("button", { test: "ask-unmute", type: "button", hidden: true, onclick: () => this.askUnmute() }, "Ask to be unmuted");
    this.finish = h("button", { test: "end", class: "danger", type: "button", hidden: true, onclick: () => act("end_meeting_request") }, "End for everyone");
    this.el = h("div", { class: "room", test: "room" },
      h("div", {},
        h("div", { class: "head" }, this.title, this.count, h("span", { class: "grow" }),
          h("button", { test: "link", class: "quiet", type: "button", onclick: () => this.copy(code) }, "Copy link")),
        this.list,
        h("div", { class: "deck", role: "group", "aria-label": "You" }, this.own.audio, this.own.video, this.unmute, h("span", { class: "grow" }), this.finish,
          h("button", { test: "leave", class: "danger", type: "button", onclick: (event) => { event.target.disabled = true; participant.leave(); } }, "Leave"))),
      h("section", { class: "card talk", "aria-label": "Chat" }, h("h2", {}, "Chat"), this.log,
        h("form", { onsubmit: (event) => this.say(event) }, this.field, h("button", { test: "chat-send", class: "primary", type: "submit" }, "Send"))));
    this.timer = setInterval(() => this.countDown(), 500);
  }

  get view() { return this.participant.view; }
  get hosting() { return this.view.role === Role.HOST; }

  async request(kind, payload) {
    try {
      await this.participant.request(kind, payload);
      return true;
    } catch (error) {
      if (!this.participant.ended) notice(error.message, "bad");
      return false;
    }
  }

  async copy(code) {
    const link = `${location.origin}/meet/${encodeURIComponent(code)}`;
    try {
      await navigator.clipboard.writeText(link);
      notice("The link is copied.");
    } catch { notice(link); }
  }

  async say(event) {
    event.preventDefault();
    const words = this.field.value.trim();
    if (!words) return;
    this.field.value = "";
    // Restore the text that could not be sent, unless the user typed on meanwhile.
    if (!(await this.request("chat_request", { text: words })) && !this.field.value) this.field.value = words;
  }

  muteOwn(kind) {
    const own = this.view.people[this.view.me];
    if (!own) return;
    const [audio, video] = ["audio", "video"].map((one) => (one === kind ? !own.mute?.[`${one}_self`] : Boolean(own.mute?.[`${one}_self`])));
    this.request("mute_request", { audio_muted: audio, video_muted: video });
  }

  async askUnmute() {
    const mute = this.view.people[this.view.me]?.mute ?? {};
    const asked = await this.request("unmute_request", { request_audio: mute.audio_host, request_video: mute.video_host });
    if (asked) notice("The hosts were asked.");
  }

  hostMute(person, kind) {
    const now = { audio: Boolean(person.mute?.audio_host), video: Boolean(person.mute?.video_host) };
    this.request("host_mute_request", { participant_id: person.participant_id, ...now, [kind]: !now[kind] });
  }

  async answer(id, yes) {
    const ask = this.view.asks[id];
    if (!ask) return;
    const answered = await this.request("unmute_response", { participant_id: id, audio_approved: yes && ask.request_audio, video_approved: yes && ask.request_video });
    if (answered && this.view.asks[id] === ask) delete this.view.asks[id];
    this.paint();
  }

  /** Shows a message that was applied, and the new state. */
  received(message, step, title) {
    if (title) {
      text(this.title, title);
      document.title = `${title} · Tenure`;
    }
    if (step === "welcome" && message.join_response && !message.join_response.replay) this.clearLog();
    if (step === "new" || step === "welcome") this.report(message, step);
    this.paint();
  }

  /** Clears the log, after a reload or when an event was lost. */
  clearLog() {
    this.log.replaceChildren();
    this.lastSeq = 0;
  }

  report(message, step) {
    const who = (id) => (id === this.view.me ? "You" : this.view.people[id]?.name ?? this.names?.get(id) ?? "A participant");
    const news = (words) => this.line(h("li", { class: "news" }, words), words);
    if (step === "welcome") {
      if (!message.join_response.resumed && this.joined) news("You lost your seat and have a new one.");
      else if (message.join_response.resumed) news("You are back in your tile.");
      this.joined = true;
    }
    if (message.participant_joined?.participant) news(`${message.participant_joined.participant.name} joined`);
    if (message.participant_left) {
      news(`${who(message.participant_left.participant_id)} ${LEFT[message.participant_left.reason] ?? "left"}`);
      this.until.delete(message.participant_left.participant_id);
    }
    if (message.participant_presence) {
      const { participant_id, presence, grace_ms } = message.participant_presence;
      if (presence === Presence.DISCONNECTED) this.until.set(participant_id, performance.now() + grace_ms);
      else this.until.delete(participant_id);
    }
    if (message.unmute_request) announce(`${who(message.unmute_request.participant_id)} asks to be unmuted`);
    if (message.unmute_response) {
      const granted = message.unmute_response.audio_approved || message.unmute_response.video_approved;
      notice(granted ? "A host unmuted you." : "A host does not want to unmute you now.", granted ? "good" : "bad");
    }
    if (message.mute_enforced && !message.mute_enforced.enforced) notice(`The mute is not enforced by ${message.mute_enforced.missing_handlers.join(", ")}.`, "bad");
  }

  line(item, words) {
    const below = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
    this.log.append(item);
    while (this.log.children.length > MAX_LINES) this.log.firstChild.remove();
    if (below) this.log.scrollTop = this.log.scrollHeight;
    if (words) announce(words);
  }

  paint() {
    const { view } = this;
    for (const said of view.lines.filter((line) => line.seq > this.lastSeq)) {
      const at = new Date(said.sent_at);
      this.line(h("li", { "data-seq": said.seq }, h("b", {}, said.participant_id === view.me ? "You" : said.name), h("time", { datetime: at.toISOString() }, at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })),
        h("p", {}, said.text)), said.participant_id === view.me ? "" : `${said.name} says ${said.text}`);
      this.lastSeq = said.seq;
    }
    const people = Object.values(view.people).sort((a, b) => (b.participant_id === view.me) - (a.participant_id === view.me) || a.joined_at - b.joined_at);
    this.names = new Map([...(this.names ?? []), ...people.map((person) => [person.participant_id, person.name])].slice(-2000));
    for (const [id, tile] of this.tiles) if (!view.people[id]) { tile.el.remove(); this.tiles.delete(id); }
    people.forEach((person, index) => {
      const tile = this.tiles.get(person.participant_id) ?? this.createTile(person);
      if (this.list.children[index] !== tile.el) this.list.insertBefore(tile.el, this.list.children[index] ?? null);
      this.paintTile(tile, person);
    });
    text(this.count, `${people.length} ${people.length === 1 ? "person" : "people"}`);
    this.paintDeck(view.people[view.me]);
  }

  /** A tile is created once and then only changed, so that the focus stays where it is. */
  createTile(person) {
    const id = person.participant_id, own = id === this.view.me;
    const now = () => this.view.people[id];
    const tile = {
      name: h("strong", {}), role: h("span", { class: "chip" }), away: h("span", { class: "away", hidden: true }),
      audio: h("span", { class: "state" }), video: h("span", { class: "state" }),
      picture: own ? h("video", { muted: true, autoplay: true, playsinline: true, hidden: true, "aria-label": "Your camera, seen only by you" }) : null,
      muteAudio: h("button", { test: "participant-mute-audio", type: "button", onclick: () => this.hostMute(now(), "audio") }),
      muteVideo: h("button", { test: "participant-mute-video", type: "button", onclick: () => this.hostMute(now(), "video") }),
      remove: own ? null : h("button", { test: "participant-remove", type: "button", onclick: () => this.request("kick_request", { participant_id: id }) }, "Remove"),
      asking: h("span", {}), allow: h("button", { test: "allow", type: "button", onclick: () => this.answer(id, true) }, "Allow"),
      deny: h("button", { test: "deny", type: "button", onclick: () => this.answer(id, false) }, "Deny"),
    };
    if (tile.picture) tile.picture.muted = true;
    tile.ask = h("p", { class: "ask", test: "ask", hidden: true }, tile.asking, tile.allow, tile.deny);
    tile.acts = h("div", { class: "acts", hidden: true, role: "group" }, tile.muteAudio, tile.muteVideo, tile.remove);
    tile.el = h("li", { class: `participant c${colour(id, this.colours)}`, test: "participant", "data-id": id, "data-own": own },
      h("div", { class: "face" }, h("b", { "aria-hidden": "true" }, initials(person.name)), tile.picture, tile.away),
      h("div", { class: "who" }, tile.name, tile.role, h("span", { class: "grow" }), tile.audio, tile.video), tile.ask, tile.acts);
    this.tiles.set(id, tile);
    return tile;
  }

  paintTile(tile, person) {
    const id = person.participant_id, own = id === this.view.me, here = person.presence !== Presence.DISCONNECTED;
    text(tile.name, person.name);
    tile.name.title = person.name;
    text(tile.role, [own && "you", ROLES[person.role]].filter(Boolean).join(" · "));
    tile.el.dataset.presence = here ? "here" : "away";
    tile.el.dataset.role = ROLES[person.role] ?? "";
    tile.away.hidden = here;
    for (const kind of ["audio", "video"]) {
      const how = muted(person, kind);
      if (tile.el.dataset[kind] !== how) {
        tile.el.dataset[kind] = how;
        tile[kind].dataset.mute = how;
        const words = `${NAMES[kind]} ${MUTED[how]}`;
        tile[kind].title = words;
        tile[kind].replaceChildren(icon(kind, how !== "no"), h("span", { class: "unseen" }, words));
      }
      const button = kind === "audio" ? tile.muteAudio : tile.muteVideo;
      text(button, how === "host" ? `Unmute ${SHORT[kind]}` : `Mute ${SHORT[kind]}`);
      button.setAttribute("aria-label", `${how === "host" ? "Unmute" : "Mute"} the ${NAMES[kind]} of ${person.name}`);
    }
    tile.acts.hidden = !this.hosting || own;
    tile.acts.setAttribute("aria-label", `What you can do about ${person.name}`);
    tile.remove?.setAttribute("aria-label", `Remove ${person.name}`);
    const ask = this.hosting ? this.view.asks[id] : null;
    tile.ask.hidden = !ask;
    if (ask) {
      text(tile.asking, `asks to be unmuted (${[ask.request_audio && NAMES.audio, ask.request_video && NAMES.video].filter(Boolean).join(" and ")})`);
      tile.allow.setAttribute("aria-label", `Allow ${person.name} to unmute`);
      tile.deny.setAttribute("aria-label", `Do not let ${person.name} unmute`);
    }
    if (tile.picture) {
      const on = Boolean(this.devices.stream?.getVideoTracks().length) && muted(person, "video") === "no";
      if (on) this.devices.show(tile.picture);
      tile.picture.hidden = !on;
      this.devices.mute(muted(person, "audio") !== "no", muted(person, "video") !== "no");
    }
  }

  paintDeck(own) {
    if (!own) return;
    for (const kind of ["audio", "video"]) {
      const [how, off, button] = [muted(own, kind), Boolean(own.mute?.[`${kind}_self`]), this.own[kind]];
      const words = how === "host" ? `${kind === "audio" ? "Microphone" : "Camera"} muted by a host` : `${off ? "Unmute" : "Mute"} ${NAMES[kind]}`;
      if (button.dataset.words !== words) {
        button.dataset.words = words;
        button.replaceChildren(icon(kind, how !== "no"), h("span", {}, words));
      }
      button.dataset.mute = how;
      button.disabled = how === "host";
      button.setAttribute("aria-pressed", String(off));
    }
    this.unmute.hidden = !(own.mute?.audio_host || own.mute?.video_host);
    this.finish.hidden = !this.hosting;
  }

  countDown() {
    if (this.participant.ended || !this.el.isConnected) return clearInterval(this.timer);
    for (const [id, tile] of this.tiles) {
      if (tile.away.hidden) continue;
      const left = Math.ceil(((this.until.get(id) ?? 0) - performance.now()) / 1000);
      text(tile.away, left > 0 ? `lost, kept for ${left} s` : "connection lost");
    }
  }
}
