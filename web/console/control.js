// The control page: who drives the device, the device itself, and a stream to it.
//
// Hooks for browser tests, as data-test: connection strip shown hold[data-state=unknown|free|mine|locked|lost] ring seconds headline
//   about take give controls effects palettes sliders presets preset-name save stream pad sent
import { Device, frame } from "./device.js";
import { byId, h, notice, text } from "./dom.js";
import { Pad, Strip } from "./strip.js";

const SLIDERS = [["brightness", 0, 255], ["speed", 1, 50], ["intensity", 0, 255], ["saturation", 0, 255], ["complexity", 0, 255], ["variation", 0, 255]];
const WORDS = { connecting: "connecting…", live: "live", reconnecting: "reconnecting…", off: "signed out" };
/** Changes of a slider are sent this often at most. */
const PACE = 80;
/** Frames per second of a stream from this page. */
const FPS = 120;

const strip = new Strip(byId("strip")), pad = new Pad(byId("pad"));
const instance = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
const name = `Console ${navigator.userAgent.match(/(Firefox|Edg|Chrome|Safari)/)?.[0] ?? "page"}`;

/** The lease as this page sees it; `ends` is on the clock of performance.now(). */
let lease = { active: false }, ends = 0, mine = null, lost = null, beat = null, streaming = null, frames = 0, me = null, built = false;

const device = new Device({
  state(word) {
    const place = byId("connection");
    place.dataset.state = word;
    text(place.querySelector("b"), WORDS[word]);
    if (word !== "live") { dropped("the connection was lost"); lease = { active: false }; me = null; paint(); whoAmI(); }
  },
  async open() {
    try {
      const [status, effects, palettes] = await Promise.all([device.ask("device.getStatus"), device.ask("effects.list"), device.ask("palettes.list")]);
      me = true;
      build(effects.effects, palettes.palettes);
      heard(status.controlLease);
      shown(status.state);
      device.ask("ledStream.subscribe", { fps: 30 }).catch(complain);
    } catch (error) { complain(error); }
  },
  news(message) {
    if (message.type === "control.stateChanged") heard(message.data, message.event);
    else if (message.type === "device.stateChanged") shown(message.data);
    else if (message.type === "status") { heard(message.data.controlLease); shown(message.data.state); text(byId("pace"), `${message.data.fps} fps · ${message.data.wsClients} watching`); }
    else if (message.type === "render.stream.stateChanged" && message.event.endsWith("stopped") && streaming) stopped(message.data.reason);
  },
  frame: (bytes) => strip.show(bytes),
});

/** A WebSocket hides why it was refused; a plain request says it. */
async function whoAmI() {
  try {
    const { status } = await fetch("/whoami", { cache: "no-store" });
    if (status !== 401) return;
    byId("connection").dataset.state = "off";
    text(byId("connection").querySelector("b"), WORDS.off);
    text(byId("headline"), "You are signed out");
    byId("about").replaceChildren(h("a", { href: "/" }, "Sign in"), " and come back here.");
  } catch { /* the socket says that nobody answers */ }
}

function complain(error) {
  if (error.code !== "NETWORK") notice(`${error.message} (${error.code})`, "bad");
}

/** The lease as everybody hears it. */
function heard(data, event) {
  lease = data;
  ends = performance.now() + (data.active ? data.remainingMs : 0);
  if (mine && (!data.active || data.leaseId !== mine.leaseId)) dropped(event === "expired" ? "no heartbeat arrived in time" : data.reason === "revoked" ? "an operator took it back" : data.reason);
  if (data.active) lost = null;
  paint();
}

function dropped(why) {
  clearInterval(beat);
  if (mine && why && why !== "user_release") lost = why;
  mine = null;
  if (streaming) stopped("lease_lost");
}

async function take() {
  byId("take").disabled = true;
  try {
    mine = await device.ask("control.acquire", { clientName: name, clientInstanceId: instance, scope: "global" });
    lost = null;
    beat = setInterval(heartbeat, Math.max(300, mine.heartbeatIntervalMs));
    const { leaseToken, ...open } = mine;
    heard(open);
  } catch (error) { complain(error); }
  paint();
}

async function heartbeat() {
  if (!mine) return clearInterval(beat);
  const { leaseId, leaseToken } = mine;
  try {
    const ack = await device.ask("control.heartbeat", { leaseId, leaseToken });
    if (mine?.leaseId === leaseId) ends = performance.now() + ack.remainingMs;
  } catch (error) {
    if (mine?.leaseId === leaseId) { dropped(error.message); paint(); }
  }
}

async function give() {
  if (!mine) return;
  const { leaseId, leaseToken } = mine;
  try { await device.ask("control.release", { leaseId, leaseToken, reason: "user_release" }); } catch (error) { complain(error); }
}

/** Everything that follows from who holds. */
function paint() {
  const state = !me ? "unknown" : mine ? "mine" : lease.active ? "locked" : lost ? "lost" : "free";
  const hold = byId("hold");
  hold.dataset.state = state;
  const words = {
    unknown: ["Connecting…", ""],
    free: ["Nobody holds the device", "Everybody may change it. Take control to keep the others off."],
    mine: ["You drive", "Everybody else watches. Control ends when you release it or this page goes away."],
    locked: [`${lease.ownerClientName} drives`, "You watch. The controls come back when the lease ends."],
    lost: ["Control was lost", `Because ${lost}. Nobody holds the device now.`],
  }[state];
  if (state !== "unknown" || me) { text(byId("headline"), words[0]); text(byId("about"), words[1]); }
  byId("take").hidden = Boolean(mine);
  byId("take").disabled = !me || lease.active;
  byId("give").hidden = !mine;
  const locked = state === "locked" || state === "unknown";
  byId("controls").disabled = byId("keep").disabled = locked;
  byId("stream").disabled = !mine;
}

