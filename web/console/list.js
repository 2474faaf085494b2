// The live list of leases under a prefix.
import { explain, list } from "./api.js";
import { announce, colour, dot, generation, h, text } from "./dom.js";
import { paced } from "./live.js";
import { countdown, timeOnly } from "./time.js";

const PAGE = 50;
/** How long a lease that just became free stays in view. */
const GHOST = 6_000;

export const STATES = { held: "held", delayed: "lock-delay", reserved: "reserved", free: "free" };
export const ENDS = {
  released: "released", transferred: "transferred", expired: "expired", revoked: "revoked", superseded: "superseded",
  wiped: "wiped", holder_died: "holder died", gone: "lost by the store", granted: "granted",
};
export const leaseHref = (key) => `#/lease?${new URLSearchParams({ key })}`;

/** Keeps a countdown steady across refreshes, and the longest remaining time for the bar. */
export function steady(before, now) {
  const same = before && before.generation === now.generation && before.state === now.state;
  // A response that is consistent with the old deadline is not a renewal: it may only move the deadline earlier.
  if (same && before.deadline != null && now.deadline != null && before.deadline >= now.earliest - 2) {
    now.deadline = Math.min(before.deadline, now.deadline);
  }
  now.peak = Math.max(same ? before.peak : 0, now.remaining ?? 0);
  return now;
}

/** Shows the remaining time as text and bar, and returns it. */
export function showLeft(lease, now, words, bar) {
  const left = lease.deadline == null ? null : Math.max(0, lease.deadline - now);
  text(words, lease.state === "free" ? "free" : countdown(left));
  const share = left == null || !lease.peak ? (lease.state === "free" ? 0 : 1) : Math.min(1, left / lease.peak);
  bar.style.transform = `scaleX(${share.toFixed(4)})`;
  bar.classList.toggle("low", share < 0.2 && left != null);
  return left;
}

const COMMANDS = ["tenure lease acquire demo --ttl 30s", "tenure run nightly-backup -- ./backup.sh"];

function command(line) {
  const button = h("button", { type: "button", class: "quiet", "aria-label": `Copy: ${line}` }, "Copy");
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(line); text(button, "Copied"); } catch { text(button, "Copy manually"); }
  });
  return h("div", { class: "command" }, h("code", {}, line), button);
}

