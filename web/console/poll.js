// The polling page: nodes as columns, targets as cells that move with their ownership, and the details of one target.
import { explain, pollHistory, pollNodes, pollResults, pollTarget, pollWrite } from "./api.js";
import { announce, colour, dot, generation, h, notice, text } from "./dom.js";
import { paced } from "./live.js";
import { moment } from "./time.js";
import { timeline } from "./timeline.js";

/** With more targets than this, cells are small squares without labels. */
const DENSE = 150;
const MOVE = { duration: 700, easing: "cubic-bezier(.3,.8,.3,1)" };
const STATUS = { online: "online", init: "starting", silent: "silent" };
const STATE = { owned: "polled", uncertain: "uncertain", reserved: "moving", free: "free", paused: "paused", invalid: "invalid" };

/** `host-nanos-8hex` without the timestamp. */
const short = (instance) => instance.replace(/-(\d{6,})-([0-9a-f]{8})$/, "-$2");
const NO_OWNER = "";

export const pollHref = (id) => `#/poll${id ? `?${new URLSearchParams({ id })}` : ""}`;

function column(instance) {
  const name = h("b", { class: "mono", title: instance || "Targets without an owner" });
  const chip = h("span", { class: "chip", test: "node-status" });
  const count = h("span", { class: "hint", test: "node-count" });
  const cells = h("div", { class: "cells", test: "cells" });
  const head = h("header", {}, instance ? dot(0) : null, name, h("span", { class: "grow" }), chip, count);
  return { el: h("section", { class: "column", test: "node", "data-instance": instance }, head, cells), name, chip, count, cells, head };
}

/** The board: a column for every node and a cell for every target. */
function board(open) {
  const columns = new Map(), cells = new Map(), colours = new Map();
  const el = h("div", { class: "board", test: "board" });

  function place(view, owner) {
    let cell = cells.get(view.id);
    if (!cell) {
      cell = h("button", { type: "button", class: "cell", test: "cell", "data-id": view.id, onclick: () => open(view.id) }, h("i"), h("span"));
      cells.set(view.id, cell);
    }
    cell.dataset.state = view.state;
    cell.dataset.health = view.health ?? "";
    cell.dataset.owner = owner;
    cell.title = `${view.name}: ${STATE[view.state] ?? view.state}${view.health ? `, ${view.health}` : ""}`;
    cell.setAttribute("aria-label", cell.title);
    text(cell.lastChild, view.name);
    return cell;
  }

  function update(snapshot) {
    const total = snapshot.nodes.reduce((sum, node) => sum + node.targets.length, 0) + snapshot.unowned.length;
    el.classList.toggle("dense", total > DENSE);
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches || document.hidden;
    const before = new Map();
    if (!still) for (const [id, cell] of cells) if (cell.isConnected) before.set(id, [cell.getBoundingClientRect(), cell.dataset.owner]);
    const wanted = snapshot.nodes.map((node) => ({ ...node, id: node.instance }));
    if (snapshot.unowned.length) wanted.push({ id: NO_OWNER, name: "no owner", status: "", targets: snapshot.unowned });
    const seen = new Set();
    for (const [i, node] of wanted.entries()) {
      let into = columns.get(node.id);
      if (!into) columns.set(node.id, (into = column(node.id)));
      if (el.children[i] !== into.el) el.insertBefore(into.el, el.children[i] ?? null);
      text(into.name, node.id ? short(node.id) : "no owner");
      into.chip.className = `chip ${node.status === "online" ? "held" : node.status ? "delayed" : "free"}`;
      text(into.chip, node.id ? `${STATUS[node.status] ?? node.status}${node.foreign ? ", foreign" : ""}${node.isThisInstance ? ", here" : ""}` : "");
      into.chip.hidden = !node.id;
      text(into.count, String(node.targets.length));
      if (node.id) into.head.querySelector(".dot").className = `dot c${colour(short(node.id), colours)}`;
      const order = node.targets.map((target) => place(target, node.id));
      for (const [at, cell] of order.entries()) if (into.cells.children[at] !== cell) into.cells.insertBefore(cell, into.cells.children[at] ?? null);
      for (const target of node.targets) seen.add(target.id);
    }
    for (const [id, gone] of columns) if (!wanted.some((node) => node.id === id)) { gone.el.remove(); columns.delete(id); }
    for (const [id, cell] of cells) if (!seen.has(id)) { cell.remove(); cells.delete(id); }
    animateMoves(before);
    return total;
  }

  /** Animates cells from their old to their new positions. */
  function animateMoves(before) {
    for (const [id, [was, owner]] of before) {
      const cell = cells.get(id);
      if (!cell) continue;
      const is = cell.getBoundingClientRect();
      const [x, y] = [was.left - is.left, was.top - is.top];
      if (Math.abs(x) < 1 && Math.abs(y) < 1) continue;
      cell.animate([{ transform: `translate(${x}px, ${y}px)`, zIndex: 2 }, { transform: "none", zIndex: 2 }], MOVE);
      if (owner !== cell.dataset.owner) cell.animate([{ boxShadow: "0 0 0 3px var(--accent)" }, { boxShadow: "0 0 0 0 transparent" }], { duration: 1600 });
    }
  }

  return { el, colours, update, mark: (id) => { for (const [other, cell] of cells) cell.setAttribute("aria-pressed", String(other === id)); } };
}

