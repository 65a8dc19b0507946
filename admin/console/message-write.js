// A record written by hand.

import { post, url } from "./api.js";
import { ask, check, field, h, note, select } from "./dom.js";

const FORMATS = [["string", "text"], ["hex", "hexadecimal"], ["base64", "base64"]];

/** Ask for a record and write it; `like`: one to begin from. `done()` when it is written. */
export function write(topic, done, like = null) {
  const value = h("textarea", { name: "value" });
  value.value = like?.value ?? "";
  const headers = h("textarea", { name: "headers", placeholder: "name=value" });
  headers.value = (like?.headers ?? []).filter((each) => each.format === "string" && each.value !== null).map((each) => `${each.key}=${each.value}`).join("\n");
  ask({
    title: ["Produce to ", h("bdi", {}, topic)],
    content: [
      h("div", { class: "tools" },
        field("Key", h("input", { name: "key", autocomplete: "off", class: "mono wide", value: like?.key ?? "" }), "empty: no key"),
        field("Key format", select("key_format", FORMATS, like?.key_format ?? "string"))),
      field("Value", value),
      h("div", { class: "tools" },
        field("Value format", select("value_format", FORMATS, like?.value_format ?? "string")),
        check("No value (tombstone)", { name: "tombstone", checked: like?.value_bytes === null })),
      field("Headers", headers, "one per line, name=value"),
      field("Partition", h("input", { name: "partition", type: "number", min: 0, placeholder: "by key" })),
    ],
    action: "Produce",
    fields: { "records.0.key": "key", "records.0.value": "value", "records.0.partition": "partition" },
    async submit(data) {
      const record = {
        key: data.get("key") || null, key_format: data.get("key") ? data.get("key_format") : null,
        value: data.has("tombstone") ? null : data.get("value"), value_format: data.has("tombstone") ? null : data.get("value_format"),
        headers: headersOf(data.get("headers")),
        partition: data.get("partition") === "" ? null : Number(data.get("partition")),
      };
      const { records: [made] } = await post(url(["v1", "topics", topic, "messages"]), { records: [record] });
      if (made.error) throw new Error(made.message || made.error);
      note(["Produced: ", h("a", { href: `#/topics/${encodeURIComponent(topic)}/records/${made.partition}/${made.offset}` }, `${topic}-${made.partition}, offset ${made.offset}`), "."]);
      done();
    },
  });
}

function headersOf(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`“${line}” is not name=value.`);
    return { key: line.slice(0, at), value: line.slice(at + 1) };
  });
}
