// The TV page: channels, the sessions on each tuner, and the player.
//
// Hooks for browser tests, as data-test: connection free refusal screen[data-state=off|waiting|playing|ended] video curtain title about
//   sound full stop tuners tuner[data-slot][data-busy] watching watch end count blind profile find channels
//   channel[data-ref][data-on] recording-id recording-start recording-play
import { explain, tvChannels, tvSession, tvSessions, tvStart, tvStop, whenUnauthorized } from "./api.js";
import { announce, byId, colour, h, text } from "./dom.js";
import { Live, paced } from "./live.js";
import { Player } from "./player.js";
import { connection, loadAccount, showSignIn } from "./shell.js";
import { duration, serverNow } from "./time.js";
import { LIVE, ending, onAir, refused } from "./tvtexts.js";

/** The refresh interval of the page, because displayed times change without events. */
const REFRESH = 5_000;

let channels = [], sessions = [], tuners = 0, blind = false, signedIn = false, here = null;

const nameOf = (session) => session?.recordingId ?? channels.find((one) => one.serviceRef === session?.serviceRef)?.name ?? session?.serviceRef ?? "";

const live = new Live({ onState: connection, onEvent: () => refresh(), onResync: () => refresh(), onSignedOut: signedOut });
const player = new Player(byId("video"), { change: sessionChanged, picture });

function signedOut() {
  signedIn = false;
  live.stop();
  player.leave();
  showSignIn();
}

function complain(words) {
  text(byId("refusal"), words ?? "");
  byId("refusal").hidden = !words;
}

/** Shows a text instead of the video. */
function curtain(state, words) {
  byId("screen").dataset.state = state;
  text(byId("curtain"), words);
  for (const id of ["sound", "full"]) byId(id).hidden = state !== "playing";
}

/** Handles a change of the session that this page plays. */
function sessionChanged(session) {
  if (!here || session.sessionId !== here.sessionId) return;
  here = { ...here, ...session };
  if (onAir(here)) {
    if (byId("screen").dataset.state !== "playing") curtain("waiting", LIVE[here.state] ?? "One moment…");
  } else {
    const words = refused(here, tuners) ?? ending(here);
    player.leave();
    curtain("ended", words);
    complain(here.reason === "R_CLIENT_STOP" ? null : words);
    announce(words);
    here = { ...here, over: true };
    // The list is refreshed a moment later.
    sessions = sessions.filter((one) => one.sessionId !== here.sessionId);
  }
  paint();
  refresh();
}

/** Handles a change of the playback. */
function picture(state, words) {
  if (!here || here.over) return;
  if (state === "playing") { curtain("playing", ""); complain(null); } else curtain("waiting", words ?? LIVE[here.state] ?? "One moment…");
  paint();
}

async function start(body, title) {
  complain(null);
  try {
    const accepted = await tvStart({ type: "stream.start", profileID: byId("profile").value || undefined, ...body });
    watch({ sessionId: accepted.sessionId, serviceRef: body.serviceRef, recordingId: body.recordingId, state: "NEW" });
    announce(`${title} is being started`);
  } catch (refusal) { complain(explain(refusal)); }
  refresh();
}

function watch(session) {
  complain(null);
  here = { ...session, over: false };
  curtain("waiting", LIVE[session.state] ?? "One moment…");
  player.watch(session.sessionId);
  paint();
}

async function end(id) {
  try { await tvStop(id); } catch (refusal) { if (refusal.status !== 410) complain(explain(refusal)); }
  refresh();
}

/** Formats a duration without fractions of a second. */
const whole = (ms) => (ms < 60_000 ? `${Math.max(0, Math.floor(ms / 1_000))} s` : duration(ms));

/** How long the session has been running, and when it would expire. */
function times(session) {
  const parts = [session.profile];
  if (session.createdAtMs) parts.push(`for ${whole(serverNow() - session.createdAtMs)}`);
  const left = Date.parse(session.leaseExpiresAt ?? "") - serverNow();
  if (left > 0) parts.push(`ends in ${whole(left)} without viewers`);
  return parts.filter(Boolean).join(" · ");
}

function row(label, session) {
  const mine = session && here && !here.over && session.sessionId === here.sessionId;
  const what = session
    ? h("div", { class: "what" }, h("b", { test: "watching" }, nameOf(session)), h("span", {}, session.state === "READY" ? times(session) : LIVE[session.state] ?? session.state))
    : h("div", { class: "what" }, h("b", { test: "watching" }, "free"));
  return h("li", { test: "tuner", "data-slot": label, "data-busy": String(Boolean(session)), "data-session": session?.sessionId },
    h("span", { class: "slot" }, h("i"), label), what,
    session && h("div", { class: "actions" },
      mine ? h("span", { class: "chip held" }, "here") : h("button", { type: "button", test: "watch", "aria-label": `Watch ${nameOf(session)}`, onclick: () => watch(session) }, "Watch"),
      h("button", { type: "button", test: "end", "aria-label": `Stop ${nameOf(session)}`, onclick: () => end(session.sessionId) }, "Stop")));
}

