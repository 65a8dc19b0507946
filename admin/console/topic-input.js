// An input for names of topics, with completion.

import { get, url } from "./api.js";
import { h } from "./dom.js";
import { pattern } from "./topics.js";
import { unhurried } from "./view.js";

const OFFERED = 20;
let lists = 0;

/** An input with the topics that contain what is typed; `many`: names separated by commas, of which the last is completed. */
export function topicInput(attributes, many = false) {
  const names = h("datalist", { id: `topics-${(lists += 1)}` });
  let running = null;

  async function offer(text) {
    running?.abort();
    running = new AbortController();
    const start = many ? text.lastIndexOf(",") + 1 : 0;
    const part = text.slice(start).trim();
    const before = text.slice(0, text.length - text.slice(start).trimStart().length);
    try {
      const { topics } = await get(url(["v1", "topics"], { filter: pattern(part), internal: "true", limit: OFFERED }), { signal: running.signal });
      names.replaceChildren(...topics.map(({ name }) => h("option", { value: `${before}${name}` })));
    } catch (error) {
      if (error.name !== "AbortError" && !error.passing) throw error;
    }
  }

  const soon = unhurried(offer);
  const input = h("input", { autocomplete: "off", ...attributes, list: names.id, onfocus: (event) => offer(event.target.value), oninput: (event) => soon(event.target.value) });
  return h("span", { class: "completed" }, input, names);
}
