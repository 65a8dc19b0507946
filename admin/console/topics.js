// The list of topics, and a new one.

import { get, post, url } from "./api.js";
import { ask, badge, card, field, h, note, table } from "./dom.js";
import { count } from "./format.js";
import { setQuery } from "./view.js";

const PAGE = 200;

export function open(values, query) {
  const view = {
    title: "Topics",
    actions: h("button", { type: "button", onclick: () => create() }, "Create a topic"),
    tools: h("div", { class: "tools" },
      field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("filter") ?? "", placeholder: "part of a name, or with * and ?",
        oninput: (event) => {
          setQuery(query, "filter", event.target.value);
          setQuery(query, "after", "");
          view.look();
        } })),
      h("label", { class: "check" }, h("input", { type: "checkbox", checked: query.has("internal"), onchange: (event) => {
        setQuery(query, "internal", event.target.checked ? "true" : "");
        view.look();
      } }), "internal ones, too")),
    load: (signal) => get(url(["v1", "topics"], { filter: pattern(query.get("filter")), after: query.get("after"), internal: query.has("internal") && "true", limit: PAGE }), { signal }),
    draw: (page) => [
      card(null, table("Topics", [
        { title: "Topic", cell: (topic) => [h("a", { href: `#/topics/${encodeURIComponent(topic.name)}`, "data-key": `topic-${topic.name}` }, topic.name), topic.internal && [" ", badge("internal")]] },
        { title: "Partitions", number: true, cell: (topic) => count(topic.partitions) },
        { title: "Replicas", number: true, cell: (topic) => count(topic.replication_factor) },
        { title: "State", cell: (topic) => (topic.under_replicated ? badge(`${count(topic.under_replicated)} under-replicated`, "warn") : badge("in sync", "good")) },
        { title: "", cell: (topic) => h("a", { href: `#/topics/${encodeURIComponent(topic.name)}/messages`, "aria-label": `Messages of ${topic.name}` }, "messages") },
      ], page.topics, query.get("filter") ? "No topic has such a name." : "There is no topic yet. Create the first one above.")),
      h("div", { class: "actions" },
        query.get("after") && h("button", { type: "button", class: "plain", "data-key": "first", onclick: () => turn(null) }, "First page"),
        page.next && h("button", { type: "button", class: "plain", "data-key": "next", onclick: () => turn(page.next) }, "Next page")),
    ],
    cares: (event) => !event.kind.startsWith("broker_"),
  };

  function turn(after) {
    setQuery(query, "after", after);
    view.look();
  }

  function create() {
    ask({
      title: "Create a topic",
      content: [
        field("Name", h("input", { name: "name", required: true, maxlength: 249, pattern: "[a-zA-Z0-9._\\-]+", autocomplete: "off" }), "letters, digits, dot, _ and -"),
        field("Partitions", h("input", { name: "partitions", type: "number", min: 1, placeholder: "the cluster’s default" })),
        field("Replicas", h("input", { name: "replication_factor", type: "number", min: 1, placeholder: "the cluster’s default" })),
        field("Configs", h("textarea", { name: "configs", placeholder: "cleanup.policy=compact\nretention.ms=86400000" }), "one a line, name=value"),
      ],
      action: "Create",
      async submit(data) {
        const number = (name) => (data.get(name) ? Number(data.get(name)) : null);
        const made = await post("/v1/topics", {
          name: data.get("name"), partitions: number("partitions"), replication_factor: number("replication_factor"), configs: configsOf(data.get("configs")),
        });
        note(`${made.name} is created.`);
        location.hash = `#/topics/${encodeURIComponent(made.name)}`;
      },
    });
  }
  return view;
}

/** What is typed is a part of a name, unless it has a wildcard. */
function pattern(text) {
  return text && !/[*?]/.test(text) ? `*${text}*` : text;
}

export function configsOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`“${line}” is not name=value.`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}
