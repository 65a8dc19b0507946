// One broker with its configs, log directories, loggers and features.

import { get, getTagged, guard, patch, url } from "./api.js";
import { touches } from "./brokers.js";
import { adminState, adminStateCard } from "./broker-admin-state.js";
import { configTable, configTools } from "./configs.js";
import { connectionCard, connectionTools, loadConnections } from "./connections.js";
import { ask, badge, button, card, check, field, figure, figures, h, link, note, nothing, select, table, tabs } from "./dom.js";
import { bytes, count, plural } from "./format.js";
import { grid } from "./grid.js";
import { registrationCard, shutDown } from "./process.js";
import { loadLog, logCard, logTools } from "./process-log.js";

const REPLICAS_OPEN = 50;
const LEVELS = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

/** `read`: loaded once on request, and not updated by events. */
const TABS = {
  configs: { title: "Configs",
    load: (path, query, signal) => getTagged(url([...path, "configs"], { all: query.has("all") && "true" }), { signal }),
    draw: ({ data }, { path, query, view, page }) => card("Configs", configTools(query, view), configTable(view, query, data, { ...page, path: url([...path, "configs"]) }, true)) },
  "log-dirs": { title: "Log directories", load: (path, query, signal) => get(url([...path, "log-dirs"]), { signal }), draw: logDirs },
  loggers: { title: "Loggers", load: (path, query, signal) => getTagged(url([...path, "loggers"]), { signal }), draw: loggers },
  features: { title: "Features", load: (path, query, signal) => getTagged(url(["v1", "features"], { broker: path.at(-1) }), { signal }), draw: features },
  connections: { title: "Connections", tools: connectionTools, load: loadConnections, draw: connectionCard, read: true },
  log: { title: "Log", tools: logTools, load: loadLog, draw: logCard, read: true },
};

export function open({ broker: id, tab = "configs" }, query) {
  const path = ["v1", "brokers", id];
  const shown = TABS[tab] ?? TABS.configs;
  const root = `#/brokers/${encodeURIComponent(id)}`;
  const links = Object.entries(TABS).map(([key, { title }]) => [key === "configs" ? root : `${root}/${key}`, title]);
  let tag = null;
  const page = { tag: () => tag, look: () => view.look() };
  const view = {
    title: `Broker ${id}`,
    actions: [button("Controlled shutdown …", () => shutDown(id, view), { needs: "admin", key: "shut-down" })],
    tools: [tabs("Parts of the broker", links, shown === TABS.configs ? root : `${root}/${tab}`), shown.tools?.(query, () => view)],
    async load(signal) {
      const broker = await get(url(path), { signal });
      // A fenced broker may not respond; the cluster's data on it is shown nevertheless.
      const silent = (error) => {
        if (error.name === "AbortError" || !broker.fenced) throw error;
        return error;
      };
      const [found, brokerState] = await Promise.all([shown.load(path, query, signal).catch(silent), shown === TABS.configs ? adminState(id, signal) : null]);
      tag = found.tag ?? null;
      return { broker, found, brokerState };
    },
    draw: ({ broker, found, brokerState }) => [
      figures(
        figure("State", broker.fenced ? "fenced" : broker.in_controlled_shutdown ? "shutting down" : "alive", broker.fenced ? "bad" : ""),
        figure("Leaders", count(broker.leaders)), figure("Replicas", count(broker.replicas)),
        figure("Address", h("span", { class: "mono" }, broker.host ? `${broker.host}:${broker.port}` : "–"), "small"), figure("Rack", broker.rack ?? "–", "small")),
      found instanceof Error && !shown.read
        ? card(shown.title, nothing(`The broker is fenced and does not respond: ${found.message}`))
        : shown.draw(found, { path, query, view, page }),
      brokerState && adminStateCard(id, brokerState, view),
      shown === TABS.configs && registrationCard(broker),
    ],
    cares: (event) => (shown.read ? event.kind === "reconnected" : touches(event) || event.kind === "config_changed" || (shown === TABS.features && event.kind === "feature_changed")),
  };
  return view;
}

