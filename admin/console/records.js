// Display of records: a table with one line each, or a list with the complete text.

import { badge, check, field, h, link, select } from "./dom.js";
import { bytes, moment, plural } from "./format.js";
import { indented } from "./jsontext.js";
import { setQuery } from "./view.js";

const LINE_CHARS_MAX = 200;
const START_CHARS = 160;
/** Formats of keys and values. Automatic: text with JSON indented; base64 for bytes that are not text. */
export const FORMS = [["text", "automatic"], ["string", "text"], ["hex", "hexadecimal"], ["base64", "base64"]];
/** Columns of the table besides the fields of JSON values; those shown by default. */
const COLUMNS = [["offset", "Offset"], ["timestamp", "Timestamp"], ["key", "Key"], ["value", "Value"], ["headers", "Headers"], ["size", "Size"]];
const USUAL = ["offset", "timestamp", "key", "value", "size"];
const FIELDS_MAX = 12;

/** Return the format for the API; unknown ones of old addresses are automatic. */
export function formOf(said) {
  return FORMS.some(([form]) => form === said) ? said : "text";
}

export function placeOf(topic, each) {
  return `#/topics/${encodeURIComponent(topic)}/records/${each.partition}/${each.offset}`;
}

/** The controls for the display, which is part of the address. `changed()`: to draw again. */
export function displayTools(query, changed) {
  const shown = columnsOf(query);
  const set = (name, value) => {
    setQuery(query, name, value);
    changed();
  };
  const boxes = COLUMNS.map(([key, title]) => check(title, { name: "column", value: key, checked: shown.includes(key), onchange: () => {
    const chosen = [...columns.querySelectorAll("input:checked")].map((each) => each.value);
    set("columns", String(chosen) === String(USUAL) ? "" : chosen.join(","));
  } }));
  const columns = h("fieldset", { class: "plain" }, h("legend", {}, "Columns"), boxes);
  return h("div", { class: "tools" },
    field("View", select("view", [["", "table"], ["list", "list"]], query.get("view") ?? "", (value) => set("view", value))), columns,
    field("Value fields as columns", h("input", { name: "fields", class: "mono", value: query.get("fields") ?? "", placeholder: "amount, user.id", autocomplete: "off", onchange: (event) => set("fields", event.target.value.replaceAll(" ", "")) })));
}

function columnsOf(query) {
  const chosen = query.get("columns")?.split(",").filter((each) => COLUMNS.some(([key]) => key === each));
  return chosen?.length ? chosen : USUAL;
}

/** Return {shown, body, row(each)}: the container, the element of the rows, and the function that creates a row. */
export function recordHolder(topic, query) {
  if (query.get("view") === "list") {
    const body = h("ol", { class: "records", "aria-live": "off" });
    return { shown: body, body, row: (each, unfolded) => record(topic, each, unfolded) };
  }
  const columns = COLUMNS.filter(([key]) => columnsOf(query).includes(key));
  const fields = (query.get("fields") ?? "").split(",").filter(Boolean).slice(0, FIELDS_MAX);
  const heads = [...columns.map(([key, title]) => [`column-${key}`, title]), ...fields.map((each) => ["column-field", each])];
  const body = h("tbody", { role: "rowgroup" });
  const shown = h("div", { class: "scroll" }, h("table", { role: "table", class: "lines" }, h("caption", { class: "unseen" }, "Records"),
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads.map(([kind, title]) => h("th", { scope: "col", role: "columnheader", class: kind }, title)))), body));
  return { shown, body, row: (each, unfolded) => line(topic, each, columns, fields, unfolded) };
}

/** A record as a row of the table; its value expands to the complete text with the headers. */
function line(topic, each, columns, fields, unfolded = () => false) {
  const place = `${each.partition}-${each.offset}`;
  const cells = {
    offset: () => link(placeOf(topic, each), `${each.partition}:${each.offset}`, { key: `at-${place}`, label: `Record ${each.offset} of partition ${each.partition}` }),
    timestamp: () => h("time", {}, moment(each.timestamp_ms) ?? "–"),
    key: () => (each.key_bytes === null ? "–" : [h("code", {}, each.key), form(each.key_format)]),
    value: () => valueLine(each, place, unfolded(each)),
    headers: () => (each.headers.length ? each.headers.map((header) => header.key).join(", ") : "–"),
    size: () => bytes((each.key_bytes ?? 0) + (each.value_bytes ?? 0)),
  };
  const json = fields.length > 0 ? objectOf(each.value) : null;
  const cell = (title, kind, content) => h("td", { role: "cell", "data-label": title, class: kind }, h("div", { class: "cell" }, content));
  return h("tr", { role: "row", class: "record", "data-row": `record-${place}` },
    columns.map(([key, title]) => cell(title, `column-${key}`, cells[key]())),
    fields.map((name) => cell(name, "column-field", h("code", {}, fieldOf(json, name)))));
}

