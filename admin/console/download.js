// Files that the API makes, to this browser's disk.

import { headers, pieces } from "./api.js";
import { h, note } from "./dom.js";
import { bytes } from "./format.js";
import { token } from "./storage.js";

/**
 * Download a file. `progress`: an element for the received size; `name`: its name if the server gives none. Raises
 * Error with the reason. Without a token the browser streams it to the disk; a link cannot send a token.
 */
export async function getFile(path, name, progress, signal) {
  if (token()) await fetched(path, name, progress, signal);
  else {
    await tried(path);
    handOver(path, name);
  }
}

/** A link cannot show why it was refused: whether it is begun at all is seen before. */
async function tried(path) {
  const ends = new AbortController();
  await begun(path, { signal: ends.signal });
  ends.abort();
}

async function begun(path, options) {
  const answer = await fetch(path, options);
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).message ?? `HTTP ${answer.status}`);
  return answer;
}

async function fetched(path, name, progress, signal) {
  const answer = await begun(path, { headers: headers(), signal });
  const called = /filename="([^"]+)"/.exec(answer.headers.get("Content-Disposition") ?? "")?.[1] ?? name;
  const parts = [];
  let size = 0;
  for await (const part of pieces(answer.body)) {
    parts.push(part);
    size += part.length;
    progress.textContent = `${bytes(size)} so far …`;
  }
  const made = URL.createObjectURL(new Blob(parts));
  handOver(made, called);
  URL.revokeObjectURL(made);
  note(`${called}: ${bytes(size)}.`);
}

function handOver(href, name) {
  const link = h("a", { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}
