// The metadata quorum: the active controller, the lag of the others, and both over time.

import { get } from "./api.js";
import { act, badge, button, card, figure, figures, h, link, nothing, table } from "./dom.js";
import { aboutBrokers, told } from "./events.js";
import { ago, clock, count, moment, plural } from "./format.js";
import { recent } from "./live.js";
import { writeSnapshot } from "./process.js";
import { addVoter, removeVoter } from "./quorum-voters.js";
import { hear } from "./streams.js";
import { s } from "./svg.js";

const KEPT = 900;
const EPOCHS_SHOWN = 20;
const CHANGES_SHOWN = 50;
// While the page was closed there are no samples: the interval stays empty.
const UNSEEN_MS = 15_000;
const WIDTH = 1000;
const COLOURS = 6;

// Samples are kept while other pages are open, to avoid gaps in the timeline.
let samples = [];
const leaders = new Map();

export function open() {
  const ends = new AbortController();
  let known = null; // { quorum, epochs } of the last load
  let last = null; // the newest of loaded and sampled data
  const view = {
    title: "Quorum",
    actions: [
      h("a", { class: "button plain", href: "#/metadata" }, "Metadata"),
      button("Write snapshot now", (event) => act(event.currentTarget, () => writeSnapshot()), { needs: "operate", key: "snapshot", title: "The active controller writes a snapshot of the metadata" }),
      button("Add a voter …", () => addVoter(known?.quorum?.observers ?? [], view), { needs: "admin", key: "add-voter" }),
    ],
    async load(signal) {
      const asked = performance.now();
      const [quorum, epochs] = await Promise.all([
        get("/v1/quorum", { signal }).then((found) => (found.leader_id < 0 ? null : found)).catch((error) => (error.passing ? null : Promise.reject(error))),
        get("/v1/quorum/epochs", { signal }).catch((error) => (error.name === "AbortError" ? Promise.reject(error) : [])),
      ]);
      // A sample counts as newer only if it arrived during the request and is not older.
      if (last === null || last.heard < asked || isBehind(last.sample, quorum)) last = { heard: asked, sample: quorum };
      return (known = { quorum, epochs });
    },
    draw: ({ quorum, epochs }) => [
      live(last.sample, quorum, view), card("Epochs", history(epochs)), card("Recent broker events", changes()),
    ],
    cares: (event) => aboutBrokers(event) || event.kind === "feature_changed",
    close: () => ends.abort(),
  };

  hear("/v1/quorum/stream", { signal: ends.signal, told: (message) => {
    if (message.before) {
      const since = samples.at(-1)?.timestamp_ms ?? 0;
      for (const { kind, data } of message.before) if (kind === "quorum" && data.timestamp_ms > since) note(data);
    } else if (message.kind === "quorum") heard(message.data);
  } });

  function heard(sample) {
    const before = samples.at(-1);
    note(sample);
    last = { heard: performance.now(), sample };
    if (before && before.leader_epoch !== sample.leader_epoch) view.stir();
    else view.redraw();
  }
  return view;
}

function note(sample) {
  samples = [...samples, sample].slice(-KEPT);
  if (sample.leader_id >= 0) leaders.set(sample.leader_epoch, sample.leader_id);
}

/** Whether a sample is older than an answer: of an earlier epoch, or not as far in the same. */
function isBehind(sample, answer) {
  if (answer === null || sample === null) return answer !== null;
  return sample.leader_epoch < answer.leader_epoch || (sample.leader_epoch === answer.leader_epoch && sample.high_watermark < answer.high_watermark);
}

/** `quorum`: the loaded state, which has the directory ids as well. */
function live(last, quorum, view) {
  if (last === null || last.leader_id < 0)
    return [figures(figure("Active controller", "none", "bad"), figure("Reason", last?.error ?? "no response", "small")), card("Active controller over time", timeline())];
  // A node that is a voter follows as a broker as well: it is listed once.
  const observers = last.observers.filter((each) => !last.voters.some((voter) => voter.id === each.id));
  const directories = new Map([...(quorum?.voters ?? []), ...(quorum?.observers ?? [])].map((each) => [each.id, each.directory_id]));
  return [
    figures(
      figure("Active controller", last.leader_id), figure("Epoch", last.leader_epoch),
      figure("High watermark", last.high_watermark), figure("Voters", count(last.voters.length)), figure("Observers", count(observers.length))),
    card("Active controller over time", timeline()),
    card("Voters", members(last.voters, last.leader_id, "No voters.", (member) => h("div", { class: "actions whole" },
      link(`#/quorum/controllers/${member.id}`, "Log", { key: `log-${member.id}`, label: `Log of controller ${member.id}` }),
      last.voters.length > 1 && directories.get(member.id) && button("Remove …", () => removeVoter(member.id, directories.get(member.id), member.id === last.leader_id, view), { needs: "admin", key: `remove-${member.id}`, label: `Remove voter ${member.id}` })))),
    card("Observers", members(observers, last.leader_id, "No observers.")),
  ];
}

