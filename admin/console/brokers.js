// The list of brokers; one broker with its configs.

import { get, patch, url } from "./api.js";
import { dutyCard } from "./broker-duty.js";
import { ask, badge, card, field, figure, h, note, table } from "./dom.js";
import { count } from "./format.js";
import { setQuery } from "./view.js";

export function open(values, query) {
  return values.broker === undefined ? all() : one(values.broker, query);
}

function all() {
  return {
    title: "Brokers",
    load: (signal) => get("/v1/brokers", { signal }),
    draw: (brokers) => card(null, table("Brokers", [
      { title: "Broker", cell: (broker) => h("a", { href: `#/brokers/${broker.id}`, "data-key": `broker-${broker.id}` }, `broker ${broker.id}`) },
      { title: "State", cell: (broker) => (broker.fenced ? badge("fenced", "bad") : badge("alive", "good")) },
      { title: "Address", cell: (broker) => h("span", { class: "mono" }, broker.host ? `${broker.host}:${broker.port}` : "–") },
      { title: "Rack", cell: (broker) => broker.rack },
      { title: "Leads", number: true, cell: (broker) => count(broker.leaders) },
      { title: "Replicas", number: true, cell: (broker) => count(broker.replicas) },
    ], brokers, "No broker is registered.")),
  };
}

function one(id, query) {
  const view = {
    title: `Broker ${id}`,
    tools: configTools(query, () => view.look()),
    async load(signal) {
      const [broker, configs] = await Promise.all([
        get(url(["v1", "brokers", id]), { signal }),
        get(url(["v1", "brokers", id, "configs"], { all: query.has("all") && "true" }), { signal }),
      ]);
      return { broker, configs };
    },
    draw: ({ broker, configs }) => [
      h("dl", { class: "figures" },
        figure("State", broker.fenced ? "fenced" : "alive", broker.fenced ? "bad" : ""),
        figure("Leads", count(broker.leaders)), figure("Replicas", count(broker.replicas)),
        figure("Address", broker.host ? `${broker.host}:${broker.port}` : "–", "small"), figure("Rack", broker.rack ?? "–", "small")),
      dutyCard(id, view),
      card("Configs", configTable(configs, query, (entry) => alter(url(["v1", "brokers", id, "configs"]), entry, view))),
    ],
  };
  return view;
}

/** What narrows a list of configs; shared with topics. */
export function configTools(query, look) {
  return h("div", { class: "tools" },
    field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("config") ?? "", placeholder: "part of a name",
      oninput: (event) => {
        setQuery(query, "config", event.target.value);
        look();
      } })),
    h("label", { class: "check" }, h("input", { type: "checkbox", checked: query.has("all"), onchange: (event) => {
      setQuery(query, "all", event.target.checked ? "true" : "");
      look();
    } }), "defaults, too"));
}

const SOURCES = { DEFAULT_CONFIG: "default", STATIC_BROKER_CONFIG: "file", DYNAMIC_BROKER_CONFIG: "this broker", DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
  DYNAMIC_TOPIC_CONFIG: "this topic", DYNAMIC_GROUP_CONFIG: "this group" };

export function configTable(configs, query, change) {
  const part = (query.get("config") ?? "").toLowerCase();
  return table("Configs", [
    { title: "Name", cell: (entry) => h("span", { class: "mono" }, entry.name) },
    { title: "Value", cell: (entry) => (entry.sensitive ? h("em", {}, "not shown") : h("span", { class: "mono" }, entry.value === "" ? "“”" : entry.value)) },
    { title: "From", cell: (entry) => badge(SOURCES[entry.source] ?? entry.source, entry.source.startsWith("DYNAMIC") ? "good" : "") },
    { title: "", cell: (entry) => !entry.read_only && h("button", { type: "button", class: "plain", "data-key": `config-${entry.name}`, "aria-label": `Change ${entry.name}`, onclick: () => change(entry) }, "Change") },
  ], configs.filter((entry) => entry.name.includes(part)), part ? "No config has that in its name." : "Nothing differs from the defaults.");
}

/** Ask for a config's new value, and set it. */
export function alter(path, entry, view) {
  ask({
    title: entry.name,
    content: [
      field("Value", h("input", { name: "value", value: entry.sensitive ? "" : entry.value ?? "", autocomplete: "off" })),
      entry.source.startsWith("DYNAMIC") && h("label", { class: "check" }, h("input", { type: "checkbox", name: "delete" }), "back to the default"),
    ],
    action: "Set",
    async submit(data) {
      await patch(path, data.get("delete") ? { delete: [entry.name] } : { set: { [entry.name]: data.get("value") } });
      note(`${entry.name} is changed.`);
      view.look();
    },
  });
}
