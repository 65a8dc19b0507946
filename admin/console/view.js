// A page on the screen: loads, draws, draws anew when the cluster changes, and says so when it cannot.

import { h } from "./dom.js";
import { hear } from "./live.js";

const TOGETHER_MS = 250;

/**
 * Show a page; returns what ends it. A page exports `open(values, query)`, which returns
 * {title, load(signal), draw(data), actions?, tools?, cares?(event)}: `tools` stay as they are while `draw` is called again.
 */
export function shown(root, page, values, query) {
  const view = page.open(values, query);
  const ends = new AbortController();
  const body = h("div", { "aria-busy": "true" }, h("p", { class: "loading" }, "Loading …"));
  root.append(
    h("div", { class: "head" }, h("h1", {}, view.title), view.actions && h("div", { class: "actions" }, view.actions)),
    ...[view.tools].flat().filter(Boolean), body);
  let again = null;
  let turn = 0;

  async function look() {
    const mine = (turn += 1);
    try {
      const data = await view.load(ends.signal);
      if (mine !== turn || ends.signal.aborted) return;
      redraw(body, view.draw(data));
    } catch (error) {
      if (mine !== turn || ends.signal.aborted) return;
      redraw(body, trouble(error, look));
    }
    body.setAttribute("aria-busy", "false");
  }

  function soon() {
    if (again === null)
      again = setTimeout(() => {
        again = null;
        look();
      }, TOGETHER_MS);
  }

  view.look = look;
  const deaf = hear((event) => (view.cares ? view.cares(event) : true) && soon());
  document.addEventListener("kvorum:again", look, { signal: ends.signal });
  look();
  return () => {
    ends.abort();
    clearTimeout(again);
    deaf();
    view.close?.();
  };
}

/** Replace what is drawn; what had the focus has it again, if it is still there. */
function redraw(body, drawn) {
  const key = document.activeElement?.closest?.("[data-key]")?.dataset.key;
  const open = new Set([...body.querySelectorAll("details[open][data-key]")].map((each) => each.dataset.key));
  body.replaceChildren(...[drawn].flat().filter(Boolean));
  for (const each of body.querySelectorAll("details[data-key]")) each.open ||= open.has(each.dataset.key);
  if (key) [...body.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key)?.focus();
}

function trouble(error, look) {
  return h("section", { class: "card trouble", role: "alert" },
    h("h2", {}, error.status === 404 ? "Not found" : "This could not be shown"),
    h("p", {}, error.message, error.error ? ` (${error.error})` : ""),
    h("button", { type: "button", onclick: look }, "Try again"));
}

/** Change the address's query without a new entry for each letter typed. */
export function setQuery(query, name, value) {
  if (value === "" || value === null || value === false) query.delete(name);
  else query.set(name, value);
  const path = location.hash.split("?")[0] || "#/";
  const text = query.toString();
  history.replaceState(null, "", text ? `${path}?${text}` : path);
}
