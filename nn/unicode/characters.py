#!/usr/bin/env python3
"""Writes *_tables.cpp: what Hugging Face's tokenizers know of each character: classes, lower case, normal forms.

    pip install tokenizers==0.23.3 && python3 nn/unicode/characters.py

The Unicode version is then that of the reference, character for character; its parts have different ones.
"""

import pathlib
import struct
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
points = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
chunks = [points[i : i + 4000] for i in range(0, len(points), 4000)]


def mapped(normalizer, before="", behind="", bar="|"):
    """What each character becomes between `before` and `behind`, where it changes. Nothing else becomes `bar`."""
    found = {}
    for chunk in chunks:
        chunk = [p for p in chunk if p != ord(bar)]
        parts = normalizer.normalize_str(bar.join(before + chr(p) + behind for p in chunk)).split(bar)
        assert len(parts) == len(chunk)
        found.update({p: part for p, part in zip(chunk, parts) if part != before + chr(p) + behind})
    return found


def split_set(pre_tokenizer):
    """The characters that a pre-tokenizer removes."""
    found = set()
    for chunk in chunks:
        kept = [False] * len(chunk)
        for _, (begin, end) in pre_tokenizer.pre_tokenize_str("".join(map(chr, chunk))):
            for i in range(begin, end):
                kept[i] = True
        found.update(p for p, k in zip(chunk, kept) if not k)
    return found


def category(name):
    return split_set(P.Split(Regex(rf"\p{{{name}}}"), "removed"))


hangul = range(0xAC00, 0xD7A4)
nfd, nfc = mapped(N.NFD()), mapped(N.NFC())
for p in hangul:
    assert nfd.pop(p) == unicodedata.normalize("NFD", chr(p))
nfkd = mapped(N.NFKD(), bar="\ue000")
compatible = {p: t for p, t in nfkd.items() if p not in hangul and nfd.get(p) != t}
lower = mapped(N.Lowercase())
plain = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
cleaned = mapped(N.BertNormalizer(**{**plain, "clean_text": True}))
stripped = mapped(N.BertNormalizer(**{**plain, "strip_accents": True}))
accents = mapped(N.StripAccents())

# Canonical combining classes: of Python's, those by which the reference sorts. U+0334 has class 1, U+0345 has 240.
classes = {}
order = N.NFD()
for p in points:
    own = unicodedata.combining(chr(p))
    c = nfd.get(p, chr(p))
    if len(c) != 1:
        continue
    sorts = order.normalize_str(chr(p) + "\u0334") == "\u0334" + c or order.normalize_str("\u0345" + chr(p)) == c + "\u0345"
    if own and sorts:
        classes[p] = own
    else:
        assert not sorts, hex(p)
assert order.normalize_str("\u0301\u0334") == "\u0334\u0301"

# Pairs that compose.
pairs = []
for p in nfd:
    decomposition = unicodedata.decomposition(chr(p)).split()
    if len(decomposition) == 2 and not decomposition[0].startswith("<") and p not in nfc:
        first, second = (int(x, 16) for x in decomposition)
        if N.NFC().normalize_str(chr(first) + chr(second)) == chr(p):
            pairs.append((first, second, p))

assert all(t in ("", " ") for t in cleaned.values())


def parts_of(pre_tokenizer, text):
    return [span for _, span in pre_tokenizer.pre_tokenize_str(text)]


# The general categories: each character has one.
category_names = "Cn Cc Cf Co Cs Ll Lm Lo Lt Lu Mc Me Mn Nd Nl No Pc Pd Pe Pf Pi Po Ps Sc Sk Sm So Zl Zp Zs".split()
category_of = dict.fromkeys(range(0xD800, 0xE000), category_names.index("Cs"))
for index, name in enumerate(category_names):
    for p in category(name):
        assert p not in category_of
        category_of[p] = index
assert len(category_of) == 0x110000
# Runs: 32 times how many, and the index of their category.
category_runs, end = [], None
for p in range(0x110000):
    if end == category_of[p]:
        category_runs[-1] += 32
    else:
        category_runs.append(32 + category_of[p])
    end = category_of[p]

scripts = ("Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Georgian Greek Han Hangul Hebrew Hiragana Katakana Khmer Lao "
           "Latin Tamil Telugu Thai").split()


def clusters_become_z(first_bytes):
    """The normalizer Precompiled with a double array of one level: a grapheme cluster of up to five bytes that begins with
    one of these becomes "Z" as a whole."""
    units, leaf, children = [0] * 512, 1, 256
    units[0] = children << 10
    for byte in first_bytes:
        units[children ^ byte] = (children ^ byte ^ leaf) << 10 | 1 << 8 | byte
    units[leaf] = 1 << 31  # the place of "Z" in the texts
    return N.Precompiled(struct.pack("<513I", 4 * 512, *units) + b"Z\0")


# What joins two neighbours in a cluster, if they have up to five bytes.
joined = {p for p, t in mapped(clusters_become_z([ord("a")]), "a").items() if t == "Z"}
prepended = {p for p, t in mapped(clusters_become_z(range(0x80, 0x100)), "", "a").items() if t == "Z"}
alone = mapped(clusters_become_z(set(range(1, 0x100)) - {ord("|")}), "", "\u0301")
alone = {p for p, t in alone.items() if t == "ZZ" and p < 0x10000 and p not in joined}