/** The details of one target: record, owners and results. */
function detail(me, colours, failed, changed) {
  let id = null, known = null;
  const may = me.scopes.some((scope) => /^poll:(write|admin)$/.test(scope));
  const title = h("h2", { class: "mono", test: "target-id" });
  const chip = h("span", { class: "chip", test: "target-state" });
  const facts = h("dl", { class: "facts", test: "target-facts" });
  const toggle = h("button", { type: "button", test: "target-toggle", hidden: !may, onclick: flip }, "Pause");
  const close = h("a", { class: "back", href: pollHref(), test: "target-close" }, "Close");
  const rows = h("tbody", { test: "results", role: "rowgroup" });
  const columns = ["When", "Node", "Generation", "Response", "Duration", "Value"];
  const table = h("table", { class: "past results", role: "table" }, h("caption", { class: "unseen" }, "Recent results, newest first"),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((word) => h("th", { role: "columnheader", scope: "col" }, word)))), rows);
  const error = h("p", { class: "refusal", role: "alert", test: "target-error", hidden: true });
  const past = timeline(() => {}, colours);
  const el = h("section", { class: "target", test: "target", hidden: true },
    h("section", { class: "card" }, h("div", { class: "bar" }, title, chip, h("span", { class: "grow" }), toggle, close), error, facts), past.el,
    h("section", { class: "card flush" }, h("h2", {}, "Recent results"), table));

  async function flip() {
    toggle.disabled = true;
    try {
      await pollWrite("POST", id, toggle.dataset.verb);
      notice(toggle.dataset.verb === "pause" ? `${id} is paused.` : `${id} is polled again.`);
      changed();
    } catch (refusal) { notice(explain(refusal), "bad"); }
    toggle.disabled = false;
    refresh();
  }

  function paint(target, results) {
    text(chip, STATE[target.state] ?? target.state);
    chip.className = `chip ${target.state === "owned" ? "held" : target.state === "uncertain" || target.state === "invalid" ? "delayed" : "free"}`;
    toggle.dataset.verb = target.isPaused ? "resume" : "pause";
    text(toggle, target.isPaused ? "Resume" : "Pause");
    const items = [
      ["Name", target.name], ["Address", h("span", { class: "mono" }, target.address ?? "–")], ["Interval", `${target.intervalMs} ms`],
      ["Polled by", h("span", { class: "mono", test: "target-owner" }, target.owner ? short(target.owner) : "no node")],
      target.preferred && target.preferred !== target.owner && ["Preferred owner", h("span", { class: "mono" }, short(target.preferred))],
      target.uncertainSince && ["Uncertain since", moment(target.uncertainSince)],
      target.error && ["Error", target.error],
    ];
    facts.replaceChildren(...items.filter(Boolean).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
    rows.replaceChildren(...results.slice(-12).reverse().map((result) => h("tr", { role: "row", test: "result" },
      h("td", { role: "cell", class: "from" }, moment(result.at)), h("td", { role: "cell", class: "holder" }, short(result.instance)),
      h("td", { role: "cell", class: "generation" }, generation(result.generation)),
      h("td", { role: "cell" }, h("span", { class: `chip ${result.ok ? "held" : "delayed"}` }, result.notModified ? "not modified" : String(result.status ?? "no response"))),
      h("td", { role: "cell", class: "lasted" }, `${result.latencyMs.toFixed(1)} ms`),
      h("td", { role: "cell", class: "value mono" }, result.ok ? JSON.stringify(result.value).slice(0, 80) : result.error ?? ""))));
  }

  const refresh = paced(async () => {
    if (!id) return;
    const requested = id;
    try {
      const [target, results, reigns] = await Promise.all([pollTarget(requested), pollResults(requested), pollHistory(requested)]);
      if (requested !== id) return;
      error.hidden = true;
      paint(target, results);
      const shape = JSON.stringify(reigns);
      if (shape !== known) { known = shape; past.update(reigns.map((reign) => ({ ...reign, holder: short(reign.holder) }))); }
    } catch (refusal) {
      failed(refusal);
      text(error, explain(refusal));
      error.hidden = refusal.status === 401;
    }
  });

  return {
    el, refresh, tick: (now) => id && past.tick(now), destroy() { refresh.stop(); past.destroy(); },
    show(next) {
      if (next === id) return;
      [id, known] = [next, null];
      el.hidden = !id;
      text(title, id ?? "");
      if (id) refresh();
    },
  };
}

