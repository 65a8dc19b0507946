// The groups that read a topic: with committed offsets or assigned partitions.

import { get, url } from "./api.js";
import { badge, card, h, link, table, unheard } from "./dom.js";
import { count } from "./format.js";
import { turner } from "./grid.js";
import { lagShown, STATES, to as toGroup } from "./groups.js";
import { actions, parts } from "./topic-parts.js";

const PAGE = 100;

export function open({ topic: name }, query) {
  const view = {
    title: name,
    actions: actions(name, () => view),
    tools: parts(name, "consumers"),
    load: (signal) => get(url(["v1", "topics", name, "groups"], { after: query.get("after"), limit: PAGE }), { signal }),
    draw: (page) => [
      unheard(page.unreachable, "groups coordinated there are missing."),
      card("Consumers",
        h("p", { class: "quiet" }, "Groups with committed offsets or assigned partitions of this topic. All groups of the cluster are queried."),
        table("Consumers", [
          { title: "Group", cell: (group) => link(toGroup(group.group_id), group.group_id, { key: `group-${group.group_id}` }) },
          { title: "State", cell: (group) => badge(group.state, STATES[group.state]) },
          { title: "Type", cell: (group) => group.type },
          { title: "Assigned members", number: true, cell: (group) => count(group.members) },
          { title: "Partitions", number: true, cell: (group) => count(group.partitions) },
          { title: "Lag", number: true, cell: (group) => lagShown(group.lag, group.partitions_unknown) },
        ], page.groups, query.get("after") ? "No more groups." : "No group reads this topic.", { key: (group) => group.group_id }),
        turner(view, query, page.next, page.groups.length, "groups")),
    ],
    // Offsets of groups have no events: they are those of the last load.
    cares: (event) => event.kind === "reconnected",
  };
  return view;
}
