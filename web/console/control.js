// The control page: the control lease, the device, and a render stream.
//
// Hooks for browser tests, as data-test: connection strip shown hold[data-state=unknown|free|mine|locked|lost] ring seconds headline
//   about take give controls effects palettes sliders presets preset-name save stream pad sent
import { Device, frame } from "./device.js";
import { byId, h, notice, text } from "./dom.js";
import { connection, loadAccount, showSignIn } from "./shell.js";
import { Pad, Strip } from "./strip.js";

const SLIDERS = [["brightness", 0, 255], ["speed", 1, 50], ["intensity", 0, 255], ["saturation", 0, 255], ["complexity", 0, 255], ["variation", 0, 255]];
/** Minimum interval between changes of a slider, in milliseconds. */
const SLIDER_INTERVAL = 80;
/** Frames per second of a stream from this page. */
const FPS = 120;

const strip = new Strip(byId("strip")), pad = new Pad(byId("pad"));
const instance = crypto.randomUUID?.() ?? String(Math.random()).slice(2);
const clientName = `Console ${navigator.userAgent.match(/(Firefox|Edg|Chrome|Safari)/)?.[0] ?? "page"}`;

/** The lease as known by this page; `ends` is on the clock of performance.now(). */
let lease = { active: false }, ends = 0, mine = null, lost = null, beat = null, streaming = null, frames = 0, me = null, built = false, signedOut = false;

const device = new Device({
  state(name) {
    if (signedOut) return;
    connection(name);
    if (name !== "live") { leaseLost("the connection was lost"); lease = { active: false }; me = null; render(); checkSignedIn(); }
  },
  async open() {
    try {
      const [status, effects, palettes] = await Promise.all([device.request("device.getStatus"), device.request("effects.list"), device.request("palettes.list")]);
      me = true;
      build(effects.effects, palettes.palettes);
      updateLease(status.controlLease);
      updateDevice(status.state);
      device.request("ledStream.subscribe", { fps: 30 }).catch(showError);
    } catch (error) { showError(error); }
  },
  broadcast(message) {
    if (message.type === "control.stateChanged") updateLease(message.data, message.event);
    else if (message.type === "device.stateChanged") updateDevice(message.data);
    else if (message.type === "status") { updateLease(message.data.controlLease); updateDevice(message.data.state); text(byId("pace"), `${message.data.fps} fps · ${message.data.wsClients} connected`); }
    else if (message.type === "render.stream.stateChanged" && message.event.endsWith("stopped") && streaming) streamStopped(message.data.reason);
  },
  frame: (bytes) => strip.show(bytes),
});

/** A failed WebSocket handshake has no reason; a plain request shows whether the user is signed out. */
async function checkSignedIn() {
  try {
    await loadAccount();
  } catch (error) {
    // Without an answer, the connection state shows that the server is unreachable.
    if (error.status !== 401) return;
    signedOut = true;
    showSignIn();
  }
}

function showError(error) {
  if (error.code !== "NETWORK") notice(`${error.message} (${error.code})`, "bad");
}

/** Applies a state of the lease. */
function updateLease(data, event) {
  lease = data;
  ends = performance.now() + (data.active ? data.remainingMs : 0);
  if (mine && (!data.active || data.leaseId !== mine.leaseId)) leaseLost(event === "expired" ? "no heartbeat arrived in time" : data.reason === "revoked" ? "an operator revoked it" : data.reason);
  if (data.active) lost = null;
  render();
}

function leaseLost(reason) {
  clearInterval(beat);
  if (mine && reason && reason !== "user_release") lost = reason;
  mine = null;
  if (streaming) streamStopped("lease_lost");
}

async function acquire() {
  byId("take").disabled = true;
  try {
    mine = await device.request("control.acquire", { clientName, clientInstanceId: instance, scope: "global" });
    lost = null;
    beat = setInterval(heartbeat, Math.max(300, mine.heartbeatIntervalMs));
    const { leaseToken, ...publicLease } = mine;
    updateLease(publicLease);
  } catch (error) { showError(error); }
  render();
}

async function heartbeat() {
  if (!mine) return clearInterval(beat);
  const { leaseId, leaseToken } = mine;
  try {
    const ack = await device.request("control.heartbeat", { leaseId, leaseToken });
    if (mine?.leaseId === leaseId) ends = performance.now() + ack.remainingMs;
  } catch (error) {
    if (mine?.leaseId === leaseId) { leaseLost(error.message); render(); }
  }
}

async function release() {
  if (!mine) return;
  const { leaseId, leaseToken } = mine;
  try { await device.request("control.release", { leaseId, leaseToken, reason: "user_release" }); } catch (error) { showError(error); }
}

/** Updates the page from the state of the lease. */
function render() {
  const state = !me ? "unknown" : mine ? "mine" : lease.active ? "locked" : lost ? "lost" : "free";
  const hold = byId("hold");
  hold.dataset.state = state;
  const labels = {
    unknown: ["Connecting…", ""],
    free: ["The device is free", "Any client may change it. Take control to block the others."],
    mine: ["You have control", "Other clients can only watch. Control ends when you release it or close this page."],
    locked: [`${lease.ownerClientName} has control`, "You can only watch until the lease ends."],
    lost: ["Control was lost", `Reason: ${lost}. The device is free.`],
  }[state];
  if (state !== "unknown" || me) { text(byId("headline"), labels[0]); text(byId("about"), labels[1]); }
  byId("take").hidden = Boolean(mine);
  byId("take").disabled = !me || lease.active;
  byId("give").hidden = !mine;
  const locked = state === "locked" || state === "unknown";
  byId("controls").disabled = byId("keep").disabled = locked;
  byId("stream").disabled = !mine;
}

