// The heading that is read stands out in the contents.
function followReading() {
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.getAttribute("href").slice(1), link]));
  const headings = [...links.keys()].map((id) => document.getElementById(id));
  const update = () => {
    const read = headings.filter((heading) => heading.getBoundingClientRect().top < 140).at(-1);
    for (const [id, link] of links) link.setAttribute("aria-current", String(id === read?.id));
  };
  document.addEventListener("scroll", update, { passive: true });
  update();
}

// Beside the text the contents are open, above it they are folded.
function foldContents() {
  const beside = window.matchMedia("(min-width: 1081px)"), contents = document.querySelector("nav details");
  const fold = () => (contents.open = beside.matches);
  beside.addEventListener("change", fold);
  fold();
}

for (const code of document.querySelectorAll(".code code")) colorCode(code);
document.querySelectorAll(".code").forEach(addCopyButton);
followTheme();
foldContents();
await prepareColors();
for (const root of document.querySelectorAll(".workbench")) await new Workbench(root).show();
followPointer();
prepareAnswers();
followReading();
document.documentElement.dataset.ready = "true";
