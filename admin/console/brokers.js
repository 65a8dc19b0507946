// The list of brokers; one broker with its configs, log directories, loggers and features.

import { get, getTagged, patch, url } from "./api.js";
import { dutyCard } from "./broker-duty.js";
import { ask, badge, card, field, figure, h, note, nothing, select, table, tabs } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { setQuery } from "./view.js";

const REPLICAS_SHOWN = 500;
const REPLICAS_OPEN = 50;
const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

export function open(values, query) {
  return values.broker === undefined ? all() : one(values.broker, values.tab ?? "configs", query);
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

const TABS = {
  configs: { title: "Configs", tools: configTools, load: (path, query, signal) => get(url([...path, "configs"], { all: query.has("all") && "true" }), { signal }),
    draw: (rows, { path, query, view }) => card("Configs", configTable(rows, query, (entry) => alter(url([...path, "configs"]), entry, view))) },
  "log-dirs": { title: "Log directories", load: (path, query, signal) => get(url([...path, "log-dirs"]), { signal }), draw: logDirs },
  loggers: { title: "Loggers", load: (path, query, signal) => getTagged(url([...path, "loggers"]), { signal }), draw: loggers },
  features: { title: "Features", load: (path, query, signal) => getTagged(url(["v1", "features"], { broker: path.at(-1) }), { signal }), draw: features },
};

function one(id, tab, query) {
  const path = ["v1", "brokers", id];
  const shown = TABS[tab] ?? TABS.configs;
  const root = `#/brokers/${encodeURIComponent(id)}`;
  const links = Object.entries(TABS).map(([key, { title }]) => [key === "configs" ? root : `${root}/${key}`, title]);
  const view = {
    title: `Broker ${id}`,
    tools: [tabs("Parts of the broker", links, shown === TABS.configs ? root : `${root}/${tab}`), shown.tools?.(query, () => view.look())],
    async load(signal) {
      const broker = await get(url(path), { signal });
      // Who is fenced may not answer; what the cluster knows of it is shown all the same.
      const found = await shown.load(path, query, signal).catch((error) => {
        if (error.name === "AbortError" || !broker.fenced) throw error;
        return error;
      });
      return { broker, found };
    },
    draw: ({ broker, found }) => [
      h("dl", { class: "figures" },
        figure("State", broker.fenced ? "fenced" : "alive", broker.fenced ? "bad" : ""),
        figure("Leads", count(broker.leaders)), figure("Replicas", count(broker.replicas)),
        figure("Address", broker.host ? `${broker.host}:${broker.port}` : "–", "small"), figure("Rack", broker.rack ?? "–", "small")),
      shown === TABS.configs && dutyCard(id, view),
      ...[found instanceof Error
        ? card(shown.title, nothing(`The broker is fenced and does not tell: ${found.message}`))
        : shown.draw(found, { path, query, view })].flat(),
    ],
  };
  return view;
}

/** Directories with what lies in them; one that failed is told first. */
function logDirs(dirs) {
  const sorted = [...dirs].sort((one, other) => Boolean(other.error) - Boolean(one.error) || one.log_dir.localeCompare(other.log_dir));
  return sorted.map((dir) => {
    const few = dirs.length === 1 && dir.partitions.length <= REPLICAS_OPEN;
    return card(null,
      h("h2", {}, h("span", { class: "mono" }, dir.log_dir), " ", dir.error ? badge(`offline: ${dir.error}`, "bad") : badge("online", "good")),
      !dir.error && h("p", {}, `${plural(dir.partitions.length, "replica")}, ${bytes(dir.size_bytes)}`,
        dir.total_bytes !== null && `; ${bytes(dir.usable_bytes)} of ${bytes(dir.total_bytes)} free on its disk`),
      !dir.error && dir.total_bytes && h("progress", { "aria-label": `Used of the disk of ${dir.log_dir}`, max: dir.total_bytes, value: dir.total_bytes - dir.usable_bytes }),
      dir.error
        ? nothing("Its replicas are led and kept by others, where there are others.")
        : h("details", { "data-key": `dir-${dir.log_dir}`, open: few }, h("summary", {}, "Replicas, the largest first"), table("Replicas", [
          { title: "Partition", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.topic)}` }, `${each.topic}-${each.partition}`) },
          { title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
          { title: "Behind", number: true, cell: (each) => (each.offset_lag ? badge(count(each.offset_lag), "warn") : "0") },
          { title: "", cell: (each) => each.future && badge("on its way here") },
        ], dir.partitions.slice(0, REPLICAS_SHOWN), "There is no replica in it."),
        dir.partitions.length > REPLICAS_SHOWN && h("p", { class: "quiet" }, `The first ${count(REPLICAS_SHOWN)} of ${count(dir.partitions.length)}.`)));
  });
}

function loggers({ data, tag }, { path, view }) {
  const set = async (body) => {
    await patch(url([...path, "loggers"]), body, { match: tag });
    view.look();
  };
  const change = (logger) => ask({
    title: `Log level of ${logger.name}`,
    content: [field("From which level on it writes", select("level", LEVELS.map((level) => [level, level]), logger.level)),
      logger.name !== "root" && h("label", { class: "check" }, h("input", { type: "checkbox", name: "delete" }), "the root’s level")],
    action: "Set",
    async submit(form) {
      await set(form.get("delete") ? { delete: [logger.name] } : { set: { [logger.name]: form.get("level") } });
      note(`The log level of ${logger.name} is set.`);
    },
  });
  return card("Loggers", h("p", { class: "quiet" }, "In force at once, and until the broker is started again."), table("Loggers", [
    { title: "Logger", cell: (logger) => h("span", { class: "mono" }, logger.name) },
    { title: "Level", cell: (logger) => badge(logger.level, ["DEBUG", "TRACE"].includes(logger.level) ? "warn" : "") },
    { title: "", cell: (logger) => h("button", { type: "button", class: "plain", "data-key": `logger-${logger.name}`, "aria-label": `Change the level of ${logger.name}`, onclick: () => change(logger) }, "Change") },
  ], data, "The broker has no loggers."));
}

function features({ data, tag }, { view }) {
  const change = (feature) => ask({
    title: `Level of ${feature.name}`,
    content: [
      field(`Level, ${feature.min_supported} to ${feature.max_supported}`, h("input", { name: "level", type: "number", required: true, min: feature.min_supported, max: feature.max_supported, value: feature.level })),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "unsafe" }), "lower it even if metadata are lost by it"),
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "dry", checked: true }), "only try"),
    ],
    action: "Go",
    async submit(form) {
      const level = Number(form.get("level"));
      const kind = level >= feature.level ? "upgrade" : form.has("unsafe") ? "unsafe_downgrade" : "safe_downgrade";
      await patch(url(["v1", "features"], { validate_only: form.has("dry") && "true" }), { levels: { [feature.name]: level }, kind }, { match: tag });
      note(form.has("dry") ? `${feature.name} could have level ${level}.` : `${feature.name} has level ${level}.`);
      view.look();
    },
  });
  return card("Features", h("p", { class: "quiet" }, "Levels are the whole cluster’s; what is supported is this broker’s."), table("Features", [
    { title: "Feature", cell: (each) => h("span", { class: "mono" }, each.name) },
    { title: "Level", number: true, cell: (each) => (each.level ? each.level : h("span", { class: "quiet" }, "not in use")) },
    { title: "Supported", number: true, cell: (each) => (each.min_supported === each.max_supported ? each.max_supported : `${each.min_supported} to ${each.max_supported}`) },
    { title: "", cell: (each) => each.min_supported !== each.max_supported && h("button", { type: "button", class: "plain", "data-key": `feature-${each.name}`, "aria-label": `Change the level of ${each.name}`, onclick: () => change(each) }, "Change") },
  ], data, "No feature is supported."));
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

export const SOURCES = { DEFAULT_CONFIG: "default", STATIC_BROKER_CONFIG: "file", DYNAMIC_BROKER_CONFIG: "this broker", DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
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
