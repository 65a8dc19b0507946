// A page with data from a stream: the server polls data without cluster events while the page is open.

import { hear } from "./streams.js";

/**
 * Return {follow(path), end()}: the events named `kind` of the stream at `path` are shown on the page as if they had been
 * loaded; errors of the stream are found by the page's own requests. `of`: the data in an event.
 */
export function keptUp(view, kind, of = (data) => data) {
  let ends = null;
  function end() {
    ends?.abort();
    ends = null;
  }
  function follow(path) {
    end();
    ends = new AbortController();
    hear(path, { signal: ends.signal, told: ({ state, again, kind: told, data }) => {
      if (told === kind) view().take(of(data));
      // Data may have changed since a break, or while this tab was hidden.
      else if (told === "trouble" || (state === "on" && again)) view().stir();
    } });
  }
  return { follow, end };
}
