// What is done to the cluster, as `kvorum chaos serve` tells it: a stream beside the cluster's, heard by the chaos pages.

import { hear } from "./streams.js";

/** It says something every quarter of a minute, if nothing happens. */
const SILENCE_MS = 40_000;

/**
 * Follow faults and scenarios until `signal` is aborted: `heard(kind, data)` for each, those of before first. After a
 * break all that is kept is told again, from `begun()` on.
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

/** Say what happened, as { at, text, kind }; null for what is not for people. */
export function told(kind, data) {
  const text = SAID[kind]?.(data);
  return text ? { at: data.timestamp_ms, text, kind } : null;
}

export const STATES = { held: "good", violated: "bad", "could not run": "bad", stopped: "warn", running: "" };
