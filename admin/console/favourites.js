// Favourite topics and groups: marked with a star, stored in this browser.

import { badge, h } from "./dom.js";
import { keep, recall } from "./storage.js";

const PATHS = { topic: "topics", group: "groups" };

export function favourites(kind) {
  return recall(`favourites.${kind}`, []);
}

/** A button that marks one; `changed()` is called when it has. */
export function star(kind, name, changed = () => {}) {
  const button = h("button", { type: "button", class: "star", "data-key": `star-${name}`, onclick: () => {
    const found = favourites(kind);
    keep(`favourites.${kind}`, found.includes(name) ? found.filter((each) => each !== name) : [...found, name].sort());
    show(button, kind, name);
    changed();
  } });
  show(button, kind, name);
  return button;
}

function show(button, kind, name) {
  const on = favourites(kind).includes(name);
  button.setAttribute("aria-pressed", String(on));
  button.setAttribute("aria-label", `Favourite: ${name}`);
  button.textContent = on ? "★" : "☆";
}

/** Links to all of a kind; nothing without any. */
export function chips(kind) {
  const found = favourites(kind);
  return found.length > 0 && h("div", { class: "kept", "data-key": `chips-${kind}` }, badge(`favourite ${PATHS[kind]}`),
    found.map((name) => h("span", { class: "chip" }, h("a", { href: `#/${PATHS[kind]}/${encodeURIComponent(name)}` }, name))));
}
