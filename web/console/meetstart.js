// The start page of meetings: make one, or find one by its link or code.
import { h, notice } from "./dom.js";
import { loginView } from "./login.js";
import { create } from "./meetapi.js";

/** The meeting code in a text: a code, or a link with one. */
function parseCode(input) {
  const found = /\/meet\/([^/?#\s]+)/.exec(input);
  return found ? decodeURIComponent(found[1]) : input.trim();
}

const open = (code) => location.assign(`/meet/${encodeURIComponent(code)}`);

/** The page; `signedIn` is called after a sign-in. */
export function startView({ user, signedIn }) {
  const wanted = h("input", { id: "join-code", test: "join-code", required: true, autocomplete: "off", spellcheck: "false" });
  const submit = (event) => { event.preventDefault(); const code = parseCode(wanted.value); if (code) open(code); };
  const join = h("section", { class: "card" }, h("h2", {}, "Join a meeting"),
    h("form", { onsubmit: submit },
      h("label", { class: "field", for: "join-code" }, h("span", {}, "Its link or code"), wanted),
      h("button", { test: "join-go", class: user ? "" : "primary", type: "submit" }, "Go to its lobby")));
  return [h("div", { class: "bar" }, h("h1", {}, "Meetings")), h("div", { class: "start" }, user ? createForm() : loginForm(signedIn), join)];
}

function loginForm(signedIn) {
  const { el } = loginView("", signedIn);
  el.classList.remove("login");
  return el;
}

function createForm() {
  const name = h("input", { id: "create-name", test: "create-name", required: true, maxlength: 255, value: "Meeting" });
  const guests = h("input", { id: "create-guests", test: "create-guests", type: "checkbox", checked: true });
  const waiting = h("input", { id: "create-waiting", test: "create-waiting", type: "checkbox" });
  const button = h("button", { test: "create", class: "primary", type: "submit" }, "Make it");
  async function submit(event) {
    event.preventDefault();
    button.disabled = true;
    try {
      open((await create(name.value.trim(), guests.checked, waiting.checked)).meeting_code);
    } catch (error) { notice(error.message, "bad"); button.disabled = false; }
  }
  return h("section", { class: "card" }, h("h2", {}, "Make a meeting"), h("form", { onsubmit: submit },
    h("label", { class: "field", for: "create-name" }, h("span", {}, "Its name"), name),
    h("label", { class: "tick" }, guests, "People without an account may join"),
    h("label", { class: "tick" }, waiting, "People wait until a host lets them in"), button));
}
