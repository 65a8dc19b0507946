// Topics that are selected in the list: deleted together, or given the same config.

import { get, patch, remove, url } from "./api.js";
import { act, askWithPreview, badge, button, check, field, h, note, select, table } from "./dom.js";
import { valueField } from "./configs.js";
import { count, plural } from "./format.js";

/** {column(rows), actions}: a column of checkboxes for a table of topics, and the buttons for the selected ones. */
export function selection(view) {
  const selected = new Set();
  const counted = h("span", { class: "quiet", role: "status" });
  const actions = h("div", { class: "actions", hidden: true }, counted,
    button("Set config …", (event) => act(event.currentTarget, () => setConfig([...selected].sort(), done)), { needs: "admin" }),
    button("Delete topics …", () => deleteTopics([...selected].sort(), done), { needs: "admin" }),
    button("Clear selection", () => keep([])));

  /** Select these topics only. */
  function keep(names) {
    selected.clear();
    names.forEach((name) => selected.add(name));
    follow();
  }

  /** A part of the topics failed: these stay selected. */
  function done(failed) {
    keep(failed);
    view.look();
  }

  /** The checkboxes and the buttons are as the selection is. */
  function follow() {
    actions.hidden = selected.size === 0;
    counted.textContent = `${plural(selected.size, "topic")} selected`;
    const boxes = [...document.querySelectorAll("input[data-topic]")];
    for (const box of boxes) box.checked = selected.has(box.dataset.topic);
    const all = document.querySelector("input[data-all-topics]");
    if (all) all.checked = boxes.every((box) => box.checked);
  }

  function choose(names, on) {
    for (const name of names) selected[on ? "add" : "delete"](name);
    follow();
  }

  const column = (rows) => {
    queueMicrotask(follow); // when the table is on the page
    return {
      title: "Select",
      head: h("input", { type: "checkbox", "data-all-topics": true, "aria-label": "Select all topics on this page",
        onchange: (event) => choose(rows.map((topic) => topic.name), event.target.checked) }),
      cell: (topic) => h("input", { type: "checkbox", "data-topic": topic.name, "aria-label": `Select ${topic.name}`,
        onchange: (event) => choose([topic.name], event.target.checked) }),
    };
  };
  return { column, actions };
}

/** Do something to one topic after another; returns {name, error} of those where it failed. */
async function each(names, work) {
  const failed = [];
  for (const name of names) {
    try {
      await work(name);
    } catch (error) {
      failed.push({ name, error });
    }
  }
  return failed;
}

function finish(names, failed, done, text) {
  done(failed.map(({ name }) => name));
  if (failed.length < names.length) note(`${text} ${plural(names.length - failed.length, "topic")}.`);
  if (failed.length) throw new Error(failed.map(({ name, error }) => `${name}: ${error.message}`).join("; "));
}

function deleteTopics(names, done) {
  askWithPreview({
    title: `Delete ${plural(names.length, "topic")}`,
    content: field("Number of topics, to confirm", h("input", { name: "number", type: "number", required: true, autocomplete: "off" }), "All records of these topics are lost."),
    action: "Delete permanently",
    danger: true,
    async preview(data, show) {
      const rows = [];
      const failed = await each(names, async (name) => rows.push(await get(url(["v1", "topics", name]))));
      show(table("Topics to delete", [
        { title: "Topic", cell: (row) => [row.name, row.internal && [" ", badge("internal", "warn")]] },
        { title: "Partitions", number: true, cell: (row) => count(row.partitions) },
        { title: "Records, by offsets", number: true, cell: (row) => (row.error ? row.error.message : records(row)) },
      ], [...rows, ...failed], ""));
      if (Number(data.get("number")) !== names.length) throw new Error(`${plural(names.length, "topic")} would be deleted: enter ${names.length}.`);
    },
    async apply() {
      // A topic that was deleted by an earlier attempt is no failure.
      const gone = (error) => (error.status === 404 ? null : Promise.reject(error));
      finish(names, await each(names, (name) => remove(url(["v1", "topics", name])).catch(gone)), done, "Deleted");
    },
  });
}

function records({ details }) {
  const known = details.filter((each) => each.latest_offset !== null && each.earliest_offset !== null);
  const sum = known.reduce((all, each) => all + each.latest_offset - each.earliest_offset, 0);
  return known.length === details.length ? count(sum) : `at least ${count(sum)}`;
}

async function setConfig(names, done) {
  const entries = (await get(url(["v1", "topics", names[0], "configs"], { all: "true", documentation: "true" }))).filter((entry) => !entry.read_only);
  const about = h("p", { class: "quiet" });
  const value = h("div", {});
  let control = null;
  const choose = (name) => {
    const entry = entries.find((found) => found.name === name);
    control = valueField(entry, "");
    about.textContent = entry.documentation ?? "";
    value.replaceChildren(control.shown);
  };
  const body = (data) => {
    if (data.has("reset")) return { delete: [data.get("config")] };
    const text = control.read(data) ?? "";
    if (text === "") throw new Error("The value is empty. Enter a value, or check “Reset”.");
    return { set: { [data.get("config")]: text } };
  };
  choose(entries[0].name);
  askWithPreview({
    title: `Set a config of ${plural(names.length, "topic")}`,
    content: [field("Config", select("config", entries.map(({ name }) => [name, name]), entries[0].name, choose)), about, value, check("Reset: remove the value set on these topics", { name: "reset" })],
    fields: { set: "value" },
    async preview(data, show) {
      const name = data.get("config");
      const change = body(data);
      const before = new Map();
      const failed = await each(names, async (topic) => {
        const found = await get(url(["v1", "topics", topic, "configs"], { all: "true" }));
        before.set(topic, found.find((entry) => entry.name === name)?.value ?? null);
        await patch(url(["v1", "topics", topic, "configs"], { validate_only: "true" }), change);
      });
      show(table("Preview", [
        { title: "Topic", cell: (topic) => topic },
        { title: "Current", cell: (topic) => h("span", { class: "mono" }, before.get(topic) ?? "unknown") },
        { title: "New", cell: (topic) => failed.find((one) => one.name === topic)?.error.message ?? h("span", { class: "mono" }, change.set?.[name] ?? "default") },
      ], names, ""));
      if (failed.length) throw new Error(`${failed[0].error.message} (${plural(failed.length, "topic")}). Nothing was changed.`);
    },
    async apply(data) {
      const change = body(data);
      finish(names, await each(names, (topic) => patch(url(["v1", "topics", topic, "configs"]), change)), done, `${data.get("config")} ${change.set ? "set on" : "reset on"}`);
    },
  });
}
