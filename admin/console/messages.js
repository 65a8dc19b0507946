// Records of a topic: from an offset, a moment or the end; narrowed by an expression; told live; written by hand.

import { get, listen, post, url } from "./api.js";
import { ask, badge, card, field, h, note, nothing, select } from "./dom.js";
import { bytes, count, moment, plural } from "./format.js";
import { setQuery } from "./view.js";

const SHOWN_MAX = 500;
const FROM = [["tail", "the newest"], ["earliest", "the oldest"], ["offset", "an offset"], ["timestamp", "a moment"]];
const DECODERS = [["auto", "as it looks"], ["string", "text"], ["json", "JSON"], ["hex", "hexadecimal"], ["base64", "base64"]];
const STOPPED = {
  limit: "There may be more: the limit is reached.",
  scanned: "Stopped after as many records as one search may look at; narrow it, or begin further on.",
  bytes: "Stopped after as many bytes as one search may read; narrow it, or begin further on.",
  time: "Stopped after as long as one search may take; narrow it, or begin further on.",
  end: "These are all.",
};

export function open({ topic: name }, query) {
  const path = (...more) => ["v1", "topics", name, "messages", ...more];
  const form = searchForm(query, () => {
    stop();
    view.look();
  });
  let tail = null;
  const live = h("ol", { class: "records", "aria-live": "off" });
  const liveButton = h("button", { type: "button", class: "plain", onclick: () => (tail ? stop() : watch()) }, "Watch new ones");

  const view = {
    title: `${name} · messages`,
    actions: [
      h("a", { class: "button plain", href: `#/topics/${encodeURIComponent(name)}` }, "Topic"),
      liveButton,
      h("button", { type: "button", onclick: () => produce() }, "Write a record"),
    ],
    tools: [form, live],
    load: (signal) => get(url(path(), asked(query)), { signal }),
    draw: (page) => [
      card(null,
        page.messages.length ? h("ol", { class: "records" }, newestFirst(page.messages).map(record)) : nothing("No record matches."),
        h("p", { class: "quiet" }, `${count(page.messages.length)} shown, ${count(page.scanned)} looked at. `, STOPPED[page.stopped_by] ?? page.stopped_by)),
    ],
    // Records come and go without an event: what was asked for stays on the screen until it is asked for anew.
    cares: () => false,
    close: stop,
  };

  async function watch() {
    tail = new AbortController();
    liveButton.textContent = "Stop watching";
    try {
      await listen(url(path("stream"), chosen(query)), (kind, data) => {
        if (kind === "error") note(data.message ?? data.error, "bad");
        if (kind !== "message") return;
        live.prepend(record(data));
        while (live.children.length > SHOWN_MAX) live.lastChild.remove();
      }, tail.signal);
    } catch (error) {
      if (error.name !== "AbortError") note(error.message, "bad");
    }
    stop();
  }

  function stop() {
    tail?.abort();
    tail = null;
    liveButton.textContent = "Watch new ones";
  }

  function produce() {
    ask({
      title: `Write to ${name}`,
      content: [
        field("Key", h("input", { name: "key", autocomplete: "off" }), "empty: none"),
        field("Value", h("textarea", { name: "value" })),
        h("label", { class: "check" }, h("input", { type: "checkbox", name: "tombstone" }), "no value (a tombstone)"),
        field("Headers", h("textarea", { name: "headers", placeholder: "name=value" }), "one a line"),
        field("Partition", h("input", { name: "partition", type: "number", min: 0, placeholder: "by the key" })),
      ],
      action: "Write",
      async submit(data) {
        const headers = data.get("headers").split("\n").filter(Boolean).map((line) => {
          const at = line.indexOf("=");
          if (at < 1) throw new Error(`“${line}” is not name=value.`);
          return { key: line.slice(0, at), value: line.slice(at + 1) };
        });
        const made = await post(url(path()), { records: [{
          key: data.get("key") || null, value: data.get("tombstone") ? null : data.get("value"), headers,
          partition: data.get("partition") === "" ? null : Number(data.get("partition")),
        }] });
        const [result] = made.records;
        if (result.error) throw new Error(result.message || result.error);
        note(`Written to ${name}-${result.partition} at offset ${count(result.offset)}.`);
        view.look();
      },
    });
  }
  return view;
}

