#!/usr/bin/env python3
"""color_words.py TOP: the prose of lessons, and the words that pages show, name no colour and no darkness: a page has a
light and a dark theme, in which large weights are dark or bright."""
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1])
COLOR = re.compile(r"\b(dark|bright|pale|light)(er|est|ens?|ness)?\b|\b(white|black|blue|red|redder|green|gr[ae]y|orange)\b", re.I)
# The button of the theme, and the keys' list.
THEME = {"Dark", "Light", "Dark colours", "Light colours", "dark or light", "light", "dark"}

found, lines, strings = [], 0, 0
for path in sorted((top / "examples").glob("*.cpp")):
    for number, line in enumerate(path.read_text().split("\n"), 1):
        prose = re.match(r"\s*///( .*)", line)
        lines += bool(prose)
        if prose and COLOR.search(prose[1]):
            found.append(f"{path.relative_to(top)}:{number}:{prose[1]}")
for path in sorted((top / "nn/plot/page").rglob("*.js")) + sorted((top / "nn/plot/page").rglob("*.html")):
    for number, line in enumerate(path.read_text().split("\n"), 1):
        line = re.sub(r"(?<!:)//.*$", "", line)
        shown = re.findall(r">([^<>{}]+)<", line) if path.suffix == ".html" else re.findall(r'"([^"]*)"|`([^`]*)`', line)
        for text in (part for match in shown for part in ([match] if isinstance(match, str) else match)):
            strings += " " in text
            # Only what can be a sentence: code between quotes has no spaces, or dots and braces.
            if text not in THEME and " " in text and not re.search(r"rgb|var\(|class=|color-mix|prefers-color", text) and COLOR.search(re.sub(r"\$\{[^}]*\}", "", text)):
                found.append(f"{path.relative_to(top)}:{number}: {text}")
if lines < 300 or strings < 200:
    found.append(f"only {lines} lines of prose and {strings} texts were found")
print(*found, sep="\n")
sys.exit(bool(found))
