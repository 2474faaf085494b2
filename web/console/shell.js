// The frame of all pages: navigation, phone menu, theme, account and the state of the connection. Its markup is
// shell.html, which the server puts into every page, with links only to the services that run in its process.
//
// Hooks for browser tests, as data-test: home here menu page-leases page-poll page-control page-tv page-meet
//   page-operations theme who logout connection[data-state=connecting|live|reconnecting|polling|off|over]
import { explain, logout, whoami } from "./api.js";
import { byId, notice, text } from "./dom.js";
import { loginView } from "./login.js";

const CONNECTION_LABELS = {
  connecting: "connecting…", live: "live", reconnecting: "reconnecting…", off: "signed out", polling: "no live updates; refreshing",
};
const THEMES = { auto: "light", light: "dark", dark: "auto" };

/** Shows the state of the page's connection; no state hides it. */
export function connection(state, label = CONNECTION_LABELS[state]) {
  const place = byId("connection");
  place.hidden = !state;
  if (!state) return;
  // Keep the label of a stream that is refused repeatedly until one opens.
  if (place.dataset.state === "polling" && state === "reconnecting") return;
  place.dataset.state = state;
  text(place.querySelector("b"), label);
}

/** The address of this page's link: every meeting belongs to one page. */
const ownAddress = () => (location.pathname === "/" ? "/#/" : location.pathname.startsWith("/meet") ? "/meet" : location.pathname);

/** Marks the link of the current page. */
export function markPage(address = ownAddress()) {
  let name = "";
  for (const link of byId("pages").children) {
    const current = link.getAttribute("href") === address;
    link.setAttribute("aria-current", current ? "page" : "false");
    if (current) name = link.textContent;
  }
  text(byId("here"), name);
  openMenu(false);
}

/** Shows who is signed in; null when it is no one. */
export function showAccount(user) {
  byId("account").hidden = !user;
  if (!user) return;
  text(byId("who"), user.name);
  byId("who").title = user.scopes?.join(" ") ?? user.name;
}

let beforeSignOut = () => {}, afterSignOut = () => location.reload();

/** Replaces what a sign-out does: `before` returns how to undo it when the server refuses. */
export function whenSigningOut(before, after) {
  beforeSignOut = before;
  afterSignOut = after;
}

/** Reads the signed-in user of a page that needs one. */
export async function loadAccount() {
  const user = await whoami(false);
  showAccount(user);
  return user;
}

/** Shows the sign-in form instead of the page, which is loaded again afterwards. */
export function showSignIn(why) {
  if (document.querySelector("[data-test=login]")) return;
  showAccount(null);
  connection("off");
  const view = loginView(why, () => location.reload());
  // Hidden and not removed: what is under way may still change it.
  for (const element of byId("main").children) element.hidden = true;
  byId("main").append(view.el);
  view.focus();
}

function openMenu(open) {
  byId("menu").setAttribute("aria-expanded", String(open));
  byId("top").classList.toggle("open", open);
}

function theme(next) {
  const root = document.documentElement;
  if (next) {
    try { next === "auto" ? localStorage.removeItem("tenure-theme") : localStorage.setItem("tenure-theme", next); } catch { /* not kept */ }
    if (next === "auto") delete root.dataset.theme; else root.dataset.theme = next;
  }
  const name = root.dataset.theme ?? "auto";
  text(byId("theme"), name);
  byId("theme").setAttribute("aria-label", `Theme: ${name}`);
}

byId("skip").addEventListener("click", (event) => { event.preventDefault(); byId("main").focus(); });
byId("theme").addEventListener("click", () => theme(THEMES[document.documentElement.dataset.theme ?? "auto"]));
byId("menu").addEventListener("click", () => openMenu(byId("menu").getAttribute("aria-expanded") !== "true"));
byId("logout").addEventListener("click", async () => {
  const undo = beforeSignOut();
  try {
    await logout();
  } catch (error) {
    if (error.status !== 401) { undo?.(); return notice(explain(error), "bad"); }
  }
  afterSignOut();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || byId("menu").getAttribute("aria-expanded") !== "true") return;
  event.preventDefault();
  openMenu(false);
  byId("menu").focus();
});
document.addEventListener("click", (event) => event.target.closest?.("#top") || openMenu(false));
theme();
markPage();
