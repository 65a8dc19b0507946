// The cluster at a glance, and what has just happened in it.

import { get } from "./api.js";
import { badge, card, figure, h, nothing, table } from "./dom.js";
import { lines } from "./events.js";
import { count, moment } from "./format.js";
import { recent } from "./live.js";

const SHOWN = 50;

export function open() {
  return {
    title: "Overview",
    async load(signal) {
      const [cluster, health, brokers, quorum] = await Promise.all([
        get("/v1/cluster", { signal }), get("/v1/health", { signal }), get("/v1/brokers", { signal }), get("/v1/quorum", { signal }),
      ]);
      return { cluster, health, brokers, quorum };
    },
    draw: ({ cluster, health, brokers, quorum }) => [
      h("p", {}, health.healthy ? badge("healthy", "good") : badge("needs looking at", "bad")),
      h("dl", { class: "figures" },
        figure("Brokers", `${count(cluster.brokers - cluster.brokers_fenced)} of ${count(cluster.brokers)}`, cluster.brokers_fenced ? "warn" : ""),
        figure("Topics", count(cluster.topics)),
        figure("Partitions", count(cluster.partitions)),
        figure("Under-replicated", count(health.under_replicated_partitions), health.under_replicated_partitions ? "warn" : ""),
        figure("Without a leader", count(health.offline_partitions), health.offline_partitions ? "bad" : ""),
        figure("Active controller", quorum.leader_id < 0 ? "none" : count(quorum.leader_id), quorum.leader_id < 0 ? "bad" : "")),
      !health.healthy && card("What needs looking at",
        health.controller_id < 0 && h("p", {}, `No active controller answers${health.controller_error ? ` (${health.controller_error})` : ""}: nothing can be changed, and what is shown may be old.`),
        health.brokers_fenced.length > 0 && h("p", {}, "Fenced: ", health.brokers_fenced.map((id) => [h("a", { href: `#/brokers/${id}` }, `broker ${id}`), " "])),
        health.partitions.length > 0 && h("p", {}, health.partitions.slice(0, 20).map((name) => [h("a", { href: `#/topics/${encodeURIComponent(name.replace(/-\d+$/, ""))}` }, name), " "]),
          health.partitions.length > 20 && `and ${health.partitions.length - 20} more`)),
      card("Brokers", table("Brokers", [
        { title: "Broker", cell: (broker) => h("a", { href: `#/brokers/${broker.id}`, "data-key": `broker-${broker.id}` }, broker.id) },
        { title: "State", cell: (broker) => (broker.fenced ? badge("fenced", "bad") : badge("alive", "good")) },
        { title: "Leads", number: true, cell: (broker) => count(broker.leaders) },
        { title: "Replicas", number: true, cell: (broker) => count(broker.replicas) },
      ], brokers, "No broker is registered.")),
      card("What has happened", happened()),
    ],
  };
}

function happened() {
  const found = lines(recent).slice(0, SHOWN);
  if (!found.length) return nothing("Nothing since this page was opened: elections, changes of in-sync replicas and fenced brokers appear here.");
  return h("ol", { class: "log", reversed: true }, found.map(({ at, text }) => h("li", {}, h("time", {}, moment(at)?.slice(11)), h("span", {}, text))));
}
