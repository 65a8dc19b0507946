// A long table: a page of its rows at a time, in the order of any of its columns; both are in the address.

import { button, h, table } from "./dom.js";
import { count } from "./format.js";
import { setQuery, step } from "./view.js";

export const PAGE = 100;

/**
 * A table whose rows are all loaded. `columns` as those of `table`, and `by(row)`: the sort key of a column. `name`: prefix of
 * the address parameters, if a page has several such tables.
 */
export function grid(view, query, caption, columns, rows, empty, { key = null, name = "", size = PAGE } = {}) {
  const [sort, page] = [`${name}sort`, `${name}page`];
  const said = query.get(sort) ?? "";
  const down = said.startsWith("-");
  const by = columns.find((column) => column.by && column.title === said.replace("-", ""));
  const ordered = by ? [...rows].sort((one, other) => compared(by.by(one), by.by(other), down)) : rows;
  const pages = Math.max(1, Math.ceil(ordered.length / size));
  const at = Math.min(Math.max(1, Number(query.get(page)) || 1), pages);
  const order = (column) => {
    // Ascending, descending, unsorted.
    setQuery(query, sort, by !== column ? column.title : down ? "" : `-${column.title}`);
    setQuery(query, page, "");
    view.redraw();
  };
  const heads = columns.map((column) => (!column.by || rows.length < 2 ? column : {
    ...column,
    sorted: column === by ? (down ? "descending" : "ascending") : undefined,
    head: h("button", { type: "button", class: "sort", "data-key": `sort-${name}${column.title}`, onclick: () => order(column) },
      column.title, h("span", { "aria-hidden": "true" }, column === by ? (down ? " ↓" : " ↑") : "")),
  }));
  const turn = (to) => {
    step(query, { [page]: to === 1 ? "" : String(to) });
    view.redraw();
  };
  const go = (text, to, able) => button(text, () => turn(to), { key: `${name}${text}`, disabled: !able });
  return [
    table(caption, heads, ordered.slice((at - 1) * size, at * size), empty, { key }),
    pages > 1 && h("nav", { class: "pager", "aria-label": `Pages of ${caption.toLowerCase()}`, "data-key": `${name}pager` },
      h("span", { role: "status" }, `${count((at - 1) * size + 1)} to ${count(Math.min(at * size, ordered.length))} of ${count(ordered.length)}`),
      go("First page", 1, at > 1), go("Previous page", at - 1, at > 1), go("Next page", at + 1, at < pages), go("Last page", pages, at < pages)),
  ];
}

/** Unknown values are last in both directions. */
function compared(one, other, down) {
  const lacking = (value) => value === null || value === undefined;
  if (lacking(one) || lacking(other)) return lacking(one) - lacking(other);
  const found = typeof one === "string" || typeof other === "string" ? String(one).localeCompare(String(other), undefined, { numeric: true }) : one - other;
  return down ? -found : found;
}

/**
 * The pages of a server-side list: each begins after the last row of the previous one. A link leads to the first page, the
 * browser's back button to those between.
 */
export function turner(view, query, next, shown, what) {
  const turn = (after) => {
    step(query, { after });
    view.look();
  };
  const after = query.get("after");
  if (!after && !next) return null;
  return h("nav", { class: "pager", "aria-label": `Pages of ${what}`, "data-key": "pager" },
    h("span", { role: "status" }, `${count(shown)} ${shown === 1 ? what.replace(/s$/, "") : what}${after ? ` after ${after}` : ""}${next ? ", more available" : ""}`),
    after && button("First page", () => turn(null), { key: "first" }),
    next && button("Next page", () => turn(next), { key: "next" }));
}
