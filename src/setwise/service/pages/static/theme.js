// Runs before the page is drawn, so that a chosen theme does not flash in the other.
{
  const chosen = localStorage.getItem("theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}
