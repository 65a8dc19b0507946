// A controller's process: the latest lines of its log, and a snapshot of the metadata that it is asked to write.

import { act, button, h } from "./dom.js";
import { writeSnapshot } from "./process.js";
import { loadLog, logCard, logTools } from "./process-log.js";

export function open({ controller: id }, query) {
  const view = {
    title: `Controller ${id}`,
    actions: [
      h("a", { class: "button plain", href: "#/quorum" }, "Quorum"),
      button("Write snapshot now", (event) => act(event.currentTarget, () => writeSnapshot(id)), { needs: "operate", key: "snapshot" }),
    ],
    tools: logTools(query, () => view),
    load: (signal) => loadLog(["v1", "quorum", "controllers", id], query, signal),
    draw: logCard,
    // Who reads a log is not disturbed but where the connection was lost meanwhile.
    cares: ({ kind }) => kind === "reconnected",
  };
  return view;
}
