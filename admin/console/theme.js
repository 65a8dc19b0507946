// Before drawing: the chosen theme, else the system's. A separate script, since
// a module runs after the first drawing.
try {
  const chosen = JSON.parse(localStorage.getItem("kvorum.theme"));
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // nothing or an invalid value is stored: the system's
}
