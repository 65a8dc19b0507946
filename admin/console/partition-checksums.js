// The replicas of a partition, read from each of its brokers and compared: batch by batch, by checksum.

import { get, url } from "./api.js";
import { badge, card, figure, figures, h, link, table } from "./dom.js";
import { bytes, count, list, plural } from "./format.js";
import { grid } from "./grid.js";
import { longLook } from "./long-look.js";
import { parts, ways } from "./partition.js";
import { to } from "./topics.js";

/** The server reports this number individually. */
const TOLD_MAX = 1000;
const WRONG = { damaged: "the checksum does not match the bytes", missing: "the batch is missing", different: "the batch differs", surplus: "the batch does not exist in the reference replica" };
const KINDS = Object.keys(WRONG);

export function open({ topic, partition }, query) {
  const path = ["v1", "topics", topic, "partitions", partition];
  const look = longLook({
    path: () => url([...path, "verify"]),
    changed: () => view.redraw(),
    said: (progress) => ({ share: progress.end_offset ? progress.offset / progress.end_offset : 1, text: `up to offset ${progress.offset} of ${progress.end_offset}, ${bytes(progress.bytes)}` }),
    text: "Compare replicas",
  });
  const view = {
    title: `${topic}-${partition} · checksums`,
    actions: ways(topic, partition),
    tools: parts(topic, partition, "checksums"),
    load: (signal) => get(url(path), { signal }),
    draw: (found) => [
      card(null, h("p", {}, `Reads every batch of all replicas (brokers ${list(found.replicas)}) and compares checksums with the leader. This takes time and network bandwidth of the brokers.`), look.drawn()),
      look.result && verdict(look.result),
      look.faults.length > 0 && card("Differences", wrong(look.faults)),
    ],
    cares: () => false,
    close: () => look.end(),
  };

  function wrong(faults) {
    return [
      grid(view, query, "Differences", [
        { title: "Broker", cell: (each) => `broker ${each.broker}`, by: (each) => each.broker },
        { title: "Difference", cell: (each) => badge(each.kind, "bad"), by: (each) => each.kind },
        { title: "Offsets", cell: (each) => link(`${to(topic)}/batches/${encodeURIComponent(partition)}?offset=${each.base_offset}`, each.base_offset === each.last_offset ? each.base_offset : `${each.base_offset} to ${each.last_offset}`, { key: `fault-${each.broker}-${each.base_offset}-${each.kind}` }), by: (each) => each.base_offset },
        { title: "Details", cell: (each) => each.message || WRONG[each.kind] },
      ], faults, "", { name: "wrong-" }),
      faults.length >= TOLD_MAX && h("p", { class: "quiet" }, `The first ${count(TOLD_MAX)}; the others are only counted.`),
    ];
  }
  return view;
}

function verdict(found) {
  const faults = found.replicas.reduce((sum, each) => sum + KINDS.reduce((more, kind) => more + each[kind], 0), 0);
  const unread = found.replicas.filter((each) => each.error);
  return [
    figures(
      figure("Replicas", found.sound ? "identical" : faults ? "different" : "not all read", found.sound ? "" : faults ? "bad" : "warn"),
      figure("Differences", plural(faults, "batch", "batches"), faults ? "bad" : ""), figure("Compared with", `broker ${found.reference}`), figure("Up to offset", found.end_offset)),
    found.stopped_by === "time" && h("p", { class: "banner", "data-key": "time" }, "The time limit was reached before all batches were read."),
    !found.compared && h("p", { class: "quiet" }, "The topic is compacted, and each broker compacts at its own time: checksums were verified, but replicas were not compared."),
    unread.length > 0 && h("p", { class: "banner", "data-key": "unread" }, unread.map((each) => `Broker ${each.broker} was not read completely: ${each.error}.`).join(" ")),
    card("Replicas", table("Replicas", [
      { title: "Broker", cell: (each) => [link(`#/brokers/${each.broker}`, `broker ${each.broker}`, { key: `replica-${each.broker}` }), each.leader && [" ", badge("leader", "good")]] },
      { title: "State", cell: (each) => stateOf(each) },
      { title: "Offsets", cell: (each) => (each.start_offset === null ? "–" : each.end_offset > each.start_offset ? `${each.start_offset} to ${each.end_offset - 1}` : "none") },
      { title: "Batches", number: true, cell: (each) => count(each.batches) },
      { title: "Size", number: true, cell: (each) => bytes(each.bytes) },
      ...KINDS.map((kind) => ({ title: kind[0].toUpperCase() + kind.slice(1), number: true, cell: (each) => (each[kind] ? badge(count(each[kind]), "bad") : "0") })),
    ], found.replicas, "", { key: (each) => each.broker })),
  ];
}

function stateOf(each) {
  if (each.error) return badge("not read", "warn");
  if (KINDS.some((kind) => each[kind])) return badge("differences", "bad");
  return each.in_sync ? badge("ok", "good") : [badge("ok", "good"), " ", badge("not in sync", "warn")];
}
