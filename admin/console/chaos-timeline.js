// A run on a timeline: faults, results of operations, violations.

import { badge, h } from "./dom.js";
import { count, plural } from "./format.js";
import { grid } from "./grid.js";
import { s } from "./svg.js";

const TICKS = 4;
const SPOKEN_MAX = 20;
/** Marks that are closer than this share of the line would lie on each other: they are one, with their number. */
const [TOGETHER, TOGETHER_NARROW] = [0.04, 0.09];
const NARROW = matchMedia("(max-width: 720px)");
/** Up to this number, the begins of faults are drawn through the other lanes; more would hide their content. */
const EDGES_MAX = 24;
const DIAMOND = "M0 -8 L8 0 L0 8 L-8 0 Z";
const ENDS = [["ok", "acknowledged"], ["fail", "refused"], ["info", "unknown result"]];

/** Seconds as a time of the run. */
export function at(seconds) {
  return `${seconds.toFixed(seconds < 100 ? 1 : 0)} s`;
}

/** What was broken at a moment: faults as the checker has them. */
export function inForce(faults, t) {
  return faults.filter((fault) => fault.begin <= t && (fault.end === null || t <= fault.end));
}

/**
 * The chart of one cell, and the same as a table. `shown`: the selected finding, as [kind, place]; `show(kind, place)`
 * selects one.
 */
export function timeline(view, query, name, verdict, shown, show) {
  const run = read(verdict);
  const bands = (kind = "band") => (kind === "edges" && run.faults.length > EDGES_MAX ? [] : run.faults.map((fault) => bar(run, fault, kind)));
  return [
    h("div", { class: "lanes", role: "group", "aria-label": `${name} over time`, "data-key": "lanes" },
      kindsOf(run.faults).map(([kind, faults]) => lane(kind, plural(faults.length, "fault"), faults.map((fault) => bar(run, fault, fault.lossy ? "fault lossy" : "fault")), "", drawing(spoken(faults)))),
      run.pace && lane("Operations", paceSaid(run.pace), [bands(), areas(run), bands("edges")], "tall", drawing(paceSaid(run.pace))),
      lane("Violations", run.violations.length ? null : "none", [bands(), marks(run, run.violations, "violation", shown, show)], "wide-lane"),
      run.explained.length > 0 && lane("Allowed anomalies", null, [bands(), marks(run, run.explained, "legal", shown, show)], "wide-lane"),
      h("div", { class: "lane ticks quiet", "aria-hidden": "true" }, h("span"),
        h("div", {}, Array.from({ length: TICKS + 1 }, (_, tick) => h("span", {}, at((run.end * tick) / TICKS)))))),
    legend(run),
    h("details", { "data-key": "as-table" }, h("summary", {}, "Show as table"), asTable(view, query, name, run)),
  ];
}

function read(verdict) {
  const { figures } = verdict;
  const [faults, violations, explained, pace] = [figures.faults ?? [], verdict.violations, verdict.explained ?? [], figures.pace ?? null];
  const times = [...faults.flatMap((fault) => [fault.begin, fault.end ?? 0]), ...[...violations, ...explained].map((each) => each.t ?? 0)];
  return { faults, violations, explained, pace, end: Math.max(figures.duration ?? 0, ...times, 0.1) };
}

function kindsOf(faults) {
  const found = new Map();
  for (const fault of faults) found.set(fault.fault, [...(found.get(fault.fault) ?? []), fault]);
  return [...found];
}

function percent(run, seconds) {
  return `${((100 * seconds) / run.end).toFixed(3)}%`;
}

/** For assistive technology a chart without links is one image, and one with links a group. */
function drawing(text) {
  return { role: "img", "aria-label": text };
}

function spoken(faults) {
  const more = faults.length - SPOKEN_MAX;
  return faults.slice(0, SPOKEN_MAX).map(faultSaid).join("; ") + (more > 0 ? `; and ${count(more)} more` : "");
}

function lane(title, said, drawn, kind = "", told = { role: "group", "aria-label": title }) {
  const lines = Array.from({ length: TICKS + 1 }, (_, tick) => s("line", { x1: `${(100 * tick) / TICKS}%`, x2: `${(100 * tick) / TICKS}%`, y1: 0, y2: "100%", class: "tick" }));
  return h("div", { class: `lane ${kind}`, "data-key": `lane-${title}` },
    h("span", { class: "title" }, title, said && h("small", {}, ` ${said}`)), s("svg", told, lines, drawn));
}

/** A fault that was done at once has a width all the same. */
function bar(run, fault, kind) {
  const end = fault.end ?? run.end;
  const [begin, width] = [percent(run, fault.begin), percent(run, Math.max(0, end - fault.begin))];
  return s("g", {}, kind !== "edges" && s("rect", { x: begin, width, height: "100%", class: kind }), (kind !== "band" || run.faults.length <= EDGES_MAX) && s("line", { x1: begin, x2: begin, y2: "100%", class: `${kind} edge` }),
    kind.startsWith("fault") && s("title", {}, faultSaid(fault)));
}

export function faultSaid(fault) {
  const until = fault.end === null ? "to the end" : `to ${at(fault.end)}`;
  return `${fault.fault} of ${fault.targets.join(", ") || "the cluster"}, ${at(fault.begin)} ${until}`;
}

