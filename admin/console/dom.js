// Elements created in code: data of the cluster is always text, never markup.

import { hears } from "./patch.js";
import { lacking } from "./session.js";

/** Create an element. `attributes`: on… are listeners, true sets and false omits an attribute, others are set unchanged. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  const listeners = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) listeners[name.slice(2)] = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  if (Object.keys(listeners).length) hears(element, listeners);
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/**
 * A button. `needs`: the role that its action requires; with a lesser role it is disabled with the reason. `key`: its id
 * when the page is redrawn; `label`: its accessible name if the text is not sufficient.
 */
export function button(text, click, { kind = "plain", needs = null, key, label, title, ...more } = {}) {
  const lacks = needs && lacking(needs);
  return h("button", {
    type: "button", class: kind, "data-key": key, "aria-label": label, "data-needs": needs, "aria-disabled": lacks ? "true" : null, title: lacks || title, ...more,
    onclick: (event) => {
      const why = needs && lacking(needs);
      if (why) note(why, "bad");
      else click(event);
    },
  }, text);
}

/** A link; `key` as of a button. */
export function link(href, text, { key, label, ...more } = {}) {
  return h("a", { href, "data-key": key, "aria-label": label, ...more }, text);
}

/** A name in a sentence, isolated, so that right-to-left text does not reorder its surroundings. */
export function named(text) {
  return h("bdi", { class: "named" }, text);
}

/**
 * A table. `columns`: [{title, cell(row), number?, sorted?}], `key(row)`: a row's id when it is redrawn.
 * Roles are explicit, since a narrow screen shows rows as blocks, which some browsers do not expose as a table.
 */
export function table(caption, columns, rows, empty, { key = null } = {}) {
  if (!rows.length) return nothing(empty);
  const head = h("tr", { role: "row" }, columns.map((column) =>
    h("th", { scope: "col", role: "columnheader", class: kindOf(column), "aria-sort": column.sorted },
      column.head ?? (column.title || h("span", { class: "unseen" }, "Actions")))));
  const body = rows.map((row, at) =>
    h("tr", { role: "row", "data-row": key ? `row-${key(row)}` : `row-${at}` }, columns.map((column) => {
      const content = column.cell(row) ?? "–";
      const kind = [kindOf(column), content === "–" && "empty"].filter(Boolean).join(" ");
      return h("td", { role: "cell", "data-label": column.title, class: kind || null }, h("div", { class: "cell" }, content));
    })));
  return h("div", { class: "scroll" },
    h("table", { role: "table" }, h("caption", { class: "unseen" }, caption),
      h("thead", { role: "rowgroup" }, head), h("tbody", { role: "rowgroup" }, body)));
}

function kindOf(column) {
  return column.number ? "number" : column.title ? null : "deeds";
}

/** A name with dots in it, which is broken there where it has to be. */
export function dotted(name) {
  return h("span", { class: "mono" }, name.split(".").flatMap((part, at) => (at ? [".", h("wbr"), part] : [part])));
}

/** Parts of a page as links: [path, name], the one that is shown marked. */
export function tabs(name, links, current) {
  return h("div", { class: "tabs", role: "group", "aria-label": name },
    links.map(([path, text]) => h("a", { href: path, "aria-current": path === current && "true", "data-key": `tab-${path}` }, text)));
}

/** The text of an empty list. */
export function nothing(...text) {
  return h("p", { class: "nothing" }, text);
}

/** A badge with a state. `kind`: good, warn, bad or none. */
export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

const LARGE_CHARS_MAX = 11;

/** A note on brokers without a response and the missing data; nothing if all responded. */
export function unheard(brokers, missing) {
  if (!brokers.length) return null;
  return h("p", { class: "banner", "data-key": "unheard" }, brokers.length === 1 ? `Broker ${brokers[0]}` : `Brokers ${brokers.join(", ")}`, ` did not respond: ${missing}`);
}

/** A figure with its label. */
export function figure(title, value, kind = "") {
  const long = typeof value === "string" && value.length > LARGE_CHARS_MAX && !kind.includes("small") ? " small" : "";
  return h("div", { class: `figure ${kind}${long}` }, h("dt", {}, title), h("dd", {}, value ?? "–"));
}

export function figures(...shown) {
  return h("dl", { class: "figures" }, shown);
}

export function card(title, ...content) {
  return h("section", { class: "card" }, title && h("h2", {}, title), content);
}

let fields = 0;

/** A field with its label. */
export function field(label, control, hint) {
  const input = control.matches("input, select, textarea") ? control : control.querySelector("input, select, textarea");
  input.id ||= `field-${(fields += 1)}`;
  const said = hint && h("small", { id: `${input.id}-hint` }, hint);
  if (said) input.setAttribute("aria-describedby", said.id);
  return h("div", { class: "field" }, h("label", { for: input.id }, label), control, said);
}

export function check(text, attributes = {}) {
  return h("label", { class: "check" }, h("input", { type: "checkbox", ...attributes }), text);
}

