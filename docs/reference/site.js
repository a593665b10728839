// The site's menu, search and theme. site_pages.js has the guides in the order of the README; site_index.js, which loads
// at the first search, has the text of each section and the public names.
const root = document.currentScript?.dataset.root ?? document.querySelector("script[data-root]").dataset.root;
const byId = (id) => document.getElementById(id);

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
}
const stored = () => { try { return localStorage.getItem("fit-theme"); } catch { return null; } };
const preferred = matchMedia("(prefers-color-scheme: dark)");
setTheme(stored() ? stored() === "dark" : preferred.matches);
preferred.addEventListener("change", (event) => stored() ?? setTheme(event.matches));
byId("theme").addEventListener("click", () => {
  const dark = document.documentElement.dataset.theme !== "dark";
  setTheme(dark);
  try { localStorage.setItem("fit-theme", dark ? "dark" : "light"); } catch { /* for this page only */ }
});

const here = location.pathname.split("/").at(-1) || "index.html";
for (const [heading, pages] of SITE_PAGES) {
  const title = document.createElement("h2"), list = document.createElement("ol");
  title.textContent = heading;
  for (const [file, name] of pages) {
    const item = list.appendChild(document.createElement("li")), link = item.appendChild(document.createElement("a"));
    link.href = root + file;
    link.textContent = name;
    if (file === here) link.setAttribute("aria-current", "page");
  }
  byId("guides").append(title, list);
}
byId("menu").addEventListener("click", () => {
  const open = document.body.classList.toggle("menu-open");
  byId("menu").setAttribute("aria-expanded", String(open));
});

// The next guide in the order of reading.
const order = SITE_PAGES.flatMap(([, pages]) => pages), at = order.findIndex(([file]) => file === here);
if (at >= 0 && at + 1 < order.length) {
  const next = document.createElement("p");
  next.className = "next-page";
  const link = next.appendChild(document.createElement("a"));
  link.href = root + order[at + 1][0];
  link.textContent = "Next: " + order[at + 1][1];
  document.querySelector(".contents")?.append(next);
}

let loading = null;
function loadIndex() {
  loading ??= new Promise((done, failed) => {
    const script = document.createElement("script");
    script.src = root + "site_index.js";
    script.onload = () => done(SITE_INDEX);
    script.onerror = failed;
    document.head.append(script);
  });
  return loading;
}

// Words that say nothing about what is looked for.
const COMMON = new Set("a an and are as at be by can do does for from how i in is it my of on or several that the to what when which with".split(" "));

// Sections that have at least half of the words, those with most of them first. A rare word counts more than one that
// stands everywhere, and one in a name or a heading more than one in the text. Endings do not count: cores, core.
function search(index, text) {
  const all = text.toLowerCase().split(/\s+/).filter(Boolean), telling = all.filter((word) => !COMMON.has(word));
  const stem = (word) => (word.length > 4 ? word.replace(/(ing|es|s)$/, "") : word);
  const words = (telling.length ? telling : all).map(stem);
  const lower = index.map(([, title, body]) => [title.toLowerCase(), body.toLowerCase()]);
  const rarity = words.map((word) => Math.log(1 + index.length / (1 + lower.filter(([title, body]) => title.includes(word) || body.includes(word)).length)));
  const score = ([title, body]) => {
    let found = 0, sum = 0;
    words.forEach((word, i) => {
      const inTitle = title.split(/\W+/).map(stem).includes(word) ? 30 : title.includes(word) ? 10 : 0, inBody = body.split(word).length - 1;
      if (!inTitle && !inBody) return;
      ++found, (sum += rarity[i] * (inTitle + Math.min(inBody, 5)));
    });
    return found * 2 < words.length || found === 0 ? 0 : 1000 * found + sum;
  };
  return index.map((entry, i) => [score(lower[i]), entry]).filter(([s]) => s).sort(([a], [b]) => b - a).slice(0, 12).map(([, entry]) => entry);
}

const find = byId("find"), found = byId("found");
find.addEventListener("input", async () => {
  const text = find.value, results = search(await loadIndex(), text);
  if (text !== find.value) return;
  found.hidden = text.trim() === "";
  found.replaceChildren(...results.map(([file, title, body]) => {
    const item = document.createElement("li"), link = item.appendChild(document.createElement("a"));
    link.href = root + file;
    link.append(title);
    const word = text.toLowerCase().split(/\s+/)[0], near = Math.max(0, body.toLowerCase().indexOf(word) - 40);
    link.appendChild(document.createElement("small")).textContent = (near ? "…" : "") + body.slice(near, near + 130);
    return item;
  }));
  if (!results.length) found.appendChild(document.createElement("li")).textContent = "Nothing found";
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.closest("input, textarea")) {
    event.preventDefault();
    find.focus();
  } else if (event.key === "Escape") found.hidden = true;
  else if (event.key === "ArrowDown" && event.target.closest("form")) {
    event.preventDefault();
    const links = [...found.querySelectorAll("a")];
    (links[links.indexOf(document.activeElement) + 1] ?? links[0])?.focus();
  } else if (event.key === "Enter" && event.target === find) {
    event.preventDefault();
    found.querySelector("a")?.click();
  }
});
document.addEventListener("click", (event) => event.target.closest("form") || (found.hidden = true));
