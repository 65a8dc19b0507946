// Configs of brokers and topics: what narrows them, the table of them, and the dialog that changes one.

import { get, guard, patch, put, remove, url } from "./api.js";
import { ask, badge, button, check, dotted, field, h, note, select } from "./dom.js";
import { grid } from "./grid.js";
import { setQuery } from "./view.js";

export const SOURCES = { DEFAULT_CONFIG: "default", STATIC_BROKER_CONFIG: "file", DYNAMIC_BROKER_CONFIG: "this broker", DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
  DYNAMIC_TOPIC_CONFIG: "this topic", DYNAMIC_GROUP_CONFIG: "this group" };
/** What is taken away by “back to what it was without”: what is set on the resource itself. */
const OWN = ["DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG"];

/** `view()`: the page, which shows other rows at once, and asks the server only for the defaults. */
export function configTools(query, view) {
  return h("div", { class: "tools" },
    field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("config") ?? "", placeholder: "part of a name",
      oninput: (event) => {
        setQuery(query, "config", event.target.value);
        setQuery(query, "page", "");
        view().redraw();
      } })),
    check("Show defaults", { checked: query.has("all"), onchange: (event) => {
      setQuery(query, "all", event.target.checked ? "true" : "");
      setQuery(query, "page", "");
      view().look();
    } }));
}

export function configTable(view, query, configs, change) {
  const part = (query.get("config") ?? "").toLowerCase();
  return grid(view, query, "Configs", [
    { title: "Name", cell: (entry) => dotted(entry.name), by: (entry) => entry.name },
    { title: "Value", cell: (entry) => (entry.sensitive ? h("em", {}, "not shown") : h("span", { class: "mono" }, entry.value === "" ? "“”" : entry.value)) },
    { title: "From", cell: (entry) => badge(SOURCES[entry.source] ?? entry.source, entry.source.startsWith("DYNAMIC") ? "good" : ""), by: (entry) => SOURCES[entry.source] ?? entry.source },
    { title: "", cell: (entry) => !entry.read_only && button("Change", () => change(entry), { needs: "admin", key: `config-${entry.name}`, label: `Change ${entry.name}` }) },
  ], configs.filter((entry) => entry.name.toLowerCase().includes(part)), part ? "No config has that in its name." : "Nothing differs from the defaults.", { key: (entry) => entry.name });
}

/**
 * Ask for a config's new value, and set it. `page`: {path, tag(), look()} of what it belongs to; `broker`: it may be set for all
 * brokers as well. Nothing is emptied by pressing Enter: that a value is to be empty is said.
 */
export function alter(entry, { path, tag, look }, broker = false) {
  const guarded = guard(tag, look);
  const unknown = entry.sensitive || entry.value === null;
  const value = h("input", { name: "value", value: unknown ? "" : entry.value, autocomplete: "off", class: "mono", type: entry.sensitive ? "password" : "text" });
  const own = OWN.includes(entry.source);
  const scope = broker ? select("scope", [["this", "this broker"], ["all", "all brokers"]], "this") : null;
  const drop = check("", { name: "delete" });
  const empty = check("set it to an empty text", { name: "empty" });
  const taken = () => (scope?.value === "all" ? "take away what is set for all brokers" : broker ? "back to what it is without this broker’s own" : "back to what it is without the topic’s own");
  const fit = () => {
    drop.lastChild.textContent = taken();
    drop.hidden = !(own || scope?.value === "all");
  };
  scope?.addEventListener("change", fit);
  fit();
  ask({
    title: h("span", { class: "mono" }, entry.name),
    content: [
      h("p", { class: "quiet" }, entry.sensitive ? "Its value is never shown." : ["It is ", h("code", {}, entry.value === null ? "not set" : entry.value || "“”"), ", from: ", SOURCES[entry.source] ?? entry.source, "."]),
      scope && field("For", scope),
      field("New value", value),
      empty, drop,
    ],
    action: "Set",
    fields: { set: "value" },
    async submit(data) {
      const text = data.get("value");
      const away = data.has("delete") && !drop.hidden;
      if (!away && text === "" && !data.has("empty")) throw new Error("The value is empty: say below that it is to be, or write one.");
      const body = away ? { delete: [entry.name] } : { set: { [entry.name]: text } };
      if (scope?.value === "all") await alterAll(entry.name, away ? null : text);
      else await guarded((match) => patch(path, body, match));
      note(away ? `What was set of ${entry.name} is taken away.` : `${entry.name} is set.`);
      look();
    },
  });
}

/** A config of all brokers has no path of its own but that of Confluent's REST API. */
async function alterAll(name, value) {
  const { cluster_id: cluster } = await get("/v1/cluster");
  const path = url(["v3", "clusters", cluster, "broker-configs", name]);
  if (value === null) await remove(path);
  else await put(path, { value });
}
