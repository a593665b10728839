"""recorded_page.py PROGRAM DIR: opens the pages that PROGRAM (recorded_pages.cpp) writes into DIR in a browser, and uses
them as a reader would."""

import json
import re
import shutil
import subprocess
import time
import xml.etree.ElementTree
import zlib

import browser
from browser import check

STEPS = [0, 10, 100, 900]


def weight(h, q, k, step, sees):
    """The formula of recorded_pages.cpp, and the largest weight of the query."""
    values = [1 + (h + 2) * (q + 3) * (j + 1) * (step + 1) % 7 if sees(j) else 0 for j in range(9)]
    return values[k] / sum(values), max(values) / sum(values)


def cell(page, q, k):
    """Where a weight is drawn, in the window."""
    return page.js(f"""(() => {{
      const d = document.querySelector('.workbench .stage').dataset, box = document.querySelector('.workbench .marks').getBoundingClientRect();
      return [box.left + Number(d.left) + ({k} + 0.5) * Number(d.cellWidth), box.top + Number(d.top) + ({q} + 0.5) * Number(d.cellHeight)];
    }})()""")


def tip(page):
    return page.js("document.querySelector('.workbench .tip').hidden ? null : document.querySelector('.workbench .tip').textContent")


def picture(page):
    return page.js("document.querySelector('.workbench .picture').toDataURL()")


def choose(page, layer, head):
    page.js(f"document.querySelector('.head[data-layer=\"{layer}\"][data-head=\"{head}\"]').click()")
    page.settle()


def download(page, button, folder, kind):
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*"):
        old.unlink()
    page.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder.resolve()))
    page.js(f"document.querySelector('.workbench .{button}').click()")
    end = time.monotonic() + 30
    while time.monotonic() < end:
        files = [f for f in folder.glob("*." + kind) if f.stat().st_size]
        if files:
            return files[0]
        time.sleep(0.05)
    raise RuntimeError(f"nothing was saved as {kind}: {page.problems()}")


def is_svg(path):
    if shutil.which("xmllint") and subprocess.run(["xmllint", "--noout", path]).returncode:
        return False
    return xml.etree.ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def is_png(path):
    data, at, pixels, size = path.read_bytes(), 8, b"", None
    if data[:8] != b"\x89PNG\r\n\x1a\n":
        return False
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "big")
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        if zlib.crc32(kind + body) != int.from_bytes(data[at + 8 + length:at + 12 + length], "big"):
            return False
        if kind == b"IHDR":
            size = int.from_bytes(body[:4], "big"), int.from_bytes(body[4:8], "big")
        if kind == b"IDAT":
            pixels += body
        at += 12 + length
    return len(zlib.decompress(pixels)) > size[0] * size[1]


def hovering(page):
    choose(page, 0, 2)
    for q, k in [(0, 0), (4, 6), (8, 3)]:
        page.move(*cell(page, q, k))
        exact, largest = weight(2, q, k, STEPS[-1], lambda j: j < 7)
        said = tip(page)
        shown = float(said.rsplit(": ", 1)[1])
        check(f"hovering at query {q}, key {k} shows its weight", abs(shown - exact) <= largest / 510 + 0.0005, said, exact)
    page.move(*cell(page, 4, 8))
    check("a padded key is said to be padding", tip(page).endswith(": padding"), tip(page))
    check("the query's list begins with its largest weight",
          float(page.js("document.querySelector('.query-list li span').textContent")) > 0.1)
    choose(page, 1, 0)
    page.move(*cell(page, 0, 3))
    check("what comes later is said to do so", tip(page).endswith(": comes later"), tip(page))
    choose(page, 2, 1)
    page.move(*cell(page, 3, 5))
    exact, largest = weight(1, 3, 5, STEPS[-1], lambda j: j < 7)
    check("cross-attention has two lists of tokens", tip(page).startswith("“saß” → “the”"), tip(page))
    check("and its weights", abs(float(tip(page).rsplit(": ", 1)[1]) - exact) <= largest / 510 + 0.0005, tip(page))
    page.move(5, 5)
    check("the tip goes with the pointer", tip(page) is None)


