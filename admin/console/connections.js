// The connections of a broker, from its process, most recently active first.

import { get, url } from "./api.js";
import { card, field, h, select } from "./dom.js";
import { bytes, count, lasting, plural } from "./format.js";
import { grid } from "./grid.js";
import { silentCard, told } from "./process.js";
import { setQuery } from "./view.js";

const LIMITS = [["100", "100"], ["1000", "1,000"]];

export function connectionTools(query, view) {
  const limit = select("limit", LIMITS, query.get("limit") ?? "100");
  limit.addEventListener("change", () => {
    setQuery(query, "limit", limit.value === "100" ? "" : limit.value);
    setQuery(query, "page", "");
    view().look();
  });
  return h("div", { class: "tools" }, field("Limit", limit));
}

export function loadConnections(path, query, signal) {
  return told(get(url([...path, "connections"], { limit: query.get("limit") }), { signal }));
}

export function connectionCard(found, { query, view }) {
  if (found instanceof Error) return silentCard("Connections", found);
  const shown = found.connections.length;
  return card("Connections",
    h("p", { class: "quiet" }, found.total > shown ? `${plural(found.total, "connection")}; the ${count(shown)} most recently active are shown.` : `${plural(found.total, "connection")}, most recently active first.`),
    grid(view, query, "Connections", [
      { title: "Client", cell: (each) => (each.client_id ? h("span", { class: "mono whole" }, each.client_id) : "–"), by: (each) => each.client_id },
      { title: "Software", cell: software, by: software },
      { title: "Address", cell: (each) => each.address, by: (each) => each.address },
      { title: "Listener", cell: (each) => each.listener, by: (each) => each.listener },
      { title: "Idle", number: true, cell: (each) => h("span", { class: "whole" }, lasting(each.idle_ms)), by: (each) => each.idle_ms },
      { title: "Requests", number: true, cell: (each) => count(each.requests), by: (each) => each.requests },
      { title: "Bytes in", number: true, cell: (each) => bytes(each.bytes_in), by: (each) => each.bytes_in },
      { title: "Bytes out", number: true, cell: (each) => bytes(each.bytes_out), by: (each) => each.bytes_out },
    ], found.connections, "No connections.", { key: (each) => each.id }));
}

function software({ software_name: name, software_version: version }) {
  return name ? `${name} ${version ?? ""}`.trim() : null;
}
