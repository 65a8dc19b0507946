// What this browser keeps between visits. It may refuse to keep anything: then a page works all the same, and forgets.

const PREFIX = "kvorum.";

/** Return what was kept under a name, or what is said instead. */
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

let secret = null; // where a tab may not keep anything either

/** The token of this tab; null where it has none. */
export function token() {
  try {
    return sessionStorage.getItem(`${PREFIX}token`) ?? secret;
  } catch {
    return secret;
  }
}

/** Keep a token for as long as this tab is there; null is to forget it. */
export function keepToken(text) {
  secret = text;
  try {
    if (text === null) sessionStorage.removeItem(`${PREFIX}token`);
    else sessionStorage.setItem(`${PREFIX}token`, text);
  } catch {
    // this tab keeps it in `secret`, until it is loaded again
  }
}
