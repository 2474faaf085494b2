// One tile of the stage: a participant, or a screen that a participant shares. It is created once and then only changed, so
// that the focus and the picture stay where they are.
import { h, text } from "./dom.js";
import { icon } from "./meeticons.js";
import { initials, isHere, muted, mutedWords, ROLES } from "./meetperson.js";
import { openMenu } from "./menu.js";

export class Tile {
  /** `actions(person)` are the entries of its menu, `answer(yes)` responds to a request to be unmuted. */
  constructor({ id, person, own, slot, screen = false, actions, answer }) {
    Object.assign(this, { id, own, screen, actions, answer });
    this.name = h("strong", {});
    this.role = h("span", { class: "chip" });
    this.away = h("span", { class: "away", hidden: true });
    this.marks = { audio: h("span", { class: "state" }), video: h("span", { class: "state" }) };
    this.hand = h("span", { class: "hand", test: "hand", hidden: true, role: "img", "aria-label": "raised hand" }, icon("hand"));
    this.asking = h("span", {});
    this.allow = h("button", { test: "allow", type: "button", onclick: () => answer(true) }, "Allow");
    this.deny = h("button", { test: "deny", type: "button", onclick: () => answer(false) }, "Deny");
    this.ask = h("p", { class: "ask", test: "ask", hidden: true }, this.asking, this.allow, this.deny);
    this.more = h("button", { test: "tile-menu", class: "round small", type: "button", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => openMenu(this.more, actions(this.person), this.person.name) }, icon("more"));
    this.face = h("b", { "aria-hidden": "true" }, initials(person.name));
    this.picture = null;
    this.el = h("li", { class: `tile c${slot}${screen ? " shared" : ""}`, test: screen ? "screen" : "participant", "data-id": person.participant_id, "data-own": own },
      h("div", { class: "face" }, this.face), this.away, this.hand, this.more, this.ask,
      h("div", { class: "who" }, screen ? icon("screen") : this.marks.audio, this.name, this.role, screen ? "" : this.marks.video));
  }

  paint(person, { ask, hand, speaking }) {
    this.person = person;
    const here = isHere(person);
    text(this.name, this.screen ? `${this.own ? "Your" : `${person.name}'s`} screen` : person.name);
    this.name.title = this.name.textContent;
    text(this.face, initials(person.name));
    text(this.role, this.screen ? "" : [this.own && "you", ROLES[person.role] !== "participant" && ROLES[person.role]].filter(Boolean).join(" · "));
    this.el.dataset.presence = here ? "here" : "away";
    this.el.dataset.role = ROLES[person.role] ?? "";
    this.el.classList.toggle("speaking", speaking);
    this.away.hidden = here;
    this.hand.hidden = !hand || this.screen;
    this.more.setAttribute("aria-label", `Actions for ${this.name.textContent}`);
    for (const kind of ["audio", "video"]) {
      const how = muted(person, kind);
      if (this.el.dataset[kind] === how) continue;
      this.el.dataset[kind] = how;
      this.marks[kind].dataset.mute = how;
      this.marks[kind].title = mutedWords(kind, how);
      this.marks[kind].replaceChildren(icon(kind, how !== "no"), h("span", { class: "unseen" }, mutedWords(kind, how)));
    }
    this.ask.hidden = !ask || this.screen;
    if (!ask) return;
    text(this.asking, `asks to be unmuted (${[ask.request_audio && "microphone", ask.request_video && "camera"].filter(Boolean).join(" and ")})`);
    this.allow.setAttribute("aria-label", `Allow ${person.name} to unmute`);
    this.deny.setAttribute("aria-label", `Do not let ${person.name} unmute`);
  }

  /** Puts an element with the picture into the tile, or takes it out. */
  show(element) {
    if (this.picture === element) return;
    this.picture?.remove();
    this.picture = element;
    if (element) this.face.after(element);
    this.el.classList.toggle("pictured", Boolean(element));
  }

  /** How loud the participant is, from 0 to 1. */
  level(value) { this.el.style.setProperty("--level", value.toFixed(2)); }

  /** How long a lost seat is kept, in seconds. */
  countDown(left) { text(this.away, left > 0 ? `lost, kept for ${left} s` : "connection lost"); }
}
