// A question before something that cannot be undone.
import { h } from "./dom.js";

/** Asks, and resolves with whether the user agreed. */
export function confirmed({ title, lead, button, test }) {
  return new Promise((done) => {
    const agree = h("button", { type: "submit", class: "danger", test: "confirm", value: "yes" }, button);
    const dialog = h("dialog", { test, "aria-labelledby": "confirm-title", "aria-describedby": "confirm-lead" },
      h("form", { method: "dialog" }, h("h2", { id: "confirm-title" }, title), h("p", { id: "confirm-lead" }, lead),
        h("div", { class: "actions" }, h("button", { type: "submit", test: "cancel", value: "no" }, "Cancel"), agree)));
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => { dialog.remove(); done(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
    agree.focus();
  });
}
