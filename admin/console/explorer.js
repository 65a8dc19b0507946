// The admin API from its OpenAPI document: search, read and call operations.

import { get, headers, pieces } from "./api.js";
import { badge, button, card, field, h, nothing, select } from "./dom.js";
import { lacking } from "./session.js";
import { bytes, span } from "./format.js";
import { indented } from "./jsontext.js";
import { setQuery } from "./view.js";

const SHOWN_CHARS_MAX = 200_000;
const EVENTS = "text/event-stream";
const ASKS_MS = 60_000;
const EVENTS_MS = 10_000; // maximum reading time of a stream

export function open(values, query) {
  let text = null; // the whole document, of which `draw` shows a part
  const view = {
    title: "API",
    actions: [h("a", { class: "button plain", href: "/docs" }, "Reference on one page"), h("a", { class: "button plain", href: "/openapi.json" }, "openapi.json")],
    tools: h("div", { class: "tools" }, field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("filter") ?? "", placeholder: "part of a path or summary", oninput: (event) => {
      setQuery(query, "filter", event.target.value);
      view.redraw();
    } }))),
    load: async (signal) => (text ??= operationsOf(await get("/openapi.json", { signal }))),
    draw: (operations) => drawn(operations, query.get("filter") ?? ""),
    cares: () => false,
  };
  return view;
}

/** [{method, path, area, ...}], in the order of the description. */
function operationsOf(description) {
  return Object.entries(description.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, told]) => ({
    method: method.toUpperCase(), path, told, schemas: description.components.schemas,
    area: path.startsWith("/v3") ? "Confluent’s REST API" : path.split("/")[2],
  })));
}

function drawn(operations, filter) {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found = operations.filter((each) => words.every((word) => `${each.method} ${each.path} ${each.told.summary}`.toLowerCase().includes(word)));
  if (!found.length) return card(null, nothing("No operation matches."));
  const areas = new Map();
  for (const each of found) areas.set(each.area, [...(areas.get(each.area) ?? []), each]);
  return [...areas].map(([area, rows]) => h("section", { class: "card", "data-key": `area-${area}` }, h("h2", {}, area),
    rows.map(operation)));
}

function operation(each) {
  const key = `${each.method} ${each.path}`;
  const body = h("div", {});
  // Only shown operations are created: there are more than a hundred.
  const fill = (event) => event.currentTarget.open && !body.children.length && body.append(...described(each).flat(Infinity).filter(Boolean));
  return h("details", { "data-key": key, "data-own": "", class: "operation", ontoggle: fill },
    h("summary", {}, badge(each.method, each.method === "GET" ? "good" : "warn"), " ", h("span", { class: "mono path" }, each.path.split("/").flatMap((part, at) => (at ? ["/", h("wbr"), part] : []))),
      " ", h("span", { class: "quiet" }, each.told.summary)), body);
}

function described({ method, path, told, schemas }) {
  const schema = told.requestBody && Object.values(told.requestBody.content)[0].schema;
  const inputs = told.parameters.map((each) => parameter(each));
  const body = schema && h("textarea", { name: "body", class: "mono" });
  if (body) body.value = JSON.stringify(example(schema, schemas), null, 2);
  const answer = h("div", { "aria-live": "polite" });
  const form = h("form", { class: "fields" },
    told.description && h("p", {}, told.description.split("\n\n")[0].replaceAll("\n", " ")),
    h("p", { class: "quiet" }, `Role: ${told["x-role"]}.`, lacking(told["x-role"]) && " Your role does not allow this."),
    inputs.length > 0 && h("div", { class: "grid" }, inputs.map(([shown]) => shown)),
    body && field("Body", body, "JSON; edit this example"),
    h("div", { class: "actions start" }, h("button", { type: "submit", class: method === "GET" ? "" : "danger" }, method === "GET" ? "Call" : `Call (makes changes)`)),
    answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.classList.contains("busy")) return;
    form.classList.add("busy");
    try {
      answer.replaceChildren(...await called(method, path, inputs, body, told));
    } catch (error) {
      answer.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    } finally {
      form.classList.remove("busy");
    }
  });
  return [form];
}

