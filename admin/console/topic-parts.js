// The parts of a topic, as tabs.

import { h, tabs } from "./dom.js";
import { to } from "./topics.js";

export function parts(name, current) {
  const at = { partitions: to(name), configs: `${to(name)}/configs`, consumers: `${to(name)}/consumers`, analysis: `${to(name)}/analysis` };
  return tabs("Parts of the topic", [[at.partitions, "Partitions"], [at.configs, "Configs"], [at.consumers, "Consumers"], [at.analysis, "Analysis"]], at[current]);
}

/** Links from a part of a topic to its own page. */
export function ways(name) {
  return h("a", { class: "button plain", href: `${to(name)}/messages` }, "Messages");
}
