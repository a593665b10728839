"""five_minutes_page.py PROGRAM DIR: the page "Attention in five minutes" that PROGRAM, the example `demonstrate`, writes
into DIR, as visitors meet it: on three widths, in two themes, by pointer, by keyboard, on paper."""

import json
import math
import pathlib
import re
import subprocess

import browser
from browser import check

D, HEADS, C = 8, 4, 32

# Texts whose ink has less than 4.5 : 1 on its ground: [text, ratio].
PALE = """(() => {
  const luminance = ([r, g, b]) => [r, g, b].map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const numbers = color => color.match(/[\\d.]+/g).map(Number), found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, style = getComputedStyle(e);
    if (!walker.currentNode.data.trim() || e.closest('script, style, noscript, option, .unseen, button:disabled') || !e.checkVisibility({ visibilityProperty: true })) continue;
    let ground = e;
    while (ground && (numbers(getComputedStyle(ground).backgroundColor)[3] ?? 1) === 0) ground = ground.parentElement;
    const ink = luminance(numbers(style.color)), below = luminance(numbers(getComputedStyle(ground ?? document.body).backgroundColor));
    const ratio = (Math.max(ink, below) + 0.05) / (Math.min(ink, below) + 0.05);
    if (ratio < 4.5) found.push([walker.currentNode.data.trim().slice(0, 30), ratio.toFixed(2)]);
  }
  return found;
})()"""

# The milliseconds of each move of the pointer over a word, with its layout.
MOVES = """(() => {
  const words = [...document.querySelectorAll('#words [data-at]')], times = [];
  for (let round = 0; round < 3; ++round) for (const word of words) {
    const start = performance.now();
    word.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, pointerType: 'mouse' }));
    document.body.getBoundingClientRect();
    times.push(performance.now() - start);
  }
  return times;
})()"""


def numbers(page, selector):
    return page.js(f"[...document.querySelectorAll('{selector}')].map(e => Number(e.dataset.value))")


def far(a, b):
    return max(abs(x - y) for x, y in zip(a, b)) if len(a) == len(b) and a else math.inf


def softmax(values):
    powers = [math.exp(v - max(values)) for v in values]
    return [p / sum(powers) for p in powers]


def words_of(page):
    return page.js("[...document.querySelectorAll('#words [data-at] b')].map(e => e.textContent)")


def choose(page, head, query, key):
    page.js(f"document.querySelectorAll('#heads button')[{head}].click()")
    page.js(f"document.querySelectorAll('#words [data-at]')[{query}].dispatchEvent(new PointerEvent('pointermove', {{ bubbles: true, pointerType: 'mouse' }}))")
    page.js(f"document.querySelectorAll('#softmax button.row')[{key}].click()")


def shown_numbers(page, truth):
    """Every number that the strips show, for pairs of all heads, is C++'s to 1e-5."""
    last, T, worst, count = truth["last"], len(truth["ids"]), 0, 0

    def vector(part, t, head):
        at = t * 3 * C + part * C + head * D
        return last["joint"][at:at + D]

    for head in range(HEADS):
        for query, key in ((T - 1, 1), (2, 2), (5, 0)):
            choose(page, head, query, key)
            q, k = vector(0, query, head), vector(1, key, head)
            weights = last["weights"][(head * T + query) * T:][:query + 1]
            at = query * C + head * D
            ids = sorted(range(query + 1), key=lambda t: -weights[t])[:3]
            if key not in ids:
                ids[-1] = key
            sums = [[v * weights[t] for v in vector(2, t, head)] for t in sorted(ids)]
            logits = last["logits"][query * 49:][:49]
            chances = sorted(softmax(logits), reverse=True)[:5]
            for what, got, expected in (
                    ("query and key", numbers(page, "#vectors .cell"), q + k),
                    ("products", numbers(page, "#product .cell"), [a * b for a, b in zip(q, k)]),
                    ("score", numbers(page, "#product .sum b"), [sum(a * b for a, b in zip(q, k))]),
                    ("scaled scores", numbers(page, "#scale .row[data-value]"),
                     [sum(a * b for a, b in zip(q, vector(1, t, head))) / math.sqrt(D) for t in range(query + 1)]),
                    ("weights", numbers(page, "#softmax .row[data-value]"), weights),
                    ("weighted values", numbers(page, "#values .value .cell"), sum(sums, [])),
                    ("their sum", numbers(page, "#values .total .cell"), last["z"][at:at + D]),
                    ("the guesses", numbers(page, "#prediction button"), chances),
                    ("the residual", numbers(page, "#stream .cell"), sum((s[query * C:][:C] for s in last["streams"]), []))):
                distance = far(got, expected)
                worst, count = max(worst, distance), count + len(got)
                if distance > 1e-5:
                    check(f"head {head + 1}, {query} to {key}: {what} are C++'s to 1e-5", False, distance, got, expected)
    check(f"{count} numbers of the strips are C++'s to 1e-5", worst <= 1e-5, worst)
    print(f"       they differ by {worst:.1e}")