def between_letters(pre_tokenizer, parts):
    """The characters that make a text of so many parts between two letters."""
    return {p for p in points if len(parts_of(pre_tokenizer, f"a{chr(p)}a")) == parts}


def ranges(points):
    """Pairs: from the end of the one before to the beginning, and how many."""
    numbers, end = [], 0
    for point in sorted(points):
        if numbers and point == end:
            numbers[-1] += 1
        else:
            numbers += [point - end, 1]
        end = point + 1
    return numbers


def runs(single):
    """Of five: from the first of the one before to the first, how many, their step, from it to its image, the images' step."""
    found = []
    for point in sorted(single):
        image = single[point]
        if found:
            first, count, step, to, to_step = found[-1]
            if count == 1 and point - first <= 2:
                found[-1] = [first, 2, point - first, to, image - to]
                continue
            if count > 1 and (point, image) == (first + count * step, to + count * to_step):
                found[-1][1] += 1
                continue
        found.append([point, 1, 0, image, 0])
    numbers, before = [], 0
    for first, count, step, to, to_step in found:
        numbers += [first - before, count, step, to - first, to_step]
        before = first
    return numbers


def rows(mapping):
    """The character, how many it becomes, and these."""
    return [number for p in sorted(mapping) for number in (p, len(mapping[p]), *map(ord, mapping[p]))]


# Runs: distance to the first, how many, their class.
class_runs, end = [], 0
for p in sorted(classes):
    if class_runs and p == end and class_runs[-1] == classes[p]:
        class_runs[-2] += 1
    else:
        class_runs += [p - end, 1, classes[p]]
    end = p + 1

tables = {
    "compatible": runs({p: ord(t) for p, t in compatible.items() if len(t) == 1}),
    "compatible_several": rows({p: t for p, t in compatible.items() if len(t) > 1}),
    "decompositions": rows(nfd),
    "combining_classes": class_runs,
    "compositions": [number for pair in pairs for number in pair],
    "lower_case": runs({p: ord(t) for p, t in lower.items() if len(t) == 1}),
    "lower_case_several": rows({p: t for p, t in lower.items() if len(t) > 1}),
    "control": ranges(p for p, t in cleaned.items() if t == ""),
    "nonspacing": ranges(p for p, t in stripped.items() if t == ""),
    "combining": ranges(p for p, t in accents.items() if t == ""),
    "numeric": ranges(set(points) - between_letters(P.Digits(individual_digits=True), 1)),
    "word": ranges(between_letters(P.Whitespace(), 1)),
    "grapheme_extends": ranges(joined),
    "grapheme_prepends": ranges(prepended),
    "grapheme_controls": ranges(alone),
    "letters": ranges(category("L")),
    "numbers": ranges(category("N")),
    "spaces": ranges(split_set(P.Split(Regex(r"\s"), "removed"))),
    "punctuation": ranges(between_letters(P.BertPreTokenizer(), 3)),
}
tables["categories"] = category_runs
tables["regex_word"] = ranges(split_set(P.Split(Regex(r"\w"), "removed")))


def lines(words, width=118):
    line = " "
    for word in words:
        if len(line) + len(word) + 1 > width:
            yield line
            line = " "
        line += " " + word
    yield line


def array(name, numbers):
    return ["", f"const std::int32_t {name}_numbers[] = {{", *lines([f"{number}," for number in numbers]), "};"]


def table(name):
    return [*array(name, tables[name]), f"const Table {name} = {{{name}_numbers, {len(tables[name])}}};"]


def named_sets():
    """The names of the categories, two letters each, and the scripts."""
    out = ["", f'const char category_names[] = "{"".join(category_names)}";']
    numbers = {name: ranges(category(name)) for name in scripts}
    for name in scripts:
        out += array("script_" + name, numbers[name])
    return [*out, "", "const Script scripts[] = {",
            *(f'  {{"{name}", {{script_{name}_numbers, {len(numbers[name])}}}}},' for name in scripts), "};",
            f"const std::size_t number_of_scripts = {len(scripts)};"]


def write(file, header, out):
    out = ["// Generated by characters.py, which explains the format.", "// clang-format off",
           f'#include "unicode/{header}.hpp"', "", "namespace fit::unicode::tables {", *out,
           "", "}  // namespace fit::unicode::tables", ""]
    (pathlib.Path(__file__).parent / f"{file}_tables.cpp").write_text("\n".join(out))


forms, compatible_forms = ["decompositions", "combining_classes", "compositions"], ["compatible", "compatible_several"]
characters = [name for name in tables if name not in [*forms, *compatible_forms, "categories"]]
for file, header, names in (("normal_forms", "normal_forms", forms), ("compatible_forms", "normal_forms", compatible_forms),
                            ("characters", "characters", characters)):
    write(file, header, sum(map(table, names), []))
write("properties", "characters", table("categories") + named_sets())
