// The page of meetings: /meet creates or finds one, /meet/CODE is its lobby and then the meeting.
//
// Hooks for browser tests, as data-test, beside those of shell.js: notice; create-name create-guests create-waiting create; join-code join-go; login…
//   lobby    join-name join preview preview-words preview-audio preview-video camera microphone level missing
//   stage    room[data-state] banner stage[data-view] participants participant[data-id][data-presence][data-audio][data-video][data-role]
//            screen[data-id] picture hand alone tile-menu pin tile-full stop-sharing ask allow deny page-previous page-next page-place
//   menu     participant-mute-audio participant-mute-video participant-remove lower-hand; remove-dialog refuse-dialog end-dialog confirm cancel
//   bar      title count quality link mute-audio mute-video choose-audio choose-video device speaker share raise-hand ask-unmute leave
//            show-people show-chat more view-grid view-speaker full more-audio more-video quality-standard quality-low more-link
//            more-details details details-close waiting-off waiting-on end
//   panel    panel panel-close chat chat-text chat-send pending unsent chat-retry people person person-menu waiting admit refuse admit-all banned lift-ban
//   after    waiting-room stop-waiting over[data-code] back
import { byId, h, notice } from "./dom.js";
import { takeCode } from "./login.js";
import { login } from "./api.js";
import { Participant } from "./meetclient.js";
import { Devices } from "./meetdevices.js";
import { JoinApi, me } from "./meetapi.js";
import { after, dial } from "./meetlink.js";
import { lobbyView } from "./meetlobby.js";
import { RoomMedia } from "./meetmedia.js";
import { Room } from "./meetroom.js";
import { connection, showAccount } from "./shell.js";
import { startView } from "./meetstart.js";

const STATE_LABELS = { connecting: "connecting…", live: "connected", reconnecting: "reconnecting…", over: "not connected" };
/** After this time, in milliseconds, a reloaded page shows the lobby instead of rejoining. */
const REJOIN = 120_000;
/** Endings after which the lobby is not offered. */
const FINAL = ["KICKED", "FORBIDDEN", "OVER"];

const devices = new Devices();
const main = byId("main");
const code = decodeURIComponent(location.pathname.split("/")[2] ?? "");
const storageKey = `meet:${code}`, removedKey = `meet-removed:${code}`;
let user = null;

const show = (...elements) => { main.replaceChildren(...elements); };
const inMeeting = (yes) => document.body.classList.toggle("in-meeting", yes);

async function loadUser() {
  try { user = await me(); } catch (error) { notice(error.message, "bad"); }
  showAccount(user && { name: user.display_name ?? "" });
}

function showStart() {
  document.title = "Meetings · Tenure";
  show(...startView({ user, signedIn: async () => { await loadUser(); showStart(); } }));
}

function showLobby(why) {
  document.title = "Lobby · Tenure";
  connection(null);
  inMeeting(false);
  const lobby = lobbyView({ user, devices, why, join: (name) => enter({ name, guest: user ? null : name }) });
  show(lobby.el);
  lobby.focus();
}

/** The page of a participant that a host has not admitted yet. */
function showWaiting(hostPresent, leave) {
  document.title = "Waiting · Tenure";
  connection(null);
  show(h("section", { class: "card farewell", test: "waiting-room" }, h("h1", {}, hostPresent ? "Waiting for a host to let you in" : "The host is not here yet"),
    h("p", { class: "hint", role: "status" }, hostPresent ? "The hosts see that you wait." : "You can stay on this page: you are let in when the host comes."),
    h("div", { class: "actions" }, h("button", { test: "stop-waiting", type: "button", onclick: leave }, "Leave"))));
}

/** The page after a meeting. */
function showEnd({ code: why, message }) {
  document.title = "Meeting over · Tenure";
  connection(null);
  inMeeting(false);
  const back = !FINAL.includes(why) && h("button", { test: "back", class: "primary", type: "button", onclick: () => location.reload() }, "Back to the lobby");
  show(h("section", { class: "card farewell", test: "over", "data-code": why }, h("h1", {}, message),
    h("div", { class: "actions" }, back, h("a", { href: "/meet" }, "All meetings"))));
}

/** The participant that this tab saved, or null. */
function loadSaved() {
  try {
    const found = JSON.parse(sessionStorage.getItem(storageKey));
    return found && Date.now() - found.at < REJOIN ? found : null;
  } catch { return null; }
}

/** Joins: with a name from the lobby, or as the participant that this tab saved. */
function enter({ name, guest }, saved = null) {
  const api = new JoinApi(code, { guest, saved: saved?.api });
  let room = null, saving = null, title = saved?.title ?? "";
  const admit = api.admit.bind(api);
  api.admit = async () => {
    const admission = await admit();
    title = admission.name;
    return admission;
  };
  const participant = new Participant({
    api, dial, after, name, saved: saved?.participant,
    on: {
      waiting({ host_present }) { showWaiting(host_present, () => participant.leave()); },
      state(state) { connection(state, STATE_LABELS[state]); room?.connected(state); },
      hint() { room?.paintBanner(); },
      change(message, step) {
        room ??= openRoom();
        room.received(message, step, title);
        saving ??= setTimeout(save, 200);
      },
      over(ending) { sessionStorage.removeItem(storageKey); clearTimeout(saving); saving = -1; leaveRoom(ending); },
    },
  });
  // In the click that joins: only then the browser plays sound.
  const media = new RoomMedia({ participant, devices });
  function save() {
    saving = null;
    if (participant.ended || !participant.proof) return;
    try {
      const on = { ...devices.on };
      sessionStorage.setItem(storageKey, JSON.stringify({ at: Date.now(), name, guest, title, on, api: api.save(), participant: participant.save() }));
    } catch { /* storage is full or switched off: a reload joins as a new participant */ }
  }
  function openRoom() {
    const opened = new Room({ participant, devices, media, code });
    inMeeting(true);
    show(opened.el);
    opened.connected("live");
    return opened;
  }
  function leaveRoom(ending) {
    devices.stopAll();
    media.close();
    room?.close();
    removeEventListener("pagehide", save);
    if (ending.code === "KICKED") sessionStorage.setItem(removedKey, ending.message);
    if (room || FINAL.includes(ending.code)) showEnd(ending);
    else showLobby(ending.message);
  }
  addEventListener("pagehide", save);
  addEventListener("online", () => participant.retryNow?.());
  connection("connecting", STATE_LABELS.connecting);
  if (saved) show(h("p", { class: "loading" }, "Coming back to your seat…"));
  participant.run().catch((error) => { notice(error.message, "bad"); });
}

/** A reload of the page finds the devices as they were. */
async function restore(saved) {
  for (const kind of ["audio", "video"]) if (saved.on?.[kind] && (await devices.allowed(kind))) await devices.turnOn(kind);
}

async function begin() {
  const once = takeCode();
  if (once) await login({ code: once }).catch((error) => notice(error.message, "bad"));
  await loadUser();
  if (!code) return showStart();
  const removed = sessionStorage.getItem(removedKey);
  if (removed) return showEnd({ code: "KICKED", message: removed });
  const saved = loadSaved();
  if (!saved) return showLobby();
  restore(saved);
  enter(saved, saved);
}

addEventListener("pagehide", () => devices.release());
// A page that comes back from the history has no devices and no connection.
addEventListener("pageshow", (event) => event.persisted && location.reload());
begin();
