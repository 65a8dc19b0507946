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
      h("p", {}, "A ZIP file with the state of the cluster: health, brokers, topics, groups, quorum, features, configs, and the metrics and recent log of each process. It contains no records, and secrets are hidden."),
      h("p", {}, "Parts that do not respond are left out; manifest.json lists them with the reason. The download can take three minutes."),
      progress,
    ],
    action: "Download",
    submit: () => getFile("/v1/debug-bundle", "kvorum-debug.zip", progress, ends.signal),
  });
  dialog.addEventListener("close", () => ends.abort());
}
