// A page whose data come by a stream as well: what has no event in the cluster is asked for by the server while somebody looks.

import { hear } from "./streams.js";

/**
 * Return {follow(path), end()}: the events named `kind` of the stream at `path` are shown on the page as if they had been
 * loaded; what the stream has trouble with, the page finds out by itself. `of`: the data in an event.
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
      // Between a break and now, or while nobody looked at this tab, things went on.
      else if (told === "trouble" || (state === "on" && again)) view().stir();
    } });
  }
  return { follow, end };
}
