// A plan: generated or read from a file, shown, executed; and the stored state of a plan executed in this browser.

import { get, post, url } from "./api.js";
import { ask, button, card, check, field, h, link, note, nothing, select } from "./dom.js";
import { bytes, list, plural } from "./format.js";
import { grid } from "./grid.js";
import { keep, recall } from "./storage.js";
import { topicInput } from "./topic-input.js";
import { setQuery } from "./view.js";

const PATH = "/v1/reassignments";
const WAYS = [["keep", "move as few replicas as possible"], ["spread", "reassign all replicas"]];
let unkept = null; // if this browser stores nothing: until the page is left

/**
 * The plan executed in this browser: its partitions in the API's format, and whether a throttle must be removed.
 * It outlives the tab, and the next visit completes it.
 */
export function begun() {
  return recall("reassignment") ?? unkept;
}

export function remember(plan) {
  unkept = keep("reassignment", plan) ? null : plan;
}

/** Return {shown, offer(brokers)}: the form, and the element of the proposal. `begins()`: a plan was executed. */
export function planner(query, begins) {
  const proposed = h("div", { "aria-live": "polite" });
  const brokers = h("fieldset", { class: "plain" }, h("legend", {}, "Target brokers"), h("span", { class: "quiet" }, "Loading …"));
  const form = h("form", { class: "tools" },
    field("Topics", topicInput({ name: "topics", required: true, class: "wide", value: query.get("topics") ?? "", placeholder: "comma-separated names" }, true)),
    brokers,
    field("Strategy", select("way", WAYS, query.get("way") ?? "keep")),
    check("Spread over racks", { name: "racks", checked: query.get("racks") !== "no" }),
    button("Propose", () => form.requestSubmit(), { kind: "", needs: "operate", key: "propose" }),
    field("Or load a plan (JSON)", h("input", { type: "file", accept: ".json,application/json", onchange: (event) => read(event.target) })));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    propose(new FormData(form));
  });
  let turn = 0; // of proposals: the latest one is shown

  /** Offer the brokers that are alive: once, so that selected ones stay. */
  function offer(alive) {
    if (brokers.querySelector("input")) return;
    const wanted = query.get("brokers")?.split(",") ?? null;
    brokers.replaceChildren(h("legend", {}, "Target brokers"), ...alive.map((broker) =>
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "broker", value: broker.id, checked: wanted === null || wanted.includes(String(broker.id)) }),
        `${broker.id}`, broker.rack && h("span", { class: "quiet" }, broker.rack))));
  }

  async function show(making) {
    const mine = (turn += 1);
    form.classList.add("busy");
    proposed.replaceChildren(h("p", { class: "loading" }, "Loading …"));
    let found;
    try {
      found = proposal(await making());
    } catch (error) {
      found = h("p", { class: "wrong", role: "alert" }, error.message);
    }
    if (mine !== turn) return;
    form.classList.remove("busy");
    proposed.replaceChildren(found);
  }

  function propose(data) {
    const topics = data.get("topics").split(",").map((each) => each.trim()).filter(Boolean);
    const chosen = data.getAll("broker");
    setQuery(query, "topics", topics.join(","));
    setQuery(query, "brokers", chosen.join(","));
    setQuery(query, "way", data.get("way"));
    setQuery(query, "racks", data.has("racks") ? "" : "no");
    return show(async () => {
      if (!chosen.length) throw new Error("Select at least one broker.");
      return post(`${PATH}/propose`, { topics, brokers: chosen.map(Number), keep: data.get("way") === "keep", rack_aware: data.has("racks") });
    });
  }

  /** Show the plan in a file of Kafka's tool, or one that was saved here, as if it had been proposed. */
  async function read(input) {
    const [file] = input.files;
    await show(async () => {
      const partitions = planOf(await file.text());
      const topics = [...new Set(partitions.map((each) => each.topic))];
      const found = await Promise.all(topics.map((topic) => get(url(["v1", "topics", topic, "partitions"]))));
      const rows = partitions.map(({ topic, partition, replicas }) => {
        const current = found[topics.indexOf(topic)].find((each) => each.partition === partition)?.replicas;
        if (!current) throw new Error(`No such partition: ${topic}-${partition}.`);
        return { topic, partition, current, replicas, adding: replicas.filter((broker) => !current.includes(broker)), size_bytes: null };
      });
      const changed = rows.filter((row) => String(row.current) !== String(row.replicas));
      return { partitions: changed, unchanged: rows.length - changed.length, moved_replicas: changed.reduce((sum, row) => sum + row.adding.length, 0), moved_bytes: null };
    });
    input.value = "";
  }

  function proposal(plan) {
    const rows = plan.partitions;
    if (!rows.length) return nothing(`No changes: all ${plural(plan.unchanged, "partition")} already match the plan.`);
    const partitions = rows.map(({ topic, partition, replicas }) => ({ topic, partition, replicas }));
    const body = h("div", {});
    const of = { redraw: () => body.replaceChildren(...[drawn()].flat().filter(Boolean)) };
    const drawn = () => grid(of, query, "The plan", [
      { title: "Partition", cell: (each) => link(`#/topics/${encodeURIComponent(each.topic)}/partitions/${each.partition}`, `${each.topic}-${each.partition}`), by: (each) => `${each.topic}-${each.partition}` },
      { title: "Current", cell: (each) => list(each.current) },
      { title: "New", cell: (each) => list(each.replicas) },
      { title: "Copied to", cell: (each) => (each.adding.length ? list(each.adding) : h("span", { class: "quiet" }, "none (order only)")) },
      { title: "Size", number: true, cell: (each) => bytes(each.size_bytes), by: (each) => each.size_bytes },
    ], rows, "", { name: "proposed-" });
    of.redraw();
    return h("div", {},
      h("h3", {}, `${plural(rows.length, "partition")} would change, ${plural(plan.moved_replicas, "replica")} would be copied${plan.moved_bytes === null ? "" : `: ${bytes(plan.moved_bytes)}`}`),
      body,
      h("div", { class: "actions" },
        button("Start …", () => begin(partitions, rows), { kind: "", needs: "admin" }),
        button("Save as file", () => save(partitions)),
        button("Discard", () => proposed.replaceChildren())));
  }

  function begin(partitions, rows) {
    ask({
      title: `Move ${plural(partitions.length, "partition")}`,
      content: [
        h("p", {}, "Records are copied while clients produce and consume. To be able to go back, save the current assignment first, or cancel while the reassignment is in progress."),
        button("Save current assignment", () => save(rows.map(({ topic, partition, current }) => ({ topic, partition, replicas: current })), "before.json")),
        field("Throttle, MiB/s per broker", h("input", { name: "rate", type: "number", min: 0.001, step: "any", placeholder: "unlimited" }),
          "Removed when all partitions have moved and this page is open in this browser."),
        check("Allow while other reassignments are in progress", { name: "additional" }),
      ],
      action: "Start",
      fields: { throttle_bytes_per_second: "rate" },
      async submit(data) {
        const rate = data.get("rate") === "" ? null : Math.max(1, Math.round(Number(data.get("rate")) * 2 ** 20));
        const started = await post(PATH, { partitions, throttle_bytes_per_second: rate, additional: data.has("additional") });
        const failed = started.filter((each) => each.error);
        const moving = partitions.filter((each) => !failed.some((one) => one.topic === each.topic && one.partition === each.partition));
        const before = data.has("additional") ? begun() : null;
        const others = (before?.partitions ?? []).filter((each) => !moving.some((one) => one.topic === each.topic && one.partition === each.partition));
        if (moving.length) remember({ partitions: [...others, ...moving], throttled: rate !== null || Boolean(before?.throttled) });
        begins();
        if (failed.length) throw new Error(failed.map((each) => `${each.topic}-${each.partition}: ${each.message || each.error}`).join("; "));
        proposed.replaceChildren();
        note(`${plural(moving.length, "partition")} started to move.`);
      },
    });
  }

  const shown = h("div", {}, card("Propose a plan", h("p", { class: "quiet" }, "Nothing moves until you start the previewed plan."), form, proposed));
  return { shown, offer };
}

/** Read the partitions of a file. Throws an Error with the reason. */
function planOf(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON.");
  }
  if (!Array.isArray(file?.partitions) || !file.partitions.length) throw new Error("The file has no “partitions”.");
  if (!file.partitions.every((each) => typeof each?.topic === "string" && Number.isInteger(each.partition) && Array.isArray(each.replicas)))
    throw new Error("Each of the file’s partitions needs a topic, a partition and its replicas.");
  if (file.partitions.some((each) => (each.log_dirs ?? []).some((dir) => dir !== "any")))
    throw new Error("Moves between log directories are not supported: log_dirs must be “any”.");
  return file.partitions;
}

/** Give the partitions as a file of Kafka's kafka-reassign-partitions. */
function save(partitions, name = "plan.json") {
  const file = { version: 1, partitions: partitions.map((each) => ({ ...each, log_dirs: each.replicas.map(() => "any") })) };
  const made = h("a", { href: URL.createObjectURL(new Blob([JSON.stringify(file)], { type: "application/json" })), download: name });
  made.click();
  URL.revokeObjectURL(made.href);
}
