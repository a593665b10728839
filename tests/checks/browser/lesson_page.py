"""lesson_page.py PROGRAM DIR [OUT]: opens the pages that PROGRAM (lesson_pages.cpp) writes into DIR in a browser, and those of
the course below OUT, which the examples have written."""

import base64
import pathlib
import re
import subprocess
import time

import browser
from recorded_page import contrast
from browser import check

# What the visible code of a lesson does not have: what makes it a program, drawings, calls of the lesson, tolerances.
COMPUTES_NOT = r"#include|int main\(|plot::|\b(?:e|lesson|museum)\.(?!g\.)|[<>]=? *\d+(?:\.\d+)?e-\d"

RED = {False: "rgb(207, 34, 46)", True: "rgb(255, 123, 114)"}  # --bad of theme.css, light and dark


def middle(page, element):
    page.js(f"{element}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
    page.settle()
    return page.js(f"""(() => {{ const r = {element}.getBoundingClientRect();
      return [r.left + r.width / 2, r.top + r.height / 2]; }})()""")


def tip(page):
    return page.js("document.getElementById('tip').hidden ? null : document.getElementById('tip').textContent")


def hover(page, x, y):
    """What is said there, once it is: the pixels of an image are read first."""
    page.move(5, 5)
    page.move(x, y)
    page.wait("!document.getElementById('tip').hidden")
    return tip(page)


def texts(page, selector):
    return page.js(f"[...document.querySelectorAll('{selector}')].map(e => e.textContent)")


def contents(page):
    check("six cells", page.js("document.querySelectorAll('section.cell').length") == 6)
    code = texts(page, ".cell > .code-box .code")
    check("each has its code, but the one that only draws", len(code) == 5 and code[0].startswith("// 4 rows") and code[1].startswith("std::cout <<") and
          code[3].rstrip().endswith("softmax(randn({3, 6, 6})));") and code[4] == "const Tensor scores = values();\n", code)
    check("visible code only computes", not any(re.search(COMPUTES_NOT, c) for c in code[:3] + code[4:]), code)
    checks = texts(page, ".checks .code")
    check("what checks and draws is folded", len(checks) >= 4 and checks[0] == 'lesson.claim("one is one", 1 == 1);\n' and
          "plot::Options()" in checks[1] and "plot::heads" in checks[1] and not page.js("document.querySelector('.checks').open"), checks)
    check("code can be copied", page.js("document.querySelectorAll('.code-box').length === document.querySelectorAll('.copy').length && document.querySelectorAll('.copy').length >= 9"))
    check("code is without its indentation and marks", not any(".cell()" in c or c.startswith(" ") for c in code))
    check("what is not shown is not", not any("argv" in c or "throws" in c for c in code))
    check("code is coloured", page.js("document.querySelectorAll('.code .keyword').length") > 3)
    printed = texts(page, ".printed")
    check("what was printed stands there as text",
          printed[0] == 'from cout <script>alert("printed")</script> & ]]>\nfrom printf\n', printed)
    check("colours of a terminal, without its control characters", printed[1] == "a bred�\n" and
          page.js("getComputedStyle(document.querySelector('.printed span')).backgroundColor") == "rgb(255, 0, 0)", printed)
    check("a claim that holds", texts(page, ".checks .claim")[0] == "one is one")
    check("one that fails", texts(page, ".claim.failed") == ["one is two </p><script>alert(2)</script>"])
    check("the sum of them", texts(page, "#summary") == ["2 of 3 claims hold"], texts(page, "#summary"))
    check("contents", texts(page, "nav a") == ["What it prints", "What it draws", "What fails", "Heads", "What answers"])
    check("no element came of any text", page.js("[...document.scripts].every(s => ['module', 'application/json', 'text/plain'].includes(s.type))"))
    check("the title", page.js("document.title") == "A lesson for the test")


def formulas(page, what):
    page.js("document.querySelectorAll('.question > .word').forEach(w => (w.hidden = false))")
    boxes = page.js("""[...document.querySelectorAll('main > :not(.answers) math')].map(m => { const r = m.getBoundingClientRect();
      return [r.width, r.height, m.namespaceURI.endsWith('MathML'), m.querySelectorAll('merror').length]; })""")
    page.js("document.querySelectorAll('.question > .word').forEach(w => (w.hidden = true))")
    check(f"{what}: {len(boxes)} formulas are set", len(boxes) > 0 and all(w > 3 and h > 5 and ml and not e for w, h, ml, e in boxes), boxes)


def formulas_stand(page):
    check("a fraction's parts stand one above the other", page.js("""(() => {
      const [a, b] = [...document.querySelector('math[display] mfrac').children].map(e => e.getBoundingClientRect());
      return a.bottom <= b.top + 2; })()"""))


def figures(page):
    check("twelve figures, one for each case", page.js("document.querySelectorAll('figure svg').length") == 12)
    check("a caption", texts(page, "figcaption") == ["A caption & more"])
    for row, column in [(0, 1), (2, 3), (3, 4)]:
        said = hover(page, *middle(page, f"document.querySelectorAll('figure')[0].querySelectorAll('.cell')[{row * 5 + column}]"))
        name = ["a", "b", "c", "<script>alert(1)</s…", "e"][column]  # long names are shortened
        exact = (row * 5 + column) * 7 % 20 / 20
        check(f"the cell in row {row}, column {column} says its value",
              said.startswith(f"{'pqrs'[row]} → {name}: ") and abs(float(said.rsplit(": ", 1)[1]) - exact) < 0.0006, said, exact)
    check("its row and its column are marked", page.js("document.querySelectorAll('.mark').length") == 2)
    widths = page.js("[...document.querySelectorAll('.mark')].map(m => [m.getBBox().width, m.getBBox().height])")
    check("all of them", widths[0][0] > 4 * widths[1][0] and widths[1][1] > 3 * widths[0][1], widths)
    page.move(5, 5)
    check("the tip goes with the pointer", tip(page) is None)
    check("so do the marks", page.js("document.querySelectorAll('.mark').length") == 0)
    middle(page, "document.querySelectorAll('figure')[1].querySelector('image')")
    box = page.js("(() => { const r = document.querySelectorAll('figure')[1].querySelector('image').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()")
    for row, column in [(0, 0), (40, 37), (79, 99)]:
        said = hover(page, box[0] + (column + 0.5) * box[2] / 100, box[1] + (row + 0.5) * box[3] / 80)
        check(f"the pixel in row {row}, column {column} says its value", said.startswith(f"row {row}, column {column}: ") and
              abs(float(said.rsplit(": ", 1)[1]) - column / 99) < 1 / 255 + 0.005, said, column / 99)
    said = hover(page, *middle(page, "document.querySelectorAll('figure')[2].querySelectorAll('.cell')[13]"))
    check("of several heads, each says its own", abs(float(said.rsplit(": ", 1)[1]) - 13 * 7 % 20 / 20) < 0.0006, said)
    widths = page.js("[...document.querySelectorAll('.mark')].map(m => m.getBBox().width)")
    cell = page.js("Number(document.querySelectorAll('figure')[2].querySelector('.cell').getAttribute('width'))")
    check("and marks the row of its own map", 4 * cell < max(widths) < 7 * cell, widths, cell)
    page.move(5, 5)


def keys(page):
    page.js("document.querySelector('figure svg').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.key(key)
    check("arrow keys go from cell to cell", (tip(page) or "").startswith("q → b: "), tip(page))
    check("and it is said", page.js("document.getElementById('said').textContent") == tip(page))
    page.key("Escape")
    check("Escape lets go of it", tip(page) is None)
    page.js("document.activeElement.blur()")
    x, y = middle(page, "document.querySelectorAll('figure .cell')[7]")
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    page.tap(x, y)
    check("a tap shows the value", (tip(page) or "").startswith("q → c: "), tip(page))
    page.call("Emulation.setTouchEmulationEnabled", enabled=False)
    page.move(5, 5)


def questions(page):
    said = "[...document.querySelectorAll('.said')].map(s => s.textContent.trim())"
    state = "[...document.querySelectorAll('.question')].map(q => [q.matches('.solved'), q.querySelector('.give-up').hidden, q.querySelector('.said').matches('.wrong')])"
    check("no answer stands below its question", page.js("[...document.querySelectorAll('.question .word')].every(w => w.offsetHeight === 0)") and page.js(said) == [""] * 4)
    check("choices are prose", texts(page, ".choice") == ["One", "Two", "3"] and page.js("document.querySelector('.choice math') !== null"))
    page.js("document.querySelectorAll('.choice')[0].click()")
    check("a wrong choice has its word", page.js(said)[0] == "One: That is one." and page.js(state)[0] == [False, False, True], page.js(said), page.js(state)[0])
    page.js("document.querySelector('.give-up').click()")
    check("the answer can be shown", page.js(said)[0].startswith("Two: Two, <b>always</b>.") and page.js(state)[0] == [True, True, False], page.js(said), page.js(state)[0])

    def enter(question, *numbers):
        page.js(f"""(() => {{ const q = document.querySelectorAll('.question')[{question}];
          {list(numbers)}.forEach((text, i) => (q.querySelectorAll('input')[i].value = text)); q.querySelector('form').requestSubmit(); }})()""")

    enter(1, "2")
    check("a frequent mistake has its word", page.js(said)[1] == "Twice.", page.js(said))
    enter(1, "x")
    check("another one has none of its own", page.js(said)[1] == "Not yet.", page.js(said))
    enter(1, "1/2")
    check("a fraction is a number", page.js(said)[1] == "A half." and page.js(state)[1][0], page.js(said))
    enter(2, "1", "1", "0,0", "1")
    check("numbers of a matrix are checked one by one", page.js(said)[2] == "3 of 4 numbers are right. Ones on the diagonal." and
          page.js("[...document.querySelectorAll('.question')[2].querySelectorAll('input')].map(i => i.getAttribute('aria-invalid')).join()") == "false,true,false,false", page.js(said))
    enter(2, "1", "0", "0", "1")
    check("until all are right", page.js(state)[2] == [True, True, False])
    cell = "document.querySelectorAll('.question')[3].querySelectorAll('rect.cell')"
    page.click(*middle(page, cell + "[0]"))
    check("a cell is an answer", page.js(said)[3] == "p → a: The smallest.", page.js(said))
    page.click(*middle(page, cell + "[3]"))
    check("any cell", page.js(said)[3] == "q → b: No.", page.js(said))
    page.js(cell + "[0].ownerSVGElement.focus()")
    for key in ("Escape", "ArrowDown", "ArrowDown", "Enter"):
        page.key(key)
    check("by keys, too", page.js(said)[3] == "q → a: Four." and page.js(state)[3][0], page.js(said))
    page.move(5, 5)


def text_view(page):
    """A text with two heads: the second asks from the key of the first."""
    state = """(() => { const t = document.querySelector('.text-view'); return [[...t.querySelectorAll('.asks')].map(e => e.textContent).join(), [...t.querySelectorAll('.told p')].map(e => e.textContent),
      ['head-0', 'head-1'].map(c => t.querySelectorAll(`path.${c}`).length)]; })()"""
    first = page.js(state)
    check("the last token is chosen, and its arcs are drawn", first == ["z", ["First: from “z” to “x” 60\u00a0%, “y” 20\u00a0%, “z” 20\u00a0%", "Second: from “x” to “x” 100\u00a0%"], [3, 1]], first)
    page.move(*middle(page, "document.querySelectorAll('.text-view .token')[1]"))
    pointed = page.js(state)
    check("the arcs follow the pointer", pointed[0] == "y" and pointed[1][0] == "First: from “y” to “x” 63\u00a0%, “y” 38\u00a0%" and pointed[2][0] == 2, pointed)
    page.js("document.querySelector('.text-view').focus()")
    page.key("ArrowLeft")
    check("and the keys", page.js(state)[0] == "x", page.js(state))
    inside = page.js("""(() => { const s = document.querySelector('.text-view .stage').getBoundingClientRect();
      return [...document.querySelectorAll('.text-view path')].map(p => p.getBoundingClientRect()).every(r => r.top >= s.top - 1 && r.bottom <= s.bottom + 1 && r.left >= s.left - 1); })()""")
    check("arcs stay in their place", inside)
    page.move(5, 5)


def answers(page):
    code = page.js("[...document.querySelectorAll('section.cell')].at(-1).textContent")
    check("the code does not tell an answer", "lesson.ask" not in code)
    check("the code of the cases is folded, with their claims", any("lesson.figure(plot::heatmap(scores * d_k))" in c and "d_k is positive" in c for c in texts(page, ".checks .code")))
    shown = "[...document.querySelectorAll('.case')].filter(c => !c.hidden).map(c => c.querySelector('.printed').textContent)"
    check("the slider shows one case", page.js(shown)[:1] == ["d_k is 1\n"], page.js(shown))
    check("a slider has a mark for each case", page.js("[...document.querySelectorAll('.vary input')].map(i => i.list.options.length)") == [3, 2])
    check("cases may have names", texts(page, ".vary output")[1] == "first")
    page.js("""(() => { const s = document.querySelector('.vary input'); s.value = 2; s.dispatchEvent(new Event('input')); })()""")
    check("and then another", page.js(shown)[:1] == ["d_k is 16\n"] and texts(page, ".vary output")[0] == "16", page.js(shown))
    page.move(*middle(page, "document.querySelectorAll('[data-of=c] td')[2]"))
    check("a number of a product tells its sum", texts(page, ".sum") == ["3 · 5 + (-4) · 7 = -13"] and
          page.js("[...document.querySelectorAll('td.on')].map(t => t.textContent).join()") == "3,-4,5,7", texts(page, ".sum"))
    page.js("document.querySelector('.product').focus()")
    page.key("ArrowRight")
    check("so do the arrow keys", texts(page, ".sum") == ["3 · 6 + (-4) · 8 = -14"], texts(page, ".sum"))
    page.js("document.querySelector('.product .play').click()")
    check("it plays from the first number on", texts(page, ".sum") == ["1 · 5 + 2 · 7 = 19"] and "Pause" in texts(page, ".product .play")[0])
    page.wait("document.querySelector('.sum').textContent === '1 · 6 + 2 · 8 = 22'")
    page.js("document.querySelector('.product .play').click()")
    check("until it is paused", "Play" in texts(page, ".product .play")[0])
    page.move(*middle(page, "document.querySelector('math [data-name]')"))
    check("a symbol marks its name in the code", page.js("[...document.querySelectorAll('.code .named')].map(e => e.textContent)")[:1] == ["scores"])
    check("and the figures that are drawn from it", page.js("[...document.querySelectorAll('figure')].map((f, i) => f.matches('.named') ? i : -1).filter(i => i >= 0)") == [5, 6, 7])
    page.move(5, 5)
    check("while it is pointed at", page.js("document.querySelectorAll('.named').length") == 0)


def heads(page):
    check("the heads are a part of the page", page.js("document.querySelectorAll('.workbench .head').length") == 3 and
          page.js("document.querySelectorAll('iframe').length") == 0)
    check("the page is not scrolled to them", page.js("scrollY") == 0, page.js("scrollY"))
    check("and have their title", page.js("document.querySelector('.recording > h3').textContent") == '"quoted" & </iframe>')
    picture = "document.querySelector('.workbench .picture').toDataURL()"
    before = page.js(picture)
    page.js("document.getElementById('theme').click()")
    check("the button reaches the heads", page.js(picture) != before)
    page.js("document.getElementById('theme').click()")
    check("nothing of the matrix is cut off", page.js("(() => { const s = document.querySelector('.workbench .stage'); return s.scrollWidth <= s.clientWidth; })()"))


def colors(b, folder):
    """A weight has one colour: in a figure, in a map of a terminal, in the pixels of an image, and on a page of heads."""
    one = {}
    for dark in (False, True):
        page = browser.Page(b, folder / "heads.html", dark=dark)
        page.js("(() => { const s = document.querySelector('.workbench .scale'); s.value = 'one'; s.dispatchEvent(new Event('change')); })()")
        page.settle()
        heads = page.js("""(() => { const d = document.querySelector('.workbench .stage').dataset, c = document.querySelector('.workbench .picture'), r = c.width / c.clientWidth;
          return [0, 1, 2].flatMap(q => [0, 1, 2].map(k => 'rgb(' + [...c.getContext('2d').getImageData((Number(d.left) + (k + 0.1) * Number(d.cellWidth)) * r,
            (Number(d.top) + (q + 0.1) * Number(d.cellHeight)) * r, 1, 1).data.slice(0, 3)].join(', ') + ')')); })()""")
        page.close()
        page = browser.Page(b, folder / "lesson.html", dark=dark)
        figure = "document.querySelectorAll('figure')[3]"
        theme = "dark" if dark else "light"
        cells = page.js(f"[...{figure}.querySelectorAll('.cell')].map(c => getComputedStyle(c).fill)")
        check(f"{theme}: a lesson and the page of heads have one colour for a weight", cells == heads and len(set(cells)) == 6, cells, heads)
        terminal = page.js("[...[...document.querySelectorAll('.printed')].find(p => p.querySelectorAll('span').length > 9).querySelectorAll('span')].slice(0, 9).map(s => getComputedStyle(s).backgroundColor)")
        check(f"{theme}: so has what was printed", terminal == heads, terminal, heads)
        ends = page.js("""(async () => { const { width, height, colors } = await (async (picture) => {
            await picture.decode();
            const c = new OffscreenCanvas(picture.naturalWidth, picture.naturalHeight), x = c.getContext('2d');
            x.drawImage(picture, 0, 0);
            return { width: c.width, height: c.height, colors: x.getImageData(0, 0, c.width, c.height).data };
          })(Object.assign(new Image(), { src: document.querySelectorAll('figure')[1].querySelector('image').getAttribute('href') }));
          return [0, width - 1].map(x => 'rgb(' + [...colors.slice(4 * x, 4 * x + 3)].join(', ') + ')'); })()""")
        check(f"{theme}: and an image", ends == [heads[1], heads[0]], ends, heads)
        check(f"{theme}: numbers stand out from their cells", page.js(f"""(() => {{
          const light = (color) => color.match(/\\d+/g).slice(0, 3).reduce((sum, v) => sum + Number(v), 0) / 3;
          const cells = [...{figure}.querySelectorAll('.cell')], numbers = [...{figure}.querySelectorAll('.on-cell')];
          return numbers.length === 9 && cells.every((cell, i) => Math.abs(light(getComputedStyle(cell).fill) - light(getComputedStyle(numbers[i]).fill)) > 70); }})()"""))
        one[dark] = heads
        inks(page, theme)
        page.close()
    check("large weights are dark on a light page, and light on a dark one", brightness(one[False][0]) < 80 < 200 < brightness(one[True][0]) and
          brightness(one[True][1]) < 40 < 240 < brightness(one[False][1]), one)


def inks(page, theme):
    """C++'s ink on all colours of all maps."""
    pairs = page.js("""[...document.querySelectorAll('figure')].slice(8, 11).flatMap(f => { const cells = [...f.querySelectorAll('.cell')], numbers = [...f.querySelectorAll('.on-cell')];
      const hex = (e) => '#' + getComputedStyle(e).fill.match(/\\d+/g).map(v => Number(v).toString(16).padStart(2, '0')).join('');
      return cells.length === 255 && numbers.length === 255 ? cells.map((c, i) => [hex(c), hex(numbers[i])]) : []; })""")
    check(f"{theme}: numbers on all colours have a contrast of 4.5 or more", len(pairs) == 3 * 255 and all(contrast(*p) >= 4.5 for p in pairs),
          len(pairs), [p for p in pairs if contrast(*p) < 4.5][:3])


def brightness(color):
    return sum(map(int, re.findall(r"\d+", color)[:3])) / 3


def printed(b, path):
    """On paper: white, nothing folded or clipped, every case of a slider, answers."""
    page = browser.Page(b, path, width=700, dark=True)
    page.wait("document.readyState === 'complete'")
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    page.settle()
    ink = page.js("getComputedStyle(document.querySelector('h1')).color")
    check("the ink of a printed lesson is dark", sum(int(v) for v in ink[4:-1].split(",")[:3]) < 300, ink)
    check("code is wrapped, not clipped", page.js("[...document.querySelectorAll('.code')].every(c => c.offsetHeight === 0 || c.scrollWidth <= c.clientWidth + 1)"))
    check("checks stay folded", page.js("[...document.querySelectorAll('details.checks')].every(d => !d.open)"))
    check("figures stay on the paper", page.js("[...document.querySelectorAll('figure svg')].every(s => s.getBoundingClientRect().right <= innerWidth + 1)"))
    check("answers stand at the end", page.js("[...document.querySelectorAll('.answers li')].map(e => e.textContent.replaceAll(/\\s+/g, ' ').trim())") == ["Two. Two, <b>always</b>.", "0.5. A half.", "1, 0, 0, 1. It is.", "q → a. Four."] and
          page.js("document.querySelector('.answers').getBoundingClientRect().top > [...document.querySelectorAll('.question')].at(-1).getBoundingClientRect().top"), texts(page, ".answers li"))
    check("nobody presses a button on paper", page.js("[...document.querySelectorAll('button:not(.choice, .workbench *)')].every(e => !e.checkVisibility())"))
    check("the case that is chosen is printed", page.js("[...document.querySelectorAll('.vary')].every(v => [...v.querySelectorAll('.case')].filter(e => e.getBoundingClientRect().height > 0).length === 1)"))
    page.close()
    page = browser.Page(b, path, dark=True)
    browser.check_paper(page, "heads in a lesson on paper", path.with_suffix(".pdf"))
    page.close()


# The grids of a figure: their axes, what their colour bar is called, the ends of their scale, and their cells.
GRIDS = """[...document.querySelectorAll('figure svg')].map(svg => [...svg.querySelectorAll('desc')].map(desc => {
  const part = desc.parentNode, [, low, high] = desc.textContent.match(/from (\\S+) to (\\S+)/), own = (s) => [...part.querySelectorAll(':scope > ' + s)];
  return { axes: own('text.axis').map(t => t.textContent), bar: own('text').filter(t => t.getAttribute('transform')?.startsWith('rotate(-90') && !t.matches('.axis')).at(-1)?.textContent ?? '',
    low: Number(low), high: Number(high), cells: own('rect.cell').map(c => c.dataset.says) }; }))"""


def unhatched(cells):
    """Whether the cells above the diagonal of a square map are all 0, and not masked: "row → column: value"."""
    rows = list(dict.fromkeys(c.split(" → ")[0] for c in cells))
    n = len(rows)
    if n < 3 or n * n != len(cells):
        return False
    above = [cells[i * n + j].rsplit(": ", 1)[1] for i in range(n) for j in range(i + 1, n)]
    return all(v in ("0", "0.000") for v in above)


def pictures(page, what):
    """One rule for all pictures of a lesson."""
    figures = page.js(GRIDS)
    grids = [grid for figure in figures for grid in figure]
    check(f"{what}: both axes have names", len(grids) > 0 and all(len(grid["axes"]) == 2 for grid in grids), [g["axes"] for g in grids if len(g["axes"]) != 2])
    check(f"{what}: curves have them, too", page.js("""[...document.querySelectorAll('figure svg')].filter(s => s.querySelector('.curve'))
      .every(s => s.querySelectorAll('text.axis').length >= 2)"""))
    check(f"{what}: no scale begins above 0", all(grid["low"] <= 0 for grid in grids), [(g["low"], g["high"]) for g in grids])
    uneven = [[(g["bar"], g["low"], g["high"]) for g in figure] for figure in figures if len({g["bar"] for g in figure}) < len({(g["bar"], g["low"], g["high"]) for g in figure})]
    check(f"{what}: maps of one thing side by side have one scale", not uneven, uneven)
    check(f"{what}: what a causal mask hides is hatched", not any(unhatched(grid["cells"]) for grid in grids), [g["axes"] for g in grids if unhatched(g["cells"])])
    text = page.js("document.querySelector('main').textContent.replace(/<script.*?<\\/script>/gs, '')")
    zeroth = re.findall(r"\b(?:[Hh]ead|[Ll]ayer) 0\b", page.js("[...document.querySelectorAll('.prose, .printed, .claim, figure text, figcaption')].map(e => e.textContent).join('\\n')"))
    check(f"{what}: heads and layers are counted from 1", not zeroth and len(text) > 500, zeroth)
    code = "\n".join(texts(page, ".cell > .code-box .code"))
    check(f"{what}: visible code only computes", not re.search(COMPUTES_NOT, code), [line for line in code.splitlines() if re.search(COMPUTES_NOT, line)])


# Where the first figure ends, and the first thing that a reader can do, in pixels from the top of the page.
FIRST = """(() => { const ends = (s) => Math.min(...[...document.querySelectorAll(s)].map(e => e.getBoundingClientRect()).filter(r => r.height > 0).map(r => r.bottom + scrollY));
  return [ends('main figure svg, main .text-view, main .workbench'), ends('main .question form, main .vary > label, main .product, main .text-view, main .workbench')]; })()"""
SCREENS = {1400: 900, 800: 1000, 390: 844}


def begins(page, what, width):
    """A lesson begins with its figure, and soon asks for something."""
    figure, act = (end / SCREENS[width] for end in page.js(FIRST))
    check(f"{what}: the first figure is in the first screen", figure <= 1.0, figure)
    check(f"{what}: there is something to do within 1.5 screens", act <= 1.5, act)
    if width == 390:
        wide = page.js("[...document.querySelectorAll('main :not(input)')].filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1 && !e.closest('svg, math, .unseen, .code, .workbench, .recording') && getComputedStyle(e).overflowX !== 'visible').map(e => [e.className, e.scrollWidth, e.textContent.slice(0, 40)])")
        check(f"{what}: nothing but code must be scrolled sideways", not wide, wide)


def asks(page, what):
    """Questions have a word on each wrong answer, and none is answered already."""
    asked = page.js("""[...document.querySelectorAll('.question')].map(q => { const words = [...q.querySelectorAll('.word')], right = words.find(w => 'right' in w.dataset);
      return [words.every(w => w.hidden && w.textContent.trim().length > 3), q.querySelectorAll('.choice, input, rect.cell').length, q.querySelector('.said').textContent, right.textContent]; })""")
    check(f"{what}: at least two questions, none answered", len(asked) >= 2 and all(words and ways > 0 and not said for words, ways, said, _ in asked), asked)
    for i, (_, _, _, right) in enumerate(asked):
        page.js(f"(() => {{ const q = document.querySelectorAll('.question')[{i}]; q.querySelector('.give-up').click(); }})()")
        said = page.js(f"[document.querySelectorAll('.question')[{i}].matches('.solved'), document.querySelectorAll('.question')[{i}].querySelector('.said').textContent]")
        check(f"{what}: the answer of question {i + 1} is one that it accepts", said[0] and said[1].endswith(right), said, right)


def sheets(page, what):
    """On paper a lesson takes few pages."""
    page.call("Emulation.clearDeviceMetricsOverride")
    data = base64.b64decode(page.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])
    count = len(re.findall(rb"/Type\s*/Page\b(?!s)", data))
    page.resize(1400, 1000)
    check(f"{what}: at most six printed pages", 1 <= count <= 6, count)


def fits(page, what, width):
    """Figures fit the column of a wide page, and the panels of a comparison the one of a phone."""
    wide = page.js("[...document.querySelectorAll('figure.scrolls')].map(f => [f.clientWidth, f.scrollWidth]).filter(([w, s]) => w && s > w + 1)")
    if width == 1400:
        check(f"{what}: figures fit their column", not wide, wide)
    beside = page.js("""[...document.querySelectorAll('figure svg')].map(s => [s.parentNode.clientWidth, ...[...s.querySelectorAll(':scope > .panel')].map(p => p.getBoundingClientRect())
      .map(r => r.left)]).filter(list => list[0] && list.length > 2).map(([w, ...lefts]) => Math.max(...lefts) - Math.min(...lefts) < w)""")
    check(f"{what}: no panel begins beyond the edge", all(beside), beside)
    bars = page.js("""[...document.querySelectorAll('figure svg :is(image, text)')].filter(e => e.checkVisibility() && !e.parentNode.querySelector('.on-cell'))
      .map(e => [e, e.getBoundingClientRect(), e.ownerSVGElement.getBoundingClientRect()])
      .filter(([, r, s]) => r.left < s.left - 1 || r.right > s.right + 1 || r.bottom > s.bottom + 2).map(([e]) => e.textContent || e.localName)""")
    check(f"{what}: a map without numbers keeps its colour bar", not bars, bars)
    cut = page.js("""[...document.querySelectorAll('.formula')].filter(f => f.firstElementChild?.getBoundingClientRect().left < f.getBoundingClientRect().left - 1)
      .map(f => f.textContent.slice(0, 30))""")
    check(f"{what}: the beginning of a wide formula can be reached", not cut, cut)


def reloads(b, folder):
    """examples/run NAME --watch: the page follows the program."""
    reload_page = pathlib.Path(__file__).resolve().parents[3] / "examples/support/reload_page.sh"
    text = (folder / "lesson.html").read_text()
    watched = folder / "watched.html"
    watched.write_text(text)
    subprocess.run([reload_page, watched], check=True)
    page = browser.Page(b, watched, beside=["watched.html.js"], hurry=10)
    page.js("window.same = true")
    time.sleep(0.5)  # five questions
    check("a page that is watched stays as long as nothing is built", page.js("window.same === true"))
    watched.write_text(text.replace("What it prints", "What it prints now"))
    subprocess.run([reload_page, watched], check=True)
    page.wait("document.querySelector('nav a')?.textContent === 'What it prints now'", 20)
    page.wait("document.documentElement.dataset.ready === 'true'")
    check("and shows what was built then", page.js("window.same === undefined"))
    page.close()


scrolled = set()  # what goes on beyond its width on some page


def looks(page, dark, what):
    check(f"{what}: labels can be read", page.js("""[...document.querySelectorAll('figure text')].every(t =>
          t.getBoundingClientRect().height === 0 || Number(t.getAttribute('font-size')) * t.ownerSVGElement.getBoundingClientRect().width / t.ownerSVGElement.viewBox.baseVal.width >= 9)"""))
    wide = page.js("""[...document.querySelectorAll('main :not(input)')].filter(e => e.clientWidth && e.scrollWidth > e.clientWidth + 1 &&
      !e.closest('svg, math, .unseen') && getComputedStyle(e).overflowX !== 'visible')
      .map(e => [`${e.localName}.${e.className}`, getComputedStyle(e)]).map(([name, { overflowX, backgroundImage }]) =>
        [name, overflowX === 'auto' && backgroundImage.split('radial-gradient').length === 3])""")
    check(f"{what}: what goes on can be scrolled, and has a shadow on both sides", all(shadow for _, shadow in wide), [name for name, shadow in wide if not shadow])
    scrolled.update(name for name, _ in wide)
    page.wait(f"document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'")  # the page hears of it
    check(f"{what}: dark or light", page.js("document.documentElement.dataset.theme") == ("dark" if dark else "light"))
    check(f"{what}: words stand out from the ground", page.js("""(() => {
      const light = (color) => color.match(/\\d+/g).slice(0, 3).reduce((sum, v) => sum + Number(v), 0) / 3;
      const ground = light(getComputedStyle(document.body).backgroundColor);
      const bad = [...document.querySelectorAll('p:not(.unseen), li, h1, h2, .printed, math, figure text:not(.on-cell)')].filter((e) => {
        const style = getComputedStyle(e), ink = e.namespaceURI.endsWith('svg') ? style.fill : style.color;
        return Math.abs(light(ink) - ground) < 80; });
      return bad.length === 0 || bad[0].outerHTML; })()""") is True)


def course(b, folder):
    """The home page names all lessons, and each leads to the next one, back, and home."""
    def links(path):
        """Of a page to others: the file, its text, the text before it, and the page's title."""
        html = path.read_text()
        title = re.search(r"<title>(.*?)</title>", html)[1]
        return [((path.parent / link[1]).resolve(), re.sub(r"<.*?>", "", link[2]), html[:link.start()].rpartition(">")[2].strip(), title)
                for link in re.finditer(r'<a href="([\w./]+\.html)">(.*?)</a>', html)]

    home = folder / "course" / "course.html"
    listed = links(home)
    order = [path for path, *_ in listed]
    page = browser.Page(b, home)
    # A browser tells no script which links are visited: the rule is read.
    check("links that were followed have another colour", page.js("[...document.styleSheets[0].cssRules].some(r => r.selectorText?.includes('a:visited') && r.style.color)"))
    check("a page without sections has no empty contents", not page.js("document.querySelector('nav').checkVisibility()"))
    page.close()
    check("the home page of the course names eight pages, all there", len(order) == 8 and all(path.exists() for path in order), order)
    for i, (path, name, *_) in enumerate(listed):
        found = links(path)
        check(f"{path.stem}: its name at home is its title", found and found[0][3] == name, found[:1], name)
        if i == 0:
            check(f"{path.stem}: leads on", [p for p, *_ in found] == order[1:2], found)
            continue
        ways = {before.rstrip(":").split()[-1]: target for target, _, before, _ in found if before.endswith(":")}
        expected = {"Back": order[i - 1], "Home": home, **({"Next": order[i + 1]} if i + 1 < len(order) else {})}
        check(f"{path.stem}: next, back and home", ways == expected, ways, expected)


LESSONS = ["attention_step_by_step", "attention_mathematics", "six_tokens", "attention_variants", "induction", "jax_notebook", "demonstrate"]


def remembers(b, folder):
    """The home page knows what has been answered."""
    page = browser.Page(b, folder / "six_tokens/six_tokens.html", remembers=True)
    page.js("localStorage.clear()")
    page.js("[...document.querySelectorAll('.choice')].find(c => c.textContent === 'Token 4').click()")
    count = page.js("document.querySelectorAll('.question').length")
    page.close()
    page = browser.Page(b, folder / "course/course.html", remembers=True)
    listed = texts(page, "li")
    check("the home page says how many questions are answered", [f"· 1 of {count} questions answered" in text for text in listed] == [i == 3 for i in range(8)], listed)
    page.js("localStorage.clear()")
    page.close()


def test(b, program, folder, out=None):
    folder = browser.written(program, folder, stdout=subprocess.DEVNULL)
    thrown = subprocess.run([program, folder, "throw"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    check("an exception that nobody catches ends the program", thrown.returncode != 0)
    pages = [folder / "lesson.html"] + [pathlib.Path(out) / name / (name + ".html") for name in LESSONS if out]
    page = browser.Page(b, pages[0])
    page.wait("document.readyState === 'complete'")
    contents(page)
    formulas_stand(page)
    heads(page)
    figures(page)
    keys(page)
    text_view(page)
    questions(page)
    answers(page)
    page.js("document.getElementById('theme').click()")
    check("the button makes it dark", page.js("document.documentElement.dataset.theme") == "dark")
    check("the lesson: no dialog, no error, no request", not page.problems(), page.problems())
    page.close()

    reloads(b, folder)
    colors(b, folder)
    printed(b, folder / "lesson.html")
    page = browser.Page(b, folder / "thrown.html")
    check("what was thrown is told", texts(page, ".error") == ["something <b>went</b> wrong\n"], texts(page, ".error"))
    check("in red", page.js("getComputedStyle(document.querySelector('.error')).color") == RED[False])
    check("after what ran", "from printf" in texts(page, ".printed")[0] and texts(page, ".claim") == ["one is one"])
    check("what did not run says so", page.js("document.querySelectorAll('.unreached').length") == 4)
    check("so does the summary", texts(page, "#summary.bad") == ["1 of 1 claims hold; it ended with an error"])
    check("thrown: no dialog, no error, no request", not page.problems(), page.problems())
    page.close()

    if out:
        course(b, pathlib.Path(out).resolve())
        remembers(b, pathlib.Path(out))
    for path in pages:
        for page, dark, name in browser.looks(lambda **how: browser.Page(b, path, **how), theme=True):
            what = f"{path.stem}, {name}"
            looks(page, dark, what)
            if dark:
                formulas(page, what)
            width = int(name.split("_")[0])
            fits(page, what, width)
            if path != pages[0] and not dark:
                begins(page, what, width)
            if path != pages[0] and name == "1400_dark":
                pictures(page, what)
                sheets(page, what)
                asks(page, what)
            if path.stem == "induction" and name == "1400_dark":
                titles = page.js("[...document.querySelectorAll('figure svg text[font-weight]')].map(t => t.textContent)")
                check("a loss that rises is called so", {"Rise of the loss without the head", "Rise of the loss with the head's mean"} <= set(titles) and "Loss without the head" not in titles, titles)
                found = page.js("[...document.querySelectorAll('.workbench .head')].map(h => [h.dataset.layer, h.querySelector('.role').textContent, h.getAttribute('aria-pressed')])")
                check("the induction pair is marked, and its second head chosen, without a click", ["1", "I", "true"] in found and ["0", "P", "false"] in found, found)
            if path == pages[0]:
                check(f"{what}: a failed claim is red",
                      page.js("getComputedStyle(document.querySelector('.claim.failed')).color") == RED[dark])
            else:
                check(f"{what}: all claims hold, all of it ran", page.js("""document.querySelectorAll('.failed, .error, .unreached').length === 0 &&
                      document.querySelectorAll('.claim').length >= 6 && document.querySelectorAll('figure svg').length >= 2 &&
                      document.querySelectorAll('.cell > .code-box').length >= 5 && document.querySelectorAll('.printed').length >= 1"""))
            browser.look(page, what, folder / f"{path.stem}_{name}.png")
    check("code and figures go on, on some page", {"pre.code scrolls", "figure.scrolls"} <= scrolled, scrolled)


if __name__ == "__main__":
    browser.main(test)
