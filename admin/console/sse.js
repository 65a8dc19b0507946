// Server-sent events, read by `fetch`: EventSource cannot send a token. Used by pages and by stream-worker.js alike.

const AGAIN_MS = [500, 1000, 2000, 5000, 10_000, 30_000];
/** The server sends something at least every five seconds: after this silence it is gone or stopped. */
export const SILENCE_MS = 15_000;
const FOR_GOOD = [400, 401, 403, 404];

/** What a stream was refused with. */
export class NotOpened extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * Read one stream to its end. `heard(kind, data)` is called for each event, and `marked(id)` for each id after it: a separate
 * id means that nothing is missing up to it. Returns at the end of the stream; raises NotOpened, or the reason of
 * `signal`.
 */
export async function listen(path, { token, signal, heard, marked = () => {}, opened = () => {}, silence_ms = SILENCE_MS, after = null }) {
  const silent = new AbortController();
  let timer = null;
  const alive = () => {
    clearTimeout(timer);
    if (silence_ms) timer = setTimeout(() => silent.abort(new NotOpened(0, "The server stopped sending data.")), silence_ms);
  };
  const ends = AbortSignal.any([signal, silent.signal]);
  alive();
  try {
    const answer = await asked(path, token, after, ends);
    if (!answer.ok) throw new NotOpened(answer.status, (await answer.json().catch(() => ({}))).message ?? `HTTP ${answer.status}`);
    opened();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    try {
      await read(reader, heard, marked, alive);
    } finally {
      reader.cancel().catch(() => {}); // the listener or the stream has failed: the connection is no longer needed
    }
  } catch (error) {
    // Each browser has its own error for a break; a deliberate end has its own reason.
    if (ends.aborted) throw ends.reason;
    throw error instanceof TypeError ? new NotOpened(0, "The connection was lost.") : error;
  } finally {
    clearTimeout(timer);
  }
}

async function asked(path, token, after, signal) {
  const headers = { Accept: "text/event-stream" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (after !== null) headers["Last-Event-ID"] = after;
  try {
    return await fetch(path, { headers, signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new NotOpened(0, "The admin server does not respond.");
  }
}

async function read(reader, heard, marked, alive) {
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    alive();
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const fields = { event: "message", data: [], id: null };
      for (const line of block.split("\n")) {
        const [name, text] = [line.split(":", 1)[0], line.slice(line.indexOf(":") + 1).trim()];
        if (name === "data") fields.data.push(text);
        else if (name === "event" || name === "id") fields[name] = text;
      }
      if (fields.data.length) heard(fields.event, JSON.parse(fields.data.join("\n")));
      if (fields.id !== null) marked(fields.id);
    }
  }
}

/**
 * Follow a stream until `signal` is aborted, reconnecting after breaks. `told(message)` is called with
 * { state: "on", again }, { state: "again" | "off", why, status } and { kind, data }. "off" is the last: a permanent rejection.
 * `path` may be a function, called for each connect. `replays`: the server repeats all earlier events, so the last id is not sent.
 */
export async function follow(path, { token, signal, told, silence_ms, replays = false }) {
  let failures = 0;
  let opened = false;
  let last = null;
  while (!signal.aborted) {
    const before = failures;
    let said = null;
    let why = "The stream has ended.";
    let status = 0;
    try {
      await listen(typeof path === "function" ? path() : path, {
        token, signal, silence_ms, after: replays ? null : last,
        opened: () => {
          told({ state: "on", again: opened });
          opened = true;
          failures = 0;
        },
        marked: (id) => {
          last = id;
        },
        heard: (kind, data) => {
          // The server could not continue: this is no event, and a stream that only ends in this way is no success.
          if (kind === "error") [said, failures] = [data.message ?? data.error, before];
          else if (kind !== "end") told({ kind, data });
        },
      });
    } catch (error) {
      if (signal.aborted) return;
      [why, status] = [error.message, error.status ?? 0];
      if (FOR_GOOD.includes(status)) {
        told({ state: "off", why, status });
        return;
      }
    }
    if (signal.aborted) return;
    told({ state: "again", why: said ?? why, status });
    await pause(AGAIN_MS[Math.min(status === 429 ? failures + 3 : failures, AGAIN_MS.length - 1)], signal);
    failures += 1;
  }
}

function pause(ms, signal) {
  return new Promise((wake) => {
    const timer = setTimeout(wake, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      wake();
    }, { once: true });
  });
}
