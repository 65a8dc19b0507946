// The identity: a session or a token, its role and permissions.

import { get, post, Refused, remove, sendable } from "./api.js";
import { keepToken, token } from "./storage.js";

const ROLES = ["read", "operate", "admin"];
let role = null; // null: unknown; then nothing is disabled here, and the server rejects forbidden requests
let name = "";
let wanted = false;

/** Whether the server requires authentication. */
export function isGuarded() {
  return wanted;
}

export function currentRole() {
  return role;
}

export function currentName() {
  return name;
}

/** Return why this role may not; "" if it may. */
export function lacking(needs) {
  if (role === null || ROLES.indexOf(role) >= ROLES.indexOf(needs)) return "";
  return `This requires the role ${needs}; your role is ${role}.`;
}

/** Request the identity from the server, and update existing buttons. */
export async function learn(said = token(), quiet = true) {
  const me = await get("/v1/me", { said, quiet });
  role = me.role;
  name = me.name ?? "";
  wanted = me.guarded;
  for (const button of document.querySelectorAll("[data-needs]")) {
    const why = lacking(button.dataset.needs);
    button.toggleAttribute("aria-disabled", Boolean(why));
    if (why) {
      button.setAttribute("aria-disabled", "true");
      button.title = why;
    }
  }
  return me;
}

/** Take a token if the server knows it. Raises Refused with why not. */
export async function take(text) {
  const said = text.trim();
  if (!sendable(said)) throw new Refused(0, { message: "Not a valid token: tokens consist of printable ASCII characters without spaces." });
  await learn(said);
  keepToken(said);
}

/** Ways to log in at this server. A server without /session has tokens only. */
export async function waysToLogIn() {
  try {
    return await get("/session", { quiet: true, said: null });
  } catch {
    return { password: false, token: true };
  }
}

/** Begin a session: the browser keeps its cookie, which scripts cannot read. Throws Refused with the reason. */
export async function logIn(user, password) {
  await post("/session", { user, password }, { quiet: true, said: null });
  forget();
}

export async function logOut() {
  await remove("/session", { said: null });
}

export function forget() {
  keepToken(null);
}
