// One topic: its partitions, its configs, what may be done to it.

import { get, post, remove, url } from "./api.js";
import { alter, configTable, configTools } from "./brokers.js";
import { ask, badge, card, field, figure, h, note, table, tabs } from "./dom.js";
import { count, list } from "./format.js";

export function open({ topic: name, tab = "partitions" }, query) {
  const path = (...more) => url(["v1", "topics", name, ...more]);
  const view = {
    title: name,
    actions: [
      h("a", { class: "button plain", href: `#/topics/${encodeURIComponent(name)}/messages` }, "Messages"),
      h("button", { type: "button", class: "plain", onclick: () => grow() }, "Add partitions"),
      h("a", { class: "button plain", href: `#/reassignment?topics=${encodeURIComponent(name)}` }, "Move"),
      h("button", { type: "button", class: "danger", onclick: () => drop() }, "Delete"),
    ],
    tools: [tabs("Parts of the topic", parts(name), tab === "partitions" ? root(name) : `${root(name)}/${tab}`), tab === "configs" && configTools(query, () => view.look())],
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
      card("Partitions", partitions(topic, lead)),
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

  // Who is chosen becomes the preferred leader, too: a later balancing does not take it back.
  function lead(each) {
    const able = each.replicas.filter((broker) => broker !== each.leader && each.isr.includes(broker));
    const behind = each.replicas.filter((broker) => !each.isr.includes(broker));
    ask({
      title: `Move the leader of ${name}-${each.partition}`,
      content: [
        h("p", {}, each.leader < 0 ? "Nobody leads it." : `Broker ${each.leader} leads it. Who is chosen is the preferred leader from then on; no record is copied.`),
        h("fieldset", { class: "plain" }, h("legend", {}, "To"), able.map((broker, at) =>
          h("label", { class: "check" }, h("input", { type: "radio", name: "broker", value: broker, required: true, checked: at === 0 }), `broker ${broker}`))),
        !able.length && h("p", { class: "wrong" }, "No other replica is in sync."),
        behind.length > 0 && h("p", { class: "quiet" }, `Not in sync, and so not to be chosen: ${list(behind)}.`),
      ],
      action: "Move",
      async submit(data) {
        if (data.get("broker") === null) throw new Error("No replica is chosen.");
        const led = await post(path("partitions", String(each.partition), "leader"), { broker: Number(data.get("broker")) });
        note(`${name}-${each.partition} is led by broker ${led.leader}.`);
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

function root(name) {
  return `#/topics/${encodeURIComponent(name)}`;
}

function parts(name) {
  return [[root(name), "Partitions"], [`${root(name)}/configs`, "Configs"]];
}

function partitions(topic, lead) {
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
    { title: "", cell: (each) => each.replicas.length > 1 && h("button", { type: "button", class: "plain", "data-key": `lead-${each.partition}`, "aria-label": `Move the leader of partition ${each.partition}`, onclick: () => lead(each) }, "Move leader") },
  ], topic.details, "No partitions.");
}
