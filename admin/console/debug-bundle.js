// All that helps to look into a fault, as one file.

import { ask, button, h } from "./dom.js";
import { getFile } from "./download.js";

export function bundleButton() {
  return button("Debug bundle …", save, { key: "debug-bundle" });
}

function save() {
  const progress = h("p", { class: "quiet", role: "status" });
  const ends = new AbortController();
  const dialog = ask({
    title: "Debug bundle",
    content: [
      h("p", {}, "A ZIP of what the cluster and its processes tell: health, brokers, topics, groups, the quorum, features, configs, and each process’s metrics and recent log. There are no records in it, and what is secret is hidden."),
      h("p", {}, "What does not answer is left out; manifest.json in it says what, and why. It may take up to three minutes."),
      progress,
    ],
    action: "Download",
    submit: () => getFile("/v1/debug-bundle", "kvorum-debug.zip", progress, ends.signal),
  });
  dialog.addEventListener("close", () => ends.abort());
}
