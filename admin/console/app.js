// The shell: current page, bar and identity. A page is a module that exports `open`.

import { get } from "./api.js";
import { ask, button, closeDialogs, field, h, note } from "./dom.js";
import { zone } from "./format.js";
import { hearKeys, listKeys } from "./keys.js";
import { follow } from "./live.js";
import { currentName, currentRole, forget, isGuarded, learn, logIn, logOut, take, waysToLogIn } from "./session.js";
import { keep, keepToken, recall, token } from "./storage.js";
import { shown } from "./view.js";
import { GROUPS, ROUTES } from "./routes.js";

const main = document.getElementById("main");

function where() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return [path.split("/").filter(Boolean).map(decoded), new URLSearchParams(query)];
}

/** A typed part of an address may contain an invalid escape: then it is used unchanged. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function found(parts) {
  for (const { path, page } of ROUTES) {
    const wanted = path.split("/").filter(Boolean);
    if (wanted.length !== parts.length) continue;
    const values = {};
    if (wanted.every((name, at) => (name.startsWith(":") ? ((values[name.slice(1)] = parts[at]), true) : name === parts[at])))
      return [page, values];
  }
  return [missing, {}];
}

const missing = {
  open: () => ({
    title: "No such page",
    load: async () => null,
    draw: () => h("p", {}, "This page does not exist. ", h("a", { href: "#/" }, "Go to the overview")),
    cares: () => false,
  }),
};

let leave = () => {};
let lastPath = null;

function show() {
  if (takeToken()) return;
  const [parts, query] = where();
  leave();
  closeDialogs();
  for (const each of document.querySelectorAll("nav a[data-root]"))
    if (each.dataset.root === (parts[0] ?? "")) {
      each.setAttribute("aria-current", "page");
      const bar = each.closest("nav"); // on a narrow screen it is longer than the screen is wide
      bar.scrollLeft = each.offsetLeft - (bar.clientWidth - each.offsetWidth) / 2;
    } else each.removeAttribute("aria-current");
  const [page, values] = found(parts);
  document.title = page === missing ? "No such page · Kvorum" : ["Kvorum", ...parts].reverse().join(" · ");
  main.replaceChildren();
  leave = shown(main, page, values, query);
  const path = parts.join("/");
  if (lastPath !== null && lastPath !== path) {
    main.focus({ preventScroll: true });
    scrollTo(0, 0);
  }
  lastPath = path;
}

/** A link with a token is for its first use: the token is kept for this tab, and no longer in the address. Tells if it did. */
function takeToken() {
  const [parts, query] = where();
  if (!query.has("token")) return false;
  const isFirst = lastPath === null;
  keepToken(query.get("token"));
  query.delete("token");
  const text = query.toString();
  history.replaceState(null, "", `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`);
  if (isFirst) return false;
  location.reload(); // streams and pages speak with the token that this tab had
  return true;
}

const THEMES = [[null, "system", "◐"], ["light", "light", "☀"], ["dark", "dark", "☾"]];

function theme(chosen) {
  const [, name, sign] = THEMES.find(([key]) => key === chosen) ?? THEMES[0];
  if (chosen) document.documentElement.dataset.theme = chosen;
  else delete document.documentElement.dataset.theme;
  keep("theme", chosen);
  const pressed = document.getElementById("theme");
  pressed.setAttribute("aria-label", `Theme: ${name}`);
  pressed.title = `Theme: ${name}`;
  pressed.textContent = sign;
}

function nextTheme() {
  const at = THEMES.findIndex(([key]) => key === (document.documentElement.dataset.theme ?? null));
  theme(THEMES[(at + 1) % THEMES.length][0]);
}

let known = false; // whether the bar is up to date

/** Show the cluster and the role; requested again when the server is back. */
async function bar() {
  const cluster = document.getElementById("cluster");
  const role = document.getElementById("role");
  try {
    await learn();
    cluster.textContent = `cluster ${(await get("/v1/cluster", { quiet: true })).cluster_id}`;
    known = true;
  } catch (error) {
    cluster.textContent = error.status === 401 ? "" : error.message;
  }
  role.hidden = !isGuarded() && !token();
  role.textContent = currentRole() ? `role: ${currentRole()}` : "token";
  role.title = currentName();
}

