"""runs_page.py PROGRAM DIR: opens the page that PROGRAM (runs_pages.cpp) writes into DIR in a browser."""

import json
import re

import browser
from browser import check
from recorded_page import download, is_svg


def texts(page, elements):
    return page.js(f"[...document.querySelectorAll('{elements}')].map(e => e.textContent)")


def curves(page):
    check("a chart for what both runs have", texts(page, "#charts h2") == ["loss"], texts(page, "#charts h2"))
    check("it has two curves", page.js("new Set([...document.querySelectorAll('#charts path')].map(p => p.getAttribute('d'))).size") == 2)
    check("and says where they end", texts(page, "#charts output")[0].startswith("plain: 0.0297 (step 100) · with <dropout>: 0.0396"), texts(page, "#charts output"))
    # 0 is drawn at 204, the largest number, 4, at 8.
    drawn = page.js("[...document.querySelectorAll('#charts path')].map(p => p.getAttribute('d').slice(1).split('L').map(v => Number(v.split(' ')[1])))")
    right = [[204 - 196 * first / (1 + step) / 4 for step in range(0, 101, 10)] for first in (3, 4)]
    check("the curves are those of the runs", len(drawn) == 2 and all(len(d) == 11 and max(abs(a - b) for a, b in zip(d, r)) < 0.06 for d, r in zip(drawn, right)), drawn)
    page.js("document.querySelector('#charts svg').focus()")
    page.key("Home")
    check("keys move through the steps", texts(page, "#charts output")[0].startswith("plain: 3 (step 0)"), texts(page, "#charts output"))
    page.key("ArrowRight")
    check("one by one", texts(page, "#charts output") == ["plain: 0.2727 (step 10) · with <dropout>: 0.3636 (step 10)"], texts(page, "#charts output"))


def pairs(page, truth):
    shown = texts(page, "#pairs button")
    head = lambda i: f"h.0.attn, head {i}"
    expected = {(head(1), head(2)), (head(2), head(4)), (head(4), head(3)), (head(3), head(1))}
    found = {tuple(text[5:].split(" ↔ ")) for text in shown}
    check("each head is matched with its copy", found == expected, shown)
    check("copies are equal, the changed one is last", all(float(t[:5]) > 0.99 for t in shown[:3]) and float(shown[3][:5]) < 0.99, shown)
    page.js("document.querySelector('.as-difference').click()")
    page.settle()
    check("equal heads have no difference", texts(page, ".notes li") == ["The two heads are equal."], texts(page, ".notes li"))
    page.js("document.querySelectorAll('#pairs button')[3].click()")
    page.settle()
    note = texts(page, ".notes li")[0]
    words = ["the", "tired", "cat", "sat", "<b>down</b>", "there"]
    key, difference = truth["key"], truth["difference"]
    said = re.fullmatch("The largest difference: “there” → “(.*)”, where the (.*) head has (.*) more. The colours are those of the heads.", note)
    more = "second" if difference > 0 else "first"
    check("the largest difference is in the changed row", said is not None and (said[1], said[2]) == (words[key], more) and
          abs(float(said[3]) - abs(difference)) < 0.004, note, truth)
    check("the similarity is the weight that they share", abs(float(shown[3][:5]) - truth["shared"]) < 0.003, shown[3], truth)
    colors = page.js("""(() => { const c = document.querySelector('.picture'), r = c.width / c.clientWidth, d = document.querySelector('.stage').dataset, [left, top, w, h] = [d.left, d.top, d.cellWidth, d.cellHeight].map(Number);
      return [...Array(6).keys()].map(k => [...c.getContext('2d').getImageData((left + (k + 0.12) * w) * r, (top + 5.12 * h) * r, 1, 1).data]); })()""")
    strength = [(r - b) * alpha * (1 if difference > 0 else -1) for r, _, b, alpha in colors]
    check("and drawn in the colour of the head that has more", max(range(6), key=strength.__getitem__) == key and strength[key] > 60 * 250, colors, truth)
    chips = texts(page, ".chip")
    check("both runs show the pair", chips == ["plain · h.0.attn · head 3 ✕", "with <dropout> · h.0.attn · head 1 ✕"], chips)
    page.js("document.querySelector('.as-matrix').click()")
    page.settle()
    check("equal weights have one colour in both: one scale", page.js("document.querySelector('.stage').getAttribute('aria-label')").startswith("plain"))
    cells = page.js("""(() => { const c = document.querySelector('.picture'), r = c.width / c.clientWidth, d = document.querySelector('.stage').dataset, [left, top, w, h] = [d.left, d.top, d.cellWidth, d.cellHeight].map(Number);
      return [...c.getContext('2d').getImageData((left + 0.12 * w) * r, (top + 0.12 * h) * r, 1, 1).data]; })()""")
    check("a weight of 1 has the strongest colour", cells[3] == 255, cells)


def saved(page, folder):
    """Both pictures of a pair name their axes and their runs as SVG."""
    for view in ("as-difference", "as-matrix"):
        page.js(f"document.querySelector('.{view}').click()")
        page.settle()
        svg = download(page, "save-svg", folder / "saved", "svg")
        text = svg.read_text()
        check(f"{view}: the SVG names both axes and the run", is_svg(svg) and "← Query" in text and "Key →" in text and "plain" in text)


def many(open_page):
    """Three runs: curves, grids and pairs of each two."""
    page = open_page("three")
    check("three runs have three grids", texts(page, ".run-name") == ["plain", "with <dropout>", "third"] and page.js("document.querySelectorAll('.list').length") == 3)
    check("and three curves", page.js("document.querySelectorAll('#charts section:first-child path').length") == 3)
    page.js("(() => { const s = document.getElementById('pair-second'); s.value = 2; s.dispatchEvent(new Event('change')); })()")
    page.wait("document.querySelector('#pairs button b').textContent === '1.000'")
    shown = texts(page, "#pairs button")
    check("a run and its copy have equal pairs", len(shown) == 4 and all(float(t[:5]) > 0.998 and t[5:].split(' ↔ ')[0] == t[5:].split(' ↔ ')[1] for t in shown), shown)
    check("three runs: no error, no request", not page.problems(), page.problems())
    page.close()


def test(b, program, folder):
    folder = browser.written(program, folder)

    def open_page(name, **how):
        return browser.Page(b, folder / (name + ".html"), **how)

    many(open_page)
    for page, _, name in browser.looks(lambda **how: open_page("runs", **how)):
        page.js("document.querySelector('#charts svg').dispatchEvent(new Event('pointerleave')), document.querySelector('#pairs button').click()")
        page.settle()
        curves(page)
        pairs(page, json.loads((folder / "runs.json").read_text()))
        if name == "1400_dark":
            saved(page, folder)
        check("names are text", page.js("document.title") == "With & without" and page.js("document.querySelectorAll('dropout').length") == 0)
        browser.look(page, name, folder / f"runs_{name}.png")


if __name__ == "__main__":
    browser.main(test)
