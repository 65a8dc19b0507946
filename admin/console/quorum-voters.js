// Who votes in the metadata quorum: a controller that follows is taken in, and a voter let go (KIP-853).

import { post, remove, url } from "./api.js";
import { ask, field, h, note } from "./dom.js";

/** `observers`: who follows; which of them is a controller, the cluster does not tell. */
export function addVoter(observers, view) {
  const directory = h("input", { name: "directory_id", required: true, pattern: "[A-Za-z0-9_\\-]{22}", autocomplete: "off", class: "mono" });
  const known = h("datalist", { id: "observers" }, observers.map((each) => h("option", { value: each.id }, each.directory_id)));
  const id = h("input", { name: "id", type: "number", min: 0, required: true, list: known.id, autocomplete: "off" });
  id.addEventListener("input", () => {
    const found = observers.find((each) => String(each.id) === id.value);
    if (found) directory.value = found.directory_id;
  });
  ask({
    title: "Add a voter",
    content: [
      h("p", {}, "A controller that follows the metadata log without lag votes from then on. Brokers follow it, too, and cannot vote."),
      known,
      field("Node", id, "its node.id"),
      field("Directory id", directory, "as in its meta.properties"),
      h("div", { class: "tools" },
        field("Listener", h("input", { name: "name", value: "CONTROLLER", required: true })),
        field("Host", h("input", { name: "host", value: "127.0.0.1", required: true })),
        field("Port", h("input", { name: "port", type: "number", min: 1, max: 65535, required: true }))),
    ],
    action: "Add",
    fields: { "listeners.0.host": "host", "listeners.0.port": "port", listeners: "port" },
    async submit(data) {
      const listener = { name: data.get("name"), host: data.get("host"), port: Number(data.get("port")) };
      await post("/v1/quorum/voters", { id: Number(data.get("id")), directory_id: data.get("directory_id"), listeners: [listener] });
      note(`Node ${data.get("id")} votes.`);
      view.look();
    },
  });
}

export function removeVoter(id, directory, isLeader, view) {
  ask({
    title: `Have node ${id} vote no more`,
    content: [
      h("p", {}, "It follows the metadata log from then on, and may be stopped. The others need a majority of themselves.", isLeader && " It is the active controller: it hands over first."),
      h("p", { class: "mono" }, directory),
    ],
    action: "Remove", danger: true,
    async submit() {
      await remove(url(["v1", "quorum", "voters", String(id), directory]));
      note(`Node ${id} does not vote any more.`);
      view.look();
    },
  });
}