/** The API's query for what the page's own asks. */
function asked(query) {
  const from = query.get("from") ?? "tail";
  const limit = query.get("limit") ?? "50";
  const begin = {
    tail: () => ({ tail: limit }),
    earliest: () => ({ from: "earliest" }),
    offset: () => ({ offset: query.get("at") || "0" }),
    timestamp: () => ({ timestamp_ms: new Date(query.get("at") || Date.now()).getTime() }),
  }[from]();
  return { ...begin, limit, isolation: query.get("isolation"), ...chosen(query) };
}

function chosen(query) {
  return { partitions: query.get("partitions"), filter: query.get("filter"), key_format: query.get("key"), value_format: query.get("value") };
}

function searchForm(query, search) {
  const at = h("input", { name: "at", value: query.get("at") ?? "", "aria-label": "Offset or moment" });
  const from = select("from", FROM, query.get("from") ?? "tail");
  const fit = () => {
    at.hidden = !["offset", "timestamp"].includes(from.value);
    at.type = from.value === "timestamp" ? "datetime-local" : "number";
    at.step = from.value === "timestamp" ? "1" : "";
  };
  from.addEventListener("change", () => {
    at.value = "";
    fit();
  });
  fit();
  const form = h("form", { class: "tools", role: "search" },
    field("From", h("span", { class: "tools tight" }, from, at)),
    field("Partitions", h("input", { name: "partitions", value: query.get("partitions") ?? "", placeholder: "all", size: 6, pattern: "[0-9, ]*" })),
    field("At most", select("limit", ["20", "50", "100", "500"].map((each) => [each, each]), query.get("limit") ?? "50")),
    field("Filter", h("input", { name: "filter", "data-filter": true, class: "mono wide", value: query.get("filter") ?? "", placeholder: 'value.amount > 100 && key ~ "^a"' })),
    field("Keys", select("key", DECODERS, query.get("key") ?? "auto")),
    field("Values", select("value", DECODERS, query.get("value") ?? "auto")),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "isolation", value: "read_committed", checked: query.get("isolation") === "read_committed" }), "committed only"),
    h("button", { type: "submit" }, "Search"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = new FormData(form);
    for (const name of ["from", "at", "partitions", "limit", "filter", "key", "value", "isolation"]) setQuery(query, name, (data.get(name) ?? "").trim());
    search();
  });
  return form;
}

function record(each) {
  const place = `${each.partition}-${each.offset}`;
  return h("li", { class: "record" },
    h("div", { class: "where quiet mono" }, `${each.partition}:${each.offset}`, h("br"), h("time", {}, moment(each.timestamp_ms))),
    h("div", {},
      h("div", { class: "steps" },
        each.key_bytes !== null && h("span", {}, badge("key"), " ", h("code", {}, shownAs(each.key))),
        h("small", {}, bytes((each.key_bytes ?? 0) + (each.value_bytes ?? 0)))),
      each.value_bytes === null ? badge("tombstone", "warn") : content(each, place),
      each.headers.length > 0 && h("details", { "data-key": `headers-${place}` },
        h("summary", { class: "quiet" }, plural(each.headers.length, "header")),
        h("pre", {}, each.headers.map((header) => `${header.key}: ${header.value ?? "(none)"}`).join("\n")))));
}

function content(each, place) {
  const line = typeof each.value === "string" ? each.value : JSON.stringify(each.value);
  if (line.length < 200 && !line.includes("\n")) return h("pre", {}, line);
  return h("details", { "data-key": `value-${place}` },
    h("summary", { class: "mono" }, `${line.slice(0, 160).replaceAll("\n", " ")} …`), h("pre", {}, shownAs(each.value)));
}

function newestFirst(messages) {
  return [...messages].sort((one, other) => other.timestamp_ms - one.timestamp_ms || other.offset - one.offset);
}

function shownAs(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
