#!/usr/bin/env python3
"""Writes tokenizers/: small tokenizer.json files, one for each family of fit/nn/tokenizer/tokenizer.hpp, and 400 texts that are hard to
cut with the ids, the offsets (in bytes) and the decoded texts that Hugging Face's tokenizers give.

    pip install tokenizers==0.23.3 numpy && python3 tests/golden/tokenizer_files.py
    python3 tests/golden/tokenizer_files.py FOLDER COUNT   # the same with COUNT texts, for tests/long tokenizers
"""

import json
import pathlib
import random
import struct
import sys
import unicodedata

import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models as M, normalizers as N, pre_tokenizers as P
from tokenizers import processors as Post, trainers as T

here = pathlib.Path(__file__).parent
out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "tokenizers"
count = int(sys.argv[2]) if len(sys.argv) > 2 else 400
random.seed(7)
play = (here.parents[1] / "examples/data/tinyshakespeare.txt").read_text()[:200000]

words = play.split()
accents = "Éclair naïve café ÅNGSTRÖM ñandú İstanbul ISSıZ straße ǅungla ŐŰ Việt Nam ΣΊΣΥΦΟΣ ᾴ Ёлка йод Åå ﬁn e\u0301 a\u0323\u0302 q\u0307\u0323 ṩ s\u0323\u0307 Å \u212b Ω \u2126 한\u1112\u1161\u11ab \u0344 \u1e9b\u0323".split(" ")
scripts = "中文字符 漢字 日本語カタカナひらがな がぎぐ か\u3099 한국어 각 갂 สวัสดี नमस्ते क्षि العَرَبِيَّة שָׁלוֹם ქართული Հայ தமிழ் ௌ 𠀀𪜀 豈丽 𝔘𝔫𝔦 ꓐ ᏣᎳᎩ ꭰ".split()
signs = ["...", "—", "“quoted”", "¿qué?", "a_b", "x^2", "C++17", "$5.00", "50%", "e-mail@x.org", "#tag", "¡", "。", "、", "§", "°",
         "½", "²", "①", "Ⅻ", "٣٤", "१२", "𝟘", "3.14", "1,000", "1234567", "1st", "😀", "👩‍👩‍👧", "🇩🇪", "✓", "→", "\u200d", "\ufeff", "\u00ad", "\u203f"]
blanks = [" ", "  ", "   ", "\t", "\n", "\r\n", "\n\n", " \n ", "\u00a0", "\u2003", "\u3000", "\u2028", "\u0085", "\u1680", "\x0b", "\x1c", "▁", " ▁"]
controls = ["\0", "\x01", "\x7f", "\x80", "\ufffd", "\u202e", "\ue000", "\U000f0000", "\u0378", "\u0301", "\u0300\u0323", "\u1ab0", "\u302e", "\U0001d165"]
short = ["I'm", "don't", "we'll", "they've", "he'd", "you're", "it's", "IT'S", "I'M", "'ſ", "'K", "'t", "' s", "''re", "’s", "o'clock", "CamelCase", "McDonald's"]
special = ["[SEP]", "[CLS]", "[MASK]", "[UNK]", "[PAD]", "[sep]", "[MASK", "<|endoftext|>", "<|endoftext|", "<unk>", "<s>", "</s>", "<pad>", "<mask>",
           "##ing", "Ġ", "Ċ", "<0x41>", "<|im_start|>", "<|im_end|>", "<bos>", "wholeword", "wholewords", "Éa", "éa"]


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


texts = ["", " ", "\n", "a", "A", "a" * 101, "é" * 100 + " b", " leading", "trailing ", " ".join(words[:60]), "x " * 50, "." * 90,
         "\u0301", "e\u0301\u0323", "가" * 40, "   a   b   ", "a\n\n\nb", "\t\t1", " " * 70 + "x", "12345678901"]
for pool in (accents, scripts, signs, controls, short, special):
    texts += pool
while len(texts) < count:
    texts.append(hard())
texts = texts[:count]

corpus = [play] + accents * 5 + scripts * 5 + short * 5 + signs * 2
llama3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
qwen = llama3.replace("{1,3}", "")
o200k = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
deepseek = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"
            r"\s*[\r\n]+|\s+(?!\S)|\s+")
cl100k = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
          r"\s+(?!\S)|\s")
kimi = r"[\p{Han}]+|" + "|".join(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]%s(?i:'s|'t|'re|'ve|'m|'ll|'d)?" % tuple(ends)
    for ends in ("*+", "+*")) + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
end = AddedToken("<|endoftext|>", normalized=False, special=True)


