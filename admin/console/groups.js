// The list of groups, kept up to date by a stream of its own.

import { get, url } from "./api.js";
import { badge, card, field, h, link, select, table, unheard } from "./dom.js";
import { chips, star } from "./favourites.js";
import { turner } from "./grid.js";
import { keptUp } from "./kept-up.js";
import { setQuery, unhurried } from "./view.js";

export const STATES = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn", NotReady: "warn" };
const TYPES = [["", "any"], ["classic", "classic"], ["consumer", "consumer"]];
const PAGE = 100;

export function open(values, query) {
  const asked = () => ({ prefix: query.get("prefix"), state: query.get("state"), type: query.get("type"), after: query.get("after"), limit: PAGE });
  const again = () => {
    setQuery(query, "after", "");
    live.follow(url(["v1", "live", "groups"], asked()));
    view.look();
  };
  const soon = unhurried(again);
  const choice = (name, options) => {
    const chosen = select(name, options, query.get(name) ?? "");
    chosen.addEventListener("change", () => {
      setQuery(query, name, chosen.value);
      again();
    });
    return chosen;
  };
  const view = {
    title: "Groups",
    tools: h("div", { class: "tools" },
      field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("prefix") ?? "", placeholder: "how the name begins", oninput: (event) => {
        setQuery(query, "prefix", event.target.value);
        soon();
      } })),
      field("State", choice("state", [["", "any"], ...Object.keys(STATES).map((state) => [state, state])])),
      field("Kind", choice("type", TYPES))),
    load: (signal) => get(url(["v1", "groups"], asked()), { signal }),
    draw: (page) => [
      chips("group"),
      unheard(page.unreachable, "the groups that are coordinated there are missing here."),
      card(null, table("Groups", [
        { title: "Group", cell: (group) => [star("group", group.group_id, () => view.redraw()), " ", link(to(group.group_id), group.group_id, { key: `group-${group.group_id}` })] },
        { title: "State", cell: (group) => badge(group.state, STATES[group.state]) },
        { title: "Kind", cell: (group) => group.type },
        { title: "Protocol", cell: (group) => group.protocol_type || "–" },
        { title: "Coordinator", cell: (group) => link(`#/brokers/${group.coordinator}`, `broker ${group.coordinator}`, { key: `coordinator-${group.group_id}` }) },
      ], page.groups, none(query), { key: (group) => group.group_id }),
      turner(view, query, page.next, page.groups.length, "groups")),
    ],
    cares: (event) => event.kind.startsWith("broker_") || event.kind === "reconnected",
    close: () => live.end(),
  };
  const live = keptUp(() => view, "groups");
  live.follow(url(["v1", "live", "groups"], asked()));
  return view;
}

export function to(id) {
  return `#/groups/${encodeURIComponent(id)}`;
}

function none(query) {
  if (query.get("prefix") || query.get("state") || query.get("type")) return "No group is so.";
  return query.get("after") ? "There are no groups behind that." : "No group has been here: a consumer with a group.id makes one.";
}
