// One partition: its replicas with their state, its leader's offsets, and its producers.

import { get, url } from "./api.js";
import { badge, button, card, figure, figures, h, link, table, tabs } from "./dom.js";
import { ago, bytes, count, list, moment } from "./format.js";
import { grid } from "./grid.js";
import { lead } from "./topic-dialogs.js";
import { to } from "./topics.js";

const PARTS = ["replicas", "producers", "batches", "segments", "history", "checksums"];

/** The parts of a partition, as tabs; most have a page of their own. */
export function parts(topic, partition, current) {
  const root = `${to(topic)}/partitions/${encodeURIComponent(partition)}`;
  const at = { replicas: root, batches: `${to(topic)}/batches/${encodeURIComponent(partition)}` };
  const links = PARTS.map((part) => [at[part] ?? `${root}/${part}`, part[0].toUpperCase() + part.slice(1)]);
  return tabs("Parts of the partition", links, links[PARTS.indexOf(current)][0]);
}

/** Links from a partition to related pages. */
export function ways(topic, partition) {
  return [
    h("a", { class: "button plain", href: to(topic) }, "Topic"),
    h("a", { class: "button plain", href: `${to(topic)}/messages?partitions=${encodeURIComponent(partition)}` }, "Messages"),
  ];
}

export function open({ topic, partition, tab = "replicas" }, query) {
  const path = ["v1", "topics", topic, "partitions", partition];
  const writers = tab === "producers";
  let known = null;
  const view = {
    title: `${topic}-${partition}`,
    actions: [
      ways(topic, partition),
      !writers && button("Move leader", () => known && lead(topic, known, view), { needs: "operate", key: "lead" }),
    ].filter(Boolean),
    tools: parts(topic, partition, writers ? "producers" : "replicas"),
    load: async (signal) => (known = await get(url(writers ? [...path, "producers"] : path), { signal })),
    draw: (found) => (writers ? producers(view, query, found) : drawn(found)),
    // Producers and replica offsets have no events; leader changes have.
    cares: (event) => !writers && event.data.topic === topic && (event.data.partition ?? Number(partition)) === Number(partition),
  };
  return view;
}

function drawn(found) {
  const elr = found.elr?.length || found.last_known_elr?.length;
  const behind = found.last_stable_offset !== null && found.last_stable_offset < found.latest_offset;
  return [
    figures(
      figure("Leader", found.leader < 0 ? "none" : link(`#/brokers/${found.leader}`, `broker ${found.leader}`, { key: "leader" }), found.leader < 0 ? "bad" : ""),
      figure("Epoch", found.leader_epoch), figure("Start offset", found.earliest_offset), figure("End offset", found.latest_offset),
      figure("Last stable offset", found.last_stable_offset, behind ? "warn" : "")),
    behind && h("p", { class: "quiet" }, "A transaction is open: consumers with read_committed wait at the last stable offset. ",
      h("a", { href: `${to(found.topic)}/partitions/${found.partition}/producers` }, "Show producers")),
    elr > 0 && h("p", {}, found.elr?.length ? `Eligible leader replicas (no data loss): ${list(found.elr)}.` : `No replica is in sync; last known leader: ${list(found.last_known_elr)}.`),
    card("Replicas", table("Replicas", [
      { title: "Broker", cell: (each) => [link(`#/brokers/${each.broker}`, `broker ${each.broker}`, { key: `broker-${each.broker}` }), each.leader && [" ", badge("leader", "good")]] },
      { title: "State", cell: (each) => (each.offline ? badge("offline", "bad") : each.in_sync ? badge("in sync", "good") : badge("not in sync", "warn")) },
      { title: "Size", number: true, cell: (each) => bytes(each.size_bytes) ?? h("span", { class: "quiet" }, "unknown") },
      { title: "Lag", number: true, cell: (each) => (each.offset_lag ? badge(count(each.offset_lag), "warn") : count(each.offset_lag)) },
      { title: "Directory", cell: (each) => each.log_dir && h("span", { class: "mono" }, each.log_dir) },
    ], found.details, "No replicas.", { key: (each) => each.broker })),
  ];
}

function producers(view, query, rows) {
  return card("Producers", h("p", { class: "quiet" }, "Idempotent and transactional producers known to the leader."), grid(view, query, "Producers", [
    { title: "Producer", number: true, cell: (each) => each.producer_id, by: (each) => each.producer_id },
    { title: "Epoch", number: true, cell: (each) => each.producer_epoch, by: (each) => each.producer_epoch },
    { title: "Last sequence", number: true, cell: (each) => (each.last_sequence < 0 ? "–" : each.last_sequence) },
    { title: "Last record", cell: (each) => (each.last_timestamp_ms < 0 ? "–" : h("span", { title: moment(each.last_timestamp_ms) }, ago(each.last_timestamp_ms))), by: (each) => each.last_timestamp_ms },
    { title: "Transaction", by: (each) => each.transaction_start_offset,
      cell: (each) => (each.transaction_start_offset === null ? "–" : badge(`open from ${each.transaction_start_offset}`, "warn")) },
    { title: "Coordinator epoch", number: true, cell: (each) => (each.coordinator_epoch < 0 ? "–" : each.coordinator_epoch) },
  ], rows, "No producers. Only idempotent producers are tracked, and expired ones are removed.", { key: (each) => each.producer_id }));
}
