// Building elements. Text always goes in as text, never as markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value == null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name === "test" ? "data-test" : name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

export const h = (tag, props, ...children) => fill(document.createElement(tag), props, children);
export const s = (tag, props, ...children) => fill(document.createElementNS(SVG, tag), props, children);
export const byId = (id) => document.getElementById(id);

/** Sets text only when it differs: cheap enough for every frame. */
export function text(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

/** A generation with its slow-moving front part dimmed; the text stays whole for copying. */
export function generation(number) {
  if (!number) return "–";
  const cut = Math.max(0, number.length - 7);
  return h("span", { class: "gen", title: number }, h("span", { class: "dim" }, number.slice(0, cut)), number.slice(cut));
}

/** The colour slot of a holder; `taken` keeps the holders of one chart apart while there are slots. */
export const SLOTS = 10;
export function colour(holder, taken = new Map()) {
  if (taken.has(holder)) return taken.get(holder);
  let slot = 0;
  for (const char of holder) slot = (slot * 31 + char.codePointAt(0)) >>> 0;
  slot %= SLOTS;
  const used = new Set(taken.values());
  for (let i = 0; i < SLOTS && used.has(slot); i++) slot = (slot + 1) % SLOTS;
  taken.set(holder, slot);
  return slot;
}

export const dot = (slot) => h("i", { class: `dot c${slot}`, "aria-hidden": "true" });

let pending = [];
let timer = null;
/** Announces changes to screen readers, at most every two seconds. */
export function announce(words) {
  pending.push(words);
  timer ??= setTimeout(() => {
    text(byId("announcer"), pending.length > 3 ? `${pending.length} changes, the last: ${pending.at(-1)}` : pending.join(". "));
    pending = [];
    timer = null;
  }, 2000);
}

let noticeTimer;
/** Shows a line under the header for a while. */
export function notice(words, kind = "good") {
  const place = byId("notice");
  clearTimeout(noticeTimer);
  place.hidden = !words;
  place.dataset.kind = kind;
  place.textContent = words ?? "";
  if (words) noticeTimer = setTimeout(() => (place.hidden = true), kind === "bad" ? 20_000 : 8_000);
}
