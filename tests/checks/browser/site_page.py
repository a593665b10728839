"""site_page.py DIR: opens the documents' site that docs/reference/build.sh has built in DIR, and reads it in light and
dark, on a phone and in a wide window. Screenshots are left in DIR."""

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


def main():
    folder = pathlib.Path(sys.argv[1])
    chromium = browser.find()
    if not chromium or not (folder / "html/index.html").exists():
        print("skipped: chromium is missing (apt-get install chromium), or the site was not built")
        return 77
    html = folder / "html"
    with browser.Browser(chromium) as b:
        for name in ("index", "md_docs_attention", "md_docs_gallery", "structfit_1_1plot_1_1Options", "namespacefit"):
            for width in (390, 800, 1400):
                for dark in (False, True):
                    page = browser.Page(b, html / (name + ".html"), width=width, dark=dark, site=html)
                    what = f"{name}, {width} pixels, {'dark' if dark else 'light'}"
                    check(f"{what}: nothing is cut off", page.js("document.documentElement.scrollWidth <= innerWidth + 1"),
                          page.js("document.documentElement.scrollWidth"))
                    ground, ink = light(page, "body", "backgroundColor"), light(page, "body", "color")
                    check(f"{what}: its theme", (ground < 60 < 180 < ink) if dark else (ground > 200 > 80 > ink), ground, ink)
                    page.screenshot(folder / f"{name}_{width}_{'dark' if dark else 'light'}.png", most=3000)
                    check(f"{what}: no error, no request", not page.problems(), page.problems())
                    page.close()
        page = browser.Page(b, html / "index.html", site=html)
        guides = page.js("[...document.querySelectorAll('#guides a')].map(a => a.textContent)")
        check("guides stand in the order of the README", guides[:4] == ["Overview", "A tour", "Training a transformer of your own", "Attention"], guides[:6])
        results = find(page, "fully masked")
        check("the search finds prose", any(address.startswith("md_docs_") for address, _ in results), results)
        results = find(page, "AttentionRecording")
        check("and names", any("AttentionRecording" in text for _, text in results), results)
        results = find(page, "nosuchword")
        check("and says if there is nothing", page.js("document.getElementById('found').textContent") == "Nothing found")
        page.close()
        page = browser.Page(b, html / "md_docs_tour.html", width=390, site=html)
        check("a phone's menu is folded", page.js("getComputedStyle(document.getElementById('guides')).display") == "none")
        page.js("document.getElementById('menu').click()")
        check("and opens", page.js("getComputedStyle(document.getElementById('guides')).display") == "block")
        check("a guide leads to the next one", page.js("document.querySelector('.next-page').textContent").startswith("Next: Training"))
        page.close()
    return browser.verdict()


if __name__ == "__main__":
    sys.exit(main())
