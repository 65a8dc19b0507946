// Records of a topic: from an offset, a timestamp or the end; filtered by an expression; followed live; produced by hand.

import { get } from "./api.js";
import { button, card, h, nothing } from "./dom.js";
import { plural } from "./format.js";
import { searchForm, asked, chosen, isTail } from "./message-search.js";
import { exportRecords } from "./message-export.js";
import { watching } from "./message-watch.js";
import { write } from "./message-write.js";
import { recordHolder } from "./records.js";
import { step } from "./view.js";

const LIMITS = { scanned: "records that one search may read", bytes: "bytes that one search may read", time: "time of one search" };
/** Servers limit the length of an address, which has an offset of each partition. */
const PLACE_CHARS_MAX = 6000;

export function open({ topic: name }, query) {
  const form = searchForm(name, query, { search: () => {
    watch.clear();
    view.look();
  }, redraw: () => {
    watch.clear();
    view.redraw();
  } });
  const watch = watching(name, query);
  const view = {
    title: `${name} · messages`,
    actions: [
      h("a", { class: "button plain", href: `#/topics/${encodeURIComponent(name)}` }, "Topic"),
      watch.button,
      button("Export …", () => exportRecords(name, query), { key: "export" }),
      button("Produce a record", () => write(name, () => view.look()), { kind: "", needs: "operate", key: "write" }),
    ],
    tools: [form.shown, watch.shown],
    async load(signal) {
      form.mark(null);
      try {
        return await get(asked(name, query), { signal });
      } catch (error) {
        if (!form.mark(error)) throw error;
        return null;
      }
    },
    draw: (page) => (page === null ? card(null, nothing("The filter is not valid.")) : drawn(name, query, page, view)),
    // Records have no events: the result stays until it is requested again.
    cares: () => false,
    close: watch.stop,
  };
  return view;
}

function drawn(name, query, page, view) {
  const tail = isTail(query);
  const rows = tail ? [...page.messages].reverse() : page.messages;
  const few = rows.length === 1;
  const holder = recordHolder(name, query);
  holder.body.append(...rows.map((each) => holder.row(each, () => few)));
  return card(null,
    rows.length ? holder.shown : nothing(empty(page)),
    h("p", { class: "quiet" }, `${plural(rows.length, "record")}${rows.length > 1 ? `, ${tail ? "newest" : "oldest"} first` : ""}; ${plural(page.scanned, "record")} searched. `, ended(page, tail, query)),
    pages(query, page, tail, view));
}

function empty(page) {
  return page.stopped_by === "end" ? "No record matches." : "No match so far.";
}

function ended(page, tail, query) {
  if (page.stopped_by in LIMITS) return `Stopped at the limit of ${LIMITS[page.stopped_by]}: continue with the next page, narrow the search, or start elsewhere.`;
  if (page.stopped_by === "limit") return tail ? "Older records are available." : "More records may follow.";
  return query.get("offsets") || query.get("before") ? "No more records." : "The search is complete.";
}

/** Buttons for the next records in either direction; the position is in the address, so that the browser can go back. */
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
    began && button(tail ? "Newest" : "First page", () => turn(null), { key: "first" }),
    more && !long && button(tail ? "Older" : "Next page", () => turn(place), { key: "next" }),
    long && h("span", { class: "quiet" }, "The topic has too many partitions to page through: select some of them."));
}
