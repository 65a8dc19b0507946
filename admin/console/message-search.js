// What to look for in a topic: the form, the address it makes, what the API is asked for it; and searches kept by name.

import { url } from "./api.js";
import { ask, badge, button, check, field, h, note, select } from "./dom.js";
import { moment, zone } from "./format.js";
import { FORMS, formOf } from "./records.js";
import { keep, recall } from "./storage.js";
import { setQuery } from "./view.js";

const FROM = [["tail", "the newest"], ["earliest", "the oldest"], ["offset", "an offset"], ["timestamp", "a moment"]];
const NAMES = ["from", "at", "partitions", "limit", "filter", "key", "value", "isolation"];
const LIMIT = "50";
const KEPT_MAX = 50;

function fromOf(query) {
  const said = query.get("from");
  return FROM.some(([way]) => way === said) ? said : "tail";
}

/** Whether the newest are asked for, and those before them. */
export function isTail(query) {
  return fromOf(query) === "tail";
}

/** Return the API's address for what the page's own asks. */
export function asked(topic, query) {
  const limit = query.get("limit") ?? LIMIT;
  const { partitions, ...rest } = chosen(query);
  const [before, offsets] = [query.get("before"), query.get("offsets")];
  const path = ["v1", "topics", topic, "messages"];
  if (isTail(query)) return url([...path, "newest"], { ...(before ? { before } : { partitions }), limit, ...rest });
  return url(path, { ...(offsets ? { offsets } : { ...begin(query), partitions }), limit, ...rest });
}

/** Where to begin, for those that go on from there. */
export function begin(query) {
  const at = query.get("at");
  return {
    tail: () => ({ from: "earliest" }),
    earliest: () => ({ from: "earliest" }),
    offset: () => ({ offset: at || "0" }),
    timestamp: () => ({ timestamp_ms: momentOf(at) }),
  }[fromOf(query)]();
}

/** What is narrowed and how it is shown, wherever it begins. */
export function chosen(query) {
  return {
    partitions: query.get("partitions"), filter: query.get("filter"), isolation: query.get("isolation"),
    key_format: formOf(query.get("key")), value_format: formOf(query.get("value")),
  };
}

/** A moment in an address: with its zone, so that it is the same for whoever it is sent to. */
function momentOf(text) {
  const ms = new Date(text || Date.now()).getTime();
  return Number.isNaN(ms) ? 0 : Math.max(0, ms);
}

export function searchForm(topic, query, search) {
  const at = h("input", { name: "at", "aria-label": "Offset or moment" });
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
  const form = h("form", { class: "tools", role: "search" },
    field("From", h("span", { class: "tools tight" }, from, at), hint),
    field("Partitions", h("input", { name: "partitions", value: query.get("partitions") ?? "", placeholder: "all", size: 6, pattern: "[0-9, ]*" })),
    field("Limit", select("limit", ["20", "50", "100", "500"].map((each) => [each, each]), query.get("limit") ?? LIMIT)),
    field("Filter", h("input", { name: "filter", "data-filter": true, class: "mono wide", value: query.get("filter") ?? "", placeholder: 'value.amount > 100 && key ~ "^a"' })),
    field("Keys", select("key", FORMS, formOf(query.get("key")))),
    field("Values", select("value", FORMS, formOf(query.get("value")))),
    check("committed only", { name: "isolation", value: "read_committed", checked: query.get("isolation") === "read_committed" }),
    h("button", { type: "submit" }, "Search"));
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
  return [form, kept(topic, query, read)];
}

const USUAL = { from: "tail", limit: LIMIT, key: "text", value: "text" };

/** A field as the address has it: what is usual is left out. */
function spelled(name, text, from) {
  if (name === "at") return text && from === "timestamp" ? new Date(momentOf(text)).toISOString() : text;
  return name === "partitions" ? text.replaceAll(" ", "") : text === USUAL[name] ? "" : text;
}

/** Searches of this topic that were given a name: in this browser. */
function kept(topic, query, read) {
  const known = () => recall("searches", {})[topic] ?? {};
  const change = (found) => {
    const all = recall("searches", {});
    if (Object.keys(found).length) all[topic] = found;
    else delete all[topic];
    if (!keep("searches", Object.keys(all).length ? all : null)) throw new Error("This browser keeps nothing.");
    show();
  };
  const shown = h("div", { class: "kept" });
  const save = () => {
    read();
    ask({
      title: "Save this view",
      content: field("Name", h("input", { name: "name", required: true, maxlength: 60, autocomplete: "off" }), `of ${topic}, in this browser; a name that is there is taken for the new one`),
      action: "Save",
      async submit(data) {
        const name = data.get("name").trim();
        if (!(name in known()) && Object.keys(known()).length >= KEPT_MAX) throw new Error(`There are ${KEPT_MAX} already: take one away.`);
        const wanted = NAMES.filter((each) => query.has(each)).map((each) => [each, query.get(each)]);
        change({ ...known(), [name]: new URLSearchParams(wanted).toString() });
        note("It is saved.");
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
        button("×", () => drop(name), { kind: "bare", label: `Forget ${name}` }))),
      button(found.length ? "Save this one, too …" : "Save this view …", save, { kind: "bare", key: "save-view" }));
    if (found.length) shown.prepend(badge("saved"));
  }
  show();
  return shown;
}
