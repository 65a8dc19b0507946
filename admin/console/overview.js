// Overview of the cluster, and its latest events.

import { get } from "./api.js";
import { brokerTable } from "./brokers.js";
import { bundleButton } from "./debug-bundle.js";
import { badge, card, figure, figures, h, link, nothing } from "./dom.js";
import { lines } from "./events.js";
import { chips } from "./favourites.js";
import { clock, count, plural } from "./format.js";
import { recent } from "./live.js";

const SHOWN = 50;
const NAMED = 20;

export function open(values, query) {
  const view = {
    title: "Overview",
    actions: [bundleButton()],
    async load(signal) {
      const [cluster, health, brokers, quorum] = await Promise.all([
        get("/v1/cluster", { signal }), get("/v1/health", { signal }), get("/v1/brokers", { signal }),
        // Without an active controller the rest of the page is shown.
        get("/v1/quorum", { signal }).catch((error) => (error.passing ? null : Promise.reject(error))),
      ]);
      return { cluster, health, brokers, quorum };
    },
    draw: ({ cluster, health, brokers, quorum }) => [
      banner(health, quorum),
      h("p", { class: "steps" }, health.healthy && quorum !== null ? badge("healthy", "good") : badge("needs attention", "bad")),
      h("div", { class: "by-four" }, figures(
        figure("Brokers", `${count(cluster.brokers - cluster.brokers_fenced)} of ${count(cluster.brokers)}`, cluster.brokers_fenced ? "warn" : ""),
        figure("Topics, internal ones included", link("#/topics?internal=true", count(cluster.topics), { key: "topics", class: "plain" })),
        figure("Partitions", count(cluster.partitions)),
        ill("Under-replicated", health.under_replicated_partitions, "#/topics?under_replicated=true&internal=true", "warn"),
        ill("Under min ISR", health.under_min_isr_partitions, "#/topics?under_replicated=true&internal=true", "bad"),
        ill("At min ISR", health.at_min_isr_partitions, "#/topics?under_replicated=true&internal=true", "warn"),
        ill("Without a leader", health.offline_partitions, "#/leaders", "bad"),
        controller(quorum))),
      chips("topic"), chips("group"),
      (!health.healthy || quorum === null || health.at_min_isr_partitions > 0) && card("Problems", ailing(health, quorum)),
      card("Brokers", brokerTable(view, query, brokers, health.controller_id)),
      card("Recent events", happened()),
    ],
  };
  return view;
}

/** A count of partitions with a link to them; a count that is not available is not zero. */
function ill(title, number, href, kind) {
  if (number === null || number === undefined) return figure(title, h("span", { title: "min.insync.replicas of the topics is not available." }, "unknown"), "small");
  return figure(title, number ? link(href, count(number), { key: title, class: "plain" }) : "0", number ? kind : "");
}

function controller(quorum) {
  if (quorum === null) return figure("Active controller", link("#/quorum", "not reachable", { key: "quorum", class: "plain" }), "bad");
  const none = quorum.leader_id < 0;
  return figure("Active controller", link("#/quorum", none ? "none" : quorum.leader_id, { key: "quorum", class: "plain" }), none ? "bad" : "");
}

/** Problems that stop writes or need action at once, in a banner across the page. */
function banner(health, quorum) {
  const fenced = health.brokers_fenced;
  const found = [
    (quorum === null || health.controller_id < 0) && "No active controller.",
    fenced.length > 0 && `${fenced.length === 1 ? "Broker" : "Brokers"} ${fenced.join(", ")} ${fenced.length === 1 ? "is" : "are"} fenced.`,
    health.offline_partitions > 0 && `${plural(health.offline_partitions, "partition")} without a leader.`,
    health.under_min_isr_partitions > 0 && `${plural(health.under_min_isr_partitions, "partition")} below min.insync.replicas.`,
    fenced.length > 0 && health.under_replicated_partitions > 0 && `${plural(health.under_replicated_partitions, "partition")} under-replicated.`,
  ].filter(Boolean);
  return found.length > 0 && h("div", { class: "banner alarm", role: "status" }, h("p", {}, found.join(" ")));
}

function ailing(health, quorum) {
  const places = health.partitions.slice(0, NAMED).map((name) => {
    const at = name.lastIndexOf("-");
    return [link(`#/topics/${encodeURIComponent(name.slice(0, at))}/partitions/${name.slice(at + 1)}`, name, { key: `ill-${name}` }), " "];
  });
  return [
    (quorum === null || health.controller_id < 0) && h("p", {}, `No controller responds${health.controller_error ? ` (${health.controller_error})` : ""}. Until one does, metadata cannot change, no leader can be elected, and the data shown may be stale.`),
    health.brokers_fenced.length > 0 && h("p", {}, "Fenced: ", health.brokers_fenced.map((id) => [link(`#/brokers/${id}`, `broker ${id}`, { key: `fenced-${id}` }), " "])),
    health.under_min_isr_partitions > 0 && h("p", {}, `${plural(health.under_min_isr_partitions, "partition")} ${health.under_min_isr_partitions === 1 ? "has" : "have"} fewer in-sync replicas than min.insync.replicas, or no leader: writes with acks=all are rejected.`),
    health.at_min_isr_partitions > 0 && h("p", {}, `${plural(health.at_min_isr_partitions, "partition")} ${health.at_min_isr_partitions === 1 ? "has" : "have"} exactly min.insync.replicas in sync: losing one more replica stops writes with acks=all.`),
    (health.configs_left_out ?? []).length > 0 && h("p", {}, "Stored configs that are not in force, because the broker rejects their values: ", health.configs_left_out.join(", ")),
    places.length > 0 && h("p", {}, places, health.partitions.length > NAMED && `and ${count(health.partitions.length - NAMED)} more`),
  ];
}

function happened() {
  const found = lines(recent).slice(0, SHOWN);
  if (!found.length) return nothing("No recent events. Elections, changes of in-sync replicas and fenced brokers appear here.");
  return h("ol", { class: "log", reversed: true }, found.map(({ at, text }) => h("li", {}, h("time", {}, clock(at)), h("span", {}, text))));
}
