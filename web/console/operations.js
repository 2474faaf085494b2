// Operations of meetings: nodes, running meetings, drains and moves with their progress, the last moves and failovers.
//
// Hooks for browser tests, as data-test: refusal summary nodes node[data-id][data-health] drain-progress[data-id] drain undrain
//   meetings meeting[data-id][data-phase] owner move end moves moved no-nodes no-meetings no-moves more
//   move-dialog field-to move-confirm dialog-cancel drain-dialog end-dialog confirm cancel
import { explain, meetMoves, meetNodes, meetOrder, meetRunning, whenUnauthorized } from "./api.js";
import { confirmed } from "./confirm.js";
import { announce, byId, generation, h, notice, text } from "./dom.js";
import { connection, loadAccount, showSignIn } from "./shell.js";
import { duration, exact, moment } from "./time.js";

const REFRESH = 2_000;
const HEALTH = { healthy: "held", degraded: "reserved", draining: "reserved", pending: "free", unhealthy: "delayed" };
const PHASE = { active: "held", moving: "reserved", delayed: "delayed", idle: "free" };
const RESULT = { completed: "held", aborted: "reserved", failed: "delayed" };
const WHY = { drain: "drain", overload: "overload", unreachable: "unreachable for participants", panic: "panic", operator: "by an operator", controller_lost: "controller lost" };

let signedIn = false, controllers = [];

function complain(words) {
  text(byId("refusal"), words ?? "");
  byId("refusal").hidden = !words;
}

/** Keeps one row per key, so that a focused button stays. `make` creates a row and returns how to update it. */
function keyed(body, make) {
  const rows = new Map();
  return (items, key) => {
    const seen = new Set();
    items.forEach((item, at) => {
      const id = key(item);
      seen.add(id);
      if (!rows.has(id)) rows.set(id, make(item));
      const row = rows.get(id);
      row.update(item);
      if (body.children[at] !== row.el) body.insertBefore(row.el, body.children[at] ?? null);
    });
    for (const [id, row] of rows) if (!seen.has(id)) { row.el.remove(); rows.delete(id); }
  };
}

const chip = (test) => h("span", { class: "chip", test });
function paintChip(element, word, kinds) {
  element.className = `chip ${kinds[word] ?? "free"}`;
  text(element, word);
}

async function order(path, body, words) {
  try {
    await meetOrder(path, body);
    notice(words);
    announce(words);
  } catch (refusal) {
    notice(refusal.detail || explain(refusal), "bad");
  }
  refresh();
}

async function drain(id) {
  const lead = "Its meetings move to other controllers, and people stay in them. Its process ends when no meeting is left.";
  if (!(await confirmed({ title: `Drain ${id}?`, lead, button: "Drain", test: "drain-dialog" }))) return;
  order(`controllers/${encodeURIComponent(id)}/drain`, { reason: "maintenance" }, `${id} drains.`);
}

async function end({ meeting_id: id, display_name: name }) {
  const lead = "All people are disconnected. The meeting stays closed until its host returns.";
  if (!(await confirmed({ title: `End ${name || id}?`, lead, button: "End for all", test: "end-dialog" }))) return;
  order(`meetings/${encodeURIComponent(id)}/end`, {}, `${name || id} has ended.`);
}

/** Asks where a meeting should move. */
function move(meeting) {
  const others = controllers.filter(({ id, health }) => id !== meeting.owner && health !== "draining");
  const choice = h("select", { name: "to", test: "field-to" }, h("option", { value: "" }, "the best controller"),
    others.map(({ id, load_percent: load }) => h("option", { value: id }, `${id} (${load} % full)`)));
  const form = h("form", { method: "dialog" }, h("h2", { id: "move-title" }, `Move ${meeting.display_name || meeting.meeting_id}?`),
    h("p", {}, `It runs on ${meeting.owner}. People stay in the meeting.`), h("label", { class: "field" }, h("span", {}, "New controller"), choice),
    h("div", { class: "actions" }, h("button", { type: "submit", test: "dialog-cancel", value: "no" }, "Cancel"),
      h("button", { type: "submit", class: "primary", test: "move-confirm", value: "yes" }, "Move")));
  const dialog = h("dialog", { test: "move-dialog", "aria-labelledby": "move-title" }, form);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (dialog.returnValue !== "yes") return;
    const to = choice.value;
    order(`meetings/${encodeURIComponent(meeting.meeting_id)}/move`, to ? { to } : {}, `${meeting.display_name || meeting.meeting_id} moves.`);
  });
  document.body.append(dialog);
  dialog.showModal();
  choice.focus();
}

