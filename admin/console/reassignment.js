// Reassignment: what is under way and how far; a plan is proposed, looked at, begun and watched.

import { get, post, url } from "./api.js";
import { ask, badge, card, field, h, note, nothing, select, table } from "./dom.js";
import { bytes, count, list, plural } from "./format.js";
import { setQuery } from "./view.js";

const PATH = "/v1/reassignments";
const BEGUN = "kvorum.reassignment";
const SHOWN = 200;
const WAYS = [["keep", "move as little as possible"], ["spread", "place all anew"]];
const STATES = { completed: "good", "in progress": "warn", "not as wanted": "bad" };

/** The plan begun in this window: its partitions as the API takes them, and whether a throttle is to be taken off. */
function begun() {
  return JSON.parse(sessionStorage.getItem(BEGUN));
}

function remember(plan) {
  if (plan === null) sessionStorage.removeItem(BEGUN);
  else sessionStorage.setItem(BEGUN, JSON.stringify(plan));
}

export function open(values, query) {
  const proposed = h("div", { "aria-live": "polite" });
  const brokers = h("fieldset", { class: "plain" }, h("legend", {}, "On brokers"), h("span", { class: "quiet" }, "Loading …"));
  const form = h("form", { class: "tools" },
    field("Topics", h("input", { name: "topics", required: true, autocomplete: "off", class: "wide", value: query.get("topics") ?? "", placeholder: "names, with commas between" })),
    brokers,
    field("How", select("way", WAYS, query.get("way") ?? "keep")),
    h("label", { class: "check" }, h("input", { type: "checkbox", name: "racks", checked: query.get("racks") !== "no" }), "spread over racks"),
    h("button", { type: "submit" }, "Propose"),
    field("Or a plan from a file", h("input", { type: "file", accept: ".json,application/json", onchange: (event) => read(event.target) })));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    propose(new FormData(form));
  });
  const view = {
    title: "Reassignment",
    tools: h("div", {}, card("Propose a plan", h("p", { class: "quiet" }, "Nothing moves before you have seen what would, and begun it."), form, proposed)),
    actions: h("button", { type: "button", class: "plain", "data-key": "again", onclick: () => view.look() }, "Look again"),
    async load(signal) {
      const [rows, alive] = await Promise.all([get(PATH, { signal }), get("/v1/brokers", { signal })]);
      choice(alive.filter((broker) => !broker.fenced));
      const plan = begun();
      if (plan === null) return { rows, watched: null };
      // Looking after the plan takes its throttle off, once nothing is under way any more.
      const off = plan.throttled && rows.length === 0;
      const watched = await post(`${PATH}/verify`, { partitions: plan.partitions, preserve_throttles: !off }, { signal });
      if (watched.unthrottled_brokers.length) remember({ ...plan, throttled: false, freed: true });
      return { rows, watched: { ...watched, freed: begun().freed } };
    },
    draw: ({ rows, watched }) => [watched && watch(watched), underWay(rows)],
    cares: (event) => !["config_changed", "quota_changed", "feature_changed"].includes(event.kind),
  };

  /** Offer the brokers that are alive, once: what was ticked stays. */
  function choice(alive) {
    if (brokers.querySelector("input")) return;
    const wanted = query.get("brokers")?.split(",") ?? null;
    brokers.replaceChildren(h("legend", {}, "On brokers"), ...alive.map((broker) =>
      h("label", { class: "check" }, h("input", { type: "checkbox", name: "broker", value: broker.id, checked: wanted === null || wanted.includes(String(broker.id)) }),
        `${broker.id}`, broker.rack && h("span", { class: "quiet" }, broker.rack))));
  }

  async function propose(data) {
    const topics = data.get("topics").split(",").map((each) => each.trim()).filter(Boolean);
    const chosen = data.getAll("broker");
    setQuery(query, "topics", topics.join(","));
    setQuery(query, "brokers", chosen.join(","));
    setQuery(query, "way", data.get("way"));
    setQuery(query, "racks", data.has("racks") ? "" : "no");
    form.classList.add("busy");
    try {
      if (!chosen.length) throw new Error("No broker is chosen.");
      const plan = await post(`${PATH}/propose`, { topics, brokers: chosen.map(Number), keep: data.get("way") === "keep", rack_aware: data.has("racks") });
      proposed.replaceChildren(proposal(plan));
    } catch (error) {
      proposed.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    } finally {
      form.classList.remove("busy");
    }
  }

  /** Show the plan in a file of Kafka's tool, or one that was saved here, as if it had been proposed. */
  async function read(input) {
    try {
      const partitions = planOf(await input.files[0].text());
      const topics = [...new Set(partitions.map((each) => each.topic))];
      const found = await Promise.all(topics.map((topic) => get(url(["v1", "topics", topic, "partitions"]))));
      const rows = partitions.map(({ topic, partition, replicas }) => {
        const current = found[topics.indexOf(topic)].find((each) => each.partition === partition)?.replicas;
        if (!current) throw new Error(`There is no partition ${topic}-${partition}.`);
        return { topic, partition, current, replicas, adding: replicas.filter((broker) => !current.includes(broker)), size_bytes: null };
      });
      const changed = rows.filter((row) => String(row.current) !== String(row.replicas));
      proposed.replaceChildren(proposal({ partitions: changed, unchanged: rows.length - changed.length, moved_replicas: changed.reduce((sum, row) => sum + row.adding.length, 0), moved_bytes: null }));
    } catch (error) {
      proposed.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    } finally {
      input.value = "";
    }
  }

  function proposal(plan) {
    const rows = plan.partitions;
    if (!rows.length) return nothing(`All ${plural(plan.unchanged, "partition")} are where they are wanted: nothing would move.`);
    const partitions = rows.map(({ topic, partition, replicas }) => ({ topic, partition, replicas }));
    return h("div", {},
      h("h3", {}, `${plural(rows.length, "partition")} would change, ${plural(plan.moved_replicas, "replica")} be copied${plan.moved_bytes === null ? "" : `: ${bytes(plan.moved_bytes)}`}`),
      table("The plan", [
        { title: "Partition", cell: (each) => `${each.topic}-${each.partition}` },
        { title: "Now on", cell: (each) => list(each.current) },
        { title: "Then on", cell: (each) => list(each.replicas) },
        { title: "Copied to", cell: (each) => (each.adding.length ? list(each.adding) : h("span", { class: "quiet" }, "nobody: another order")) },
        { title: "Size", number: true, cell: (each) => bytes(each.size_bytes) },
      ], rows.slice(0, SHOWN), ""),
      rows.length > SHOWN && h("p", { class: "quiet" }, `The first ${count(SHOWN)} of ${count(rows.length)}.`),
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => begin(partitions, rows) }, "Begin to move …"),
        h("button", { type: "button", class: "plain", onclick: () => save(partitions) }, "Save as a file"),
        h("button", { type: "button", class: "plain", onclick: () => proposed.replaceChildren() }, "Throw away")));
  }

  function begin(partitions, rows) {
    ask({
      title: `Move ${plural(partitions.length, "partition")}`,
      content: [
        h("p", {}, "Records are copied while clients write and read. What there was can be gone back to: save the file of it first, or cancel while it is under way."),
        h("button", { type: "button", class: "plain", onclick: () => save(rows.map(({ topic, partition, current }) => ({ topic, partition, replicas: current })), "before.json") }, "Save what there is now"),
        field("At the most, MiB a second and broker", h("input", { name: "rate", type: "number", min: 0.001, step: "any", placeholder: "as fast as it goes" }), "The throttle is taken off when all is there and this page looks after it."),
        h("label", { class: "check" }, h("input", { type: "checkbox", name: "additional" }), "also if others are under way"),
      ],
      action: "Begin",
      async submit(data) {
        const rate = data.get("rate") === "" ? null : Math.max(1, Math.round(Number(data.get("rate")) * 2 ** 20));
        const started = await post(PATH, { partitions, throttle_bytes_per_second: rate, additional: data.has("additional") });
        const failed = started.filter((each) => each.error);
        const moving = partitions.filter((each) => !failed.some((one) => one.topic === each.topic && one.partition === each.partition));
        const before = data.has("additional") ? begun() : null;
        const others = (before?.partitions ?? []).filter((each) => !moving.some((one) => one.topic === each.topic && one.partition === each.partition));
        if (moving.length) remember({ partitions: [...others, ...moving], throttled: rate !== null || Boolean(before?.throttled) });
        if (failed.length) throw new Error(failed.map((each) => `${each.topic}-${each.partition}: ${each.message || each.error}`).join("; "));
        proposed.replaceChildren();
        note(`${plural(moving.length, "partition")} began to move.`);
        view.look();
      },
    });
  }

  function cancel(partitions, text) {
    ask({
      title: `Cancel: ${text}`,
      content: h("p", {}, "They go back to the replicas they had. What was copied already is deleted."),
      action: "Cancel the move", danger: true,
      async submit() {
        const found = await post(`${PATH}/cancel`, partitions === null ? { all: true } : { partitions });
        const failed = found.filter((each) => each.error);
        if (failed.length) throw new Error(failed.map((each) => `${each.topic}-${each.partition}: ${each.message || each.error}`).join("; "));
        note(`${plural(found.length, "move")} cancelled.`);
        view.look();
      },
    });
  }

  function underWay(rows) {
    const all = rows.length > 1 && h("div", { class: "actions" }, h("button", { type: "button", class: "danger", "data-key": "cancel-all", onclick: () => cancel(null, `all ${count(rows.length)}`) }, "Cancel all …"));
    return card("Under way", table("Under way", [
      { title: "Partition", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.topic)}` }, `${each.topic}-${each.partition}`) },
      { title: "From", cell: (each) => list(each.replicas.filter((broker) => !each.adding.includes(broker))) },
      { title: "To", cell: (each) => list(each.target) },
      { title: "Copied", cell: (each) => (each.progress.length ? each.progress.map((one) => copied(each, one)) : h("span", { class: "quiet" }, "nothing to copy")) },
      { title: "", cell: (each) => h("button", { type: "button", class: "plain", "data-key": `cancel-${each.topic}-${each.partition}`, "aria-label": `Cancel the move of ${each.topic}-${each.partition}`,
        onclick: () => cancel({ [each.topic]: [each.partition] }, `${each.topic}-${each.partition}`) }, "Cancel …") },
    ], rows.slice(0, SHOWN), "Nothing is being moved."),
    rows.length > SHOWN && h("p", { class: "quiet" }, `The first ${count(SHOWN)} of ${count(rows.length)}.`), all);
  }

  function watch(watched) {
    const done = watched.partitions.filter((each) => each.state === "completed").length;
    return card("The plan begun here",
      h("p", {}, watched.completed ? badge("completed", "good") : badge(`${count(done)} of ${count(watched.partitions.length)}`, "warn"), " ",
        watched.completed ? `All ${plural(done, "partition")} are where the plan wants them${watched.freed ? "; the throttle is off" : ""}.` : "partitions are where the plan wants them."),
      table("The plan begun here", [
        { title: "Partition", cell: (each) => `${each.topic}-${each.partition}` },
        { title: "State", cell: (each) => badge(each.state, STATES[each.state]) },
        { title: "On", cell: (each) => list(each.replicas) },
        { title: "Wanted", cell: (each) => list(each.target) },
      ], watched.partitions.slice(0, SHOWN), ""),
      h("div", { class: "actions" }, h("button", { type: "button", class: "plain", "data-key": "forget", onclick: () => {
        remember(null);
        view.look();
      } }, watched.completed ? "Done" : "Do not watch it any more")));
  }
  return view;
}

/** How far one new replica is: a bar of bytes, and the records it is behind. */
function copied(each, one) {
  const known = one.size_bytes !== null && each.size_bytes;
  const behind = one.lag === null ? "has not begun" : one.lag === 0 ? "caught up" : `${count(one.lag)} records behind`;
  const name = `Copied to broker ${one.broker}`;
  return h("div", { class: "copied" }, h("span", {}, `broker ${one.broker}`),
    h("progress", { "aria-label": name, max: 1, value: known ? Math.min(1, one.size_bytes / each.size_bytes) : one.lag === 0 ? 1 : 0 }),
    h("small", {}, known ? `${bytes(one.size_bytes)} of ${bytes(each.size_bytes)}, ${behind}` : behind));
}

/** Read the partitions of a file. Throws with what is wrong with it. */
function planOf(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("The file is no JSON.");
  }
  if (!Array.isArray(file?.partitions) || !file.partitions.length) throw new Error("The file has no “partitions”.");
  if (!file.partitions.every((each) => typeof each?.topic === "string" && Number.isInteger(each.partition) && Array.isArray(each.replicas)))
    throw new Error("Each of the file’s partitions needs a topic, a partition and its replicas.");
  if (file.partitions.some((each) => (each.log_dirs ?? []).some((dir) => dir !== "any")))
    throw new Error("Replicas are not moved between log directories: the file’s log_dirs have to be “any”.");
  return file.partitions;
}

/** Give the partitions as a file of Kafka's kafka-reassign-partitions. */
function save(partitions, name = "plan.json") {
  const file = { version: 1, partitions: partitions.map((each) => ({ ...each, log_dirs: each.replicas.map(() => "any") })) };
  const link = h("a", { href: URL.createObjectURL(new Blob([JSON.stringify(file)], { type: "application/json" })), download: name });
  link.click();
  URL.revokeObjectURL(link.href);
}
