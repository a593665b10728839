#!/usr/bin/env python3
"""Prints how many sentences a second PyTorch makes embeddings of: python3 torch_speed.py FOLDER THREADS BATCH ROUNDS < IDS

FOLDER holds model.safetensors. Each line of IDS has the ids of one sentence. The model is written with nothing but
PyTorch's own fused functions, which is faster than transformers' classes.
"""

import json
import struct
import sys
import time

import torch
from torch.nn import functional as F

folder, threads, batch, rounds = sys.argv[1], *map(int, sys.argv[2:])
torch.set_num_threads(threads)
data = bytearray(open(folder + "/model.safetensors", "rb").read())
(length,) = struct.unpack("<Q", data[:8])
weights = {}
for name, entry in json.loads(data[8 : 8 + length]).items():
    if name != "__metadata__" and entry["dtype"] == "F32":
        begin, end = (8 + length + at for at in entry["data_offsets"])
        weights[name] = torch.frombuffer(data, dtype=torch.float32, offset=begin, count=(end - begin) // 4).view(entry["shape"]).clone()


def linear(x, name):
    return F.linear(x, weights[name + ".weight"], weights[name + ".bias"])


def norm(x, name):
    return F.layer_norm(x, x.shape[-1:], weights[name + ".weight"], weights[name + ".bias"], 1e-12)


def embed(ids, seen):
    e = "embeddings."
    x = weights[e + "word_embeddings.weight"][ids] + weights[e + "position_embeddings.weight"][: ids.shape[1]]
    x = norm(x + weights[e + "token_type_embeddings.weight"][0], e + "LayerNorm")
    mask = None if bool(seen.all()) else seen[:, None, None, :]
    for i in range(6):
        layer = f"encoder.layer.{i}."
        q, k, v = (linear(x, layer + "attention.self." + n).unflatten(-1, (12, 32)).transpose(1, 2) for n in ("query", "key", "value"))
        y = F.scaled_dot_product_attention(q, k, v, mask).transpose(1, 2).flatten(2)
        x = norm(x + linear(y, layer + "attention.output.dense"), layer + "attention.output.LayerNorm")
        y = linear(F.gelu(linear(x, layer + "intermediate.dense")), layer + "output.dense")
        x = norm(x + y, layer + "output.LayerNorm")
    s = seen[..., None].float()
    return F.normalize((x * s).sum(1) / s.sum(1))


sentences = [list(map(int, line.split())) for line in sys.stdin]
batches = [sentences[i : i + batch] for i in range(0, len(sentences), batch)]


def run():
    for rows in batches:
        longest = max(map(len, rows))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
        seen = torch.tensor([[True] * len(row) + [False] * (longest - len(row)) for row in rows])
        embed(ids, seen)


with torch.inference_mode():
    run()
    start = time.perf_counter()
    for _ in range(rounds):
        run()
    print(rounds * len(sentences) / (time.perf_counter() - start))
