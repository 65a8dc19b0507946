// A broker's maintenance and decommission, on its page: the requested state, the progress, and the buttons.

import { get, put, remove, url } from "./api.js";
import { ask, badge, button, card, field, h, note } from "./dom.js";
import { count } from "./format.js";

const KINDS = { active: "good", draining: "warn", maintenance: "warn", returning: "warn", moving: "warn", decommissioned: "bad" };
const most = new Map(); // broker and requested state -> the largest number left: the length of the bar

/** The admin state of a broker, or the error. */
export async function adminState(id, signal) {
  try {
    return await get(url(["v1", "brokers", id, "maintenance"]), { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    return error;
  }
}

export function adminStateCard(id, brokerState, view) {
  return card("Maintenance and decommission", h("div", { "data-admin-state": "" },
    brokerState instanceof Error ? h("p", { class: "wrong" }, brokerState.message) : drawn(id, brokerState, view)));
}

function drawn(id, brokerState, view) {
  const key = `${id} ${brokerState.requested}`;
  if (brokerState.done) most.delete(key);
  else most.set(key, Math.max(most.get(key) ?? 0, brokerState.left, brokerState.replicas * (brokerState.requested === "decommissioned")));
  const all = most.get(key);
  return [
    h("p", {}, badge(brokerState.state, KINDS[brokerState.state]), " ", brokerState.message),
    all > 0 && h("p", {},
      h("progress", { max: all, value: all - brokerState.left, "aria-label": `Progress, ${all} in total` }),
      ` ${count(all - brokerState.left)} of ${count(all)}`, brokerState.throttle_bytes_per_second && `, limited to ${count(brokerState.throttle_bytes_per_second)} bytes/s per broker`),
    brokerState.kept.length > 0 && h("p", { class: "quiet" }, `Still the leader, because no other replica is in sync: ${brokerState.kept.join(", ")}`),
    h("div", { class: "actions" }, buttons(id, brokerState, view)),
  ];
}

function buttons(id, brokerState, view) {
  const maintenance = url(["v1", "brokers", id, "maintenance"]);
  const decommission = url(["v1", "brokers", id, "decommission"]);
  const question = (text, kind, needs, { title, told, action, work, danger = false }) => button(text, () => ask({
    title,
    content: told,
    action,
    danger,
    fields: { throttle_bytes_per_second: "throttle" },
    async submit(data) {
      await work(data);
      note(`Broker ${id}: ${action.toLowerCase()}.`);
      view.look();
    },
  }), { kind, needs, key: `admin-state-${text}` });
  const begin = question("Begin maintenance", "plain", "operate", { title: `Take broker ${id} out for maintenance`,
    told: h("p", {}, "Leadership moves to other in-sync replicas. The replicas of this broker keep following. The broker can be stopped afterwards."),
    action: "Begin", work: () => put(maintenance) });
  const end = question("End maintenance", "", "operate", { title: `End the maintenance of broker ${id}`,
    told: h("p", {}, "The broker becomes leader again where it is the preferred leader, as soon as it is in sync."), action: "End", work: () => remove(maintenance) });
  const leave = question("Decommission", "plain", "admin", { title: `Decommission broker ${id}`, told: [
    h("p", {}, "The broker receives no new replicas, and its replicas move to other brokers. It can be stopped and unregistered afterwards."),
    field("Throttle", h("input", { name: "throttle", type: "number", min: 1, autocomplete: "off" }), "Maximum bytes per second per broker; empty: unlimited"),
  ], action: "Decommission", danger: true, work: (data) => put(decommission, { throttle_bytes_per_second: Number(data.get("throttle")) || null }) });
  const stay = question("Recommission", "", "admin", { title: `Recommission broker ${id}`,
    told: h("p", {}, "The broker stays in the cluster. Moves in progress are cancelled; replicas that have moved stay where they are."), action: "Recommission", work: () => remove(decommission) });
  const forget = question("Unregister", "danger", "admin", { title: `Unregister broker ${id}`, danger: true,
    told: h("p", {}, "Removes the registration of the broker. Stop the broker first."), action: "Unregister", work: async () => {
      await remove(url(["v1", "brokers", id]));
      location.hash = "#/brokers";
    } });
  if (brokerState.requested === "maintenance") return [end];
  if (brokerState.requested === "decommissioned") return brokerState.state === "decommissioned" ? [stay, forget] : [stay];
  return [begin, leave];
}
