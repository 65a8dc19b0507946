// What a topic's records are like: how many, how large, which keys, when. All of them are read for it.

import { get, url } from "./api.js";
import { badge, card, field, figure, figures, h, table } from "./dom.js";
import { bytes, count, moment, plural, span } from "./format.js";
import { grid } from "./grid.js";
import { longLook } from "./long-look.js";
import { s } from "./svg.js";
import { actions, parts } from "./topic-parts.js";
import { setQuery } from "./view.js";

const ENDED = { limit: "the limit of records was reached", scanned: "one analysis may read no more records", bytes: "one analysis may read no more bytes", time: "the time limit of an analysis was reached" };

export function open({ topic: name }, query) {
  const narrowed = () => ({ partitions: query.get("partitions"), filter: query.get("filter") });
  const said = (input, label, more = {}, hint) => field(label, h("input", { name: input, value: query.get(input) ?? "", autocomplete: "off", ...more, onchange: (event) => {
    setQuery(query, input, event.target.value.replaceAll(input === "partitions" ? " " : "", ""));
  } }), hint);
  const look = longLook({
    path: () => url(["v1", "topics", name, "analysis"], narrowed()),
    changed: () => view.redraw(),
    said: (progress) => ({ share: progress.share, text: `${Math.floor(100 * progress.share)} %, ${plural(progress.scanned, "record")}, ${bytes(progress.bytes)}` }),
    text: "Analyse",
  });
  const view = {
    title: name,
    actions: actions(name, () => view),
    tools: [parts(name, "analysis"), h("div", { class: "tools" },
      said("partitions", "Partitions", { placeholder: "all", size: 6, pattern: "[0-9, ]*" }),
      said("filter", "Filter", { class: "mono wide", "data-filter": true, placeholder: "value.amount > 100" }))],
    load: (signal) => get(url(["v1", "topics", name]), { signal }),
    draw: (topic) => [
      card(null, h("p", {}, `Reads all records of ${plural(topic.partitions, "partition")} (${inLogs(topic)}). This takes time and network bandwidth of the brokers.`), look.drawn()),
      look.result && drawn(view, query, look.result),
    ],
    cares: () => false,
    close: () => look.end(),
  };
  return view;
}

function inLogs(topic) {
  const known = topic.details.filter((each) => each.latest_offset !== null && each.earliest_offset !== null);
  return plural(known.reduce((sum, each) => sum + each.latest_offset - each.earliest_offset, 0), "offset");
}

function drawn(view, query, found) {
  return [
    found.stopped_by !== "end" && h("p", { class: "banner", "data-key": "stopped" }, `Partial result: ${ENDED[found.stopped_by] ?? found.stopped_by}.`),
    figures(
      figure("Records", count(found.records)), figure("Size, decompressed", bytes(found.bytes)),
      figure("Distinct keys", about(found.distinct_keys, found)), figure("Distinct values", about(found.distinct_values, found)),
      figure("Null keys", count(found.null_keys)), figure("Tombstones", count(found.tombstones)),
      figure("Timestamps out of order", count(found.disordered), found.disordered ? "warn" : ""), figure("Duration", span(found.elapsed_ms))),
    card("Sizes", sizes(found)),
    card("Records per hour", hours(found.hours)),
    card("Partitions", grid(view, query, "Partitions", [
      { title: "Partition", number: true, cell: (each) => each.partition, by: (each) => each.partition },
      { title: "Records", number: true, cell: (each) => count(each.records), by: (each) => each.records },
      { title: "Size", number: true, cell: (each) => h("span", { class: "whole" }, bytes(each.bytes)), by: (each) => each.bytes },
      { title: "Null keys", number: true, cell: (each) => count(each.null_keys), by: (each) => each.null_keys },
      { title: "Tombstones", number: true, cell: (each) => count(each.tombstones), by: (each) => each.tombstones },
      { title: "Out of order", number: true, cell: (each) => (each.disordered ? badge(count(each.disordered), "warn") : "0"), by: (each) => each.disordered },
      { title: "Offsets", cell: (each) => (each.first_offset === null ? "–" : h("span", { class: "whole" }, `${each.first_offset} to ${each.last_offset}`)), by: (each) => each.first_offset },
      { title: "Timestamps", cell: (each) => each.first_timestamp_ms !== null && [h("time", { class: "whole" }, moment(each.first_timestamp_ms)), " to ", h("time", { class: "whole" }, moment(each.last_timestamp_ms))] },
    ], found.partitions, "No partition was read.", { key: (each) => each.partition })),
  ];
}

/** Small numbers are counted, large ones estimated; an estimate is at most the number of records. */
function about(number, { records }) {
  return number > 4096 ? `≈ ${count(Math.min(number, records))}` : count(number);
}

function sizes(found) {
  return table("Sizes", [
    { title: "Field", cell: ([what]) => what },
    { title: "Count", number: true, cell: ([, each]) => count(each.count) },
    ...[["min", "min"], ["p50", "p50"], ["p95", "p95"], ["p99", "p99"], ["max", "max"], ["Mean", "mean"], ["total", "total_bytes"]]
      .map(([title, name]) => ({ title, number: true, cell: ([, each]) => (each.count ? bytes(each[name]) : "–") })),
  ], [["keys", found.keys], ["values", found.values]], "");
}

function hours(rows) {
  if (!rows.length) return h("p", { class: "nothing" }, "No record has a timestamp.");
  const [first, last] = [rows[0].start_ms, rows.at(-1).start_ms];
  const most = Math.max(...rows.map((each) => each.records));
  const width = (last - first) / 3_600_000 + 1;
  const peak = rows.find((each) => each.records === most);
  return [
    s("svg", { class: "hours", viewBox: `0 0 ${width} 100`, preserveAspectRatio: "none", role: "img", "aria-label": `Records per hour: at most ${count(most)}, from ${moment(peak.start_ms)} on` },
      rows.map((each) => s("rect", { x: (each.start_ms - first) / 3_600_000, y: 100 - (100 * each.records) / most, width: 1, height: (100 * each.records) / most }))),
    h("div", { class: "ends quiet" }, h("span", {}, moment(first).slice(0, 16)), h("span", {}, `at most ${count(most)}`), h("span", {}, moment(last).slice(0, 16))),
    h("details", { "data-key": "hours" }, h("summary", {}, "Show as table"), table("Records per hour", [
      { title: "From", cell: (each) => h("time", {}, moment(each.start_ms).slice(0, 16)) },
      { title: "Records", number: true, cell: (each) => count(each.records) },
      { title: "Size", number: true, cell: (each) => bytes(each.bytes) },
    ], [...rows].reverse(), "", { key: (each) => each.start_ms })),
  ];
}
