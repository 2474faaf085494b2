// The console: routing, sign-in, the connection and the health of the store.
//
// Addresses: #/?prefix=&after= (list) · #/lease?key= (one lease) · #/poll?id= (polling) · #login=CODE (signs in, then goes away).
// Hooks for browser tests, all as data-test; they stay when the design changes:
//   always     those of shell.js; notice announcer health[data-state=ready|unready|unknown] health-word health-facts loading
//   sign-in    login login-token login-submit login-error
//   list       search count list rows row[data-key][data-state] state name key holder generation countdown waiters
//              pager first next empty no-match open-key feed list-error
//   lease      lease lease-key state countdown facts holder generation waiters meta actions transfer release revoke
//              timeline reign[data-generation] tip legend to-scale even history reign-row[data-generation] ended back lease-error
//   polling    poll poll-count poll-placement poll-empty poll-error board node[data-instance] node-status node-count cells
//              cell[data-id][data-state][data-owner] target target-id target-state target-facts target-owner target-toggle
//              target-close target-error results result
//   dialogs    revoke-dialog release-dialog transfer-dialog dialog-facts dialog-error dialog-confirm dialog-cancel
//              field-reason field-delay field-token field-to
import { explain, health, login, whenUnauthorized, whoami } from "./api.js";
import { byId, h, notice, text } from "./dom.js";
import { leaseView } from "./lease.js";
import { listView } from "./list.js";
import { Live } from "./live.js";
import { loginView, takeCode } from "./login.js";
import { pollView } from "./poll.js";
import { connection as showConnection, markPage, showAccount, whenSigningOut } from "./shell.js";
import { duration } from "./time.js";

/** Renewals send no events, so the current view is refreshed at this interval. */
const REFRESH = 2_500;
const HEALTH = 10_000;

const ENDED = "Your session has expired or was revoked. Sign in to continue.";

let view = null, me = null, wanted = null, home = "#/";

const live = new Live({
  onState: connection,
  onEvent: (event) => view?.event(event),
  onResync: () => { view?.refresh(); askHealth(); },
  onSignedOut: ended,
});

function connection(state) {
  showConnection(state);
  if (state === "reconnecting") askHealth();
}

/** A request of a view failed. Without a response, the event stream may be broken too. */
function failed(refusal) {
  if (refusal.code === "NETWORK") live.doubt();
}

function show(next) {
  view?.destroy();
  view = next;
  byId("main").replaceChildren(next.el);
  document.title = `${next.title} · Tenure`;
  if (next.prefix == null) live.stop();
  else { live.watch(next.prefix); next.refresh(); }
}

/** Changes the URL of the list: typing replaces the history entry, paging adds one. */
function go(params, replace) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  const hash = `#/${query.size ? `?${query}` : ""}`;
  if (hash === location.hash) return;
  if (replace) history.replaceState(null, "", hash); else history.pushState({ paged: true }, "", hash);
  route();
}

