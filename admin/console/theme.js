// Before anything is drawn: the theme that was chosen here, if one was; the system's otherwise. A script of its own, since
// a module runs after the first drawing.
try {
  const chosen = JSON.parse(localStorage.getItem("kvorum.theme"));
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // the browser keeps nothing, or something else: the system's
}
