// A chart of the history of a key: one lane per holder, hatched while it was free, and a mark for the end of each reign.
import { colour, dot, h, s } from "./dom.js";
import { ENDS } from "./list.js";
import { dayOnly, duration, moment, serverNow, timeOnly } from "./time.js";

/** Marks are drawn around 0,0 in a box of 12. */
const MARKS = {
  released: ["M-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0", "calm", "released by the holder"],
  transferred: ["M-3.5-4.5L4.5 0L-3.5 4.5Z", "calm", "transferred to a successor"],
  expired: ["M-4-4.5H4L-4 4.5H4Z", "warn", "not renewed in time"],
  superseded: ["M-4.5 1L0-4L4.5 1M-4.5 5L0 0L4.5 5", "warn", "replaced: the holder was proven dead"],
  wiped: ["M-4.5 0H4.5", "warn", "wiped by a gate"],
  revoked: ["M-4-4L4 4M4-4L-4 4", "bad", "revoked by an operator"],
  holder_died: ["M0-5V5M-3.5-1.5H3.5", "bad", "the holder's process ended"],
  gone: ["M-4.5 0L0-4.5L4.5 0L0 4.5Z", "bad", "lost by the store"],
};
const STEPS = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6];
const GAP_SHARE = 0.4;

const mark = (end, x, y) => s("path", { class: `mark ${MARKS[end]?.[1] ?? "warn"}`, d: (MARKS[end] ?? MARKS.gone)[0], transform: `translate(${x} ${y})` });
const endWord = (reign) => (reign.end ? ENDS[reign.end] ?? reign.end : "still held");

/** Spans in order: reigns and the gaps between and after them. */
function spans(reigns, now) {
  const out = [];
  let edge = null;
  for (const reign of reigns) {
    if (edge !== null && reign.from > edge) out.push({ from: edge, until: reign.from });
    const until = Math.max(reign.until ?? now, reign.from);
    out.push({ from: reign.from, until, reign });
    edge = Math.max(edge ?? 0, until);
  }
  return out;
}

/** Maps time to x, either true to scale or with one equal step per reign. */
function scale(all, even, left, right) {
  const first = all[0].from, last = Math.max(...all.map((span) => span.until), first + 1);
  if (!even) return (t) => left + ((t - first) / (last - first)) * (right - left);
  const total = all.reduce((sum, span) => sum + (span.reign ? 1 : GAP_SHARE), 0);
  let x = left;
  const stops = all.map((span) => ({ ...span, x, end: (x += ((span.reign ? 1 : GAP_SHARE) / total) * (right - left)) }));
  return (t) => {
    const stop = stops.find((span) => t <= span.until) ?? stops.at(-1);
    return stop.x + Math.min(1, (t - stop.from) / Math.max(1, stop.until - stop.from)) * (stop.end - stop.x);
  };
}

function ticks(all, even, x, width) {
  const first = all[0].from, last = all.at(-1).until;
  if (even) {
    let edge = -Infinity;
    return all.filter((span) => span.reign && x(span.from) - edge > 92 && (edge = x(span.from))).map((span) => span.from);
  }
  const step = STEPS.find((size) => (last - first) / size <= width / 92) ?? STEPS.at(-1);
  const zone = new Date(first).getTimezoneOffset() * 60_000;
  const out = [];
  for (let t = Math.ceil((first - zone) / step) * step + zone; t <= last; t += step) out.push(t);
  return Object.assign(out, { step });
}

