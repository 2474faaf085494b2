// The details of a connection, for support: what goes out, what comes in, and what got lost on the way.
import { h } from "./dom.js";

/** The numbers are read this often, in milliseconds. */
const REFRESH = 1_000;

const STATES = { open: "connected", connecting: "connecting", closed: "not connected" };
const STREAMS = { 1: "microphone", 2: "camera", 3: "screen", 4: "sound of the screen" };

/** Opens a dialog with the numbers of `stats()`; `nameOf(id)` names a participant. */
export function showDetails({ stats, quality, nameOf }) {
  const list = h("dl", { class: "facts details" });
  const dialog = h("dialog", { test: "details", "aria-labelledby": "details-title", onclose: () => { clearInterval(timer); dialog.remove(); } },
    h("form", { method: "dialog" }, h("h2", { id: "details-title" }, "Connection"), list,
      h("div", { class: "actions" }, h("button", { type: "submit", test: "details-close" }, "Close"))));
  const paint = async () => list.replaceChildren(...rows(await stats(), quality(), nameOf).flatMap(([name, words]) => [h("dt", {}, name), h("dd", {}, words)]));
  const timer = setInterval(paint, REFRESH);
  paint();
  document.body.append(dialog);
  dialog.showModal();
}

/** Lines of a name and what there is to say. */
export function rows({ sessions, pictures, voices, sources }, quality, nameOf) {
  const of = (key) => { const [id, stream] = key.split("/"); return `${nameOf(id)}, ${STREAMS[stream] ?? stream}`; };
  return [
    ["Quality", quality || "not measured yet"],
    ...sessions.map(({ url, state, active }) => ["Media handler", `${new URL(url).host}: ${STATES[state] ?? state}${active ? ", carries media" : ", stands by"}`]),
    ...Object.entries(sources).map(([name, { renditions, sequence }]) => [`You send: ${{ audio: "microphone", video: "camera", screen: "screen", screenAudio: "sound of the screen" }[name]}`,
      renditions ? renditions.map(({ frames }, index) => `size ${index + 1}: ${frames} frames`).join(", ") : `${sequence} packets`]),
    ...Object.entries(pictures).map(([key, { codec, shown, dropped, gap }]) => [of(key), `${codec}, ${shown} frames, ${dropped} dropped, longest gap ${Math.round(gap)} ms`]),
    ...Object.entries(voices).map(([key, { packets, lost, concealed = 0 }]) => [of(key), `${packets} packets, ${lost} lost, ${Math.round(concealed / 48)} ms concealed`]),
  ];
}
