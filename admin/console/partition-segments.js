// The segments of a replica, as files on the disks of the broker beside this server.

import { get, url } from "./api.js";
import { card, figure, figures, h, link, nothing, table } from "./dom.js";
import { bytes, count, moment } from "./format.js";
import { turner } from "./grid.js";
import { parts, ways } from "./partition.js";
import { to } from "./topics.js";

const PAGE = 100;
const ELSEWHERE = 421;

export function open({ topic, partition }, query) {
  const view = {
    title: `${topic}-${partition} · segments`,
    actions: ways(topic, partition),
    tools: parts(topic, partition, "segments"),
    async load(signal) {
      try {
        return await get(url(["v1", "topics", topic, "partitions", partition, "segments"], { after: query.get("after"), limit: PAGE }), { signal });
      } catch (error) {
        // Only the server on the broker's node sees its files: a redirect to another server is a valid response.
        if (error.status === ELSEWHERE) return { elsewhere: error.message };
        throw error;
      }
    },
    draw: (page) => (page.elsewhere ? card("Segments", nothing(`Only the admin server of a broker with a replica can list segment files. ${upper(page.elsewhere)}.`)) : drawn(page)),
    cares: () => false, // files are rolled and deleted without an event
  };

  function drawn(page) {
    return [
      figures(
        figure("Segments", count(page.segment_count)), figure("Size, without indexes", bytes(page.size_bytes)),
        figure("Replica of", link(`#/brokers/${page.broker}`, `broker ${page.broker}`, { key: "broker" })),
        figure("Directory", h("span", { class: "mono" }, page.log_dir), "small"),
        page.future_log_dir && figure("Moving to", h("span", { class: "mono" }, page.future_log_dir), "small warn")),
      card(null, table("Segments", [
        { title: "Offsets", cell: (each) => link(`${to(topic)}/batches/${encodeURIComponent(partition)}?offset=${each.base_offset}`,
          each.next_offset === null ? `from ${each.base_offset}` : `${each.base_offset} to ${each.next_offset - 1}`, { key: `segment-${each.base_offset}` }) },
        { title: "State", cell: (each) => (each.next_offset === null ? "active" : "closed") },
        { title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
        { title: "Newest record", cell: (each) => h("time", {}, moment(each.max_timestamp_ms) ?? "not indexed yet") },
        { title: "File modified", cell: (each) => h("time", {}, moment(each.modified_ms)) },
        { title: "Indexes", number: true, cell: (each) => bytes([each.index_bytes, each.time_index_bytes, each.txn_index_bytes].reduce((sum, size) => sum + (size ?? 0), 0)) },
      ], page.segments, "No more segments.", { key: (each) => each.base_offset }),
      turner(view, query, page.next, page.segments.length, "segments")),
    ];
  }
  return view;
}

function upper(text) {
  return text[0].toUpperCase() + text.slice(1);
}