let asking = false; // for the ways to log in

async function askForLogin() {
  if (asking || document.querySelector("dialog[open].login")) return;
  asking = true;
  const ways = await waysToLogIn();
  asking = false;
  (ways.password ? askForPassword(ways) : askForToken()).classList.add("login");
}

function askForPassword(ways) {
  return ask({
    title: "Sign in",
    content: [
      token() && h("p", {}, "The server rejected the token of this tab."),
      field("User", h("input", { name: "user", autocomplete: "username", autocapitalize: "none", spellcheck: "false" })),
      field("Password", h("input", { name: "password", type: "password", autocomplete: "current-password" }), "not stored"),
      ways.token && h("details", {}, h("summary", {}, "Use a token instead"),
        field("Token", h("input", { name: "token", type: "password", autocomplete: "off" }), "stored in this tab only, until it is closed")),
    ],
    action: "Sign in",
    submit: async (data) => {
      if (data.get("token")) await take(data.get("token"));
      else await logIn(data.get("user"), data.get("password"));
      location.reload();
    },
  });
}

function askForToken() {
  return ask({
    title: "This server requires a token",
    content: [
      token() && h("p", {}, "The server rejected the token of this tab."),
      h("p", { class: "quiet" }, h("code", {}, "kvorum chaos serve"), " stores its token in ", h("code", {}, "DIR/chaos-serve.token"), ". A node’s tokens are in the file that ", h("code", {}, "kvorum.admin.tokens.file"), " names."),
      field("Token", h("input", { name: "token", type: "password", required: true, autocomplete: "off" }), "stored in this tab only, until it is closed"),
    ],
    action: "Sign in",
    submit: async (data) => {
      await take(data.get("token"));
      location.reload();
    },
  });
}

/** The identity: to leave it, or to take another one. */
function changeIdentity() {
  if (!token() && currentRole()) {
    ask({
      title: "Signed in",
      content: h("p", {}, `${currentName()}, role: ${currentRole()}.`),
      action: "Sign out",
      submit: async () => {
        await logOut();
        location.reload();
      },
    });
    return;
  }
  ask({
    title: "Token",
    content: [
      h("p", {}, `Role: ${currentRole() ?? "unknown"}. The token is stored in this tab only, until it is closed.`),
      field("New token", h("input", { name: "token", type: "password", required: true, autocomplete: "off" })),
      button("Remove token", () => {
        forget();
        location.reload();
      }),
    ],
    action: "Use the new token",
    submit: async (data) => {
      await take(data.get("token"));
      location.reload();
    },
  });
}

function navigation() {
  const links = GROUPS.map((group) => {
    const pages = ROUTES.filter((route) => route.group === group && route.name);
    return h("li", {}, h("ul", { "aria-label": group }, pages.map(({ path, name }) =>
      h("li", {}, h("a", { href: `#/${path}`, "data-root": path }, name)))));
  });
  document.getElementById("nav").append(h("ul", {}, links), h("p", { class: "zone quiet" }, `Times: ${zone()}`));
}

function start() {
  const keyed = ROUTES.filter(({ key }) => key).map(({ path, name, key }) => [path, name, key]);
  theme(recall("theme"));
  navigation();
  document.getElementById("theme").addEventListener("click", nextTheme);
  document.getElementById("keys").addEventListener("click", () => listKeys(keyed));
  document.getElementById("role").addEventListener("click", changeIdentity);
  document.getElementById("skip").addEventListener("click", () => main.focus());
  hearKeys(keyed);
  document.addEventListener("kvorum:token", askForLogin);
  addEventListener("hashchange", show);
  addEventListener("unhandledrejection", (event) => {
    if (event.reason?.name !== "AbortError") note(String(event.reason?.message || event.reason), "bad");
  });
  takeToken();
  const live = document.getElementById("live");
  follow((state, why) => {
    live.className = `live ${state}`;
    live.textContent = { on: "live", off: "not live", again: "connecting" }[state];
    live.title = why ?? "";
    if (state !== "on" && why) live.append(h("span", { class: "why" }, `: ${why}`));
    if (state === "on" && !known) bar();
    known &&= state === "on";
  });
  bar();
  show();
}

start();
