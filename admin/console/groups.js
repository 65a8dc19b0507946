// The list of groups, kept up to date by a stream of its own.

import { get, url } from "./api.js";
import { badge, card, field, h, link, select, table, unheard } from "./dom.js";
import { chips, star } from "./favourites.js";
import { count } from "./format.js";
import { turner } from "./grid.js";
import { keptUp } from "./kept-up.js";
import { setQuery, unhurried } from "./view.js";

export const STATES = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn", NotReady: "warn" };
const TYPES = [["", "any"], ["classic", "classic"], ["consumer", "consumer"]];
const PAGE = 100;

export function open(values, query) {
  const asked = () => ({ prefix: query.get("prefix"), state: query.get("state"), type: query.get("type"), after: query.get("after"), limit: PAGE });
  // How far groups are behind takes longer to be known than which there are: it comes by the stream, for those on this page.
  const followed = () => url(["v1", "live", "groups"], { ...asked(), lag: "true" });
  let lags = new Map();
  const again = () => {
    setQuery(query, "after", "");
    lags = new Map();
    live.follow(followed());
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
      field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("prefix") ?? "", placeholder: "name prefix", oninput: (event) => {
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
        { title: "Lag", number: true, cell: (group) => (lags.has(group.group_id) ? lagOf(lags.get(group.group_id)) : h("span", { class: "quiet" }, "…")) },
        { title: "Coordinator", cell: (group) => link(`#/brokers/${group.coordinator}`, `broker ${group.coordinator}`, { key: `coordinator-${group.group_id}` }) },
      ], page.groups, none(query), { key: (group) => group.group_id }),
      turner({ ...view, look: turned }, query, page.next, page.groups.length, "groups")),
    ],
    cares: (event) => event.kind.startsWith("broker_") || event.kind === "reconnected",
    close: () => live.end(),
  };
  /** Another page: the lags are of its groups. */
  function turned() {
    lags = new Map();
    live.follow(followed());
    view.look();
  }
  const live = keptUp(() => view, "groups", (page) => {
    lags = new Map(page.groups.map((group) => [group.group_id, group]));
    return page;
  });
  live.follow(followed());
  return view;
}

function lagOf({ lag, lag_unknown: unknown }) {
  return lag === null || lag === undefined ? "–" : lagShown(lag, unknown);
}

/** How far a group is behind, and in how many partitions that is not known. */
export function lagShown(lag, unknown) {
  return [lag ? badge(count(lag), "warn") : "0", unknown > 0 && h("small", {}, ` and ${count(unknown)} not known`)];
}

export function to(id) {
  return `#/groups/${encodeURIComponent(id)}`;
}

function none(query) {
  if (query.get("prefix") || query.get("state") || query.get("type")) return "No group is so.";
  return query.get("after") ? "There are no groups behind that." : "No group has been here: a consumer with a group.id makes one.";
}
