// Records as people read them: a key, a value, headers, and what they are written in.

import { badge, h, link } from "./dom.js";
import { bytes, moment, plural } from "./format.js";
import { indented } from "./jsontext.js";

const LINE_CHARS_MAX = 200;
const START_CHARS = 160;
/** How bytes may be shown. As it looks: text, with JSON put in lines; what is no text in base64. */
export const FORMS = [["text", "automatic"], ["string", "text"], ["hex", "hexadecimal"], ["base64", "base64"]];

/** Say what to ask the API for: what an older address may still have is shown as it looks. */
export function formOf(said) {
  return FORMS.some(([form]) => form === said) ? said : "text";
}

export function placeOf(topic, each) {
  return `#/topics/${encodeURIComponent(topic)}/records/${each.partition}/${each.offset}`;
}

/** A record in a list. */
export function record(topic, each, unfolded = () => false) {
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
  const line = each.value;
  if (line.length < LINE_CHARS_MAX && !line.includes("\n")) return h("pre", {}, line);
  return h("details", { "data-key": `value-${place}`, open },
    h("summary", { class: "mono" }, `${line.slice(0, START_CHARS).replaceAll("\n", " ")} …`), h("pre", {}, shownAs(line, each.value_format)));
}

/** What a text is written in, where it is not the text itself: two that look alike may be different bytes. */
export function form(name) {
  return name === "hex" || name === "base64" ? [" ", badge(name)] : null;
}

export function headers(rows) {
  return h("dl", { class: "pairs" }, rows.map((header) =>
    h("div", {}, h("dt", { class: "mono" }, header.key), h("dd", { class: "mono" }, header.value ?? h("em", {}, "no value"), form(header.format)))));
}

export function shownAs(text, format) {
  return format === "string" ? indented(text) ?? text : text;
}
