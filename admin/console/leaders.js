// Leaders that are not the preferred ones, and partitions without any; elections by hand.

import { get, post, url } from "./api.js";
import { ask, badge, button, card, h, link, note } from "./dom.js";
import { count, list, plural } from "./format.js";
import { grid } from "./grid.js";

const ROWS_MAX = 10_000;
const KINDS = ["leader_elected", "leader_lost", "isr_changed", "reassignment_changed", "reconnected", "topic_created", "topic_deleted", "partition_created"];

export function open(values, query) {
  const all = button("Elect all preferred leaders", () => elect(null), { kind: "", needs: "operate", key: "elect-all" });
  const view = {
    title: "Elections",
    actions: all,
    load: (signal) => get(url(["v1", "leaders"], { limit: ROWS_MAX }), { signal }),
    draw: (found) => [
      ready(found.unpreferred > 0),
      h("p", { class: "quiet" }, found.unpreferred || found.leaderless ? `${count(found.unpreferred)} of ${plural(found.partitions, "partition")} not led by the preferred replica` : `${plural(found.partitions, "partition")}`,
        found.leaderless > 0 && [", ", badge(`${count(found.leaderless)} without a leader`, "bad")], ".",
        found.more && ` Only ${count(found.rows.length)} are shown.`),
      card(null, grid(view, query, "Partitions", [
        { title: "Partition", cell: (each) => link(`#/topics/${encodeURIComponent(each.topic)}/partitions/${each.partition}`, `${each.topic}-${each.partition}`, { key: `to-${each.topic}-${each.partition}` }), by: (each) => `${each.topic}-${each.partition}` },
        { title: "Leader", cell: (each) => (each.leader < 0 ? badge("none", "bad") : each.leader), by: (each) => each.leader },
        { title: "Preferred", cell: (each) => each.preferred, by: (each) => each.preferred },
        { title: "In sync", cell: (each) => list(each.isr) },
        { title: "", cell: (each) => (each.leader < 0
          ? button("Unclean election …", () => elect(each), { kind: "danger", needs: "admin", key: `elect-${each.topic}-${each.partition}`, label: `Elect a leader for ${each.topic}-${each.partition}` })
          : button("Elect preferred", () => elect(each), { needs: "operate", key: `elect-${each.topic}-${each.partition}`, label: `Elect a leader for ${each.topic}-${each.partition}` })) },
      ], found.rows, "Every partition is led by its preferred replica.", { key: (each) => `${each.topic}-${each.partition}` })),
    ],
    cares: (event) => KINDS.includes(event.kind),
  };

  /** The button is enabled if there is something to elect. */
  function ready(is) {
    all.disabled = !is;
    return null;
  }

  function elect(each) {
    const unclean = each !== null && each.leader < 0;
    ask({
      title: each === null ? "Elect all preferred leaders" : `Elect a leader for ${each.topic}-${each.partition}`,
      content: h("p", {}, unclean
        ? "Any live replica becomes the leader. Records that only other replicas have are lost."
        : "The first replica of the assignment becomes the leader, if it is in sync."),
      action: "Elect",
      danger: unclean,
      async submit() {
        const results = await post("/v1/leaders/elect", each === null ? { unclean, all: true } : { unclean, partitions: { [each.topic]: [each.partition] } });
        view.look();
        const failed = results.filter((result) => result.error && result.error !== "ELECTION_NOT_NEEDED");
        if (failed.length) throw new Error(failed.map((result) => `${result.topic}-${result.partition}: ${result.message || result.error}`).join("; "));
        note(`${count(results.filter((result) => !result.error).length)} elected.`);
      },
    });
  }
  return view;
}