/** The list page. `go` changes the URL: (params, replace); `from` is the lease that the user returns from. */
export function listView({ prefix, after, from }, { go, live, failed }) {
  const rows = new Map();
  const recent = [];
  let next = null, loaded = false, feedCurrent = true, debounce, zeroAt = 0;

  const search = h("input", {
    id: "search", test: "search", type: "search", placeholder: "Prefix, such as tuner/", autocomplete: "off", spellcheck: "false",
    "aria-label": "Filter by prefix", maxlength: 256, oninput: typed, onkeydown: searchKeys,
  });
  search.value = prefix;
  const count = h("span", { class: "hint", test: "count" });
  const body = h("tbody", { test: "rows", role: "rowgroup", onkeydown: rowKeys, onfocusin: (event) => rove(event.target) });
  const head = ["State", "Key", "Holder", "Generation", "Time left", "Waiting"];
  const table = h("table", { class: "leases", test: "list", role: "table", "aria-label": "Leases", hidden: true },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head.map((word) => h("th", { role: "columnheader", scope: "col" }, word)))), body);
  const nothing = h("div", { class: "empty", hidden: true });
  const loading = h("p", { class: "loading", test: "loading" }, "Loading leases…");
  const error = h("p", { class: "refusal", role: "alert", test: "list-error", hidden: true });
  const back = h("button", { type: "button", test: "first", onclick: () => history.state?.paged ? history.back() : go({ prefix }) }, "Previous");
  const forward = h("button", { type: "button", test: "next", onclick: () => go({ prefix, after: next }) }, "Next");
  const pager = h("nav", { class: "pager", "aria-label": "Pages", test: "pager", hidden: true }, back, forward);
  const feed = h("ol", { test: "feed" });
  const changes = h("section", { class: "card feed", hidden: true, "aria-label": "Changes since this page was opened" }, h("h2", {}, "Recent changes"), feed);
  const el = h("div", {},
    h("div", { class: "bar" }, h("h1", {}, "Leases"), count, h("span", { class: "grow" }), search),
    error, h("section", { class: "card flush" }, loading, table, nothing, pager), changes);

  function typed() {
    clearTimeout(debounce);
    debounce = setTimeout(() => go({ prefix: search.value.trim() }, true), 220);
  }
  function searchKeys(event) {
    if (event.key === "ArrowDown") { focusRow(0); event.preventDefault(); }
    if (event.key === "Enter") { clearTimeout(debounce); go({ prefix: search.value.trim() }, true); }
    if (event.key === "Escape" && search.value) { search.value = ""; typed(); event.stopPropagation(); }
  }
  function focusRow(index) {
    const links = [...body.querySelectorAll("a")];
    const link = links[Math.max(0, Math.min(index, links.length - 1))];
    link?.focus();
  }
  /** One row is in the tab order, the last that had the focus; arrow keys reach the others. */
  function rove(link) {
    for (const other of body.querySelectorAll("a")) other.tabIndex = other === link ? 0 : -1;
  }
  function rowKeys(event) {
    const links = [...body.querySelectorAll("a")];
    const here = links.indexOf(document.activeElement);
    const step = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: links.length - 1, PageDown: here + 10, PageUp: here - 10 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    if (step < 0 && event.key === "ArrowUp") search.focus(); else focusRow(step);
  }

  function makeRow(lease) {
    const cell = (name) => h("td", { role: "cell", class: name, test: name });
    const row = { lease, state: h("span", { class: "chip" }), left: h("span", { class: "count", test: "countdown" }), bar: h("i") };
    row.link = h("a", { href: leaseHref(lease.key), test: "key" }, lease.key);
    row.cells = Object.fromEntries(["state", "name", "holder", "generation", "left", "waiters"].map((name) => [name, cell(name)]));
    row.cells.state.append(row.state);
    row.cells.name.append(row.link);
    row.cells.left.append(row.left, h("span", { class: "track" }, row.bar));
    row.tr = h("tr", { role: "row", test: "row", "data-key": lease.key, onclick: (event) => event.target.closest("a") || getSelection().toString() || row.link.click() },
      Object.values(row.cells));
    return row;
  }
  function paint(row) {
    const { lease, cells } = row;
    row.tr.dataset.state = lease.state;
    row.state.className = `chip ${lease.state}`;
    text(row.state, lease.state === "free" ? `free · ${lease.why}` : STATES[lease.state] ?? lease.state);
    cells.holder.replaceChildren(...(lease.holder ? [dot(colour(lease.holder)), h("span", { title: lease.holder }, lease.holder)] : ["–"]));
    cells.generation.replaceChildren(generation(lease.generation));
    cells.waiters.replaceChildren(lease.waiters ? `${lease.waiters}` : "");
    cells.waiters.dataset.some = Boolean(lease.waiters);
  }
  function settle(items) {
    const seen = new Set(items.map((lease) => lease.key));
    for (const lease of items) {
      const row = rows.get(lease.key) ?? makeRow(lease);
      const known = rows.has(lease.key);
      const changed = known && (row.lease.generation !== lease.generation || row.lease.state !== lease.state);
      steady(known ? row.lease : null, lease);
      row.lease = lease;
      rows.set(lease.key, row);
      paint(row);
      if (loaded && (changed || !known)) flash(row.tr);
    }
    for (const [key, row] of rows) {
      if (seen.has(key) || row.lease.state === "free") continue;
      const onPage = !next || (items.length && key < items.at(-1).key);
      if (!onPage) { row.tr.remove(); rows.delete(key); continue; }
      const word = recent.find((event) => event.key === key && event.verb !== "granted")?.verb;
      row.lease = { ...row.lease, state: "free", deadline: null, holder: "", waiters: null, why: ENDS[word] ?? "just now", until: performance.now() + GHOST };
      paint(row);
    }
    const order = [...rows.keys()].sort((a, b) => (a < b ? -1 : 1));
    order.forEach((key, index) => { const { tr } = rows.get(key); if (body.children[index] !== tr) body.insertBefore(tr, body.children[index] ?? null); });
    const links = [...body.querySelectorAll("a")];
    for (const link of links) if (!link.hasAttribute("tabindex")) link.tabIndex = -1;
    if (!links.some((link) => link.getAttribute("tabindex") === "0")) rove(links[0]);
    frame();
  }
  function flash(tr) {
    tr.classList.remove("flash");
    requestAnimationFrame(() => tr.classList.add("flash"));
  }
  function frame() {
    loading.hidden = true;
    table.hidden = rows.size === 0;
    nothing.hidden = rows.size > 0;
    const held = [...rows.values()].filter((row) => row.lease.state !== "free").length;
    text(count, rows.size ? `${held}${next ? "+" : ""} ${held === 1 && !next ? "lease" : "leases"} in use` : "");
    pager.hidden = !next && !after;
    back.disabled = !after;
    forward.disabled = !next;
    const kind = after ? "end" : prefix ? "none" : "new";
    if (nothing.hidden || nothing.dataset.kind === kind) return;
    nothing.dataset.kind = kind;
    nothing.dataset.test = kind === "new" ? "empty" : "no-match";
    if (kind === "new") nothing.replaceChildren(h("h2", {}, "No leases yet"),
      h("p", {}, "A lease is the exclusive ownership of a key for a limited time. Acquire one in a terminal, and it appears here:"), command(COMMANDS[0]),
      h("p", {}, "Or run a program only while it holds a key:"), command(COMMANDS[1]));
    if (kind === "none") nothing.replaceChildren(h("h2", {}, `No held keys with the prefix “${prefix}”`),
      h("p", {}, "Free keys are not listed, but their history is kept: ", h("a", { href: leaseHref(prefix), test: "open-key" }, `show the key “${prefix}”`), "."),
      h("button", { type: "button", onclick: () => { search.value = ""; go({}); } }, "Show all leases"));
    if (kind === "end") nothing.replaceChildren(h("h2", {}, "This page is empty now"), h("button", { type: "button", onclick: () => go({ prefix }) }, "First page"));
  }

  /** The recent changes; drawn at most once per frame. */
  function drawFeed() {
    feedCurrent = true;
    changes.hidden = false;
    feed.replaceChildren(...recent.map((past) => h("li", {}, h("time", {}, timeOnly(past.at)), h("span", { class: `verb ${past.verb}` }, ENDS[past.verb]),
      h("a", { href: leaseHref(past.key) }, past.key), h("span", { class: "dim" }, past.holder))));
  }

  const refresh = paced(async () => {
    try {
      const page = await list(prefix, after, PAGE);
      next = page.next;
      settle(page.items);
      if (!loaded) rows.get(from)?.link.focus();
      loaded = true;
      error.hidden = true;
      el.classList.remove("stale");
      live.listed(page.revision);
    } catch (refusal) {
      failed(refusal);
      el.classList.add("stale");
      text(error, explain(refusal) + (loaded ? " Showing the last known state." : ""));
      error.hidden = refusal.status === 401;
      loading.hidden = true;
    }
  });

  return {
    el, prefix, title: prefix ? `${prefix} – leases` : "Leases", refresh, focusSearch: () => search.focus(),
    destroy() { refresh.stop(); clearTimeout(debounce); },
    event(event) {
      recent.unshift({ ...event, at: Date.now() });
      recent.length = Math.min(recent.length, 8);
      const who = event.verb === "granted" ? `${event.key} granted to ${event.holder}` : `${event.key} ${ENDS[event.verb]}, was held by ${event.holder}`;
      announce(who);
      feedCurrent = false;
      refresh();
    },
    tick(now) {
      if (!feedCurrent) drawFeed();
      for (const [key, row] of rows) {
        if (row.lease.state === "free") {
          text(row.left, "–");
          row.bar.style.transform = "scaleX(0)";
          if (now > row.lease.until && row.link !== document.activeElement) { row.tr.remove(); rows.delete(key); frame(); }
          continue;
        }
        const left = showLeft(row.lease, now, row.left, row.bar);
        if (left === 0 && now - zeroAt > 1_000) { zeroAt = now; refresh(); }
      }
    },
  };
}
