// Leaders that are not the preferred ones, and partitions without any; elections by hand.

import { get, post, url } from "./api.js";
import { ask, badge, card, h, note, table } from "./dom.js";
import { count, list } from "./format.js";

const TOPICS_MAX = 500;

export function open() {
  const view = {
    title: "Elections",
    actions: [
      h("button", { type: "button", onclick: () => elect(null) }, "Elect all preferred leaders"),
    ],
    async load(signal) {
      const { topics, next } = await get(url(["v1", "topics"], { internal: "true", limit: TOPICS_MAX }), { signal });
      const found = await Promise.all(topics.map((topic) => get(url(["v1", "topics", topic.name, "partitions"]), { signal })));
      const rows = topics.flatMap((topic, at) => found[at].map((each) => ({ topic: topic.name, ...each })));
      return { rows: rows.filter((each) => each.leader < 0 || each.leader !== each.replicas[0]), all: rows.length, cut: next !== null };
    },
    draw: ({ rows, all, cut }) => [
      h("p", { class: "quiet" }, `${count(rows.length)} of ${count(all)} partitions are not led by their preferred replica.`,
        cut && ` Only the first ${count(TOPICS_MAX)} topics were looked at.`),
      card(null, table("Partitions", [
        { title: "Partition", cell: (each) => h("a", { href: `#/topics/${encodeURIComponent(each.topic)}` }, `${each.topic}-${each.partition}`) },
        { title: "Leader", cell: (each) => (each.leader < 0 ? badge("none", "bad") : each.leader) },
        { title: "Preferred", cell: (each) => each.replicas[0] },
        { title: "In sync", cell: (each) => list(each.isr) },
        { title: "", cell: (each) => h("button", { type: "button", class: each.leader < 0 ? "danger" : "plain", "data-key": `elect-${each.topic}-${each.partition}`,
          "aria-label": `Elect a leader for ${each.topic}-${each.partition}`, onclick: () => elect(each) }, each.leader < 0 ? "Elect any replica" : "Move back") },
      ], rows, "Every partition is led by its preferred replica.")),
    ],
  };

  function elect(each) {
    const unclean = each !== null && each.leader < 0;
    ask({
      title: each === null ? "Elect all preferred leaders" : `Elect a leader for ${each.topic}-${each.partition}`,
      content: h("p", {}, unclean
        ? "Any living replica becomes the leader. Records that only others have are lost."
        : "Leadership goes to the first replica of the assignment where it is in sync."),
      action: "Elect",
      danger: unclean,
      async submit() {
        const results = await post("/v1/leaders/elect", each === null ? { unclean, all: true } : { unclean, partitions: { [each.topic]: [each.partition] } });
        const failed = results.filter((result) => result.error && result.error !== "ELECTION_NOT_NEEDED");
        if (failed.length) throw new Error(failed.map((result) => `${result.topic}-${result.partition}: ${result.message || result.error}`).join("; "));
        note(`${results.filter((result) => !result.error).length} elected.`);
        view.look();
      },
    });
  }
  return view;
}
