// One topic: its partitions, its configs, and the actions on it.

import { get, getTagged, url } from "./api.js";
import { configTable, configTools } from "./configs.js";
import { badge, button, card, field, figure, figures, h, link, select } from "./dom.js";
import { count, list } from "./format.js";
import { grid } from "./grid.js";
import { lead } from "./topic-dialogs.js";
import { actions, parts } from "./topic-parts.js";
import { to } from "./topics.js";
import { setQuery } from "./view.js";

const WHICH = [["", "all"], ["unsynced", "under-replicated"], ["leaderless", "without a leader"], ["unpreferred", "not led by the preferred replica"]];
const FITS = {
  unsynced: (each) => each.isr.length < each.replicas.length,
  leaderless: (each) => each.leader < 0,
  unpreferred: (each) => each.leader !== each.replicas[0],
};

export function open({ topic: name, tab = "partitions" }, query) {
  const path = (...more) => url(["v1", "topics", name, ...more]);
  const configs = tab === "configs";
  let tag = null;
  const page = { path: path("configs"), tag: () => tag, look: () => view.look() };
  const view = {
    title: name,
    actions: actions(name, () => view),
    tools: parts(name, configs ? "configs" : "partitions"),
    async load(signal) {
      const [topic, found] = await Promise.all([
        get(path(), { signal }), configs ? getTagged(url(["v1", "topics", name, "configs"], { all: query.has("all") && "true" }), { signal }) : null,
      ]);
      tag = found?.tag ?? null;
      return { topic, found };
    },
    draw: ({ topic, found }) => (configs
      ? card("Configs", configTools(query, view), configTable(view, query, found.data, page))
      : [summary(topic), card("Partitions", partitionTools(query, view), partitions(view, query, topic))]),
    cares: (event) => (!event.data.topic || event.data.topic === name) && !["quota_changed", "feature_changed"].includes(event.kind)
      && (configs || event.kind !== "config_changed"),
  };
  return view;
}

function summary(topic) {
  const known = topic.details.filter((each) => each.latest_offset !== null && each.earliest_offset !== null);
  const records = known.reduce((sum, each) => sum + each.latest_offset - each.earliest_offset, 0);
  const all = known.length === topic.details.length;
  const leaderless = topic.details.filter((each) => each.leader < 0).length;
  return figures(
    figure("Partitions", count(topic.partitions)), figure("Replicas", count(topic.replication_factor)),
    figure("Records, by offsets", all ? count(records) : `at least ${count(records)}`, all ? "" : "warn"),
    figure("Under-replicated", count(topic.under_replicated), topic.under_replicated ? "warn" : ""),
    leaderless > 0 && figure("Without a leader", count(leaderless), "bad"),
    figure("Topic id", h("span", { class: "mono" }, topic.topic_id), "small"));
}

function partitionTools(query, view) {
  return h("div", { class: "tools" }, field("Show", select("which", WHICH, query.get("which") ?? "", (value) => {
    setQuery(query, "which", value);
    setQuery(query, "page", "");
    view.redraw();
  })));
}

function partitions(view, query, topic) {
  const state = (each) => {
    if (each.leader < 0) return badge("no leader", "bad");
    return each.isr.length < each.replicas.length ? badge(`${each.isr.length} of ${each.replicas.length} in sync`, "warn") : badge("in sync", "good");
  };
  const fits = FITS[query.get("which")] ?? (() => true);
  const some = (rows) => rows !== null && rows.length > 0;
  const eligible = topic.details.some((each) => some(each.elr) || some(each.last_known_elr));
  const offline = topic.details.some((each) => each.offline_replicas.length);
  return grid(view, query, "Partitions", [
    { title: "Partition", number: true, by: (each) => each.partition,
      cell: (each) => link(`${to(topic.name)}/partitions/${each.partition}`, each.partition, { key: `partition-${each.partition}`, label: `Partition ${each.partition}` }) },
    { title: "State", cell: state, by: (each) => (each.leader < 0 ? -1 : each.isr.length / each.replicas.length) },
    { title: "Leader", by: (each) => each.leader,
      cell: (each) => (each.leader < 0 ? "–" : [link(`#/brokers/${each.leader}`, each.leader, { key: `leader-${each.partition}` }), each.leader !== each.replicas[0] && [" ", badge("not preferred")]]) },
    { title: "Replicas", cell: (each) => list(each.replicas) },
    { title: "ISR", cell: (each) => list(each.isr) },
    offline && { title: "Offline", cell: (each) => (each.offline_replicas.length ? badge(list(each.offline_replicas), "bad") : "–") },
    eligible && { title: "ELR", cell: (each) => (some(each.elr) ? list(each.elr) : some(each.last_known_elr) ? badge(`last leader ${list(each.last_known_elr)}`, "warn") : "–") },
    { title: "Epoch", number: true, cell: (each) => each.leader_epoch, by: (each) => each.leader_epoch },
    { title: "Start offset", number: true, cell: (each) => each.earliest_offset, by: (each) => each.earliest_offset },
    { title: "End offset", number: true, cell: (each) => each.latest_offset, by: (each) => each.latest_offset },
    { title: "", cell: (each) => each.replicas.length > 1 && button("Move leader", () => lead(topic.name, each, view), { needs: "operate", key: `lead-${each.partition}`, label: `Move the leader of partition ${each.partition}` }) },
  ].filter(Boolean), topic.details.filter(fits), query.get("which") ? "No partition matches." : "No partitions.", { key: (each) => each.partition });
}
