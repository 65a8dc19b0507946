// The list of topics, and a new one.

import { get, post, url } from "./api.js";
import { ask, badge, button, card, check, field, h, link, note, table } from "./dom.js";
import { chips, star } from "./favourites.js";
import { bytes, count, human } from "./format.js";
import { turner } from "./grid.js";
import { selection } from "./topic-selection.js";
import { setQuery, unhurried } from "./view.js";

const PAGE = 100;
const ORDERS = [["", "name"], ["size", "size"], ["partitions", "partitions"], ["under_replicated", "under-replicated"]];

export function open(values, query) {
  const soon = unhurried(() => view.look());
  const view = {
    title: "Topics",
    actions: [button("Create a topic", () => create(), { kind: "", needs: "admin", key: "create" })],
    tools: h("div", { class: "tools" },
      field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("filter") ?? "", placeholder: "part of a name, or * and ?",
        oninput: (event) => {
          setQuery(query, "filter", event.target.value);
          setQuery(query, "after", "");
          soon();
        } })),
      field("Sort by", h("select", { onchange: (event) => {
        setQuery(query, "order", event.target.value);
        setQuery(query, "after", "");
        view.look();
      } }, ORDERS.map(([value, text]) => h("option", { value, selected: (query.get("order") ?? "") === value }, text)))),
      check("Show internal topics", { checked: query.has("internal"), onchange: (event) => {
        setQuery(query, "internal", event.target.checked ? "true" : "");
        setQuery(query, "after", "");
        view.look();
      } }),
      check("Only under-replicated", { checked: query.has("under_replicated"), onchange: (event) => {
        setQuery(query, "under_replicated", event.target.checked ? "true" : "");
        setQuery(query, "after", "");
        view.look();
      } })),
    load: (signal) => get(url(["v1", "topics"], {
      filter: pattern(query.get("filter")), after: query.get("after"), internal: query.has("internal") && "true",
      under_replicated: query.has("under_replicated") && "true", order: query.get("order"), limit: PAGE, sizes: "true", configs: "true",
    }), { signal }),
    draw: (page) => [
      chips("topic"),
      card(null, table("Topics", [
        chosen.column(page.topics),
        { title: "Topic", cell: (topic) => [star("topic", topic.name, () => view.redraw()), " ", link(`${to(topic.name)}${query.has("under_replicated") ? "?which=unsynced" : ""}`, topic.name, { key: `topic-${topic.name}` }), topic.internal && [" ", badge("internal")]] },
        { title: "Partitions", number: true, cell: (topic) => count(topic.partitions) },
        { title: "Replicas", number: true, cell: (topic) => count(topic.replication_factor) },
        { title: "Size", number: true, cell: (topic) => bytes(topic.size_bytes) ?? h("span", { class: "quiet" }, "–") },
        { title: "Cleanup", cell: (topic) => topic.configs?.["cleanup.policy"] || "–" },
        { title: "Retention", cell: retention },
        { title: "State", cell: (topic) => (topic.under_replicated ? badge(`${count(topic.under_replicated)} under-replicated`, "warn") : badge("in sync", "good")) },
        { title: "", cell: (topic) => link(`${to(topic.name)}/messages`, "messages", { key: `messages-${topic.name}`, label: `Messages of ${topic.name}` }) },
      ], page.topics, none(query), { key: (topic) => topic.name }),
      turner(view, query, page.next, page.topics.length, "topics")),
    ],
    cares: (event) => !event.kind.startsWith("broker_") && !["quota_changed", "feature_changed", "config_changed"].includes(event.kind),
  };
  const chosen = selection(view);
  view.actions.push(chosen.actions);
  return view;
}

/** How long records are kept, and how many bytes of a partition, if that is limited. */
function retention({ configs }) {
  const [ms, size] = [configs?.["retention.ms"], configs?.["retention.bytes"]];
  if (ms === undefined || !configs["cleanup.policy"]?.includes("delete")) return "–";
  return [human("retention.ms", ms) ?? ms, size && size !== "-1" && `, ${human("retention.bytes", size)}`];
}

export function to(name) {
  return `#/topics/${encodeURIComponent(name)}`;
}

function none(query) {
  if (query.has("under_replicated")) return "No topic is under-replicated.";
  if (query.get("filter")) return "No topic matches the filter.";
  return query.get("after") ? "No more topics." : "No topics yet. Create the first one above.";
}

/** The filter is a part of a name, unless it has a wildcard. */
export function pattern(text) {
  return text && !/[*?]/.test(text) ? `*${text}*` : text;
}

function create() {
  ask({
    title: "Create a topic",
    content: [
      field("Name", h("input", { name: "name", required: true, maxlength: 249, pattern: "[a-zA-Z0-9._\\-]+", autocomplete: "off" }), "letters, digits, dot, _ and -"),
      field("Partitions", h("input", { name: "partitions", type: "number", min: 1, placeholder: "the cluster’s default" })),
      field("Replicas", h("input", { name: "replication_factor", type: "number", min: 1, placeholder: "the cluster’s default" })),
      field("Configs", h("textarea", { name: "configs", placeholder: "cleanup.policy=compact\nretention.ms=86400000" }), "one per line, name=value"),
      check("Validate only", { name: "dry" }),
    ],
    action: "Create",
    async submit(data) {
      const number = (name) => (data.get(name) ? Number(data.get(name)) : null);
      const dry = data.has("dry");
      const made = await post(url(["v1", "topics"], { validate_only: dry && "true" }), {
        name: data.get("name"), partitions: number("partitions"), replication_factor: number("replication_factor"), configs: configsOf(data.get("configs")),
      });
      note(dry ? `${made.name} is valid. Nothing was created.` : `Topic ${made.name} created.`);
      if (!dry) location.hash = to(made.name);
    },
  });
}

export function configsOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`“${line}” is not name=value.`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}
