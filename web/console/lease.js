// One lease: its state, its history as a chart and as a table, and actions.
import { explain, history, one } from "./api.js";
import { announce, colour, dot, generation, h, text } from "./dom.js";
import { askRelease, askRevoke, askTransfer } from "./dialog.js";
import { ENDS, showLeft, STATES, steady } from "./list.js";
import { paced } from "./live.js";
import { duration, exact, moment, serverNow } from "./time.js";
import { timeline } from "./timeline.js";

/** Metadata set by the holder; JSON is formatted, other text is shown as it is. */
function metaText(meta) {
  if (meta && typeof meta === "object") return JSON.stringify(meta, null, 2);
  try { const parsed = JSON.parse(meta); return typeof parsed === "object" ? JSON.stringify(parsed, null, 2) : meta; } catch { return meta; }
}

export function leaseView({ key }, { me, failed, home }) {
  let lease = null, loaded = false, zeroAt = 0;
  const chip = h("span", { class: "chip", test: "state" });
  const left = h("span", { class: "count big", test: "countdown" });
  const bar = h("i");
  const facts = h("dl", { class: "facts", test: "facts" });
  const meta = h("pre", { test: "meta", hidden: true, tabindex: "0", role: "group", "aria-label": "Metadata of the holder" });
  const error = h("p", { class: "refusal", role: "alert", test: "lease-error", hidden: true });
  const loading = h("p", { class: "loading", test: "loading" }, "Loading…");
  const act = (ask) => () => lease && ask(lease, refresh);
  const buttons = [
    me.can("write") && h("button", { type: "button", test: "transfer", onclick: act(askTransfer) }, "Transfer…"),
    me.can("write") && h("button", { type: "button", test: "release", onclick: act(askRelease) }, "Release…"),
    me.can("admin") && h("button", { type: "button", class: "danger", test: "revoke", onclick: act(askRevoke) }, "Revoke…"),
  ].filter(Boolean);
  const actions = h("div", { class: "actions", test: "actions" }, buttons.length ? buttons : h("p", { class: "hint" }, "Your token is read-only (lease:read)."));
  const picture = timeline((gen) => { for (const tr of past.rows) tr.classList.toggle("lit", tr.dataset.generation === gen); });
  const past = h("tbody", { test: "history", role: "rowgroup" });
  const columns = ["Holder", "Generation", "From", "Until", "Lasted", "Ended"];
  const table = h("table", { class: "past", role: "table" }, h("caption", { class: "unseen" }, "The last reigns, newest first"),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((word) => h("th", { role: "columnheader", scope: "col" }, word)))), past);
  const historyCard = h("section", { class: "card flush" }, h("h2", {}, "History"), table);
  const content = h("div", { hidden: true },
    h("section", { class: "card now" }, h("div", { class: "state" }, chip, left, h("span", { class: "track" }, bar)), facts, meta, actions), picture.el, historyCard);
  const el = h("div", { test: "lease" }, h("nav", { "aria-label": "Back" }, h("a", { class: "back", href: home, test: "back" }, "← Leases")),
    h("h1", { class: "key mono", test: "lease-key" }, key), error, loading, content);

  function paint() {
    chip.className = `chip ${lease.state}`;
    text(chip, STATES[lease.state] ?? lease.state);
    const who = { held: "Holder", reserved: "Reserved for", delayed: "Last holder" }[lease.state];
    const rows = [
      who && lease.holder && [who, h("span", { class: "mono", test: "holder" }, dot(picture.colours().get(lease.holder) ?? colour(lease.holder)), lease.holder)],
      [lease.state === "held" ? "Generation" : "Last generation", h("span", { class: "mono", test: "generation" }, generation(lease.generation))],
      lease.since && lease.state === "held" && ["Since", h("time", { datetime: exact(lease.since) }, `${moment(lease.since)} (${duration(serverNow() - lease.since)})`)],
      lease.waiters != null && ["Waiting", h("span", { test: "waiters" }, lease.waiters === 0 ? "none" : String(lease.waiters))],
      lease.state === "delayed" && ["Meaning", "Revoked. It cannot be acquired until the lock-delay ends."],
      lease.state === "reserved" && ["Meaning", "Reserved for its successor for a moment."],
      lease.state === "free" && ["Meaning", "Not held. The next claim gets it."],
    ];
    facts.replaceChildren(...rows.filter(Boolean).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
    const words = metaText(lease.meta);
    meta.hidden = !words;
    text(meta, words || "");
    for (const button of buttons) button.disabled = lease.state !== "held";
  }
  function paintHistory(reigns) {
    const colours = picture.colours();
    historyCard.hidden = !reigns.length;
    past.replaceChildren(...[...reigns].reverse().map((reign) => h("tr", { role: "row", test: "reign-row", "data-generation": reign.generation,
      onpointerenter: () => picture.highlight(reign.generation), onpointerleave: () => picture.highlight(null) },
    h("td", { role: "cell", class: "holder" }, dot(colours.get(reign.holder) ?? 0), h("span", { title: reign.holder }, reign.holder)),
    h("td", { role: "cell", class: "generation" }, generation(reign.generation)),
    h("td", { role: "cell", class: "from", "data-label": "from" }, h("time", { datetime: exact(reign.from), title: exact(reign.from) }, moment(reign.from))),
    h("td", { role: "cell", class: "until", "data-label": "until" }, reign.until == null ? "–" : h("time", { datetime: exact(reign.until), title: exact(reign.until) }, moment(reign.until))),
    h("td", { role: "cell", class: "lasted" }, duration((reign.until ?? serverNow()) - reign.from)),
    h("td", { role: "cell", class: "ended", test: "ended" }, reign.end ? ENDS[reign.end] ?? reign.end : h("span", { class: "chip held" }, "still held")))));
  }

  let known = null;
  const refresh = paced(async () => {
    try {
      const [now, reigns] = await Promise.all([one(key), history(key)]);
      lease = steady(lease, now);
      const shape = JSON.stringify(reigns);
      if (shape !== known) { known = shape; content.hidden = false; picture.update(reigns); paintHistory(reigns); }
      loaded = true;
      loading.hidden = true;
      content.hidden = false;
      error.hidden = true;
      el.classList.remove("stale");
      paint();
    } catch (refusal) {
      failed(refusal);
      el.classList.add("stale");
      text(error, explain(refusal) + (loaded ? " Showing the last known state." : ""));
      error.hidden = refusal.status === 401;
      loading.hidden = true;
    }
  });

  return {
    el, key, prefix: key, title: key, refresh,
    destroy() { refresh.stop(); picture.destroy(); },
    event(event) {
      if (event.key !== key) return;
      announce(event.verb === "granted" ? `Granted to ${event.holder}` : `${event.holder}: ${ENDS[event.verb]}`);
      refresh();
    },
    tick(now) {
      if (!lease) return;
      const rest = showLeft(lease, now, left, bar);
      if (rest === 0 && now - zeroAt > 1_000) { zeroAt = now; refresh(); }
      picture.tick(now);
    },
  };
}
