// The chaos lab: nodes, faults in force, fault injection, and their effects.

import { get, post, remove, url } from "./api.js";
import { act, badge, button, card, figure, figures, h, link, note, nothing, table } from "./dom.js";
import { lines } from "./events.js";
import { inject, nameOf, runScenario } from "./chaos-forms.js";
import { follow, STATES, told } from "./chaos-live.js";
import { clock, count, moment, plural } from "./format.js";
import { recent } from "./live.js";

const SHOWN = 60;
const KEPT = 1000;

export function open() {
  const ends = new AbortController();
  let done = [];
  const healing = button("Heal all", (event) => act(event.currentTarget, heal));
  const buttons = h("div", { class: "actions", hidden: true },
    button("Inject a fault", () => inject(known.kinds, known.state, view.look), { kind: "danger" }),
    button("Run a scenario", () => runScenario((run) => (location.hash = `#/chaos/runs/${run.id}`))),
    healing);
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
        return (known = { state, runs, kinds, roles: await rolesOf(signal) });
      } catch (error) {
        if (error.status === 404) return null;
        throw error;
      }
    },
    draw(found) {
      buttons.hidden = found === null;
      // The button is highlighted only if there are active faults.
      healing.className = found !== null && isBroken(found.state) ? "" : "plain";
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
    note(left.length ? `${plural(left.length, "fault")} cannot be ended.` : "All faults ended.", left.length ? "bad" : "good");
    view.look();
  }
  return view;
}

function isBroken({ nodes, faults }) {
  return faults.length > 0 || nodes.some((node) => !node.running);
}

const ROLES_MS = 2000;

/** {controller: node id, leaders: {node id: partitions}} from the cluster; null without a response in time. */
async function rolesOf(signal) {
  const late = AbortSignal.any([signal, AbortSignal.timeout(ROLES_MS)]);
  const [cluster, brokers] = await Promise.allSettled([get("/v1/cluster", { signal: late }), get("/v1/brokers", { signal: late })]);
  signal.throwIfAborted();
  return { controller: cluster.value?.controller_id ?? null, leaders: brokers.value ? Object.fromEntries(brokers.value.map((broker) => [broker.id, broker.leaders])) : null };
}

function missing() {
  return card("No chaos lab",
    h("p", {}, "This server only administers the cluster. Faults are injected by a separate server with the same console, for a cluster on this machine:"),
    h("dl", {}, h("dt", {}, h("code", {}, "kvorum chaos serve -d DIR")), h("dd", {}, "for the running cluster in DIR"),
      h("dt", {}, h("code", {}, "kvorum chaos serve -d lab --create")), h("dd", {}, "for a new cluster, with a proxy on every link")),
    h("p", {}, "It prints the address of its console and the path of its token."));
}

function drawn({ state, runs, kinds, roles }, done, view) {
  const running = state.nodes.filter((node) => node.running).length;
  const all = state.nodes.length;
  return [
    figures(
      figure("Running nodes", `${running} of ${all}`, running < all ? "bad" : ""),
      figure("Faults in force", count(state.faults.length), state.faults.length ? "warn" : ""),
      figure("Proxied links", count(state.links.length)),
      figure("Clients connect to", h("span", { class: "mono" }, state.bootstrap.replaceAll(",", ", ")), "small")),
    card("Faults in force", inForce(state.faults, kinds, view)),
    card("Nodes", nodes(state, roles, view)),
    card("Recent events", happened(done)),
    runs.length > 0 && card("Scenarios", scenarios(runs)),
    state.links.length > 0 && card(null, h("details", { "data-key": "links" }, h("summary", {}, plural(state.links.length, "link")),
      table("Links", [
        { title: "Link", cell: (link) => h("span", { class: "mono" }, link.name) },
        { title: "Upstream", cell: (link) => h("span", { class: "mono" }, link.upstream) },
      ], state.links, "No links."))),
    Object.keys(state.inside).length > 0 && card(null, h("details", { "data-key": "inside" }, h("summary", {}, "Faults inside processes"),
      h("pre", {}, JSON.stringify(state.inside, null, 2)))),
  ];
}

function inForce(faults, kinds, view) {
  if (!faults.length) return nothing("No faults in force.");
  return table("Faults in force", [
    { title: "Fault", cell: (fault) => badge(nameOf(kinds, fault.fault), "warn") },
    { title: "Details", cell: (fault) => [fault.story || fault.targets.join(", "), fault.lossy && [" ", badge("loses data", "bad")]] },
    { title: "", cell: (fault) => button(fault.stops_nodes ? "Start node" : "End", (event) => act(event.currentTarget, async () => {
      const { in_force: still } = await remove(url(["v1", "chaos", "faults", String(fault.id)]));
      note(still ? `${fault.story} cannot be ended yet.` : `Ended: ${fault.story || fault.fault}.`, still ? "bad" : "good");
      view.look();
    }), { key: `end-${fault.id}`, label: `End: ${fault.story || fault.fault}` }) },
  ], faults, "", { key: (fault) => fault.id });
}

function nodes(state, roles, view) {
  const begin = (fault, name) => (event) => act(event.currentTarget, async () => {
    await post("/v1/chaos/faults", { fault, targets: [name] });
    view.look();
  });
  const does = (text, fault, node, kind) => button(text, begin(fault, node.name), { kind, key: `${fault}-${node.name}`, label: `${text} ${node.name}` });
  return table("Nodes", [
    { title: "Node", cell: (node) => [node.name, node.running && node.id !== undefined && node.id === roles.controller && [" ", badge("active controller", "good")]] },
    { title: "State", cell: (node) => (node.running ? badge("running", "good") : badge("down", "bad")) },
    { title: "Leaders", number: true, cell: (node) => count(roles.leaders?.[node.id] ?? null) },
    { title: "Processes", cell: (node) => h("span", { class: "steps" }, node.roles.map((role) => [process(role, node.processes[role]), " "])) },
    { title: "", cell: (node) => node.running && h("span", { class: "steps" },
      does("Kill", "kill", node, "plain"), " ", does("Pause", "pause", node, "plain"), " ", does("Restart", "restart", node, "plain")) },
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
    { title: "Started", cell: (run) => moment(run.began_ms) },
  ], [...runs].reverse(), "", { key: (run) => run.id });
}

/**
 * Faults and the cluster's events on one timeline, newest first, by the time at which this page received them, since the
 * brokers' clocks may be faulty.
 */
function happened(done) {
  const found = [...done, ...lines(recent, (event) => event.at)].sort((one, other) => other.at - one.at).slice(0, SHOWN);
  if (!found.length) return nothing("Nothing yet. Kill a node: its fencing and the elections appear here as they happen.");
  return h("ol", { class: "log", reversed: true }, found.map(({ at, text, kind }) =>
    h("li", {}, h("time", {}, clock(at)), h("span", {}, kind && [badge(kind === "fault" ? "chaos" : kind, "warn"), " "], text))));
}