function paintTuners() {
  const running = sessions.filter(onAir);
  const bySlot = new Map(running.filter((one) => one.tunerSlot != null).map((one) => [one.tunerSlot, one]));
  const slots = [...new Set([...Array(tuners).keys(), ...bySlot.keys()])].sort((a, b) => a - b);
  const rows = blind ? [] : slots.map((slot) => row(`Tuner ${slot + 1}`, bySlot.get(slot)));
  rows.push(...running.filter((one) => one.tunerSlot == null).map((one) => row(one.recordingId ? "Recording" : "Waiting", one)));
  const list = byId("tuners");
  // Keep the focus when the list is rebuilt.
  const focused = list.contains(document.activeElement) && document.activeElement;
  const at = focused && [focused.dataset.test, focused.closest("li").dataset.session];
  list.replaceChildren(...rows);
  if (at) [...list.querySelectorAll(`[data-test=${at[0]}]`)].find((one) => one.closest("li").dataset.session === at[1])?.focus();
  const free = tuners - bySlot.size;
  text(byId("count"), blind ? "" : `${running.length} running`);
  text(byId("free"), blind || !tuners ? "" : free <= 0 ? "no tuner free" : `${free} of ${tuners} tuners free`);
}

function paintChannels() {
  const wanted = byId("find").value.trim().toLowerCase();
  const running = new Set(sessions.filter(onAir).map((one) => one.serviceRef));
  const shown = channels.filter((one) => one.name.toLowerCase().includes(wanted));
  const list = byId("channels");
  const focused = list.contains(document.activeElement) && document.activeElement.dataset.ref;
  list.replaceChildren(...(shown.length ? shown.map((one) => {
    const on = running.has(one.serviceRef), current = here && !here.over && here.serviceRef === one.serviceRef;
    const badge = h("span", { class: `badge c${colour(one.name)}`, "aria-hidden": "true" }, initials(one.name));
    return h("li", {}, h("button", { type: "button", test: "channel", "data-ref": one.serviceRef, "data-on": String(on), "aria-current": current ? "true" : "false",
      onclick: () => start({ serviceRef: one.serviceRef }, one.name) }, badge, h("span", { class: "name" }, one.name), on && h("span", { class: "chip held" }, "on")));
  }) : [h("li", { class: "none" }, channels.length ? "No channel matches." : "No channels are configured: see [sessions] channels in the settings.")]));
  if (focused) [...list.querySelectorAll("button")].find((one) => one.dataset.ref === focused)?.focus();
}

function initials(name) {
  const words = name.split(/\s+/).filter((word) => /[\p{L}\p{N}]/u.test(word));
  return (words.length > 1 ? words[0][0] + words.at(-1)[0] : name.slice(0, 2)).toUpperCase();
}

function paint() {
  text(byId("title"), here ? nameOf(here) || "…" : "Nothing is on");
  const known = here && !here.over && { ...sessions.find((one) => one.sessionId === here.sessionId), ...here };
  text(byId("about"), known ? [known.tunerSlot != null && `tuner ${known.tunerSlot + 1}`, known.state === "READY" ? times({ ...known, leaseExpiresAt: null }) : LIVE[known.state]].filter(Boolean).join(" · ") : "");
  byId("stop").hidden = !here || here.over;
  paintTuners();
  paintChannels();
}

const refresh = paced(async () => {
  if (!signedIn) return;
  try {
    sessions = await tvSessions();
    blind = false;
  } catch (refusal) {
    if (refusal.status === 401) return;
    blind = refusal.status === 403;
    if (refusal.code === "NETWORK") live.doubt();
    // Without the right to list sessions, show the one this page started.
    if (blind && here && !here.over) sessions = await tvSession(here.sessionId).then((one) => [one], () => []);
  }
  byId("blind").hidden = !blind;
  paint();
});

async function begin() {
  try {
    await loadAccount();
    const catalog = await tvChannels();
    channels = catalog.channels ?? [];
    tuners = catalog.tuners ?? 0;
    byId("find").hidden = channels.length < 12;
    const profiles = catalog.profiles ?? [];
    byId("profile").replaceChildren(...profiles.map((one) => h("option", { value: one, selected: one === catalog.defaultProfile }, one)));
    byId("profile").closest("label").hidden = profiles.length < 2;
  } catch (refusal) {
    if (refusal.status === 401) return;
    if (refusal.code === "NETWORK") return void setTimeout(begin, 1_000);
    complain(refusal.status === 404 ? "The TV service is not running on this server." : explain(refusal));
    byId("channels").replaceChildren();
  }
  signedIn = true;
  live.watch("lease:");
  paint();
  refresh();
}

whenUnauthorized(signedOut);
byId("stop").addEventListener("click", () => here && end(here.sessionId));
byId("sound").addEventListener("click", () => (byId("video").muted = !byId("video").muted));
byId("video").addEventListener("volumechange", ({ target }) => {
  byId("sound").setAttribute("aria-pressed", String(target.muted));
  text(byId("sound"), target.muted ? "Sound on" : "Mute");
});
byId("full").addEventListener("click", () => (document.fullscreenElement ? document.exitFullscreen() : byId("video").requestFullscreen()));
byId("find").addEventListener("input", paintChannels);
byId("recording").addEventListener("submit", (event) => {
  event.preventDefault();
  const recordingId = byId("recording-id").value.trim();
  start({ recordingId, startMs: Math.round(Number(byId("recording-start").value || 0) * 60_000) }, recordingId);
});
addEventListener("keydown", (event) => {
  if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey || byId("screen").dataset.state !== "playing") return;
  if (event.key === "m") byId("sound").click();
  else if (event.key === "f") byId("full").click();
});
setInterval(() => !document.hidden && refresh(), REFRESH);
setInterval(() => !document.hidden && signedIn && here && !here.over && paint(), 1_000);
begin();
