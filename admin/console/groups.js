// The list of groups, updated by its own stream.

import { get, url } from "./api.js";
import { badge, card, field, h, link, select, table, unheard } from "./dom.js";
import { chips, star } from "./favourites.js";
import { count } from "./format.js";
import { turner } from "./grid.js";
import { keptUp } from "./kept-up.js";
import { pattern, to as toTopic } from "./topics.js";
import { setQuery, unhurried } from "./view.js";

export const STATES = { Stable: "good", Empty: "", Dead: "bad", PreparingRebalance: "warn", CompletingRebalance: "warn", Assigning: "warn", Reconciling: "warn", NotReady: "warn" };
const TYPES = [["", "any"], ["classic", "classic"], ["consumer", "consumer"]];
const PAGE = 100;

export function open(values, query) {
  const asked = () => ({ filter: pattern(query.get("filter")), state: query.get("state"), type: query.get("type"), after: query.get("after"), limit: PAGE });
  // Lag, members and topics take longer than the list: the stream sends them for the groups of this page.
  const followed = () => url(["v1", "live", "groups"], { ...asked(), lag: "true" });
  let lags = new Map();
  const detail = (group, of) => (lags.has(group.group_id) ? of(lags.get(group.group_id)) ?? "–" : h("span", { class: "quiet" }, "…"));
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
      field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("filter") ?? "", placeholder: "part of a name, or * and ?", oninput: (event) => {
        setQuery(query, "filter", event.target.value);
        soon();
      } })),
      field("State", choice("state", [["", "any"], ...Object.keys(STATES).map((state) => [state, state])])),
      field("Type", choice("type", TYPES))),
    load: (signal) => get(url(["v1", "groups"], asked()), { signal }),
    draw: (page) => [
      chips("group"),
      unheard(page.unreachable, "groups coordinated there are missing."),
      card(null, table("Groups", [
        { title: "Group", cell: (group) => [star("group", group.group_id, () => view.redraw()), " ", link(to(group.group_id), group.group_id, { key: `group-${group.group_id}` })] },
        { title: "State", cell: (group) => badge(group.state, STATES[group.state]) },
        { title: "Type", cell: (group) => group.type },
        { title: "Members", number: true, cell: (group) => detail(group, ({ members }) => count(members)) },
        { title: "Topics", cell: (group) => detail(group, ({ topics }) => topics && topicLinks(group, topics)) },
        { title: "Lag", number: true, cell: (group) => detail(group, lagOf) },
        { title: "Coordinator", cell: (group) => link(`#/brokers/${group.coordinator}`, `broker ${group.coordinator}`, { key: `coordinator-${group.group_id}` }) },
      ], page.groups, none(query), { key: (group) => group.group_id }),
      turner({ ...view, look: turned }, query, page.next, page.groups.length, "groups")),
    ],
    cares: (event) => event.kind.startsWith("broker_") || event.kind === "reconnected",
    close: () => live.end(),
  };
  /** Another page has the lags of other groups. */
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

/** The lag of a group, and the number of partitions in which it is unknown. */
export function lagShown(lag, unknown) {
  return [lag ? badge(count(lag), "warn") : "0", unknown > 0 && h("small", {}, `, unknown in ${count(unknown)}`)];
}

const TOPICS_SHOWN = 3;

function topicLinks(group, topics) {
  const shown = topics.slice(0, TOPICS_SHOWN).map((name, at) => [at > 0 && ", ", link(toTopic(name), name, { key: `topic-${group.group_id}-${name}` })]);
  return [topics.length ? shown : "–", topics.length > TOPICS_SHOWN && h("span", { class: "quiet", title: topics.slice(TOPICS_SHOWN).join(", ") }, ` and ${count(topics.length - TOPICS_SHOWN)} more`)];
}

export function to(id) {
  return `#/groups/${encodeURIComponent(id)}`;
}

function none(query) {
  if (query.get("filter") || query.get("state") || query.get("type")) return "No group matches.";
  return query.get("after") ? "No more groups." : "No groups yet. A consumer with a group.id creates one.";
}
