// One topic: its partitions, its configs, what may be done to it.

import { get, post, remove, url } from "./api.js";
import { alter, configTable, configTools } from "./brokers.js";
import { ask, badge, card, field, figure, h, note, table } from "./dom.js";
import { count, list } from "./format.js";

export function open({ topic: name, tab = "partitions" }, query) {
  const path = (...more) => url(["v1", "topics", name, ...more]);
  const view = {
    title: name,
    actions: [
      h("a", { class: "button plain", href: `#/topics/${encodeURIComponent(name)}/messages` }, "Messages"),
      h("button", { type: "button", class: "plain", onclick: () => grow() }, "Add partitions"),
      h("button", { type: "button", class: "danger", onclick: () => drop() }, "Delete"),
    ],
    tools: [tabs(name, tab), tab === "configs" && configTools(query, () => view.look())],
    async load(signal) {
      const [topic, configs] = await Promise.all([
        get(path(), { signal }),
        tab === "configs" ? get(url(["v1", "topics", name, "configs"], { all: query.has("all") && "true" }), { signal }) : null,
      ]);
      return { topic, configs };
    },
    draw: ({ topic, configs }) => configs ? card("Configs", configTable(configs, query, (entry) => alter(path("configs"), entry, view))) : [
      h("dl", { class: "figures" },
        figure("Partitions", count(topic.partitions)), figure("Replicas", count(topic.replication_factor)),
        figure("Records", count(topic.details.reduce((sum, each) => sum + (each.latest_offset ?? 0) - (each.earliest_offset ?? 0), 0))),
        figure("Under-replicated", count(topic.under_replicated), topic.under_replicated ? "warn" : ""),
        figure("Topic id", topic.topic_id, "small")),
      card("Partitions", partitions(topic)),
    ],
    cares: (event) => !event.data.topic || event.data.topic === name,
  };

  function grow() {
    ask({
      title: `Add partitions to ${name}`,
      content: field("Partitions in all", h("input", { name: "count", type: "number", min: 1, required: true }), "Keys go to other partitions from then on."),
      action: "Add",
      async submit(data) {
        await post(path("partitions"), { count: Number(data.get("count")) });
        note("The partitions are added.");
        view.look();
      },
    });
  }

  function drop() {
    ask({
      title: `Delete ${name}`,
      content: field("The topic’s name, to be sure", h("input", { name: "name", required: true, autocomplete: "off" }), "All its records are lost."),
      action: "Delete for good",
      danger: true,
      async submit(data) {
        if (data.get("name") !== name) throw new Error("That is not its name.");
        await remove(path());
        note(`${name} is deleted.`);
        location.hash = "#/topics";
      },
    });
  }
  return view;
}

function tabs(name, tab) {
  const root = `#/topics/${encodeURIComponent(name)}`;
  return h("div", { class: "tabs" }, [["partitions", "Partitions"], ["configs", "Configs"]].map(([key, text]) =>
    h("a", { href: key === "partitions" ? root : `${root}/${key}`, "aria-current": key === tab && "true" }, text)));
}

function partitions(topic) {
  const state = (each) => {
    if (each.leader < 0) return badge("no leader", "bad");
    return each.isr.length < each.replicas.length ? badge(`${each.isr.length} of ${each.replicas.length} in sync`, "warn") : badge("in sync", "good");
  };
  return table("Partitions", [
    { title: "Partition", number: true, cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(topic.name)}/batches/${each.partition}`, "aria-label": `Batches of partition ${each.partition}` }, each.partition) },
    { title: "State", cell: state },
    { title: "Leader", cell: (each) => (each.leader < 0 ? "–" : [h("a", { href: `#/brokers/${each.leader}` }, each.leader), each.leader !== each.replicas[0] && [" ", badge("not the preferred one")]]) },
    { title: "Replicas", cell: (each) => list(each.replicas) },
    { title: "In sync", cell: (each) => list(each.isr) },
    { title: "Epoch", number: true, cell: (each) => count(each.leader_epoch) },
    { title: "First offset", number: true, cell: (each) => count(each.earliest_offset) },
    { title: "End offset", number: true, cell: (each) => count(each.latest_offset) },
  ], topic.details, "No partitions.");
}
