"""comparison_page.py PROGRAM DIR: opens the page that PROGRAM (comparison_pages.cpp) writes into DIR in a browser.
Screenshots are left in DIR."""

import browser
from browser import check


def texts(page, elements):
    return page.js(f"[...document.querySelectorAll('{elements}')].map(e => e.textContent)")


def curves(page):
    check("a chart for what both runs have", texts(page, "#charts h2") == ["loss"], texts(page, "#charts h2"))
    check("it has two curves", page.js("new Set([...document.querySelectorAll('#charts path')].map(p => p.getAttribute('d'))).size") == 2)
    check("and says where they end", texts(page, "#charts output")[0].startswith("plain: 0.0297 (step 100) · with <dropout>: 0.0396"), texts(page, "#charts output"))
    page.js("document.querySelector('#charts svg').focus()")
    page.key("Home")
    check("keys move through the steps", texts(page, "#charts output")[0].startswith("plain: 3 (step 0)"), texts(page, "#charts output"))


def pairs(page):
    shown = texts(page, "#pairs button")
    head = lambda i: f"h.0.attn, head {i}"
    expected = {(head(1), head(2)), (head(2), head(4)), (head(4), head(3)), (head(3), head(1))}
    found = {tuple(text[5:].split(" ↔ ")) for text in shown}
    check("each head is matched with its copy", found == expected, shown)
    check("copies are equal, the changed one is last", all(float(t[:5]) > 0.99 for t in shown[:3]) and float(shown[3][:5]) < 0.99, shown)
    check("equal heads have no difference", texts(page, "#difference-note") == ["The two heads are equal."], texts(page, "#difference-note"))
    page.js("document.querySelectorAll('#pairs button')[3].click()")
    page.settle()
    note = texts(page, "#difference-note")[0]
    check("the largest difference is in the changed row", note.startswith("The largest difference: “there” → "), note)
    names = texts(page, ".run .head-name")
    check("both runs show the pair", "head 3 of 4" in names[0] and "head 1 of 4" in names[1], names)
    check("the title says which", "plain: h.0.attn, head 3 · with <dropout>: h.0.attn, head 1" in texts(page, "#difference-title")[0], texts(page, "#difference-title"))


def test(b, program, folder):
    folder = browser.written(program, folder)
    for width, dark, name in browser.looks():
        page = browser.Page(b, folder / "comparison.html", width=width, dark=dark)
        curves(page)
        pairs(page)
        check("names are text", page.js("document.title") == "With & without" and page.js("document.querySelectorAll('dropout').length") == 0)
        browser.look(page, name, folder / f"comparison_{name}.png")


if __name__ == "__main__":
    browser.main(test)
