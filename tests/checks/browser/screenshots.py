"""screenshots.py OUT IMAGES: what stands at the top of a lesson and of a training's page below OUT, where the examples
attention_step_by_step and reverse have left them, as IMAGES/lesson.png and IMAGES/training.png."""

import base64
import pathlib
import sys

import browser


def main():
    out, images = map(pathlib.Path, sys.argv[1:])
    with browser.Browser(browser.find()) as b:
        for page, at, name in (("attention_step_by_step/attention_step_by_step", "document.querySelector('figure')", "lesson"),
                               ("reverse/training", None, "training")):
            p = browser.Page(b, out / (page + ".html"), width=1100, height=820)
            p.wait("document.readyState === 'complete'")
            if at:
                p.js(f"{at}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
            p.settle()
            picture = p.call("Page.captureScreenshot", format="png")["data"]
            (images / (name + ".png")).write_bytes(base64.b64decode(picture))
            p.close()


if __name__ == "__main__":
    main()
