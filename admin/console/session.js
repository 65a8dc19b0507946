// The identity: token, role and permissions.

import { get, Refused, sendable } from "./api.js";
import { keepToken, token } from "./storage.js";

const ROLES = ["read", "operate", "admin"];
let role = null; // null: unknown; then nothing is disabled here, and the server rejects forbidden requests
let wanted = false;

/** Whether the server wants tokens at all. */
export function isGuarded() {
  return wanted;
}

export function currentRole() {
  return role;
}

/** Return why this role may not; "" if it may. */
export function lacking(needs) {
  if (role === null || ROLES.indexOf(role) >= ROLES.indexOf(needs)) return "";
  return `This requires the role ${needs}; the role of your token is ${role}.`;
}

/** Request the identity from the server, and update existing buttons. */
export async function learn(said = token(), quiet = true) {
  const me = await get("/v1/me", { said, quiet });
  role = me.role;
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

export function forget() {
  keepToken(null);
}
