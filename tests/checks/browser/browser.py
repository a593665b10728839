"""Debian's headless chromium, steered over a pipe (the DevTools protocol), with Python's standard library alone.
With FIT_PICTURES=1 in the environment, tests leave pictures of the pages beside them."""

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import tempfile
import time


FAILED = []


def check(what, holds, *shown):
    print(("ok     " if holds else "FAILED ") + what, *shown if not holds else [], flush=True)
    if not holds:
        FAILED.append(what)


def verdict():
    """The exit code, after the last check."""
    for what in FAILED:
        print("FAILED: " + what, file=sys.stderr)
    return 1 if FAILED else 0


def looks(open_page, theme=False):
    """A page in the widths and themes in which pages are looked at: the page, dark, and a name for both. It is opened once
    in each theme, narrow when it is light and wide when it is dark. With `theme`, it is opened once: a page that follows the
    theme of the system turns dark."""
    widths = (390, 800, 1400)
    page = None
    for dark in (False, True):
        if page is None:
            page = open_page(width=widths[-1 if dark else 0], dark=dark)
        else:
            page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        for width in reversed(widths) if dark else widths:
            page.resize(width, 1000)
            page.settle()
            yield page, dark, f"{width}_{'dark' if dark else 'light'}"
        if dark or not theme:
            page.close()
            page = None


# Words with less contrast to their ground than 4.5, the AA of WCAG 2.1: [contrast, words]. Those on figures lie on cells,
# and a terminal has its own colours.
FAINT = """(() => {
  const rgba = (color) => { // a mixture is "color(srgb 0.5 0.5 0.5)"
    const [r, g, b, a = 1] = color.match(/[\\d.]+/g).map(Number), most = color.startsWith("color") ? 255 : 1;
    return { rgb: [r * most, g * most, b * most], a };
  };
  const over = (top, below) => top.rgb.map((v, i) => v * top.a + below[i] * (1 - top.a));
  const light = (rgb) => rgb.map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => e ? over(rgba(getComputedStyle(e).backgroundColor), ground(e.parentElement)) : [255, 255, 255];
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const words = walker.currentNode.data.trim(), e = walker.currentNode.parentElement;
    if (!words || e.closest('svg, script, .printed span, :disabled, [aria-hidden="true"], .unseen') || !e.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const below = ground(e), lights = [light(over(rgba(getComputedStyle(e).color), below)), light(below)];
    const contrast = (Math.max(...lights) + 0.05) / (Math.min(...lights) + 0.05);
    if (contrast < 4.5) found.push([contrast.toFixed(2), words.slice(0, 30)]);
  }
  return found;
})()"""

# Headings that stand more than one level below the one before: a screen reader's list of them has a hole.
SKIPPED = """(() => { const all = [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter(h => h.checkVisibility()), level = (h) => Number(h.localName[1]);
  return all.filter((h, i) => i && level(h) > level(all[i - 1]) + 1).map(h => h.outerHTML.slice(0, 60)); })()"""


def look(page, what, picture):
    """The end of a look at a page: nothing is cut off, nothing went wrong, all words can be read, and a picture if
    FIT_PICTURES is set."""
    faint = page.js(FAINT)
    check(f"{what}: words have a contrast of 4.5 or more", not faint, faint[:4])
    skipped = page.js(SKIPPED)
    check(f"{what}: headings skip no level", not skipped, skipped)
    check(f"{what}: nothing is cut off", page.js("document.documentElement.scrollWidth <= innerWidth"),
          page.js("document.documentElement.scrollWidth"))
    page.screenshot(picture)
    check(f"{what}: no dialog, no error, no request", not page.problems(), page.problems())


def written(program, folder, **how):
    """The folder, after the program has written its pages into it."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([program, folder], check=True, **how)
    return folder


def main(test):
    """Calls test(browser, *ARGUMENTS), and ends the program with its verdict."""
    chromium = find()
    if not chromium:
        print("skipped: chromium is missing; apt-get install chromium")
        sys.exit(77)
    with Browser(chromium) as b:
        test(b, *sys.argv[1:])
    sys.exit(verdict())


def find():
    """chromium's path, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Navigated(RuntimeError):
    """The page that was asked has made room for another one."""


