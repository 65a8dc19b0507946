// Records as a file: what a search finds, as lines of JSON or as CSV.

import { url } from "./api.js";
import { ask, field, h, select } from "./dom.js";
import { getFile } from "./download.js";
import { begin, chosen, isTail } from "./message-search.js";

const LIMIT = 100_000;

export function exportRecords(topic, query) {
  const progress = h("p", { class: "quiet", role: "status" });
  const ends = new AbortController();
  const dialog = ask({
    title: ["Export of ", h("bdi", {}, topic)],
    content: [
      h("p", {}, "What the search above is narrowed to, ", isTail(query) ? "from the oldest record on" : "from where it begins", ", up to where the logs end now. The last line of the file says what ended it."),
      field("As", select("format", [["ndjson", "lines of JSON (NDJSON)"], ["csv", "CSV"]], "ndjson")),
      field("Limit", h("input", { name: "limit", type: "number", min: 1, max: 10_000_000, value: LIMIT, required: true }), "records"),
      progress,
    ],
    action: "Export",
    async submit(data) {
      const path = url(["v1", "topics", topic, "messages", "export"], { format: data.get("format"), limit: data.get("limit"), ...begin(query), ...chosen(query) });
      await getFile(path, `${topic}.${data.get("format")}`, progress, ends.signal);
    },
  });
  dialog.addEventListener("close", () => ends.abort());
}
