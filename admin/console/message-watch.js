// Records as they come. While nobody looks at the tab it has no connection, and goes on behind what it showed last.

import { get, url } from "./api.js";
import { card, h, note } from "./dom.js";
import { chosen } from "./message-search.js";
import { record } from "./records.js";
import { follow } from "./sse.js";
import { token } from "./storage.js";

const SHOWN_MAX = 500;
const FRAME_MS = 100;
/** A server takes no longer addresses: with very many partitions it begins anew after a break, and may miss some. */
const PLACE_CHARS_MAX = 6000;

/** Return {button, shown, stop, clear}: a button that begins and ends it, and where it shows what comes. */
export function watching(topic, query) {
  const path = (...more) => ["v1", "topics", topic, "messages", ...more];
  const list = h("ol", { class: "records", "aria-live": "off" });
  const state = h("span", { role: "status" });
  const title = h("h2", {}, "New records ", h("small", {}, state));
  const shown = h("div", { hidden: true }, card(null, title, list));
  const button = h("button", { type: "button", class: "plain", "data-key": "watch", onclick: () => (ends ? stop() : watch()) }, "Watch new ones");
  let ends = null;
  let places = null; // {partition: the next offset}
  let waiting = [];
  let timer = null;

  async function watch() {
    ends = new AbortController();
    button.textContent = "Stop watching";
    shown.hidden = false;
    state.textContent = "beginning …";
    const { signal } = ends;
    try {
      // Where it begins is known before the stream is: what is written between the two is not missed.
      const { next } = await get(url(path(), { from: "latest", limit: 1, partitions: query.get("partitions") }), { signal });
      places = new Map(next.split(",").filter(Boolean).map((each) => each.split(":").map(Number)));
    } catch (error) {
      if (!signal.aborted) {
        note(error.message, "bad");
        stop("not begun");
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

  /** What to ask for now: behind what came last. */
  function stream() {
    const { partitions, ...narrowed } = chosen(query);
    const offsets = [...places].map((place) => place.join(":")).join(",");
    const begin = offsets.length <= PLACE_CHARS_MAX ? { offsets } : { from: "latest", partitions };
    return url(path("stream"), { ...begin, ...narrowed });
  }

  function rest() {
    turn?.abort();
    state.textContent = document.hidden ? "resting" : "";
  }

  function heard({ state: new_state, why, kind, data }) {
    if (new_state === "on") state.textContent = "as they come";
    else if (new_state === "off") stop(why);
    else if (new_state === "again") state.textContent = `${why} It goes on in a moment, behind what is shown.`;
    else if (kind === "message") {
      places.set(data.partition, data.offset + 1);
      waiting.push(data);
      // A fast topic is drawn in pieces: each record by itself would leave no time for anything else.
      timer ??= setTimeout(show, FRAME_MS);
    }
  }

  function show() {
    timer = null;
    list.prepend(...waiting.splice(0).slice(-SHOWN_MAX).reverse().map((each) => record(topic, each)));
    while (list.children.length > SHOWN_MAX) list.lastChild.remove();
  }

  function stop(why = "ended") {
    if (ends === null) return;
    ends.abort();
    turn?.abort();
    ends = turn = null;
    button.textContent = "Watch new ones";
    state.textContent = typeof why === "string" ? why : "ended";
  }

  /** Another search begins: what was watched for was something else. */
  function clear() {
    stop();
    clearTimeout(timer);
    timer = null;
    waiting = [];
    list.replaceChildren();
    shown.hidden = true;
  }

  return { button, shown, stop, clear };
}