/** How operations ended, in each bucket: one area upon the other. */
function areas(run) {
  const { pace } = run;
  const most = Math.max(1, ...pace.ok.map((ok, bucket) => ok + pace.fail[bucket] + pace.info[bucket]));
  const width = run.end / pace.width;
  const floor = pace.ok.map(() => 0);
  return s("svg", { viewBox: `0 0 ${width} ${most}`, width: "100%", height: "100%", preserveAspectRatio: "none" }, ENDS.map(([end]) => {
    const path = pace[end].map((number, bucket) => {
      const low = floor[bucket];
      floor[bucket] += number;
      return number ? `M${bucket} ${most - low}V${most - floor[bucket]}H${bucket + 1}V${most - low}Z` : "";
    });
    return s("path", { d: path.join(""), class: `end-${end}` });
  }));
}

function paceSaid(pace) {
  const most = Math.max(...pace.ok, 0) / pace.width;
  return `up to ${count(Math.round(most))} acknowledged per second`;
}

/** Findings as marks that link to their text; close ones share a mark, which links to the first. */
function marks(run, found, kind, shown, show) {
  const groups = [];
  const apart = (NARROW.matches ? TOGETHER_NARROW : TOGETHER) * run.end;
  const placed = found.map((each, place) => ({ each, place, t: each.t ?? 0 })).sort((one, other) => one.t - other.t);
  for (const one of placed) {
    const last = groups.at(-1);
    if (last && one.t - last[0].t < apart) last.push(one);
    else groups.push([one]);
  }
  return groups.map((group) => {
    const { each, place, t } = group.find((one) => shown?.[0] === kind && shown[1] === one.place) ?? group[0];
    const chosen = shown?.[0] === kind && shown[1] === place;
    const next = group[(group.findIndex((one) => one.place === place) + (chosen ? 1 : 0)) % group.length].place;
    const more = group.length > 1 ? `, and ${count(group.length - 1)} more at about the same time` : "";
    return s("svg", { x: percent(run, group[0].t), y: "50%", class: "free", overflow: "visible" },
      s("a", { href: `#${where(kind, place)}`, class: `mark ${kind}${chosen ? " chosen" : ""}`, "data-key": `mark-${kind}-${group[0].place}`,
        "aria-label": `${each.anomaly}${each.partition ? ` in ${each.partition}` : ""} at ${at(t)}${more}`,
        onclick: (event) => {
          event.preventDefault();
          show(kind, next);
        } },
      s("circle", { r: 13, class: "hit" }), s("path", { d: DIAMOND }),
      group.length > 1 && s("text", { x: 11, y: 4 }, count(group.length)), s("title", {}, `${each.anomaly} ${each.partition ?? ""} at ${at(t)}${more}`)));
  });

  function where(of, place) {
    const path = location.hash.slice(1).split("?")[0];
    const said = new URLSearchParams(location.hash.split("?")[1] ?? "");
    for (const each of ["violation", "legal"]) said.delete(each);
    said.set(of, place);
    return `${path}?${said}`;
  }
}

function legend(run) {
  const parts = [
    run.faults.length > 0 && ["a fault", "fault"], run.faults.some((fault) => fault.lossy) && ["a fault that loses data", "fault lossy"],
    ...(run.pace ? ENDS.filter(([end]) => run.pace[end].some(Boolean)).map(([end, text]) => [text, `end-${end}`]) : []),
  ].filter(Boolean);
  return parts.length > 0 && h("ul", { class: "steps legend" }, parts.map(([text, kind]) => h("li", {}, h("span", { class: `swatch ${kind}` }), " ", text)));
}

/** The events in time order: each fault's begin and end, each finding, and the faults active at that time. */
function asTable(view, query, name, run) {
  const rows = [
    ...run.faults.flatMap((fault) => [
      { t: fault.begin, what: badge("fault starts", "warn"), text: `${fault.fault} of ${fault.targets.join(", ") || "the cluster"}` },
      fault.end !== null && { t: fault.end, what: badge("fault ends"), text: `${fault.fault} of ${fault.targets.join(", ") || "the cluster"}` },
    ]),
    ...run.violations.map((each) => ({ t: each.t ?? 0, what: badge("violation", "bad"), text: `${each.anomaly} ${each.partition ?? ""}`, broken: true })),
    ...run.explained.map((each) => ({ t: each.t ?? 0, what: badge("allowed"), text: `${each.anomaly} ${each.partition ?? ""}`, broken: true })),
  ].filter(Boolean).sort((one, other) => one.t - other.t);
  const ended = (t, end) => {
    const bucket = Math.min(run.pace.ok.length - 1, Math.floor(t / run.pace.width));
    return bucket < 0 ? 0 : Math.round(run.pace[end][bucket] / run.pace.width);
  };
  return grid(view, query, "Timeline", [
    { title: "Time", number: true, cell: (row) => at(row.t) },
    { title: "Event", cell: (row) => row.what },
    { title: "Details", cell: (row) => row.text },
    { title: "Faults at that time", cell: (row) => (row.broken ? inForce(run.faults, row.t).map((fault) => `${fault.fault} of ${fault.targets.join(", ")}`).join("; ") || "none" : "–") },
    run.pace && { title: "Acknowledged per second", number: true, cell: (row) => count(ended(row.t, "ok")) },
  ].filter(Boolean), rows, "No events.", { name: `${name}-` });
}
