// A broker's maintenance and decommission, on its page: what is asked of it, how far that is, and the buttons for it.

import { get, put, remove, url } from "./api.js";
import { ask, badge, card, field, h, note } from "./dom.js";
import { count } from "./format.js";

const KINDS = { active: "good", draining: "warn", maintenance: "warn", returning: "warn", moving: "warn", decommissioned: "bad" };
const most = new Map(); // broker -> the most that was left while this was asked: what the bar is held against

/** The card of a broker; it asks by itself, and shows what was known until it has an answer. */
export function dutyCard(id, view) {
  const body = h("div", { "data-duty": "" });
  const show = () => body.replaceChildren(...drawn(id, view.duty, view));
  if (view.duty) show();
  get(url(["v1", "brokers", id, "maintenance"])).then((duty) => {
    view.duty = duty;
    show();
  }, (error) => body.replaceChildren(h("p", { class: "wrong" }, error.message)));
  return card("Maintenance and decommission", body);
}

function drawn(id, duty, view) {
  const key = `${id} ${duty.asked}`;
  if (duty.done) most.delete(key);
  else most.set(key, Math.max(most.get(key) ?? 0, duty.left, duty.replicas * (duty.asked === "decommissioned")));
  const all = most.get(key);
  return [
    h("p", {}, badge(duty.state, KINDS[duty.state]), " ", duty.message),
    all > 0 && h("p", {},
      h("progress", { max: all, value: all - duty.left, "aria-label": `What has moved of ${all}` }),
      ` ${count(all - duty.left)} of ${count(all)}`, duty.throttle_bytes_per_second && `, at most ${count(duty.throttle_bytes_per_second)} bytes a second each broker`),
    duty.kept.length > 0 && h("p", { class: "quiet" }, `Led here since nobody else is in sync: ${duty.kept.join(", ")}`),
    h("div", { class: "actions" }, buttons(id, duty, view)),
  ].filter(Boolean);
}

function buttons(id, duty, view) {
  const maintenance = url(["v1", "brokers", id, "maintenance"]);
  const decommission = url(["v1", "brokers", id, "decommission"]);
  const button = (text, kind, question) => h("button", { type: "button", class: kind, "data-key": `duty-${text}`, onclick: () => ask(question) }, text);
  const asked = (title, told, action, work, danger = false) => ({
    title,
    content: told,
    action,
    danger,
    async submit(data) {
      await work(data);
      note(`Broker ${id}: ${action.toLowerCase()}.`);
      view.look();
    },
  });
  const begin = button("Begin maintenance", "plain", asked(`Take broker ${id} out for maintenance`,
    h("p", {}, "It leads nothing from now on that another replica in sync can lead; its replicas follow. Then it may be stopped."),
    "Begin", () => put(maintenance)));
  const end = button("End maintenance", "", asked(`End the maintenance of broker ${id}`,
    h("p", {}, "It gets back what it is the preferred leader of, as soon as it is in sync."), "End", () => remove(maintenance)));
  const leave = button("Decommission", "danger", asked(`Decommission broker ${id}`, [
    h("p", {}, "It gets no new replicas, and those it has are moved to other brokers. Then it may be stopped and unregistered."),
    field("Throttle", h("input", { name: "throttle", type: "number", min: 1, autocomplete: "off" }), "Bytes a second that each broker moves at the most; empty: as fast as it goes."),
  ], "Decommission", (data) => put(decommission, { throttle_bytes_per_second: Number(data.get("throttle")) || null }), true));
  const stay = button("Recommission", "", asked(`Recommission broker ${id}`,
    h("p", {}, "It stays: what is on its way goes back, what has moved stays where it is."), "Recommission", () => remove(decommission)));
  const forget = button("Unregister", "danger", asked(`Unregister broker ${id}`,
    h("p", {}, "The cluster forgets it. It has to be stopped."), "Unregister", async () => {
      await remove(url(["v1", "brokers", id]));
      location.hash = "#/brokers";
    }, true));
  if (duty.asked === "maintenance") return [end];
  if (duty.asked === "decommissioned") return duty.state === "decommissioned" ? [stay, forget] : [stay];
  return [begin, leave];
}
