// One run of a scenario: its output, live, and the checker's verdict.

import { get, remove, url } from "./api.js";
import { follow, STATES } from "./chaos-live.js";
import { judged, keyOf } from "./chaos-verdict.js";
import { act, button, card, figure, figures, h, nothing } from "./dom.js";
import { count, moment } from "./format.js";
import { step } from "./view.js";

const OUTPUT_MS = 250;
const LINES_MAX = 2000;

const KINDS = ["violation", "legal"];

export function open({ run: id }, query) {
  const path = url(["v1", "chaos", "scenarios", id]);
  const ends = new AbortController();
  let known = null; // the run, and its output since it was loaded
  let waiting = null;
  const stop = button("Stop", (event) => act(event.currentTarget, async () => {
    await remove(path);
    view.look();
  }), { kind: "danger", hidden: true });

  const view = {
    title: `Run ${id}`,
    actions: [h("a", { class: "button plain", href: "#/chaos" }, "Chaos lab"), stop],
    async load(signal) {
      const first = known === null;
      known = await get(path, { signal });
      if (first) requestAnimationFrame(reveal);
      return known;
    },
    draw(run) {
      stop.hidden = run.state !== "running";
      return [
        figures(
          figure("Scenario", run.scenario, "small"), figure("Seed", run.seed),
          figure("State", run.state, STATES[run.state] === "bad" ? "bad" : ""), figure("Started", moment(run.began_ms), "small")),
        run.state === "running" && h("p", { class: "quiet" }, "The verdict of the checker and the timeline of faults appear when the run ends."),
        Object.entries(run.verdicts).map(([name, verdict]) => card(null, judged(view, query, name, verdict, shown(name), (kind, place) => show(name, kind, place)))),
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

  /** Which finding the address is about, where that is in this cell: [kind, place]. */
  function shown(cell) {
    const kind = KINDS.find((each) => query.has(each));
    return kind && query.get("cell") === cell ? [kind, Number(query.get(kind))] : null;
  }

  function show(cell, kind, place) {
    step(query, { cell, violation: null, legal: null, [kind]: String(place) });
    view.redraw();
    reveal();
  }

  /** Scroll to the finding in the address. */
  function reveal() {
    const cell = query.get("cell");
    const found = cell !== null && shown(cell);
    const section = found && document.querySelector(`[data-key="${CSS.escape(keyOf(cell, ...found))}"]`);
    if (!section) return;
    for (let folded = section.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
    section.focus({ preventScroll: true });
    section.scrollIntoView({ block: "nearest" });
  }

  function heard(kind, data) {
    if (String(data.id) !== id || known === null) return;
    if (kind === "scenario" && data.state !== known.state) view.stir();
    if (kind !== "output") return;
    if (data.number <= known.lines) return; // it was there already when the run was loaded
    if (data.number > known.lines + 1) {
      view.stir(); // something was missed
      return;
    }
    // A line is in its event, so the whole run is not requested again.
    known.lines = data.number;
    known.output = [...known.output.slice(1 - LINES_MAX), data.line];
    waiting ??= setTimeout(() => {
      waiting = null;
      view.redraw();
    }, OUTPUT_MS);
  }
  return view;
}

/** If scrolled to the end, follow new lines; else keep the position. */
function output(run) {
  if (!run.output.length) return nothing("No output yet.");
  return [
    run.lines > run.output.length && h("p", { class: "quiet" }, `The last ${count(run.output.length)} of ${count(run.lines)} lines.`),
    h("pre", { class: "output", tabindex: "0", "aria-label": "Output", "data-key": "output", "data-follow": "" }, run.output.join("\n")),
  ];
}
