// Differences between configs: of brokers, of topics, and of a resource with and without a layer of its configs.

import { get, url } from "./api.js";
import { SOURCES } from "./configs.js";
import { badge, card, check, dotted, field, h, nothing, select, unheard } from "./dom.js";
import { human, plural } from "./format.js";
import { grid } from "./grid.js";
import { setQuery } from "./view.js";

const TOPICS_MAX = 1000;
// [key, text, kind of the resources, number of resources, columns]
const WAYS = [
  ["brokers", "all brokers", null, 0, () => "brokers"],
  ["two-brokers", "two brokers", "broker", 2, (a, b) => `broker:${a},broker:${b}`],
  ["broker-static", "broker: effective and static configs", "broker", 1, (a) => `broker:${a},broker:${a}:static`],
  ["broker-default", "broker: effective and default configs", "broker", 1, (a) => `broker:${a},broker:${a}:default`],
  ["topic-broker", "topic: effective and without topic configs", "topic", 1, (a) => `topic:${a},topic:${a}:broker`],
  ["topic-default", "topic: effective and default configs", "topic", 1, (a) => `topic:${a},topic:${a}:default`],
  ["two-topics", "two topics", "topic", 2, (a, b) => `topic:${a},topic:${b}`],
];
const LAYERS = { static: "static", broker: "without topic configs", default: "defaults" };

export function open(values, query) {
  const known = { broker: [], topic: [] };
  const way = select("way", WAYS.map(([key, text]) => [key, text]), query.get("way") ?? "brokers");
  const suggested = h("datalist", { id: "config-things" });
  const names = ["a", "b"].map((key) => field("", h("input", { name: key, list: suggested.id, autocomplete: "off", value: query.get(key) ?? "" })));
  const flag = (name, text) => check(text, { name, checked: query.has(name) });
  const form = h("form", { class: "tools" }, field("Compare", way), names, suggested,
    field("Filter", h("input", { type: "search", name: "config", "data-filter": true, value: query.get("config") ?? "", placeholder: "part of a name" })),
    flag("all", "Show equal configs"), flag("own", "Show per-broker configs"));
  const current = () => WAYS.find(([key]) => key === way.value) ?? WAYS[0];

  function fit() {
    const [, , kind, many] = current();
    names.forEach((each, at) => {
      each.hidden = at >= many;
      each.querySelector("label").textContent = kind === "broker" ? (at ? "Second broker" : "Broker") : at ? "Second topic" : "Topic";
    });
    suggested.replaceChildren(...(known[kind] ?? []).map((name) => h("option", { value: name })));
    form.querySelector("[name=own]").closest("label").hidden = kind === "topic";
  }

  const view = {
    title: "Config diff",
    tools: form,
    async load(signal) {
      const [brokers, topics] = await Promise.all([get("/v1/brokers", { signal }), get(url(["v1", "topics"], { internal: "true", limit: TOPICS_MAX }), { signal })]);
      known.broker = brokers.filter((each) => !each.fenced).map((each) => String(each.id));
      known.topic = topics.topics.map((each) => each.name);
      fit();
      const [, , , many, columns] = current();
      const [a, b] = names.map((each) => each.querySelector("input").value.trim());
      if ((many > 0 && !a) || (many > 1 && !b)) return null;
      return get(url(["v1", "configs", "diff"], { of: columns(a, b), all: query.has("all") && "true" }), { signal });
    },
    draw(diff) {
      if (diff === null) return card(null, nothing("Enter the resources to compare."));
      const part = (query.get("config") ?? "").toLowerCase();
      const rows = diff.rows.filter((row) => (query.has("own") || !row.own) && row.name.toLowerCase().includes(part));
      const hidden = diff.rows.length - rows.length;
      const values = new Map(rows.map((row) => [row.name, new Set(row.cells.map((cell) => cell?.value ?? null))]));
      return [unheard(diff.unreachable, "their configs are not compared."), card(null,
        h("p", { class: "quiet" }, `${plural(rows.filter((row) => row.differs).length, "difference")}, ${plural(diff.same, "config")} equal.`, hidden > 0 && ` ${plural(hidden, "config")} hidden (${part ? "filter, " : ""}per-broker configs).`),
        grid(view, query, "Configs beside each other", [
          { title: "Config", cell: (row) => dotted(row.name), by: (row) => row.name },
          ...diff.columns.map((column, at) => ({ title: heading(column), cell: (row) => value(row, at, values.get(row.name).size > 1) })),
        ], rows, part ? "No difference matches the filter." : "No differences.", { key: (row) => row.name }))];
    },
    cares: (event) => event.kind === "config_changed" || event.kind === "reconnected" || event.kind.startsWith("topic_") || event.kind.startsWith("broker_"),
  };
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    if (event.target === way) names.forEach((each) => {
      each.querySelector("input").value = "";
      setQuery(query, each.querySelector("input").name, "");
    });
    setQuery(query, event.target.name, event.target.type === "checkbox" ? (event.target.checked ? "true" : "") : event.target.value);
    fit();
    setQuery(query, "page", "");
    // These only filter rows that are loaded.
    if (["config", "own"].includes(event.target.name)) {
      view.redraw();
      return;
    }
    // A complete name is requested, not each letter of it.
    const [, , kind] = current();
    if (event.target.closest(".field") && ["a", "b"].includes(event.target.name) && !known[kind]?.includes(event.target.value.trim())) return;
    view.look();
  });
  form.addEventListener("change", (event) => ["a", "b"].includes(event.target.name) && view.look());
  fit();
  return view;
}

function heading(column) {
  const [kind, name, layer] = column.split(":");
  return `${kind} ${name}${layer ? `: ${LAYERS[layer]}` : ""}`;
}

function value(row, at, several) {
  const cell = row.cells[at];
  if (!cell) return h("span", { class: "quiet" }, "not set");
  const text = cell.sensitive ? h("em", {}, "hidden") : h("span", { class: "mono" }, cell.value === "" ? "“”" : cell.value ?? "null");
  const readable = cell.sensitive ? null : human(row.name, cell.value);
  return h("span", {}, row.differs && several ? h("strong", {}, text) : text, readable && h("small", {}, ` ${readable}`), " ",
    cell.source !== "DEFAULT_CONFIG" && badge(SOURCES[cell.source] ?? cell.source, cell.source.startsWith("DYNAMIC") ? "good" : ""));
}
