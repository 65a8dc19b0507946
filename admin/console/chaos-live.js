// Faults of the cluster from `kvorum chaos serve`: a second stream, for the chaos pages.

import { hear } from "./streams.js";

/** The stream has a message every 15 seconds, even without events. */
const SILENCE_MS = 40_000;

/**
 * Follow faults and scenarios until `signal` is aborted: `heard(kind, data)` for each, stored ones first. After a
 * break all stored ones are repeated, from `begun()` on.
 */
export function follow(begun, heard, signal) {
  hear("/v1/chaos/events", { signal, silence_ms: SILENCE_MS, replays: true, told: ({ before, state, kind, data }) => {
    if (before) {
      begun();
      for (const each of before) heard(each.kind, each.data);
    } else if (state === "on") begun();
    else if (kind) heard(kind, data);
  } });
}

const SAID = {
  fault: ({ phase, story, fault, targets }) => `${phase === "end" ? "ended: " : ""}${story || [fault, ...targets].join(" ")}`,
  scenario: ({ id, scenario, state }) => (state === "running" ? `run ${id} of ${scenario} started` : `run ${id} of ${scenario}: ${state}`),
};

/** Return an event as { at, text, kind }; null for technical ones. */
export function told(kind, data) {
  const text = SAID[kind]?.(data);
  return text ? { at: data.timestamp_ms, text, kind } : null;
}

export const STATES = { held: "good", violated: "bad", "could not run": "bad", stopped: "warn", running: "" };
