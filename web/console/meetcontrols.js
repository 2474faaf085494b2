// The bar below the stage: what a participant does about its own devices, the view, and the meeting.
import { h, text } from "./dom.js";
import { icon } from "./meeticons.js";
import { muted, NAMES } from "./meetperson.js";
import { openMenu } from "./menu.js";

/** A key for each button; it works when no field has the focus. */
const KEYS = { m: "mute-audio", v: "mute-video", s: "share", h: "raise-hand", c: "show-chat", p: "show-people" };
const QUALITY = { good: "Good connection", fair: "Weak connection: the picture is reduced", poor: "Bad connection: the picture may stop" };

export class Controls {
  /** `on` has a function for each button: toggle(kind), share, hand, ask, leave, end, view, panel(name), full, copy, device. */
  constructor({ devices, on }) {
    Object.assign(this, { devices, on });
    const button = (test, kind, act, extra = {}) => h("button", { test, type: "button", class: "round", onclick: act, ...extra }, icon(kind));
    const choose = (kind) => {
      const arrow = h("button", { test: `choose-${kind}`, type: "button", class: "arrow", "aria-label": `Choose the ${NAMES[kind]}`, "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => this.chooseDevice(kind, arrow) }, icon("down"));
      return arrow;
    };
    this.own = { audio: button("mute-audio", "audio", () => on.toggle("audio"), { "aria-keyshortcuts": "m" }), video: button("mute-video", "video", () => on.toggle("video"), { "aria-keyshortcuts": "v" }) };
    this.share = button("share", "screen", on.share, { hidden: !devices.canShare, "aria-keyshortcuts": "s" });
    this.hand = button("raise-hand", "hand", on.hand, { "aria-keyshortcuts": "h" });
    this.ask = h("button", { test: "ask-unmute", type: "button", hidden: true, onclick: on.ask }, "Ask to be unmuted");
    this.leave = h("button", { test: "leave", class: "leave", type: "button", "aria-label": "Leave", title: "Leave", onclick: on.leave }, icon("leave"), h("span", {}, "Leave"));
    this.chat = button("show-chat", "chat", () => on.panel("chat"), { "aria-keyshortcuts": "c" });
    this.people = button("show-people", "people", () => on.panel("people"), { "aria-keyshortcuts": "p" });
    this.badges = { chat: h("i", { class: "badge", hidden: true }), people: h("i", { class: "badge", hidden: true }) };
    this.chat.append(this.badges.chat);
    this.people.append(this.badges.people);
    this.more = h("button", { test: "more", type: "button", class: "round", "aria-label": "More", title: "More", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => this.showMore() }, icon("more"));
    this.title = h("h1", { test: "title" }, "Meeting");
    this.count = h("span", { class: "hint", test: "count" });
    this.quality = h("span", { class: "signal", test: "quality", role: "img", hidden: true }, h("i"), h("i"), h("i"));
    this.link = h("button", { test: "link", class: "round", type: "button", "aria-label": "Copy the link", title: "Copy the link", onclick: on.copy }, icon("link"));
    this.el = h("div", { class: "deck", role: "group", "aria-label": "Meeting controls" },
      h("div", { class: "about" }, h("div", {}, this.title, h("span", { class: "line" }, this.count, this.quality)), this.link),
      h("div", { class: "acts" },
        h("span", { class: "split" }, this.own.audio, choose("audio")), h("span", { class: "split" }, this.own.video, choose("video")),
        this.share, this.hand, this.ask, this.leave),
      h("div", { class: "panels" }, this.people, this.chat, this.more));
  }

  /** Presses the button of a key. Returns whether there is one. */
  key(key) {
    const button = KEYS[key] && this.el.querySelector(`[data-test=${KEYS[key]}]`);
    if (!button || button.hidden || button.disabled) return false;
    button.click();
    return true;
  }

  paint({ own, sharing, hand, hosting }) {
    this.hosting = hosting;
    for (const kind of ["audio", "video"]) {
      const host = muted(own, kind) === "host", off = !this.devices.on[kind];
      const words = host ? `${kind === "audio" ? "Microphone" : "Camera"} muted by a host` : `Turn the ${NAMES[kind]} ${off ? "on" : "off"}`;
      label(this.own[kind], words);
      this.own[kind].dataset.mute = host ? "host" : off ? "self" : "no";
      this.own[kind].setAttribute("aria-pressed", String(!off && !host));
      this.own[kind].disabled = host;
      if (this.own[kind].dataset.icon !== String(off || host)) {
        this.own[kind].dataset.icon = String(off || host);
        this.own[kind].replaceChildren(icon(kind, off || host));
      }
    }
    label(this.share, sharing ? "Stop sharing" : "Share the screen");
    this.share.setAttribute("aria-pressed", String(sharing));
    label(this.hand, hand ? "Lower the hand" : "Raise the hand");
    this.hand.setAttribute("aria-pressed", String(Boolean(hand)));
    this.ask.hidden = muted(own, "audio") !== "host" && muted(own, "video") !== "host";
  }

  setTitle(title, count) {
    if (title) text(this.title, title);
    this.title.title = title ?? "";
    text(this.count, `${count} ${count === 1 ? "person" : "people"}`);
  }

  setPanel(open) {
    for (const name of ["chat", "people"]) {
      this[name].setAttribute("aria-expanded", String(open === name));
      label(this[name], `${open === name ? "Hide" : "Show"} ${name === "chat" ? "the chat" : "the people"}`);
    }
  }

  badge(name, count) {
    this.badges[name].hidden = !count;
    text(this.badges[name], count > 99 ? "99+" : String(count));
  }

  /** How good the connection is: good, fair, poor, or unknown. Returns it in words. */
  setQuality(level, details = "") {
    this.quality.hidden = !level;
    if (!level) return "";
    this.quality.dataset.level = level;
    const words = [QUALITY[level], details].filter(Boolean).join(", ");
    this.quality.title = words;
    this.quality.setAttribute("aria-label", words);
    return words;
  }

  async chooseDevice(kind, button) {
    const item = ({ id, name }, chosen, act, test) => ({ label: name, checked: id === chosen, test, act: () => act(id) });
    const [inputs, outputs] = [await this.devices.list(`${kind}input`), kind === "audio" ? await this.devices.list("audiooutput") : []];
    const current = this.devices.tracks[kind]?.getSettings().deviceId ?? this.devices.chosen[kind];
    openMenu(button, [
      kind === "audio" ? "Microphone" : "Camera",
      ...(inputs.length ? inputs.map((device) => item(device, current, (id) => this.on.device(kind, id), "device")) : [{ label: "none found", disabled: true, act() {} }]),
      outputs.length > 1 && "Speaker",
      ...(outputs.length > 1 ? outputs.map((device) => item(device, this.devices.chosen.output ?? "default", (id) => this.on.device("output", id), "speaker")) : []),
    ], `Choose the ${NAMES[kind]}`);
  }

  showMore() {
    const view = this.on.view();
    openMenu(this.more, [
      "View",
      { label: "Grid", checked: view === "grid", test: "view-grid", act: () => this.on.view("grid") },
      { label: "Speaker", checked: view === "speaker", test: "view-speaker", act: () => this.on.view("speaker") },
      { label: document.fullscreenElement ? "Leave full screen" : "Full screen", test: "full", act: this.on.full },
      "Devices",
      { label: "Microphone and speaker…", test: "more-audio", act: () => this.chooseDevice("audio", this.more) },
      { label: "Camera…", test: "more-video", act: () => this.chooseDevice("video", this.more) },
      "Your picture",
      { label: "Standard quality", checked: this.devices.quality === "standard", test: "quality-standard", act: () => this.on.quality("standard") },
      { label: "Low quality, saves data", checked: this.devices.quality === "low", test: "quality-low", act: () => this.on.quality("low") },
      "Meeting",
      { label: "Copy the link", test: "more-link", act: this.on.copy },
      { label: "Connection details…", test: "more-details", act: this.on.details },
      this.hosting && this.on.waitingRoom() != null && "People who join",
      ...(this.hosting && this.on.waitingRoom() != null ? [
        { label: "Come in at once", checked: !this.on.waitingRoom(), test: "waiting-off", act: () => this.on.waitingRoom(false) },
        { label: "Wait for a host", checked: this.on.waitingRoom(), test: "waiting-on", act: () => this.on.waitingRoom(true) },
      ] : []),
      this.hosting && { label: "End for everyone…", danger: true, test: "end", act: this.on.end },
    ], "More");
  }
}

/** Names a button; the tooltip also has its key. */
function label(button, words) {
  const key = button.getAttribute("aria-keyshortcuts");
  button.title = key ? `${words} (${key})` : words;
  button.setAttribute("aria-label", words);
}
