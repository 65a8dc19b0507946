// A redraw changes only the differences: focus, selection,
// scroll positions and expanded elements stay.

const listeners = new WeakMap(); // element -> { type: function }

function heard(event) {
  listeners.get(event.currentTarget)?.[event.type]?.call(event.currentTarget, event);
}

/** Have an element's listeners be these. They can be handed on to another element, which those of the DOM cannot. */
export function hears(element, wanted) {
  const known = listeners.get(element) ?? {};
  for (const type of Object.keys(wanted)) if (!(type in known)) element.addEventListener(type, heard);
  listeners.set(element, wanted);
}

/** Make the children of an element those that were drawn. */
export function settle(parent, drawn) {
  const had = document.activeElement;
  children(parent, drawn);
  // A moved element lost the focus; if the focused one was removed, keyboard users continue at its position.
  if (!had || had === document.activeElement || had === document.body) return;
  if (had.isConnected) had.focus({ preventScroll: true });
  else if (document.activeElement === document.body) parent.closest("main")?.focus({ preventScroll: true });
}

function keyOf(node) {
  return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key ?? node.dataset.row ?? null : null;
}

function children(parent, wanted) {
  const keyed = new Map();
  for (const child of parent.children) if (keyOf(child) !== null) keyed.set(keyOf(child), child);
  const staying = new Set(wanted.map(keyOf).filter((key) => key !== null));
  let at = parent.firstChild;
  const pass = () => {
    // Removed elements are deleted first, so remaining ones need not be moved.
    while (at && keyOf(at) !== null && !staying.has(keyOf(at))) at = without(at);
  };
  for (const node of wanted) {
    pass();
    const key = keyOf(node);
    const match = key === null ? at : keyed.get(key);
    if (match && match.parentNode === parent && same(match, node)) {
      if (match === at) at = at.nextSibling;
      else parent.insertBefore(match, at);
      become(match, node);
      keyed.delete(key);
    } else {
      parent.insertBefore(node, at);
      if (at && key === null && keyOf(at) === null && at.nodeName !== node.nodeName) at = without(at);
    }
  }
  while (at) at = without(at);
}

function without(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function same(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === keyOf(other);
}

function become(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if ("own" in old.dataset) return; // it updates itself
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && !isTheirs(old, name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value && !isTheirs(old, name)) old.setAttribute(name, value);
  if (old.matches("progress")) old.value = fresh.value;
  const wanted = listeners.get(fresh);
  if (wanted || listeners.has(old)) hears(old, wanted ?? {});
  const atEnd = old.dataset.follow !== undefined && old.scrollHeight - old.scrollTop - old.clientHeight < 8;
  children(old, [...fresh.childNodes]);
  if (atEnd) old.scrollTop = old.scrollHeight;
}

/** The user's state: expanded, chosen and typed values, and running buttons. */
function isTheirs(element, name) {
  return name === "data-working" || (name === "open" && element.matches("details")) || (name === "value" && element.matches("input")) || name === "checked" || name === "selected";
}
