// The page of meetings: /meet creates or finds one, /meet/CODE is its lobby and then the meeting.
//
// Hooks for browser tests, as data-test: connection account notice; create-name create-guests create; join-code join-go; login…
//   lobby join-name join preview preview-start camera microphone level; room title participants participant[data-id][data-presence][data-audio][data-video][data-role]
//   participant-mute-audio participant-mute-video participant-remove ask allow deny; mute-audio mute-video ask-unmute leave end link; chat chat-text chat-send; over back
import { byId, h, notice, text } from "./dom.js";
import { loginView, takeCode } from "./login.js";
import { login } from "./api.js";
import { Participant } from "./meetclient.js";
import { Devices, preview } from "./meetdevices.js";
import { create, JoinApi, me } from "./meetapi.js";
import { Room } from "./meetroom.js";

const STATE_LABELS = { connecting: "connecting…", live: "connected", reconnecting: "reconnecting…", over: "not connected" };
/** After this time, in milliseconds, a reloaded page shows the lobby instead of rejoining. */
const REJOIN = 120_000;

const devices = new Devices();
const main = byId("main");
const code = decodeURIComponent(location.pathname.split("/")[2] ?? "");
const storageKey = `meet:${code}`;
let user = null;

const show = (...elements) => { main.replaceChildren(...elements); };
const NO_MEDIA = "No audio and no video is sent yet: this part of Tenure is the meeting itself, with its seats, mutes and chat. Your camera stays on this page.";
const noMediaHint = () => h("p", { class: "no-media", test: "honest" }, NO_MEDIA);

function showError(error) { notice(error.message, "bad"); }

/** The meeting code in a text: a code, or a link with one. */
function parseCode(input) {
  const found = /\/meet\/([^/?#\s]+)/.exec(input);
  return found ? decodeURIComponent(found[1]) : input.trim();
}

async function loadUser() {
  try { user = await me(); } catch (error) { showError(error); }
  text(byId("account"), user ? `Signed in${user.display_name ? ` as ${user.display_name}` : ""}` : "Not signed in");
}

function showStart() {
  document.title = "Meetings · Tenure";
  const wanted = h("input", { id: "join-code", test: "join-code", required: true, autocomplete: "off", spellcheck: "false" });
  const join = h("section", { class: "card" }, h("h2", {}, "Join a meeting"),
    h("form", { onsubmit: (event) => { event.preventDefault(); const to = parseCode(wanted.value); if (to) location.assign(`/meet/${encodeURIComponent(to)}`); } },
      h("label", { class: "field", for: "join-code" }, h("span", {}, "Its link or code"), wanted),
      h("button", { test: "join-go", class: user ? "" : "primary", type: "submit" }, "Go to its lobby")));
  show(h("div", { class: "bar" }, h("h1", {}, "Meetings")), noMediaHint(), h("div", { class: "start" }, user ? createForm() : loginForm(), join));
}

function loginForm() {
  const { el } = loginView("", async () => { await loadUser(); showStart(); });
  el.classList.remove("login");
  return el;
}

function createForm() {
  const name = h("input", { id: "create-name", test: "create-name", required: true, maxlength: 255, value: "Meeting" });
  const guests = h("input", { id: "create-guests", test: "create-guests", type: "checkbox", checked: true });
  const button = h("button", { test: "create", class: "primary", type: "submit" }, "Make it");
  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      const created = await create(name.value.trim(), guests.checked);
      location.assign(`/meet/${encodeURIComponent(created.meeting_code)}`);
    } catch (error) { showError(error); button.disabled = false; }
  }
  return h("section", { class: "card" }, h("h2", {}, "Make a meeting"), h("form", { onsubmit: submit },
    h("label", { class: "field", for: "create-name" }, h("span", {}, "Its name"), name),
    h("label", { class: "tick" }, guests, "People without an account may join"), button));
}

/** The participant that this tab saved, or null. */
function loadSaved() {
  try {
    const found = JSON.parse(sessionStorage.getItem(storageKey));
    return found && Date.now() - found.at < REJOIN ? found : null;
  } catch { return null; }
}

