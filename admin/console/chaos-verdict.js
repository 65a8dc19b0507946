// The checker's verdict on one cell of a run: figures, the chart, and each violation with its story.

import { badge, figure, figures, h } from "./dom.js";
import { count, plural } from "./format.js";
import { grid } from "./grid.js";
import { at, faultSaid, inForce, timeline } from "./chaos-timeline.js";

/** Draw it; `shown` and `show` as of the chart. */
export function judged(view, query, name, verdict, shown, show) {
  if (verdict.error) return [h("h2", {}, name, " ", badge("not checked", "bad")), h("pre", {}, verdict.error)];
  const { figures: found, violations } = verdict;
  const faults = found.faults ?? [];
  const explained = verdict.explained ?? [];
  const section = (kind, each, place) => finding(name, kind, each, place, faults, shown);
  return [
    h("h2", {}, name, " ", verdict.valid ? badge("no violations", "good") : badge(plural(violations.length, "violation"), "bad")),
    figures(
      figure("Acknowledged", count(found.acked)), figure("Lost", count(found.lost), found.lost > found.lost_legally ? "bad" : ""),
      figure("Duplicated", count(found.duplicated)), figure("Out of order", count(found.reordered)),
      figure("Longest availability gap", at(found.longest_gap)), found.duration !== undefined && figure("Duration", at(found.duration))),
    timeline(view, query, name, verdict, shown, show),
    violations.map((each, place) => section("violation", each, place)),
    explained.length > 0 && h("details", { "data-key": "legal" }, h("summary", {}, `${plural(explained.length, "anomaly", "anomalies")} allowed under these faults`),
      explained.map((each, place) => section("legal", each, place))),
    found.not_judged?.length > 0 && h("details", { "data-key": "not-judged" }, h("summary", {}, "Not checked in this run"), h("ul", {}, found.not_judged.map((each) => h("li", {}, each)))),
    faults.length > 0 && [h("h3", {}, "Impact of each fault"), costs(view, query, name, faults)],
  ];
}

/** The id of a finding on the page. */
export function keyOf(name, kind, place) {
  return `finding-${name}-${kind}-${place}`;
}

function finding(name, kind, each, place, faults, shown) {
  const chosen = shown?.[0] === kind && shown[1] === place;
  const then = each.t === undefined ? [] : inForce(faults, each.t);
  return h("section", { class: chosen ? "finding chosen" : "finding", tabindex: "-1", "data-key": keyOf(name, kind, place) },
    h("h3", {}, badge(each.anomaly, kind === "legal" ? "" : "bad"), " ", each.partition ?? "", ` × ${count(each.count)}`,
      each.t !== undefined && h("small", {}, ` at ${at(each.t)}`)),
    h("p", {}, each.reason),
    then.length > 0 && h("p", { class: "quiet" }, "Faults at that time: ", then.map(faultSaid).join("; "), "."),
    h("ol", {}, each.story.map((sentence) => h("li", {}, sentence))));
}

function costs(view, query, name, faults) {
  return grid(view, query, "Faults", [
    { title: "Fault", cell: (fault) => [badge(fault.fault, "warn"), fault.lossy && [" ", badge("loses data", "bad")]], by: (fault) => fault.fault },
    { title: "Target", cell: (fault) => fault.targets.join(", "), by: (fault) => fault.targets.join() },
    { title: "From", number: true, cell: (fault) => at(fault.begin), by: (fault) => fault.begin },
    { title: "To", number: true, cell: (fault) => (fault.end === null ? "–" : at(fault.end)), by: (fault) => fault.end },
    { title: "First acknowledged write", number: true, cell: (fault) => (fault.first_ack === null ? "–" : `after ${fault.first_ack.toFixed(2)} s`), by: (fault) => fault.first_ack },
    { title: "Unavailable", number: true, cell: (fault) => [at(fault.unavailable), fault.unavailable_partition && h("small", {}, ` ${fault.unavailable_partition}`)], by: (fault) => fault.unavailable },
  ], faults, "", { name: `${name}-faults-` });
}
