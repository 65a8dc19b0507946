// Elements made in code: what comes from the cluster is always text, never markup.

/** Make an element. `attributes`: on… are listeners, true and false set and leave out, the rest is set as it is. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** A table. `columns`: [{title, cell(row), number?}]; each row may be opened by what `cell` links to. */
export function table(caption, columns, rows, empty) {
  if (!rows.length) return nothing(empty);
  const head = h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.number && "number" }, column.title || h("span", { class: "unseen" }, "Actions"))));
  const body = rows.map((row) =>
    h("tr", {}, columns.map((column) =>
      h("td", { "data-label": column.title, class: column.number && "number" }, column.cell(row) ?? "–"))));
  return h("div", { class: "scroll" },
    h("table", {}, h("caption", { class: "unseen" }, caption), h("thead", {}, head), h("tbody", {}, body)));
}

/** Parts of a page as links: [path, name], the one that is shown marked. */
export function tabs(name, links, current) {
  return h("div", { class: "tabs", role: "group", "aria-label": name }, links.map(([path, text]) => h("a", { href: path, "aria-current": path === current && "true" }, text)));
}

/** What stands where there is nothing to show. */
export function nothing(text) {
  return h("p", { class: "nothing" }, text);
}

/** A short word in a box: what state something is in. `kind`: good, warn, bad or none. */
export function badge(text, kind = "") {
  return h("span", { class: `badge ${kind}` }, text);
}

/** A figure with what it is of. */
export function figure(title, value, kind = "") {
  return h("div", { class: `figure ${kind}` }, h("dt", {}, title), h("dd", {}, value));
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

export function select(name, options, value) {
  return h("select", { name }, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));
}

/** Ask in a dialog. `submit(data)` may throw: its message is shown and the dialog stays. */
export function ask({ title, content, action, danger = false, submit }) {
  const wrong = h("p", { class: "wrong", role: "alert" });
  const form = h("form", { method: "dialog" },
    h("h2", {}, title), content, wrong,
    h("div", { class: "actions" },
      h("button", { type: "button", class: "plain", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "submit", class: danger ? "danger" : "" }, action)));
  const dialog = h("dialog", { "aria-label": title, onclose: () => dialog.remove() }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    wrong.textContent = "";
    form.classList.add("busy");
    try {
      await submit(new FormData(form), form);
      dialog.close();
    } catch (error) {
      wrong.textContent = error.message;
    } finally {
      form.classList.remove("busy");
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Say something for a moment, in the corner and to screen readers. */
export function note(text, kind = "good") {
  const shown = h("div", { class: `note ${kind}` }, text);
  document.getElementById("notes").append(shown);
  setTimeout(() => shown.remove(), 6000);
}
