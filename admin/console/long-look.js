// A long request with progress: started by a button, ended by another or by leaving the page.

import { listen } from "./sse.js";
import { button, h } from "./dom.js";
import { token } from "./storage.js";

const SILENCE_MS = 60_000;

/**
 * Return {begin(), end(), drawn(), result, faults, running}. `changed()` is called whenever there is more to show;
 * `said(progress)`: the progress as {share, text}; `text`: the button's text. Unlike live streams it is
 * not resumed after a break: it would start from the beginning.
 */
export function longLook({ path, changed, said, text, needs = null }) {
  const look = { running: false, result: null, faults: [], begin, end, drawn };
  let ends = null;
  let progress = null;
  let failure = null;

  async function begin() {
    end();
    const mine = (ends = new AbortController());
    Object.assign(look, { running: true, result: null, faults: [] });
    progress = failure = null;
    changed();
    try {
      await listen(path(), { token: token(), signal: mine.signal, silence_ms: SILENCE_MS, heard: (kind, data) => {
        if (kind === "progress") progress = data;
        else if (kind === "fault") look.faults.push(data);
        else if (kind === "result") look.result = data;
        else if (kind === "error") failure = data.message ?? data.error;
        else if (kind === "end") end();
        changed();
      } });
      if (look.result === null) failure ??= "It ended before it was complete.";
    } catch (error) {
      if (mine.signal.aborted) return;
      failure = error.message;
    }
    if (mine !== ends) return;
    look.running = false;
    changed();
  }

  function end() {
    ends?.abort();
    ends = null;
    look.running = false;
  }

  /** The button, how far it is, and why it failed. */
  function drawn() {
    const far = progress && said(progress);
    return h("div", { class: "long-look", "data-key": "long-look" },
      look.running
        ? button("Stop", () => {
          end();
          changed();
        }, { key: "stop-look" })
        : button(look.result || failure ? `${text} again` : text, begin, { kind: "", key: "begin-look", needs }),
      look.running && h("progress", { max: 1, value: far?.share ?? 0, "aria-label": "Progress" }),
      h("span", { role: "status", class: "quiet" }, look.running ? far?.text ?? "starting …" : look.result || failure || !progress ? "" : "stopped"),
      failure && h("p", { class: "wrong", role: "alert" }, failure));
  }

  return look;
}
