// Transactions: all of them, those that hang, and one with its partitions; what holds readers up is ended here.

import { get, post, url } from "./api.js";
import { ask, badge, card, field, figure, h, note, nothing, select, table } from "./dom.js";
import { ago, count, moment } from "./format.js";
import { setQuery } from "./view.js";

const STATES = { Ongoing: "warn", PrepareCommit: "warn", PrepareAbort: "warn", CompleteCommit: "good", CompleteAbort: "", Empty: "", Dead: "bad", PrepareEpochFence: "bad" };
const OPEN = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"];
const SHOWN = 500;

export function open(values, query) {
  return values.id === undefined ? all(query) : one(values.id);
}

function all(query) {
  const hanging = h("div", { "aria-live": "polite" });
  const seek = h("form", { class: "tools" },
    field("Topic", h("input", { name: "topic", required: true, autocomplete: "off", value: query.get("topic") ?? "" })),
    field("Open for longer than, minutes", h("input", { name: "minutes", type: "number", min: 0, value: 15 })),
    h("button", { type: "submit", class: "plain" }, "Find hanging ones"));
  const tools = h("div", { class: "tools" },
    field("State", select("state", [["", "any"], ...Object.keys(STATES).map((state) => [state, state])], query.get("state") ?? "")),
    field("Open for longer than, ms", h("input", { type: "number", min: 0, name: "open_for_ms", value: query.get("open_for_ms") ?? "" })));
  const view = {
    title: "Transactions",
    tools: [h("div", {}, card("Hanging transactions", h("p", { class: "quiet" }, "Open on a partition, and no coordinator will end them: who reads committed records waits there."), seek, hanging)), tools],
    load: (signal) => get(url(["v1", "transactions"], { state: query.get("state"), open_for_ms: query.get("open_for_ms"), limit: SHOWN }), { signal }),
    draw: (page) => card(null, table("Transactions", [
      { title: "Transactional id", cell: (each) => h("a", { class: "mono", href: `#/transactions/${encodeURIComponent(each.transactional_id)}`, "data-key": `transaction-${each.transactional_id}` }, each.transactional_id) },
      { title: "State", cell: (each) => badge(each.state, STATES[each.state]) },
      { title: "Producer", number: true, cell: (each) => count(each.producer_id) },
      { title: "Coordinator", cell: (each) => h("a", { href: `#/brokers/${each.coordinator}` }, `broker ${each.coordinator}`) },
    ], page.transactions, "No transaction is known here."), page.next && h("p", { class: "quiet" }, `Only the first ${count(SHOWN)} are shown: narrow them by a state.`)),
  };
  tools.addEventListener("change", (event) => {
    setQuery(query, event.target.name, event.target.value);
    view.look();
  });
  seek.addEventListener("submit", async (event) => {
    event.preventDefault();
    const data = new FormData(seek);
    setQuery(query, "topic", data.get("topic"));
    await find(data.get("topic"), data.get("minutes"));
  });

  async function find(topic, minutes) {
    seek.classList.add("busy");
    try {
      const rows = await get(url(["v1", "hanging-transactions"], { topic, open_for_minutes: minutes }));
      hanging.replaceChildren(table("Hanging transactions", [
        { title: "Partition", cell: (each) => `${each.topic}-${each.partition}` },
        { title: "Begins at", number: true, cell: (each) => count(each.start_offset) },
        { title: "Producer", number: true, cell: (each) => `${count(each.producer_id)}, epoch ${each.producer_epoch}` },
        { title: "Last record", cell: (each) => h("span", { title: moment(each.last_timestamp_ms) }, ago(each.last_timestamp_ms)) },
        { title: "", cell: (each) => h("button", { type: "button", class: "danger", "aria-label": `Abort on ${each.topic}-${each.partition} from ${each.start_offset}`, onclick: () => abort(each, () => find(topic, minutes)) }, "Abort …") },
      ], rows, "No transaction hangs there."));
    } catch (error) {
      hanging.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    } finally {
      seek.classList.remove("busy");
    }
  }
  return view;
}

function abort(each, then) {
  ask({
    title: `Abort on ${each.topic}-${each.partition}`,
    content: h("p", {}, `What producer ${count(each.producer_id)} wrote there from offset ${count(each.start_offset)} on is never read as committed.`),
    action: "Abort", danger: true,
    async submit() {
      await post("/v1/hanging-transactions/abort", { topic: each.topic, partition: each.partition, start_offset: each.start_offset });
      note("The transaction is aborted.");
      then();
    },
  });
}

function one(id) {
  const path = (...more) => url(["v1", "transactions", id, ...more]);
  const view = {
    title: id,
    actions: h("button", { type: "button", class: "danger", onclick: () => terminate() }, "Abort and fence …"),
    async load(signal) {
      const [transaction, partitions] = await Promise.all([get(path(), { signal }), get(path("partitions"), { signal })]);
      return { transaction, partitions };
    },
    draw: ({ transaction, partitions }) => [
      h("dl", { class: "figures" },
        figure("State", transaction.state, STATES[transaction.state] === "bad" ? "bad" : OPEN.includes(transaction.state) ? "warn" : ""),
        figure("Producer", count(transaction.producer_id)), figure("Epoch", count(transaction.producer_epoch)),
        figure("Coordinator", h("a", { href: `#/brokers/${transaction.coordinator}` }, `broker ${transaction.coordinator}`), "small"),
        figure("Began", transaction.start_time_ms === null ? "–" : ago(transaction.start_time_ms), "small"),
        figure("May take", `${count(transaction.timeout_ms / 1000)} s`, "small")),
      card("Partitions", partitions.length ? table("Partitions", [
        { title: "Partition", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.topic)}` }, `${each.topic}-${each.partition}`) },
        { title: "Begins at", number: true, cell: (each) => (each.error ? badge(each.error, "bad") : count(each.start_offset)) },
        { title: "Producer’s epoch", number: true, cell: (each) => count(each.producer_epoch) },
        { title: "Last record", cell: (each) => each.last_timestamp_ms !== null && h("span", { title: moment(each.last_timestamp_ms) }, ago(each.last_timestamp_ms)) },
      ], partitions, "") : nothing("No partition is part of it now.")),
    ],
  };

  function terminate() {
    ask({
      title: `Abort and fence ${id}`,
      content: h("p", {}, "What it has open is aborted, and whoever writes under this id now is refused from then on, even if it is at work. A producer that begins anew may."),
      action: "Abort and fence", danger: true,
      async submit() {
        await post(path("abort"));
        note(`${id} is aborted.`);
        view.look();
      },
    });
  }
  return view;
}
