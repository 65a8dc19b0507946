// Dialogs for actions on a topic.

import { post, remove, url } from "./api.js";
import { ask, button, check, field, h, note } from "./dom.js";
import { list, plural } from "./format.js";
import { configsOf, to } from "./topics.js";

/** So many partitions have a field each; of more, one is chosen. */
const FIELDS_MAX = 24;

export function grow(name, view) {
  ask({
    title: ["Add partitions to ", h("bdi", {}, name)],
    content: field("Total partitions", h("input", { name: "count", type: "number", min: 1, required: true }), "Keys may map to other partitions afterwards."),
    action: "Add",
    async submit(data) {
      await post(url(["v1", "topics", name, "partitions"]), { count: Number(data.get("count")) });
      note("Partitions added.");
      view.look();
    },
  });
}

/** A copy of this topic: omitted fields are those of the original. */
export function clone(name, topic) {
  ask({
    title: ["Clone ", h("bdi", {}, name)],
    content: [
      h("p", {}, "Creates a topic with the same number of partitions and replicas and the same configs. Records are not copied."),
      field("Name", h("input", { name: "name", required: true, maxlength: 249, pattern: "[a-zA-Z0-9._\\-]+", autocomplete: "off", value: `${name}-copy`.slice(0, 249) }), "letters, digits, dot, _ and -"),
      field("Partitions", h("input", { name: "partitions", type: "number", min: 1, placeholder: topic.partitions })),
      field("Replicas", h("input", { name: "replication_factor", type: "number", min: 1, placeholder: topic.replication_factor })),
      field("Other configs", h("textarea", { name: "configs", placeholder: "retention.ms=86400000" }), "added to or replacing those of the topic; one per line, name=value, or name= for the default"),
      check("Validate only", { name: "dry" }),
    ],
    action: "Clone",
    async submit(data) {
      const number = (each) => (data.get(each) ? Number(data.get(each)) : null);
      const dry = data.has("dry");
      const configs = Object.fromEntries(Object.entries(configsOf(data.get("configs"))).map(([key, value]) => [key, value === "" ? null : value]));
      const made = await post(url(["v1", "topics", name, "clone"], { validate_only: dry && "true" }), {
        name: data.get("name"), partitions: number("partitions"), replication_factor: number("replication_factor"), configs,
      });
      note(dry ? `${made.name} is valid: ${plural(made.partitions, "partition")}.` : `Topic ${made.name} created from ${name}.`);
      if (!dry) location.hash = to(made.name);
    },
  });
}

/** The chosen broker also becomes the preferred leader, so a later balancing does not revert it. */
export function lead(name, each, view) {
  const able = each.replicas.filter((broker) => broker !== each.leader && each.isr.includes(broker));
  const behind = each.replicas.filter((broker) => !each.isr.includes(broker));
  ask({
    title: `Move the leader of ${name}-${each.partition}`,
    content: [
      h("p", {}, each.leader < 0 ? "The partition has no leader." : `Broker ${each.leader} is the leader. The selected replica also becomes the preferred leader. No data is copied.`),
      h("fieldset", { class: "plain" }, h("legend", {}, "To"), able.map((broker, at) =>
        h("label", { class: "check" }, h("input", { type: "radio", name: "broker", value: broker, required: true, checked: at === 0 }), `broker ${broker}`))),
      !able.length && h("p", { class: "wrong" }, "No other replica is in sync."),
      behind.length > 0 && h("p", { class: "quiet" }, `Not in sync, cannot be selected: ${list(behind)}.`),
    ],
    action: "Move",
    async submit(data) {
      if (data.get("broker") === null) throw new Error("Select a replica.");
      const led = await post(url(["v1", "topics", name, "partitions", String(each.partition), "leader"]), { broker: Number(data.get("broker")) });
      note(`Broker ${led.leader} is the leader of ${name}-${each.partition}.`);
      view.look();
    },
  });
}

export function drop(name) {
  ask({
    title: ["Delete ", h("bdi", {}, name)],
    content: field("Topic name, to confirm", h("input", { name: "name", required: true, autocomplete: "off" }), "All records are lost."),
    action: "Delete permanently",
    danger: true,
    async submit(data) {
      if (data.get("name") !== name) throw new Error("The name does not match.");
      await remove(url(["v1", "topics", name]));
      note(`Topic ${name} deleted.`);
      location.hash = "#/topics";
    },
  });
}

/** Delete records before an offset in each partition; the fields have the current log start, which deletes nothing. */
export function deleteRecords(name, topic, view) {
  const rows = topic.details;
  const few = rows.length <= FIELDS_MAX;
  const fields = few ? rows.map(offsetField) : [
    field("Partition", h("input", { name: "one", type: "number", min: 0, max: rows.length - 1, required: true })),
    field("Delete records before offset", h("input", { name: "offset", type: "number", min: 0, required: true }))];
  const all = button("Select all records", () => {
    for (const input of dialog.querySelectorAll("input[data-end]")) input.value = input.dataset.end;
  });
  const dialog = ask({
    title: ["Delete records of ", h("bdi", {}, name)],
    content: [
      h("p", {}, "Deletes all records before the given offset, on all replicas. The record at the offset stays."),
      few ? h("div", { class: "grid" }, fields) : fields, few && rows.length > 0 && h("div", { class: "actions start" }, all),
      field("Topic name, to confirm", h("input", { name: "name", required: true, autocomplete: "off" })),
    ],
    action: "Delete permanently",
    danger: true,
    fields: { partitions: "name" },
    async submit(data) {
      if (data.get("name") !== name) throw new Error("The name does not match.");
      const partitions = few ? changed(rows, data) : { [data.get("one")]: Number(data.get("offset")) };
      if (!Object.keys(partitions).length) throw new Error("Every offset equals the start of its log: nothing would be deleted.");
      const done = await post(url(["v1", "topics", name, "records", "delete"]), { partitions });
      const failed = done.filter((each) => each.error);
      view.look();
      if (failed.length) throw new Error(failed.map((each) => `${name}-${each.partition}: ${each.error}`).join("; "));
      note(`Records deleted in ${plural(done.length, "partition")}.`);
    },
  });
}

function offsetField({ partition, earliest_offset: first, latest_offset: end }) {
  const told = first !== null && end !== null;
  return field(`Partition ${partition}`, h("input", { name: `offset-${partition}`, type: "number", min: first ?? 0, max: end ?? undefined, value: first ?? "", "data-end": end ?? "", disabled: !told }),
    told ? `${first} to ${end}` : "offsets not available");
}

function changed(rows, data) {
  return Object.fromEntries(rows
    .map((each) => [each, data.get(`offset-${each.partition}`)])
    .filter(([each, said]) => said !== null && said !== "" && Number(said) > each.earliest_offset)
    .map(([each, said]) => [each.partition, Number(said)]));
}
