// Voters of the metadata quorum: add an observer controller, remove a voter (KIP-853).

import { post, remove, url } from "./api.js";
import { ask, field, h, note } from "./dom.js";

/** `observers`: the cluster does not report which of them are controllers. */
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
      h("p", {}, "Makes a caught-up controller a voter. Brokers are observers as well, but cannot vote."),
      known,
      field("Node", id, "node.id"),
      field("Directory id", directory, "from meta.properties"),
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
      note(`Node ${data.get("id")} is now a voter.`);
      view.look();
    },
  });
}

export function removeVoter(id, directory, isLeader, view) {
  ask({
    title: `Remove voter ${id}`,
    content: [
      h("p", {}, "The node becomes an observer and can be stopped. The majority is then counted among the remaining voters.", isLeader && " It is the active controller: another voter takes over first."),
      h("p", { class: "mono" }, directory),
    ],
    action: "Remove", danger: true,
    async submit() {
      await remove(url(["v1", "quorum", "voters", String(id), directory]));
      note(`Node ${id} is no longer a voter.`);
      view.look();
    },
  });
}
