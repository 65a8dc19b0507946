// One run of a scenario: what it prints, as it prints it, and what the checker says of it in the end.

import { get, remove } from "./api.js";
import { follow, STATES } from "./chaos-live.js";
import { badge, card, figure, h, note, nothing, table } from "./dom.js";
import { count, moment } from "./format.js";

const OUTPUT_MS = 250;

export function open({ run: id }) {
  const ends = new AbortController();
  let waiting = null;
  let following = false;
  const stop = h("button", { type: "button", class: "danger", hidden: true, onclick: async () => {
    stop.disabled = true;
    try {
      await remove(`/v1/chaos/scenarios/${id}`);
      view.look();
    } catch (error) {
      note(error.message, "bad");
    } finally {
      stop.disabled = false;
    }
  } }, "End it now");

  const view = {
    title: `Run ${id}`,
    actions: [h("a", { class: "button plain", href: "#/chaos" }, "Chaos lab"), stop],
    async load(signal) {
      const run = await get(`/v1/chaos/scenarios/${encodeURIComponent(id)}`, { signal });
      if (!following) follow(() => {}, heard, ends.signal);
      following = true;
      return run;
    },
    draw(run) {
      stop.hidden = run.state !== "running";
      const verdicts = Object.entries(run.verdicts);
      return [
        h("dl", { class: "figures" },
          figure("Scenario", run.scenario, "small"), figure("Seed", run.seed),
          figure("State", run.state, STATES[run.state] === "bad" ? "bad" : ""), figure("Begun", moment(run.began_ms), "small")),
        ...verdicts.map(([name, verdict]) => card(null, judged(name, verdict))),
        card("Output", run.output.length
          ? [run.lines > run.output.length && h("p", { class: "quiet" }, `The last ${count(run.output.length)} of ${count(run.lines)} lines.`), h("pre", { class: "output", tabindex: "0", "aria-label": "Output" }, run.output.join("\n"))]
          : nothing("It has not printed anything yet.")),
        h("p", { class: "quiet" }, "Histories, logs and reports: ", h("code", {}, run.folder)),
      ];
    },
    cares: () => false,
    close() {
      ends.abort();
      clearTimeout(waiting);
    },
  };

  function heard(kind, data) {
    if ((kind !== "scenario" && kind !== "output") || String(data.id) !== id) return;
    waiting ??= setTimeout(() => {
      waiting = null;
      view.look();
    }, OUTPUT_MS);
  }
  return view;
}

function judged(name, verdict) {
  if (verdict.error) return [h("h2", {}, name, " ", badge("not judged", "bad")), h("pre", {}, verdict.error)];
  const { figures } = verdict;
  return [
    h("h2", {}, name, " ", verdict.valid ? badge("all promises held", "good") : badge(`${count(verdict.violations.length)} broken promises`, "bad")),
    h("dl", { class: "figures" },
      figure("Acknowledged", count(figures.acked)), figure("Lost", count(figures.lost), figures.lost > figures.lost_legally ? "bad" : ""),
      figure("Twice", count(figures.duplicated)), figure("Out of order", count(figures.reordered)),
      figure("Longest gap", `${figures.longest_gap.toFixed(1)} s`)),
    verdict.violations.map((each) => h("section", {},
      h("h3", {}, badge(each.anomaly, "bad"), " ", each.partition ?? "", ` × ${count(each.count)}`), h("p", {}, each.reason),
      h("ol", {}, each.story.map((sentence) => h("li", {}, sentence))))),
    figures.faults?.length > 0 && table("Faults", [
      { title: "Fault", cell: (fault) => badge(fault.fault, "warn") },
      { title: "Of", cell: (fault) => fault.targets.join(", ") },
      { title: "From", number: true, cell: (fault) => `${fault.begin.toFixed(1)} s` },
      { title: "To", number: true, cell: (fault) => (fault.end === null ? "–" : `${fault.end.toFixed(1)} s`) },
      { title: "First acknowledged", number: true, cell: (fault) => (fault.first_ack === null ? "–" : `after ${fault.first_ack.toFixed(2)} s`) },
      { title: "Unavailable", number: true, cell: (fault) => `${fault.unavailable.toFixed(1)} s` },
    ], figures.faults, ""),
  ];
}
