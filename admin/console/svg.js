// Drawings: elements of SVG, made as those of HTML are.

import { hears } from "./patch.js";

const SPACE = "http://www.w3.org/2000/svg";

/** Make an element; on… in `attributes` are listeners. */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SPACE, tag);
  const listeners = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) listeners[name.slice(2)] = value;
    else if (value !== undefined && value !== null) element.setAttribute(name, value);
  }
  if (Object.keys(listeners).length) hears(element, listeners);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}
