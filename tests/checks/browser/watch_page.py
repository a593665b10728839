"""watch_page.py DIR: examples/run watched --watch in DIR, a tree of learner_tree.sh, with its page open in a browser: the
source is saved, and the page shows what the new program did."""

import os
import pathlib
import signal
import subprocess
import time

import browser
from browser import check


def wait(what, condition, seconds=240):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise RuntimeError(f"in {seconds} s it has not come true: {what}")
        time.sleep(0.1)


def test(b, folder):
    folder = pathlib.Path(folder)
    source, said = folder / "examples/watched.cpp", folder / "said.txt"
    first = source.read_text()
    waits = "Waiting until examples/watched.cpp is saved"
    with said.open("w") as out:
        watch = subprocess.Popen(["examples/run", "watched", "--watch", "--out", "out"], cwd=folder, stdout=out,
                                 stderr=subprocess.STDOUT, start_new_session=True)

    def times(text):
        return said.read_text().count(text)

    try:
        wait("the first build", lambda: times(waits) == 1)
        path = folder / "out/watched/watched.html"
        page = browser.Page(b, path, beside=["watched.html.js"])

        def printed():
            return page.js("document.querySelector('.printed')?.textContent.trim()")

        check("the page shows what the program printed", printed() == "the first version", printed())
        page.js("window.same = true")
        source.write_text(first.replace("the first version", "the second version"))
        page.wait("document.querySelector('.printed')?.textContent.trim() === 'the second version'", 240)
        check("the page that is open follows the saved source", page.js("window.same === undefined"))
        check("its code, too", "the second version" in page.js("[...document.querySelectorAll('.code')].map(c => c.textContent).join()"))

        wait("the second wait", lambda: times(waits) == 2)
        source.write_text(first.replace("the first version", 'a version" oops "'))
        wait("the third wait", lambda: times(waits) == 3)
        check("a source that does not compile ends nothing", watch.poll() is None and times("error:") > 0)
        check("the page stays", printed() == "the second version", printed())
        source.write_text(first.replace("the first version", "the third version"))
        page.wait("document.querySelector('.printed')?.textContent.trim() === 'the third version'", 240)
        check("and follows again", page.js("document.documentElement.dataset.ready === 'true'"))
        check("no dialog, no error, no request", not page.problems(), page.problems())
        page.close()
    finally:
        os.killpg(watch.pid, signal.SIGINT)
        source.write_text(first)
        check("Ctrl-C ends it", watch.wait(20) != 0)


if __name__ == "__main__":
    browser.main(test)
