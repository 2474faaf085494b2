// The lobby: a look at oneself, a name, and the way in.
import { h, text } from "./dom.js";
import { icon } from "./meeticons.js";
import { missingParts } from "./meetsupport.js";

const NAME = "meet-name";

/** The lobby; `join(name)` is called once. */
export function lobbyView({ user, devices, why, join }) {
  const name = h("input", { id: "join-name", test: "join-name", required: true, minlength: 2, maxlength: 100, autocomplete: "name", value: localStorage.getItem(NAME) ?? user?.display_name ?? "" });
  const button = h("button", { test: "join", class: "primary", type: "submit" }, "Join");
  function submit(event) {
    event.preventDefault();
    const chosen = name.value.trim();
    if (chosen.length < 2) return name.focus();
    localStorage.setItem(NAME, chosen);
    button.disabled = true;
    preview.stop();
    join(chosen);
  }
  const preview = previewView(devices);
  const el = h("div", { class: "lobby", test: "lobby" }, preview.el,
    h("section", { class: "card" }, h("h1", {}, "Ready to join?"), why && h("p", { class: "refusal", role: "alert" }, why),
      h("form", { onsubmit: submit },
        h("label", { class: "field", for: "join-name" }, h("span", {}, "Your name, as others see it"), name), button),
      h("p", { class: "hint" }, user ? "You join with your account." : ["You join as a guest. ", h("a", { href: "/meet" }, "Sign in"), " if you host this meeting."])),
    preview.support);
  return { el, focus: () => name.focus() };
}

function previewView(devices) {
  const video = h("video", { test: "preview", autoplay: true, playsinline: true, hidden: true, "aria-label": "Your camera" });
  video.muted = true;
  const words = h("p", { test: "preview-words", role: "status" });
  const level = h("span", { class: "level", test: "level", role: "img", "aria-label": "Loudness of the microphone" }, h("i"));
  const toggle = (kind) => h("button", { test: `preview-${kind}`, type: "button", class: "round", onclick: () => (devices.on[kind] ? devices.turnOff(kind) : devices.turnOn(kind)) });
  const buttons = { audio: toggle("audio"), video: toggle("video") };
  const selects = Object.fromEntries([["audio", "Microphone"], ["video", "Camera"]].map(([kind, label]) => {
    const select = h("select", { id: `choose-${kind}`, test: kind === "audio" ? "microphone" : "camera", disabled: true, "aria-label": label, onchange: () => devices.use(kind, select.value) });
    return [kind, select];
  }));
  let problem = "", meter = null;

  async function paint() {
    for (const kind of ["audio", "video"]) {
      const on = devices.on[kind], what = kind === "audio" ? "microphone" : "camera";
      buttons[kind].replaceChildren(icon(kind, !on));
      buttons[kind].setAttribute("aria-pressed", String(on));
      buttons[kind].setAttribute("aria-label", `Turn the ${what} ${on ? "off" : "on"}`);
      buttons[kind].title = buttons[kind].getAttribute("aria-label");
    }
    const track = devices.tracks.video;
    video.hidden = !track;
    if (track && video.srcObject?.getTracks()[0] !== track) video.srcObject = new MediaStream([track]);
    if (devices.on.audio || devices.on.video) problem = "";
    text(words, problem || (track ? "" : "Your camera is off."));
    if (devices.on.audio && !meter) meter = loudness(devices.tracks.audio, (value) => level.style.setProperty("--level", String(value)));
    if (!devices.on.audio) { meter?.(); meter = null; level.style.setProperty("--level", "0"); }
    for (const kind of ["audio", "video"]) await fill(selects[kind], devices, kind);
  }
  const failed = (event) => { problem = event.detail; paint(); };
  devices.addEventListener("change", paint);
  devices.addEventListener("problem", failed);
  paint();
  // As last time, where the browser need not ask again.
  for (const kind of ["audio", "video"]) devices.allowed(kind).then((yes) => yes && devices.chosen[`start-${kind}`] && devices.turnOn(kind));

  const missing = missingParts();
  return {
    el: h("section", { class: "card preview", "aria-label": "Camera and microphone" },
      h("div", { class: "picture" }, video, words, h("div", { class: "over" }, buttons.audio, level, buttons.video))),
    support: h("section", { class: "choose" },
      h("label", { class: "field" }, h("span", {}, "Microphone"), selects.audio), h("label", { class: "field" }, h("span", {}, "Camera"), selects.video),
      missing.length ? h("div", { class: "refusal", test: "missing", role: "note" }, "This browser does not do everything. ", missing.join(" ")) : ""),
    stop() {
      for (const kind of ["audio", "video"]) devices.choose(`start-${kind}`, devices.on[kind]);
      meter?.();
      devices.removeEventListener("change", paint);
      devices.removeEventListener("problem", failed);
    },
  };
}

async function fill(select, devices, kind) {
  const all = await devices.list(`${kind}input`);
  const current = devices.tracks[kind]?.getSettings().deviceId ?? devices.chosen[kind];
  select.replaceChildren(...all.map(({ id, name }) => h("option", { value: id, selected: id === current }, name)));
  select.disabled = !all.some(({ id }) => id);
  if (!all.length) select.append(h("option", { value: "" }, "none found"));
}

/** Measures a track ten times a second, from 0 to 1, until the returned function is called. */
function loudness(track, show) {
  const context = new AudioContext(), analyser = context.createAnalyser();
  context.createMediaStreamSource(new MediaStream([track])).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  const timer = setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    show(Math.min(1, 3 * Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length)));
  }, 100);
  return () => { clearInterval(timer); context.close(); };
}