function members(rows, leader, empty, may = null) {
  return table("Members", [
    { title: "Node", cell: (member) => h("span", { class: "whole" }, member.id, member.id === leader && [" ", badge("active", "good")]) },
    { title: "End offset", number: true, cell: (member) => member.log_end_offset },
    { title: "Lag", number: true, cell: (member) => (member.lag ? badge(count(member.lag), "warn") : "0") },
    { title: "Lag over time", cell: (member) => lagLine(member.id) },
    { title: "Last caught up", cell: (member) => (member.last_caught_up_ms > 0 ? ago(member.last_caught_up_ms) : "–") },
    may && { title: "", cell: (member) => may(member) || "" },
  ].filter(Boolean), rows, empty, { key: (member) => member.id });
}

function place() {
  const from = samples[0].timestamp_ms;
  const span = Math.max(1, samples.at(-1).timestamp_ms - from);
  return (ms) => ((ms - from) / span) * WIDTH;
}

/** The active controller over time: one piece of the bar per epoch. */
function timeline() {
  if (samples.length < 2) return nothing("Sampling once per second …");
  const at = place();
  const spans = [];
  for (const sample of samples) {
    const before = spans.at(-1);
    const seen = before && sample.timestamp_ms - before.to < UNSEEN_MS;
    if (seen) before.to = sample.timestamp_ms;
    if (!seen || before.leader !== sample.leader_id || before.epoch !== sample.leader_epoch) {
      spans.push({ leader: sample.leader_id, epoch: sample.leader_epoch, from: sample.timestamp_ms, to: sample.timestamp_ms });
    }
  }
  const words = spans.map((span) => (span.leader < 0 ? `none from ${second(span.from)}` : `node ${span.leader} in epoch ${span.epoch} from ${second(span.from)}`));
  return [
    s("svg", { viewBox: `0 0 ${WIDTH} 36`, class: "timeline", role: "img", preserveAspectRatio: "none", "aria-label": `Active controllers: ${words.join("; ")}` },
      spans.map((span) => s("rect", { x: at(span.from), y: 0, width: Math.max(2, at(span.to) - at(span.from)), height: 36, class: span.leader < 0 ? "nobody" : `leader-${span.leader % COLOURS}` }))),
    h("div", { class: "ends quiet" }, h("span", {}, second(samples[0].timestamp_ms)), h("span", {}, second(samples.at(-1).timestamp_ms))),
    h("ol", { class: "steps legend" }, spans.slice(-8).map((span) => h("li", {},
      h("span", { class: `swatch ${span.leader < 0 ? "nobody" : `leader-${span.leader % COLOURS}`}` }), " ",
      span.leader < 0 ? "none" : `node ${span.leader}, epoch ${span.epoch}`, h("span", { class: "quiet" }, ` ${second(span.from)}`)))),
  ];
}

function lagLine(id) {
  const points = samples.flatMap((sample) => {
    const member = [...sample.voters, ...sample.observers].find((each) => each.id === id);
    return member ? [[sample.timestamp_ms, member.lag]] : [];
  });
  if (points.length < 2) return "–";
  const at = place();
  const most = Math.max(...points.map(([, lag]) => lag));
  const line = points.map(([ms, lag]) => `${at(ms).toFixed(1)},${(27 - (most ? (lag / most) * 24 : 0)).toFixed(1)}`).join(" ");
  return s("svg", { viewBox: `0 0 ${WIDTH} 30`, class: "line", role: "img", preserveAspectRatio: "none", "aria-label": `maximum lag ${plural(most, "record")}` },
    s("polyline", { points: line, fill: "none", "vector-effect": "non-scaling-stroke" }));
}

function history(epochs) {
  const shown = [...epochs].reverse().slice(0, EPOCHS_SHOWN);
  return [
    table("Epochs", [
      { title: "Epoch", number: true, cell: (each) => each.epoch },
      { title: "Start offset", number: true, cell: (each) => h("a", { href: `#/metadata/records?offset=${each.start_offset}`, "data-key": `epoch-${each.epoch}` }, each.start_offset) },
      { title: "Time", cell: (each) => moment(each.began_ms) },
      { title: "Active controller", cell: (each) => (leaders.has(each.epoch) ? `node ${leaders.get(each.epoch)}` : "unknown") },
    ], shown, "The metadata log is not available.", { key: (each) => each.epoch }),
    h("p", { class: "quiet" }, "The log does not contain the controller of an epoch. It is shown for epochs that began while this page was open.",
      epochs.length > shown.length && ` Showing the last ${count(shown.length)} of ${count(epochs.length)}.`),
  ];
}

function second(ms) {
  return clock(ms).slice(0, 8);
}

function changes() {
  const found = recent.filter((event) => aboutBrokers(event) && told(event)).slice(0, CHANGES_SHOWN);
  return found.length
    ? h("ol", { class: "log" }, found.map((event) => h("li", {}, h("time", {}, clock(event.data.timestamp_ms ?? event.at)), h("span", {}, told(event)))))
    : nothing("No broker events.");
}
