"""gguf_files.py PROGRAM DIR: the gguf package reads the models that PROGRAM (exchange_files.cpp) writes into DIR, and fit
reads one that the package writes. Exit code 77: the package is not there."""

import pathlib
import subprocess
import sys

try:
    import gguf
    import numpy as np
except ImportError as missing:
    print(f"{missing}: pip install gguf numpy")
    sys.exit(77)

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
subprocess.run([program, str(folder)], check=True)


def values(tensor):
    return gguf.quants.dequantize(tensor.data, tensor.tensor_type).reshape(tensor.shape[::-1])


def field(reader, key):
    return reader.get_field(key).contents()


def tensors_of(name):
    reader = gguf.GGUFReader(folder / f"{name}.gguf")
    return reader, {t.name: values(t) for t in reader.tensors}, np.load(folder / f"{name}.gguf.npz")


# Keys and tokens.
for name, architecture in (("gpt2", "gpt2"), ("llama", "llama")):
    reader, tensors, ours = tensors_of(name)
    expected = {"general.architecture": architecture, "general.name": "exchange", f"{architecture}.block_count": 2,
                f"{architecture}.context_length": 16, f"{architecture}.embedding_length": 64,
                f"{architecture}.attention.head_count": 4, "tokenizer.ggml.model": "gpt2"}
    for key, value in expected.items():
        assert field(reader, key) == value, (key, field(reader, key))
    known = {v for group in vars(gguf.Keys).values() if isinstance(group, type) for v in vars(group).values()
             if isinstance(v, str)}
    for key in reader.fields:
        assert key.startswith("GGUF.") or key.replace(architecture + ".", "{arch}.") in known, key
    tokens = field(reader, "tokenizer.ggml.tokens")
    assert len(tokens) == 259 and tokens[258] == "\u0120the", tokens[258]
    assert field(reader, "tokenizer.ggml.merges")[-1] == "\u0120 the"
    names = gguf.MODEL_TENSORS[{"gpt2": gguf.MODEL_ARCH.GPT2, "llama": gguf.MODEL_ARCH.LLAMA}[name]]
    allowed = {gguf.TENSOR_NAMES[t].format(bid=b) for t in names for b in (0, 1)}
    for tensor in tensors:
        assert tensor.rsplit(".", 1)[0] in allowed, tensor
    assert np.array_equal(tensors["token_embd.weight"], ours["wte.weight"])
    assert np.array_equal(tensors["blk.1.ffn_down.weight"], ours["h.1.mlp.proj.weight"])

# The queries and keys of "llama" are in the order of llama.cpp's converter, convert_hf_to_gguf.py.
_, tensors, ours = tensors_of("llama")


def permute(weights, heads):
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2).reshape(weights.shape)


qkv = ours["h.0.attn.qkv.weight"]
assert np.array_equal(tensors["blk.0.attn_q.weight"], permute(qkv[:64], 4))
assert np.array_equal(tensors["blk.0.attn_k.weight"], permute(qkv[64:96], 2))
assert np.array_equal(tensors["blk.0.attn_v.weight"], qkv[96:])

# The bits of each type are those that the package makes.
for name, kind in (("half", "F16"), ("brain", "BF16"), ("q8", "Q8_0")):
    reader, _, ours = tensors_of(name)
    table = {t.name: t for t in reader.tensors}["token_embd.weight"]
    kind = gguf.GGMLQuantizationType[kind]
    assert table.tensor_type == kind
    expected = gguf.quants.quantize(ours["wte.weight"], kind)
    assert np.array_equal(np.frombuffer(table.data.tobytes(), np.uint8), np.frombuffer(expected.tobytes(), np.uint8)), name

# The other way: blocks of each type that the package knows.
random = np.random.default_rng(1)
width = 256
for kind in ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_K", "Q6_K"):
    kind = gguf.GGMLQuantizationType[kind]
    path = folder / "theirs.gguf"
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(4), writer.add_embedding_length(width), writer.add_block_count(1)
    writer.add_feed_forward_length(width), writer.add_head_count(2), writer.add_layer_norm_eps(1e-5)
    expected = {}

    def add(name, *shape):
        block, size = gguf.GGML_QUANT_SIZES[kind]
        if len(shape) == 1:
            expected[name] = random.standard_normal(shape).astype(np.float32)
            writer.add_tensor(name, expected[name])
            return
        data = random.integers(0, 256, (shape[0], shape[1] // block * size), np.uint8)
        if kind in (gguf.GGMLQuantizationType.F32, gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.BF16):
            data = gguf.quants.quantize(random.standard_normal(shape).astype(np.float32), kind)
        else:  # scales that are finite
            for at in {"Q8_0": (0,), "Q4_0": (0,), "Q4_K": (0, 2), "Q6_K": (208,)}[kind.name]:
                data.reshape(-1, size)[:, at:at + 2] = np.float16(0.37).view(np.uint16).tobytes()[0], \
                    np.float16(0.37).view(np.uint16).tobytes()[1]
        expected[name] = gguf.quants.dequantize(data, kind)
        writer.add_tensor(name, data, raw_dtype=kind)

    add("token_embd.weight", 5, width), add("position_embd.weight", 4, width)
    for norm in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        add(norm + ".weight", width), add(norm + ".bias", width)
    for matrix, rows in (("attn_qkv", 3 * width), ("attn_output", width), ("ffn_up", width), ("ffn_down", width)):
        add(f"blk.0.{matrix}.weight", rows, width), add(f"blk.0.{matrix}.bias", rows)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file()
    writer.close()
    subprocess.run([program, str(folder), str(path)], check=True)
    read = np.load(folder / "read.npz")
    for theirs, name in (("token_embd.weight", "wte.weight"), ("blk.0.attn_qkv.weight", "h.0.attn.qkv.weight"),
                         ("blk.0.ffn_down.weight", "h.0.mlp.proj.weight"), ("output_norm.bias", "ln_f.bias")):
        assert np.array_equal(read[name], expected[theirs]), (kind, theirs, read[name][:2], expected[theirs][:2])
print("gguf has read gpt2, llama, F16, BF16 and Q8_0; fit has read F32, F16, BF16, Q8_0, Q4_0, Q4_K and Q6_K")