/** The device as everybody hears it. What a hand is on right now is left alone. */
function shown(state) {
  text(byId("shown"), state.power ? state.effectName : `${state.effectName} (off)`);
  for (const button of byId("effects").children) button.setAttribute("aria-pressed", String(Number(button.dataset.id) === state.effectId));
  for (const button of byId("palettes").children) button.setAttribute("aria-pressed", String(Number(button.dataset.id) === state.paletteId));
  for (const [knob] of SLIDERS) {
    const input = byId(`knob-${knob}`);
    if (!input || input.matches(":active") || input.dataset.pending) continue;
    input.value = state.parameters[knob];
    text(input.nextElementSibling, String(state.parameters[knob]));
  }
  toggle(byId("power"), state.power, "On", "Off");
  toggle(byId("play"), state.transport.playing, "Playing", "Paused");
  const list = state.presets.map((preset) => h("li", {},
    h("button", { class: "load", type: "button", test: "preset", onclick: () => ask("effectPresets.load", { id: preset.id }) }, preset.name),
    h("button", { class: "quiet", type: "button", "aria-label": `Delete ${preset.name}`, onclick: () => ask("effectPresets.delete", { id: preset.id }) }, "✕")));
  const signature = JSON.stringify(state.presets);
  if (byId("presets").dataset.signature !== signature) {
    byId("presets").dataset.signature = signature;
    byId("presets").replaceChildren(...(list.length ? list : [h("li", { class: "none" }, "No presets yet.")]));
  }
}

function toggle(button, on, yes, no) {
  button.setAttribute("aria-pressed", String(on));
  text(button, on ? yes : no);
}

const ask = (type, fields) => device.ask(type, fields).catch(complain);

function build(effects, palettes) {
  if (built) return;
  built = true;
  byId("effects").replaceChildren(...effects.map(({ id, name, about }) => h("button", { type: "button", "data-id": id, title: about, onclick: () => ask("setEffect", { effectId: id }) }, name)));
  byId("palettes").replaceChildren(...palettes.map(({ id, name, colors }) => {
    const swatch = h("i", { "aria-hidden": "true" });
    swatch.style.background = `linear-gradient(90deg, ${colors.join(", ")})`;
    return h("button", { type: "button", "data-id": id, onclick: () => ask("setPalette", { paletteId: id }) }, swatch, name);
  }));
  byId("sliders").replaceChildren(...SLIDERS.map(([knob, min, max]) => {
    const input = h("input", { id: `knob-${knob}`, type: "range", min, max, test: `knob-${knob}` });
    const output = h("output", {});
    input.addEventListener("input", () => { text(output, input.value); paced(input, knob); });
    return h("label", {}, knob[0].toUpperCase() + knob.slice(1), input, output);
  }));
}

/** Sends the latest value of a slider, not every one. */
function paced(input, knob) {
  if (input.dataset.pending) return;
  input.dataset.pending = "yes";
  setTimeout(async () => { await ask("parameters.set", { [knob]: Number(input.value) }); delete input.dataset.pending; }, PACE);
}

async function stream() {
  if (streaming) return void device.ask("render.stream.stop").catch(complain);
  try {
    await device.ask("render.stream.start", { targetFps: FPS, staleTimeoutMs: 2_000, desiredPixelFormat: "rgb888", desiredLedCount: 320, clientName: name, clientInstanceId: instance });
    streaming = { sequence: 0, sent: -1, since: performance.now(), timer: setInterval(send, 4) };
    frames = 0;
    byId("stream").setAttribute("aria-pressed", "true");
    text(byId("stream"), "Stop the stream");
  } catch (error) { complain(error); }
}

/** Sends the frame that is due; those that the page was too slow for are left out. */
function send() {
  const due = Math.floor(((performance.now() - streaming.since) * FPS) / 1_000);
  if (due <= streaming.sent) return;
  streaming.sent = due;
  if (!device.frame(frame(streaming.sequence++ >>> 0, pixels))) return;
  frames += 1;
  if (frames % 60 === 1) text(byId("sent"), `${frames} frames sent`);
}

function stopped(why) {
  clearInterval(streaming.timer);
  streaming = null;
  byId("stream").setAttribute("aria-pressed", "false");
  text(byId("stream"), "Stream from this page");
  text(byId("sent"), `The stream ended: ${String(why).replaceAll("_", " ")}.`);
}

let before = performance.now(), painted = 0, pixels = pad.step(0);
(function tick() {
  const now = performance.now(), seconds = Math.min(0.2, (now - before) / 1_000);
  before = now;
  pixels = pad.step(seconds);
  if (now - painted < 50) return void requestAnimationFrame(tick);
  painted = now;
  const left = lease.active ? Math.max(0, ends - now) : 0;
  byId("ring").style.strokeDasharray = `${lease.active ? Math.min(100, (left / lease.ttlMs) * 100) : 0} 100`;
  text(byId("seconds"), lease.active ? (left / 1_000).toFixed(1) : "");
  requestAnimationFrame(tick);
})();

byId("take").addEventListener("click", take);
byId("give").addEventListener("click", give);
byId("stream").addEventListener("click", stream);
byId("power").addEventListener("click", () => ask("setPower", { on: byId("power").getAttribute("aria-pressed") !== "true" }));
byId("play").addEventListener("click", () => ask(byId("play").getAttribute("aria-pressed") === "true" ? "show.pause" : "show.resume"));
byId("save").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = byId("preset-name");
  if (!field.value.trim()) return;
  if (await ask("effectPresets.saveCurrent", { name: field.value.trim() })) field.value = "";
});
paint();
