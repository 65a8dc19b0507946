// A connector's config as JSON: Connect validates it key by key before it is applied.

import { get, patch, post, put, url } from "./api.js";
import { ask, check, dotted, field, h, note, select, table } from "./dom.js";
import { plural } from "./format.js";

export const JOBS = ["v1", "jobs"];
const CLASS = "connector.class";
const STATES = [["running", "running"], ["paused", "paused"], ["stopped", "stopped"]];

/** Ask for a new connector. */
export async function deploy(view) {
  const plugins = await get(url([...JOBS, "connector-plugins"]));
  const text = h("textarea", { name: "config", required: true, rows: 12, spellcheck: "false" });
  text.value = JSON.stringify({ name: "", [CLASS]: plugins[0]?.class ?? "", "tasks.max": "1" }, null, 2);
  const wrong = h("div", { "aria-live": "polite" });
  ask({
    title: "Deploy a connector",
    content: [
      field("Config, as JSON", text, "key-value pairs, or {\"name\": …, \"config\": {…}} as in Kafka Connect’s REST API"),
      h("details", {}, h("summary", {}, plural(plugins.length, "class", "classes")), h("ul", {}, plugins.map((each) => h("li", {}, dotted(each.class), ` (${each.type})`)))),
      field("Initial state", select("initial_state", STATES, "running")),
      check("Validate only", { name: "dry" }),
      wrong,
    ],
    action: "Deploy",
    async submit(data) {
      const { name, config } = read(data.get("config"));
      if (!name) throw about("The config has no name.");
      await held(wrong, { ...config, name });
      if (data.has("dry")) note("The config is valid. Nothing was changed.");
      else {
        await post(url([...JOBS, "connectors"]), { name, config: { ...config, name }, initial_state: data.get("initial_state") });
        note(`Connector ${name} created.`);
        view.look();
      }
    },
  });
}

/** Dialog for a connector's complete config. */
export function reconfigure(name, config, view) {
  const text = h("textarea", { name: "config", required: true, rows: 14, spellcheck: "false" });
  text.value = JSON.stringify(config, null, 2);
  const wrong = h("div", { "aria-live": "polite" });
  ask({
    title: ["Config of ", h("bdi", {}, name)],
    content: [field("Config, as JSON", text, "the complete config: keys that are missing here are removed. The tasks restart."), check("Validate only", { name: "dry" }), wrong],
    action: "Set",
    async submit(data) {
      const wanted = { ...read(data.get("config")).config, name };
      await held(wrong, wanted);
      if (data.has("dry")) note("The config is valid. Nothing was changed.");
      else {
        await put(url([...JOBS, "connectors", name, "config"]), wanted);
        note(`Config of ${name} updated.`);
        view.look();
      }
    },
  });
}

/** A config as entered: flat, or with a separate name. */
function read(text) {
  let said;
  try {
    said = JSON.parse(text);
  } catch (error) {
    throw about(`Not JSON: ${error.message}`);
  }
  if (said === null || typeof said !== "object" || Array.isArray(said)) throw about("Not a JSON object.");
  const inner = said.config;
  const config = inner !== null && typeof inner === "object" ? inner : said;
  return { name: String(said.name ?? config.name ?? "").trim(), config };
}

/** Let Connect validate a config; errors are shown by key and thrown. */
async function held(shown, config) {
  shown.replaceChildren();
  if (!config[CLASS]) throw about(`The config has no ${CLASS}.`);
  const told = await put(url([...JOBS, "connector-plugins", config[CLASS], "config", "validate"]), config);
  const found = told.configs.map((each) => each.value).filter((value) => value.errors.length);
  if (!found.length) return;
  shown.replaceChildren(table("Errors", [
    { title: "Key", cell: (value) => dotted(value.name) },
    { title: "Error", cell: (value) => value.errors.map((each) => h("div", {}, each)) },
  ], found, ""));
  throw about(`${plural(told.error_count, "error")}, listed above.`);
}

/** An error that marks the text. */
function about(message) {
  return Object.assign(new Error(message), { field: "config" });
}

/** Ask where a stopped connector is to go on. */
export function moveOffsets(name, offsets, view) {
  const text = h("textarea", { name: "offsets", required: true, rows: 10, spellcheck: "false" });
  text.value = JSON.stringify(offsets, null, 2);
  ask({
    title: ["Offsets of ", h("bdi", {}, name)],
    content: field("Offsets, as JSON", text, "in the form of the REST API; an offset of null resets to the beginning; partitions left out stay unchanged"),
    action: "Set",
    async submit(data) {
      let wanted;
      try {
        wanted = JSON.parse(data.get("offsets"));
      } catch (error) {
        throw Object.assign(new Error(`Not JSON: ${error.message}`), { field: "offsets" });
      }
      const { message } = await patch(url([...JOBS, "connectors", name, "offsets"]), { offsets: wanted });
      note(message);
      view.look();
    },
  });
}
