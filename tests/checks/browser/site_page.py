"""site_page.py DIR: opens the documents' site that docs/reference/build.sh has built in DIR, and reads it in light and
dark, on a phone and in a wide window."""

import pathlib
import sys

import browser
from browser import check


def light(page, selector, name):
    color = page.js(f"getComputedStyle(document.querySelector('{selector}')).{name}")
    return sum(map(int, color[color.index("(") + 1:-1].split(",")[:3])) / 3


def find(page, text):
    page.js(f"""(() => {{ const f = document.getElementById('find'); f.value = '{text}'; f.dispatchEvent(new Event('input')); }})()""")
    page.wait(f"document.querySelectorAll('#found li').length > 0 && !document.getElementById('found').hidden")
    page.settle()
    return page.js("[...document.querySelectorAll('#found a')].map(a => [a.getAttribute('href'), a.textContent])")


def test(b, folder):
    folder = pathlib.Path(folder)
    html = folder / "html"
    if not (html / "index.html").exists():
        print("skipped: the site was not built")
        sys.exit(77)
    for file in ("index", "md_docs_attention", "md_docs_gallery", "structfit_1_1plot_1_1Options", "namespacefit", "annotated", "files"):
        for page, dark, name in browser.looks(lambda **how: browser.Page(b, html / (file + ".html"), site=html, **how)):
            what = f"{file}, {name}"
            ground, ink = light(page, "body", "backgroundColor"), light(page, "body", "color")
            check(f"{what}: its theme", (ground < 60 < 180 < ink) if dark else (ground > 200 > 80 > ink), ground, ink)
            browser.look(page, what, folder / f"{file}_{name}.png")
    page = browser.Page(b, html / "index.html", site=html)
    guides = page.js("[...document.querySelectorAll('#guides a')].map(a => a.textContent)")
    lessons = page.js("SITE_PAGES.find(([heading]) => heading === 'Lessons')?.[1].map(([, name]) => name)")
    check("lessons stand in the menu", lessons[:4] == ["A course on attention", "Attention in five minutes", "Attention at work", "Understanding attention, one step at a time"] and guides[1:1 + len(lessons)] == lessons, lessons)
    del guides[1:1 + len(lessons)]
    check("guides stand in the order of the README", guides[:4] == ["Overview", "A tour", "Training a transformer of your own", "Attention"], guides[:6])
    results = find(page, "fully masked")
    check("the search finds prose", any(address.startswith("md_docs_") for address, _ in results), results)
    results = find(page, "AttentionRecording")
    check("and names", any("AttentionRecording" in text for _, text in results), results)
    results = find(page, "train on several cores")
    check("and a page that has most of the words", any("threads" in address for address, _ in results[:5]), results)
    results = find(page, "nosuchword")
    check("and says if there is nothing", page.js("document.getElementById('found').textContent") == "Nothing found")
    page.close()
    for file, names in (("index", ["five_minutes", "training_heads", "model_page"]), ("md_docs_gallery", ["five_minutes", "lesson", "training_heads", "model_page"])):
        page = browser.Page(b, html / (file + ".html"), site=html)
        links = page.js("[...document.querySelectorAll('.contents a.live')].map(a => a.getAttribute('href'))")
        check(f"{file}: pictures of pages lead to live pages", links == [f"pages/{name}.html" for name in names], links)
        page.close()
    page = browser.Page(b, html / "structfit_1_1AttentionOptions.html", width=1400, site=html)
    # Without what the class inherits: it is folded.
    columns = page.js("""[...document.querySelectorAll('.mdescRight')].filter(d => d.getClientRects().length).map(d => { const t = d.closest('table').getBoundingClientRect(), r = d.getBoundingClientRect();
      return [r.width / t.width, r.left - t.left]; })""")
    check("descriptions of a class stand beside the types, in the wide column", len(columns) > 2 and all(width > 0.5 and left > 80 for width, left in columns), columns[:3])
    page.close()
    for dark in (False, True):
        page = browser.Page(b, html / "md_docs_gallery.html", dark=dark, site=html)
        shown = page.js("[...document.querySelectorAll('.contents img')].filter(i => i.getBoundingClientRect().width > 0).map(i => [i.getAttribute('src'), i.alt, i.naturalWidth > 0])")
        check(f"{'dark' if dark else 'light'}: pictures have the page's theme, and words", len(shown) > 8 and all(("_dark." in src) == dark and alt and loaded for src, alt, loaded in shown), shown)
        page.close()
    page = browser.Page(b, html / "pages/lesson.html", site=html)
    check("a live page leads back", page.js("document.querySelector('header a.back').getAttribute('href')") == "../index.html")
    links = page.js("[...document.querySelectorAll('main a')].map(a => a.getAttribute('href'))")
    check("and to the lessons beside it", {"demonstrate.html", "course.html"} <= set(links) and all((html / "pages" / link).exists() for link in links if ":" not in link), links)
    page.close()
    page = browser.Page(b, html / "md_docs_tour.html", width=390, site=html)
    check("a phone's menu is folded", page.js("getComputedStyle(document.getElementById('guides')).display") == "none")
    page.js("document.getElementById('menu').click()")
    check("and opens", page.js("getComputedStyle(document.getElementById('guides')).display") == "block")
    check("a guide leads to the next one", page.js("document.querySelector('.next-page').textContent").startswith("Next: Training"))
    page.close()


if __name__ == "__main__":
    browser.main(test)
