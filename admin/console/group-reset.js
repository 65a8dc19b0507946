// The wizard that sets a group's offsets, with a preview.

import { post, url } from "./api.js";
import { askWithPreview, field, h, note, select, table } from "./dom.js";
import { plural, zone } from "./format.js";
import { topicInput } from "./topic-input.js";

const WAYS = [["earliest", "earliest"], ["latest", "latest"], ["at", "timestamp"], ["by_duration", "duration ago"], ["shift_by", "shift by offsets"],
  ["offset", "one offset for all"], ["offsets", "offset per partition"], ["current", "current offset"]];
const PLAIN = ["earliest", "latest", "current"];
/** Up to this number, each partition has a field with its current offset. */
const FIELDS_MAX = 200;
const SHOWN = 200;

/** `group`: the page's data on it, null if not loaded. */
export function reset(id, group, view) {
  const places = (group?.offsets ?? []).slice(0, FIELDS_MAX);
  const at = h("input", { name: "at", autocomplete: "off" });
  const way = select("to", WAYS.filter(([key]) => key !== "offsets" || places.length), "earliest");
  const hint = h("small", {});
  const which = field("Value", at);
  const topics = field("Topics", topicInput({ name: "topics", placeholder: "all topics with committed offsets" }, true), "comma-separated names");
  const each = h("div", { class: "grid" }, places.map(placeField));
  const kept = (group?.offsets.length ?? 0) - places.length;
  const cut = kept > 0 && h("p", { class: "quiet" }, `${plural(kept, "partition")} more are not listed here and stay unchanged.`);
  const resetTo = (data, dryRun) => post(url(["v1", "groups", id, "offsets", "reset"], { dry_run: dryRun ? "true" : "false" }), requestOf(data, places));
  const dialog = askWithPreview({
    title: ["Reset offsets of ", h("bdi", {}, id)],
    content: [
      group && !["Empty", "Dead"].includes(group.state) && h("p", { class: "wrong" }, `The group is ${group.state}: offsets can only be reset while it has no members.`),
      field("To", way), which, hint, topics, h("div", { hidden: true }, each, cut),
    ],
    fields: { at: "at", by_duration: "at", shift_by: "at", offset: "at", timestamp_ms: "at", offsets: "at" },
    preview: async (data, show) => show(shown((await resetTo(data, true)).partitions)),
    async apply(data) {
      const made = await resetTo(data, false);
      view.look();
      const failed = made.partitions.filter((row) => row.error);
      if (failed.length) throw new Error(failed.map((row) => `${row.topic}-${row.partition}: ${row.error}`).join("; "));
      note(`${plural(made.partitions.length, "offset")} reset.`);
    },
  });
  const fit = () => {
    at.type = { at: "datetime-local", shift_by: "number", offset: "number" }[way.value] ?? "text";
    at.step = way.value === "at" ? "0.001" : "1";
    which.hidden = PLAIN.includes(way.value) || way.value === "offsets";
    topics.hidden = way.value === "offsets";
    each.parentElement.hidden = way.value !== "offsets";
    hint.textContent = { by_duration: "ISO 8601: PT1H30M, P2D", shift_by: "-100 moves back 100 offsets", at: `in ${zone()}` }[way.value] ?? "";
  };
  way.addEventListener("change", () => {
    at.value = "";
    fit();
  });
  fit();
}

function placeField(place, at) {
  const now = place.committed_offset;
  return field(`${place.topic}-${place.partition}`, h("input", { name: `place-${at}`, type: "number", min: 0, value: now ?? "" }),
    [now === null ? "no committed offset" : `committed ${now}`, place.end_offset === null ? "" : `, end ${place.end_offset}`].join(""));
}

function shown(rows) {
  return [
    table("Preview", [
      { title: "Partition", cell: (row) => `${row.topic}-${row.partition}` },
      { title: "Current", number: true, cell: (row) => row.before },
      { title: "New", number: true, cell: (row) => row.after },
      { title: "Note", cell: (row) => row.note ?? "" },
    ], rows.slice(0, SHOWN), "No change: the group has no committed offsets. Enter topics."),
    rows.length > SHOWN && h("p", { class: "quiet" }, `The first ${SHOWN} of ${plural(rows.length, "partition")}.`),
  ];
}

function requestOf(data, places) {
  const way = data.get("to");
  if (way === "offsets") {
    const changed = places.map(({ topic, partition, committed_offset: now }, at) => ({ topic, partition, now, said: data.get(`place-${at}`) }))
      .filter(({ said, now }) => said !== "" && Number(said) !== now);
    if (!changed.length) throw new Error("No offset was changed.");
    return { offsets: changed.map(({ topic, partition, said }) => ({ topic, partition, offset: Number(said) })) };
  }
  const at = data.get("at");
  const topics = data.get("topics").split(",").map((name) => name.trim()).filter(Boolean);
  if (!PLAIN.includes(way) && !at) throw new Error("Enter a value.");
  const body = PLAIN.includes(way) ? { to: way }
    : { [way]: { at: () => new Date(at).toISOString(), by_duration: () => at, shift_by: () => Number(at), offset: () => Number(at) }[way]() };
  if (topics.length) body.topics = Object.fromEntries(topics.map((topic) => [topic, null]));
  return body;
}