/** Applies a state of the device. A slider in use is not changed. */
function updateDevice(state) {
  text(byId("shown"), state.power ? state.effectName : `${state.effectName} (off)`);
  for (const button of byId("effects").children) button.setAttribute("aria-pressed", String(Number(button.dataset.id) === state.effectId));
  for (const button of byId("palettes").children) button.setAttribute("aria-pressed", String(Number(button.dataset.id) === state.paletteId));
  for (const [parameter] of SLIDERS) {
    const input = byId(`slider-${parameter}`);
    if (!input || input.matches(":active") || input.dataset.pending) continue;
    input.value = state.parameters[parameter];
    text(input.nextElementSibling, String(state.parameters[parameter]));
  }
  toggle(byId("power"), state.power, "On", "Off");
  toggle(byId("play"), state.transport.playing, "Playing", "Paused");
  const list = state.presets.map((preset) => h("li", {},
    h("button", { class: "load", type: "button", test: "preset", onclick: () => send("effectPresets.load", { id: preset.id }) }, preset.name),
    h("button", { class: "quiet", type: "button", "aria-label": `Delete ${preset.name}`, onclick: () => send("effectPresets.delete", { id: preset.id }) }, "✕")));
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

const send = (type, fields) => device.request(type, fields).catch(showError);

function build(effects, palettes) {
  if (built) return;
  built = true;
  byId("effects").replaceChildren(...effects.map(({ id, name, about }) => h("button", { type: "button", "data-id": id, title: about, onclick: () => send("setEffect", { effectId: id }) }, name)));
  byId("palettes").replaceChildren(...palettes.map(({ id, name, colors }) => {
    const swatch = h("i", { "aria-hidden": "true" });
    swatch.style.background = `linear-gradient(90deg, ${colors.join(", ")})`;
    return h("button", { type: "button", "data-id": id, onclick: () => send("setPalette", { paletteId: id }) }, swatch, name);
  }));
  byId("sliders").replaceChildren(...SLIDERS.map(([parameter, min, max]) => {
    const input = h("input", { id: `slider-${parameter}`, type: "range", min, max, test: `slider-${parameter}` });
    const output = h("output", {});
    input.addEventListener("input", () => { text(output, input.value); sendThrottled(input, parameter); });
    return h("label", {}, parameter[0].toUpperCase() + parameter.slice(1), input, output);
  }));
}

/** Sends the latest value of a slider, at a limited rate. */
function sendThrottled(input, parameter) {
  if (input.dataset.pending) return;
  input.dataset.pending = "yes";
  setTimeout(async () => { await send("parameters.set", { [parameter]: Number(input.value) }); delete input.dataset.pending; }, SLIDER_INTERVAL);
}

async function stream() {
  if (streaming) return void device.request("render.stream.stop").catch(showError);
  try {
    await device.request("render.stream.start", { targetFps: FPS, staleTimeoutMs: 2_000, desiredPixelFormat: "rgb888", desiredLedCount: 320, clientName, clientInstanceId: instance });
    streaming = { sequence: 0, sent: -1, since: performance.now(), timer: setInterval(sendFrame, 4) };
    frames = 0;
    byId("stream").setAttribute("aria-pressed", "true");
    text(byId("stream"), "Stop the stream");
  } catch (error) { showError(error); }
}

/** Sends the frame that is due. Frames that the page was too slow for are skipped. */
function sendFrame() {
  const due = Math.floor(((performance.now() - streaming.since) * FPS) / 1_000);
  if (due <= streaming.sent) return;
  streaming.sent = due;
  if (!device.frame(frame(streaming.sequence++ >>> 0, pixels))) return;
  frames += 1;
  if (frames % 60 === 1) text(byId("sent"), `${frames} frames sent`);
}

function streamStopped(reason) {
  clearInterval(streaming.timer);
  streaming = null;
  byId("stream").setAttribute("aria-pressed", "false");
  text(byId("stream"), "Stream from this page");
  text(byId("sent"), `The stream ended: ${String(reason).replaceAll("_", " ")}.`);
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

byId("take").addEventListener("click", acquire);
byId("give").addEventListener("click", release);
byId("stream").addEventListener("click", stream);
byId("power").addEventListener("click", () => send("setPower", { on: byId("power").getAttribute("aria-pressed") !== "true" }));
byId("play").addEventListener("click", () => send(byId("play").getAttribute("aria-pressed") === "true" ? "show.pause" : "show.resume"));
byId("save").addEventListener("submit", async (event) => {
  event.preventDefault();
  const field = byId("preset-name");
  if (!field.value.trim()) return;
  if (await send("effectPresets.saveCurrent", { name: field.value.trim() })) field.value = "";
});
render();
