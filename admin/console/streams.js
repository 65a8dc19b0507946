// The server's streams for pages: through one worker for all tabs, or directly without a worker.

import { follow } from "./sse.js";
import { token } from "./storage.js";

const PROTOCOL = "kvorum-streams-1"; // a worker of an older version stays as long as its tabs: it has another name
const heard = new Map(); // id -> listener
let port = null;
let ids = 0;

/** Return the port of the worker that all tabs share; null where the browser has no such thing. */
function shared() {
  if (port !== null || !("SharedWorker" in globalThis)) return port;
  try {
    const worker = new SharedWorker(new URL("./stream-worker.js", import.meta.url), { type: "module", name: PROTOCOL });
    port = worker.port;
    port.onmessage = ({ data: { id, ...message } }) => heard.get(id)?.(message);
    worker.onerror = () => alone();
    if (navigator.locks) hold(`${PROTOCOL} ${crypto.randomUUID()}`);
    addEventListener("pagehide", () => port?.postMessage({ bye: true }));
    addEventListener("pageshow", ({ persisted }) => persisted && rejoin());
  } catch {
    port = null;
  }
  return port;
}

/** Hold a lock for the lifetime of this tab, and send its name to the worker. */
function hold(name) {
  navigator.locks.request(name, () => {
    port.postMessage({ alive: name });
    return new Promise(() => {});
  });
}

const joined = new Map(); // id -> the join message, while joined

/** The worker could not be loaded: its streams are followed directly. */
function alone() {
  port = null;
  globalThis.SharedWorker = undefined;
  delete globalThis.SharedWorker;
  for (const again of [...joined.values()]) again();
}

function rejoin() {
  for (const again of [...joined.values()]) again();
}

/**
 * Follow a stream until `signal` is aborted. `told` is called with the messages of sse.js, and with { before: [...] }: events
 * from before this tab joined. `whileHidden`: continue while this tab is hidden, if that needs no separate connection.
 */
export function hear(path, { signal, told, silence_ms, replays = false, whileHidden = false }) {
  let stop = () => {};
  let begins = 0;
  // Events between two of them are lost.
  const heardAs = (message) => told(message.state === "on" && begins > 1 ? { ...message, again: true } : message);
  const begin = () => {
    stop();
    stop = () => {};
    const through = shared();
    if (document.hidden && !(whileHidden && through)) return;
    begins += 1;
    const wanted = { path, token: token(), silence_ms, replays };
    if (through) {
      const id = (ids += 1);
      heard.set(id, heardAs);
      through.postMessage({ join: id, ...wanted });
      joined.set(id, begin);
      stop = () => {
        heard.delete(id);
        joined.delete(id);
        through.postMessage({ leave: id });
      };
    } else {
      const ends = new AbortController();
      follow(path, { ...wanted, told: heardAs, signal: ends.signal });
      stop = () => ends.abort();
    }
  };
  const seen = () => {
    if (!(whileHidden && port)) begin();
  };
  document.addEventListener("visibilitychange", seen, { signal });
  signal.addEventListener("abort", () => stop(), { once: true });
  begin();
}
