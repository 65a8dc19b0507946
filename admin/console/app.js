// The shell: which page is shown, what keys do, what the bar says. A page is a module that exports `open`.

import { get, setToken } from "./api.js";
import { ask, field, h, note } from "./dom.js";
import { follow } from "./live.js";
import { shown } from "./view.js";
import * as brokers from "./brokers.js";
import * as chaos from "./chaos.js";
import * as chaosRun from "./chaos-run.js";
import * as configsDiff from "./configs-diff.js";
import * as groups from "./groups.js";
import * as leaders from "./leaders.js";
import * as messages from "./messages.js";
import * as metadata from "./metadata.js";
import * as overview from "./overview.js";
import * as quorum from "./quorum.js";
import * as segments from "./segments.js";
import * as quotas from "./quotas.js";
import * as reassignment from "./reassignment.js";
import * as topic from "./topic.js";
import * as topics from "./topics.js";
import * as transactions from "./transactions.js";

// [path, page, the name in the navigation, the key after g]; ":x" stands for any one part.
const ROUTES = [
  ["", overview, "Overview", "o"],
  ["brokers", brokers, "Brokers", "b"],
  ["brokers/:broker", brokers],
  ["brokers/:broker/:tab", brokers],
  ["topics", topics, "Topics", "t"],
  ["topics/:topic", topic],
  ["topics/:topic/messages", messages],
  ["topics/:topic/:tab", topic],
  ["topics/:topic/batches/:partition", segments],
  ["groups", groups, "Groups", "g"],
  ["groups/:group", groups],
  ["transactions", transactions, "Transactions", "x"],
  ["transactions/:id", transactions],
  ["quorum", quorum, "Quorum", "q"],
  ["metadata", metadata, "Metadata", "m"],
  ["metadata/:tab", metadata],
  ["leaders", leaders, "Elections", "e"],
  ["reassignment", reassignment, "Reassignment", "r"],
  ["quotas", quotas, "Quotas", "u"],
  ["configs", configsDiff, "Config diff", "d"],
  ["chaos", chaos, "Chaos lab", "c"],
  ["chaos/runs/:run", chaosRun],
];

function where() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return [path.split("/").filter(Boolean).map(decoded), new URLSearchParams(query)];
}

/** A part of an address that somebody typed may be no escape: then it is the text it is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function found(parts) {
  for (const [pattern, page, title] of ROUTES) {
    const wanted = pattern.split("/").filter(Boolean);
    if (wanted.length !== parts.length) continue;
    const values = {};
    if (wanted.every((name, at) => (name.startsWith(":") ? ((values[name.slice(1)] = parts[at]), true) : name === parts[at])))
      return [page, values, title];
  }
  return null;
}

let leave = () => {};
let lastPath = null;

function show() {
  const [parts, query] = where();
  const main = document.getElementById("main");
  leave();
  for (const link of document.querySelectorAll("nav a"))
    if (link.dataset.root === (parts[0] ?? "")) {
      link.setAttribute("aria-current", "page");
      const bar = link.closest("nav"); // on a narrow screen it is longer than the screen is wide
      bar.scrollLeft = link.offsetLeft - (bar.clientWidth - link.offsetWidth) / 2;
    } else link.removeAttribute("aria-current");
  const route = found(parts);
  if (!route) {
    main.replaceChildren(h("h1", {}, "No such page"), h("p", {}, h("a", { href: "#/" }, "To the overview")));
    leave = () => {};
    return;
  }
  const [page, values] = route;
  const titles = ["Kvorum", ...parts].reverse().join(" · ");
  document.title = titles;
  main.replaceChildren();
  leave = shown(main, page, values, query);
  if (lastPath !== null && lastPath !== parts.join("/")) main.focus({ preventScroll: true });
  lastPath = parts.join("/");
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  const key = event.key;
  if (waiting) {
    waiting = false;
    const route = ROUTES.find(([, , , letter]) => letter === key);
    if (route) location.hash = `#/${route[0]}`;
  } else if (key === "g") waiting = true;
  else if (key === "/") {
    const filter = document.querySelector("main [data-filter]");
    if (filter) {
      event.preventDefault();
      filter.focus();
    }
  } else if (key === "r") document.dispatchEvent(new CustomEvent("kvorum:again"));
  else if (key === "?") help();
}
let waiting = false;

function help() {
  const rows = ROUTES.filter(([, , , key]) => key).map(([, , title, key]) => [["g", key], title]);
  rows.push([["/"], "to the filter"], [["r"], "look again"], [["?"], "this list"]);
  ask({
    title: "Keys",
    content: h("dl", { class: "keys" }, rows.map(([names, text]) =>
      h("div", {}, names.map((name) => [h("kbd", {}, name), " "]), text))),
    action: "Good",
    submit: async () => {},
  });
}

/** A link with a token is for its first use: the token is kept for this tab, and no longer in the address. */
function takeToken() {
  const [parts, query] = where();
  if (!query.has("token")) return;
  setToken(query.get("token"));
  history.replaceState(null, "", `#/${parts.map(encodeURIComponent).join("/")}`);
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem("kvorum.theme", name);
}

async function bar() {
  try {
    const cluster = await get("/v1/cluster");
    document.getElementById("cluster").textContent = `cluster ${cluster.cluster_id}`;
  } catch (error) {
    document.getElementById("cluster").textContent = error.message;
  }
}

function askForToken() {
  if (document.querySelector("dialog")) return;
  ask({
    title: "This server wants a token",
    content: field("Token", h("input", { name: "token", type: "password", required: true, autocomplete: "off" })),
    action: "Use it",
    submit: async (data) => {
      setToken(data.get("token"));
      await get("/v1/cluster");
      location.reload();
    },
  });
}

function start() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  theme(localStorage.getItem("kvorum.theme") || (dark ? "dark" : "light"));
  const links = ROUTES.filter(([, , title]) => title).map(([path, , title]) =>
    h("li", {}, h("a", { href: `#/${path}`, "data-root": path }, title)));
  links.push(h("li", {}, h("a", { href: "/docs" }, "API")));
  document.getElementById("nav").append(h("ul", {}, links));
  document.getElementById("theme").addEventListener("click", () =>
    theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  document.getElementById("keys").addEventListener("click", help);
  document.addEventListener("keydown", keys);
  document.addEventListener("kvorum:token", askForToken);
  addEventListener("hashchange", show);
  addEventListener("unhandledrejection", (event) => note(String(event.reason?.message || event.reason), "bad"));
  const live = document.getElementById("live");
  follow((state) => {
    live.className = `live ${state}`;
    live.textContent = { on: "live", off: "not live", again: "connecting" }[state];
  });
  bar();
  show();
}

takeToken();

start();
