"""screenshots.py OUT IMAGES [NAME...]: what stands at the top of the first page, and of those of a lesson, a training and a model below
OUT, where the examples demonstrate, attention_step_by_step, reverse and train_names have left them, as
IMAGES/five_minutes.png, lesson.png, training.png and model_page.png, and as NAME_dark.png in dark; those named, or all."""

import base64
import pathlib
import sys

import browser


# A text whose next letter is open, and which heads matter for it.
ASK = """new Promise((done) => {
  const text = document.getElementById('text');
  text.value = 'mari';
  text.dispatchEvent(new Event('input'));
  setTimeout(() => document.getElementById('matter').click(), 1500);
  setTimeout(done, 3000);
})"""
PAGES = [("demonstrate/five_minutes", "five_minutes", 640, "document.getElementById('guide-close').click(), document.activeElement.blur()"), ("attention_step_by_step/attention_step_by_step", "lesson", 820, "0"), ("reverse/training", "training", 820, "0"),
         ("train_names/model", "model_page", 960, ASK)]


def main():
    out, images = map(pathlib.Path, sys.argv[1:3])
    with browser.Browser(browser.find()) as b:
        for page, name, height, first in PAGES:
            if sys.argv[3:] and name not in sys.argv[3:]:
                continue
            for ending, dark in ((".png", False), ("_dark.png", True)):
                p = browser.Page(b, out / (page + ".html"), width=1100, height=height, dark=dark)
                p.wait("document.readyState === 'complete'")
                p.js(first)
                p.wait("!document.body.innerText.includes('checking …')")  # its numbers beside those of C++
                p.settle()
                picture = p.call("Page.captureScreenshot", format="png")["data"]
                (images / (name + ending)).write_bytes(base64.b64decode(picture))
                p.close()


if __name__ == "__main__":
    main()