function nodeRow({ id, kind }) {
  const health = chip(), load = h("span"), bar = h("i"), track = h("span", { class: "load" }, bar), serves = h("td"), usage = h("td"), zone = h("td"), version = h("td", { class: "mono" });
  const controller = kind === "controller";
  const start = h("button", { type: "button", test: "drain", onclick: () => drain(id) }, "Drain");
  const stop = h("button", { type: "button", test: "undrain", onclick: () => order(`controllers/${encodeURIComponent(id)}/undrain`, {}, `${id} accepts meetings again.`) }, "Cancel drain");
  const el = h("tr", { test: "node", "data-id": id }, h("td", { class: "name" }, h("b", { class: "mono" }, id), h("small", {}, controller ? "meeting controller" : "media handler")),
    h("td", {}, health), h("td", {}, load, track), serves, usage, zone, version, h("td", { class: "orders" }, controller && [start, stop]));
  return {
    el,
    update(node) {
      el.dataset.health = node.health;
      paintChip(health, node.health, HEALTH);
      text(load, `${node.load_percent} %`);
      bar.style.width = `${Math.min(node.load_percent, 100)}%`;
      track.dataset.level = node.load_percent >= 95 ? "full" : node.load_percent >= 85 ? "high" : "normal";
      text(serves, controller ? `${node.meetings} meetings, ${node.participants} people` : `${node.streams} streams`);
      text(usage, `${Math.round(node.cpu_percent)} %, ${Math.round(node.memory_percent)} %`);
      text(zone, `${node.region} ${node.zone}`);
      text(version, node.version);
      start.hidden = node.health === "draining";
      stop.hidden = !start.hidden;
    },
  };
}

function drainRow({ mc_id: id }) {
  const bar = h("progress", { "aria-label": `Drain of ${id}` }), words = h("span");
  const el = h("tr", { class: "drain", test: "drain-progress", "data-id": id }, h("td", { colspan: 8 }, bar, words));
  return {
    el,
    update(drain) {
      el.dataset.state = drain.state;
      bar.max = Math.max(drain.meetings, 1);
      bar.value = drain.meetings ? drain.meetings - drain.left : 1;
      const state = { draining: "drains", drained: "has drained", cancelled: "stopped draining" }[drain.state];
      text(words, `${id} ${state}: ${drain.migrated} of ${drain.meetings} meetings moved, ${drain.closed} closed, ${drain.left} left (since ${moment(drain.started_ms)})`);
    },
  };
}

function meetingRow({ meeting_id: id }) {
  let known = null;
  const name = h("b"), phase = chip(), owner = h("td", { class: "mono", test: "owner" }), people = h("td"), reign = h("td", { class: "mono" }), handlers = h("td", { class: "mono" });
  const go = h("button", { type: "button", test: "move", onclick: () => move(known) }, "Move…");
  const over = h("button", { type: "button", class: "danger", test: "end", onclick: () => end(known) }, "End…");
  const el = h("tr", { test: "meeting", "data-id": id }, h("td", { class: "name" }, name, h("small", { class: "mono" }, id)),
    h("td", {}, phase), owner, people, reign, handlers, h("td", { class: "orders" }, go, over));
  return {
    el,
    update(meeting) {
      const moved = known && known.owner !== meeting.owner;
      if (known?.generation !== meeting.generation) reign.replaceChildren(generation(meeting.generation));
      known = meeting;
      el.dataset.phase = meeting.phase;
      text(name, meeting.display_name || "(no name)");
      paintChip(phase, meeting.phase, PHASE);
      text(owner, meeting.owner ?? "–");
      text(people, meeting.connected === meeting.people ? String(meeting.people) : `${meeting.people} (${meeting.connected} connected)`);
      text(handlers, meeting.handlers.join(", ") || "–");
      go.disabled = meeting.phase !== "active";
      if (moved) announce(`${meeting.display_name || id} runs on ${meeting.owner}`);
    },
  };
}

