#!/usr/bin/env python3
"""site.py README HTML: writes HTML/site_pages.js, the guides in the order in which README names them, and
HTML/site_index.js, what the search of the site finds: the sections of the guides with their text, and public names. A
guide that README does not name is an error. A picture NAME.png or NAME.svg leads to HTML/pages/NAME.html, if it is there, and gives way to NAME_dark on dark pages.
The live pages of lessons, HTML/pages, are a part of the menu, and lead back."""
import html.parser
import json
import pathlib
import re
import shutil
import sys

LESSONS = ["course", "five_minutes", "demonstrate", "lesson", "attention_mathematics", "six_tokens", "jax_notebook", "attention_variants", "induction"]

readme, site = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


class Sections(html.parser.HTMLParser):
    """The text of a page by section: [anchor, heading, text]."""

    def __init__(self):
        super().__init__()
        self.list = [["", "", ""]]
        self.title = ""
        self.depth = self.heading = self.skip = 0
        self.anchor = ""

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "div" and (self.depth or attributes.get("class") == "contents"):
            self.depth += 1
        if tag == "div" and attributes.get("class") == "title":
            self.in_title = True
        if not self.depth:
            return
        if tag == "a" and attributes.get("class") == "anchor":
            self.anchor = attributes.get("id", "")
        if tag in ("h1", "h2", "h3", "h4"):
            self.heading = 1
            self.list.append([self.anchor, "", ""])
        if tag in ("script", "style"):
            self.skip += 1

    def handle_endtag(self, tag):
        if tag == "div" and self.depth:
            self.depth -= 1
        if tag in ("h1", "h2", "h3", "h4") and self.heading:
            self.heading = 0
            self.list[-1][0] = self.anchor
        if tag in ("script", "style") and self.skip:
            self.skip -= 1

    def handle_data(self, data):
        if self.depth and not self.skip:
            self.list[-1][1 if self.heading else 2] += data


def plain(text):
    return re.sub(r"\s+", " ", text.replace("◆", "")).strip()


def title_of(text):
    return plain(html.unescape(re.search(r'<div class="title">(.*?)</div>', text, re.S)[1].split("<")[0]))


folders = "|".join(path.name for path in (readme.parent / "docs").iterdir() if path.is_dir())
guides = {}  # name of the Markdown file: its page
for path in site.glob("md_*.html"):
    name = re.sub(rf"^md_(docs_(({folders})_)?)?", "", path.stem)
    guides[name.lower().replace("__", "_").replace("_md", "")] = path

# "To learn fit, in this order:", "To look things up:" and "To change fit:" of README are the parts of the menu.
order, seen = [["Start", [["index.html", "Overview"]]]], set()
text = readme.read_text().split("## Read the documents")[1].split("\nMIT licence")[0]
for part in re.split(r"\n(?=To )", text):
    heading = {"To learn": "Learn", "To look": "Look up", "To change": "Change fit"}.get(" ".join(part.split()[:2]))
    if not heading:
        continue
    pages = []
    for name in re.findall(r"\]\((?:\w+/)*(\w+)\.md", part):
        page = guides.get(name.lower())
        if page and name not in seen:
            seen.add(name)
            pages.append([page.name, title_of(page.read_text())])
    order.append([heading, pages])
def beside(match):
    """A link from one lesson to another, whose pages stand beside each other here. One that leads nowhere is text."""
    name = {"attention_step_by_step": "lesson"}.get(match[1], match[1])
    return f'<a href="{name}.html">{match[2]}</a>' if (site / "pages" / (name + ".html")).exists() else match[2]


def back(path):
    """A live page with a link to the site; its title."""
    text = path.read_text().replace("<header>", '<header>\n  <a class="back" href="../index.html">fit</a>', 1)
    text = re.sub(r'<a href="\.\./\w+/(\w+)\.html">(.*?)</a>', beside, text)
    path.write_text(text)
    return html.unescape(re.search(r"<title>(.*?)</title>", text, re.S)[1])


live = {path.stem: back(path) for path in sorted(site.glob("pages/*.html"))}
lessons = [[f"pages/{name}.html", live[name]] for name in LESSONS if name in live]
if lessons:
    order.insert(1, ["Lessons", lessons])
order.append(["Reference", [["annotated.html", "Classes"], ["files.html", "Headers"], ["namespacefit.html", "Functions"]]])
missing = sorted(set(guides) - {name.lower() for name in seen})
if missing:
    sys.exit("README.md does not name these guides under \"Read the documents\": " + ", ".join(missing))
(site / "site_pages.js").write_text("const SITE_PAGES = " + json.dumps(order, ensure_ascii=False) + ";\n")

pictures = readme.parent / "docs/images"
for page in [site / "index.html", *guides.values()]:
    source = re.sub(r'<object type="image/svg\+xml" data="([^"]+)"[^>]*>(.*?)</object>', r'<img src="\1" alt="\2">', page.read_text())
    # The words of a picture stand below it: it has them, and a screen reader reads them once.
    source = re.sub(r'(<img [^>]*)alt=""([^>]*>\s*)<div class="caption">\s*(.*?)\s*</div>',
                    lambda m: f'{m[1]}alt="{m[3]}"{m[2]}<div class="caption" aria-hidden="true">{m[3]}</div>', source, flags=re.S)

    def themed(match):
        name, ending = match[2], match[3]
        dark = pictures / f"{name}_dark.{ending}"
        if not dark.exists():
            return match[0]
        shutil.copy(dark, site)
        image = f"{match[1]}{name}.{ending}{match[4]}"
        return (image.replace("<img ", '<img class="light-picture" ', 1) +
                image.replace("<img ", '<img class="dark-picture" ', 1).replace(f"{name}.{ending}", dark.name))

    source = re.sub(r'(<img [^>]*src=")(\w+)\.(png|svg)("[^>]*>)', themed, source)
    for name in live:
        picture = rf'(?:<a [^>]*>)?((?:<img [^>]*"{name}(?:_dark)?\.(?:png|svg)"[^>]*>)+)(?:</a>)?'
        source = re.sub(picture, rf'<a class="live" href="pages/{name}.html">\1<span>Open the live page</span></a>', source)
    page.write_text(source)

index = []
for page in [site / "index.html", *guides.values()]:
    source = page.read_text()
    title = "Overview" if page.name == "index.html" else title_of(source)
    sections = Sections()
    sections.feed(source)
    for anchor, heading, body in sections.list:
        if plain(heading + body):
            index.append([page.name + ("#" + anchor if anchor else ""), plain(f"{title} › {heading}" if heading else title), plain(body)])
members = re.compile(r'<a class="el" href="((?:class|struct|namespace|group)\w+\.html(?:#\w+)?)">([\w:~ ]+)</a>')
names = {}
for page in [*site.glob("annotated.html"), *site.glob("namespacefit*.html")]:
    for address, name in members.findall(page.read_text()):
        names.setdefault(address, name)
index += [[address, name, ""] for address, name in sorted(names.items())]
(site / "site_index.js").write_text("const SITE_INDEX = " + json.dumps(index, ensure_ascii=False) + ";\n")
