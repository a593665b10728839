#!/usr/bin/env python3
"""Writes *_tables.cpp: what Hugging Face's tokenizers know of each character: classes, lower case, normal forms.

    pip install tokenizers==0.23.3 && python3 nn/unicode/characters.py

The Unicode version is then that of the reference, character for character; its parts have different ones.
"""

import pathlib
import unicodedata

import tokenizers
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
points = [p for p in range(0x110000) if not 0xD800 <= p < 0xE000]
chunks = [points[i : i + 4000] for i in range(0, len(points), 4000)]


def mapped(normalizer, before=""):
    """What each character becomes behind `before`, where it changes."""
    found = {}
    for chunk in chunks:
        parts = normalizer.normalize_str("|".join(before + chr(p) for p in chunk if p != 0x7C)).split("|")
        chunk = [p for p in chunk if p != 0x7C]
        assert len(parts) == len(chunk)
        found.update({p: part for p, part in zip(chunk, parts) if part != before + chr(p)})
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


# Classes of GPT-2's pattern: what a character is joined with. A space goes with the word behind it.
gpt2_words, letters, numbers, spaces = P.ByteLevel(add_prefix_space=False, use_regex=True), set(), set(), {ord(" ")}
for p in points:
    c = chr(p)
    parts = parts_of(gpt2_words, f"a{c}1")
    if p in spaces:
        continue
    if parts == [(0, 2), (2, 3)]:
        letters.add(p)
    elif parts == [(0, 1), (1, 3)]:
        numbers.add(p)
    elif len(parts_of(gpt2_words, f"a{c}{c}a")) == 4:
        spaces.add(p)


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
    "letters": ranges(letters),
    "numbers": ranges(numbers),
    "spaces": ranges(spaces),
    "punctuation": ranges(between_letters(P.BertPreTokenizer(), 3)),
}
for name in "M P S Lu Ll Lt Lm Nd".split():  # the others are those of GPT-2, or follow
    tables["category_" + name] = ranges(category(name))
tables["regex_word"] = ranges(split_set(P.Split(Regex(r"\w"), "removed")))


def lines(words, width=118):
    line = " "
    for word in words:
        if len(line) + len(word) + 1 > width:
            yield line
            line = " "
        line += " " + word
    yield line


forms = ["decompositions", "combining_classes", "compositions"]
for header, names in {"normal_forms": forms, "characters": [name for name in tables if name not in forms]}.items():
    out = ["// Generated by characters.py, which explains the format.", "// clang-format off",
           f'#include "unicode/{header}.hpp"', "", "namespace fit::unicode::tables {"]
    for name in names:
        out += ["", f"const std::int32_t {name}_numbers[] = {{", *lines([f"{number}," for number in tables[name]]), "};",
                f"const Table {name} = {{{name}_numbers, {len(tables[name])}}};"]
    out += ["", "}  // namespace fit::unicode::tables", ""]
    (pathlib.Path(__file__).parent / f"{header}_tables.cpp").write_text("\n".join(out))
