// Actions on a lease, each with a confirmation dialog.
import { explain, release, revoke, transfer } from "./api.js";
import { generation, h, notice } from "./dom.js";
import { duration } from "./time.js";

/** Opens a dialog with a form; `act` gets the values and returns the message for success. */
function ask({ test, title, lease, lead, fields, button, danger, act, done }) {
  const error = h("p", { class: "refusal", role: "alert", test: "dialog-error", hidden: true });
  const submit = h("button", { type: "submit", class: danger ? "danger" : "primary", test: "dialog-confirm" }, button);
  const form = h("form", { onsubmit: send }, h("h2", { id: "dialog-title" }, title), h("p", { id: "dialog-lead" }, lead),
    h("dl", { class: "facts", test: "dialog-facts" },
      h("dt", {}, "Key"), h("dd", { class: "mono" }, lease.key),
      h("dt", {}, "Holder"), h("dd", { class: "mono" }, lease.holder || "–"),
      h("dt", {}, "Generation"), h("dd", { class: "mono" }, generation(lease.generation))),
    fields, error,
    h("div", { class: "actions" }, h("button", { type: "button", test: "dialog-cancel", onclick: () => dialog.close() }, "Cancel"), submit));
  const dialog = h("dialog", { test, "aria-labelledby": "dialog-title", "aria-describedby": "dialog-lead", onclose: () => dialog.remove() }, form);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());

  async function send(event) {
    event.preventDefault();
    submit.disabled = true;
    error.hidden = true;
    try {
      const words = await act(Object.fromEntries(new FormData(form)));
      dialog.close();
      notice(words);
    } catch (refusal) {
      if (!dialog.open) notice(`${lease.key}: ${explain(refusal)}`, "bad");
      error.replaceChildren(explain(refusal), " ", h("span", { class: "hint" }, [refusal.code, refusal.requestId].filter(Boolean).join(" · ")));
      error.hidden = false;
    } finally {
      submit.disabled = false;
      done();
    }
  }
  document.body.append(dialog);
  dialog.showModal();
  form.querySelector("input, select")?.focus();
}

const field = (name, label, props, hint) => h("label", { class: "field" }, h("span", {}, label),
  h("input", { name, test: `field-${name}`, autocomplete: "off", spellcheck: "false", ...props }), hint && h("small", { class: "hint" }, hint));

const tokenField = () => field("token", "Token of this lease", { type: "password", required: true },
  "The token that the holder used to acquire the lease. It is sent with this request and not stored.");

/** For operators: ends the reign without the token of the holder. */
export function askRevoke(lease, done) {
  const choice = h("select", { name: "delay", test: "field-delay" },
    h("option", { value: "" }, "the remaining time of the holder (safe)"),
    h("option", { value: "0" }, "none: free at once"),
    [5, 30, 300].map((seconds) => h("option", { value: seconds * 1000 }, duration(seconds * 1000))));
  ask({
    test: "revoke-dialog", title: "Revoke this lease?", lease, done, danger: true, button: "Revoke",
    lead: "The holder loses the lease now, but learns of it only at its next renewal and may continue to work until then. The lock-delay blocks other holders for that time.",
    fields: [field("reason", "Reason", { required: true, maxlength: 200, placeholder: "Reason, for the log" }),
      h("label", { class: "field" }, h("span", {}, "Lock-delay"), choice)],
    async act({ reason, delay }) {
      const body = { key: lease.key, generation: lease.generation, reason: reason.trim() };
      const { delay_ms: kept } = await revoke(delay === "" ? body : { ...body, delay_ms: Number(delay) });
      return `Revoked ${lease.key}. ${kept ? `It cannot be acquired for ${duration(kept)}.` : "It is free."}`;
    },
  });
}

export function askRelease(lease, done) {
  ask({
    test: "release-dialog", title: "Release this lease?", lease, done, button: "Release",
    lead: "Releases the key for the holder; the first claim in the queue gets it. The holder must have stopped its work. This needs the token of the lease.",
    fields: [tokenField(), field("to", "Successor (optional)", { maxlength: 256 }, "The next holder; the key is reserved for two seconds if it is not waiting yet.")],
    async act({ token, to }) {
      const body = { key: lease.key, token: token.trim(), generation: lease.generation };
      const { outcome } = await release(to.trim() ? { ...body, to: to.trim() } : body);
      return outcome === "not_held" ? `${lease.key} was not held with that token; nothing changed.` : `Released ${lease.key}.`;
    },
  });
}

export function askTransfer(lease, done) {
  ask({
    test: "transfer-dialog", title: "Transfer this lease?", lease, done, button: "Transfer",
    lead: "Transfers the key to a successor in one step. The successor must already be waiting for it. This needs the token of the lease.",
    fields: [tokenField(), field("to", "Successor (holder name)", { required: true, maxlength: 256 })],
    async act({ token, to }) {
      const given = await transfer({ key: lease.key, token: token.trim(), generation: lease.generation, to: to.trim() });
      return `Transferred ${lease.key} to ${given.holder ?? to.trim()}${given.generation ? `, generation ${given.generation}` : ""}.`;
    },
  });
}
