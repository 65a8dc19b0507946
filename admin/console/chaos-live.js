// What is done to the cluster, as `kvorum chaos serve` tells it: a stream of its own, beside the cluster's.

import { listen } from "./api.js";

const AGAIN_MS = [500, 1000, 2000, 5000];

/**
 * Follow faults and scenarios until `signal` is aborted: `heard(kind, data)` for each, those of before first. After a
 * break all that is kept is told again, from `begun()` on.
 */
export async function follow(begun, heard, signal) {
  let failures = 0;
  while (!signal.aborted) {
    try {
      await listen("/v1/chaos/events", heard, signal, () => {
        failures = 0;
        begun();
      });
    } catch (error) {
      if (signal.aborted || [401, 403, 404].includes(error.status)) return;
    }
    await new Promise((wake) => setTimeout(wake, AGAIN_MS[Math.min(failures, AGAIN_MS.length - 1)]));
    failures += 1;
  }
}

const SAID = {
  fault: ({ phase, story, fault, targets }) => `${phase === "end" ? "over: " : ""}${story || [fault, ...targets].join(" ")}`,
  scenario: ({ id, scenario, state }) => (state === "running" ? `run ${id} of ${scenario} has begun` : `run ${id} of ${scenario}: ${state}`),
};

/** Say what happened, as { at, text, kind }; null for what is not for people. */
export function told(kind, data) {
  const text = SAID[kind]?.(data);
  return text ? { at: data.timestamp_ms, text, kind } : null;
}

export const STATES = { held: "good", violated: "bad", "could not run": "bad", stopped: "warn", running: "" };