def snapshots(page, data):
    """At each step of the slider the guess is C++'s."""
    worst = 0
    choose(page, 0, len(data["truth"]["ids"]) - 1, 1)
    for i, logits in enumerate(data["truth"]["logits"]):
        before = int(page.js("document.documentElement.dataset.computed"))
        page.js(f"(() => {{ const s = document.getElementById('snapshot'); s.value = {i}; s.dispatchEvent(new Event('input')); }})()")
        page.wait(f"Number(document.documentElement.dataset.computed) > {before}")
        expected = sorted(softmax(logits[-49:]), reverse=True)[:5]
        worst = max(worst, far(numbers(page, "#prediction button"), expected))
        check(f"step {data['snapshots'][i]['step']}: the label", page.js("document.getElementById('snapshot-label').textContent") == f"Step {data['snapshots'][i]['step']}")
    check("ten steps of the training, each with C++'s guess to 1e-5", len(data["snapshots"]) == 10 and worst <= 1e-5, worst)
    check("the small sentence beside the slider follows", page.js("document.querySelector('#training .guess').textContent").startswith("→ she"))


def sentence(page):
    check("the first sentence asks something", words_of(page) == "the girl who sees the dogs is happy because".split(), words_of(page))
    check("the answer is right", page.js("document.querySelector('.guess b').textContent") == "she")
    says = page.js("document.getElementById('says').textContent")
    check("the word that matters is found at once", "“because” gives" in says and "“girl”" in says, says)
    check("arcs lead to words", page.js("document.querySelectorAll('#arcs path').length") >= 1)
    word = page.js("(() => { const b = document.getElementById('word-5').getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()")
    page.move(*word)
    check("pointing at a word opens it", "“dogs” gives" in page.js("document.getElementById('says').textContent"))
    check("words that come later are masked", page.js("[...document.querySelectorAll('#words .later small')].map(e => e.textContent)") == ["later"] * 3)
    check("and have no weight in the strips", page.js("document.querySelectorAll('#scale .later').length") == 3)
    page.click(*word)
    page.js("document.getElementById('word-1').dispatchEvent(new PointerEvent('pointermove', { bubbles: true, pointerType: 'mouse' }))")
    check("a click holds it", "“dogs” gives" in page.js("document.getElementById('says').textContent"))
    page.click(*word)
    page.js("document.getElementById('word-1').dispatchEvent(new PointerEvent('pointermove', { bubbles: true, pointerType: 'mouse' }))")
    check("another lets go", "“girl” gives" in page.js("document.getElementById('says').textContent"))


def own_text(page):
    def type_text(text):
        page.js(f"(() => {{ const t = document.getElementById('text'); t.value = {json.dumps(text)}; t.dispatchEvent(new Event('input')); }})()")
        page.settle()

    for text, answer in (("the old kings who follow the cat", "are"), ("the boy who sees the dogs is sad because", "he"),
                         ("the boy who sees the dogs is sad because he likes", "them"), ("the birds help the woman because they know", "her")):
        type_text(text)
        check(f"“{text}” goes on with “{answer}”", page.js("document.querySelector('.guess b').textContent") == answer)
    type_text("the zebra")
    check("an unknown word is named", "“zebra”" in page.js("document.getElementById('problem').textContent"))
    below = page.js("document.getElementById('problem').getBoundingClientRect().top - document.getElementById('text').getBoundingClientRect().bottom")
    check("below the field", 0 <= below < 30, below)
    check("and nothing old stands there", page.js("['#stage', '#strips', '.mini'].every(s => getComputedStyle(document.querySelector(s)).visibility === 'hidden')"))
    type_text("the " * 20)
    check("of a long text the end is read", len(words_of(page)) == 16)
    type_text("the Dogs")
    page.js("[...document.querySelectorAll('#known button')].find(b => b.textContent === 'who').click()")
    page.settle()
    check("a click appends a word", words_of(page) == ["the", "dogs", "who"])
    page.js("document.querySelector('#prediction .bars button').click()")
    page.settle()
    check("also on a guess", len(words_of(page)) == 4 and page.js("document.getElementById('text').value") == " ".join(words_of(page)))