function valueLine(each, place, open) {
  const whole = (into) => {
    if (into.children.length > 1) return;
    into.append(h("pre", {}, each.value_bytes === null ? "" : shownAs(each.value, each.value_format)));
    if (each.headers.length) into.append(headers(each.headers));
  };
  if (each.value_bytes === null && !each.headers.length) return badge("tombstone", "warn");
  const shown = h("details", { "data-key": `value-${place}-${each.value_format}-${each.value_bytes}`, "data-own": "", open, ontoggle: (event) => event.currentTarget.open && whole(event.currentTarget) },
    // The badges are first, since the text is truncated at the end of the line.
    h("summary", { class: "mono" }, each.headers.length > 0 && [badge(plural(each.headers.length, "header")), " "],
      each.value_bytes === null ? badge("tombstone", "warn") : [isEncoded(each.value_format) && [badge(each.value_format), " "], each.value.slice(0, START_CHARS * 2).replaceAll("\n", " ")]));
  if (open) whole(shown);
  return shown;
}

/** JSON with unchanged numbers: 12345678901234567890 and 1.10 stay the same. */
function objectOf(text) {
  const asWritten = (key, value, context) => (typeof value === "number" && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value);
  try {
    return JSON.parse(text, asWritten);
  } catch {
    return null;
  }
}

/** A field of a JSON value by its path, as text; a dash where it does not exist. */
function fieldOf(json, path) {
  let found = json;
  for (const name of path.split(".")) found = found === null || typeof found !== "object" || !Object.hasOwn(found, name) ? undefined : found[name];
  return found === undefined ? "–" : typeof found === "string" ? found : JSON.stringify(found);
}

/** A record in a list. */
function record(topic, each, unfolded = () => false) {
  const place = `${each.partition}-${each.offset}`;
  return h("li", { class: "record", "data-row": `record-${place}` },
    h("div", { class: "where quiet mono" },
      link(placeOf(topic, each), `${each.partition}:${each.offset}`, { key: `at-${place}`, label: `Record ${each.offset} of partition ${each.partition}` }),
      h("br"), h("time", {}, moment(each.timestamp_ms))),
    h("div", {},
      h("div", { class: "steps" },
        each.key_bytes !== null && h("span", {}, badge("key"), " ", h("code", {}, each.key), form(each.key_format)),
        h("small", {}, bytes((each.key_bytes ?? 0) + (each.value_bytes ?? 0))),
        each.value_bytes !== null && form(each.value_format)),
      each.value_bytes === null ? badge("tombstone", "warn") : content(each, place, unfolded(each)),
      each.headers.length > 0 && h("details", { "data-key": `headers-${place}` },
        h("summary", { class: "quiet" }, plural(each.headers.length, "header")), headers(each.headers))));
}

function content(each, place, open) {
  const text = each.value;
  if (text.length < LINE_CHARS_MAX && !text.includes("\n")) return h("pre", {}, text);
  return h("details", { "data-key": `value-${place}`, open },
    h("summary", { class: "mono" }, `${text.slice(0, START_CHARS).replaceAll("\n", " ")} …`), h("pre", {}, shownAs(text, each.value_format)));
}

/** The format of a text that is an encoding of bytes. */
export function form(name) {
  return isEncoded(name) ? [" ", badge(name)] : null;
}

function isEncoded(name) {
  return name === "hex" || name === "base64";
}

export function headers(rows) {
  return h("dl", { class: "pairs" }, rows.map((header) =>
    h("div", {}, h("dt", { class: "mono" }, header.key), h("dd", { class: "mono" }, header.value ?? h("em", {}, "null"), form(header.format)))));
}

export function shownAs(text, format) {
  return format === "string" ? indented(text) ?? text : text;
}