def slider(page):
    choose(page, 0, 2)
    pictures, values = [], []
    for frame in range(4):
        page.js(f"""(() => {{ const s = document.querySelector('.workbench .frame'); s.value = {frame};
                    s.dispatchEvent(new Event('input')); }})()""")
        page.wait(f"document.querySelector('.workbench .frame-label').textContent.includes('{frame + 1} of 4')")
        page.settle()
        pictures.append(picture(page))
        page.move(*cell(page, 4, 6))
        values.append(float(tip(page).rsplit(": ", 1)[1]))
        page.move(5, 5)
    check("the slider changes the picture", len(set(pictures)) == 4)
    for step, value in zip(STEPS, values):
        exact, largest = weight(2, 4, 6, step, lambda j: j < 7)
        check(f"step {step} shows its own weights", abs(value - exact) <= largest / 510 + 0.0005, value, exact)


def inside(page, expression):
    """The value of an expression among the names of the page's script."""
    script = page.js("document.querySelector('script[type=module]').textContent")
    return page.js(f"(() => {{ {script}\nreturn {expression}; }})()")


def contrast(a, b):
    """Of two colours "#rrggbb", as WCAG 2.1 defines it."""
    def luminance(color):
        parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
        return sum(f * (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4) for f, v in zip((0.2126, 0.7152, 0.0722), parts))
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def inks(page):
    """The script's ink is the one that stands out more, on all colours of weights and differences, light and dark."""
    pairs = inside(page, "[...new Set([...LIGHT_WEIGHTS, ...DARK_WEIGHTS, ...[...DARK_COLORS].flat()])].map(c => [c, inkOn(c)])")
    check("numbers on cells have a contrast of 4.5 or more", len(pairs) > 900 and all(contrast(*pair) >= 4.5 for pair in pairs),
          len(pairs), min(contrast(*pair) for pair in pairs))
    check("of a text of letters, every letter is named at 9 pixels a token", inside(page, "[9, 10, 12].map(p => [stride(p, labelSize(['a', 'W', 'm'], p) * 1.12), labelSize(['a'], p) <= p])") == [[1, True]] * 3)
    check("layers that are counted are counted from 1", inside(page, "[layerNames(['h.0.attn', 'h.1.attn']), layerNames(['a.0.x', 'b.0.x']), layerNames(['h.1.attn', 'h.2.attn'])]") ==
          [["layer 1", "layer 2"], ["a.0.x", "b.0.x"], ["h.1.attn", "h.2.attn"]])
    check("their ink is black or white", {ink for _, ink in pairs} == {"#000000", "#ffffff"})


