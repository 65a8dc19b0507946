// A partition's log as its leader has it: batch by batch.

import { get, url } from "./api.js";
import { badge, card, field, figure, figures, h, link, table } from "./dom.js";
import { bytes, count, moment } from "./format.js";
import { parts, ways } from "./partition.js";
import { setQuery } from "./view.js";

export function open({ topic, partition }, query) {
  const root = `#/topics/${encodeURIComponent(topic)}`;
  const view = {
    title: `${topic}-${partition} · batches`,
    actions: ways(topic, partition),
    tools: [parts(topic, partition, "batches"), h("div", { class: "tools" }, field("From offset", h("input", { type: "number", min: 0, "data-filter": true, value: query.get("offset") ?? "", placeholder: "start", onchange: (event) => {
      setQuery(query, "offset", event.target.value);
      view.look();
    } })))],
    load: (signal) => get(url(["v1", "topics", topic, "partitions", partition, "batches"], { offset: query.get("offset") }), { signal }),
    draw: (page) => [
      figures(
        figure("Log start offset", page.log_start_offset), figure("High watermark", page.high_watermark),
        figure("Last stable offset", page.last_stable_offset, page.last_stable_offset < page.high_watermark ? "warn" : ""),
        figure("Shown", bytes(page.batches.reduce((sum, each) => sum + each.size_bytes, 0)))),
      card(null,
        table("Batches", [
          { title: "Offsets", cell: (each) => link(`${root}/messages?from=offset&at=${each.base_offset}&partitions=${encodeURIComponent(partition)}`,
            each.base_offset === each.last_offset ? each.base_offset : `${each.base_offset} to ${each.last_offset}`, { key: `batch-${each.base_offset}` }) },
          { title: "Records", number: true, cell: (each) => count(each.records) },
          { title: "Attributes", cell: what },
          { title: "Producer", cell: (each) => (each.producer_id === null ? "–" : `${each.producer_id}, epoch ${each.producer_epoch}`) },
          { title: "Sequence", cell: (each) => (each.base_sequence === null ? "–" : each.base_sequence === each.last_sequence ? each.base_sequence : `${each.base_sequence} to ${each.last_sequence}`) },
          { title: "Leader epoch", number: true, cell: (each) => each.leader_epoch },
          { title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
          { title: "Newest record", cell: (each) => h("time", { class: "whole" }, moment(each.max_timestamp_ms)) },
        ], page.batches, "No batches from this offset.", { key: (each) => each.base_offset }),
        page.next !== null && h("p", {}, h("a", { href: `${root}/batches/${encodeURIComponent(partition)}?offset=${page.next}` }, `Next batches, from ${page.next}`))),
    ],
    // Batches have no events: loaded data stays until the next request.
    cares: () => false,
  };
  return view;
}

function what(each) {
  const found = [];
  if (!each.valid) found.push(badge("damaged: CRC mismatch", "bad"));
  if (each.control !== null) found.push(badge(`${each.control.toLowerCase()} marker`, each.control === "ABORT" ? "warn" : "good"));
  else if (each.transactional) found.push(badge("transactional"));
  if (each.compression !== "none") found.push(badge(each.compression));
  if (each.timestamp_type !== "CreateTime") found.push(badge("LogAppendTime"));
  if (each.delete_horizon_ms !== null) found.push(badge("tombstones can be removed", "warn"));
  return found.length ? h("span", { class: "steps" }, found) : "–";
}