function lobby(why) {
  document.title = "Lobby · Tenure";
  byId("connection").hidden = true;
  const name = h("input", { id: "join-name", test: "join-name", required: true, minlength: 2, maxlength: 100, autocomplete: "name", value: localStorage.getItem("meet-name") ?? user?.display_name ?? "" });
  const button = h("button", { test: "join", class: "primary", type: "submit" }, "Join");
  function submit(event) {
    event.preventDefault();
    const chosen = name.value.trim();
    if (chosen.length < 2) return name.focus();
    localStorage.setItem("meet-name", chosen);
    enter({ name: chosen, guest: user ? null : chosen });
  }
  show(h("div", { class: "bar" }, h("h1", {}, "Ready to join?")), why && h("p", { class: "refusal", role: "alert" }, why) || "", noMediaHint(),
    h("div", { class: "lobby", test: "lobby" }, preview(devices),
      h("section", { class: "card" }, h("h2", {}, "You"), h("form", { onsubmit: submit },
        h("label", { class: "field", for: "join-name" }, h("span", {}, "Your name, as others see it"), name),
        h("p", { class: "hint" }, user ? "You join with your account." : "You join as a guest."), button),
        user ? "" : h("p", { class: "hint" }, h("a", { href: "/meet" }, "Sign in"), " if you host this meeting."))));
  name.focus();
}

function showState(name) {
  const badge = byId("connection");
  badge.hidden = false;
  badge.dataset.state = name;
  text(badge.querySelector("b"), STATE_LABELS[name]);
}

/** Joins: with a name from the lobby, or as the participant that this tab saved. */
function enter({ name, guest }, saved = null) {
  const api = new JoinApi(code, { guest, saved: saved?.door });
  let room = null, saving = null, title = saved?.title ?? "";
  const admit = api.admit.bind(api);
  api.admit = async () => {
    const admission = await admit();
    title = admission.name;
    return admission;
  };
  const participant = new Participant({
    api, name, saved: saved?.participant,
    on: {
      state(name) { showState(name); room?.paint(); },
      change(message, step) {
        room ??= openRoom();
        room.received(message, step, title);
        saving ??= setTimeout(save, 200);
      },
      over(ending) { sessionStorage.removeItem(storageKey); clearTimeout(saving); saving = -1; leaveRoom(ending); },
    },
  });
  function save() {
    saving = null;
    if (participant.ended || !participant.proof) return;
    try {
      sessionStorage.setItem(storageKey, JSON.stringify({ at: Date.now(), name, guest, title, door: api.save(), participant: participant.save() }));
    } catch { /* storage is full or switched off: a reload joins as a new participant */ }
  }
  function openRoom() {
    const opened = new Room({ participant, devices, code });
    show(noMediaHint(), opened.el);
    return opened;
  }
  function leaveRoom({ code: why, message }) {
    devices.stop();
    removeEventListener("pagehide", save);
    if (!room) return lobby(message);
    byId("connection").hidden = true;
    document.title = "Meeting over · Tenure";
    show(h("section", { class: "card farewell", test: "over", "data-code": why }, h("h1", {}, message),
      h("p", { class: "hint" }, why === "LEFT" ? "Your seat is free." : ""),
      h("div", { class: "actions" }, h("button", { test: "back", class: "primary", type: "button", onclick: () => location.reload() }, "Back to the lobby"), h("a", { href: "/meet" }, "All meetings"))));
    main.focus();
  }
  addEventListener("pagehide", save);
  addEventListener("online", () => participant.wake?.());
  showState("connecting");
  if (saved) show(h("p", { class: "loading" }, "Coming back to your seat…"));
  else main.querySelector("[data-test=join]").disabled = true;
  participant.run().catch((error) => { showError(error); });
}

async function begin() {
  const once = takeCode();
  if (once) await login({ code: once }).catch(showError);
  await loadUser();
  if (!code) return showStart();
  const saved = loadSaved();
  if (saved) enter(saved, saved);
  else lobby();
}

begin();
