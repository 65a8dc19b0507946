// One connector: its tasks, config, offsets and topics.

import { get, post, put, remove, url } from "./api.js";
import { act, ask as dialog, badge, button, card, check, confirm, dotted, figure, figures, h, link, note, table, tabs } from "./dom.js";
import { grid } from "./grid.js";
import { JOBS, moveOffsets, reconfigure } from "./job-forms.js";
import { ask, failures, STATES, topicsOf, turn, why } from "./jobs.js";

const TABS = {
  tasks: { title: "Tasks", draw: drawTasks },
  config: { title: "Config", draw: drawConfig },
  offsets: { title: "Offsets", draw: drawOffsets },
  topics: { title: "Topics", draw: drawTopics },
};

export function open({ connector: name, tab = "tasks" }, query) {
  const key = tab in TABS ? tab : "tasks";
  const shown = TABS[key];
  const path = (...more) => url([...JOBS, "connectors", name, ...more]);
  const root = `#/jobs/${encodeURIComponent(name)}`;
  const links = Object.entries(TABS).map(([each, { title }]) => [each === "tasks" ? root : `${root}/${each}`, title]);
  const does = (text, word, told) => button(text, (event) => act(event.currentTarget, () => ask(() => turn(name, word), told, view)), { needs: "operate", key: word });
  const pause = does("Pause", "pause", `Pausing ${name}.`);
  const resume = does("Resume", "resume", `Resuming ${name}.`);
  const again = button("Restart …", () => restart(), { needs: "operate", key: "restart" });
  const stop = button("Stop …", () => end(), { needs: "operate", key: "stop" });
  const view = {
    title: name,
    actions: [pause, resume, again, stop, button("Delete …", () => drop(), { kind: "danger", needs: "admin", key: "delete" })],
    tools: tabs("Parts of the connector", links, key === "tasks" ? root : `${root}/${key}`),
    async load(signal) {
      const [status, found] = await Promise.all([get(path("status"), { signal }), key === "tasks" ? null : get(path(key), { signal })]);
      return { status, found };
    },
    draw({ status, found }) {
      const now = status.connector.state;
      pause.hidden = ["PAUSED", "STOPPED"].includes(now);
      resume.hidden = !pause.hidden;
      again.hidden = stop.hidden = now === "STOPPED";
      return [
        figures(
          figure("State", now, ["bad", "warn"].find((each) => STATES[now] === each) ?? ""),
          figure("Type", status.type ?? "–"), figure("Tasks", status.tasks.length),
          figure("Worker", h("span", { class: "mono" }, status.connector.worker_id || "–"), "small")),
        status.connector.trace && card(null, why(name, { ...status.connector, what: "the connector" })),
        shown.draw({ name, status, found, view, query, path }),
      ];
    },
    cares: (event) => event.kind === "reconnected",
  };

  function restart() {
    dialog({
      title: ["Restart ", h("bdi", {}, name)],
      content: [check("Include tasks", { name: "includeTasks", checked: true }), check("Only failed ones", { name: "onlyFailed" })],
      action: "Restart",
      submit: (data) => ask(() => post(url([...JOBS, "connectors", name, "restart"], { includeTasks: data.has("includeTasks") && "true", onlyFailed: data.has("onlyFailed") && "true" })), `Restarting ${name}.`, view),
    });
  }

  function end() {
    confirm({
      title: ["Stop ", h("bdi", {}, name)],
      text: "The tasks end. The connector keeps its config and offsets. Offsets can be changed while it is stopped; resuming continues from them.",
      action: "Stop", done: () => ask(() => turn(name, "stop"), `Stopping ${name}.`, view),
    });
  }

  function drop() {
    confirm({
      title: ["Delete ", h("bdi", {}, name)],
      text: "The tasks end and the config is deleted. The offsets are kept: a new connector with the same name continues from them.",
      action: "Delete",
      async done() {
        await remove(path());
        note(`Connector ${name} deleted.`);
        location.hash = "#/jobs";
      },
    });
  }
  return view;
}

function drawTasks({ name, status, view, path }) {
  const begin = (task) => (event) => act(event.currentTarget, () => ask(() => post(path("tasks", String(task.id), "restart")), `Restarting task ${task.id}.`, view));
  return card("Tasks", table("Tasks", [
    { title: "Task", number: true, cell: (task) => task.id },
    { title: "State", cell: (task) => [badge(task.state, STATES[task.state]), failures({ connector: {}, tasks: [task] }).map((each) => why(name, each))] },
    { title: "Worker", cell: (task) => h("span", { class: "mono" }, task.worker_id || "–") },
    { title: "", cell: (task) => button("Restart", begin(task), { needs: "operate", key: `restart-${task.id}`, label: `Restart task ${task.id}` }) },
  ], status.tasks, "No tasks.", { key: (task) => task.id }));
}

function drawConfig({ name, found, view, query }) {
  const rows = Object.entries(found).map(([key, value]) => ({ key, value }));
  return card("Config",
    h("div", { class: "actions start" }, button("Change …", () => reconfigure(name, found, view), { needs: "admin", key: "reconfigure" })),
    grid(view, query, "Config", [
      { title: "Key", cell: ({ key }) => dotted(key), by: ({ key }) => key },
      { title: "Value", cell: ({ value }) => h("span", { class: "mono" }, value === "" ? "“”" : value) },
    ], rows, "The config is empty.", { key: ({ key }) => key }));
}

function drawOffsets({ name, status, found: { offsets }, view, query, path }) {
  const reset = () => confirm({
    title: ["Reset the offsets of ", h("bdi", {}, name)],
    text: "The connector starts from the beginning, according to its config. Data it has read is read again.",
    action: "Reset",
    async done() {
      note((await remove(path("offsets"))).message);
      view.look();
    },
  });
  const stopped = status.connector.state === "STOPPED";
  return card("Offsets",
    stopped
      ? h("div", { class: "actions start" },
        button("Set …", () => moveOffsets(name, offsets, view), { needs: "operate", key: "move" }),
        button("Reset …", reset, { kind: "danger", needs: "operate", key: "reset" }))
      : h("p", { class: "quiet" }, "Stop the connector to change its offsets."),
    grid(view, query, "Offsets", [
      { title: "Partition", cell: ({ partition }) => place(partition), by: ({ partition }) => JSON.stringify(partition) },
      { title: "Offset", cell: ({ offset }) => h("span", { class: "mono" }, offset?.kafka_offset ?? JSON.stringify(offset)), by: ({ offset }) => offset?.kafka_offset ?? JSON.stringify(offset) },
    ], offsets, "No offsets yet.", { key: ({ partition }) => JSON.stringify(partition) }));
}

/** A partition of a topic, or a source's own partition. */
function place(partition) {
  const { kafka_topic: topic, kafka_partition: index } = partition;
  if (topic === undefined || index === undefined) return h("span", { class: "mono" }, JSON.stringify(partition));
  return link(`#/topics/${encodeURIComponent(topic)}/partitions/${index}`, `${topic}-${index}`, { key: `to-${topic}-${index}` });
}

function drawTopics({ name, found, view, path }) {
  const { topics } = found[name] ?? { topics: [] };
  const forget = (event) => act(event.currentTarget, () => ask(() => put(path("topics", "reset")), "The list of topics was reset.", view));
  return card("Topics used",
    topics.length > 0 && h("div", { class: "actions start" }, button("Reset", forget, { needs: "operate", key: "forget" })),
    topicsOf(topics));
}
