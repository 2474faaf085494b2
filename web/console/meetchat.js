// The chat beside the stage: messages, news, what waits to be sent, and links.
import { announce, h } from "./dom.js";

/** Lines of the log on the page. */
const MAX_LINES = 500;
const LINK = /https?:\/\/[^\s<>"']+[^\s<>"'.,;:!?)\]}]/g;

/** A text with its web addresses as links, as children of an element. */
export function linked(words) {
  const parts = [];
  let at = 0;
  for (const found of words.matchAll(LINK)) {
    parts.push(words.slice(at, found.index), h("a", { href: found[0], target: "_blank", rel: "noopener noreferrer nofollow" }, found[0]));
    at = found.index + found[0].length;
  }
  return [...parts, words.slice(at)].filter(Boolean);
}

export class Chat {
  /** `send(text)` resolves when the message took effect. `unread(count)` is called while the chat is not open. */
  constructor({ send, unread }) {
    Object.assign(this, { send, unread });
    this.lastSeq = 0;
    this.waitsFor = "sending…";
    this.missed = 0;
    this.open = true;
    this.log = h("ol", { test: "chat", role: "log", "aria-label": "Chat", tabindex: "0", "data-empty": "No messages yet. Only the people who are here see what you write." });
    this.field = h("input", { test: "chat-text", maxlength: 2000, autocomplete: "off", placeholder: "Message to everyone", "aria-label": "Message to everyone" });
    this.el = h("section", { class: "talk", "aria-label": "Chat" }, this.log,
      h("form", { onsubmit: (event) => { event.preventDefault(); this.submit(); } }, this.field, h("button", { test: "chat-send", class: "primary", type: "submit" }, "Send")));
  }

  submit() {
    const words = this.field.value.trim();
    if (!words) return;
    this.field.value = "";
    this.post(words);
  }

  /** Shows a message as pending until it took effect, or why it did not. */
  async post(words) {
    const note = h("small", { class: "hint" }, this.waitsFor);
    const item = h("li", { class: "pending", test: "pending", "data-text": words }, h("b", {}, "You"), note, h("p", {}, linked(words)));
    this.append(item, true);
    try {
      await this.send(words);
      item.remove();
    } catch (error) {
      item.dataset.test = "unsent";
      const retry = () => { item.remove(); this.post(words); };
      note.replaceChildren(`not sent: ${error.message} `, h("button", { type: "button", class: "quiet", test: "chat-retry", onclick: retry }, "Send again"));
    }
  }

  /** What pending messages wait for. */
  connected(yes) {
    this.waitsFor = yes ? "sending…" : "waits for the connection";
    for (const note of this.log.querySelectorAll("[data-test=pending] small")) note.textContent = this.waitsFor;
  }

  /** Clears the log, after a reload or when an event was lost. Messages that wait stay. */
  clear() {
    this.log.replaceChildren(...this.log.querySelectorAll("[data-test=pending], [data-test=unsent]"));
    this.lastSeq = 0;
  }

  news(words) {
    this.append(h("li", { class: "news" }, words));
    announce(words);
  }

  /** Shows the messages of the meeting that are not shown yet. */
  paint(view) {
    for (const said of view.lines.filter((line) => line.seq > this.lastSeq)) {
      const at = new Date(said.sent_at), own = said.participant_id === view.me;
      this.append(h("li", { "data-seq": said.seq }, h("b", {}, own ? "You" : said.name),
        h("time", { datetime: at.toISOString() }, at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })), h("p", {}, linked(said.text))));
      // Before the answer to the request comes, its event may be here.
      if (own) [...this.log.querySelectorAll("[data-test=pending]")].find((item) => item.dataset.text === said.text)?.remove();
      else { announce(`${said.name} says ${said.text}`); this.miss(); }
      this.lastSeq = said.seq;
    }
  }

  miss() {
    if (this.open) return;
    this.unread(++this.missed);
  }

  /** Whether the user sees the chat. */
  setOpen(open) {
    this.open = open;
    if (open) this.unread((this.missed = 0));
    if (open) this.log.scrollTop = this.log.scrollHeight;
  }

  append(item, last = false) {
    const below = last || this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
    const waiting = last ? null : this.log.querySelector("[data-test=pending]");
    this.log.insertBefore(item, waiting);
    while (this.log.children.length > MAX_LINES) this.log.firstChild.remove();
    if (below) this.log.scrollTop = this.log.scrollHeight;
  }
}
