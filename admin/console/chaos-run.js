// One run of a scenario: what it prints, as it prints it, and what the checker says of it in the end.

import { get, remove, url } from "./api.js";
import { follow, STATES } from "./chaos-live.js";
import { act, badge, button, card, figure, figures, h, nothing, table } from "./dom.js";
import { count, moment, plural } from "./format.js";

const OUTPUT_MS = 250;
const LINES_MAX = 2000;

export function open({ run: id }) {
  const path = url(["v1", "chaos", "scenarios", id]);
  const ends = new AbortController();
  let known = null; // the run, and what it has printed since it was loaded
  let waiting = null;
  const stop = button("End it now", (event) => act(event.currentTarget, async () => {
    await remove(path);
    view.look();
  }), { kind: "danger", hidden: true });

  const view = {
    title: `Run ${id}`,
    actions: [h("a", { class: "button plain", href: "#/chaos" }, "Chaos lab"), stop],
    load: async (signal) => (known = await get(path, { signal })),
    draw(run) {
      stop.hidden = run.state !== "running";
      return [
        figures(
          figure("Scenario", run.scenario, "small"), figure("Seed", run.seed),
          figure("State", run.state, STATES[run.state] === "bad" ? "bad" : ""), figure("Begun", moment(run.began_ms), "small")),
        Object.entries(run.verdicts).map(([name, verdict]) => card(null, judged(name, verdict))),
        card("Output", output(run)),
        h("p", { class: "quiet" }, "Histories, logs and reports: ", h("code", {}, run.folder)),
      ];
    },
    cares: (event) => event.kind === "reconnected",
    close() {
      ends.abort();
      clearTimeout(waiting);
    },
  };
  follow(() => {}, heard, ends.signal);

  function heard(kind, data) {
    if (String(data.id) !== id || known === null) return;
    if (kind === "scenario" && data.state !== known.state) view.stir();
    if (kind !== "output") return;
    if (data.number <= known.lines) return; // it was there already when the run was loaded
    if (data.number > known.lines + 1) {
      view.stir(); // something was missed
      return;
    }
    // A line comes with its event: the whole run is not asked for again for each of them.
    known.lines = data.number;
    known.output = [...known.output.slice(1 - LINES_MAX), data.line];
    waiting ??= setTimeout(() => {
      waiting = null;
      view.redraw();
    }, OUTPUT_MS);
  }
  return view;
}

/** Who has scrolled to the end sees what comes; who reads further up is left there. */
function output(run) {
  if (!run.output.length) return nothing("It has not printed anything yet.");
  return [
    run.lines > run.output.length && h("p", { class: "quiet" }, `The last ${count(run.output.length)} of ${count(run.lines)} lines.`),
    h("pre", { class: "output", tabindex: "0", "aria-label": "Output", "data-key": "output", "data-follow": "" }, run.output.join("\n")),
  ];
}

function judged(name, verdict) {
  if (verdict.error) return [h("h2", {}, name, " ", badge("not judged", "bad")), h("pre", {}, verdict.error)];
  const { figures: found } = verdict;
  return [
    h("h2", {}, name, " ", verdict.valid ? badge("all promises held", "good") : badge(plural(verdict.violations.length, "broken promise"), "bad")),
    figures(
      figure("Acknowledged", count(found.acked)), figure("Lost", count(found.lost), found.lost > found.lost_legally ? "bad" : ""),
      figure("Twice", count(found.duplicated)), figure("Out of order", count(found.reordered)),
      figure("Longest gap", `${found.longest_gap.toFixed(1)} s`)),
    verdict.violations.map((each) => h("section", {},
      h("h3", {}, badge(each.anomaly, "bad"), " ", each.partition ?? "", ` × ${count(each.count)}`), h("p", {}, each.reason),
      h("ol", {}, each.story.map((sentence) => h("li", {}, sentence))))),
    found.faults?.length > 0 && table("Faults", [
      { title: "Fault", cell: (fault) => badge(fault.fault, "warn") },
      { title: "Of", cell: (fault) => fault.targets.join(", ") },
      { title: "From", number: true, cell: (fault) => `${fault.begin.toFixed(1)} s` },
      { title: "To", number: true, cell: (fault) => (fault.end === null ? "–" : `${fault.end.toFixed(1)} s`) },
      { title: "First acknowledged", number: true, cell: (fault) => (fault.first_ack === null ? "–" : `after ${fault.first_ack.toFixed(2)} s`) },
      { title: "Unavailable", number: true, cell: (fault) => `${fault.unavailable.toFixed(1)} s` },
    ], found.faults, ""),
  ];
}
