// The metadata quorum: who leads, how far the others are, and how both have gone since the page was opened.

import { get, listen } from "./api.js";
import { badge, card, figure, h, nothing, table } from "./dom.js";
import { aboutBrokers, told } from "./events.js";
import { ago, count, moment, plural } from "./format.js";
import { recent } from "./live.js";
import { s } from "./svg.js";

const KEPT = 900;
const AGAIN_MS = 1000;
const EPOCHS_SHOWN = 20;
// Between two samples of a page that was left for longer nobody looked: that stays empty.
const UNSEEN_MS = 15_000;
const WIDTH = 1000;
const COLOURS = 6;

// What was seen stays while one looks at other pages: a timeline with holes tells less.
let samples = [];
const leaders = new Map();

export function open() {
  const ends = new AbortController();
  let following = false;
  const view = {
    title: "Quorum",
    actions: h("a", { class: "button plain", href: "#/metadata" }, "Metadata"),
    async load(signal) {
      const [quorum, epochs] = await Promise.all([
        get("/v1/quorum", { signal }).catch((error) => (error.status >= 500 || error.status === 0 ? null : Promise.reject(error))),
        get("/v1/quorum/epochs", { signal }).catch((error) => (error.name === "AbortError" ? Promise.reject(error) : [])),
      ]);
      if (!following) follow();
      following = true;
      return { quorum, epochs };
    },
    draw: ({ quorum, epochs }) => [live(quorum), card("Epochs", history(epochs)), card("Brokers since this page was opened", changes())],
    close: () => ends.abort(),
  };

  async function follow() {
    while (!ends.signal.aborted) {
      try {
        await listen("/v1/quorum/stream", heard, ends.signal);
      } catch (error) {
        if (ends.signal.aborted || [401, 403, 404].includes(error.status)) return;
      }
      await new Promise((wake) => setTimeout(wake, AGAIN_MS));
    }
  }

  function heard(kind, sample) {
    if (kind !== "quorum") return;
    const before = samples.at(-1);
    samples = [...samples, sample].slice(-KEPT);
    if (sample.leader_id >= 0) leaders.set(sample.leader_epoch, sample.leader_id);
    const shown = document.getElementById("quorum-live");
    if (before && before.leader_epoch !== sample.leader_epoch) view.look();
    else if (shown) shown.replaceWith(live(sample));
  }
  return view;
}

/** What each sample draws anew. */
function live(quorum) {
  const last = samples.at(-1) ?? quorum;
  return h("div", { id: "quorum-live" }, last === null || last.leader_id < 0
    ? [h("dl", { class: "figures" }, figure("Active controller", "none", "bad"), figure("Why", last?.error ?? "nobody answers", "small")), card("Since this page was opened", timeline())]
    : [
      h("dl", { class: "figures" },
        figure("Active controller", last.leader_id), figure("Epoch", count(last.leader_epoch)),
        figure("High watermark", count(last.high_watermark)), figure("Voters", count(last.voters.length)), figure("Observers", count(last.observers.length))),
      card("Since this page was opened", timeline()),
      card("Voters", members(last.voters, last.leader_id, "No voter.")),
      card("Observers", members(last.observers, last.leader_id, "No broker follows the metadata log.")),
    ]);
}

function members(rows, leader, empty) {
  return table("Members", [
    { title: "Node", cell: (member) => h("span", { class: "whole" }, member.id, member.id === leader && [" ", badge("active", "good")]) },
    { title: "End offset", number: true, cell: (member) => count(member.log_end_offset) },
    { title: "Behind", number: true, cell: (member) => (member.lag ? badge(count(member.lag), "warn") : "0") },
    { title: "How far behind, over time", cell: (member) => lagLine(member.id) },
    { title: "Caught up", cell: (member) => (member.last_caught_up_ms > 0 ? ago(member.last_caught_up_ms) : "–") },
  ], rows, empty);
}

function place() {
  const from = samples[0].timestamp_ms;
  const span = Math.max(1, samples.at(-1).timestamp_ms - from);
  return (ms) => ((ms - from) / span) * WIDTH;
}

/** Who led when: a bar, a piece an epoch; nothing where there was nobody. */
function timeline() {
  if (samples.length < 2) return nothing("The quorum is looked at every second from now on.");
  const at = place();
  const spans = [];
  for (const sample of samples) {
    const last = spans.at(-1);
    const seen = last && sample.timestamp_ms - last.to < UNSEEN_MS;
    if (seen) last.to = sample.timestamp_ms;
    if (!seen || last.leader !== sample.leader_id || last.epoch !== sample.leader_epoch) {
      spans.push({ leader: sample.leader_id, epoch: sample.leader_epoch, from: sample.timestamp_ms, to: sample.timestamp_ms });
    }
  }
  const words = spans.map((span) => (span.leader < 0 ? `nobody from ${clock(span.from)}` : `node ${span.leader} in epoch ${span.epoch} from ${clock(span.from)}`));
  return [
    s("svg", { viewBox: `0 0 ${WIDTH} 36`, class: "timeline", role: "img", preserveAspectRatio: "none", "aria-label": `Active controllers: ${words.join("; ")}` },
      spans.map((span) => s("rect", { x: at(span.from), y: 0, width: Math.max(2, at(span.to) - at(span.from)), height: 36, class: span.leader < 0 ? "nobody" : `leader-${span.leader % COLOURS}` }))),
    h("div", { class: "ends quiet" }, h("span", {}, clock(samples[0].timestamp_ms)), h("span", {}, clock(samples.at(-1).timestamp_ms))),
    h("ol", { class: "steps legend" }, spans.slice(-8).map((span) => h("li", {},
      h("span", { class: `swatch ${span.leader < 0 ? "nobody" : `leader-${span.leader % COLOURS}`}` }), " ",
      span.leader < 0 ? "nobody" : `node ${span.leader}, epoch ${count(span.epoch)}`, h("span", { class: "quiet" }, ` ${clock(span.from)}`)))),
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
  return s("svg", { viewBox: `0 0 ${WIDTH} 30`, class: "line", role: "img", preserveAspectRatio: "none", "aria-label": `at most ${plural(most, "record")} behind` },
    s("polyline", { points: line, fill: "none", "vector-effect": "non-scaling-stroke" }));
}

function history(epochs) {
  const shown = [...epochs].reverse().slice(0, EPOCHS_SHOWN);
  return [
    table("Epochs", [
      { title: "Epoch", number: true, cell: (each) => count(each.epoch) },
      { title: "First record", number: true, cell: (each) => h("a", { href: `#/metadata/records?offset=${each.start_offset}` }, count(each.start_offset)) },
      { title: "Written", cell: (each) => moment(each.began_ms) },
      { title: "Active controller", cell: (each) => (leaders.has(each.epoch) ? `node ${leaders.get(each.epoch)}` : "not told") },
    ], shown, "The metadata log cannot be read now."),
    h("p", { class: "quiet" }, "The log tells when an epoch began, not whose it was: that is known of those that this page was open for.",
      epochs.length > shown.length && ` The last ${count(shown.length)} of ${count(epochs.length)}.`),
  ];
}

function clock(ms) {
  return moment(ms).slice(11, 19);
}

function changes() {
  const found = recent.filter((event) => aboutBrokers(event) && told(event)).slice(0, 50);
  return found.length
    ? h("ol", { class: "log" }, found.map((event) => h("li", {}, h("time", {}, moment(event.data.timestamp_ms ?? event.at).slice(11)), h("span", {}, told(event)))))
    : nothing("No broker has come or gone.");
}
