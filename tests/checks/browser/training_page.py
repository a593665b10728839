"""training_page.py PROGRAM DIR: follows the training that PROGRAM (training_pages.cpp) writes into DIR in a browser."""

import pathlib
import subprocess
import time

import browser
from browser import check

BESIDE = ("training.js", "training_heads.html")


class Training:
    """The program, which does one thing for each line."""

    def __init__(self, program, folder):
        self.process = subprocess.Popen([program, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, *lines):
        for line in lines:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline().strip()
            if answer != ("finished" if line == "end" else "done"):
                raise RuntimeError(f"the program said {answer!r}")


def status(page):
    return page.js("document.getElementById('status').textContent")


def drawn(page, series):
    """How many points the first curve of a chart has."""
    return page.js(f"""(() => {{ const path = document.querySelector('[data-series="{series}"] .curve');
      return path && path.getAttribute('d').split(/[ML]/).length - 1; }})()""")


def follows(page, training):
    training.tell(*["row"] * 2)
    page.wait("shown.step === 3")
    check("three points are drawn", drawn(page, "loss") == 3, drawn(page, "loss"))
    check("it says how far it is", "running" in status(page) and "step 3 of 40" in status(page) and "0.3333" in status(page), status(page))
    check("the bar, too", page.js("document.getElementById('progress').getAttribute('aria-valuenow')") == "8")
    page.js("window.still_here = true")
    for count in (4, 9, 20):
        before = page.js("document.querySelector('[data-series=\"loss\"] .curve').getAttribute('d')")
        training.tell(*["row"] * (count - int(page.js("shown.step"))))
        page.wait(f"shown.step === {count}")
        check(f"new points appear by themselves: {count}", drawn(page, "loss") == count and
              page.js("document.querySelector('[data-series=\"loss\"] .curve').getAttribute('d')") != before, drawn(page, "loss"))
    check("and the page was not loaded again", page.js("window.still_here === true"))
    titles = page.js("[...document.querySelectorAll('.chart h2')].map(h => h.textContent)")
    check("there is a chart of each number, and of the rate",
          titles[:3] == ["Loss", "Learning rate", "Gradient norm"] and "Tokens a second" in titles and "<img src=x onerror=alert(1)>" in titles, titles)
    check("the validation is in the chart of the loss", page.js("document.querySelectorAll('[data-series=\"loss\"] .key').length") == 2)


def hovering(page):
    box = page.js("""(() => { const r = document.querySelector('[data-series="loss"] svg').getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; })()""")
    for step in (1, 10, 20):
        x = page.js(f"charts.get('Loss').x({step})")
        page.move(box[0] + x, box[1] + box[3] / 2)
        lines = page.js("document.getElementById('tip').textContent").split("\n")
        value = float(lines[1].split(": ")[1])
        check(f"step {step} says its loss", lines[0] == f"step {step}" and abs(value - 1 / step) < 1e-3, lines)
    page.move(5, 5)
    check("the tip goes with the pointer", page.js("document.getElementById('tip').hidden"))
    before = page.js("document.querySelector('[data-series=\"loss\"] .curve').getAttribute('d')")
    page.js("document.querySelector('.chart button').click()")
    after = page.js("document.querySelector('[data-series=\"loss\"] .curve').getAttribute('d')")
    check("a logarithmic axis draws it otherwise", before != after and "NaN" not in after)
    page.js("document.querySelector('.chart button').click()")


def steering(page):
    """By keys and by dragging: one step in all charts, a part of the steps, smoothing."""
    loss = "document.querySelector('[data-series=\"loss\"] svg')"
    cursors = "[...document.querySelectorAll('.cursor')].map(c => [c.getAttribute('visibility'), Math.round(Number(c.getAttribute('x1')))])"
    page.js(loss + ".focus()")
    for _ in range(3):
        page.key("ArrowRight")
    check("arrow keys go from step to step", page.js("view.at") == 3, page.js("view.at"))
    check("and say the values", page.js("document.getElementById('said').textContent").startswith("step 3, training: 0.3333"),
          page.js("document.getElementById('said').textContent"))
    check("the step is marked in every chart", all(v == "visible" and x > 0 for v, x in page.js(cursors)) and len(page.js(cursors)) >= 4, page.js(cursors))
    page.key("End")
    check("End goes to the last one", page.js("view.at") == 20)
    page.js("document.activeElement.blur()")
    check("and leaving the chart lets go of it", page.js("view.at") is None)
    box = page.js(f"(() => {{ const r = {loss}.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()")
    from_x, to_x = (box[0] + page.js(f"charts.get('Loss').x({step})") for step in (5, 10))
    y = box[1] + box[3] / 2
    page.mouse("mouseMoved", from_x, y)
    page.mouse("mousePressed", from_x, y, button="left", clickCount=1)
    page.mouse("mouseMoved", to_x, y, button="left", buttons=1)
    page.mouse("mouseReleased", to_x, y, button="left", clickCount=1)
    page.settle()
    shown = page.js("[...charts.values()].map(c => [c.first, c.last])")
    check("dragging enlarges these steps in all charts", all(abs(a - 5) < 0.3 and abs(z - 10) < 0.3 for a, z in shown), shown)
    page.js("document.getElementById('all').click()")
    check("a button shows all again", page.js("[...charts.values()].every(c => c.first === 0) && document.getElementById('all').hidden"))
    curve = "document.querySelector('[data-series=\"loss\"] .curve.smooth')?.getAttribute('d') ?? null"
    check("nothing is smoothed without being asked for", page.js(curve) is None)
    page.js("(() => { const s = document.getElementById('smoothing'); s.value = 20; s.dispatchEvent(new Event('input')); })()")
    smooth = page.js(curve)
    check("smoothing draws a second curve, and keeps the first", smooth is not None and page.js("document.querySelectorAll('[data-series=\"loss\"] .curve').length") >= 2)
    page.js("(() => { const s = document.getElementById('smoothing'); s.value = 0; s.dispatchEvent(new Event('input')); })()")
    check("the speed is that of ten samples, not of the last", page.js("speed({ y: [10, 10, 10, 10, 10, 10, 10, 10, 10, 1000] })") == 10 and
          page.js("speed({ y: [...Array(20).fill(99), ...Array(10).fill(7)] })") == 7)


def distributions(page, what):
    shown = page.js("[...document.querySelectorAll('#histograms .chart')].map(c => c.hidden ? 0 : c.querySelectorAll('.share').length)")
    check(f"{what}: weights and gradients have histograms", len(shown) == 2 and min(shown) >= 6, shown)
    first = "document.querySelector('[data-histogram=weights] svg').innerHTML"
    before = page.js(first)
    choose = "(i => { const m = document.getElementById('parameter'); m.selectedIndex = i; m.dispatchEvent(new Event('change')); })"
    page.js(choose + "(2)")
    check(f"{what}: of every parameter", page.js("document.getElementById('parameter').options.length > 5") and page.js(first) != before)
    page.js("document.querySelector('[data-histogram=gradients] svg').focus()")
    page.key("ArrowLeft")
    words = page.js("document.getElementById('said').textContent")
    share = page.js("(() => { const h = histograms[1], { column, k } = h.at; return 100 * h.columns.counts[column][k] / h.columns.counts[column].reduce((a, b) => a + b); })()")
    said = float(words.split(": ")[1].split(" ")[0])
    check(f"{what}: arrow keys say a share", words.startswith("step ") and " % from 1e" in words and abs(said - share) <= max(0.5, share / 20), words, share)
    page.js("document.activeElement.blur()")
    page.js(choose + "(0)")


def printed(b, path, width):
    """The handlers of a print see the page of the screen. Paper then shows what they have drawn."""
    page = browser.Page(b, path, width=width, dark=True, beside=BESIDE)
    page.wait("document.querySelector('#heads iframe').contentDocument?.documentElement?.dataset.ready === 'true'")
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.settle()
    what = f"printed from {width} px"
    cut = page.js("""(paper => [...document.querySelectorAll('.chart svg')].flatMap(s => { const box = s.getBoundingClientRect();
      return [...s.querySelectorAll('text, .share, .grid')].map(e => e.getBoundingClientRect())
        .filter(e => e.left < box.left - 1 || e.right > box.right + 1 || e.top < box.top - 1 || e.bottom > box.bottom + 1 || e.right > paper.right).map(e => [e.left, e.right, box.left, box.right]); }))(document.body.getBoundingClientRect())""")
    check(f"{what}: it fits on the paper", page.js("document.body.getBoundingClientRect().width") <= 703)  # A4 without its margins
    check(f"{what}: no axis is cut", not cut and page.js("document.querySelectorAll('.chart svg text').length") > 20, cut[:3])
    empty = page.js("""[...document.querySelectorAll('.chart svg')].map(s => s.getBoundingClientRect().right -
      Math.max(...[...s.querySelectorAll('.grid, .share')].map(e => e.getBoundingClientRect().right))).filter(v => !(v < 14))""")
    check(f"{what}: the axes are as wide as the paper's columns", not empty, empty)
    heads = page.js("[document.getElementById('heads').getBoundingClientRect().height, document.querySelector('#heads iframe').contentDocument.documentElement.getBoundingClientRect().height]")
    check(f"{what}: the heads are whole on one sheet of Letter", 400 < heads[1] <= heads[0] <= 965, heads)
    check(f"{what}: nobody presses a button there", page.js("[...document.querySelectorAll('button')].every(e => !e.checkVisibility())"))
    ink = page.js("getComputedStyle(document.querySelector('.chart text')).fill")
    check(f"{what}: the ink is dark", sum(int(v) for v in ink[4:-1].split(",")[:3]) < 300, ink)
    page.close()


def alone(b, folder):
    """A finished page has its heads also where no file lies beside it, and prints them."""
    (folder / "alone").mkdir(exist_ok=True)
    copy = folder / "alone/training.html"
    copy.write_bytes((folder / "training.html").read_bytes())
    page = browser.Page(b, copy)
    inside = "document.querySelector('#heads iframe').contentDocument"
    page.wait(f"{inside}?.documentElement?.dataset.ready === 'true'")
    check("a copied page has its heads", page.js(f"{inside}.querySelectorAll('.head').length") > 0 and not page.js("document.getElementById('heads').hidden"))
    check("and asks for no file", not page.problems(), page.problems())
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    frame, high = page.js(f"[document.querySelector('#heads iframe').clientHeight, {inside}.body.scrollHeight]")
    check("on paper the frame is as high as its heads, at once", frame >= high > 300, frame, high)
    page.js("window.dispatchEvent(new Event('afterprint'))")
    check("and again after it", page.js(f"document.querySelector('#heads iframe').clientHeight >= {inside}.body.scrollHeight"))
    page.close()


def endings(page):
    """What the page says of a training that was stopped, and of one that says nothing any more."""
    page.js("showStatus({ ...shown, state: 'stopped', step: 12 })")
    check("a stopped training says where", status(page).startswith("stopped at step 12 of 40 ·"), status(page))
    page.js("showStatus({ ...shown, state: 'running', seconds: 1000, written: Date.now() / 1000 - 65 })")
    check("silence is counted from the last write", "no news for 1:05" in status(page), status(page))
    page.js("showStatus({ ...shown, state: 'running', seconds: 1000, written: Date.now() / 1000 - 5 })")
    check("and not at once", "no news" not in status(page), status(page))
    page.js("showStatus(shown)")


def heads(page, training):
    check("no heads yet", page.js("document.getElementById('heads').hidden"))
    training.tell("heads", "row")
    page.wait("!document.getElementById('heads').hidden")
    check("heads appear, too", page.js("document.querySelector('iframe').src").endswith("training_heads.html?1"))
    training.tell("heads", "row")
    page.wait("document.querySelector('iframe').src.endsWith('?2')")
    check("and the newer ones", True)


def heads_shown(page, what):
    """The frame says how high its page of heads is, once that is drawn. A browser draws what is in the window."""
    page.js("document.getElementById('heads').scrollIntoView({ behavior: 'instant' })")
    page.wait("document.querySelector('#heads iframe').style.height !== ''", 10)
    height = page.js("document.querySelector('#heads iframe').clientHeight")
    check(f"{what}: heads are shown", height > 400, height)
    page.js("scrollTo(0, 0)")
    page.settle()


def test(b, program, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    training = Training(program, folder)
    training.tell("row")
    page = browser.Page(b, folder / "training.html", beside=BESIDE, hurry=20)
    check("a page that is opened has the first point", page.js("shown.step") == 1)
    follows(page, training)
    hovering(page)
    steering(page)
    heads(page, training)
    training.tell("end")
    page.wait("shown.state === 'done'")
    check("it says that it is done", status(page).startswith("done") and "left" not in status(page), status(page))
    endings(page)
    page.screenshot(folder / "training_followed.png")
    check("followed: no dialog, no error, no request but for the files beside it", not page.problems(), page.problems())
    page.close()

    page = browser.Page(b, folder / "training.html", beside=("training_heads.html",), hurry=20)
    time.sleep(0.3)  # a page that still asked would have, several times
    check("the page of a training that is done needs no numbers beside it", not page.problems() and drawn(page, "loss") == 22,
          page.problems(), drawn(page, "loss"))
    page.close()
    alone(b, folder)
    check("the Trainer's page was written", training.process.wait(60) == 0)
    for width in (390, 800, 1400):
        printed(b, folder / "trained" / "training.html", width)
    for page_name in ("training", "trained/training"):
        for page, dark, name in browser.looks(lambda **how: browser.Page(b, folder / (page_name + ".html"), beside=BESIDE, **how)):
            what = f"{page_name}, {name}"
            check(f"{what}: its theme", page.js("document.documentElement.dataset.theme") == ("dark" if dark else "light"))
            if page_name != "training":
                titles = page.js("[...document.querySelectorAll('.chart h2')].map(h => h.textContent)")
                check(f"{what}: what a Trainer knows", titles[:3] == ["Loss", "Learning rate", "Gradient norm"] and drawn(page, "loss") == 12 and
                      page.js("Object.keys(shown.histograms).length > 5") and page.js("shown.series.validation.x.length === 3 && shown.series.grad_norm.x.length === 12 && shown.heads > 0"), titles)
                distributions(page, what)
                heads_shown(page, what)
            browser.look(page, what, folder / f"{page_name.replace('/', '_')}_{name}.png")


if __name__ == "__main__":
    browser.main(test)
