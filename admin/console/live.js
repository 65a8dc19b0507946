// What happens in the cluster, as the server tells it: one stream for all pages, taken up again when it breaks.

import { listen } from "./api.js";

const AGAIN_MS = [500, 1000, 2000, 5000];
const KEPT = 5000;

const hearers = new Set();
export const recent = [];

/** Be told of each event; returns a function that ends it. */
export function hear(hearer) {
  hearers.add(hearer);
  return () => hearers.delete(hearer);
}

/** Follow the server's events for as long as the page is open. `shown(state)`: "on", "off" or "again". */
export async function follow(shown) {
  let failures = 0;
  for (;;) {
    try {
      await listen("/v1/events", heard, undefined, () => {
        // After a break what was missed is not told again: whoever shows something looks anew.
        if (failures) heard("reconnected", {});
        failures = 0;
        shown("on");
      });
    } catch (error) {
      if (error.status === 404 || error.status === 401 || error.status === 403) {
        shown("off");
        return;
      }
    }
    shown("again");
    await new Promise((wake) => setTimeout(wake, AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)]));
    failures += 1;
  }
}

function heard(kind, data) {
  if (kind === "end") return;
  const event = { kind, data, at: Date.now() };
  recent.unshift(event);
  recent.length = Math.min(recent.length, KEPT);
  for (const hearer of hearers) hearer(event);
}
