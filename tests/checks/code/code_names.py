#!/usr/bin/env python3
"""code_names.py TOP: each name between backquotes in the prose of lessons (///), and in the comments of the project, stands
in code: of the library, of the examples, of a test, of a script or a page. So a lesson speaks of no function that is not
there. Names of PyTorch may be those of docs/from_pytorch.md. Each file that a comment names exists, as the end of a path."""
import pathlib
import re
import sys

top = pathlib.Path(sys.argv[1])
FOLDERS = ("core", "nn", "examples", "tests", "docs/reference")
WORD = re.compile(r"[A-Za-z_]\w*")
COMMENT = {".cpp": "//", ".hpp": "//", ".js": "//", ".py": "#", ".sh": "#", ".cmake": "#", ".txt": "#", "": "#"}

# Names that a comment gives to something of its reader's.
OWN = {"MyDataset", "tour_3"}
# Files of other projects, and those that a program writes.
OTHERS = {"llama.cpp"}
FILE = re.compile(r"(?<![\w/.{}$*<>-])[\w./-]*\w\.(?:hpp|cpp|cmake)\b(?!\()")


def files():
    for folder in FOLDERS:
        for path in sorted((top / folder).rglob("*")):
            if path.is_file() and path.suffix in COMMENT and "golden" not in path.parts and "data" not in path.relative_to(top).parts[1:2]:
                yield path


def parts(path):
    """Code, and comments by line number."""
    mark, code, comments = COMMENT[path.suffix], [], []
    for number, line in enumerate(path.read_text(errors="replace").split("\n"), 1):
        at = line.find(mark) if mark == "#" else next((m.start() for m in re.finditer("//", line) if not line[:m.start()].endswith(":")), -1)
        code.append(line if at < 0 else line[:at])
        if at >= 0:
            comments.append((number, line[at:]))
    return "\n".join(code), comments


def names_of(comments):
    """(line, what stands between backquotes), also over the end of a line."""
    text, lines = "", []
    for number, comment in comments:
        text += re.sub(r"^[/#!<]+ ?", "", comment) + "\n"
        lines += [number] * (len(text) - len(lines))
    for match in re.finditer(r"`([^`\n]+(?:\n[^`\n]+)?)`", text):
        yield lines[match.start()], match[1]


known, prose = set(OWN), []
for path in files():
    code, comments = parts(path)
    known.update(WORD.findall(code))
    known.update(WORD.findall(path.stem))
    if path.suffix in (".cpp", ".hpp", ".js"):
        prose.append((path, comments))
for path in (top / "docs/from_pytorch.md", top / "CMakePresets.json"):
    known.update(WORD.findall(path.read_text()))

every = {path.relative_to(top).as_posix() for folder in FOLDERS for path in (top / folder).rglob("*")}
ends = {name[at:] for name in every for at in [0, *(m.end() for m in re.finditer("/", name))]}

count, missing = 0, []
for path, comments in prose:
    missing += [f"{path.relative_to(top)}:{line}: {name} is not there" for line, comment in comments
                for name in FILE.findall(comment) if name not in ends | OTHERS]
    for line, name in names_of(comments):
        count += 1
        wrong = [word for word in WORD.findall(re.sub(r'"[^"]*"', "", name)) if word not in known]
        if wrong:
            missing.append(f"{path.relative_to(top)}:{line}: `{name}`: {', '.join(wrong)} stands nowhere in the code")
if count < 100:
    missing.append(f"only {count} names were found")
print(*missing, sep="\n")
sys.exit(bool(missing))
