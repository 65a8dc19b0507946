// The list of brokers.

import { get } from "./api.js";
import { badge, card, h, link } from "./dom.js";
import { count } from "./format.js";
import { grid } from "./grid.js";
import { uptimeOf, versionOf } from "./process.js";

export function open(values, query) {
  const view = {
    title: "Brokers",
    load: (signal) => get("/v1/brokers", { signal }),
    draw: (brokers) => card(null, brokerTable(view, query, brokers)),
    cares: touches,
  };
  return view;
}

/** What changes who is alive, and who leads and holds what. */
export function touches({ kind }) {
  return !["config_changed", "quota_changed", "feature_changed"].includes(kind);
}

export function brokerTable(view, query, brokers) {
  return grid(view, query, "Brokers", [
    { title: "Broker", cell: (broker) => link(`#/brokers/${broker.id}`, `broker ${broker.id}`, { key: `broker-${broker.id}` }), by: (broker) => broker.id },
    { title: "State", cell: (broker) => (broker.fenced ? badge("fenced", "bad") : broker.in_controlled_shutdown ? badge("shutting down", "warn") : badge("alive", "good")), by: (broker) => Number(!broker.fenced) },
    { title: "Address", cell: (broker) => h("span", { class: "mono" }, broker.host ? `${broker.host}:${broker.port}` : "–") },
    { title: "Rack", cell: (broker) => broker.rack, by: (broker) => broker.rack },
    { title: "Leads", number: true, cell: (broker) => count(broker.leaders), by: (broker) => broker.leaders },
    { title: "Replicas", number: true, cell: (broker) => count(broker.replicas), by: (broker) => broker.replicas },
    { title: "Version", cell: versionOf, by: (broker) => broker.version },
    { title: "Uptime", number: true, cell: uptimeOf, by: (broker) => broker.uptime_ms },
  ], brokers, "No broker is registered.", { key: (broker) => broker.id });
}
