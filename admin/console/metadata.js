// The metadata as folders, at any offset of the log; changes between two offsets; the records.

import { get, url } from "./api.js";
import { badge, card, field, h, link, nothing, table, tabs } from "./dom.js";
import { count, moment, plural } from "./format.js";
import { setQuery } from "./view.js";

const TABS = [["tree", "Tree"], ["diff", "Changes"], ["records", "Records"]];
const TITLES = { tree: "Metadata", diff: "Metadata · changes", records: "Metadata · records" };
/** What the folders at the top are. */
const MEANS = { "/image": "state of the cluster at this offset:", "/local": "offset and epoch of this image:" };
const VIEWS = { tree, diff, records };

export function open({ tab = "tree" }, query) {
  const view = {
    title: TITLES[tab] ?? "Metadata",
    // NoOpRecords move the end of the log all the time; the page updates when the metadata change.
    cares: () => !query.has("at"),
  };
  const shown = (VIEWS[tab] ?? tree)(query, () => view.look());
  const paths = TABS.map(([key, text]) => [to(key, {}), text]);
  return Object.assign(view, shown, { tools: [tabs("Views of the metadata", paths, to(VIEWS[tab] ? tab : "tree", {})), shown.tools] });
}

function to(tab, values) {
  return `#${url(["metadata", ...(tab === "tree" ? [] : [tab])], values)}`;
}

function offsetField(query, name, label, look, hint) {
  return field(label, h("input", { name, type: "number", min: 0, value: query.get(name) ?? "", placeholder: hint, onchange: (event) => {
    setQuery(query, name, event.target.value);
    setQuery(query, "after", ""); // a page at another offset does not belong to this one
    look();
  } }));
}

function tree(query, look) {
  const path = query.get("path") ?? "/";
  return {
    tools: h("div", { class: "tools" }, offsetField(query, "at", "At offset", look, "now")),
    load: (signal) => get(url(["v1", "metadata", "tree"], { path, at: query.get("at"), after: query.get("after") }), { signal }),
    draw(node) {
      const at = query.get("at");
      const below = (name) => to("tree", { path: `${path.replace(/\/$/, "")}/${name}`, at });
      return [
        card(null,
          crumbs(path, at),
          node.value !== null ? h("pre", { class: "value" }, node.value) : node.entries.length ? h("div", { class: "scroll" }, table("Entries", [
            { title: "Name", cell: (entry) => (entry.value === null ? link(below(entry.name), `${entry.name}/`, { key: `entry-${entry.name}` }) : h("span", { class: "mono" }, entry.name)) },
            { title: "Value", cell: (entry) => (entry.value === null ? h("span", { class: "quiet" }, [MEANS[`${path}${entry.name}`] ?? "", ` ${plural(entry.entries, "entry", "entries")}`]) : h("code", {}, entry.value === "" ? "“”" : entry.value)) },
          ], node.entries, "", { key: (entry) => entry.name })) : nothing("Empty."),
          node.next !== null && h("p", {}, link(to("tree", { path, at, after: node.next }), "More", { key: "more" }))),
        h("p", { class: "quiet" }, `State at offset ${node.at}. Offsets ${node.first} to ${node.last} are available. `,
          link(to("diff", { since: node.at, path }), "Changes since then", { key: "since" })),
      ];
    },
  };
}

function crumbs(path, at) {
  const parts = path.split("/").filter(Boolean);
  return h("p", { class: "crumbs mono" }, link(to("tree", { at }), "/", { key: "root", label: "Root" }),
    parts.map((part, place) => [place > 0 && "/", place === parts.length - 1 ? h("strong", {}, part)
      : link(to("tree", { path: `/${parts.slice(0, place + 1).join("/")}`, at }), part, { key: `crumb-${place}` })]));
}

/** Offsets of the log that are compared by default: the whole log has too many changes. */
const RECENT = 1000;

async function recent(query, signal) {
  const { at, first } = await get(url(["v1", "metadata", "tree"], { path: "/", at: query.get("at") }), { signal });
  return Math.max(first, at - RECENT);
}

function diff(query, look) {
  return {
    tools: h("div", { class: "tools" },
      offsetField(query, "since", "From offset", look, `${RECENT} before the end`), offsetField(query, "at", "To offset", look, "end"),
      field("Path", h("input", { name: "path", class: "mono wide", "data-filter": true, value: query.get("path") ?? "", placeholder: "/image/topics/byName/orders", onchange: (event) => {
        setQuery(query, "path", event.target.value);
        look();
      } }))),
    load: async (signal) => get(url(["v1", "metadata", "diff"], { since: query.get("since") ?? await recent(query, signal), at: query.get("at"), path: query.get("path") }), { signal }),
    draw: (found) => card(null,
      h("p", { class: "quiet" }, `Changes from offset ${found.since} to ${found.at}.`, found.more && ` Showing the first ${count(found.changes.length)} changes.`),
      table("Changes", [
        { title: "Path", cell: (change) => h("span", { class: "mono path" }, change.path.split("/").flatMap((part, at) => (at ? ["/", h("wbr"), part] : [part]))) },
        { title: "Before", cell: (change) => (change.before === null ? h("span", { class: "whole" }, badge("absent", "good")) : h("code", {}, change.before)) },
        { title: "After", cell: (change) => (change.after === null ? h("span", { class: "whole" }, badge("removed", "bad")) : h("code", {}, change.after)) },
      ], found.changes, "No changes.", { key: (change) => change.path })),
  };
}

function records(query, look) {
  return {
    tools: h("div", { class: "tools" }, offsetField(query, "offset", "From offset", look, "newest")),
    load: (signal) => get(url(["v1", "metadata", "records"], { offset: query.get("offset") }), { signal }),
    draw(page) {
      const rows = query.has("offset") ? page.records : [...page.records].reverse();
      return card(null,
        table("Records", [
          { title: "Offset", number: true, cell: (each) => link(to("diff", { since: Math.max(each.offset - 1, page.first), at: each.offset }), each.offset, { key: `record-${each.offset}`, label: `Changes of record ${each.offset}` }) },
          { title: "Timestamp", cell: (each) => h("time", { class: "whole" }, moment(each.timestamp_ms)) },
          { title: "Epoch", number: true, cell: (each) => each.epoch },
          { title: "Type", cell: (each) => badge(each.type) },
          { title: "Fields", cell: (each) => h("code", { class: "path" }, JSON.stringify(each.record, null, 1).replaceAll("\n", "")) },
        ], rows, "Only NoOpRecords, which are not shown.", { key: (each) => each.offset }),
        h("p", { class: "quiet" }, `The log has offsets ${page.first} to ${page.last}. NoOpRecords, which controllers write regularly, are not shown. `,
          page.next !== null && link(to("records", { offset: page.next }), "Next records", { key: "further" })));
    },
  };
}
