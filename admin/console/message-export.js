// Records as a file: what a search finds, as lines of JSON or as CSV.

import { headers, pieces, url } from "./api.js";
import { ask, field, h, note, select } from "./dom.js";
import { bytes } from "./format.js";
import { begin, chosen, isTail } from "./message-search.js";
import { token } from "./storage.js";

const LIMIT = 100_000;

export function exportRecords(topic, query) {
  const progress = h("p", { class: "quiet", role: "status" });
  const ends = new AbortController();
  const dialog = ask({
    title: ["Export of ", h("bdi", {}, topic)],
    content: [
      h("p", {}, "What the search above is narrowed to, ", isTail(query) ? "from the oldest record on" : "from where it begins", ", up to where the logs end now. The last line of the file says what ended it."),
      field("As", select("format", [["ndjson", "lines of JSON (NDJSON)"], ["csv", "CSV"]], "ndjson")),
      field("At most", h("input", { name: "limit", type: "number", min: 1, max: 10_000_000, value: LIMIT, required: true }), "records"),
      progress,
    ],
    action: "Export",
    async submit(data) {
      const path = url(["v1", "topics", topic, "messages", "export"], { format: data.get("format"), limit: data.get("limit"), ...begin(query), ...chosen(query) });
      const name = `${topic}.${data.get("format")}`;
      // Without a token the browser writes it to the disk while it comes; a link cannot say a token.
      if (token()) await fetched(path, name, progress, ends.signal);
      else {
        await tried(path);
        download(path, name);
      }
    },
  });
  dialog.addEventListener("close", () => ends.abort());
}

/** A link cannot show why it was refused: whether it is begun at all is seen before. Raises Error. */
async function tried(path) {
  const ends = new AbortController();
  const answer = await fetch(path, { signal: ends.signal });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).message ?? `HTTP ${answer.status}`);
  ends.abort();
}

async function fetched(path, name, progress, signal) {
  const answer = await fetch(path, { headers: headers(), signal });
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).message ?? `HTTP ${answer.status}`);
  const parts = [];
  let size = 0;
  for await (const part of pieces(answer.body)) {
    parts.push(part);
    size += part.length;
    progress.textContent = `${bytes(size)} so far …`;
  }
  const made = URL.createObjectURL(new Blob(parts));
  download(made, name);
  URL.revokeObjectURL(made);
  note(`${name}: ${bytes(size)}.`);
}

function download(href, name) {
  const link = h("a", { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