def trained(model, trainer, normalizer=None, pre_tokenizer=None, decoder=None, added=()):
    tokenizer = Tokenizer(model)
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    if decoder:
        tokenizer.decoder = decoder
    tokenizer.train_from_iterator(corpus, trainer)
    for token in added:
        (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    return tokenizer


def byte_level(pre_tokenizer, normalizer=None, specials=(end,), added=(), **model):
    trainer = T.BpeTrainer(vocab_size=700, special_tokens=list(specials), initial_alphabet=P.ByteLevel.alphabet(), show_progress=False)
    return trained(M.BPE(**model), trainer, normalizer, pre_tokenizer, D.ByteLevel(), added)


def split(pattern, *before):
    return P.Sequence([*before, P.Split(Regex(pattern), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])


def sentence_pieces(normalizer, pre_tokenizer, decoder, specials=("<unk>", "<s>", "</s>")):
    bytes_ = [f"<0x{b:02X}>" for b in range(256)]
    trainer = T.BpeTrainer(vocab_size=900, special_tokens=[*specials, *bytes_], show_progress=False)
    small = [" ".join(play.split()[:20000]), *accents, *short]
    tokenizer = Tokenizer(M.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer, tokenizer.decoder = normalizer, decoder
    tokenizer.pre_tokenizer = P.Metaspace(prepend_scheme="always")  # for the training
    tokenizer.train_from_iterator(small, trainer)
    tokenizer.pre_tokenizer = pre_tokenizer
    data = json.loads(tokenizer.to_str())
    data["pre_tokenizer"] = data["pre_tokenizer"] if pre_tokenizer else None
    data["added_tokens"] = [t for t in data["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(data))


def gpt2():
    tokenizer = byte_level(P.ByteLevel(add_prefix_space=False), added=[
        AddedToken("wholeword", single_word=True, normalized=True), AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer.post_processor = Post.ByteLevel(trim_offsets=False)
    return tokenizer


def llama_3():
    bos = AddedToken("<|begin_of_text|>", special=True, normalized=False)
    tokenizer = byte_level(split(llama3), specials=(bos, end), ignore_merges=True)
    tokenizer.post_processor = Post.Sequence([Post.ByteLevel(trim_offsets=True), Post.TemplateProcessing(
        single="<|begin_of_text|> $A", pair="<|begin_of_text|> $A <|begin_of_text|> $B", special_tokens=[("<|begin_of_text|>", 0)])])
    return tokenizer


def qwen2():
    tokenizer = byte_level(split(qwen), N.NFC(), added=[AddedToken(t, special=True, normalized=False) for t in ("<|im_start|>", "<|im_end|>")])
    tokenizer.post_processor = Post.ByteLevel(trim_offsets=False, add_prefix_space=False)
    return tokenizer


def roberta():
    specials = [AddedToken(t, special=True, normalized=False) for t in ("<s>", "<pad>", "</s>", "<unk>")]
    tokenizer = byte_level(P.ByteLevel(add_prefix_space=True), specials=specials,
                           added=[AddedToken("<mask>", lstrip=True, special=True, normalized=False)])
    tokenizer.post_processor = Post.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=True)
    return tokenizer


def bert(**options):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = T.WordPieceTrainer(vocab_size=900, special_tokens=specials, limit_alphabet=200, show_progress=False)
    tokenizer = trained(M.WordPiece(unk_token="[UNK]"), trainer, N.BertNormalizer(**options), P.BertPreTokenizer(), D.WordPiece())
    tokenizer.post_processor = Post.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                       special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def unigram(**options):
    trainer = T.UnigramTrainer(vocab_size=500, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
    tokenizer = trained(M.Unigram(), trainer, N.Sequence([N.Replace(Regex(" {2,}"), " "), N.Strip()]), P.Metaspace(**options), D.Metaspace(**options))
    tokenizer.post_processor = Post.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def double_array(keys):
    """The units of SentencePiece's trie: offset << 10, has a value << 8, byte; or 1 << 31, value."""
    root = {}
    for key, value in keys.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[-1] = value
    units, taken, bases = {}, {0}, set()

    def place(node, at, byte):
        children = [max(child, 0) for child in node]
        offset = next(o for o in range(1, 1 << 21) if at ^ o not in bases and not any(at ^ o ^ c in taken for c in children))
        base = at ^ offset
        bases.add(base)
        taken.update(base ^ c for c in children)
        units[at] = offset << 10 | (-1 in node) << 8 | byte
        for child, inner in node.items():
            if child < 0:
                units[base] = 1 << 31 | inner
            else:
                place(inner, base ^ child, child)

    place(root, 0, 0)
    return [units.get(i, 0) for i in range((max(taken) // 256 + 1) * 256)]


def precompiled(rules):
    texts, keys = b"", {}
    for text, to in rules.items():
        keys[text.encode()] = len(texts)
        texts += to.encode() + b"\0"
    units = double_array(keys)
    return N.Precompiled(struct.pack(f"<{len(units) + 1}I", 4 * len(units), *units) + texts)


def small_charsmap():
    """Some of nmt_nfkc, with clusters of several characters, and A to a, which takes the marks behind it away."""
    rules = {c: unicodedata.normalize("NFKC", c) for text in texts for c in text if unicodedata.normalize("NFKC", c) != c}
    rules.update({unicodedata.normalize("NFD", c): c for c in "éèñ가각が"})
    rules.update({c: " " for c in "\t\n\r\u200d\u2028\ufeff\u3000\u00a0\u2003"})
    rules.update({c: "" for c in "\x01\x7f\u00ad\u202e"})
    return precompiled({**rules, "\r\n": " ", "A": "a", "Aa": "b", "😀": ":-)"})


def xlm_r(normalizer):
    tokenizer = unigram(prepend_scheme="always", replacement="▁")
    tokenizer.normalizer = normalizer()
    return tokenizer


llama_2_decoder = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
families = {
    "gpt2": gpt2,
    "gpt_neox": lambda: byte_level(P.ByteLevel(add_prefix_space=False), N.NFC(), added=[AddedToken("éa", normalized=True)]),
    "smollm": lambda: byte_level(P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False)])),
    "llama_3": llama_3,
    "qwen2": qwen2,
    "o200k": lambda: byte_level(split(o200k)),
    "deepseek": lambda: byte_level(split(deepseek, P.Split(Regex(r"\p{N}{1,3}"), "isolated"), P.Split(Regex("[一-龥぀-ゟ゠-ヿ]+"), "isolated"))),
    "cl100k": lambda: byte_level(split(cl100k)),
    "kimi": lambda: byte_level(split(kimi)),
    "roberta": roberta,
    "llama_2": lambda: sentence_pieces(N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None, llama_2_decoder),
    "mistral": lambda: sentence_pieces(None, P.Metaspace(prepend_scheme="first", split=False), llama_2_decoder),
    "gemma": lambda: sentence_pieces(N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"),
                                     D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), ("<unk>", "<bos>", "<pad>")),
    "bert": lambda: bert(lowercase=True),
    "bert_cased": lambda: bert(lowercase=False),
    "unigram": lambda: unigram(prepend_scheme="always"),
    "xlm_r": lambda: xlm_r(lambda: N.Sequence([small_charsmap(), N.Replace(Regex(" {2,}"), " ")])),
    "albert": lambda: xlm_r(lambda: N.Sequence([N.Replace("``", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), small_charsmap()])),
    "t5": lambda: xlm_r(lambda: N.Sequence([N.Nmt(), N.NFKC(), N.Replace(Regex(" {2,}"), " "), N.Prepend("▁")])),
    "plain": lambda: trained(M.BPE(unk_token="[UNK]", continuing_subword_prefix="##", end_of_word_suffix="</w>"),
                             T.BpeTrainer(vocab_size=500, special_tokens=["[UNK]"], continuing_subword_prefix="##", end_of_word_suffix="</w>", limit_alphabet=100, show_progress=False),
                             N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase()]), P.Sequence([P.Whitespace(), P.Punctuation()]), D.BPEDecoder()),
}
out.mkdir(parents=True, exist_ok=True)
arrays = {}


def add(name, rows, kind):
    arrays[name] = np.concatenate([np.asarray(row, kind) for row in rows])
    arrays[name + "_ends"] = np.cumsum([len(row) for row in rows]).astype(np.int32)


def byte_offsets(text, offsets):
    at = np.cumsum([0] + [len(c.encode()) for c in text])
    return [int(at[min(i, len(text))]) for pair in offsets for i in pair]


add("text", [np.frombuffer(text.encode(), np.uint8) for text in texts], np.uint8)
for name, make in families.items():
    tokenizer = make()
    tokenizer.save(str(out / f"{name}.json"), pretty=False)
    encodings = [tokenizer.encode(text) for text in texts]
    add(name, [e.ids for e in encodings], np.int32)
    add(name + "/offsets", [byte_offsets(t, e.offsets) for t, e in zip(texts, encodings)], np.int32)
    add(name + "/decoded", [np.frombuffer(tokenizer.decode(e.ids).encode(), np.uint8) for e in encodings], np.uint8)
np.savez_compressed(out / "texts.npz", **arrays)
print({name: len(a) for name, a in arrays.items() if "_ends" not in name}, (out / "texts.npz").stat().st_size)