class Browser:
    def __init__(self, chromium):
        self.profile = tempfile.mkdtemp(prefix="fit_browser_")
        to_read, self.to = os.pipe()
        self.back, to_write = os.pipe()
        # chromium reads commands from 3 and writes answers to 4; these must not be in use while they are put there
        to_read, to_write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (to_read, to_write))

        def pipes():
            os.dup2(to_read, 3)
            os.dup2(to_write, 4)

        self.process = subprocess.Popen(
            [chromium, "--headless", "--no-sandbox", "--remote-debugging-pipe", f"--user-data-dir={self.profile}",
             "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars",
             "--force-color-profile=srgb"],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.count = 0
        self.buffer = b""
        self.events = []

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(20)
        except Exception:
            self.process.kill()
            self.process.wait()
        os.close(self.to)
        os.close(self.back)
        shutil.rmtree(self.profile, ignore_errors=True)

    def processor_time(self):
        """Milliseconds of processor time that the processes of pages have used, whatever else the machine does."""
        ticks, parents = {}, {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                parents[folder.name] = fields[1]
                if b"--type=renderer" in (folder / "cmdline").read_bytes():
                    ticks[folder.name] = int(fields[11]) + int(fields[12])
            except OSError:
                pass  # the process has ended

        def own(process):
            while process in parents and process != str(self.process.pid):
                process = parents[process]
            return process == str(self.process.pid)

        return sum(count for process, count in ticks.items() if own(process)) * 1000 / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def receive(self, seconds):
        """The next message, or None if there is none in time."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                return None
            read = os.read(self.back, 1 << 20)
            if not read:
                raise RuntimeError("chromium has ended")
            self.buffer += read
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        end = time.monotonic() + 120
        while True:
            answer = self.receive(max(0.1, end - time.monotonic()))
            if answer is None:
                raise RuntimeError(f"no answer to {method}")
            if answer.get("id") == message["id"]:
                if "error" in answer:
                    why = answer["error"]["message"]
                    raise (Navigated if "navigated" in why else RuntimeError)(f"{method}: {why}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)


class Sheet:
    """A printed page as pixels, from the bytes of a PPM file."""

    def __init__(self, data):
        kind, width, height, most = data[:60].split()[:4]
        if kind != b"P6" or most != b"255":
            raise RuntimeError("this is no PPM file of bytes")
        self.width, self.height = int(width), int(height)
        self.pixels = data[-3 * self.width * self.height:]

    def at(self, x, y):
        i = 3 * (int(y) * self.width + int(x))
        return tuple(self.pixels[i:i + 3])

    def distance(self, x, y, color):
        """How far the nearest of the colours at (x, y) and its neighbours is from COLOR: paper rounds a place to pixels."""
        near = [self.at(x + i, y + j) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        return min(max(abs(a - b) for a, b in zip(color, other)) for other in near)

    def find(self, color):
        """Where pixels of this colour are, as (x, y) in the order of reading."""
        color, at, found = bytes(color), -1, []
        while True:
            at = self.pixels.find(color, at + 1)
            if at < 0:
                return found
            if at % 3 == 0:
                found.append((at // 3 % self.width, at // 3 // self.width))


# Milliseconds for 2^20 multiplications and additions in a plain loop, the least of some.
PACE = """(() => {
  const a = new Float32Array(4096).fill(0.5), b = new Float32Array(4096).fill(0.25);
  let best = Infinity, sum = 0;
  for (let round = 0; round < 9; ++round) {
    const start = performance.now();
    for (let r = 0; r < 4096; ++r) for (let i = 0; i < 4096; ++i) sum += a[i] * b[i];
    best = Math.min(best, performance.now() - start);
  }
  return sum > 0 ? best / 16 : NaN;
})()"""

# Marks two corners of what is printed, and remembers what the canvas shows when it is: [x, y, colour] of points.
ON_PAPER = """(() => {
  const stage = document.querySelector('.workbench .stage'), mark = (x, y) => {
    const m = document.createElement('div');
    m.style.cssText = `position:absolute;left:${x}px;top:${y}px;width:6px;height:6px;background:#ff00ff;print-color-adjust:exact`;
    stage.append(m);
  };
  window.addEventListener('beforeprint', () => {
    const d = stage.dataset, c = stage.querySelector('.picture'), r = c.width / c.clientWidth, context = c.getContext('2d');
    const [left, top, w, h] = ['left', 'top', 'cellWidth', 'cellHeight'].map(name => Number(d[name]));
    const rows = Math.round((c.clientHeight - top - 8) / h), columns = Math.floor((c.clientWidth - left - 76) / w);
    // The marks stand at opposite corners: a pixel's rounding of one moves no cell by more than a pixel.
    mark(0, 0), mark(left + columns * w, top + rows * h + 1);
    stage.style.paddingBottom = '10px';
    window.onPaper = { across: left + columns * w, down: top + rows * h + 1, points: [] };
    // Points within one colour: no line, number or hatching is near.
    for (let q = 0; q < rows; ++q) for (let k = 0; k < columns; ++k) for (const part of [0.12, 0.3, 0.5]) {
      const x = left + (k + part) * w, y = top + (q + part) * h, margin = w < 12 ? 1 : 3, near = context.getImageData(x * r - margin, y * r - margin, 2 * margin + 1, 2 * margin + 1).data;
      if (near.every((v, i) => v === near[i % 4])) onPaper.points.push([x, y, [...near.slice(0, 3)]]);
    }
  });
})()"""


def check_paper(page, what, path):
    """The matrix of heads on a real PDF has the colours that the page draws."""
    page.js(ON_PAPER)
    sheets = page.paper(path)
    if sheets is None:
        return
    drawn = page.js("window.onPaper")
    marked = [(sheet, sheet.find((255, 0, 255))) for sheet in sheets]
    marked = [(sheet, found) for sheet, found in marked if found]
    check(f"{what}: the picture is on one sheet", len(marked) == 1 and len(marked[0][1]) > 8, [len(f) for _, f in marked])
    if len(marked) != 1:
        return
    # The left and upper edges of the marks. The stage is rounded: the first mark may lack its corner.
    sheet, found = marked[0]
    y0 = found[0][1]
    above, below = [(x, y) for x, y in found if y <= y0 + 40], [(x, y) for x, y in found if y > y0 + 40]
    x0, x1, y1 = min(x for x, _ in above), min(x for x, _ in below), min(y for _, y in below)
    colors = [tuple(color) for *_, color in drawn["points"]]
    check(f"{what}: its cells have several colours", len(colors) > 6 and len(set(colors)) > 3, colors)
    places = [(x0 + (x1 - x0) * x / drawn["across"], y0 + (y1 - y0) * y / drawn["down"]) for x, y, _ in drawn["points"]]
    far = [sheet.distance(*place, color) for place, color in zip(places, colors)]
    print(f"       {what}: {len(colors)} points of the matrix, the farthest from the screen by {max(far, default=0)} of 255")
    wrong = [(color, sheet.at(*place)) for place, color, distance in zip(places, colors, far) if distance > 14]
    check(f"{what}: and are printed in them", not wrong, len(wrong), len(colors), wrong[:4])


class Page:
    """A page that is opened from the disk. What it asks for and complains of is kept; it may ask for the files that
    lie beside it and are named `beside`. Unless it remembers, it knows nothing of the pages
    before it. A page of a `site` may ask for the files of that folder. Its timers run `hurry` times as
    fast as elsewhere."""

    def __init__(self, browser, path, width=1600, height=1000, dark=False, beside=(), remembers=False, site=None, hurry=1):
        self.browser = browser
        self.beside = tuple(pathlib.Path(path).resolve().with_name(name).as_uri() for name in beside)
        self.url = pathlib.Path(path).resolve().as_uri()
        self.site = pathlib.Path(site).resolve().as_uri() + "/" if site else None
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        self.call("Performance.enable", timeDomain="threadTicks")
        self.resize(width, height)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if not remembers:
            self.call("Page.addScriptToEvaluateOnNewDocument", source="localStorage.clear()")
        if hurry != 1:
            self.call("Page.addScriptToEvaluateOnNewDocument",
                      source=f"""for (const name of ['setTimeout', 'setInterval']) {{
                        const wait = window[name];
                        window[name] = (act, ms, ...given) => wait(act, ms / {hurry}, ...given);
                      }}""")
        browser.events.clear()
        self.call("Page.navigate", url=self.url)
        self.wait("document.readyState === 'complete'" if site else "document.documentElement?.dataset.ready === 'true'")

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def js(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def busy(self):
        """Milliseconds for which the page has kept a processor busy, whatever else the machine does."""
        metrics = self.call("Performance.getMetrics")["metrics"]
        return 1000 * next(m["value"] for m in metrics if m["name"] == "TaskDuration")

    def million(self):
        """Milliseconds that this browser takes now for a million (2^20) steps of a plain loop: times are told in these, as
        machines differ and a machine has slow minutes."""
        return self.js(PACE)

    def holds(self, condition):
        """Whether it is true now. A page that is just being replaced by the next one has no answer yet: false."""
        try:
            return self.js(condition)
        except Navigated:
            return False

    def wait(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.holds(condition):
            if time.monotonic() > end:
                raise RuntimeError(f"in {seconds} s it has not come true: {condition}\n{self.problems()}")
            time.sleep(0.02)

    def settle(self):
        """Lets the page draw what it has to."""
        self.js("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def move(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.settle()

    def click(self, x, y):
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)
        self.settle()

    def tap(self, x, y):
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def key(self, key):
        text = {"text": key} if len(key) == 1 else {}
        if key == "Enter":
            text = {"text": "\r"}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)
        self.settle()

    def screenshot(self, path):
        if not os.environ.get("FIT_PICTURES"):
            return
        path = pathlib.Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.js("document.activeElement && document.activeElement.blur()")
        height = min(20000, self.js("document.documentElement.scrollHeight"))
        width = self.js("innerWidth")
        picture = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, optimizeForSpeed=True,
                            clip={"x": 0, "y": 0, "width": width, "height": height, "scale": 1})["data"]
        path.write_bytes(base64.b64decode(picture))

    def paper(self, path):
        """Prints the page to PATH as PDF, and reads it as pdftoppm (poppler-utils) draws it, at 144 dots an inch: a list of
        Sheet. None without that program."""
        path = pathlib.Path(path)
        data = self.call("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"]
        path.write_bytes(base64.b64decode(data))
        if not shutil.which("pdftoppm"):
            print("skipped: pdftoppm is missing; apt-get install poppler-utils")
            return None
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["pdftoppm", "-r", "144", path, pathlib.Path(folder) / "sheet"], check=True)
            return [Sheet(file.read_bytes()) for file in sorted(pathlib.Path(folder).glob("*.ppm"))]

    def problems(self):
        """Errors of the console and of the browser, dialogs, and requests for anything but the page itself."""
        self.settle()
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, params = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append("exception: " + json.dumps(params["exceptionDetails"])[:500])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
                found.append("console: " + json.dumps(params["args"])[:500])
            elif "Canvas2D: Multiple readback" in str(params):
                pass  # a hint on speed, about what this test itself reads back
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append("log: " + params["entry"]["text"])
            elif method == "Page.javascriptDialogOpening":
                found.append("dialog: " + params["message"])
            elif method == "Network.requestWillBeSent":
                url = params["request"]["url"]
                if url != self.url and not url.startswith(("data:", "blob:")) and url.split("?")[0] not in self.beside \
                        and not (self.site and url.startswith(self.site)):
                    found.append("request: " + url)
        return found
