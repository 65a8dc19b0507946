// Who this is to the server: the token, its role, and what that allows.

import { get, Refused, sendable } from "./api.js";
import { keepToken, token } from "./storage.js";

const ROLES = ["read", "operate", "admin"];
let role = null; // null: not known, and then nothing is held back here; the server refuses what it must
let wanted = false;

/** Whether the server wants tokens at all. */
export function isGuarded() {
  return wanted;
}

export function currentRole() {
  return role;
}

/** Say why somebody may not, as this role; "" where he may. */
export function lacking(needs) {
  if (role === null || ROLES.indexOf(role) >= ROLES.indexOf(needs)) return "";
  return `This requires the role ${needs}; the role of your token is ${role}.`;
}

/** Ask the server who this is; buttons that were drawn before follow. */
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
