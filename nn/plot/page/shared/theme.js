// Light or dark: the choice of the button with the id "theme", else the system's. The choice is kept for the next page.
const THEME_KEY = "fit-theme";

function storedTheme() {
  try { return localStorage.getItem(THEME_KEY); } catch { return null; } // a browser may forbid it
}

function isDark() { return document.documentElement.dataset.theme === "dark"; }

// All pictures of the page follow the event "theme"; pages in frames get a message.
function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  const button = document.getElementById("theme");
  if (button) {
    button.textContent = dark ? "Light" : "Dark";
    button.setAttribute("aria-label", dark ? "Light colours" : "Dark colours");
  }
  document.dispatchEvent(new Event("theme"));
  for (const frame of document.querySelectorAll("iframe")) tellTheme(frame);
}

function tellTheme(frame) { frame.contentWindow?.postMessage({ fitTheme: isDark() ? "dark" : "light" }, "*"); }

function chooseTheme(dark) {
  setTheme(dark);
  try { localStorage.setItem(THEME_KEY, dark ? "dark" : "light"); } catch { /* the choice holds for this page only */ }
}

function followTheme() {
  const preferred = window.matchMedia("(prefers-color-scheme: dark)");
  preferred.addEventListener("change", (event) => storedTheme() ?? setTheme(event.matches));
  document.getElementById("theme")?.addEventListener("click", () => chooseTheme(!isDark()));
  window.addEventListener("message", (event) => {
    if (event.source === window.parent && event.data?.fitTheme) setTheme(event.data.fitTheme === "dark");
  });
  // Paper is white, and narrower than most windows: pictures are drawn again for it.
  let before = false;
  window.addEventListener("beforeprint", () => {
    if (!document.documentElement.classList.contains("printing")) before = isDark();
    document.documentElement.classList.add("printing");
    setTheme(false);
  });
  window.addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    setTheme(before);
  });
  setTheme(storedTheme() ? storedTheme() === "dark" : preferred.matches);
}
