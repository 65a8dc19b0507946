// Jobs: the connectors of Kafka Connect, from its REST interface, below /v1/jobs.

import { get, post, put, url } from "./api.js";
import { act, badge, button, card, field, figure, figures, h, link, note, nothing } from "./dom.js";
import { count, list, plural } from "./format.js";
import { grid } from "./grid.js";
import { deploy, JOBS } from "./job-forms.js";
import { setQuery } from "./view.js";

export const STATES = { RUNNING: "good", PAUSED: "warn", STOPPED: "", UNASSIGNED: "warn", RESTARTING: "warn", FAILED: "bad" };
const FAILED = "FAILED";

export function open(values, query) {
  const action = button("Deploy …", (event) => act(event.currentTarget, () => deploy(view)), { kind: "", needs: "admin", key: "deploy" });
  const tools = h("div", { class: "tools", hidden: true },
    field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("name") ?? "", placeholder: "part of a name or class",
      oninput: (event) => {
        setQuery(query, "name", event.target.value);
        setQuery(query, "page", "");
        view.redraw();
      } })));
  const view = {
    title: "Connectors",
    actions: action,
    tools,
    async load(signal) {
      try {
        const [server, connectors] = await Promise.all([
          get(url(JOBS), { signal }), get(url([...JOBS, "connectors"], { expand: "status,info" }), { signal })]);
        return { server, rows: Object.entries(connectors).map(([name, told]) => ({ name, ...told })).filter((row) => row.info && row.status) };
      } catch (error) {
        if (error.error === "CONNECT_NOT_CONFIGURED") return null;
        throw error;
      }
    },
    draw(found) {
      action.hidden = tools.hidden = found === null;
      return found === null ? missing() : drawn(found, query, view);
    },
    // Their changes have no cluster event.
    cares: (event) => event.kind === "reconnected",
  };
  return view;
}

function missing() {
  return card("No Kafka Connect server",
    h("p", {}, "Connectors copy data into topics or out of them. They run in Kafka Connect, or in a server with the same REST interface. No such server is configured here. Start one and set its address in the configuration of this node:"),
    h("dl", {},
      h("dt", {}, h("code", {}, "kvorum pipelines connect --bootstrap HOST:PORT --state DIR")), h("dd", {}, "prints its address; a worker of Apache Kafka Connect works as well"),
      h("dt", {}, h("code", {}, "kvorum.connect.urls=http://127.0.0.1:8083")), h("dd", {}, "in the configuration of the node; applied when the node starts")));
}

function drawn({ server, rows }, query, view) {
  const part = (query.get("name") ?? "").toLowerCase();
  const shown = rows.filter(({ name, info }) => `${name} ${info.config["connector.class"] ?? ""}`.toLowerCase().includes(part));
  const failed = rows.filter(({ status }) => failures(status).length);
  return [
    figures(
      figure("Connectors", count(rows.length)),
      figure("Running", count(rows.filter(({ status }) => status.connector.state === "RUNNING").length)),
      figure("Failed", count(failed.length), failed.length ? "bad" : ""),
      figure("Version", server.version, "small"), figure("Kafka cluster", h("span", { class: "mono" }, server.kafka_cluster_id), "small")),
    card(null, grid(view, query, "Connectors", [
      { title: "Name", cell: ({ name }) => link(`#/jobs/${encodeURIComponent(name)}`, name, { key: `job-${name}` }), by: ({ name }) => name },
      { title: "State", cell: ({ name, status }) => state(name, status), by: ({ status }) => status.connector.state },
      { title: "Type", cell: ({ info }) => [h("div", {}, info.type ?? "–"), of(info.config["connector.class"] ?? "")], by: ({ info }) => info.type },
      { title: "Tasks", cell: ({ status }) => tasks(status), by: ({ status }) => status.tasks.length },
      { title: "Worker", cell: ({ status }) => workers(status), by: ({ status }) => workers(status) },
      { title: "", cell: ({ name, status }) => h("div", { class: "actions" }, deeds(name, status, view)) },
    ], shown, rows.length ? "No connector matches." : "No connectors yet.", { key: ({ name }) => name })),
  ];
}

/** A class, which is broken at its dots alone. */
function of(cls) {
  return h("span", { class: "quiet" }, cls.split(".").flatMap((part, at) => (at ? [".", h("wbr"), part] : [part])));
}

/** What failed, with why: the connector itself, and its tasks. */
export function failures({ connector, tasks: all }) {
  return [{ ...connector, what: "the connector" }, ...all.map((task) => ({ ...task, what: `task ${task.id}` }))].filter((each) => each.state === FAILED || each.trace);
}

function state(name, status) {
  const found = failures(status);
  return [badge(status.connector.state, STATES[status.connector.state]), found.map((each) => why(name, each))];
}

/** The reason of a failure, collapsed. */
export function why(name, { what, state: its, trace }) {
  if (!trace) return its === FAILED ? h("div", {}, `${what} failed without a stack trace`) : null;
  return h("details", { "data-key": `why-${name}-${what}` }, h("summary", {}, `stack trace of ${what}${its === FAILED ? "" : ` (${its})`}`), h("pre", { class: "output", tabindex: 0 }, trace));
}

function tasks({ tasks: all }) {
  if (!all.length) return "none";
  const by = Object.entries(Object.groupBy(all, (task) => task.state));
  return h("span", { class: "steps" }, by.map(([each, found]) => [badge(`${found.length} ${each}`, STATES[each]), " "]));
}

function workers({ connector, tasks: all }) {
  return list([...new Set([connector, ...all].map((each) => each.worker_id).filter(Boolean))]) || "–";
}

function deeds(name, status, view) {
  const rests = ["PAUSED", "STOPPED"].includes(status.connector.state);
  const does = (text, work, told) => button(text, (event) => act(event.currentTarget, () => ask(work, told, view)), { needs: "operate", key: `${text}-${name}`, label: `${text} ${name}` });
  return [
    rests ? does("Resume", () => turn(name, "resume"), `Resuming ${name}.`) : does("Pause", () => turn(name, "pause"), `Pausing ${name}.`),
    !rests && does("Restart", () => post(url([...JOBS, "connectors", name, "restart"], { includeTasks: "true" })), `Restarting ${name}.`),
  ];
}

export const turn = (name, word) => put(url([...JOBS, "connectors", name, word]));

/** Connect acts asynchronously: the page is reloaded at once and a moment later, then only manually. */
export async function ask(work, told, view) {
  await work();
  note(told);
  await view.look();
  view.stir();
}

export function topicsOf(names) {
  if (!names.length) return nothing("No topics used so far.");
  return [h("p", { class: "quiet" }, plural(names.length, "topic")), h("ul", {}, names.map((name) => h("li", {}, link(`#/topics/${encodeURIComponent(name)}`, name, { key: `topic-${name}` }))))];
}
