// The chaos lab: what the cluster is made of, what is broken, what may be broken, and what came of it.

import { get, post, remove, url } from "./api.js";
import { act, badge, button, card, figure, figures, h, link, note, nothing, table } from "./dom.js";
import { lines } from "./events.js";
import { inject, runScenario } from "./chaos-forms.js";
import { follow, STATES, told } from "./chaos-live.js";
import { clock, count, moment, plural } from "./format.js";
import { recent } from "./live.js";

const SHOWN = 60;
const KEPT = 1000;
const DOWN = ["kill", "terminate", "kill_all", "wipe", "lose_tail"];

export function open() {
  const ends = new AbortController();
  let done = [];
  const buttons = h("div", { class: "actions", hidden: true },
    button("Inject a fault", () => inject(known.kinds, known.state, view.look), { kind: "danger" }),
    button("Run a scenario", () => runScenario((run) => (location.hash = `#/chaos/runs/${run.id}`))),
    button("Heal all", (event) => act(event.currentTarget, heal), { kind: "" }));
  let known = null;

  const view = {
    title: "Chaos lab",
    actions: buttons,
    async load(signal) {
      try {
        const [state, runs, kinds] = await Promise.all([
          get("/v1/chaos/state", { signal }), get("/v1/chaos/scenarios", { signal }), known?.kinds ?? get("/v1/chaos/kinds", { signal }),
        ]);
        if (known === null && !ends.signal.aborted) follow(() => (done = []), heard, ends.signal);
        return (known = { state, runs, kinds });
      } catch (error) {
        if (error.status === 404) return null;
        throw error;
      }
    },
    draw(found) {
      buttons.hidden = found === null;
      return found === null ? missing() : drawn(found, done, view);
    },
    close: () => ends.abort(),
  };

  function heard(kind, data) {
    const line = told(kind, data);
    if (line === null) return;
    done = [line, ...done.slice(0, KEPT - 1)];
    view.stir();
  }

  async function heal() {
    const { started, in_force: left } = await post("/v1/chaos/heal", { start: true });
    const late = Object.entries(started).filter(([, how]) => how !== "ready");
    if (late.length) throw new Error(late.map(([name, how]) => `${name}: ${how}`).join("; "));
    note(left.length ? `${plural(left.length, "fault")} cannot be ended.` : "All is healed.", left.length ? "bad" : "good");
    view.look();
  }
  return view;
}

function missing() {
  return card("No chaos lab here",
    h("p", {}, "This server only looks after the cluster. What breaks one is a server of its own, for a cluster on this machine, with the same console:"),
    h("dl", {}, h("dt", {}, h("code", {}, "kvorum chaos serve -d DIR")), h("dd", {}, "for the cluster in DIR, which runs"),
      h("dt", {}, h("code", {}, "kvorum chaos serve -d lab --create")), h("dd", {}, "for a new one, with a proxy on every link")),
    h("p", {}, "It prints the address of its console, where this page works, and where its token is."));
}

function drawn({ state, runs }, done, view) {
  const running = state.nodes.filter((node) => node.running).length;
  const all = state.nodes.length;
  return [
    figures(
      figure("Running nodes", `${running} of ${all}`, running < all ? "bad" : ""),
      figure("Faults in force", count(state.faults.length), state.faults.length ? "warn" : ""),
      figure("Proxied links", count(state.links.length)),
      figure("Clients connect to", h("span", { class: "mono" }, state.bootstrap.replaceAll(",", ", ")), "small")),
    card("In force", inForce(state.faults, view)),
    card("Nodes", nodes(state, view)),
    card("Recent events", happened(done)),
    runs.length > 0 && card("Scenarios", scenarios(runs)),
    state.links.length > 0 && card(null, h("details", { "data-key": "links" }, h("summary", {}, plural(state.links.length, "link")),
      table("Links", [
        { title: "Link", cell: (link) => h("span", { class: "mono" }, link.name) },
        { title: "Leads to", cell: (link) => h("span", { class: "mono" }, link.upstream) },
      ], state.links, "No link."))),
    Object.keys(state.inside).length > 0 && card(null, h("details", { "data-key": "inside" }, h("summary", {}, "Inside processes"),
      h("pre", {}, JSON.stringify(state.inside, null, 2)))),
  ];
}

function inForce(faults, view) {
  if (!faults.length) return nothing("Nothing is broken.");
  return table("Faults in force", [
    { title: "Fault", cell: (fault) => badge(fault.fault, "warn") },
    { title: "What", cell: (fault) => [fault.story || fault.targets.join(", "), fault.lossy && [" ", badge("loses data", "bad")]] },
    { title: "", cell: (fault) => button(DOWN.includes(fault.fault) ? "Start again" : "End it", (event) => act(event.currentTarget, async () => {
      const { in_force: still } = await remove(url(["v1", "chaos", "faults", String(fault.id)]));
      note(still ? `${fault.story} cannot be ended yet.` : `Over: ${fault.story || fault.fault}.`, still ? "bad" : "good");
      view.look();
    }), { key: `end-${fault.id}`, label: `End: ${fault.story || fault.fault}` }) },
  ], faults, "", { key: (fault) => fault.id });
}

function nodes(state, view) {
  const begin = (fault, name) => (event) => act(event.currentTarget, async () => {
    await post("/v1/chaos/faults", { fault, targets: [name] });
    view.look();
  });
  const does = (text, fault, node, kind) => button(text, begin(fault, node.name), { kind, key: `${fault}-${node.name}`, label: `${text} ${node.name}` });
  return table("Nodes", [
    { title: "Node", cell: (node) => node.name },
    { title: "State", cell: (node) => (node.running ? badge("runs", "good") : badge("down", "bad")) },
    { title: "Processes", cell: (node) => h("span", { class: "steps" }, node.roles.map((role) => [process(role, node.processes[role]), " "])) },
    { title: "", cell: (node) => node.running && h("span", { class: "steps" },
      does("Kill", "kill", node, "danger"), " ", does("Pause", "pause", node, "plain"), " ", does("Restart", "restart", node, "plain")) },
  ], state.nodes, "This cluster has no nodes.", { key: (node) => node.name });
}

function process(role, state) {
  if (!state) return badge(`${role}: down`, "bad");
  return badge(state.stopped ? `${role} ${state.pid}: paused` : `${role} ${state.pid}`, state.stopped ? "warn" : "");
}

function scenarios(runs) {
  return table("Scenarios", [
    { title: "Run", cell: (run) => link(`#/chaos/runs/${run.id}`, `run ${run.id}`, { key: `run-${run.id}` }) },
    { title: "Scenario", cell: (run) => run.scenario },
    { title: "Seed", number: true, cell: (run) => run.seed },
    { title: "State", cell: (run) => badge(run.state, STATES[run.state]) },
    { title: "Begun", cell: (run) => moment(run.began_ms) },
  ], [...runs].reverse(), "", { key: (run) => run.id });
}

/**
 * What was done and what the cluster made of it, on one line of time, newest first: by when this page heard of it, as the
 * brokers' clocks may be the very ones that were put wrong.
 */
function happened(done) {
  const found = [...done, ...lines(recent, (event) => event.at)].sort((one, other) => other.at - one.at).slice(0, SHOWN);
  if (!found.length) return nothing("Nothing yet. Kill a node: its fencing and the elections appear here as they happen.");
  return h("ol", { class: "log", reversed: true }, found.map(({ at, text, kind }) =>
    h("li", {}, h("time", {}, clock(at)), h("span", {}, kind && [badge(kind === "fault" ? "chaos" : kind, "warn"), " "], text))));
}
