// The metadata quorum: who leads, how far the others are, and how that changed while the page is open.

import { get } from "./api.js";
import { badge, card, figure, h, nothing, table } from "./dom.js";
import { aboutBrokers, told } from "./events.js";
import { ago, count, moment } from "./format.js";
import { recent } from "./live.js";

export function open() {
  const columns = (leader) => [
    { title: "Node", cell: (voter) => [voter.id, voter.id === leader && [" ", badge("active", "good")]] },
    { title: "Directory", cell: (voter) => h("span", { class: "mono" }, voter.directory_id) },
    { title: "End offset", number: true, cell: (voter) => count(voter.log_end_offset) },
    { title: "Behind", number: true, cell: (voter) => (voter.lag ? badge(count(voter.lag), "warn") : "0") },
    { title: "Caught up", cell: (voter) => (voter.last_caught_up_ms > 0 ? ago(voter.last_caught_up_ms) : "–") },
  ];
  return {
    title: "Quorum",
    load: (signal) => get("/v1/quorum", { signal }),
    draw: (quorum) => [
      h("dl", { class: "figures" },
        figure("Active controller", quorum.leader_id < 0 ? "none" : quorum.leader_id, quorum.leader_id < 0 ? "bad" : ""),
        figure("Epoch", count(quorum.leader_epoch)), figure("High watermark", count(quorum.high_watermark)),
        figure("Voters", count(quorum.voters.length))),
      card("Voters", table("Voters", columns(quorum.leader_id), quorum.voters, "No voter.")),
      card("Observers", table("Observers", columns(quorum.leader_id), quorum.observers, "No broker follows the metadata log.")),
      card("Since this page was opened", changes()),
    ],
  };
}

function changes() {
  const found = recent.filter((event) => aboutBrokers(event) && told(event)).slice(0, 50);
  return found.length
    ? h("ol", { class: "log" }, found.map((event) => h("li", {}, h("time", {}, moment(event.data.timestamp_ms ?? event.at).slice(11)), h("span", {}, told(event)))))
    : nothing("No broker has come or gone.");
}