def keyboard(page):
    selected = "document.querySelector('.head[aria-pressed=\"true\"]').getAttribute('aria-label')"
    choose(page, 0, 0)
    page.js("document.activeElement.blur()")
    page.key("n")
    check("n goes to the next head", page.js(selected) == "encoder.self_attn, head 2", page.js(selected))
    page.key("p")
    page.key("p")
    check("p goes back, around the end", page.js(selected) == "decoder.cross_attn, head 4", page.js(selected))
    page.key("n")
    page.key(",")
    check(", goes a step back", page.js("document.querySelector('.workbench .frame').value") == "2")
    page.key(".")
    check(". goes a step on", page.js("document.querySelector('.workbench .frame').value") == "3")
    page.js("document.querySelector('.workbench .stage').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        page.key(key)
    exact, largest = weight(0, 1, 2, STEPS[-1], lambda j: j < 7)
    said = page.js("document.querySelector('.workbench .status').textContent")
    check("arrow keys go from weight to weight, and say them",
          said.startswith("“tired” → “cat”: ") and abs(float(said.rsplit(": ", 1)[1]) - exact) <= largest / 510 + 0.0005, said)
    page.key("Enter")
    page.move(*cell(page, 5, 5))
    check("what is held stays when the pointer moves", tip(page) == said, tip(page))
    page.key("Escape")
    check("Escape lets go of it", tip(page) is None)
    page.js("document.querySelector('.head[aria-pressed=\"true\"]').focus()")
    page.key("ArrowRight")
    check("arrow keys go from head to head in the list", page.js(selected) == "encoder.self_attn, head 2", page.js(selected))
    page.key("ArrowDown")
    check("and from layer to layer", page.js(selected).startswith("decoder.self_attn, head 2"), page.js(selected))
    before = picture(page)
    page.key("v")
    check("v shows the lines", page.js("document.querySelector('.workbench .stage').dataset.view") == "lines" and picture(page) != before)
    page.key("v")
    page.key("d")
    check("d turns the light off", page.js("document.documentElement.dataset.theme") == "dark" and picture(page) != before)
    page.key("d")
    check("and on again", picture(page) == before)


def sorting(page):
    page.js("(() => { const s = document.querySelector('.workbench .sort'); s.value = 0; s.dispatchEvent(new Event('change')); })()")
    page.settle()
    values = page.js("[...document.querySelectorAll('.head .value')].map(s => parseFloat(s.textContent))")
    check("heads are sorted by their entropy", len(values) == 12 and values == sorted(values, reverse=True), values)
    page.js("document.querySelector('.workbench .direction').click()")
    page.settle()
    values = page.js("[...document.querySelectorAll('.head .value')].map(s => parseFloat(s.textContent))")
    check("and the other way round", values == sorted(values), values)
    page.js("(() => { const s = document.querySelector('.workbench .sort'); s.value = -1; s.dispatchEvent(new Event('change')); })()")
    page.settle()


def lines(page):
    choose(page, 0, 1)
    page.js("document.querySelector('.workbench .as-lines').click()")
    page.settle()
    check("the headings of the lines are not cut", page.js("""(() => { const c = document.querySelector('.workbench .picture'), r = c.width / c.clientWidth;
      const row = c.getContext('2d').getImageData(0, 0, 3 * r, 18 * r).data; return row.every(v => v === 0); })()"""))
    box = page.js("(() => { const b = document.querySelector('.workbench .marks').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
    page.move(box[0] + 30, box[1] + box[3] / 2)
    check("a query's lines can be shown", (tip(page) or "").startswith("query “on”"), tip(page))
    page.move(box[0] + box[2] - 30, box[1] + 34)
    check("and a key's", (tip(page) or "").startswith("key “the”"), tip(page))
    page.move(5, 5)


def exports(page, folder):
    for view in ("as-matrix", "as-lines"):
        page.js(f"document.querySelector('.workbench .{view}').click()")
        page.settle()
        svg = download(page, "save-svg", folder / "saved", "svg")
        check(f"{view}: the SVG is well formed", is_svg(svg))
        text = svg.read_text()
        check(f"{view}: it names the layer and the tokens", "head " in text and "encoder.self_attn" in text and "mat" in text)
        check(f"{view}: it names both axes", ">Query<" in text.replace("← ", "") and ">Key<" in text.replace(" →", ""))
        png = download(page, "save-png", folder / "saved", "png")
        check(f"{view}: the PNG decodes", is_png(png))
    page.js("document.querySelector('.workbench .as-matrix').click()")
    page.settle()


def hostile(open_page, folder):
    page = open_page("hostile")
    choose(page, 0, 0)
    check("hostile names: both heads are drawn", page.js("document.querySelectorAll('.head').length") == 2)
    check("hostile names: the title is text", page.js("document.title") == "</title><script>alert(4)</script>")
    check("hostile names: no element came of them", page.js("document.images.length") == 0 and
          page.js("[...document.scripts].every(s => ['module', 'application/json', 'text/plain'].includes(s.type))"))
    page.move(*cell(page, 0, 0))
    check("hostile names: shown as they are", "“<script>alert(1)</script" in tip(page), tip(page))
    for q in range(16):
        page.move(*cell(page, q, min(q, 2)))
    page.move(*cell(page, 3, 0))
    check("a row of NaN is said to be one", tip(page).endswith(": not finite"), tip(page))
    check("and noted", "not finite" in page.js("document.querySelector('.workbench .notes').textContent"))
    choose(page, 0, 1)
    page.move(*cell(page, 5, 0))
    check("a row that sees nothing is said to be one", tip(page).endswith(": sees nothing"), tip(page))
    for view in ("as-lines", "as-matrix"):
        page.js(f"document.querySelector('.workbench .{view}').click()")
        page.settle()
        check(f"hostile names: {view} as SVG is well formed", is_svg(download(page, "save-svg", folder / "saved", "svg")))
    page.screenshot(folder / "hostile.png")
    check("hostile names: no dialog, no error, no request", not page.problems(), page.problems())
    page.close()


def large(open_page, folder):
    page = open_page("large")
    check("12 x 12 heads are drawn", page.js("document.querySelectorAll('.head').length") == 144)
    opened = page.busy()
    page.move(*cell(page, 100, 50))
    before = page.busy()
    moves = 60
    page.js(f"""(async () => {{
      const marks = document.querySelector('.workbench .marks'), box = marks.getBoundingClientRect();
      for (let i = 0; i < {moves}; ++i) {{
        const at = {{ clientX: box.left + 150 + i * 5, clientY: box.top + 160 + i * 4, bubbles: true }};
        await new Promise(requestAnimationFrame);
        marks.dispatchEvent(new PointerEvent('pointermove', at));
      }}
    }})()""")
    move = (page.busy() - before) / moves
    pace = page.million()
    print(f"       256 tokens: {opened:.0f} ms of work to open, {move:.1f} ms for a move of the pointer; a loop of a million steps {pace:.2f} ms")
    # Where such a step takes a nanosecond, 2 s and 32 ms.
    check("256 tokens open soon", opened < 2000 * pace, opened, pace)
    check("256 tokens follow the pointer", move < 32 * pace, move, pace)
    page.screenshot(folder / "large.png")
    all_at_once(page, "144 heads in a window of 1600")
    choose(page, 0, 0)
    page.key("p")
    check("p leads around the end of 144 heads", page.js("document.querySelector('.head[aria-pressed=\"true\"]').dataset.layer") == "11")
    choose(page, 0, 1)  # one that looks everywhere
    page.js("document.querySelector('.workbench .as-lines').click()")
    page.settle()
    check("the lines of 256 tokens are the strongest", " strongest of " in page.js("document.querySelector('.workbench .notes').textContent"),
          page.js("document.querySelector('.workbench .notes').textContent"))
    many_lines(page, folder)
    sorted_names(page)
    check("256 tokens: no error, no request", not page.problems(), page.problems())
    page.close()


def scale(page):
    """A causal row that sees one key has the weight 1: the scale must not reach to it."""
    choose(page, 1, 0)
    page.js("(() => { const s = document.querySelector('.workbench .scale'); s.value = 'head'; s.dispatchEvent(new Event('change')); })()")
    page.settle()
    exact = max(weight(0, q, k, STEPS[-1], lambda j: j <= q)[0] for q in range(1, 4) for k in range(q + 1))
    # The second largest weight has the colour of the top, or nearly: the darkest half of the colours is in use.
    light = page.js("""(() => { const d = document.querySelector('.workbench .stage').dataset, c = document.querySelector('.workbench .picture');
      const r = c.width / c.clientWidth, colors = [];
      for (let q = 1; q < 4; ++q) for (let k = 0; k <= q; ++k) {
        const at = c.getContext('2d').getImageData((Number(d.left) + (k + 0.1) * Number(d.cellWidth)) * r, (Number(d.top) + (q + 0.1) * Number(d.cellHeight)) * r, 1, 1).data;
        colors.push((at[0] + at[1] + at[2]) / 3);
      }
      return Math.min(...colors); })()""")
    check("the largest weight of a causal head is dark, although the first row sees one key", exact < 0.9 and light < 90, exact, light)


def over_time(open_page):
    """What a head does, and since when."""
    page = open_page("model")
    first = page.js("document.querySelector('.head[aria-pressed=\"true\"] .value').textContent")
    check("a page opens on a head that tells something", first.startswith("previous token 0.9"), first)
    choose(page, 0, 0)
    said = page.js("document.querySelector('.head[data-layer=\"0\"][data-head=\"0\"] .value').textContent")
    check("a thumbnail says what its head does", said.startswith("previous token 0.9"), said)
    curves = dict(page.js("[...document.querySelectorAll('.measure-curve')].map(c => [c.querySelector('span').textContent, c.querySelector('svg').getAttribute('aria-label')])"))
    check("each measure is a curve", len(curves) == 8 and {"Duplicate", "Induction"} <= set(curves), list(curves))
    first, last = re.search(r": ([\d.]+) at first, ([\d.]+) at last", curves["On the previous"]).groups()
    check("it rises when the head forms", float(first) < 0.2 and float(last) > 0.9, curves["On the previous"])
    own_numbers(page)
    choose(page, 0, 0)
    box = page.js("""(() => { const c = [...document.querySelectorAll('.measure-curve')].find(c => c.querySelector('span').textContent === 'On the previous');
      const b = c.querySelector('svg').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()""")
    page.click(box[0] + box[2] / 4, box[1] + box[3] / 2)
    page.wait("document.querySelector('.workbench .frame').value === '1'", 10)
    check("a click on a curve goes to its step", page.js("document.querySelector('.workbench .frame-label').textContent").startswith("Step 50"))
    colors = page.js("""(() => { const d = document.querySelector('.workbench .stage').dataset, c = document.querySelector('.workbench .picture'), r = c.width / c.clientWidth;
      const at = (name) => Number(d[name]) * r, pixels = c.getContext('2d').getImageData(at('left') + 20 * at('cellWidth'), at('top') + 2 * at('cellHeight'), 9 * at('cellWidth'), 9 * at('cellHeight')).data;
      const all = new Map();
      for (let i = 0; i < pixels.length; i += 4) all.set(pixels.slice(i, i + 3).join(), pixels.slice(i, i + 3));
      return [...all.values()].map((v) => [...v]); })()""")
    check("what a mask hides is hatched in grey", len(colors) > 1 and all(max(v) - min(v) < 24 for v in colors), colors[:5])
    page.close()


def own_numbers(page):
    """Every head has its own curves, numbers and roles: those that C++ wrote into the page."""
    data = json.loads(page.js("document.querySelector('script.data').textContent"))
    written = {(entry["layer"], entry["frame"]): entry["measures"] for entry in data["entries"]}
    roles_written = {(entry["layer"], entry["frame"]): entry["roles"] for entry in data["entries"]}
    names = inside(page, "MEASURES.map(m => m.name)")
    roles = {i: (name, least) for i, (name, least) in enumerate(inside(page, "ROLES.map(r => [r.name, r.threshold])"))}
    check("five roles name a head", [role for role, _ in roles.values()] == ["self", "previous token", "first token", "duplicate", "induction"] and
          all(0.25 < least < 0.7 for _, least in roles.values()), roles)
    for i, (role, least) in roles.items():
        for j in roles:
            given = [None] * len(roles)
            given[i], given[j] = 0.95, max(given[j] or 0, roles[j][1] + 0.01)
            said = inside(page, f"roleOf({json.dumps([[0.95 if k == i else v, 0.96, 0.1] if k == i or v else None for k, v in enumerate(given)])}).words")
            check(f"of {role} and {roles[j][0]} the larger one names the head", said == f"{role} 0.95", said)
        said = inside(page, f"[{least}, {least - 0.01}].map(v => roleOf({json.dumps([None] * len(roles))}.with({i}, [v, v, 0]))?.words ?? '')")
        check(f"{role} begins at its threshold", said == [f"{role} {least:.2f}", ""], said)
    for layer, head in ((1, 2), (2, 5)):
        choose(page, layer, head)
        for frame in range(5):
            page.js(f"(() => {{ const s = document.querySelector('.workbench .frame'); s.value = {frame}; s.dispatchEvent(new Event('input')); }})()")
            page.wait(f"document.querySelector('.workbench .frame-label').textContent.includes('{frame + 1} of 5')")
            page.settle()
            shown = page.js("[...document.querySelectorAll('.measure-curve')].map(c => [c.querySelector('span').textContent, parseFloat(c.querySelector('b').textContent)])")
            expected = written[layer, frame][head]
            check(f"layer {layer}, head {head + 1}, step {frame}: the numbers under the curves", [name for name, _ in shown] == names and
                  all(abs(v - e) < (0.0051 if i == 0 else 0.051 if i == 1 else 0.00051) for i, ((_, v), e) in enumerate(zip(shown, expected))), shown, expected)
        # A share is drawn from 0, at 31, to 1, at 3.
        drawn = page.js("""[...document.querySelectorAll('.measure-curve')].map(c => c.querySelector('path').getAttribute('d').slice(1).split(/[ML]/).map(p => Number(p.split(' ')[1])))""")
        right = [[31 - 28 * written[layer, frame][head][i] for frame in range(5)] for i in range(2, 8)]
        check(f"layer {layer}, head {head + 1}: the curves", all(len(d) == 5 and max(abs(a - b) for a, b in zip(d, r)) < 0.006 for d, r in zip(drawn[2:], right)), drawn, right)
    said = page.js("[...document.querySelectorAll('.head')].map(h => [Number(h.dataset.layer), Number(h.dataset.head), h.querySelector('.value').textContent])")
    expected = []
    for layer, head, _ in said:
        values = [role and role[0] or 0 for role in roles_written[layer, 4][head]]
        passed = [(values[i], role) for i, (role, least) in roles.items() if values[i] >= least]
        expected.append([layer, head, "%s %.2f" % max(passed)[::-1] if passed else ""])
    check("a head is named by a measure above its threshold, and by no other", said == expected and any(e[2] for e in expected) and
          not all(e[2] for e in expected), [s for s, e in zip(said, expected) if s != e])


def sorted_names(page):
    page.js("(() => { const s = document.querySelector('.workbench .sort'); s.value = 0; s.dispatchEvent(new Event('change')); })()")
    page.settle()
    names = page.js("""[...document.querySelectorAll('.head')].map(h => { const s = h.querySelector('span');
      return [s.textContent, s.scrollWidth <= s.clientWidth + 1, s.getBoundingClientRect().height, h.dataset.layer, h.dataset.head]; })""")
    short = {name for name, *_ in names}
    check("sorted thumbnails keep layer and head", len(short) == len(names) == 144 and
          all(name.endswith(" · " + str(int(head) + 1)) and height > 8 for name, _, height, _, head in names), names[:3])
    check("and none is cut", all(whole for _, whole, *_ in names), [n for n in names if not n[1]][:3])
    page.js("(() => { const s = document.querySelector('.workbench .sort'); s.value = -1; s.dispatchEvent(new Event('change')); })()")
    page.settle()


def printed(open_page, folder):
    page = open_page("training", dark=True)
    page.js("document.querySelector('.workbench .list').scrollTop = 0")
    page.call("Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    page.js("window.dispatchEvent(new Event('beforeprint'))")
    page.settle()
    ground = page.js("getComputedStyle(document.body).backgroundColor")
    check("paper is white", ground in ("rgb(255, 255, 255)", "rgba(0, 0, 0, 0)"), ground)
    ink = page.js("getComputedStyle(document.querySelector('.head-name')).color")
    check("and its ink dark", sum(int(v) for v in ink[4:-1].split(",")[:3]) < 300, ink)
    check("thumbnails stand where their captions are", page.js("""(() => {
          const canvas = document.querySelector('.list canvas'), c = canvas.getBoundingClientRect(), list = document.querySelector('.list').getBoundingClientRect();
          return c.bottom <= list.bottom + 2 && [...document.querySelectorAll('.head i')].every(i => { const b = i.getBoundingClientRect();
            const r = canvas.width / canvas.clientWidth;
            return new Set(new Uint32Array(canvas.getContext('2d').getImageData((b.left - c.left) * r, (b.top - c.top) * r, b.width * r, b.height * r).data.buffer)).size > 2; }); })()"""))
    page.close()
    for name in ("training", "model"):
        page = open_page(name, dark=True)
        if name == "model":
            choose(page, 0, 4)  # one that looks near and far
        browser.check_paper(page, f"{name} on paper", folder / f"{name}.pdf")
        page.close()


def many_lines(page, folder):
    """What 256 tokens look like as lines: some hundred lines, names that stay, files with names of their own."""
    shown = page.js("document.querySelector('.workbench .notes').textContent")
    count = int(re.search(r"(\d[\d,]*) strongest", shown).group(1).replace(",", ""))
    check("they are no wall", count <= 4 * 256, shown)
    box = page.js("(() => { const b = document.querySelector('.workbench .marks').getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; })()")
    page.move(box[0] + 30, box[1] + box[3] / 2)
    clear = page.js("""(() => { const c = document.querySelector('.workbench .marks'), r = c.width / c.clientWidth;
      const left = Number(document.querySelector('.workbench .stage').dataset.left);
      const pixels = c.getContext('2d').getImageData(0, 0, (left - 4) * r, c.height).data;
      let covered = 0;
      for (let i = 3; i < pixels.length; i += 4) covered += pixels[i] > 0;
      return covered / (pixels.length / 4); })()""")
    check("pointing at one leaves the other names as they are", clear < 0.2, clear)
    page.move(5, 5)
    names = []
    for view in ("as-lines", "as-matrix"):
        page.js(f"document.querySelector('.workbench .{view}').click()")
        page.settle()
        names.append(download(page, "save-svg", folder / "saved", "svg").name)
    check("the files of both views have different names", names[0] != names[1], names)


def all_at_once(page, what):
    """Every head of the grid is in the window at once, and large enough to be met."""
    page.js("document.querySelector('.workbench .grids').scrollIntoView({ block: 'start', behavior: 'instant' })")
    boxes = page.js("[...document.querySelectorAll('.head')].map(h => { const b = h.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; })")
    width, height = page.js("[innerWidth, innerHeight]")
    print(f"       {what}: {len(boxes)} heads of {min(r - l for l, _, r, _ in boxes):.0f} x {min(b - t for _, t, _, b in boxes):.0f} pixels")
    check(f"{what}: all at once", len(boxes) == 144 and all(l >= 0 and t >= 0 and r <= width and b <= height for l, t, r, b in boxes), boxes[-1])
    check(f"{what}: in rows of a layer", len({t for _, t, *_ in boxes}) == 12 and len({l for l, *_ in boxes}) == 12)
    page.js("scrollTo({ top: 0, behavior: 'instant' })")
    page.settle()


def touched(open_page):
    page = open_page("large", width=390)
    all_at_once(page, "144 heads on a phone")
    sizes = page.js("[...document.querySelectorAll('.head')].map(h => { const b = h.getBoundingClientRect(); return Math.min(b.width, b.height); })")
    check("on a phone each of 144 heads has the 24 pixels that WCAG 2.2 asks for", min(sizes) >= 24, min(sizes))
    page.close()
    page = open_page("training", width=390)
    sizes = page.js("[...document.querySelectorAll('.head')].map(h => { const b = h.getBoundingClientRect(); return Math.min(b.width, b.height); })")
    check("on a phone, four heads a layer have 44", min(sizes) >= 40, min(sizes))
    page.close()


def bench(open_page):
    """The text that colours, several heads in their colours, and what the words mean."""
    page = open_page("model")
    tokens = page.js("[...document.querySelectorAll('.strip .token')].map(t => t.textContent)")
    check("the text is a strip of its tokens", len(tokens) == 48 and tokens[:4] == ["the", "quick", "brown", "fox"], tokens)
    choose(page, 0, 0)
    colors = "[...document.querySelectorAll('.strip .token')].map(t => t.style.background)"
    before = page.js(colors)
    box = page.js("(() => { const b = document.querySelectorAll('.strip .token')[20].getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()")
    page.move(*box)
    seen = page.js(colors)
    darkest = inside(page, "LIGHT_WEIGHTS.at(-1)")
    strongest = page.js("[...document.querySelectorAll('.strip .token')].reduce((best, t, i, all) => { const of = e => { const c = (e.style.background.match(/\\d+/g) ?? [255, 255, 255]).map(Number); return c[0] + c[1] + c[2]; }; return of(t) < of(all[best]) ? i : best; }, 0)")
    check("pointing at a token colours those that it attends to", seen != before and strongest == 19, strongest, darkest)
    check("what comes later has no colour", all(c == "" for c in seen[21:]))
    check("the picture follows", tip(page) == "query “" + tokens[20] + "”", tip(page))
    page.click(*box)
    page.move(5, 5)
    check("a click holds it", page.js(colors) == seen)
    page.key("Escape")
    several(page)
    words = page.js("[...document.querySelectorAll('.term')].map(t => [t.textContent, t.dataset.about])")
    check("head, layer, query, key and agreement are explained in a line", {"head", "layer", "query", "key", "Agreement"} <= {word for word, _ in words} and all(8 < len(about) < 160 for _, about in words), words)
    page.js("document.querySelector('.term').focus()")
    check("the line is shown at the word", not page.js("document.querySelector('.about-tip').hidden") and page.js("document.querySelector('.about-tip').textContent") == words[0][1])
    check("one main, headings in order", page.js("""document.querySelectorAll('main').length === 1 && document.querySelectorAll('h1').length === 1"""))
    check("the bench: no error, no request", not page.problems(), page.problems())
    page.close()


def several(page):
    page.js("document.querySelector('.several').click()")
    for layer, head in ((1, 2), (2, 4)):
        choose(page, layer, head)
    chips = page.js("[...document.querySelectorAll('.chip')].map(c => c.textContent)")
    check("several heads are chosen", chips == ["layer 1 · head 1 ✕", "layer 2 · head 3 ✕", "layer 3 · head 5 ✕"], chips)
    check("each in a colour of its own", page.js("new Set([...document.querySelectorAll('.head[aria-pressed=true]')].map(h => getComputedStyle(h).borderTopColor)).size") == 3)
    page.js("document.querySelector('.as-lines').click()")
    page.settle()
    drawn = page.js("""(() => { const c = document.querySelector('.workbench .picture'), p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, near = [0, 0, 0];
      const rgb = ['--head-1', '--head-2', '--head-3'].map(n => getComputedStyle(document.documentElement).getPropertyValue(n).trim()).map(h => [1, 3, 5].map(i => parseInt(h.slice(i, i + 2), 16)));
      for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 220) rgb.forEach((c, k) => { if (Math.abs(p[i] - c[0]) + Math.abs(p[i + 1] - c[1]) + Math.abs(p[i + 2] - c[2]) < 40) ++near[k]; });
      return near; })()""")
    check("their lines lie over each other, each in its colour", all(n > 20 for n in drawn), drawn)
    page.wait("location.hash.includes('heads=1.1.1%2C1.2.3%2C1.3.5')", 10)
    page.js("document.querySelector('.as-matrix').click()")
    page.settle()
    check("as matrices they stand side by side", page.js("document.querySelector('.workbench .stage').getAttribute('aria-label')").startswith("layer 1"))
    page.js("document.querySelectorAll('.chip')[2].click()")
    page.settle()
    check("two have a difference", not page.js("document.querySelector('.as-difference').hidden"))
    page.js("document.querySelectorAll('.chip')[1].click(), document.querySelector('.several').click()")
    page.settle()


def remembered(b, folder):
    path = folder / "training.html"
    page = browser.Page(b, path, remembers=True)
    page.js("localStorage.clear()")
    dark = page.js("document.documentElement.dataset.theme") == "dark"
    page.key("d")
    choose(page, 1, 2)
    page.key(",")
    page.key("v")
    page.wait("location.hash.includes('view=lines')", 10)  # it is written soon, not at once
    address = page.js("location.hash")
    state = "[document.documentElement.dataset.theme, document.querySelector('.head[aria-pressed=\"true\"]').getAttribute('aria-label'), document.querySelector('.workbench .frame').value, document.querySelector('.workbench .stage').dataset.view]"
    before = page.js(state)
    page.call("Page.navigate", url="about:blank")
    page.wait("location.href === 'about:blank'")
    page.call("Page.navigate", url=path.resolve().as_uri() + address)
    page.wait("document.documentElement?.dataset.ready === 'true'")
    page.settle()
    check("the address leads back to head, step and view", page.js(state)[1:] == before[1:] and before[2] == "2" and before[3] == "lines", page.js(state), before, address)
    check("the theme is remembered", page.js(state)[0] == before[0] == ("light" if dark else "dark"), page.js(state))
    page.js("localStorage.clear()")
    page.close()


def test(b, program, folder):
    folder = browser.written(program, folder)

    def open_page(name, **how):
        return browser.Page(b, folder / (name + ".html"), **how)

    page = open_page("training")
    check("a thumbnail for each of 3 x 4 heads", page.js("document.querySelectorAll('.head').length") == 12)
    check("each has something drawn", page.js("""(() => {
          const canvas = document.querySelector('.list canvas');
          return [...document.querySelectorAll('.head i')].every(i => new Set(new Uint32Array(canvas.getContext('2d')
            .getImageData(i.offsetLeft, i.offsetTop, i.clientWidth, i.clientHeight).data.buffer)).size > 2);
        })()"""))
    check("controls have names for screen readers", page.js("""[...document.querySelectorAll('button, select, input, [role=application], [role=listbox]')]
          .every(e => e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)"""))
    inks(page)
    hovering(page)
    slider(page)
    keyboard(page)
    sorting(page)
    lines(page)
    exports(page, folder)
    scale(page)
    check("no error, no request", not page.problems(), page.problems())
    page.close()
    over_time(open_page)
    bench(open_page)
    hostile(open_page, folder)
    large(open_page, folder)
    printed(open_page, folder)
    touched(open_page)
    remembered(b, folder)
    for kind in ("training", "model"):
        for page, dark, name in browser.looks(lambda **how: open_page(kind, **how)):
            page.js("document.querySelector('.workbench .as-matrix').click()")
            if kind == "model":
                choose(page, 1, 1)
                page.click(*cell(page, 20, 9))
            page.screenshot(folder / f"{kind}_{name}.png")
            page.js("document.querySelector('.workbench .as-lines').click()")
            page.settle()
            browser.look(page, f"{kind}, {name}", folder / f"{kind}_{name}_lines.png")


if __name__ == "__main__":
    browser.main(test)
