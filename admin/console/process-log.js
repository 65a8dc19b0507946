// The latest lines of a process's log in its memory, newest first.

import { get, url } from "./api.js";
import { badge, card, field, h, nothing, select } from "./dom.js";
import { clock, moment, plural } from "./format.js";
import { silentCard, told } from "./process.js";
import { setQuery } from "./view.js";

const LEVELS = [["debug", "debug and above"], ["info", "info and above"], ["warning", "warnings and errors"], ["error", "errors only"]];
const LINES = [["200", "200"], ["1000", "1,000"]];
const KINDS = { WARN: "warn", WARNING: "warn", ERROR: "bad", CRITICAL: "bad", FATAL: "bad" };

/** `view()`: the page, which reloads. */
export function logTools(query, view) {
  const chosen = (name, options, otherwise) => {
    const made = select(name, options, query.get(name) ?? otherwise);
    made.addEventListener("change", () => {
      setQuery(query, name, made.value === otherwise ? "" : made.value);
      view().look();
    });
    return made;
  };
  return h("div", { class: "tools" },
    field("Level", chosen("level", LEVELS, "info")), field("Lines", chosen("lines", LINES, "200")));
}

/** `path`: of the broker or controller. */
export function loadLog(path, query, signal) {
  return told(get(url([...path, "log"], { level: query.get("level"), lines: query.get("lines") }), { signal }));
}

export function logCard(found) {
  if (found instanceof Error) return silentCard("Log", found);
  const lines = [...found.lines].reverse();
  return card("Log",
    h("p", { class: "quiet" }, "Newest first. Refresh to load newer lines.", found.dropped > 0 && ` ${plural(found.dropped, "older line")} dropped: the process keeps the most recent lines only.`),
    lines.length ? h("ol", { class: "log", reversed: true }, lines.map(line)) : nothing("No lines at this level."));
}

function line({ time, level, room, message, facts }) {
  const at = Date.parse(time);
  const today = moment(at)?.slice(0, 10) === moment(Date.now()).slice(0, 10);
  return h("li", {}, h("time", { datetime: time, title: moment(at) }, today ? clock(at) : moment(at)?.slice(0, -4)),
    h("div", { class: "mono" }, badge(level, KINDS[level] ?? ""), " ", h("strong", {}, room), " ", message, Object.entries(facts).map(fact)));
}

function fact([name, value]) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (text.includes("\n")) return h("pre", {}, `${name}:\n${text}`);
  return [" ", h("span", {}, h("span", { class: "quiet" }, `${name}=`), text)];
}
