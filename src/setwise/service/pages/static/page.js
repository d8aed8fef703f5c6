// What every page has: the switch between light and dark, and buttons that copy.

const dark = matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
  return (document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
}

function announce() {
  const button = document.getElementById("theme");
  if (button) button.setAttribute("aria-pressed", String(isDark()));
  document.dispatchEvent(new Event("themechange"));
}

const button = document.getElementById("theme");
if (button) {
  button.hidden = false;
  button.title = "Dark or light";
  button.addEventListener("click", () => {
    const chosen = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
    localStorage.setItem("theme", chosen);
    announce();
  });
}
dark.addEventListener("change", announce);
announce();

document.addEventListener("click", async (event) => {
  const copy = event.target.closest("[data-copy]");
  if (!copy) return;
  const source = document.getElementById(copy.dataset.copy);
  const before = copy.firstChild.textContent;
  copy.firstChild.textContent = (await copied(source)) ? "Copied" : "Select and copy by hand";
  setTimeout(() => { copy.firstChild.textContent = before; }, 1600);
});

// The clipboard is there only behind TLS and on this machine; elsewhere the text is selected.
async function copied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent);
    return true;
  } catch {
    getSelection().selectAllChildren(source);
    return document.execCommand("copy");
  }
}
