// A controller's process: the latest lines of its log, and a metadata snapshot on demand.

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
    // The log is not updated while it is read, except after a lost connection.
    cares: ({ kind }) => kind === "reconnected",
  };
  return view;
}
