// History of a partition: leaders, ISRs, reassignments; and the leader epochs of its log.

import { get, url } from "./api.js";
import { button, card, figure, figures, h, link, nothing, table } from "./dom.js";
import { told } from "./events.js";
import { count, list, moment } from "./format.js";
import { parts, ways } from "./partition.js";
import { to } from "./topics.js";
import { step } from "./view.js";

const PAGE = 100;

export function open({ topic, partition }, query) {
  const path = ["v1", "topics", topic, "partitions", partition];
  const view = {
    title: `${topic}-${partition} · history`,
    actions: ways(topic, partition),
    tools: parts(topic, partition, "history"),
    async load(signal) {
      // Each has another source: without one of them the other is shown.
      const [history, epochs] = await Promise.allSettled([
        get(url([...path, "history"], { before: query.get("before"), limit: PAGE }), { signal }),
        get(url([...path, "epochs"], { before: query.get("epoch"), limit: PAGE }), { signal }),
      ]);
      const lacking = [history, epochs].filter((each) => each.status === "rejected");
      if (lacking.length === 2 || (lacking.length && !lacking[0].reason.passing)) throw lacking[0].reason;
      return { history, epochs };
    },
    draw: ({ history, epochs }) => [
      card("History", history.value ? happened(history.value) : failed(history.reason)),
      card("Leader epochs of the log", epochs.value ? leaders(epochs.value) : failed(epochs.reason)),
    ],
    cares: (event) => event.kind === "reconnected" || (event.data.topic === topic && (event.data.partition ?? Number(partition)) === Number(partition)),
  };

  /** A page further back: each of both lists by itself, and in the address. */
  function turn(name, older, text) {
    const go = (label, value) => button(label, () => {
      step(query, { [name]: value });
      view.look();
    }, { key: `${name}-${label}` });
    return (older !== null || query.has(name)) && h("nav", { class: "pager", "aria-label": `Pages of ${text}`, "data-key": `pager-${name}` },
      query.has(name) && go("Newest", null), older !== null && go("Older", String(older)));
  }

  function happened(history) {
    const rows = [...history.events].reverse();
    return [
      table("History", [
        { title: "Time", cell: (each) => h("time", { class: "whole" }, moment(each.timestamp_ms)) },
        { title: "Change", cell: said },
        { title: "Record", number: true, cell: (each) => link(`#/metadata/records?offset=${each.offset}`, each.offset, { key: `record-${each.offset}-${each.type}`, label: `Record ${each.offset} of the metadata log` }) },
      ], rows, "The metadata log has no records of this partition any more."),
      h("p", { class: "quiet" }, `The metadata log starts at offset ${history.first}; earlier changes are only in a snapshot.`),
      turn("before", history.more ? history.events[0].offset : null, "what happened"),
    ];
  }

  function leaders(found) {
    return [
      figures(figure("Leader", found.leader < 0 ? "none" : link(`#/brokers/${found.leader}`, `broker ${found.leader}`, { key: "leader" })), figure("Epoch", found.leader_epoch), figure("Log start offset", found.log_start_offset)),
      table("Leader epochs", [
        { title: "Epoch", number: true, cell: (each) => each.epoch },
        { title: "From offset", number: true, cell: (each) => link(`${to(topic)}/messages?from=offset&at=${each.start_offset}&partitions=${encodeURIComponent(partition)}`, each.start_offset, { key: `epoch-${each.epoch}`, label: `${each.start_offset}: the records from there` }) },
        { title: "To offset", number: true, cell: (each) => (each.end_offset > each.start_offset ? each.end_offset - 1 : "–") },
        { title: "Offsets", number: true, cell: (each) => count(each.end_offset - each.start_offset) },
      ], found.epochs, "No leader epoch with records.", { key: (each) => each.epoch }),
      turn("epoch", found.next, "leader epochs"),
    ];
  }
  return view;
}

function said(each) {
  if (each.type === "partition_created") return `created with replicas ${list(each.after.replicas)}`;
  return told({ kind: each.type, data: each }) ?? each.type;
}

function failed(error) {
  return nothing(`Not available: ${error.message}`);
}
