// Storage of this browser between visits. It may be unavailable: then pages work without it.

const PREFIX = "kvorum.";

/** Return the stored value of a name, or the default. */
export function recall(name, otherwise = null) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? otherwise : JSON.parse(text);
  } catch {
    return otherwise;
  }
}

/** Keep a value; null is to forget it. Tells whether it could. */
export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}

let secret = null; // if session storage is not available either

/** The token of this tab; null without one. */
export function token() {
  try {
    return sessionStorage.getItem(`${PREFIX}token`) ?? secret;
  } catch {
    return secret;
  }
}

/** Store a token for the lifetime of this tab; null removes it. */
export function keepToken(text) {
  secret = text;
  try {
    if (text === null) sessionStorage.removeItem(`${PREFIX}token`);
    else sessionStorage.setItem(`${PREFIX}token`, text);
  } catch {
    // it is only in `secret`, until a reload
  }
}
