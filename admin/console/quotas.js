// Quotas by entity: set, change and remove.

import { get, getTagged, guard, patch, remove, url } from "./api.js";
import { act, ask, badge, button, card, field, h, note, select } from "./dom.js";
import { bytes, count } from "./format.js";
import { grid } from "./grid.js";
import { setQuery } from "./view.js";

const PATH = ["v1", "quotas"];
const TYPES = { user: "user", client_id: "client", ip: "address" };
const WHOSE = [["user", "a user"], ["client_id", "a client id"], ["user,client_id", "a client id of a user"], ["ip", "an address"]];
const OF_CLIENTS = [
  ["producer_byte_rate", "Produce, bytes per second", (value) => `${bytes(value)}/s produce`],
  ["consumer_byte_rate", "Consume, bytes per second", (value) => `${bytes(value)}/s consume`],
  ["request_percentage", "Request time, % of a thread", (value) => `${value} % request time`],
  ["controller_mutation_rate", "Partitions created or deleted per second", (value) => `${value} partition changes/s`],
];
const OF_ADDRESSES = [["connection_creation_rate", "New connections per second", (value) => `${count(value)} connections/s`]];
const KNOWN = new Map([...OF_CLIENTS, ...OF_ADDRESSES].map(([key, , text]) => [key, text]));

export function open(values, query) {
  const view = {
    title: "Quotas",
    actions: button("Set a quota", () => choose(), { kind: "", needs: "admin", key: "choose" }),
    tools: h("div", { class: "tools" },
      field("Filter", h("input", { type: "search", "data-filter": true, value: query.get("name") ?? "", placeholder: "part of a name",
        oninput: (event) => {
          setQuery(query, "name", event.target.value);
          setQuery(query, "page", "");
          view.redraw();
        } })),
      field("Entity", select("type", [["", "any entity"], ...WHOSE], query.get("type") ?? ""))),
    load: (signal) => get(url(PATH, { any: query.get("type") }), { signal }),
    draw(rows) {
      const part = (query.get("name") ?? "").toLowerCase();
      const found = rows.filter((row) => row.entity.some((each) => (each.name ?? "default").toLowerCase().includes(part)));
      return card(null, grid(view, query, "Quotas", [
        { title: "Entity", cell: (row) => row.entity.map((each) => h("div", {}, who(each))), by: (row) => said(row.entity) },
        { title: "Quotas", cell: (row) => Object.entries(row.quotas).map(([key, value]) => h("div", { title: `${key}=${value}` }, KNOWN.get(key)?.(value) ?? `${key} ${value}`)) },
        { title: "", cell: (row) => h("div", { class: "actions" },
          button("Change", (event) => act(event.currentTarget, () => change(row.entity)), { needs: "admin", key: `change-${said(row.entity)}`, label: `Change the quotas of ${said(row.entity)}` }),
          button("Remove", () => drop(row.entity), { needs: "admin", key: `drop-${said(row.entity)}`, label: `Remove the quotas of ${said(row.entity)}` })) },
      ], found, rows.length ? "No quota matches." : query.get("type") ? "No quotas of this type." : "No quotas: clients are not throttled.", { key: (row) => said(row.entity) }));
    },
    cares: (event) => event.kind === "quota_changed" || event.kind === "reconnected",
  };
  view.tools.querySelector("select").addEventListener("change", (event) => {
    setQuery(query, "type", event.target.value);
    view.look();
  });

  /** Dialogs for the entity of a quota, then its values. */
  function choose() {
    const whose = select("whose", WHOSE, "user");
    const names = Object.entries(TYPES).map(([type, text]) => {
      const shown = field(`Name of the ${text}`, h("input", { name: type, autocomplete: "off", maxlength: 1000 }), "empty: the default, for entities without a quota of their own");
      shown.dataset.type = type;
      return shown;
    });
    const fit = () => names.forEach((each) => { each.hidden = !whose.value.split(",").includes(each.dataset.type); });
    whose.addEventListener("change", fit);
    fit();
    const dialog = ask({
      title: "Set a quota",
      content: [field("Entity", whose), ...names],
      action: "Next",
      async submit(data) {
        const entity = data.get("whose").split(",").map((type) => ({ type, name: data.get(type).trim() || null }));
        const known = await quotasOf(entity);
        dialog.addEventListener("close", () => change(entity, known));
      },
    });
  }

  /** Dialog for an entity's quotas; concurrent changes are not overwritten. */
  async function change(entity, known = null) {
    const path = url(PATH, whose(entity));
    let { now, tag } = known ?? await quotasOf(entity);
    const guarded = guard(() => tag, async () => {
      ({ now, tag } = await quotasOf(entity));
      await view.look();
    });
    const keys = entity[0].type === "ip" ? OF_ADDRESSES : OF_CLIENTS;
    ask({
      title: `Quotas of ${said(entity)}`,
      content: keys.map(([key, title]) => field(title, h("input", { name: key, type: "number", min: 0, step: "any", value: now[key] ?? "", placeholder: "no limit" }), key)),
      action: "Set",
      async submit(data) {
        const set = {};
        const gone = [];
        for (const [key] of keys) {
          const text = data.get(key);
          if (text === "" && key in now) gone.push(key);
          else if (text !== "" && Number(text) !== now[key]) set[key] = Number(text);
        }
        if (!gone.length && !Object.keys(set).length) throw new Error("No quota was changed.");
        await guarded((match) => patch(path, { set, delete: gone }, match));
        note(`Quotas of ${said(entity)} set.`);
        view.look();
      },
    });
  }

  function drop(entity) {
    ask({
      title: `Remove the quotas of ${said(entity)}`,
      content: h("p", {}, "The default quota applies afterwards, if there is one."),
      action: "Remove", danger: true,
      async submit() {
        await remove(url(PATH, whose(entity)));
        note(`Quotas of ${said(entity)} removed.`);
        view.look();
      },
    });
  }
  return view;
}

/** An entity's quotas as they are now, with the mark to change them by. */
async function quotasOf(entity) {
  const { data: [row], tag } = await getTagged(url(PATH, whose(entity)));
  return { now: row?.quotas ?? {}, tag };
}

function who({ type, name }) {
  return [h("span", { class: "quiet" }, `${TYPES[type]} `), name === null ? badge("default") : h("span", { class: "mono" }, name)];
}

function said(entity) {
  return entity.map(({ type, name }) => (name === null ? `the default ${TYPES[type]}` : `${TYPES[type]} ${name}`)).join(", ");
}

/** The query that names an entity. */
function whose(entity) {
  const named = Object.fromEntries(entity.filter(({ name }) => name !== null).map(({ type, name }) => [type, name]));
  return { ...named, default: entity.filter(({ name }) => name === null).map(({ type }) => type).join(",") };
}
