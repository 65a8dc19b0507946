// The search in a topic: the form, its address, the request to the API; and saved views.

import { url } from "./api.js";
import { ask, badge, button, check, field, h, note, select } from "./dom.js";
import { moment, zone } from "./format.js";
import { displayTools, FORMS, formOf } from "./records.js";
import { keep, recall } from "./storage.js";
import { setQuery } from "./view.js";

const FROM = [["tail", "newest"], ["earliest", "oldest"], ["offset", "offset"], ["timestamp", "timestamp"]];
const NAMES = ["from", "at", "partitions", "limit", "filter", "key", "value", "isolation"];
const DISPLAY = ["view", "columns", "fields"];
const LIMIT = "50";
const KEPT_MAX = 50;

function fromOf(query) {
  const said = query.get("from");
  return FROM.some(([way]) => way === said) ? said : "tail";
}

/** Whether the newest records are first. */
export function isTail(query) {
  return fromOf(query) === "tail";
}

/** Return the address of the API for that of the page. */
export function asked(topic, query) {
  const limit = query.get("limit") ?? LIMIT;
  const { partitions, ...rest } = chosen(query);
  const [before, offsets] = [query.get("before"), query.get("offsets")];
  const path = ["v1", "topics", topic, "messages"];
  if (isTail(query)) return url([...path, "newest"], { ...(before ? { before } : { partitions }), limit, ...rest });
  return url(path, { ...(offsets ? { offsets } : { ...begin(query), partitions }), limit, ...rest });
}

/** The start of a search in ascending order. */
export function begin(query) {
  const at = query.get("at");
  return {
    tail: () => ({ from: "earliest" }),
    earliest: () => ({ from: "earliest" }),
    offset: () => ({ offset: at || "0" }),
    timestamp: () => ({ timestamp_ms: momentOf(at) }),
  }[fromOf(query)]();
}

/** The filter and the formats, wherever the search starts. */
export function chosen(query) {
  return {
    partitions: query.get("partitions"), filter: query.get("filter"), isolation: query.get("isolation"),
    key_format: formOf(query.get("key")), value_format: formOf(query.get("value")),
  };
}

/** A timestamp in an address has its zone, so that it means the same everywhere. */
function momentOf(text) {
  const ms = new Date(text || Date.now()).getTime();
  return Number.isNaN(ms) ? 0 : Math.max(0, ms);
}

/** Return {shown, mark(error)}: the form, and how to show an error of the filter beside it; false if it is about something else. */
export function searchForm(topic, query, { search, redraw }) {
  const at = h("input", { name: "at", "aria-label": "Offset or timestamp" });
  const from = select("from", FROM, fromOf(query));
  const hint = h("small", {}, `in ${zone()}`);
  const fit = () => {
    at.hidden = !["offset", "timestamp"].includes(from.value);
    hint.hidden = from.value !== "timestamp";
    at.type = from.value === "timestamp" ? "datetime-local" : "number";
    at.step = from.value === "timestamp" ? "0.001" : "1";
    at.min = from.value === "timestamp" ? "" : "0";
  };
  from.addEventListener("change", () => {
    at.value = "";
    fit();
  });
  fit();
  at.value = from.value === "timestamp" ? (moment(momentOf(query.get("at"))) ?? "").replace(" ", "T") : query.get("at") ?? "";
  const wrong = h("small", { class: "wrong", role: "alert", id: "filter-error", hidden: true });
  const filter = h("input", { name: "filter", "data-filter": true, class: "mono wide", "aria-describedby": wrong.id, value: query.get("filter") ?? "", placeholder: 'value.amount > 100 && key ~ "^a"' });
  const form = h("form", { class: "tools", role: "search" },
    field("From", h("span", { class: "tools tight" }, from, at), hint),
    field("Partitions", h("input", { name: "partitions", value: query.get("partitions") ?? "", placeholder: "all", size: 6, pattern: "[0-9, ]*" })),
    field("Limit", select("limit", ["20", "50", "100", "500"].map((each) => [each, each]), query.get("limit") ?? LIMIT)),
    h("div", { class: "field" }, field("Filter", filter), wrong),
    h("button", { type: "submit" }, "Search"),
    h("details", { class: "options" }, h("summary", {}, "Options"),
      h("div", { class: "tools" },
        field("Key format", select("key", FORMS, formOf(query.get("key")))),
        field("Value format", select("value", FORMS, formOf(query.get("value")))),
        check("Committed records only", { name: "isolation", value: "read_committed", checked: query.get("isolation") === "read_committed" })),
      displayTools(query, redraw)));
  const read = () => {
    const data = new FormData(form);
    for (const name of NAMES) setQuery(query, name, spelled(name, (data.get(name) ?? "").trim(), from.value));
    setQuery(query, "before", "");
    setQuery(query, "offsets", "");
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    read();
    search();
  });
  const mark = (error) => {
    const mine = error?.field === "filter";
    wrong.textContent = mine ? error.message : "";
    wrong.hidden = !mine;
    filter.toggleAttribute("aria-invalid", mine);
    if (mine) filter.setAttribute("aria-invalid", "true");
    return mine;
  };
  return { shown: [form, kept(topic, query, read)], mark };
}

const USUAL = { from: "tail", limit: LIMIT, key: "text", value: "text" };

/** A field as the address has it; defaults are left out. */
function spelled(name, text, from) {
  if (name === "at") return text && from === "timestamp" ? new Date(momentOf(text)).toISOString() : text;
  return name === "partitions" ? text.replaceAll(" ", "") : text === USUAL[name] ? "" : text;
}

/** Saved views of this topic, in this browser. */
function kept(topic, query, read) {
  const known = () => recall("searches", {})[topic] ?? {};
  const change = (found) => {
    const all = recall("searches", {});
    if (Object.keys(found).length) all[topic] = found;
    else delete all[topic];
    if (!keep("searches", Object.keys(all).length ? all : null)) throw new Error("This browser does not allow local storage.");
    show();
  };
  const shown = h("div", { class: "kept" });
  const save = () => {
    read();
    ask({
      title: "Save this view",
      content: field("Name", h("input", { name: "name", required: true, maxlength: 60, autocomplete: "off" }), `for ${topic}, in this browser; replaces a saved view with the same name`),
      action: "Save",
      async submit(data) {
        const name = data.get("name").trim();
        if (!(name in known()) && Object.keys(known()).length >= KEPT_MAX) throw new Error(`The limit of ${KEPT_MAX} saved views is reached. Remove one.`);
        const wanted = [...NAMES, ...DISPLAY].filter((each) => query.has(each)).map((each) => [each, query.get(each)]);
        change({ ...known(), [name]: new URLSearchParams(wanted).toString() });
        note("View saved.");
      },
    });
  };
  const drop = (name) => {
    const { [name]: gone, ...rest } = known();
    change(rest);
  };
  function show() {
    const found = Object.entries(known());
    shown.replaceChildren(
      ...found.map(([name, text]) => h("span", { class: "chip" },
        h("a", { href: `#/topics/${encodeURIComponent(topic)}/messages${text ? `?${text}` : ""}` }, name),
        button("×", () => drop(name), { kind: "bare", label: `Remove view ${name}` }))),
      button("Save this view …", save, { kind: "bare", key: "save-view" }));
    if (found.length) shown.prepend(badge("saved"));
  }
  show();
  return shown;
}
