// Light or dark, as the reader's system has it, or as the button with the id "theme" says.
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = document.getElementById("theme");
  button.textContent = dark ? "Light" : "Dark";
  button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
  document.dispatchEvent(new Event("theme"));
}

function followTheme() {
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  preferred.addEventListener("change", (event) => setTheme(event.matches));
  document.getElementById("theme").addEventListener("click", () => setTheme(document.documentElement.dataset.theme !== "dark"));
  setTheme(preferred.matches);
}
