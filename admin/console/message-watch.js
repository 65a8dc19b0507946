// New records as they are written. A hidden tab has no connection; it continues after the last record shown.

import { get, url } from "./api.js";
import { card, h, note } from "./dom.js";
import { chosen } from "./message-search.js";
import { recordHolder } from "./records.js";
import { follow } from "./sse.js";
import { token } from "./storage.js";

const SHOWN_MAX = 500;
const FRAME_MS = 100;
/** Servers limit the length of an address: with very many partitions a reconnect starts at the end and may miss records. */
const PLACE_CHARS_MAX = 6000;

/** Return {button, shown, stop, clear}: the start and stop button, and the element of the new records. */
export function watching(topic, query) {
  const path = (...more) => ["v1", "topics", topic, "messages", ...more];
  const list = h("div", { "aria-live": "off" });
  const state = h("span", { role: "status" });
  const title = h("h2", {}, "New records ", h("small", {}, state));
  const shown = h("div", { hidden: true }, card(null, title, list));
  const button = h("button", { type: "button", class: "plain", "data-key": "watch", onclick: () => (ends ? stop() : watch()) }, "Follow new records");
  let ends = null;
  let places = null; // {partition: the next offset}
  let waiting = [];
  let timer = null;
  let holder = null;

  async function watch() {
    ends = new AbortController();
    holder ??= recordHolder(topic, query);
    list.replaceChildren(holder.shown);
    button.textContent = "Stop following";
    shown.hidden = false;
    state.textContent = "starting …";
    const { signal } = ends;
    try {
      // The start offset is known before the stream opens, so records written in between are not missed.
      const { next } = await get(url(path(), { from: "latest", limit: 1, partitions: query.get("partitions") }), { signal });
      places = new Map(next.split(",").filter(Boolean).map((each) => each.split(":").map(Number)));
    } catch (error) {
      if (!signal.aborted) {
        note(error.message, "bad");
        stop("not started");
      }
      return;
    }
    document.addEventListener("visibilitychange", () => (document.hidden ? rest() : run()), { signal });
    run();
  }

  let turn = null; // ends the stream of this moment, not the watching

  function run() {
    rest();
    turn = new AbortController();
    follow(stream, { token: token(), signal: AbortSignal.any([ends.signal, turn.signal]), told: heard });
  }

  /** The next request: after the last received record. */
  function stream() {
    const { partitions, ...narrowed } = chosen(query);
    const offsets = [...places].map((place) => place.join(":")).join(",");
    const begin = offsets.length <= PLACE_CHARS_MAX ? { offsets } : { from: "latest", partitions };
    return url(path("stream"), { ...begin, ...narrowed });
  }

  function rest() {
    turn?.abort();
    state.textContent = document.hidden ? "paused while the tab is hidden" : "";
  }

  function heard({ state: new_state, why, kind, data }) {
    if (new_state === "on") state.textContent = "live";
    else if (new_state === "off") stop(why);
    else if (new_state === "again") state.textContent = `${why} Reconnecting.`;
    else if (kind === "message") {
      places.set(data.partition, data.offset + 1);
      waiting.push(data);
      // A fast topic is drawn in pieces: each record by itself would leave no time for anything else.
      timer ??= setTimeout(show, FRAME_MS);
    }
  }

  function show() {
    timer = null;
    holder.body.prepend(...waiting.splice(0).slice(-SHOWN_MAX).reverse().map((each) => holder.row(each)));
    while (holder.body.children.length > SHOWN_MAX) holder.body.lastChild.remove();
  }

  function stop(why = "stopped") {
    if (ends === null) return;
    ends.abort();
    turn?.abort();
    ends = turn = null;
    button.textContent = "Follow new records";
    state.textContent = typeof why === "string" ? why : "stopped";
  }

  /** Another search starts, so the watch ends. */
  function clear() {
    stop();
    clearTimeout(timer);
    timer = null;
    waiting = [];
    holder = null;
    list.replaceChildren();
    shown.hidden = true;
  }

  return { button, shown, stop, clear };
}
