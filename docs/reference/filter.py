#!/usr/bin/env python3
"""filter.py FILE: what doxygen reads in place of FILE.

Headers: a comment documents all declarations that follow it, up to the next comment or an empty line; that of a class
its constructors and data members without one, too; `// ---- a section: what holds for all of it` counts as a comment,
and `// shape` behind a declaration. Doxygen knows one comment for one declaration only, so it is repeated. Lines keep
their numbers. `FIT_OPTION(Type, name) = x;` is shown as the setter, `Struct& name(Type value);`, with its default.
Pages: headings get the names by which links find them."""
import pathlib
import re
import sys

COMPOUND = re.compile(r"(template <.*> )?(class|struct|union) (\w+)[^;]*\{$")
SILENT = re.compile(
    r"using [\w:]+::[\w~()]+;|using namespace|friend class|static_assert|(virtual )?~|(class|struct) \w+;|FIT_FIELDS|"
    r"namespace|(public|private|protected):|\}")


def words(block):
    """The text of a comment's lines on one line, up to its first code."""
    text = []
    for line in block:
        line = re.sub(r"^\s*//[/!]? ?", "", line)
        if line.startswith("    "):
            break
        text.append(line.strip() or "<br>")
    return re.sub(r"(<br> ?)+$", "", " ".join(text)).strip()


def section(text):
    """What a section's title says of all of it; nothing if it is a title only."""
    text = text.strip("- ")
    return text[0].upper() + text[1:] if re.search(r"[:.;]( |$)", text) else ""


def is_own(code, name):
    """Whether a member is data, or a constructor of this class."""
    head = re.split(r"[={]|///<", code, maxsplit=1)[0]
    return "(" not in head.replace("operator()", "") or re.match(rf"(explicit )?{name}\(", code)


def separate(code):
    """`Tensor u, s;` as `Tensor u; Tensor s;`: doxygen gives one comment to one of them."""
    parts, depth = [""], 0
    for letter in code.rstrip(";"):
        depth += {"<": 1, "(": 1, "{": 1, "[": 1, ">": -1, ")": -1, "}": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    kind = re.match(r"(.*?[\w>]) [*&]?\w+(\[.*\])?( *=.*)?$", parts[0])
    return [parts[0] + ";"] + [f"{kind[1]} {part.strip()};" for part in parts[1:]] if kind else [code]


OPTION = re.compile(r"FIT_OPTION\((.*), (\w+)\)(?: = (.*?))?;(?:\s*///< (.*))?$")


def with_default(text, default):
    """A comment with the default of an option behind it."""
    return f"{text} Default: `{default}`." if default else text


def setters(lines):
    """Options as the calls that set them."""
    out, struct, inherited = [], "", False
    for line in lines:
        compound = COMPOUND.match(line)
        struct = compound[3] if compound else struct
        option = OPTION.match(line.strip())
        inherited = inherited or line.strip().startswith("FIT_INHERITED_OPTIONS(")
        if option:
            kind, name, default, remark = option.groups()
            line = f"  {struct}& {name}({kind} value);"
            if remark:
                line += "  ///< " + with_default(remark, default)
            elif out[-1].strip().startswith("///"):
                out[-1] = with_default(out[-1], default)
        elif inherited:
            inherited = ")" not in line
            line = ""
        out.append(line)
    return out


def header(lines):
    out, block, statement = [], [], []
    doc, own, general, body = "", False, False, None
    about = {}  # of the class whose members have this indentation: its comment, its name
    for line in lines:
        bare = line.strip()
        if body is not None:  # of a function, or the list of an enum
            inside = not bare or line.startswith((body + " ", body + "}"))
            if line.startswith(body + "}") or not inside:
                body = None
            if inside:
                out.append(line)
                continue
        if not statement and bare.startswith("//"):
            block.append(line)
            out.append(line)
            continue
        if not statement and (not bare or bare.startswith("#")):
            doc, block = "", []
            out.append(line)
            continue
        if not statement:
            own = bool(block) and block[-1].strip().startswith("///")
            if block:
                doc = words([c for c in block if "///" in c]) if own else section(words(block))
                general = not own
            if bare.startswith("namespace"):
                if own:  # it is the comment of the file
                    out[-len(block)] = out[-len(block)].replace("///", "/// @filedoc", 1)
                doc = ""
            block = []
        line = re.sub(r"([;,{}]\s+)// (.*)$", r"\1///< \2", line)
        statement.append(len(out))
        out.append(line)
        end = re.sub(r"\s*//.*$", "", line).rstrip()
        if not (end.endswith((";", "{", "}", ":")) or bare.startswith("FIT_FIELDS") and end.endswith((")", "DECLARED"))):
            continue
        first = statement[0]
        whole = " ".join(out[i].strip() for i in statement)
        indent = re.match(r"\s*", out[first])[0]
        statement = []
        code, _, remark = whole.partition("  ///< ")
        compound = COMPOUND.match(re.sub(r"\s*//.*$", "", whole))
        if compound:
            about[indent + "  "] = (doc, compound[3])
        if "= delete" in whole:
            out[first:] = [""] * (len(out) - first)
        elif not (SILENT.match(whole) or re.search(r"\) (const )?(noexcept )?override\b", whole)):
            of_class, name = about.get(indent, ("", ""))
            text = remark or doc or (of_class if is_own(code, name) else "")
            parts = separate(code) if is_own(code, "?") and end.endswith(";") else [whole]
            if text and (len(parts) > 1 or remark and code.startswith("enum") or not (own or remark)):
                parts = parts if len(parts) > 1 else [out[first].strip()]
                out[first] = indent + " ".join(f"/** {text} */ {part}" for part in parts)
                if len(parts) > 1:
                    out[first + 1:] = [""] * (len(out) - first - 1)
        if remark and not general or whole.startswith("}"):
            doc = ""  # what follows is another thing
        own = False
        if end.endswith("{") and not compound and not whole.startswith(("namespace", "inline namespace")):
            body = indent
    return out


def anchor(title):
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def page(path, lines):
    code = False
    for line in lines:
        if line.startswith("```"):
            code = not code
        if not code:
            line = re.sub(r"^(##+ )(.*)$", lambda m: f"{m[1]}{m[2]} {{#{path.stem}-{anchor(m[2])}}}", line)
            line = re.sub(r"\]\(#([\w-]+)\)", rf"](#{path.stem}-\1)", line)
            line = re.sub(r"\]\((?:[\w.]+/)*(\w+)\.md#([\w-]+)\)", r"](#\1-\2)", line)
            # site.py shows the dark picture on dark pages.
            line = re.sub(r'<picture><source [^>]*><img src="([^"]*)" alt="([^"]*)"></picture>', r"![\2](\1)", line)
            line = re.sub(r"\[(!\[[^]]*\]\([^)]*\))\]\([^)]*\)", r"\1", line)  # site.py links pictures to live pages
            line = re.sub(r"\]\((?:docs/|\.\./)?images/", "](", line)
            line = re.sub(r"\[`([^`\]]+)`\]\(", r"[\1](", line)  # in a link's text, doxygen shows the marks of code
            line = re.sub(r"\]\((?:\.\./)*(?:core|nn|dist)/include/(fit/[\w/]+\.hpp)\)", r"](@ref \1)", line)
        yield line


path = pathlib.Path(sys.argv[1])
lines = path.read_text().split("\n")
text = "\n".join(header(setters(lines)) if path.suffix == ".hpp" else page(path, lines))
# A sentence, the first of which stands in the lists, doesn't end there.
sys.stdout.write(re.sub(r"\bet al\.(?= )", r"et al.\\", text) if path.suffix == ".hpp" else text)