function route() {
  if (!me) return;
  const [path, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const params = new URLSearchParams(query);
  const searching = document.activeElement?.id === "search" && document.activeElement;
  const caret = searching && [searching.value, searching.selectionStart];
  markPage(path === "/poll" ? "/#/poll" : "/#/");
  if (path === "/poll") {
    if (view?.open) return view.open(params.get("id"));
    show(pollView({ id: params.get("id") }, { me, failed, go: (hash) => (location.hash = hash) }));
  } else if (path === "/lease" && params.get("key")) {
    show(leaseView({ key: params.get("key") }, { me, failed, home }));
    byId("main").focus({ preventScroll: true });
    scrollTo(0, 0);
  } else {
    const prefix = params.get("prefix") ?? "", after = params.get("after") ?? "";
    home = location.hash || "#/";
    show(listView({ prefix, after, from: view?.key }, { go, live, failed }));
    if (!searching) return;
    const search = byId("search");
    search.focus();
    search.value = caret[0];
    search.setSelectionRange(caret[1], caret[1]);
  }
}

function signedOut(why) {
  if (view?.prefix === null && !why) return;
  wanted ??= location.hash.startsWith("#/") ? location.hash : "#/";
  me = null;
  showAccount(null);
  byId("health").hidden = true;
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  show(loginView(why, signedIn));
  connection("off");
  view.focus();
}

/** The session is no longer valid; several requests may find out at once. */
function ended() {
  if (me) signedOut(ENDED);
}

async function signedIn() {
  try {
    me = await whoami();
  } catch (error) {
    if (error.status === 401) return signedOut();
    if (error.status !== 404) throw error;
    me = { name: "", scopes: [], can: () => true };
  }
  showAccount(me);
  if (wanted) history.replaceState(null, "", wanted);
  wanted = null;
  route();
  askHealth();
}

/** The facts of the readiness response; nested ones are named by their path. */
function facts(value, path = []) {
  if (value && typeof value === "object") return Object.entries(value).flatMap(([name, inner]) => facts(inner, Array.isArray(value) && inner?.name ? path : [...path, name]));
  const name = path.filter((part) => part !== "capabilities").join(" ").replace(/_ms$/, "").replaceAll("_", " ");
  return [[name, path.at(-1)?.endsWith("_ms") && typeof value === "number" ? duration(value) : String(value)]];
}

async function askHealth() {
  const place = byId("health");
  let state = "unknown", word = "server unavailable", known = null;
  try {
    const { ready, data } = await health();
    if (ready) [state, word, known] = ["ready", data.status ?? "ready", data];
    else [state, word, known] = ["unready", `not ready: ${data.detail ?? "no reason given"}`, { code: data.code ?? "–", detail: data.detail ?? "–" }];
    const engine = data.engine?.name ?? data.engine ?? data.capabilities?.engine;
    if (typeof engine === "string") word = `${engine} · ${word}`;
  } catch { /* shown by the state */ }
  place.hidden = !me;
  place.dataset.state = state;
  text(place.querySelector("b"), word);
  if (known) place.querySelector("dl").replaceChildren(...[...new Map(facts(known))].flatMap(([name, value]) => [h("dt", {}, name), h("dd", { class: "mono" }, value)]));
}

async function start() {
  const code = takeCode();
  let why;
  if (code) try { await login({ code }); } catch (error) { why = explain(error); }
  for (let wait = 500; ; wait = Math.min(wait * 2, 8_000)) {
    try {
      await signedIn();
      if (me && why) notice(why, "bad");
      if (!me && why) signedOut(why);
      return;
    } catch (error) {
      connection("reconnecting");
      byId("main").replaceChildren(h("p", { class: "refusal", role: "alert" }, `${explain(error)} Trying again…`));
      await new Promise((done) => setTimeout(done, wait));
    }
  }
}

whenUnauthorized(ended);
addEventListener("hashchange", () => (location.hash.startsWith("#login=") ? start() : location.hash === "#main" ? null : route()));
// Requests under way fail once the session has ended; do not report that during a sign-out.
whenSigningOut(() => {
  const before = me;
  me = null;
  return () => { me = before; };
}, () => {
  history.replaceState(null, "", "#/");
  signedOut();
});
document.addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input, select, textarea");
  if (event.key === "/" && !typing && view?.focusSearch) { event.preventDefault(); view.focusSearch(); }
  if (event.key === "Escape" && !typing && location.hash.startsWith("#/lease")) document.querySelector("[data-test=back]")?.click();
});
document.addEventListener("visibilitychange", () => document.hidden || view?.refresh());
setInterval(() => document.hidden || (me && view?.refresh()), REFRESH);
setInterval(() => document.hidden || (me && askHealth()), HEALTH);
(function frame() { view?.tick(performance.now()); requestAnimationFrame(frame); })();
start();