def guide(page):
    """Twelve cards, in reach and short, light up what they speak of."""
    seen = []
    for i in range(12):
        if i:
            page.js("document.getElementById('card-next').click()")
            page.settle()
        seen.append(page.js("""(() => { const lit = document.querySelectorAll('.lit'), box = lit[0].getBoundingClientRect(), card = document.getElementById('card').getBoundingClientRect();
          return [document.getElementById('card-text').textContent, lit.length, lit[0].id, box.bottom > 0 && box.top < card.top, card.bottom <= innerHeight && card.top > 0]; })()"""))
    check("each card has at most thirty words", all(len(text.split()) <= 30 for text, *_ in seen), [len(t.split()) for t, *_ in seen])
    check("each lights up one thing", all(count == 1 for _, count, *_ in seen) and len({name for *_, name, _, _ in seen}) >= 10, [s[2] for s in seen])
    check("which is in view", all(visible and card for *_, visible, card in seen), [s[2:] for s in seen])
    check("no name is missing", not any("{" in text or "undefined" in text for text, *_ in seen), seen)
    check("the last one is the end", page.js("document.getElementById('card-next').disabled"))
    check("the card on the mask shows masked words", "mask" in seen[5][0].lower())
    page.js("document.getElementById('guide-close').click()")
    check("the guide can be closed, and nothing is lit", page.js("document.getElementById('card').hidden && !document.querySelector('.lit')"))
    page.js("document.getElementById('guide-open').click()")
    check("and opened again", page.js("!document.getElementById('card').hidden"))


def keyboard(page):
    page.js("document.getElementById('words').focus()")
    for key, expected in (("End", "“because” gives"), ("ArrowLeft", "“happy” gives"), ("Home", "“the” gives"), ("ArrowRight", "“girl” gives")):
        page.key(key)
        check(f"{key} chooses a word", page.js("document.getElementById('says').textContent").startswith(expected))
    page.key("End")
    key_before = page.js("document.querySelector('.answers').id")
    page.key("ArrowDown")
    check("down chooses the word that is looked at", page.js("document.querySelector('.answers').id") != key_before)
    page.key("Enter")
    check("Enter holds", page.js("document.getElementById('sentence').classList.contains('held')"))
    page.key("Escape")
    check("Escape lets go", not page.js("document.getElementById('sentence').classList.contains('held')"))
    page.js("document.querySelector('#heads [aria-checked=true]').focus()")
    chosen = page.js("document.querySelector('#heads [aria-checked=true]').dataset.head")
    page.key("ArrowRight")
    check("arrow keys choose a head", page.js("document.activeElement.getAttribute('aria-checked') === 'true' && document.activeElement.dataset.head") == str((int(chosen) + 1) % HEADS))
    for key, number in (("n", "2 of 12"), ("n", "3 of 12"), ("p", "2 of 12")):
        page.key(key)
        check(f"{key} turns the cards", page.js("document.getElementById('card-number').textContent") == number)
    check("controls have names for screen readers", page.js("""[...document.querySelectorAll('button, select, input, [role=listbox], [role=radiogroup]')]
          .every(e => e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.textContent.trim() || e.labels?.length)"""))
    check("one main, one h1, headings in order", page.js("""document.querySelectorAll('main').length === 1 && document.querySelectorAll('h1').length === 1 &&
          [...document.querySelectorAll('h1, h2, h3')].every((h, i, all) => i === 0 || Number(h.tagName[1]) <= Number(all[i - 1].tagName[1]) + 1)"""))


def quoted(page, source):
    """Each strip quotes its C++, word for word, and hides it until it is wanted."""
    code = page.js("[...document.querySelectorAll('.strip')].map(s => [s.id, s.querySelector('details.code')?.open, s.querySelector('code')?.textContent])")
    check("seven strips have their C++, folded", len(code) == 7 and all(opened is False and lines for _, opened, lines in code), code)
    text = source.read_text()
    check("it is quoted from a program", all("  // strip: " + name + "\n" + "".join("  " + line + "\n" for line in lines.splitlines()) + "  // end\n" in text for name, _, lines in code), code)


def first_screen(open_page):
    page = open_page(width=390, height=844)
    box = page.js("(() => { const b = document.getElementById('stage').getBoundingClientRect(), c = document.getElementById('card').getBoundingClientRect(); return [b.top, b.bottom, c.top]; })()")
    check("on a phone the sentence stands in the first screen, above the card", 0 < box[0] and box[1] <= min(844, box[2]), box)
    page.close()


