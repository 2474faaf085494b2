// The list of people: who is here, who waits to be let in, and what a host can do about them.
import { h, text } from "./dom.js";
import { icon } from "./meeticons.js";
import { isHere, muted, mutedWords, ROLES } from "./meetperson.js";
import { openMenu } from "./menu.js";

export class People {
  /** `actions(person)` are the entries of a person's menu; `admit(ids)`, or `admit(null)` for all, and `refuse(person)` answer
   *  those who wait, `liftBan(user)` lets one join again that was removed. */
  constructor({ actions, admit, refuse, liftBan }) {
    Object.assign(this, { actions, admit, refuse, liftBan });
    this.rows = new Map();
    this.waiting = h("ul", { test: "waiting" });
    this.admitAll = h("button", { type: "button", test: "admit-all", onclick: () => admit(null) }, "Admit all");
    this.lobby = h("section", { class: "waiting", hidden: true, "aria-label": "Waiting to be let in" },
      h("div", { class: "bar" }, h("h3", {}, "Waiting"), h("span", { class: "grow" }), this.admitAll), this.waiting);
    this.list = h("ul", { test: "people" });
    this.removed = h("ul", { test: "banned" });
    this.removedPart = h("section", { class: "removed", hidden: true, "aria-label": "Removed" }, h("h3", {}, "Removed"), this.removed);
    this.el = h("section", { class: "people", "aria-label": "People", hidden: true }, this.lobby, this.list, this.removedPart);
  }

  paint({ view, people, hosting }) {
    const waiting = hosting ? view.waiting : [];
    this.lobby.hidden = waiting.length === 0;
    this.admitAll.hidden = waiting.length < 2;
    const key = waiting.map((person) => person.participant_id + person.name).join();
    if (this.waiting.dataset.key !== key) {
      this.waiting.dataset.key = key;
      this.waiting.replaceChildren(...waiting.map((person) => h("li", { "data-id": person.participant_id }, h("span", { class: "name" }, person.name),
        h("button", { type: "button", class: "primary", test: "admit", "aria-label": `Admit ${person.name}`, onclick: () => this.admit([person.participant_id]) }, "Admit"),
        h("button", { type: "button", test: "refuse", "aria-label": `Do not admit ${person.name}`, onclick: () => this.refuse(person) }, "Refuse"))));
    }
    this.paintRemoved(hosting ? view.banned : []);
    for (const [id, row] of this.rows) if (!view.people[id]) { row.el.remove(); this.rows.delete(id); }
    // Raised hands first, in the order in which they were raised.
    const hand = (person) => person.hand_raised_at || Number.MAX_SAFE_INTEGER;
    [...people].sort((a, b) => hand(a) - hand(b)).forEach((person, index) => {
      const row = this.rows.get(person.participant_id) ?? this.create(person.participant_id);
      if (this.list.children[index] !== row.el) this.list.insertBefore(row.el, this.list.children[index] ?? null);
      this.update(row, person, view);
    });
  }

  paintRemoved(users) {
    this.removedPart.hidden = users.length === 0;
    const key = users.map((user) => user.user_id).join();
    if (this.removed.dataset.key === key) return;
    this.removed.dataset.key = key;
    this.removed.replaceChildren(...users.map((user) => h("li", {}, h("span", { class: "name" }, user.name),
      h("button", { type: "button", test: "lift-ban", "aria-label": `Let ${user.name} join again`, onclick: () => this.liftBan(user) }, "Let join again"))));
  }

  create(id) {
    const row = { name: h("span", { class: "name" }), role: h("span", { class: "hint" }), hand: h("span", { class: "hand" }, icon("hand"), h("span", { class: "unseen" }, "raised hand")), audio: h("span", { class: "state" }), video: h("span", { class: "state" }) };
    row.more = h("button", { type: "button", class: "round small", test: "person-menu", "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => openMenu(row.more, this.actions(row.person), row.person.name) }, icon("more"));
    row.el = h("li", { test: "person", "data-id": id }, h("span", { class: "names" }, row.name, row.role), row.hand, row.audio, row.video, row.more);
    this.rows.set(id, row);
    return row;
  }

  update(row, person, view) {
    row.person = person;
    text(row.name, person.name);
    text(row.role, [person.participant_id === view.me && "you", ROLES[person.role], !isHere(person) && "connection lost"].filter(Boolean).join(" · "));
    row.hand.hidden = !person.hand_raised_at;
    row.more.hidden = this.actions(person).length === 0;
    row.more.setAttribute("aria-label", `Actions for ${person.name}`);
    for (const kind of ["audio", "video"]) {
      const how = muted(person, kind);
      if (row[kind].dataset.mute === how) continue;
      row[kind].dataset.mute = how;
      row[kind].replaceChildren(icon(kind, how !== "no"), h("span", { class: "unseen" }, mutedWords(kind, how)));
    }
  }
}
