// Transactions: all of them, and those that hang.

import { get, post, url } from "./api.js";
import { ask, badge, button, card, field, h, link, note, select, table, unheard } from "./dom.js";
import { ago, moment } from "./format.js";
import { turner } from "./grid.js";
import { topicInput } from "./topic-input.js";
import { setQuery, unhurried } from "./view.js";

export const STATES = { Ongoing: "warn", PrepareCommit: "warn", PrepareAbort: "warn", CompleteCommit: "good", CompleteAbort: "", Empty: "", Dead: "bad", PrepareEpochFence: "bad" };
const PAGE = 100;
const MINUTES = "15";

export function open(values, query) {
  const change = (name, value) => {
    setQuery(query, name, value);
    setQuery(query, "after", "");
  };
  const soon = unhurried(() => view.look());
  const chosen = select("state", [["", "any"], ...Object.keys(STATES).map((state) => [state, state])], query.get("state") ?? "");
  chosen.addEventListener("change", () => {
    change("state", chosen.value);
    view.look();
  });
  const typed = (name, attributes) => h("input", { name, value: query.get(name) ?? "", autocomplete: "off", ...attributes, oninput: (event) => {
    change(name, event.target.value);
    soon();
  } });
  const tools = h("div", { class: "tools" },
    field("Transactional id", typed("pattern", { "data-filter": true, class: "mono", placeholder: "orders-.*" }), "RE2 pattern of the whole id"),
    field("State", chosen),
    field("Open longer than, minutes", typed("open_for_minutes", { type: "number", min: 0, step: "any" })));
  const hanging = hangingOnes(query);
  const view = {
    title: "Transactions",
    tools,
    load: (signal) => get(url(["v1", "transactions"], { pattern: query.get("pattern"), state: query.get("state"), open_for_ms: minutesOf(query), after: query.get("after"), limit: PAGE }), { signal }),
    draw: (page) => [unheard(page.unreachable, "transactions coordinated there are missing."), card(null, table("Transactions", [
      { title: "Transactional id", cell: (each) => link(`#/transactions/${encodeURIComponent(each.transactional_id)}`, each.transactional_id, { key: `transaction-${each.transactional_id}`, class: "mono" }) },
      { title: "State", cell: (each) => badge(each.state, STATES[each.state]) },
      { title: "Producer", number: true, cell: (each) => each.producer_id },
      { title: "Coordinator", cell: (each) => link(`#/brokers/${each.coordinator}`, `broker ${each.coordinator}`, { key: `coordinator-${each.transactional_id}` }) },
    ], page.transactions, none(query), { key: (each) => each.transactional_id }),
    turner(view, query, page.next, page.transactions.length, "transactions")), hanging],
    // They begin and end without an event of the cluster's.
    cares: (event) => event.kind === "reconnected" || event.kind.startsWith("broker_"),
  };
  return view;
}

/** The minimum age in milliseconds, as the API has it. */
function minutesOf(query) {
  const minutes = query.get("open_for_minutes");
  return minutes && Math.round(Number(minutes) * 60_000);
}

function none(query) {
  if (query.get("pattern") || query.get("state") || query.get("open_for_minutes")) return "No transaction matches.";
  return query.get("after") ? "No more transactions." : "No transactions.";
}

/** The search for hanging ones; its parameters are in the address, which repeats it. */
function hangingOnes(query) {
  const found = h("div", { "aria-live": "polite" });
  const form = h("form", { class: "tools" },
    field("Topic", topicInput({ name: "topic", required: true, value: query.get("topic") ?? "" })),
    field("Open longer than, minutes", h("input", { name: "minutes", type: "number", min: 0, required: true, value: query.get("minutes") ?? MINUTES })),
    h("button", { type: "submit", class: "plain" }, "Find hanging transactions"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const data = new FormData(form);
    setQuery(query, "topic", data.get("topic"));
    setQuery(query, "minutes", data.get("minutes") === MINUTES ? "" : data.get("minutes"));
    find(data.get("topic"), data.get("minutes"));
  });
  let running = null;

  async function find(topic, minutes) {
    running?.abort();
    const mine = (running = new AbortController());
    form.classList.add("busy");
    found.replaceChildren(h("p", { class: "loading" }, "Loading …"));
    try {
      const rows = await get(url(["v1", "hanging-transactions"], { topic, open_for_minutes: minutes }), { signal: mine.signal });
      found.replaceChildren(table("Hanging transactions", [
        { title: "Partition", cell: (each) => `${each.topic}-${each.partition}` },
        { title: "Start offset", number: true, cell: (each) => each.start_offset },
        { title: "Producer", number: true, cell: (each) => `${each.producer_id}, epoch ${each.producer_epoch}` },
        { title: "Last record", cell: (each) => h("span", { title: moment(each.last_timestamp_ms) }, ago(each.last_timestamp_ms)) },
        { title: "", cell: (each) => button("Abort …", () => abort(each, () => find(topic, minutes)), { kind: "danger", needs: "operate", label: `Abort on ${each.topic}-${each.partition} from ${each.start_offset}` }) },
      ], rows, "No hanging transactions."));
    } catch (error) {
      if (mine === running) found.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    } finally {
      if (mine === running) form.classList.remove("busy");
    }
  }
  if (query.get("topic")) find(query.get("topic"), query.get("minutes") ?? MINUTES);
  const shown = card("Hanging transactions", h("p", { class: "quiet" }, "Transactions that are open on a partition and have no coordinator that would end them. Consumers with read_committed wait at their start offset."), form, found);
  shown.dataset.own = "";
  shown.dataset.key = "hanging";
  return shown;
}

function abort(each, then) {
  ask({
    title: `Abort on ${each.topic}-${each.partition}`,
    content: h("p", {}, `Writes an abort marker. Records of producer ${each.producer_id} from offset ${each.start_offset} on are not visible to read_committed consumers.`),
    action: "Abort", danger: true,
    async submit() {
      await post("/v1/hanging-transactions/abort", { topic: each.topic, partition: each.partition, start_offset: each.start_offset });
      note("Transaction aborted.");
      then();
    },
  });
}