def times(b, open_page):
    ready, moves, work, paces = [], [], [], []
    for _ in range(5):
        page = open_page(width=1400)
        ready.append(page.js("performance.getEntriesByName('ready')[0].startTime"))
        page.wait("document.documentElement.dataset.checked === 'true'")
        before = b.processor_time()
        spent = page.js(MOVES)
        # Beside other programs a page waits for a processor: then the processor time counts.
        work.append((b.processor_time() - before) / len(spent))
        moves.append(sorted(spent))
        paces.append(page.million())
        page.close()
    move, pace = min(min(m[-1] for m in moves), min(work)), min(paces)
    print(f"       ready in {min(ready):.0f} ms; a move of the pointer takes at most {move:.1f} ms; a loop of a million steps {pace:.2f} ms")
    # Where such a step takes a nanosecond, 300 and 30 ms.
    check("the page is ready soon", min(ready) < 300 * pace, ready, paces)
    check("the page follows the pointer", move < 30 * pace, [m[-3:] for m in moves], work, paces)


def paper(open_page, folder):
    page = open_page(width=1400, dark=True)
    color = page.js("(() => { window.addEventListener('beforeprint', () => window.printed = [getComputedStyle(document.querySelector('.answers')).backgroundColor, getComputedStyle(document.querySelector('#arcs .chosen')).stroke]); })()")
    sheets = page.paper(folder / "five_minutes.pdf")
    if sheets is None:
        return
    word, arc = ([(x, y) for x, y in sheets[0].find(map(int, re.findall(r"\d+", color)[:3])) if y < sheets[0].height / 3] for color in page.js("window.printed"))
    check("on paper: the coloured word has its colour, and its arc", min(len(word), len(arc)) > 100, len(word), len(arc))
    middle, top = sum(x for x, _ in word) / max(1, len(word)), min((y for _, y in word), default=0)
    check("on paper: the arc ends on the word", any(abs(x - middle) < 12 and top - 14 < y < top + 4 for x, y in arc), middle, top, arc[:3])
    white = sum(sheets[0].at(x, 3) == (255, 255, 255) for x in range(sheets[0].width))
    check("on paper: the ground is white", white == sheets[0].width, white)
    check("on paper: at most six sheets", len(sheets) <= 6, len(sheets))
    text = subprocess.run(["pdftotext", "-layout", folder / "five_minutes.pdf", "-"], capture_output=True, text=True, check=True).stdout
    check("on paper: all cards and no code", "1. This small model" in text and "12. Now write" in text and "const Tensor" not in text, text[-1500:])
    page.close()


def test(b, program, folder):
    folder = pathlib.Path(folder)
    subprocess.run([program, "--quick", "--out", folder], check=True, stdout=subprocess.DEVNULL)
    path = folder / "demonstrate" / "five_minutes.html"
    check("the page has less than 1 MB", path.stat().st_size < 1e6, path.stat().st_size)

    def open_page(calm=True, **how):
        page = browser.Page(b, path, **how)
        if calm:
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"},
                                                             {"name": "prefers-color-scheme", "value": "dark" if how.get("dark") else "light"}])
        return page

    page = open_page(width=1400)
    page.wait("document.documentElement.dataset.checked === 'true'")
    data = page.js("JSON.parse(document.getElementById('data').textContent)")
    badge = page.js("[document.getElementById('badge').className, document.getElementById('badge').textContent]")
    check("the badge says that thousands of numbers agree", badge[0] == "good" and re.match(r"\d?\d,\d{3} numbers agree with C\+\+ to \d", badge[1]), badge)
    sentence(page)
    shown_numbers(page, data["truth"])
    snapshots(page, data)
    quoted(page, pathlib.Path(__file__).parents[3] / "examples/demonstrate/five_minutes.cpp")
    keyboard(page)
    own_text(page)
    check("no error, no request", not page.problems(), page.problems())
    page.close()
    for width in (390, 1400):
        page = open_page(width=width, height=844)
        guide(page)
        check("nothing moves by itself if the reader asks for it", page.js("getComputedStyle(document.querySelector('.cell i')).transitionDuration") == "0s")
        page.close()
    text = path.read_text()
    (folder / "wrong.html").write_text(re.sub(r'"z":\[-?[\d.]+', lambda m: m[0][:5] + "9", text, count=1))
    page = browser.Page(b, folder / "wrong.html")
    page.wait("document.documentElement.dataset.checked === 'true'")
    check("another number than C++'s is told", page.js("document.getElementById('badge').className") == "bad", page.js("document.getElementById('badge').textContent"))
    page.close()
    first_screen(open_page)
    times(b, open_page)
    paper(open_page, folder)
    for page, dark, name in browser.looks(open_page):
        pale = page.js(PALE)
        check(f"{name}: all text at 4.5 : 1", not pale, pale)
        for act in ("document.querySelector('details.code').open = true", "document.querySelectorAll('#words [data-at]')[2].click()"):
            page.js(act)
        check(f"{name}: also of masked words and code", not page.js(PALE), page.js(PALE))
        browser.look(page, name, folder / f"five_minutes_{name}.png")


if __name__ == "__main__":
    browser.main(test)
