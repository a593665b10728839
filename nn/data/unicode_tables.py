#!/usr/bin/env python3
"""Writes unicode_tables.cpp: what Hugging Face's tokenizers do with each character, asked of them one by one.

    pip install tokenizers==0.23.3 && python3 nn/data/unicode_tables.py

It takes some minutes. The Unicode version is then that of the reference, character for character.
"""

import pathlib
import unicodedata

import tokenizers
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer, ByteLevel

assert tokenizers.__version__ == "0.23.3", tokenizers.__version__
bert = BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
plain = BertNormalizer(clean_text=True, handle_chinese_chars=False, strip_accents=None, lowercase=True)
bert_words, gpt2_words = BertPreTokenizer(), ByteLevel(add_prefix_space=False, use_regex=True)

letters, numbers, spaces, punctuation, chinese, gone, blank, mapped = set(), set(), set(), set(), set(), set(), set(), {}
for point in range(0x110000):
    if 0xD800 <= point < 0xE000:
        continue
    c = chr(point)
    spans = [span for _, span in gpt2_words.pre_tokenize_str(f"a{c}1")]
    if c == " ":  # which goes with the word behind it
        spaces.add(point)
    elif spans == [(0, 2), (2, 3)]:
        letters.add(point)
    elif spans == [(0, 1), (1, 3)]:
        numbers.add(point)
    elif len(gpt2_words.pre_tokenize_str(f"a{c}{c}a")) == 4:
        spaces.add(point)
    if len(bert_words.pre_tokenize_str(f"a{c}a")) == 3:
        punctuation.add(point)
    text = plain.normalize_str(c)
    if bert.normalize_str(c) != text:
        assert bert.normalize_str(c) == f" {text} "
        chinese.add(point)
    if text == "":
        gone.add(point)
    elif text == " ":
        blank.add(point)
    elif 0xAC00 <= point < 0xD7A4:  # Hangul is taken apart by arithmetic
        assert text == unicodedata.normalize("NFD", c)
    elif text != c:
        mapped[point] = text


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
    found = []  # first, count, step, image, step of the images
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


several = [[point, len(text), *map(ord, text)] for point, text in mapped.items() if len(text) > 1]
tables = {
    "letters": ranges(letters),
    "numbers": ranges(numbers),
    "spaces": ranges(spaces),
    "punctuation": ranges(punctuation),
    "chinese": ranges(chinese),
    "gone": ranges(gone),
    "blank": ranges(blank),
    "single": runs({point: ord(text) for point, text in mapped.items() if len(text) == 1}),
    "several": [number for row in several for number in row],
}


def lines(words, width=118):
    line = " "
    for word in words:
        if len(line) + len(word) + 1 > width:
            yield line
            line = " "
        line += " " + word
    yield line


out = [
    "// Written by unicode_tables.py, which says what the numbers are.",
    "// clang-format off",
    '#include "data/unicode.hpp"',
    "",
    "namespace fit::unicode::tables {",
]
for name, numbers in tables.items():
    out += ["", f"const std::vector<std::int32_t> {name} = {{"]
    out += lines([f"{number}," for number in numbers])
    out += ["};"]
out += ["", "}  // namespace fit::unicode::tables", ""]
(pathlib.Path(__file__).parent / "unicode_tables.cpp").write_text("\n".join(out))
