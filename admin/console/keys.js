// Keyboard shortcuts and their list. Single keys can be disabled: speech input triggers them by accident.

import { ask, check, h } from "./dom.js";
import { keep, recall } from "./storage.js";

const SECOND_MS = 2000; // after g, for the letter of a page

/** Hear keys; `pages`: [path, name, letter]. */
export function hearKeys(pages) {
  let gone = 0; // until when a letter is that of a page
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
    if (recall("keys.off")) return;
    const key = event.key;
    if (performance.now() < gone) {
      gone = 0;
      const page = pages.find(([, , letter]) => letter === key);
      if (page) location.hash = `#/${page[0]}`;
    } else if (key === "g") gone = performance.now() + SECOND_MS;
    else if (key === "/") {
      const filter = document.querySelector("main [data-filter]");
      if (filter) {
        event.preventDefault();
        filter.focus();
      }
    } else if (key === "r") document.dispatchEvent(new CustomEvent("kvorum:again"));
    else if (key === "?") listKeys(pages);
  });
}

export function listKeys(pages) {
  const rows = pages.map(([, name, letter]) => [["g", letter], name]);
  rows.push([["/"], "focus the filter"], [["r"], "refresh"], [["?"], "this list"]);
  ask({
    title: "Keyboard shortcuts",
    content: [
      h("dl", { class: "keys" }, rows.map(([names, text]) =>
        h("div", {}, h("dt", {}, names.map((name) => [h("kbd", {}, name), " "])), h("dd", {}, text)))),
      check("Enable shortcuts", { name: "on", checked: !recall("keys.off") }),
    ],
    action: "Close",
    submit: async (data) => keep("keys.off", data.has("on") ? null : true),
  });
}
