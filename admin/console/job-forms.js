// What a connector is to do, as JSON: checked by Connect key by key before it is taken.

import { get, patch, post, put, url } from "./api.js";
import { ask, check, dotted, field, h, note, select, table } from "./dom.js";
import { plural } from "./format.js";

export const JOBS = ["v1", "jobs"];
const CLASS = "connector.class";
const STATES = [["running", "runs"], ["paused", "is paused"], ["stopped", "is stopped"]];

/** Ask for a new connector. */
export async function deploy(view) {
  const plugins = await get(url([...JOBS, "connector-plugins"]));
  const text = h("textarea", { name: "config", required: true, rows: 12, spellcheck: "false" });
  text.value = JSON.stringify({ name: "", [CLASS]: plugins[0]?.class ?? "", "tasks.max": "1" }, null, 2);
  const wrong = h("div", { "aria-live": "polite" });
  ask({
    title: "Deploy a connector",
    content: [
      field("Config, as JSON", text, "a connector’s keys and values; or {\"name\": …, \"config\": {…}}, as Connect’s documents have it"),
      h("details", {}, h("summary", {}, plural(plugins.length, "class", "classes")), h("ul", {}, plugins.map((each) => h("li", {}, dotted(each.class), ` (${each.type})`)))),
      field("When it is there it", select("initial_state", STATES, "running")),
      check("only check it", { name: "dry" }),
      wrong,
    ],
    action: "Deploy",
    async submit(data) {
      const { name, config } = read(data.get("config"));
      if (!name) throw about("The config has no name.");
      await held(wrong, { ...config, name });
      if (data.has("dry")) note("Nothing is wrong with it; it was only checked.");
      else {
        await post(url([...JOBS, "connectors"]), { name, config: { ...config, name }, initial_state: data.get("initial_state") });
        note(`${name} is deployed.`);
        view.look();
      }
    },
  });
}

/** Ask for another config of a connector: the whole of it. */
export function reconfigure(name, config, view) {
  const text = h("textarea", { name: "config", required: true, rows: 14, spellcheck: "false" });
  text.value = JSON.stringify(config, null, 2);
  const wrong = h("div", { "aria-live": "polite" });
  ask({
    title: ["Config of ", h("bdi", {}, name)],
    content: [field("Config, as JSON", text, "the whole of it: a key that is not there is gone. Its tasks are started again."), check("only check it", { name: "dry" }), wrong],
    action: "Set",
    async submit(data) {
      const wanted = { ...read(data.get("config")).config, name };
      await held(wrong, wanted);
      if (data.has("dry")) note("Nothing is wrong with it; it was only checked.");
      else {
        await put(url([...JOBS, "connectors", name, "config"]), wanted);
        note(`The config of ${name} is set.`);
        view.look();
      }
    },
  });
}

/** A config as somebody wrote it: flat, or with a name beside it. */
function read(text) {
  let said;
  try {
    said = JSON.parse(text);
  } catch (error) {
    throw about(`That is no JSON: ${error.message}`);
  }
  if (said === null || typeof said !== "object" || Array.isArray(said)) throw about("That is no object of JSON.");
  const inner = said.config;
  const config = inner !== null && typeof inner === "object" ? inner : said;
  return { name: String(said.name ?? config.name ?? "").trim(), config };
}

/** Have Connect look at a config; what is wrong is shown by its key, and is an error. */
async function held(shown, config) {
  shown.replaceChildren();
  if (!config[CLASS]) throw about(`The config has no ${CLASS}.`);
  const told = await put(url([...JOBS, "connector-plugins", config[CLASS], "config", "validate"]), config);
  const found = told.configs.map((each) => each.value).filter((value) => value.errors.length);
  if (!found.length) return;
  shown.replaceChildren(table("What is wrong", [
    { title: "Key", cell: (value) => dotted(value.name) },
    { title: "What is wrong", cell: (value) => value.errors.map((each) => h("div", {}, each)) },
  ], found, ""));
  throw about(`${plural(told.error_count, "thing is", "things are")} wrong with it, key by key above.`);
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
    title: ["Where ", h("bdi", {}, name), " goes on"],
    content: field("Offsets, as JSON", text, "each as it is told; an offset of null: from the beginning. What is left out stays."),
    action: "Set",
    async submit(data) {
      let wanted;
      try {
        wanted = JSON.parse(data.get("offsets"));
      } catch (error) {
        throw Object.assign(new Error(`That is no JSON: ${error.message}`), { field: "offsets" });
      }
      const { message } = await patch(url([...JOBS, "connectors", name, "offsets"]), { offsets: wanted });
      note(message);
      view.look();
    },
  });
}
