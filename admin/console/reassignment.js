// Reassignments in progress, updated live; the plan executed here; and the active throttles.

import { get, post, remove } from "./api.js";
import { ask, badge, button, card, h, link, note } from "./dom.js";
import { bytes, count, list, plural } from "./format.js";
import { grid } from "./grid.js";
import { keptUp } from "./kept-up.js";
import { begun, planner, remember } from "./reassignment-plan.js";
import { lacking } from "./session.js";

const PATH = "/v1/reassignments";
const STATES = { completed: "good", "in progress": "warn", "not as wanted": "bad" };
const QUIET = ["quota_changed", "feature_changed"];

export function open(values, query) {
  let known = null;
  const planning = planner(query, () => view.look());
  const view = {
    title: "Reassignment",
    tools: planning.shown,
    async load(signal) {
      const [rows, alive, throttles] = await Promise.all([get(PATH, { signal }), get("/v1/brokers", { signal }), get(`${PATH}/throttle`, { signal })]);
      planning.offer(alive.filter((broker) => !broker.fenced));
      return (known = { rows, throttles, watched: await lookAfter(rows, signal) });
    },
    draw: ({ rows, watched, throttles }) => [watched && watch(watched), throttled(rows, throttles), inProgress(rows)],
    cares: (event) => !QUIET.includes(event.kind),
    close: () => live.end(),
  };
  const live = keptUp(() => view, "reassignments", ({ reassignments: rows }) => {
    // After the last one has ended, the plan is verified and its throttle removed.
    if (known?.rows.length && !rows.length) view.stir();
    return (known = { ...known, rows });
  });
  live.follow("/v1/live/reassignments");

  function cancel(partitions, text) {
    ask({
      title: `Cancel: ${text}`,
      content: h("p", {}, "The partitions return to their previous replicas. Data copied so far is deleted."),
      action: "Cancel the reassignment", danger: true,
      async submit() {
        const found = await post(`${PATH}/cancel`, partitions === null ? { all: true } : { partitions });
        view.look();
        const failed = found.filter((each) => each.error);
        if (failed.length) throw new Error(failed.map((each) => `${each.topic}-${each.partition}: ${each.message || each.error}`).join("; "));
        note(`${plural(found.length, "reassignment")} cancelled.`);
      },
    });
  }

  function inProgress(rows) {
    const all = rows.length > 1 && h("div", { class: "actions" }, button("Cancel all …", () => cancel(null, `all ${count(rows.length)}`), { kind: "danger", needs: "admin", key: "cancel-all" }));
    return card("In progress", grid(view, query, "In progress", [
      { title: "Partition", by: (each) => `${each.topic}-${each.partition}`,
        cell: (each) => link(`#/topics/${encodeURIComponent(each.topic)}/partitions/${each.partition}`, `${each.topic}-${each.partition}`, { key: `moving-${each.topic}-${each.partition}` }) },
      { title: "From", cell: (each) => list(each.replicas.filter((broker) => !each.adding.includes(broker))) },
      { title: "To", cell: (each) => list(each.target) },
      { title: "Copied", cell: (each) => (each.progress.length ? each.progress.map((one) => copied(each, one)) : h("span", { class: "quiet" }, "no copy needed")) },
      { title: "", cell: (each) => button("Cancel …", () => cancel({ [each.topic]: [each.partition] }, `${each.topic}-${each.partition}`), { needs: "admin", key: `cancel-${each.topic}-${each.partition}`, label: `Cancel the move of ${each.topic}-${each.partition}` }) },
    ], rows, "No reassignments in progress.", { key: (each) => `${each.topic}-${each.partition}`, name: "moving-" }), all);
  }

  function throttled(rows, { brokers, unreachable }) {
    if (!brokers.length) return null;
    const held = (broker) => [["leader_rate", "leader replication"], ["follower_rate", "follower replication"], ["log_dirs_rate", "moves between log directories"]]
      .filter(([key]) => broker[key] !== null).map(([key, does]) => `${does} ≤ ${bytes(broker[key])}/s`).join(", ");
    return h("section", { class: "banner", "data-key": "throttled" },
      h("div", {},
        h("p", {}, h("strong", {}, "Replication is throttled. "), rows.length ? "The throttle is removed when all partitions have moved, if the reassignment was started in a browser that has this page open." : "No reassignment is in progress: the throttle only slows down replicas that catch up."),
        h("ul", { class: "plain" }, brokers.map((broker) => h("li", {}, `broker ${broker.broker} `, h("span", { class: "quiet" }, held(broker))))),
        unreachable.length > 0 && h("p", { class: "quiet" }, `Unknown for brokers: ${list(unreachable)}.`)),
      button("Remove throttle …", () => unthrottle(rows), { needs: "admin", key: "unthrottle" }));
  }

  function unthrottle(rows) {
    ask({
      title: "Remove the throttles",
      content: h("p", {}, rows.length ? "Reassignments in progress continue at full speed." : "No reassignment is in progress."),
      action: "Remove",
      async submit() {
        const off = await remove(`${PATH}/throttle`);
        if (begun()?.throttled) remember({ ...begun(), throttled: false });
        note(`Throttles of ${plural(off.brokers.length, "broker")} removed.`);
        view.look();
      },
    });
  }

  function watch(watched) {
    const done = watched.partitions.filter((each) => each.state === "completed").length;
    return h("section", { class: "card", "data-key": "watched" }, h("h2", {}, "Plan started in this browser"),
      h("p", {}, watched.completed ? badge("completed", "good") : badge(`${count(done)} of ${count(watched.partitions.length)}`, "warn"), " ",
        watched.completed ? `All ${plural(done, "partition")} have moved${watched.freed ? "; the throttle was removed" : ""}.` : "partitions have moved."),
      grid(view, query, "Plan started in this browser", [
        { title: "Partition", cell: (each) => `${each.topic}-${each.partition}`, by: (each) => `${each.topic}-${each.partition}` },
        { title: "State", cell: (each) => badge(each.state, STATES[each.state]), by: (each) => each.state },
        { title: "Target", cell: (each) => list(each.target) },
        { title: "Current", cell: (each) => list(each.replicas) },
      ], watched.partitions, "", { key: (each) => `${each.topic}-${each.partition}`, name: "plan-" }),
      h("div", { class: "actions" }, button("Hide this plan", () => {
        remember(null);
        view.look();
      }, { key: "done" })));
  }
  return view;
}

/** Show the progress of the plan executed here; verifying it removes its throttle once nothing is in progress. */
async function lookAfter(rows, signal) {
  const plan = begun();
  if (plan === null || lacking("admin")) return null;
  const off = plan.throttled && rows.length === 0;
  const watched = await post(`${PATH}/verify`, { partitions: plan.partitions, preserve_throttles: !off }, { signal });
  if (watched.unthrottled_brokers.length) remember({ ...plan, throttled: false, freed: true });
  return { ...watched, freed: begun()?.freed };
}

/** Progress of one new replica: a bar of bytes, and its lag in records. */
function copied(each, one) {
  const known = one.size_bytes !== null && each.size_bytes;
  const behind = one.lag === null ? "not started" : one.lag === 0 ? "caught up" : `${count(one.lag)} records behind`;
  const name = `Copied to broker ${one.broker}`;
  return h("div", { class: "copied" }, h("span", {}, `broker ${one.broker}`),
    h("progress", { "aria-label": name, max: 1, value: known ? Math.min(1, one.size_bytes / each.size_bytes) : one.lag === 0 ? 1 : 0 }),
    h("small", {}, known ? `${bytes(one.size_bytes)} of ${bytes(each.size_bytes)}, ${behind}` : behind));
}
