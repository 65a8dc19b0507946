// One record, with its own address.

import { get, url } from "./api.js";
import { badge, button, card, field, figure, figures, h, link, nothing, select } from "./dom.js";
import { bytes, moment } from "./format.js";
import { write } from "./message-write.js";
import { FORMS, formOf, headers, placeOf, shownAs } from "./records.js";
import { setQuery } from "./view.js";

export function open({ topic, partition, offset }, query) {
  const root = `#/topics/${encodeURIComponent(topic)}`;
  let known = null;
  const view = {
    title: `${topic}-${partition} · offset ${offset}`,
    actions: [
      h("a", { class: "button plain", href: `${root}/messages?partitions=${encodeURIComponent(partition)}&from=offset&at=${encodeURIComponent(offset)}` }, "Messages from here"),
      h("a", { class: "button plain", href: `${root}/batches/${encodeURIComponent(partition)}?offset=${encodeURIComponent(offset)}` }, "Batch"),
      button("Produce a copy …", () => known && write(topic, () => {}, known), { needs: "operate", key: "again" }),
    ],
    tools: h("div", { class: "tools" }, form("Key format", "key", query, () => view.look()), form("Value format", "value", query, () => view.look())),
    async load(signal) {
      const page = await get(url(["v1", "topics", topic, "messages"], {
        offsets: `${partition}:${offset}`, limit: 1, key_format: formOf(query.get("key")), value_format: formOf(query.get("value")),
      }), { signal });
      return (known = page.messages[0] ?? null);
    },
    draw: (found) => (found === null ? card(null, nothing("No record: the log ends before this offset.")) : drawn(topic, found, Number(offset))),
    cares: () => false,
  };
  return view;
}

function form(label, name, query, look) {
  const chosen = select(name, FORMS, formOf(query.get(name)));
  chosen.addEventListener("change", () => {
    setQuery(query, name, chosen.value === "text" ? "" : chosen.value);
    look();
  });
  return field(label, chosen);
}

function drawn(topic, each, wanted) {
  const other = each.offset !== wanted;
  const beside = (by) => placeOf(topic, { ...each, offset: each.offset + by });
  return [
    other && h("p", { class: "banner" }, h("span", {}, `There is no record at offset ${wanted}. This is the next one, at offset ${each.offset}.`)),
    figures(
      figure("Offset", each.offset), figure("Partition", each.partition), figure("Timestamp", moment(each.timestamp_ms), "small"),
      figure("Key", each.key_bytes === null ? "none" : bytes(each.key_bytes)), figure("Value", each.value_bytes === null ? "none" : bytes(each.value_bytes))),
    card("Key", content(each.key, each.key_bytes, each.key_format, "No key.")),
    card("Value", each.value_bytes === null ? h("p", {}, badge("tombstone", "warn"), " No value: log compaction removes the key.") : content(each.value, each.value_bytes, each.value_format)),
    card("Headers", each.headers.length ? headers(each.headers) : nothing("No headers.")),
    h("nav", { class: "pager", "aria-label": "Other records" },
      each.offset > 0 && link(beside(-1), "Previous offset", { key: "before" }), link(beside(1), "Next offset", { key: "behind" })),
  ];
}

function content(text, size, format, none) {
  if (size === null) return nothing(none);
  return [h("p", { class: "quiet" }, `${bytes(size)}, as ${format === "string" ? "text" : format}`), h("pre", { tabindex: "0", class: "content" }, text === "" ? "“”" : shownAs(text, format))];
}
