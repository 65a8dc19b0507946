// Transactions and who holds them open.

import { get, url } from "./api.js";
import { badge, card, field, h, select, table } from "./dom.js";
import { count } from "./format.js";
import { setQuery } from "./view.js";

const STATES = { Ongoing: "warn", PrepareCommit: "warn", PrepareAbort: "warn", CompleteCommit: "good", CompleteAbort: "", Empty: "", Dead: "bad", PrepareEpochFence: "bad" };

export function open(values, query) {
  const view = {
    title: "Transactions",
    tools: h("div", { class: "tools" },
      field("State", select("state", [["", "any"], ...Object.keys(STATES).map((state) => [state, state])], query.get("state") ?? "")),
      field("Open for longer than, ms", h("input", { type: "number", min: 0, name: "open_for_ms", value: query.get("open_for_ms") ?? "" }))),
    load: (signal) => get(url(["v1", "transactions"], { state: query.get("state"), open_for_ms: query.get("open_for_ms"), limit: 500 }), { signal }),
    draw: (page) => card(null, table("Transactions", [
      { title: "Transactional id", cell: (each) => h("span", { class: "mono" }, each.transactional_id) },
      { title: "State", cell: (each) => badge(each.state, STATES[each.state]) },
      { title: "Producer", number: true, cell: (each) => count(each.producer_id) },
      { title: "Coordinator", cell: (each) => h("a", { href: `#/brokers/${each.coordinator}` }, `broker ${each.coordinator}`) },
    ], page.transactions, "No transaction is known here.")),
  };
  view.tools.addEventListener("change", (event) => {
    setQuery(query, event.target.name, event.target.value);
    view.look();
  });
  return view;
}
