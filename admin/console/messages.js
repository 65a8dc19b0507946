// Records of a topic: from an offset, a moment or the end; narrowed by an expression; told live; written by hand.

import { get } from "./api.js";
import { button, card, h, nothing } from "./dom.js";
import { count, plural } from "./format.js";
import { searchForm, asked, chosen, isTail } from "./message-search.js";
import { exportRecords } from "./message-export.js";
import { watching } from "./message-watch.js";
import { write } from "./message-write.js";
import { record } from "./records.js";
import { step } from "./view.js";

const STOPPED = {
  limit: "There may be more.",
  scanned: "Stopped after as many records as one search may look at; narrow it, or begin elsewhere.",
  bytes: "Stopped after as many bytes as one search may read; narrow it, or begin elsewhere.",
  time: "Stopped after as long as one search may take; narrow it, or begin elsewhere.",
  end: "These are all.",
};
/** A server takes no longer addresses: with very many partitions a place in all of them is too long. */
const PLACE_CHARS_MAX = 6000;

export function open({ topic: name }, query) {
  const form = searchForm(name, query, () => {
    watch.clear();
    view.look();
  });
  const watch = watching(name, query);
  const view = {
    title: `${name} · messages`,
    actions: [
      h("a", { class: "button plain", href: `#/topics/${encodeURIComponent(name)}` }, "Topic"),
      watch.button,
      button("Export …", () => exportRecords(name, query), { key: "export" }),
      button("Write a record", () => write(name, () => view.look()), { kind: "", needs: "operate", key: "write" }),
    ],
    tools: [form, watch.shown],
    load: (signal) => get(asked(name, query), { signal }),
    draw: (page) => drawn(name, query, page, view),
    // Records come and go without an event: what was asked for stays on the screen until it is asked for anew.
    cares: () => false,
    close: watch.stop,
  };
  return view;
}

function drawn(name, query, page, view) {
  const tail = isTail(query);
  const rows = tail ? [...page.messages].reverse() : page.messages;
  const few = rows.length === 1;
  return card(null,
    rows.length ? h("ol", { class: "records" }, rows.map((each) => record(name, each, () => few))) : nothing(empty(query, page)),
    h("p", { class: "quiet" }, `${plural(rows.length, "record")}, ${tail ? "the newest first" : "the oldest first"}; ${count(page.scanned)} looked at. `,
      said(page, tail, query)),
    pages(query, page, tail, view));
}

function empty(query, page) {
  const narrowed = Object.values(chosen(query)).some((value) => value && value !== "text");
  if (page.stopped_by !== "end") return "No record matched, as far as was looked.";
  return narrowed ? "No record matches." : "No record matches: there is none there.";
}

function said(page, tail, query) {
  if (tail && page.stopped_by === "limit") return "There are older ones.";
  if (page.stopped_by === "end" && (query.get("offsets") || query.get("before"))) return "There are no more.";
  return STOPPED[page.stopped_by] ?? page.stopped_by;
}

/** Further on, or further back; by an address, so that the way back is the browser's. */
function pages(query, page, tail, view) {
  const [name, place] = tail ? ["before", page.before] : ["offsets", page.next];
  const began = query.get(name);
  const more = page.stopped_by !== "end" && place;
  if (!more && !began) return null;
  const turn = (to) => {
    step(query, { [name]: to });
    view.look();
  };
  const long = more && place.length > PLACE_CHARS_MAX;
  return h("nav", { class: "pager", "aria-label": "Pages of records", "data-key": "pager" },
    began && button(tail ? "The newest" : "First page", () => turn(null), { key: "first" }),
    more && !long && button(tail ? "Older" : "Next page", () => turn(place), { key: "next" }),
    long && h("span", { class: "quiet" }, "There are too many partitions to go on from here: choose some of them."));
}
