// One transaction with its partitions; a blocking one can be aborted here.

import { get, post, url } from "./api.js";
import { ask, badge, button, card, figure, figures, h, link, note } from "./dom.js";
import { ago, moment, span } from "./format.js";
import { grid } from "./grid.js";
import { STATES } from "./transactions.js";

const OPEN = ["Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence"];

export function open({ id }, query) {
  const path = (...more) => url(["v1", "transactions", id, ...more]);
  const view = {
    title: id,
    actions: button("Abort and fence …", () => terminate(), { kind: "danger", needs: "operate", key: "terminate" }),
    async load(signal) {
      const [transaction, partitions] = await Promise.all([get(path(), { signal }), get(path("partitions"), { signal })]);
      return { transaction, partitions };
    },
    draw: ({ transaction, partitions }) => [
      figures(
        figure("State", transaction.state, STATES[transaction.state] === "bad" ? "bad" : OPEN.includes(transaction.state) ? "warn" : ""),
        figure("Producer", transaction.producer_id), figure("Epoch", transaction.producer_epoch),
        figure("Coordinator", link(`#/brokers/${transaction.coordinator}`, `broker ${transaction.coordinator}`, { key: "coordinator" }), "small"),
        figure("Started", transaction.start_time_ms === null ? "–" : h("span", { title: moment(transaction.start_time_ms) }, ago(transaction.start_time_ms)), "small"),
        figure("Timeout", span(transaction.timeout_ms), "small")),
      card("Partitions", grid(view, query, "Partitions", [
        { title: "Partition", cell: (each) => link(`#/topics/${encodeURIComponent(each.topic)}/partitions/${each.partition}`, `${each.topic}-${each.partition}`, { key: `to-${each.topic}-${each.partition}` }), by: (each) => `${each.topic}-${each.partition}` },
        { title: "Start offset", number: true, cell: (each) => (each.error ? badge(each.error, "bad") : each.start_offset), by: (each) => each.start_offset },
        { title: "Producer epoch", number: true, cell: (each) => each.producer_epoch },
        { title: "Last record", cell: (each) => each.last_timestamp_ms !== null && h("span", { title: moment(each.last_timestamp_ms) }, ago(each.last_timestamp_ms)), by: (each) => each.last_timestamp_ms },
      ], partitions, "No partitions.", { key: (each) => `${each.topic}-${each.partition}` })),
    ],
    cares: (event) => event.kind === "reconnected" || event.kind.startsWith("broker_"),
  };

  function terminate() {
    ask({
      title: ["Abort and fence ", h("bdi", {}, id)],
      content: h("p", {}, "Aborts the open transaction and fences its producer: further writes of that producer are rejected. A new producer with this transactional id can continue."),
      action: "Abort and fence", danger: true,
      async submit() {
        await post(path("abort"));
        note(`Transaction ${id} aborted.`);
        view.look();
      },
    });
  }
  return view;
}
