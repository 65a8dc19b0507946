// The current page: loads, draws, redraws on changes of the cluster, and shows errors.

import { h } from "./dom.js";
import { clock, zone } from "./format.js";
import { hear } from "./live.js";
import { settle } from "./patch.js";

const TOGETHER_MS = 250;
/** Delay after a failed load: no response, or a failover in progress. */
const AGAIN_MS = [1000, 2000, 5000, 10_000, 30_000];

/**
 * Show a page; returns the function that ends it. A page exports `open(values, query)`, which returns
 * {title, load(signal), draw(data), actions?, tools?, cares?(event), close?()}: `tools` are unchanged while `draw` is called
 * again. It gets `look()` (reload and redraw), `redraw()` (redraw the loaded data), `take(data)` (draw other data as
 * if it had been loaded), and `stir()` (an event happened: reload soon, once for all events until then).
 *
 * There is one load at a time. Events during it cause another one after it, and an explicit load cancels the previous one.
 */
export function shown(root, page, values, query) {
  const view = opened(page, values, query);
  const ends = new AbortController();
  const body = h("div", { class: "page" }, h("p", { class: "loading" }, "Loading …"));
  body.setAttribute("aria-busy", "true");
  const state = { running: null, dirty: false, failures: 0, timer: null, data: null, at: null };
  const age = h("time", { class: "quiet age", title: `Times are in ${zone()}` });
  const again = h("button", { type: "button", class: "plain again", "aria-label": "Refresh", title: "Refresh (r)", onclick: () => look() }, "↻");
  const actions = h("div", { class: "actions" }, view.actions);
  root.append(
    h("div", { class: "head" }, h("h1", {}, view.title), actions, h("div", { class: "looked" }, age, again)),
    ...[view.tools].flat(Infinity).filter(Boolean), body);

  async function look() {
    state.running?.abort();
    const mine = (state.running = new AbortController());
    clearTimeout(state.timer);
    state.timer = null;
    state.dirty = false;
    body.setAttribute("aria-busy", "true");
    let failure = null;
    try {
      const data = await view.load(AbortSignal.any([mine.signal, ends.signal]));
      if (mine !== state.running || ends.signal.aborted) return;
      show(data);
    } catch (error) {
      if (mine !== state.running || ends.signal.aborted) return;
      failure = error;
      fail(error);
    }
    state.running = null;
    body.setAttribute("aria-busy", "false");
    if (failure?.passing) later(AGAIN_MS[Math.min((state.failures += 1), AGAIN_MS.length) - 1]);
    else if (state.dirty) later(TOGETHER_MS);
  }

  function show(data) {
    settle(body, [view.draw(data)].flat(Infinity).filter(Boolean));
    Object.assign(state, { data: { data }, at: Date.now(), failures: 0 });
    age.textContent = `as of ${clock(state.at).slice(0, 8)}`;
    actions.hidden = false;
  }

  /** Shown data stays during a temporary failure; data of a deleted resource is removed. */
  function fail(error) {
    const told = trouble(error, look, state.data && error.passing ? state.at : null);
    if (state.data && error.passing) settle(body, [told, ...[view.draw(state.data.data)].flat(Infinity).filter(Boolean)]);
    else {
      settle(body, [told]);
      state.data = null;
      actions.hidden = error.status === 404; // a missing resource has no actions
      age.textContent = "";
    }
    if (error.status === undefined) console.error(error);
  }

  function later(ms) {
    state.timer ??= setTimeout(() => {
      state.timer = null;
      soon();
    }, ms);
  }

  function soon() {
    if (state.running || document.hidden) state.dirty = true;
    else look();
  }

  view.look = look;
  view.take = (data) => {
    // The current load may be older than this and is drawn after it: one more load follows.
    if (state.running || !state.data) state.dirty = true;
    else show(data);
  };
  view.redraw = () => state.data && settle(body, [view.draw(state.data.data)].flat(Infinity).filter(Boolean));
  view.stir = () => {
    if (state.running || document.hidden) state.dirty = true;
    else later(TOGETHER_MS);
  };
  const deaf = hear((event) => {
    if (!(view.cares ? view.cares(event) : true)) return;
    // While it fails it is tried again anyway, at growing distances; but when the server is back it is tried at once.
    if (state.failures && event.kind === "reconnected") {
      clearTimeout(state.timer);
      state.timer = null;
    }
    view.stir();
  });
  document.addEventListener("kvorum:again", () => look(), { signal: ends.signal });
  document.addEventListener("visibilitychange", () => !document.hidden && state.dirty && !state.running && look(), { signal: ends.signal });
  look();
  return () => {
    ends.abort();
    clearTimeout(state.timer);
    deaf();
    view.close?.();
  };
}

/** An address may be an invalid request. */
function opened(page, values, query) {
  try {
    return page.open(values, query);
  } catch (error) {
    return { title: Object.values(values).at(-1) ?? "No such page", load: async () => Promise.reject(error), draw: () => [], cares: () => false };
  }
}

function trouble(error, look, since) {
  const why = [error.message, error.error ? ` (${error.error})` : ""];
  const retry = h("button", { type: "button", class: "plain", "data-key": "try-again", onclick: () => look() }, "Try again");
  if (since !== null)
    return h("section", { class: "banner", role: "alert", "data-key": "trouble" },
      h("p", {}, h("strong", {}, `Showing data from ${clock(since).slice(0, 8)}.`), " ", why, " Retrying automatically."), retry);
  return h("section", { class: "card trouble", role: "alert", "data-key": "trouble" },
    h("h2", {}, error.status === 404 ? "Not found" : "Could not load this page"),
    h("p", {}, why, error.passing && " Retrying automatically."), retry);
}

function address(query) {
  const path = location.hash.split("?")[0] || "#/";
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

function change(query, changes) {
  for (const [name, value] of Object.entries(changes))
    if (value === "" || value === null || value === undefined || value === false) query.delete(name);
    else query.set(name, value);
}

/** Change the address's query without a new entry for each letter typed. */
export function setQuery(query, name, value) {
  change(query, { [name]: value });
  history.replaceState(null, "", address(query));
}

/** Change it as a history step, such as another page of a list. */
export function step(query, changes) {
  change(query, changes);
  history.pushState(null, "", address(query));
}

/** Call `work` after a pause in typing. */
export function unhurried(work, ms = 250) {
  let timer = null;
  return (...told) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...told), ms);
  };
}
