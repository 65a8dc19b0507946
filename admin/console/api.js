// The admin API, from this page. A refusal becomes an Error with the cluster's own words.

const TOKEN = "kvorum.token";

/** What the API refused, or why it could not be asked. */
export class Refused extends Error {
  constructor(status, problem) {
    super(problem.message || problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.error = problem.error || "";
    this.field = problem.field || "";
  }
}

export function headers(more = {}) {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

async function call(method, path, { body, signal, match, tagged } = {}) {
  const sent = headers(body === undefined ? {} : { "Content-Type": "application/json" });
  if (match) sent["If-Match"] = match;
  let answer;
  try {
    answer = await fetch(path, { method, headers: sent, body: body === undefined ? undefined : JSON.stringify(body), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { message: "The admin server does not answer." });
  }
  const text = await answer.text();
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(answer.status, { message: `Not JSON: ${text.slice(0, 200)}` });
  }
  if (answer.status === 401) document.dispatchEvent(new CustomEvent("kvorum:token"));
  if (!answer.ok) throw new Refused(answer.status, data || {});
  return tagged ? { data, tag: answer.headers.get("ETag") } : data;
}

/** What there is, with the mark to change it by: `{ match: tag }` is refused if somebody changed it meanwhile. */
export const getTagged = (path, options) => call("GET", path, { ...options, tagged: true });
export const get = (path, options) => call("GET", path, options);
export const post = (path, body, options) => call("POST", path, { body, ...options });
export const put = (path, body, options) => call("PUT", path, { body, ...options });
export const patch = (path, body, options) => call("PATCH", path, { body, ...options });
export const remove = (path, options) => call("DELETE", path, options);

/** A path from its parts, each of them escaped, and a query without what is empty. */
export function url(parts, query = {}) {
  const path = `/${parts.map(encodeURIComponent).join("/")}`;
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  return kept.length ? `${path}?${new URLSearchParams(kept)}` : path;
}

/**
 * Read server-sent events until `signal` is aborted; `fetch` instead of EventSource, which cannot send a token.
 * `heard(kind, data)` is called for each; returns when the server ends the stream. Raises Refused.
 */
export async function listen(path, heard, signal, opened = () => {}) {
  let answer;
  try {
    answer = await fetch(path, { headers: headers({ Accept: "text/event-stream" }), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { message: "The admin server does not answer." });
  }
  if (!answer.ok) throw new Refused(answer.status, await answer.json().catch(() => ({})));
  opened();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const kind = lines.find((line) => line.startsWith("event:"))?.slice(6).trim() || "message";
      const data = lines.filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
      if (data) heard(kind, JSON.parse(data));
    }
  }
}
