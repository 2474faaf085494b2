// A menu that a button opens. The arrow keys move in it, Escape and a click elsewhere close it.
import { h } from "./dom.js";

/** Distance from the button and from the edges of the window, in pixels. */
const MARGIN = 6;

let closeOpen = () => {};

/** Opens a menu at a button. An item is `{ label, act }`, with `test`, `danger`, `checked` and `disabled` where they apply; a
 *  text is a heading. */
export function openMenu(button, items, label) {
  const again = button.getAttribute("aria-expanded") === "true";
  closeOpen();
  if (again) return;
  const menu = h("div", { class: "menu", role: "menu", "aria-label": label, popover: "manual" }, items.filter(Boolean).map((item) => entry(item, close)));
  const entries = () => [...menu.querySelectorAll("button:not(:disabled)")];

  function close(focus = true) {
    if (closeOpen !== closeThis) return;
    closeOpen = () => {};
    menu.remove();
    button.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    removeEventListener("resize", closeThis);
    if (focus && button.isConnected) button.focus();
  }
  const closeThis = () => close(false);
  const outside = (event) => { if (!menu.contains(event.target) && !button.contains(event.target)) close(false); };
  menu.addEventListener("keydown", (event) => {
    const all = entries(), at = all.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (to != null) all.at(to % all.length).focus();
    else if (event.key === "Escape") close();
    else if (event.key === "Tab") return close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  document.addEventListener("pointerdown", outside, true);
  addEventListener("resize", closeThis);
  button.setAttribute("aria-haspopup", "menu");
  button.setAttribute("aria-expanded", "true");
  document.body.append(menu);
  menu.showPopover();
  place(menu, button);
  closeOpen = closeThis;
  entries()[0]?.focus({ preventScroll: true });
}

function entry(item, close) {
  if (typeof item === "string") return h("p", { role: "presentation" }, item);
  const { label, act, test, danger, checked, disabled } = item;
  const role = checked == null ? "menuitem" : "menuitemradio";
  return h("button", {
    type: "button", role, test, class: danger ? "danger" : "", disabled, tabindex: "-1", "aria-checked": checked == null ? null : String(checked),
    onclick: () => { close(); act(); },
  }, label);
}

/** Below the button or above it, inside the window. */
function place(menu, button) {
  const at = button.getBoundingClientRect(), size = menu.getBoundingClientRect();
  const left = Math.max(MARGIN, Math.min(at.right - size.width, innerWidth - size.width - MARGIN));
  const below = at.bottom + MARGIN + size.height <= innerHeight;
  menu.style.left = `${left}px`;
  menu.style.top = `${Math.max(MARGIN, below ? at.bottom + MARGIN : at.top - MARGIN - size.height)}px`;
}
