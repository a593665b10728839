#!/usr/bin/env python3
"""corpus.py: writes the files that fuzzing and the tests begin with, good ones and hostile ones, each named after what is
wrong with it, to tests/fuzz/corpus."""
import base64
import gzip
import io
import json
import pathlib
import struct
import zipfile

TOP = pathlib.Path(__file__).resolve().parent / "corpus"


def put(target, name, data):
    folder = TOP / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def safe(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(shape, begin, end, dtype="F32"):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


four = struct.pack("<4f", 1, 2, 3, 4)
files = {
    "ok": safe({"a": entry([2], 0, 8), "b": entry([2], 8, 16)}, four),
    "ok_metadata": safe({"__metadata__": {"k": "v"}, "a": entry([1], 0, 4)}, four[:4]),
    "ok_scalar": safe({"a": entry([], 0, 4)}, four[:4]),
    "ok_empty_tensor": safe({"a": entry([0, 3], 0, 0)}),
    "ok_bool": safe({"a": entry([2], 0, 2, "BOOL")}, b"\1\0"),
    "ok_half": safe({"a": entry([2], 0, 4, "F16"), "b": entry([1], 4, 6, "BF16")}, b"\0\x3c\0\x40\x80\x3f"),
    "nothing": b"",
    "seven_bytes": b"\2\0\0\0\0\0\0",
    "length_2_63": safe("{}", length=1 << 63),
    "length_all_ones": safe("{}", length=(1 << 64) - 1),
    "length_past_end": safe("{}", length=100),
    "length_100_mb": safe("{}", length=100_000_000),
    "offsets_not_shape": safe({"a": entry([4], 0, 8)}, four),
    "offsets_past_end": safe({"a": entry([1000000], 0, 4000000)}, four),
    "offsets_swapped": safe({"a": entry([1], 4, 0)}, four),
    "offsets_wrap": safe({"a": entry([1], (1 << 64) - 4, 0)}, four),
    "offsets_text": safe('{"a":{"dtype":"F32","shape":[1],"data_offsets":["0","4"]}}', four[:4]),
    "hole": safe({"a": entry([1], 0, 4), "b": entry([1], 8, 12)}, four),
    "overlap": safe({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}, four),
    "same_bytes_often": safe({f"t{i}": entry([4], 0, 16) for i in range(40)}, four),
    "extra_bytes": safe({"a": entry([1], 0, 4)}, four),
    "shape_wraps": safe({"a": entry([1 << 32, 1 << 32], 0, 0)}),
    "shape_wraps_with_zero": safe({"a": entry([1 << 62, 4, 0], 0, 0)}),
    "shape_negative": safe({"a": entry([-1], 0, 4)}, four[:4]),
    "shape_fraction": safe('{"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}}', four[:4]),
    "shape_many_axes": safe({"a": entry([1] * 200, 0, 4)}, four[:4]),
    "key_twice": safe('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},'
                      '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}', four[:4]),
    "field_twice": safe('{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', four[:4]),
    "field_more": safe('{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}', four[:4]),
    "type_unknown": safe({"a": entry([1], 0, 1, "F8_E4M3")}, b"\0"),
    "metadata_number": safe('{"__metadata__":{"k":1}}'),
    "metadata_list": safe('{"__metadata__":[]}'),
    "deep": safe("[" * 3000),
    "deep_object": safe('{"a":' * 2000),
    "not_utf8": safe(b'{"\xff":1}'),
    "not_json": safe("{'a':1}"),
    "text_after": safe('{} x'),
    "list": safe("[]"),
    "ok_name_like_a_path": safe({"../../x": entry([1], 0, 4)}, four[:4]),
    "name_control": safe({"a\n\u0000": entry([1], 0, 4)}, four[:4]),
    "pickle": b"\x80\x02}q\x00.",
    "index": b'{"weight_map": {"a": "../x", "b": "/dev/zero"}}',
}
for name, data in files.items():
    put("safetensors", name, data)


def npy(header, data=b"", version=1, length=None):
    text = (header if isinstance(header, bytes) else header.encode()) + b"\n"
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + text + data


def descr(t, shape, order="False"):
    return f"{{'descr': '{t}', 'fortran_order': {order}, 'shape': {shape}, }}"


for name, data in {
    "ok": npy(descr("<f4", "(4,)"), four),
    "ok_order": npy(descr("<f4", "(2, 2)", "True"), four),
    "big_endian": npy(descr(">f8", "(1,)"), struct.pack(">d", 1)),
    "ok_bool": npy(descr("|b1", "(2,)"), b"\1\0"),
    "ok_scalar": npy(descr("<i8", "()"), bytes(8)),
    "ok_version_2": npy(descr("<f4", "(4,)"), four, version=2),
    "length_past_end": npy(descr("<f4", "(4,)"), four, length=65535),
    "length_4_gb": npy(descr("<f4", "(4,)"), four, version=2, length=0xFFFFFFFF),
    "length_0": npy(descr("<f4", "(4,)"), four, length=0),
    "shape_huge": npy(descr("<f4", "(99999999999, 99999999999)"), four),
    "shape_wraps": npy(descr("<f4", "(4294967296, 4294967296)")),
    "shape_negative": npy(descr("<f4", "(-4,)"), four),
    "shape_text": npy(descr("<f4", "('a',)"), four),
    "shape_cut": npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4", four),
    "no_comma": npy(descr("<f4", "(4)"), four),
    "objects": npy(descr("|O", "(1,)"), b"\x80\x02K\x01."),
    "fields": npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", four[:4]),
    "strings": npy(descr("<U1000000000", "(1,)"), four),
    "data_short": npy(descr("<f4", "(5,)"), four),
    "data_long": npy(descr("<f4", "(3,)"), four),
    "version_9": npy(descr("<f4", "(4,)"), four, version=9),
    "brackets": npy("((((((((((((((((((((((((((((((((", four),
    "magic": b"NUMPY",
    "nothing": b"",
}.items():
    put("npy", name, data)


def archive(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name, data in members.items():
            z.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data, method)
    return out.getvalue()


one = npy(descr("<f4", "(4,)"), four)
zeros = npy(descr("<f4", "(250000,)"), bytes(1000000))
stored = archive({"a.npy": one, "b.npy": one})
for name, data in {
    "ok": stored,
    "ok_deflated": archive({"a.npy": one}, zipfile.ZIP_DEFLATED),
    "ok_dense": archive({"a.npy": zeros}, zipfile.ZIP_DEFLATED),
    "empty": archive({}),
    "wrong_checksum": stored.replace(four, four[::-1], 1),
    "cut": stored[:-30],
    "bomb": archive({"a.npy": npy(descr("<f4", "(4,)"), bytes(3000000))}, zipfile.ZIP_DEFLATED),
    "name_twice": archive({"a.npy": one}) + archive({"a.npy": one}),
    "path": archive({"../a.npy": one}),
    "bzip2": archive({"a.npy": one}, zipfile.ZIP_BZIP2),
    "pickle": archive({"data.pkl": b"\x80\x02}q\x00."}),
    "directory_past_end": stored[:-6] + b"\xff\xff\xff\x7f" + stored[-2:],
    "nothing": b"",
}.items():
    put("npz", name, data)


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return struct.pack("<Q", len(s)) + s


def gguf_file(keys, tensors, version=3, counts=None):
    """keys: (name, type, bytes); tensors: (name, sizes from the last axis on, type, offset); 4096 bytes of data."""
    head = b"GGUF" + struct.pack("<I", version) + struct.pack("<QQ", *(counts or (len(tensors), len(keys))))
    head += b"".join(text(k) + struct.pack("<I", t) + v for k, t, v in keys)
    for name, sizes, kind, offset in tensors:
        head += text(name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes) + struct.pack("<IQ", kind, offset)
    return head + bytes(-len(head) % 32) + struct.pack("<1024f", *[0.01 * (i % 7) for i in range(1024)])


def u32(n):
    return struct.pack("<I", n)


def f32_tensors(sizes):
    at, all_tensors = 0, []
    for name, shape in sizes:
        all_tensors.append((name, shape, 0, at))
        at += -(-4 * (shape[0] * (shape[1] if len(shape) > 1 else 1)) // 32) * 32
    return all_tensors


gpt_keys = [("general.architecture", 8, text("llama")), ("llama.context_length", 4, u32(4)),
            ("llama.embedding_length", 4, u32(4)), ("llama.block_count", 4, u32(1)),
            ("llama.feed_forward_length", 4, u32(4)), ("llama.attention.head_count", 4, u32(2)),
            ("llama.attention.layer_norm_rms_epsilon", 6, struct.pack("<f", 1e-5)),
            ("tokenizer.ggml.model", 8, text("llama")),
            ("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 3) + text("a") + text("b") + text(b"\xff")),
            ("tokenizer.ggml.scores", 9, struct.pack("<IQ3f", 6, 3, 0, -1, -2)),
            ("tokenizer.ggml.eos_token_id", 4, u32(2))]
gpt_tensors = f32_tensors([("token_embd.weight", [4, 3]), ("output_norm.weight", [4]), ("blk.0.attn_norm.weight", [4]),
                           ("blk.0.attn_q.weight", [4, 4]), ("blk.0.attn_k.weight", [4, 4]), ("blk.0.attn_v.weight", [4, 4]),
                           ("blk.0.attn_output.weight", [4, 4]), ("blk.0.ffn_norm.weight", [4]),
                           ("blk.0.ffn_gate.weight", [4, 4]), ("blk.0.ffn_up.weight", [4, 4]),
                           ("blk.0.ffn_down.weight", [4, 4])])


def with_key(name, kind, value):
    return [(k, t, v) for k, t, v in gpt_keys if k != name] + [(name, kind, value)]


for name, data in {
    "ok": gguf_file(gpt_keys, gpt_tensors),
    "ok_version_2": gguf_file(gpt_keys, gpt_tensors, version=2),
    "ok_no_tokens": gguf_file(gpt_keys[:7], gpt_tensors),
    "ok_alignment": gguf_file(gpt_keys + [("general.alignment", 4, u32(32))], gpt_tensors),
    "alignment_0": gguf_file(gpt_keys + [("general.alignment", 4, u32(0))], gpt_tensors),
    "alignment_3": gguf_file(gpt_keys + [("general.alignment", 4, u32(3))], gpt_tensors),
    "version_1": gguf_file(gpt_keys, gpt_tensors, version=1),
    "tensors_2_64": gguf_file(gpt_keys, gpt_tensors, counts=((1 << 64) - 1, len(gpt_keys))),
    "keys_2_64": gguf_file(gpt_keys, gpt_tensors, counts=(len(gpt_tensors), (1 << 64) - 1)),
    "key_twice": gguf_file(gpt_keys + gpt_keys[:1], gpt_tensors),
    "tensor_twice": gguf_file(gpt_keys, gpt_tensors[:1] * 2),
    "list_2_63": gguf_file(gpt_keys + [("x", 9, struct.pack("<IQ", 8, 1 << 63))], gpt_tensors),
    "list_in_list": gguf_file(gpt_keys + [("x", 9, struct.pack("<IQ", 9, 1) * 100)], gpt_tensors),
    "text_2_64": gguf_file(gpt_keys + [("x", 8, struct.pack("<Q", (1 << 64) - 1))], gpt_tensors),
    "type_13": gguf_file(gpt_keys + [("x", 13, b"")], gpt_tensors),
    "boolean_2": gguf_file(gpt_keys + [("x", 7, b"\2")], gpt_tensors),
    "blocks_2_31": gguf_file(with_key("llama.block_count", 4, u32(0x7FFFFFFF)), gpt_tensors),
    "context_2_31": gguf_file(with_key("llama.context_length", 4, u32(0x7FFFFFFF)), gpt_tensors),
    "heads_0": gguf_file(with_key("llama.attention.head_count", 4, u32(0)), gpt_tensors),
    "heads_3": gguf_file(with_key("llama.attention.head_count", 4, u32(3)), gpt_tensors),
    "heads_text": gguf_file(with_key("llama.attention.head_count", 8, text("2")), gpt_tensors),
    "epsilon_nan": gguf_file(with_key("llama.attention.layer_norm_rms_epsilon", 6, b"\0\0\xc0\x7f"), gpt_tensors),
    "key_length_2_62": gguf_file(gpt_keys + [("llama.attention.key_length", 10, struct.pack("<Q", 1 << 62))], gpt_tensors),
    "base_negative": gguf_file(gpt_keys + [("llama.rope.freq_base", 6, struct.pack("<f", -1))], gpt_tensors),
    "architecture": gguf_file(with_key("general.architecture", 8, text("clip")), gpt_tensors),
    "sizes_wrap": gguf_file(gpt_keys, [("token_embd.weight", [1 << 32, 1 << 32], 0, 0)]),
    "sizes_negative": gguf_file(gpt_keys, [("token_embd.weight", [(1 << 64) - 4, 3], 0, 0)]),
    "axes_5": gguf_file(gpt_keys, [("token_embd.weight", [1] * 5, 0, 0)]),
    "offset_2_63": gguf_file(gpt_keys, [("token_embd.weight", [4, 3], 0, 1 << 63)]),
    "overlap": gguf_file(gpt_keys, [(n, s, t, 0) for n, s, t, _ in gpt_tensors]),
    "quants": gguf_file(gpt_keys, [("token_embd.weight", [32, 3], 8, 0), ("q4", [256, 1], 12, 128), ("q6", [256, 1], 14, 288)]),
    "eos_3": gguf_file(with_key("tokenizer.ggml.eos_token_id", 4, u32(3)), gpt_tensors),
    "tokens_fewer": gguf_file(with_key("tokenizer.ggml.tokens", 9, struct.pack("<IQ", 8, 1) + text("a")), gpt_tensors),
    "head_only": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
    "nothing": b"",
}.items():
    put("gguf", name, data)


def idx(code, sizes, data):
    return bytes([0, 0, code, len(sizes)]) + b"".join(struct.pack(">I", s) for s in sizes) + data


plain = idx(8, [2, 3], bytes(range(6)))
for name, data in {
    "ok": plain,
    "ok_gzip": gzip.compress(plain, mtime=0),
    "float": idx(13, [1], struct.pack(">f", 1)),
    "huge": idx(8, [0xFFFFFFFF] * 4, b"\0"),
    "huge_gzip": gzip.compress(idx(8, [0xFFFFFFFF, 2], bytes(100000)), mtime=0),
    "bomb": gzip.compress(idx(8, [2], bytes(5000000)), mtime=0),
    "no_axes": idx(8, [], b""),
    "many_axes": bytes([0, 0, 8, 255]) + bytes(1020),
    "type": idx(7, [1], b"\0"),
    "short": idx(8, [10], b"\0"),
    "long": idx(8, [1], bytes(10)),
    "cut_gzip": gzip.compress(plain, mtime=0)[:-9],
    "wrong_gzip": gzip.compress(plain, mtime=0)[:-8] + bytes(8),
    "nothing": b"",
}.items():
    put("idx", name, data)

for name, data in {
    "ok": "x,y\n1,2\n-3e2,4.5\n", "names": "name,x\na,1\nb,2.5\n", "quoted": '"a ""b""",1\n"c,\nd",2\n', "open_quote": 'a,"b\n1,2\n', "ragged": "a,b\n1\n2,3,4\n",
    "numbers": "1e999,-1e999,nan\n1e-999,0x10,١\n", "crlf": "a,b\r\n1,2\r\n", "bom": "\ufeffa,b\n1,2\n", "nul": "a,b\n1\0,2\n",
    "signs": "x\n+-2\n", "empty": "", "commas": "," * 500, "long": "x" * 3000,
}.items():
    put("csv", name, data)
for name, data in {
    "ok": {"format": "fit characters", "version": 1, "characters": ["a", "b"]},
    "twice": {"format": "fit characters", "version": 1, "characters": ["a", "a"]},
    "two": {"format": "fit characters", "version": 1, "characters": ["ab"]},
    "number": {"format": "fit characters", "version": 1, "characters": [1]},
    "version": {"format": "fit characters", "version": 2, "characters": []},
}.items():
    put("characters", name, json.dumps(data))
    pairs = dict(data, format="fit byte pairs")
    pairs["merges"] = {"ok": [[104, 101], [116, 256]], "twice": [[1, 2], [1, 2]], "two": [[1, 2, 3]], "number": [1]}.get(
        name, [[300, 1]])
    del pairs["characters"]
    put("byte_pairs", name, json.dumps(pairs))
put("characters", "deep", "[" * 4000)
put("byte_pairs", "deep", '{"merges":' * 2000)
for name, data in {
    "ok": "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\ncat\n##s\na\n,\n", "twice": "[UNK]\n[UNK]\n", "none": "", "nul": "[UNK]\n\0\n",
    "not_utf8": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n\xff\xfe\n", "empty_lines": "[PAD]\n\n\n[UNK]\n",
}.items():
    put("word_pieces", name, data)
letters = "".join(chr(c) for c in [*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)])
ids = {c: i for i, c in enumerate(letters)}
for name, data in {
    "ok": json.dumps(dict(ids, th=256)) + "\0#version: 0.2\nt h\n",
    "gap": json.dumps({"a": 0, "b": 2}) + "\0",
    "twice": json.dumps({"a": 0, "b": 0}) + "\0",
    "negative": json.dumps({"a": -1}) + "\0",
    "merge_unknown": json.dumps(ids) + "\0#version: 0.2\nt h\n",
    "merge_one": json.dumps(ids) + "\0t\n",
    "deep": "[" * 3000 + "\0",
    "nothing": "",
}.items():
    put("gpt2", name, data)


def check(metadata, tensors=None):
    header = {"__metadata__": metadata}
    header.update(tensors or {"model.w": entry([4], 0, 16)})
    return safe(header, four)


good = {"fit.checkpoint": "1", "fit.step": "7", "config.name": "x"}
for name, data in {
    "ok": check(good),
    "version_2": check(dict(good, **{"fit.checkpoint": "2", "fit.crc32": "00000000"})),
    "version_9": check(dict(good, **{"fit.checkpoint": "9"})),
    "version_text": check(dict(good, **{"fit.checkpoint": "1x"})),
    "version_huge": check(dict(good, **{"fit.checkpoint": "9" * 40})),
    "step_negative": check(dict(good, **{"fit.step": "-1"})),
    "step_missing": check({"fit.checkpoint": "1"}),
    "no_part": check(good, {"w": entry([4], 0, 16)}),
    "dots": check(good, {"...": entry([4], 0, 16)}),
}.items():
    put("checkpoint", name, data)


def tokenizer(model, **parts):
    file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None, "model": model}
    return json.dumps({**file, **parts})


word_model = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
              "vocab": {"[UNK]": 0, "the": 1, "cat": 2, "##s": 3, "[CLS]": 4}}
