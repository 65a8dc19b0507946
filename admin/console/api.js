// Client of the admin API. An error response becomes an Error with the server's message.

import { token } from "./storage.js";

/** A search may take the server half a minute, after waiting for other searches. */
const LOOK_MS = 60_000;
const CHANGE_MS = 120_000;
const NOT_REACHED = "The admin server does not respond.";

/** An error response of the API, or the reason for a missing one. Status 0: no response. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.message || problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.error = problem.error || "";
    this.field = problem.field || "";
  }

  /** Whether a retry may succeed: there was no response, or a failover is in progress. */
  get passing() {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

export function headers(more = {}, said = token()) {
  return said ? { ...more, Authorization: `Bearer ${said}` } : more;
}

/** Whether a browser can send it: it rejects non-Latin letters in a header before sending. */
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

/** The resource with its ETag: a change with `{ match: tag }` is rejected after a concurrent change. */
export const getTagged = (path, options) => call("GET", path, { ...options, tagged: true });

/**
 * Changes with the ETag of the shown data: `current()` is the page's latest ETag, `look()` reloads it. Returns a function that
 * makes a change with the ETag at the time of this call; after a concurrent change the page is reloaded, and the next attempt
 * has the new ETag.
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

/** The chunks of a response as they arrive: not every browser supports `for await` on a body. */
export async function* pieces(body) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {}); // the reader has stopped, or the connection broke: it is no longer needed
  }
}

/** A path from its escaped parts, and a query without empty values. */
export function url(parts, query = {}) {
  // A browser resolves these as folders, escaped or not, and requests another path.
  for (const part of parts) if (part === "." || part === "..") throw new Refused(400, { message: `The name “${part}” cannot be part of an address.` });
  const path = `/${parts.map(encodeURIComponent).join("/")}`;
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}