export function pollView({ id }, { me, failed, go }) {
  const count = h("span", { class: "hint", test: "poll-count" });
  const placement = h("span", { class: "hint", test: "poll-placement" });
  const loading = h("p", { class: "loading", test: "loading" }, "Loading nodes…");
  const error = h("p", { class: "refusal", role: "alert", test: "poll-error", hidden: true });
  const empty = h("div", { class: "empty", test: "poll-empty", hidden: true }, h("p", {}, "There are no targets yet. Add one:"),
    h("pre", {}, "tenure poll targets add https://example.org/status --interval 10s"));
  const nodes = board((target) => go(pollHref(target)));
  const one = detail(me, nodes.colours, failed, () => refresh());
  one.show(id);
  const el = h("div", { test: "poll", class: "poll" }, h("div", { class: "bar" }, h("h1", {}, "Polling"), count, h("span", { class: "grow" }), placement), error, loading, nodes.el, empty, one.el);

  const refresh = paced(async () => {
    try {
      const snapshot = await pollNodes();
      const total = nodes.update(snapshot);
      nodes.mark(id);
      text(count, `${total} ${total === 1 ? "target" : "targets"} on ${snapshot.nodes.length} ${snapshot.nodes.length === 1 ? "node" : "nodes"}`);
      text(placement, `${snapshot.placement} placement`);
      empty.hidden = total > 0;
      loading.hidden = true;
      error.hidden = true;
      el.classList.remove("stale");
    } catch (refusal) {
      failed(refusal);
      el.classList.add("stale");
      text(error, refusal.status === 404 ? "The polling service is not enabled on this server." : explain(refusal));
      error.hidden = refusal.status === 401;
      loading.hidden = true;
    }
    one.refresh();
  });

  return {
    el, prefix: "poll:lease:", title: "Polling", refresh,
    open(next) { id = next; one.show(next); nodes.mark(next); },
    destroy() { refresh.stop(); one.destroy(); },
    event(event) {
      if (event.verb === "granted") announce(`${event.key.slice(11)} is polled by ${short(event.holder)}`);
      refresh();
    },
    tick: one.tick,
  };
}
