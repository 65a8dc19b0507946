// The list of brokers.

import { get, url } from "./api.js";
import { badge, card, h, link } from "./dom.js";
import { bytes, count } from "./format.js";
import { grid } from "./grid.js";
import { uptimeOf, versionOf } from "./process.js";

/** Log directories are requested from each broker; of a larger cluster they are on the pages of the brokers only. */
const DISKS_MAX = 30;

export function open(values, query) {
  const view = {
    title: "Brokers",
    async load(signal) {
      const [brokers, cluster] = await Promise.all([get("/v1/brokers", { signal }), get("/v1/cluster", { signal })]);
      return { brokers: await Promise.all(brokers.map((broker) => withDisk(broker, brokers.length <= DISKS_MAX, signal))), controller: cluster.controller_id };
    },
    draw: ({ brokers, controller }) => card(null, brokerTable(view, query, brokers, controller, true)),
    cares: touches,
  };
  return view;
}

/** Whether an event changes which brokers are alive, or which partitions they have. */
export function touches({ kind }) {
  return !["config_changed", "quota_changed", "feature_changed"].includes(kind);
}

/** A broker with `used` and `free` bytes of its log directories; without them if they are not available. */
async function withDisk(broker, wanted, signal) {
  if (!wanted || broker.fenced) return broker;
  try {
    const dirs = (await get(url(["v1", "brokers", String(broker.id), "log-dirs"]), { signal })).filter((dir) => !dir.error);
    const free = dirs.map((dir) => dir.usable_bytes);
    return { ...broker, used: sum(dirs.map((dir) => dir.size_bytes)), free: free.includes(null) ? null : Math.min(...free) };
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return broker;
  }
}

function sum(numbers) {
  return numbers.reduce((all, each) => all + each, 0);
}

export function brokerTable(view, query, brokers, controller, disks = false) {
  return grid(view, query, "Brokers", [
    { title: "Broker", cell: (broker) => [link(`#/brokers/${broker.id}`, `broker ${broker.id}`, { key: `broker-${broker.id}` }), broker.id === controller && [" ", badge("controller")]], by: (broker) => broker.id },
    { title: "State", cell: (broker) => (broker.fenced ? badge("fenced", "bad") : broker.in_controlled_shutdown ? badge("shutting down", "warn") : badge("alive", "good")), by: (broker) => Number(!broker.fenced) },
    { title: "Address", cell: (broker) => broker.host && h("span", { class: "mono" }, `${broker.host}:${broker.port}`) },
    brokers.some((broker) => broker.rack) && { title: "Rack", cell: (broker) => broker.rack, by: (broker) => broker.rack },
    { title: "Leaders", number: true, cell: (broker) => count(broker.leaders), by: (broker) => broker.leaders },
    { title: "Replicas", number: true, cell: (broker) => count(broker.replicas), by: (broker) => broker.replicas },
    disks && { title: "Log size", number: true, cell: (broker) => bytes(broker.used), by: (broker) => broker.used },
    disks && { title: "Disk free", number: true, cell: (broker) => bytes(broker.free), by: (broker) => broker.free },
    { title: "Version", cell: versionOf, by: (broker) => broker.version },
    { title: "Uptime", number: true, cell: uptimeOf, by: (broker) => broker.uptime_ms },
  ].filter(Boolean), brokers, "No broker is registered.", { key: (broker) => broker.id });
}