/** Return [the field, {name, in}, its input]. */
function parameter({ name, in: where, required, schema, description }) {
  const input = schema?.enum ? select(name, [["", ""], ...schema.enum.map((each) => [each, each])], "")
    : schema?.type === "boolean" ? select(name, [["", ""], ["true", "true"], ["false", "false"]], "")
      : h("input", { name, autocomplete: "off", class: "mono" });
  input.required = Boolean(required);
  return [field(where === "path" ? `${name} (path)` : where === "header" ? `${name} (header)` : name, input, description), { name, where }, input];
}

/** A value that a schema allows: the example it has, else the least there can be. */
function example(schema, schemas, depth = 0) {
  const known = schema.$ref ? schemas[schema.$ref.split("/").at(-1)] : schema;
  if (known.examples?.length) return known.examples[0];
  if (known.default !== undefined) return known.default;
  if (known.const !== undefined || known.enum) return known.const ?? known.enum[0];
  if (known.anyOf) return example(known.anyOf.find((each) => each.type !== "null") ?? known.anyOf[0], schemas, depth);
  if (known.type === "object" && depth < 4)
    return Object.fromEntries(Object.entries(known.properties ?? {}).filter(([name]) => depth === 0 || (known.required ?? []).includes(name))
      .map(([name, each]) => [name, example(each, schemas, depth + 1)]));
  if (known.type === "array") return depth < 4 && known.minItems ? [example(known.items, schemas, depth + 1)] : [];
  return { string: "", integer: known.minimum ?? 0, number: known.minimum ?? 0, boolean: false }[known.type] ?? null;
}

async function called(method, path, inputs, body, told) {
  const query = new URLSearchParams();
  const sent = {};
  let to = path;
  for (const [, { name, where }, input] of inputs) {
    const value = input.value;
    if (where === "path") to = to.replace(`{${name}}`, encodeURIComponent(value));
    else if (value !== "" && where === "query") query.set(name, value);
    else if (value !== "") sent[name] = value;
  }
  if (body) {
    try {
      JSON.parse(body.value);
    } catch (error) {
      throw new Error(`The body is not JSON: ${error.message}`);
    }
    sent["Content-Type"] = "application/json";
  }
  const text = query.toString();
  const asked = `${to}${text ? `?${text}` : ""}`;
  const streamed = Object.keys(Object.values(told.responses)[0].content ?? {}).includes(EVENTS);
  const began = performance.now();
  const late = AbortSignal.timeout(streamed ? EVENTS_MS : ASKS_MS);
  const answer = await fetch(asked, { method, headers: headers(sent), body: body ? body.value : undefined, signal: late });
  const found = await read(answer);
  return [
    h("p", {}, badge(`${answer.status} ${answer.statusText}`, answer.ok ? "good" : "bad"), " ",
      h("span", { class: "quiet" }, `${span(performance.now() - began)}, ${bytes(found.text.length)}`, answer.headers.get("ETag") && `, ETag ${answer.headers.get("ETag")}`, found.cut && ", truncated")),
    h("pre", { class: "output", tabindex: "0", "aria-label": "Response" }, indented(found.text) ?? (found.text || "no content")),
    h("details", {}, h("summary", {}, "As curl command"), h("pre", {}, command(method, asked, sent, body))),
  ];
}

/** Read a response up to the display limit, and a stream up to the time limit. */
async function read(answer) {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const part of answer.body ? pieces(answer.body) : []) {
      text += decoder.decode(part, { stream: true });
      if (text.length > SHOWN_CHARS_MAX) return { text: text.slice(0, SHOWN_CHARS_MAX), cut: true };
    }
  } catch (error) {
    if (error.name !== "TimeoutError" || !text) throw error;
    return { text, cut: true };
  }
  return { text, cut: false };
}

function command(method, path, sent, body) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const more = Object.entries(sent).map(([name, value]) => ` -H ${quoted(`${name}: ${value}`)}`).join("");
  return `curl -X ${method} ${quoted(location.origin + path)}${more}${body ? ` -d ${quoted(body.value)}` : ""}`;
}
