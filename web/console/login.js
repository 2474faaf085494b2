// Sign-in with the link that `tenure up` printed, or with a token.
import { explain, login } from "./api.js";
import { h } from "./dom.js";

const LINK = /#login=([^&\s]+)/;

/** The one-time code in a URL, or null. */
export const codeIn = (address) => { const found = LINK.exec(address); return found && decodeURIComponent(found[1]); };

/** Removes the code from the address bar first, so that it gets into no history and no bookmark. */
export function takeCode() {
  const code = codeIn(location.hash);
  if (code) history.replaceState(null, "", "#/");
  return code;
}

/** The sign-in screen; `done` is called once the server has set its cookie. */
export function loginView(why, done) {
  const field = h("input", {
    id: "login-token", test: "login-token", type: "password", autocomplete: "current-password",
    required: true, spellcheck: "false", "aria-describedby": "login-help login-error",
  });
  const error = h("p", { id: "login-error", test: "login-error", class: "refusal", role: "alert", hidden: !why }, why);
  const button = h("button", { test: "login-submit", class: "primary", type: "submit" }, "Sign in");
  async function submit(event) {
    event.preventDefault();
    const given = field.value.trim();
    if (!given) return;
    button.disabled = true;
    error.hidden = true;
    try {
      const code = codeIn(given);
      await login(code ? { code } : { token: given });
      field.value = "";
      await done();
    } catch (refusal) {
      error.textContent = explain(refusal);
      error.hidden = false;
      field.focus();
      field.select();
    } finally {
      button.disabled = false;
    }
  }
  const el = h("section", { class: "card login", test: "login", "aria-labelledby": "login-title" },
    h("h1", { id: "login-title" }, "Sign in"),
    h("p", {}, "Open the link that ", h("code", {}, "tenure up"), " printed when it started. It works once. ",
      "For a new one, run this on the same machine:"),
    h("pre", {}, h("code", {}, "tenure login")),
    h("form", { onsubmit: submit, novalidate: true },
      h("label", { for: "login-token" }, "Or paste a token or the sign-in link"),
      h("div", { class: "line" }, field, button),
      h("p", { id: "login-help", class: "hint" }, "The token is sent once and not stored. The session ends after twelve hours."),
      error));
  return { el, prefix: null, title: "Sign in", focus: () => field.focus(), refresh() {}, tick() {}, event() {}, destroy() {} };
}