/** The chart with its legend; `point` is called with the generation under the pointer. */
export function timeline(point, known = new Map()) {
  const plot = h("div", { class: "plot", test: "timeline" });
  const tip = h("div", { class: "tip", test: "tip", role: "tooltip", id: "tip", hidden: true });
  const legend = h("ul", { class: "legend", test: "legend", "aria-label": "Legend" });
  const modes = ["To scale", "Even steps"].map((word, i) => h("button", { type: "button", class: "quiet", test: i ? "even" : "to-scale",
    "aria-pressed": String(!i), onclick: () => { even = Boolean(i); modes.forEach((b, j) => b.setAttribute("aria-pressed", String(i === j))); draw(); } }, word));
  const el = h("section", { class: "card", "aria-labelledby": "timeline-title" },
    h("div", { class: "bar" }, h("h2", { id: "timeline-title" }, "Ownership"), h("span", { class: "grow" }), h("span", { class: "switch", role: "group", "aria-label": "Scale" }, modes)),
    plot, legend);
  let reigns = [], even = false, chosen = null, running = null, lastDraw = 0;
  const resize = new ResizeObserver(() => draw());
  resize.observe(plot);

  function show(bar, reign) {
    point(reign?.generation ?? null);
    tip.hidden = !reign;
    if (!reign) return;
    const rows = [["From", moment(reign.from)], ["Until", reign.until == null ? "now" : moment(reign.until)],
      ["Lasted", duration((reign.until ?? serverNow()) - reign.from)], ["Ended", endWord(reign)], ["Generation", reign.generation]];
    tip.replaceChildren(h("strong", {}, reign.holder), h("dl", {}, rows.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
    const box = bar.getBoundingClientRect(), frame = plot.getBoundingClientRect();
    const x = Math.min(Math.max(4, box.left + box.width / 2 - frame.left - tip.offsetWidth / 2), frame.width - tip.offsetWidth - 4);
    tip.style.left = `${x}px`;
    tip.style.top = `${box.bottom - frame.top + 8}px`;
  }
  function keys(event) {
    const bars = [...plot.querySelectorAll(".reign")];
    const here = bars.indexOf(document.activeElement);
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: bars.length - 1 }[event.key];
    if (event.key === "Escape" && !tip.hidden) { show(null, null); event.stopPropagation(); }
    if (to === undefined || !bars[to]) return;
    event.preventDefault();
    bars.forEach((bar, i) => bar.setAttribute("tabindex", i === to ? "0" : "-1"));
    bars[to].focus();
  }
  function draw() {
    const width = plot.clientWidth;
    if (!width) return;
    const focused = document.activeElement?.closest?.(".reign")?.dataset.generation;
    if (!reigns.length) return plot.replaceChildren(h("p", { class: "hint" }, "This key has no history."));
    const now = serverNow(), taken = new Map(known);
    const all = spans(reigns, now);
    const holders = [...new Set(reigns.map((reign) => reign.holder))];
    holders.forEach((holder) => colour(holder, taken));
    const narrow = width < 620, most = narrow ? Math.floor(width / 7.5) : 22, lane = narrow ? 42 : 30, top = 6;
    const longest = Math.max(...holders.map((holder) => Math.min(holder.length, most)));
    const gutter = narrow ? 8 : longest * 7.4 + 22;
    const bottom = top + holders.length * lane, x = scale(all, even, gutter, width - 14);
    const marks = ticks(all, even, x, width - gutter);
    const picture = s("svg", { width, height: bottom + 26, role: "group", "aria-label": summary(holders, now), onkeydown: keys },
      s("defs", {}, s("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 7 }))));
    for (const t of marks) {
      const fine = marks.step < 1000, days = marks.step >= 864e5;
      picture.append(s("line", { class: "grid", x1: x(t), x2: x(t), y1: top, y2: bottom }),
        s("text", { class: "axis", x: Math.min(Math.max(x(t), 24), width - 30), y: bottom + 18, "text-anchor": "middle" }, days ? dayOnly(t) : timeOnly(t, fine)));
    }
    // A gap too narrow to see would be a stray dotted line; even steps show it.
    const gaps = all.filter((span) => !span.reign && x(span.until) - x(span.from) >= 2);
    for (const { from, until } of gaps) picture.append(s("rect", { class: "gap", x: x(from), y: top, width: x(until) - x(from), height: bottom - top, fill: "url(#hatch)" }, s("title", {}, `Free for ${duration(until - from)}`)));
    holders.forEach((holder, i) => {
      const y = top + i * lane;
      if (i) picture.append(s("line", { class: "rule", x1: 0, x2: width, y1: y, y2: y }));
      picture.append(s("text", { class: "lane", x: narrow ? 8 : 4, y: narrow ? y + 14 : y + lane / 2 + 4 }, holder.length > most ? `${holder.slice(0, most - 1)}…` : holder, s("title", {}, holder)));
    });
    for (const { reign, from, until } of all) {
      if (!reign) continue;
      const y = top + holders.indexOf(reign.holder) * lane + (narrow ? 20 : 6), high = lane - (narrow ? 25 : 12);
      const x0 = x(from), wide = Math.max(3, x(until) - x0);
      const at = x0 + wide + (wide < 14 ? 9 : 0); // the mark must not hide a short reign
      const bar = s("g", { class: "reign", tabindex: reign.generation === (focused ?? chosen ?? reigns.at(-1).generation) ? "0" : "-1", role: "img", "data-generation": reign.generation, "data-test": "reign",
        "aria-label": `${reign.holder}, ${moment(reign.from)}, ${duration(until - from)}, ${endWord(reign)}`,
        onpointerenter: () => show(bar, reign), onpointerleave: () => show(null, null), onfocus: () => { chosen = reign.generation; show(bar, reign); }, onblur: () => show(null, null) },
      s("rect", { class: "hit", x: x0 - 4, y: y - 4, width: wide + 8, height: high + 8 }),
      s("rect", { class: `body c${taken.get(reign.holder)} ${reign.end ? "" : "now"}`, x: x0, y, width: wide, height: high, rx: Math.min(4, wide / 2) }),
      reign.end && s("circle", { class: "disc", cx: at, cy: y + high / 2, r: 8 }), reign.end && mark(reign.end, at, y + high / 2));
      picture.append(bar);
      if (!reign.end) running = { rect: bar.children[1], x, from: x0 };
    }
    const shown = !tip.hidden;
    tip.hidden = true;
    plot.replaceChildren(picture, tip);
    if (focused) plot.querySelector(`.reign[data-generation="${CSS.escape(focused)}"]`)?.focus();
    if (!shown) show(null, null);
    const used = [...new Set(reigns.map((reign) => reign.end).filter(Boolean))];
    legend.replaceChildren(...used.map((end) => h("li", {}, s("svg", { width: 16, height: 16, viewBox: "-8 -8 16 16", "aria-hidden": "true" }, mark(end, 0, 0)), h("b", {}, ENDS[end] ?? end), MARKS[end] && h("span", {}, MARKS[end][2]))),
      ...(gaps.length ? [h("li", {}, h("i", { class: "swatch gap", "aria-hidden": "true" }), h("span", {}, "not held"))] : []),
      ...(reigns.at(-1).end ? [] : [h("li", {}, dot(taken.get(reigns.at(-1).holder)), h("span", {}, "still held"))]));
    lastDraw = performance.now();
  }
  function summary(holders, now) {
    return `Ownership from ${moment(reigns[0].from)} to ${moment(reigns.at(-1).until ?? now)}: ${reigns.length} reigns by ${holders.length} holders. Arrow keys go through them; the table below says the same.`;
  }

  return {
    el,
    colours() { const taken = new Map(known); new Set(reigns.map((reign) => reign.holder)).forEach((holder) => colour(holder, taken)); return taken; },
    update(next) { reigns = next.filter((reign) => reign.from != null).sort((a, b) => a.from - b.from); running = null; draw(); },
    highlight(gen) { for (const bar of plot.querySelectorAll(".reign")) bar.classList.toggle("lit", bar.dataset.generation === gen); },
    /** Redraws the current reign once per second, but not while the tooltip is open. */
    tick(now) { if (running && tip.hidden && now - lastDraw > 1_000) draw(); },
    destroy() { resize.disconnect(); },
  };
}
