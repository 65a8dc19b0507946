// The dialogs of the chaos lab: a fault, from the kinds that the server supports; a scenario.

import { get, post } from "./api.js";
import { ask, field, h, note } from "./dom.js";

/** The title of a fault in the server's table; one that is not listed has its identifier. */
export function nameOf(kinds, fault) {
  return kinds.find((kind) => kind.fault === fault)?.title ?? fault.replaceAll("_", " ");
}

const LINK_ENDS = ["clients", "brokers", "controllers"];

/** Ask for a fault, its targets and options; `done()` when it has started. */
export function inject(kinds, state, done) {
  const about = h("p", { class: "quiet" });
  const rest = h("div", { class: "fields" });
  const groups = [...new Set(kinds.map((kind) => kind.group))];
  const chosen = h("select", { name: "fault", onchange: show }, groups.map((title) => {
    const group = kinds.filter((kind) => kind.group === title);
    const lacking = group.every((kind) => !kind.possible);
    return h("optgroup", { label: lacking ? `${title} (${group[0].lacking.split(":")[0]})` : title },
      group.map((kind) => h("option", { value: kind.fault, disabled: !kind.possible, title: kind.lacking }, kind.title)));
  }));

  function show() {
    const kind = kinds.find((each) => each.fault === chosen.value);
    about.replaceChildren(`${kind.about}. `, h("code", {}, kind.fault));
    rest.replaceChildren(...targets(kind, state), ...Object.entries(kind.options.properties ?? {}).map(([name, schema]) => option(kind.options, name, schema)));
  }

  ask({
    title: "Inject a fault",
    content: [field("Fault", chosen), about, rest],
    action: "Inject",
    danger: true,
    async submit(data) {
      const kind = kinds.find((each) => each.fault === chosen.value);
      const body = { fault: kind.fault, targets: data.getAll("target").filter(Boolean), options: optionsOf(kind.options, data) };
      const made = await post("/v1/chaos/faults", body);
      note(made.story || `${kind.title}: done.`);
      done();
    },
  });
  show();
}

function targets(kind, state) {
  const { from, to } = kind.targets;
  const processes = state.nodes.flatMap((node) => node.roles.map((role) => `${node.name}/${role}`));
  const nodes = state.nodes.map((node) => node.name);
  if (kind.of === "partitions") return [field("Partition", h("input", { name: "target", required: true, autocomplete: "off" }), "TOPIC-NUMBER")];
  const known = kind.needs === "inside" ? processes : { parties: [...LINK_ENDS, ...nodes], processes: [...nodes, ...processes] }[kind.of] ?? nodes;
  if (to > 2)
    return [h("fieldset", {}, h("legend", {}, "Targets"), known.map((name) => h("label", { class: "check" }, h("input", { type: "checkbox", name: "target", value: name }), name)))];
  return Array.from({ length: from }, (_, at) =>
    field(from === 1 ? "Target" : ["Between", "and"][at], h("select", { name: "target" }, known.map((name, place) => h("option", { value: name, selected: place === at }, name)))));
}

/** The schema of a value without null. */
function shape(schema) {
  const choices = (schema.anyOf ?? [schema]).filter((each) => each.type !== "null");
  return choices.find((each) => each.type === "string") ?? choices[0];
}

function option(options, name, schema) {
  const wanted = shape(schema);
  const required = (options.required ?? []).includes(name);
  const key = `option-${name}`;
  if (wanted.type === "boolean")
    return h("label", { class: "check" }, h("input", { type: "checkbox", name: key, checked: schema.default === true }), name);
  if (wanted.enum)
    return field(name, h("select", { name: key, required }, !required && h("option", { value: "" }, "default"), wanted.enum.map((each) => h("option", { value: each }, each))), schema.description);
  const numeric = wanted.type === "integer" || wanted.type === "number";
  const value = schema.default === null || typeof schema.default === "object" ? undefined : schema.default;
  const hint = wanted.type === "object" ? "name=number, comma-separated" : schema.description;
  return field(name, h("input", {
    name: key, required, value, autocomplete: "off", type: numeric ? "number" : "text", step: wanted.type === "number" ? "any" : undefined,
    min: wanted.minimum, max: wanted.maximum,
  }), hint);
}

function optionsOf(options, data) {
  const found = {};
  for (const [name, schema] of Object.entries(options.properties ?? {})) {
    const wanted = shape(schema);
    const said = data.get(`option-${name}`);
    if (wanted.type === "boolean") found[name] = said !== null;
    else if (said === null || said === "") continue;
    else if (wanted.type === "object") found[name] = Object.fromEntries(said.split(",").map((part) => {
      const [key, number] = part.split("=").map((each) => each.trim());
      if (!key || !/^-?\d+$/.test(number ?? "")) throw new Error(`“${part.trim()}” is not name=number.`);
      return [key, Number(number)];
    }));
    else found[name] = wanted.type === "string" ? said : Number(said);
  }
  return found;
}

/** Ask for a scenario to run; `done(run)` when it has started. */
export async function runScenario(done) {
  const names = h("select", { name: "scenario", required: true }, h("option", { value: "" }, "Loading …"));
  const title = h("p", { class: "quiet" });
  const seconds = h("input", { name: "duration", type: "number", min: 1, max: 86400, step: "any" });
  const dialog = ask({
    title: "Run a scenario",
    content: [
      field("Scenario", names), title,
      field("Seed", h("input", { name: "seed", type: "number", min: 0, value: 1, required: true }), "the same seed gives the same choices"),
      field("Seconds of load", seconds, "empty: the default of the scenario; healing, final reads and the check take more time"),
      h("p", { class: "quiet" }, "The scenario creates its own cluster. This cluster is not affected."),
    ],
    action: "Run",
    async submit(data) {
      done(await post("/v1/chaos/scenarios", {
        scenario: data.get("scenario"), seed: Number(data.get("seed")), duration: data.get("duration") === "" ? null : Number(data.get("duration")),
      }));
    },
  });
  let cells;
  try {
    cells = (await get("/v1/chaos/shipped")).flatMap((scenario) => scenario.cells.map((cell) => ({ ...cell, of: scenario })));
  } catch (error) {
    dialog.close();
    throw error;
  }
  names.replaceChildren(...cells.map((cell) => h("option", { value: cell.name }, cell.name)));
  const show = () => {
    const cell = cells.find((each) => each.name === names.value);
    title.textContent = `${cell.title}.`;
    seconds.placeholder = cell.seconds;
  };
  names.addEventListener("change", show);
  show();
}
