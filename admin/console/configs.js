// Configs of brokers and topics: the filter, the table, and the dialog that changes one.

import { get, guard, patch, put, remove, url } from "./api.js";
import { act, ask, badge, button, check, dotted, field, h, note, select } from "./dom.js";
import { human } from "./format.js";
import { grid } from "./grid.js";
import { setQuery } from "./view.js";

export const SOURCES = { DEFAULT_CONFIG: "default", STATIC_BROKER_CONFIG: "file", DYNAMIC_BROKER_CONFIG: "this broker", DYNAMIC_DEFAULT_BROKER_CONFIG: "all brokers",
  DYNAMIC_TOPIC_CONFIG: "this topic", DYNAMIC_GROUP_CONFIG: "this group" };
/** Values that are set on the resource itself: these can be reset. */
const OWN = ["DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG"];

/** The filter redraws the rows; only the defaults are requested from the server. */
export function configTools(query, view) {
  return h("div", { class: "tools" },
    field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("config") ?? "", placeholder: "part of a name",
      oninput: (event) => {
        setQuery(query, "config", event.target.value);
        setQuery(query, "page", "");
        view.redraw();
      } })),
    check("Show defaults", { checked: query.has("all"), onchange: (event) => {
      setQuery(query, "all", event.target.checked ? "true" : "");
      setQuery(query, "page", "");
      view.look();
    } }));
}

/** `page`: {path, tag(), look()} of the resource; `broker`: whether its configs can also be set for all brokers. */
export function configTable(view, query, configs, page, broker = false) {
  const part = (query.get("config") ?? "").toLowerCase();
  const change = (entry) => (event) => act(event.currentTarget, () => alter(entry, page, broker));
  return grid(view, query, "Configs", [
    { title: "Name", cell: (entry) => dotted(entry.name), by: (entry) => entry.name },
    { title: "Value", cell: shownValue },
    { title: "Source", cell: (entry) => badge(SOURCES[entry.source] ?? entry.source, entry.source.startsWith("DYNAMIC") ? "good" : ""), by: (entry) => SOURCES[entry.source] ?? entry.source },
    { title: "", cell: (entry) => !entry.read_only && button("Change", change(entry), { needs: "admin", key: `config-${entry.name}`, label: `Change ${entry.name}` }) },
  ], configs.filter((entry) => entry.name.toLowerCase().includes(part)), part ? "No config matches the filter." : "All configs have their defaults.", { key: (entry) => entry.name });
}

function shownValue(entry) {
  if (entry.sensitive) return h("em", {}, "hidden");
  const readable = human(entry.name, entry.value);
  return [h("span", { class: "mono" }, entry.value === "" ? "“”" : entry.value), readable && h("small", {}, ` ${readable}`)];
}

/** The entry with its type, description and choices, if available. */
async function documented(entry, path) {
  try {
    const found = await get(`${path}?all=true&documentation=true`);
    return { ...entry, ...found.find((each) => each.name === entry.name) };
  } catch (error) {
    if (error.passing) return entry;
    throw error;
  }
}

/** The control for a new value: a choice, several choices of a list, or a text. Returns {shown, read(data)}. */
export function valueField(entry, current) {
  const choices = entry.choices ?? [];
  const words = (current ?? "").split(",").map((each) => each.trim()).filter(Boolean);
  if (choices.length && entry.type === "LIST") {
    const boxes = choices.map((each) => check(each, { name: "value", value: each, checked: words.includes(each) }));
    return { shown: h("fieldset", {}, h("legend", {}, "New value"), boxes), read: (data) => data.getAll("value").join(",") };
  }
  if (choices.length) {
    const options = choices.includes(current) || !current ? choices : [current, ...choices];
    return { shown: field("New value", select("value", options.map((each) => [each, each]), current)), read: (data) => data.get("value") };
  }
  const hint = h("small", { role: "status" }, human(entry.name, current));
  const input = h("input", { name: "value", value: current ?? "", autocomplete: "off", class: "mono", type: entry.sensitive ? "password" : "text",
    oninput: (event) => { hint.textContent = human(entry.name, event.target.value.trim()) ?? ""; } });
  return { shown: h("div", {}, field("New value", input), hint), read: (data) => data.get("value"), text: true };
}

/** Dialog for a config's new value. An empty value needs a confirmation, so that pressing Enter clears nothing. */
async function alter(plain, { path, tag, look }, broker) {
  const guarded = guard(tag, look);
  const entry = await documented(plain, path);
  const control = valueField(entry, entry.sensitive ? null : entry.value);
  const own = OWN.includes(entry.source);
  const scope = broker ? select("scope", [["this", "this broker"], ["all", "all brokers"]], "this") : null;
  const drop = check("", { name: "delete" });
  const empty = check("Set an empty value", { name: "empty" });
  const readable = human(entry.name, entry.value);
  const fit = () => {
    drop.lastChild.textContent = scope?.value === "all" ? "Reset: remove the value set for all brokers" : broker ? "Reset: remove the value set on this broker" : "Reset: remove the value set on this topic";
    drop.hidden = !(own || scope?.value === "all");
  };
  scope?.addEventListener("change", fit);
  fit();
  ask({
    title: h("span", { class: "mono" }, entry.name),
    content: [
      entry.documentation && h("p", {}, entry.documentation),
      h("p", { class: "quiet" }, entry.sensitive ? "The value is hidden." : ["Current value: ", h("code", {}, entry.value === null ? "not set" : entry.value || "“”"), readable && ` (${readable})`, `, source: ${SOURCES[entry.source] ?? entry.source}.`]),
      scope && field("Set for", scope),
      control.shown,
      control.text || entry.type === "LIST" ? empty : null, drop,
    ],
    action: "Set",
    fields: { set: "value" },
    async submit(data) {
      const text = control.read(data) ?? "";
      const away = data.has("delete") && !drop.hidden;
      if (!away && text === "" && !data.has("empty")) throw new Error("The value is empty. Enter a value, or check “Set an empty value”.");
      const body = away ? { delete: [entry.name] } : { set: { [entry.name]: text } };
      if (scope?.value === "all") await alterAll(entry.name, away ? null : text);
      else await guarded((match) => patch(path, body, match));
      note(away ? `${entry.name} reset.` : `${entry.name} set.`);
      look();
    },
  });
}

/** The API of a single broker cannot set a config of all brokers: Confluent's REST API can. */
async function alterAll(name, value) {
  const { cluster_id: cluster } = await get("/v1/cluster");
  const path = url(["v3", "clusters", cluster, "broker-configs", name]);
  if (value === null) await remove(path);
  else await put(path, { value });
}