/** Directories with their content; failed ones first. */
function logDirs(dirs, { query, view }) {
  const sorted = [...dirs].sort((one, other) => Boolean(other.error) - Boolean(one.error) || one.log_dir.localeCompare(other.log_dir));
  return sorted.map((dir, at) => {
    const few = dirs.length === 1 && dir.partitions.length <= REPLICAS_OPEN;
    return h("section", { class: "card", "data-key": `card-${dir.log_dir}` },
      h("h2", {}, h("span", { class: "mono" }, dir.log_dir), " ", dir.error ? badge(`offline: ${dir.error}`, "bad") : badge("online", "good")),
      !dir.error && h("p", {}, `${plural(dir.partitions.length, "replica")}, ${bytes(dir.size_bytes)}`,
        dir.total_bytes !== null && `; ${bytes(dir.usable_bytes)} of ${bytes(dir.total_bytes)} free on disk`),
      !dir.error && dir.total_bytes > 0 && h("progress", { "aria-label": `Disk usage of ${dir.log_dir}`, max: dir.total_bytes, value: dir.total_bytes - dir.usable_bytes }),
      dir.error
        ? nothing("Its partitions stay available through their replicas on other brokers, if there are any.")
        : h("details", { "data-key": `dir-${dir.log_dir}`, open: few }, h("summary", {}, "Replicas, largest first"), grid(view, query, "Replicas", [
          { title: "Partition", cell: (each) => link(`#/topics/${encodeURIComponent(each.topic)}/partitions/${each.partition}`, `${each.topic}-${each.partition}`, { key: `to-${each.topic}-${each.partition}` }), by: (each) => `${each.topic}-${each.partition}` },
          { title: "Size", number: true, cell: (each) => bytes(each.size_bytes), by: (each) => each.size_bytes },
          { title: "Lag", number: true, cell: (each) => (each.offset_lag ? badge(count(each.offset_lag), "warn") : "0"), by: (each) => each.offset_lag },
          { title: "", cell: (each) => each.future && badge("move in progress") },
        ], dir.partitions, "No replicas in this directory.", { key: (each) => `${each.topic}-${each.partition}-${each.future}`, name: `dir${at}-` })));
  });
}

function loggers({ data }, { path, view, page }) {
  const change = (logger) => {
    const guarded = guard(page.tag, page.look);
    ask({
      title: ["Log level of ", h("span", { class: "mono" }, logger.name)],
      content: [field("Minimum level", select("level", LEVELS.map((level) => [level, level]), logger.level)),
        logger.name !== "root" && check("Use the level of the root logger", { name: "delete" })],
      action: "Set",
      async submit(form) {
        const body = form.has("delete") ? { delete: [logger.name] } : { set: { [logger.name]: form.get("level") } };
        await guarded((match) => patch(url([...path, "loggers"]), body, match));
        note(`Log level of ${logger.name} set.`);
        view.look();
      },
    });
  };
  return card("Loggers", h("p", { class: "quiet" }, "Changes apply at once and are lost when the broker restarts."), table("Loggers", [
    { title: "Logger", cell: (logger) => h("span", { class: "mono" }, logger.name) },
    { title: "Level", cell: (logger) => badge(logger.level, ["DEBUG", "TRACE"].includes(logger.level) ? "warn" : "") },
    { title: "", cell: (logger) => button("Change", () => change(logger), { needs: "operate", key: `logger-${logger.name}`, label: `Change the level of ${logger.name}` }) },
  ], data, "The broker has no loggers.", { key: (logger) => logger.name }));
}

function features({ data }, { view, page }) {
  const change = (feature) => {
    const guarded = guard(page.tag, page.look);
    ask({
      title: ["Level of ", h("span", { class: "mono" }, feature.name)],
      content: [
        field(`Level, ${feature.min_supported} to ${feature.max_supported}`, h("input", { name: "level", type: "number", required: true, min: feature.min_supported, max: feature.max_supported, value: feature.level })),
        check("Allow an unsafe downgrade (may lose metadata)", { name: "unsafe" }),
        check("Validate only", { name: "dry", checked: true }),
      ],
      action: "Apply",
      fields: { levels: "level", kind: "level" },
      async submit(form) {
        const level = Number(form.get("level"));
        const kind = level >= feature.level ? "upgrade" : form.has("unsafe") ? "unsafe_downgrade" : "safe_downgrade";
        const to = url(["v1", "features"], { validate_only: form.has("dry") && "true" });
        await guarded((match) => patch(to, { levels: { [feature.name]: level }, kind }, match));
        note(form.has("dry") ? `${feature.name}: level ${level} is valid.` : `${feature.name} is now at level ${level}.`);
        view.look();
      },
    });
  };
  return card("Features", h("p", { class: "quiet" }, "Levels apply to the whole cluster. Supported levels are those of this broker."), table("Features", [
    { title: "Feature", cell: (each) => h("span", { class: "mono" }, each.name) },
    { title: "Level", number: true, cell: (each) => (each.level ? each.level : h("span", { class: "quiet" }, "not enabled")) },
    { title: "Supported", number: true, cell: (each) => (each.min_supported === each.max_supported ? each.max_supported : `${each.min_supported} to ${each.max_supported}`) },
    { title: "", cell: (each) => each.min_supported !== each.max_supported && button("Change", () => change(each), { needs: "admin", key: `feature-${each.name}`, label: `Change the level of ${each.name}` }) },
  ], data, "No feature is supported.", { key: (each) => each.name }));
}
