// Export of search results to a file, as JSON lines or CSV.

import { url } from "./api.js";
import { ask, field, h, select } from "./dom.js";
import { getFile } from "./download.js";
import { begin, chosen, isTail } from "./message-search.js";

const LIMIT = 100_000;

export function exportRecords(topic, query) {
  const progress = h("p", { class: "quiet", role: "status" });
  const ends = new AbortController();
  const dialog = ask({
    title: ["Export records of ", h("bdi", {}, topic)],
    content: [
      h("p", {}, "Exports the records that match the filter, from ", isTail(query) ? "the oldest record" : "the start of the search", " to the current end of the log. The last line of the file has the reason for its end."),
      field("Format", select("format", [["ndjson", "NDJSON (one JSON object per line)"], ["csv", "CSV"]], "ndjson")),
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
