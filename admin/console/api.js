// The admin API, from this page. A refusal becomes an Error with the cluster's own words.

import { token } from "./storage.js";

/** A search may take the server half a minute, and wait for others before. */
const LOOK_MS = 60_000;
const CHANGE_MS = 120_000;
const NOT_REACHED = "The admin server does not respond.";

/** What the API refused, or why it could not be asked. Status 0: no answer came. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.message || problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.error = problem.error || "";
    this.field = problem.field || "";
  }

  /** Whether the same may well succeed a little later: nobody answered, or a failover is under way. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export function headers(more = {}, said = token()) {
  return said ? { ...more, Authorization: `Bearer ${said}` } : more;
}

/** Whether a browser can send it: what is no Latin letter in a header is refused before anybody is asked. */
export function sendable(text) {
  return /^[\x21-\x7e]+$/.test(text);
}

async function call(method, path, { body, signal, match, tagged, said, quiet } = {}) {
  const sent = headers(body === undefined ? {} : { "Content-Type": "application/json" }, said);
  if (match) sent["If-Match"] = match;
  const late = AbortSignal.timeout(method === "GET" ? LOOK_MS : CHANGE_MS);
  const ends = signal ? AbortSignal.any([signal, late]) : late;
  let answer;
  let text;
  try {
    answer = await fetch(path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), signal: ends });
    text = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    const unknown = method === "GET" ? "" : " The change may or may not have been made: refresh and check.";
    throw new Refused(0, { message: (late.aborted ? `No response within ${late.aborted && method === "GET" ? LOOK_MS / 1000 : CHANGE_MS / 1000} s.` : NOT_REACHED) + unknown });
  }
  const data = read(answer, text);
  if (answer.status === 401 && !quiet) document.dispatchEvent(new CustomEvent("kvorum:token"));
  if (!answer.ok) throw new Refused(answer.status, data || {});
  return tagged ? { data, tag: answer.headers.get("ETag") } : data;
}

function read(answer, text) {
  try {
    return text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(answer.status, { message: `The response is not JSON: ${text.slice(0, 200)}` });
  }
}

export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { body, ...options });
export const put = (path, body, options) => call("PUT", path, { body, ...options });
export const patch = (path, body, options) => call("PATCH", path, { body, ...options });
export const remove = (path, options) => call("DELETE", path, options);

/** What there is, with the mark to change it by: `{ match: tag }` is refused if somebody changed it meanwhile. */
export const getTagged = (path, options) => call("GET", path, { ...options, tagged: true });

/**
 * Changes by the mark of what was looked at: `current()` is the page's latest, `look()` has it look anew. Returns a function that
 * makes a change with the mark of when this was called; where somebody was faster the page looks anew, and the next try has
 * the mark of what is shown then.
 */
export function guard(current, look) {
  let tag = current();
  return async (change) => {
    try {
      await change({ match: tag });
    } catch (error) {
      if (error.status !== 412) throw error;
      await look();
      tag = current();
      throw new Refused(412, { message: "Another change was made in the meantime. The page now shows the current values; check them and submit again." });
    }
  };
}

/** The pieces of an answer as they come: not every browser can be told `for await` of its body. */
export async function* pieces(body) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {}); // who reads has enough, or the connection broke: it is not needed any more
  }
}

/** A path from its parts, each of them escaped, and a query without what is empty. */
export function url(parts, query = {}) {
  // A browser takes these for folders, escaped or not, and asks for something else.
  for (const part of parts) if (part === "." || part === "..") throw new Refused(400, { message: `The name “${part}” cannot be part of an address.` });
  const path = `/${parts.map(encodeURIComponent).join("/")}`;
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}