/** `changed(value)`: called when another option is selected. */
export function select(name, options, value, changed = null) {
  const more = changed === null ? {} : { onchange: (event) => changed(event.target.value) };
  return h("select", { name, ...more }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
}

/** A button that shows more buttons and links below it. Any of them, Escape and a click elsewhere close it. */
export function menu(text, items) {
  return h("details", { class: "menu" }, h("summary", { class: "button plain" }, text), h("div", { class: "items" }, items));
}

function closeMenus(event) {
  for (const each of document.querySelectorAll("details.menu[open]")) if (!(event.type === "click" && each.querySelector("summary").contains(event.target))) each.open = false;
}
document.addEventListener("click", closeMenus);
document.addEventListener("keydown", (event) => event.key === "Escape" && closeMenus(event));

let titles = 0;

/**
 * A dialog with a form. `submit(data, form)` may throw: the message is shown, its field marked, and the dialog stays open.
 * It is called once at a time, also after repeated clicks. `fields`: {name in the API: name of the input}.
 */
export function ask({ title, content, action, danger = false, submit, fields: names = {} }) {
  const wrong = h("p", { class: "wrong", role: "alert" });
  const go = h("button", { type: "submit", class: danger ? "danger" : "" }, action);
  const head = h("h2", { id: `dialog-${(titles += 1)}` }, title);
  const form = h("form", { method: "dialog" }, head, content, wrong,
    h("div", { class: "actions" }, h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"), go));
  const dialog = h("dialog", { "aria-labelledby": head.id }, form);
  let working = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (working) return;
    working = true;
    wrong.textContent = "";
    for (const marked of form.querySelectorAll("[aria-invalid]")) marked.removeAttribute("aria-invalid");
    form.classList.add("busy");
    go.setAttribute("aria-disabled", "true");
    try {
      await submit(new FormData(form), form);
      dialog.close();
    } catch (error) {
      // After the dialog was closed the result is shown elsewhere.
      if (dialog.open) complain(form, wrong, error, names);
      else if (error.message) note(error.message, "bad");
    } finally {
      working = false;
      form.classList.remove("busy");
      go.removeAttribute("aria-disabled");
    }
  });
  dialog.addEventListener("close", () => {
    hostNotes();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

function complain(form, wrong, error, names) {
  wrong.textContent = error.message;
  const about = error.field ?? "";
  const name = names[about] ?? names[about.split(".")[0]] ?? about.split(".")[0];
  const marked = name && form.elements.namedItem(name);
  if (!(marked instanceof Element)) return;
  marked.setAttribute("aria-invalid", "true");
  marked.focus();
}

/**
 * Ask in a dialog that shows what would change before it changes anything: `preview(data, show)` shows it, and throws if it is
 * not possible; `apply(data)` makes the change. Another input has to be previewed again.
 */
export function askWithPreview({ content, preview, apply, action = "Apply", ...more }) {
  const shown = h("div", { "aria-live": "polite" });
  const show = (...nodes) => shown.replaceChildren(...nodes.flat(Infinity).filter(Boolean));
  let previewed = null;
  const dialog = ask({
    ...more,
    content: [content, shown],
    action: "Preview",
    async submit(data, form) {
      const text = JSON.stringify([...data]);
      if (text === previewed) return apply(data, form);
      await preview(data, show);
      previewed = text;
      go.textContent = action;
      throw new Error(""); // the dialog stays open
    },
  });
  const go = dialog.querySelector("button[type=submit]");
  dialog.addEventListener("input", () => {
    if (previewed === null) return;
    previewed = null;
    show();
    go.textContent = "Preview";
  });
  return dialog;
}

/** A confirmation dialog. */
export function confirm({ title, text, action, danger = true, done }) {
  return ask({ title, content: [text].flat().map((each) => (each instanceof Element ? each : h("p", {}, each))), action, danger, submit: done });
}

/** A dialog belongs to a page and closes with it. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
}

/** Notes are above everything: in an open dialog, since elements outside of it are not reachable. */
function hostNotes() {
  const notes = document.getElementById("notes");
  const host = [...document.querySelectorAll("dialog[open]")].at(-1) ?? document.body;
  if (notes.parentElement !== host) host.append(notes);
  return notes;
}

const NOTE_MS = 6000;

/** Say something in the corner and to screen readers: good news for a moment, bad ones until they are put away. */
export function note(text, kind = "good") {
  const shown = h("div", { class: `note ${kind}` }, h("span", {}, text));
  if (kind === "bad") shown.append(h("button", { type: "button", class: "plain", "aria-label": "Dismiss", onclick: () => shown.remove() }, "×"));
  else setTimeout(() => shown.remove(), NOTE_MS);
  hostNotes().append(shown);
}

/** Run a button's action; the button is disabled until its end, and errors are shown. */
export async function act(pressed, work) {
  if ("working" in pressed.dataset) return;
  pressed.dataset.working = "";
  try {
    await work();
  } catch (error) {
    note(error.message, "bad");
  } finally {
    delete pressed.dataset.working;
  }
}