function moveRow(entry) {
  const result = chip();
  const el = h("tr", { test: "moved" }, h("td", {}, h("time", { title: exact(entry.started_ms) }, moment(entry.started_ms))), h("td", { class: "name mono" }, entry.meeting_id),
    h("td", {}, entry.kind, h("small", {}, WHY[entry.reason] ?? entry.reason)), h("td", { class: "mono" }, `${entry.from_mc} → ${entry.to_mc ?? "–"}`), h("td", {}, result),
    h("td", {}, duration(entry.duration_ms)), h("td", {}, entry.freeze_ms == null ? "–" : duration(entry.freeze_ms)));
  paintChip(result, entry.result, RESULT);
  return { el, update() {} };
}

const paintNodes = keyed(byId("nodes"), (item) => (item.mc_id ? drainRow(item) : nodeRow(item)));
const paintMeetings = keyed(byId("meetings"), meetingRow);
const paintMoves = keyed(byId("moves"), moveRow);

/** The drains that are under way, each below its controller; others at the end. */
function withDrains(nodes, drains) {
  const shown = drains.filter(({ state, mc_id: id }) => state === "draining" || (state === "drained" && nodes.some((node) => node.id === id)));
  const rows = nodes.flatMap((node) => [node, ...shown.filter(({ mc_id: id }) => id === node.id)]);
  return [...rows, ...shown.filter(({ mc_id: id }) => !nodes.some((node) => node.id === id))];
}

let refreshing = false;
async function refresh() {
  if (!signedIn || refreshing) return;
  refreshing = true;
  try {
    const [nodes, running, moves] = await Promise.all([meetNodes(), meetRunning(), meetMoves()]);
    controllers = nodes.items.filter(({ kind }) => kind === "controller");
    paintNodes(withDrains(nodes.items, nodes.drains), (item) => (item.mc_id ? `drain ${item.mc_id}` : `${item.kind} ${item.id}`));
    paintMeetings(running.items, ({ meeting_id: id }) => id);
    paintMoves(moves, (entry) => `${entry.started_ms} ${entry.meeting_id} ${entry.result}`);
    byId("no-nodes").hidden = nodes.items.length > 0;
    byId("no-meetings").hidden = running.items.length > 0;
    byId("more").hidden = !running.next;
    byId("no-moves").hidden = moves.length > 0;
    const people = running.items.reduce((sum, meeting) => sum + meeting.people, 0);
    text(byId("summary"), `${controllers.length} controllers, ${nodes.items.length - controllers.length} handlers, ${running.items.length}${running.next ? "+" : ""} meetings, ${people} people`);
    complain(null);
    connection("live");
  } catch (refusal) {
    if (refusal.code === "NETWORK") connection("reconnecting");
    else if (refusal.status !== 401) complain(refusal.status === 404 ? "Meetings do not run on this server." : explain(refusal));
  } finally {
    refreshing = false;
  }
}

async function begin() {
  try {
    await loadAccount();
  } catch (refusal) {
    if (refusal.status === 401) return;
    return void setTimeout(begin, 1_000);
  }
  signedIn = true;
  refresh();
}

whenUnauthorized(() => { signedIn = false; showSignIn(); });
document.addEventListener("visibilitychange", () => document.hidden || refresh());
setInterval(() => document.hidden || refresh(), REFRESH);
begin();
