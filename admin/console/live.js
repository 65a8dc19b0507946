// Cluster events from the server: one stream for all pages of a tab, and for all tabs of a browser.

import { hear as hearStream } from "./streams.js";

const KEPT = 5000;
/** Offsets of the metadata log that are read back when the console opens: some forty minutes of a quiet cluster. */
const BACK = 5000;

const hearers = new Set();
/** What happened, the newest first. */
export const recent = [];
const marks = new Set(); // of those: a returning tab gets the events that another tab received

/** Call a function for each event; returns a function that ends it. */
export function hear(hearer) {
  hearers.add(hearer);
  return () => hearers.delete(hearer);
}

/** Follow the server's events for as long as the page is open. `shown(state, why)`: "on", "off" or "again". */
export function follow(shown) {
  const told = ({ state, why, before, kind, data }) => {
    if (before) {
      for (const each of before) keep({ ...each, at: each.data?.timestamp_ms ?? Date.now() });
    } else if (state) {
      shown(state, why);
      // Events since a page was loaded may be missing: it is loaded again, also at the first connection.
      if (state === "on") heard("reconnected", {});
    } else heard(kind, data);
  };
  hearStream(`/v1/events?back=${BACK}`, { signal: new AbortController().signal, told, whileHidden: true });
}

function heard(kind, data) {
  const event = { kind, data, at: data.past ? data.timestamp_ms : Date.now() };
  if (keep(event) && !data.past) for (const hearer of hearers) hearer(event);
}

/** Keep an event; false if it is known already. */
function keep(event) {
  const mark = markOf(event);
  if (marks.has(mark)) return false;
  if (mark !== null) marks.add(mark);
  recent.unshift(event);
  if (recent.length > KEPT) marks.delete(markOf(recent.pop()));
  return true;
}

function markOf({ kind, data: { offset, partition, topic_id: topic, broker, after } }) {
  return offset === undefined ? null : JSON.stringify([offset, kind, topic, partition, broker, after]);
}