pair_model = {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
              "vocab": {"<unk>": 0, "t": 1, "h": 2, "e": 3, "th": 4, "the": 5}, "merges": ["t h", ["th", "e"]]}
unigram_model = {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["the", -1.5], ["t", -3]]}
bert_parts = dict(normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                  pre_tokenizer={"type": "BertPreTokenizer"}, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
                  post_processor={"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                  "pair": [], "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [4], "tokens": ["[CLS]"]}}})


def charsmap(place):
    """The double array of one key, "t", whose text is at a place: of "T", or outside."""
    units = [256 << 10] + [0] * 511
    units[256 ^ ord("t")], units[1] = (256 ^ ord("t") ^ 1) << 10 | 1 << 8 | ord("t"), 1 << 31 | place
    return base64.b64encode(struct.pack("<513I", 4 * 512, *units) + b"T\0").decode()


def splits(pattern):
    return {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
                                                  {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": True}]}


for name, data in {
    "ok_bert": tokenizer(word_model, **bert_parts),
    "ok_pairs": tokenizer(pair_model, pre_tokenizer=splits("(?i:'s|'t)|[^\\r\\n\\p{L}]?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"),
                          added_tokens=[{"id": 6, "content": "<s>", "single_word": False, "lstrip": True, "rstrip": True, "normalized": True, "special": True}],
                          decoder={"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}),
    "ok_unigram": tokenizer(unigram_model, normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}),
    "ok_precompiled": tokenizer(unigram_model, normalizer={"type": "Sequence", "normalizers": [
        {"type": "Precompiled", "precompiled_charsmap": charsmap(0)}, {"type": "NFKC"}, {"type": "Nmt"}]}),
    "charsmap_outside": tokenizer(unigram_model, normalizer={"type": "Precompiled", "precompiled_charsmap": charsmap(1 << 30)}),
    "charsmap_short": tokenizer(unigram_model, normalizer={"type": "Precompiled", "precompiled_charsmap": "//////8="}),
    "pattern_possessive": tokenizer(pair_model, pre_tokenizer=splits("(?i:'s)|[^\\r\\n\\p{L}&&[^x]]?+\\p{Han}++|(?>\\s++$|^a*?)|\\b\\x41{2}?")),
    "id_huge": tokenizer({**word_model, "vocab": {"[UNK]": 1 << 63}}),
    "id_twice": tokenizer({**word_model, "vocab": {"[UNK]": 0, "a": 0}}),
    "id_negative": tokenizer({**word_model, "vocab": {"[UNK]": -1}}),
    "added_negative": tokenizer(word_model, added_tokens=[{"id": -5, "content": "x"}]),
    "added_empty": tokenizer(word_model, added_tokens=[{"id": 5, "content": ""}]),
    "merge_unknown": tokenizer({**pair_model, "merges": ["x y"]}),
    "pattern_nested": tokenizer(pair_model, pre_tokenizer=splits("(" * 2000)),
    "pattern_repeats": tokenizer(pair_model, pre_tokenizer=splits("((((a{999}){999}){999}){999}){999}")),
    "pattern_loops": tokenizer(pair_model, pre_tokenizer=splits("(?:(?:a*)*)*b")),
    "frame_unknown": tokenizer(word_model, post_processor={"type": "BertProcessing", "sep": ["x", 99], "cls": ["y", 98]}),
    "part_unknown": tokenizer(word_model, normalizer={"type": "Precompiled"}),
    "key_unknown": tokenizer({**word_model, "new": 1}),
    "deep": "[" * 4000,
    "nothing": "",
}.items():
    put("tokenizer", name, data)

llama = {"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 48, "rms_norm_eps": 1e-6, "hidden_act": "silu"}
for name, data in {
    "ok_llama": {**llama, "rope_scaling": {"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 24}},
    "ok_gemma3": {**llama, "model_type": "gemma3_text", "head_dim": 4, "sliding_window": 5, "hidden_activation": "gelu_pytorch_tanh", "hidden_act": None},
    "ok_neo": {"model_type": "gpt_neo", "vocab_size": 40, "max_position_embeddings": 48, "hidden_size": 16, "num_layers": 2, "num_heads": 4,
               "attention_types": [[["global", "local"], 1]], "window_size": 5},
    "layers_huge": {**llama, "model_type": "gemma2", "num_hidden_layers": 1 << 60},
    "types_huge": {"model_type": "gpt_neo", "vocab_size": 40, "max_position_embeddings": 48, "hidden_size": 16, "num_layers": 2, "num_heads": 4,
                   "attention_types": [[["global"] * 1000, 100000]] * 50},
    "heads_zero": {**llama, "num_attention_heads": 0},
    "number_text": {**llama, "hidden_size": "16"},
    "type_missing": {"vocab_size": 1},
    "key_unknown": {**llama, "new": [1]},
    "list": [],
}.items():
    put("config", name, json.dumps(data))

for name, data in {
    "ok": "{% for m in messages %}{% if loop.first %}<s>{% endif %}{{ '<|' + m['role'] + '|>' + m.content | trim }}{% endfor %}",
    "ok_more": "{%- set ns = namespace(n=0) -%}{% macro f(x, y=2) %}{{ x ~ y }}{% endmacro %}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}{{ f(m.content.split('l')[0]) }}{% else %}-{% endfor %}{{ ns.n // 2 }} {{ {'a': [1, none]} | tojson }}",
    "ok_empty": "",
    "endless": "{% for a in range(9999) %}{% for b in range(9999) %}{% for c in range(9999) %}x{% endfor %}{% endfor %}{% endfor %}",
    "doubling": "{% set ns = namespace(s='xxxxxxxxxxxxxxxx') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "parentheses": "{{ " + "(" * 3000,
    "minus": "{{ " + "-" * 3000 + "1 }}",
    "ifs": "{% if a %}" * 1500,
    "open": "{{ 'x",
    "unknown": "{% include 'x' %}",
}.items():
    put("chat", name, data)
