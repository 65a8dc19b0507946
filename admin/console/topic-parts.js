// What the pages of a topic share: its tabs, and what can be done to it.

import { get, url } from "./api.js";
import { act, button, h, menu, tabs } from "./dom.js";
import { star } from "./favourites.js";
import { clone, deleteRecords, drop, grow } from "./topic-dialogs.js";
import { to } from "./topics.js";

export function parts(name, current) {
  const at = { partitions: to(name), configs: `${to(name)}/configs`, consumers: `${to(name)}/consumers`, analysis: `${to(name)}/analysis` };
  return tabs("Parts of the topic", [[at.partitions, "Partitions"], [at.configs, "Configs"], [at.consumers, "Consumers"], [at.analysis, "Analysis"]], at[current]);
}

/** The actions on a topic, the same on each of its tabs. `view()`: the page, which looks again afterwards. */
export function actions(name, view) {
  const described = (ask) => (event) => act(event.currentTarget, async () => ask(await get(url(["v1", "topics", name]))));
  return [
    star("topic", name),
    h("a", { class: "button plain", href: `${to(name)}/messages` }, "Messages"),
    button("Add partitions", () => grow(name, view()), { needs: "admin", key: "grow" }),
    menu("More", [
      h("a", { class: "button plain", href: `#/reassignment?topics=${encodeURIComponent(name)}` }, "Reassign replicas"),
      button("Clone", described((topic) => clone(name, topic)), { needs: "admin", key: "clone" }),
      button("Delete records …", described((topic) => deleteRecords(name, topic, view())), { needs: "admin", key: "delete-records" }),
      button("Delete topic", () => drop(name), { kind: "danger", needs: "admin", key: "drop" }),
    ]),
  ];
}
