#!/usr/bin/env python3
"""Prints how far gradients under PyTorch's autocast are from float64's, for tests/nn/training/autocast_gradients_test.cpp: of random
transformers, the norm of the error of each parameter's gradient relative to the norm of the gradient.

    pip install torch==2.13.0 numpy && python3 tests/golden/autocast.py [CASES]
"""

import math
import sys

import numpy
import torch
from torch import nn
import torch.nn.functional as F

assert torch.__version__.startswith("2.13.0"), torch.__version__
torch.set_num_threads(1)
CASES = int(sys.argv[1]) if len(sys.argv) > 1 else 100


def hashes(name, count):
    """`count` 64-bit numbers by SplitMix64, seeded by the name (FNV-1a), as the test makes them."""
    seed = 0xCBF29CE484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001B3 % 2**64
    z = numpy.uint64(seed) + numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15)
    z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    return (z ^ z >> numpy.uint64(31)) >> numpy.uint64(40)


def whole(name, below, *shape):
    count = math.prod(shape)
    return torch.from_numpy((hashes(name, count) % numpy.uint64(below)).astype(numpy.int64).reshape(shape))


def weights(name, shape, width):
    """Xavier-uniform matrices, embeddings of variance 1 / width, factors near 1 and biases near 0."""
    u = hashes(name, math.prod(shape)).astype(numpy.float64) * 2.0**-23 - 1
    if "embedding" in name:
        u *= math.sqrt(3 / width)
    elif len(shape) == 2:
        u *= math.sqrt(6 / (shape[0] + shape[1]))
    else:
        u = 0.2 * u + ("norm" in name and name.endswith("weight"))
    return torch.from_numpy(u.astype(numpy.float32).reshape(shape))


class Model(nn.Module):
    def __init__(self, width, heads, encoders, decoders, hidden, gelu, norm_first, vocab):
        super().__init__()
        self.width = width
        self.source_embedding, self.target_embedding = nn.Embedding(vocab, width), nn.Embedding(vocab, width)
        self.transformer = nn.Transformer(width, heads, encoders, decoders, hidden, 0.0, "gelu" if gelu else "relu",
                                          batch_first=True, norm_first=norm_first)

    def embed(self, table, ids):
        place = torch.arange(ids.shape[1], dtype=torch.float64)[:, None]
        angle = place / 10000 ** (torch.arange(0, self.width, 2, dtype=torch.float64) / self.width)
        positions = torch.stack([angle.sin(), angle.cos()], -1).reshape(ids.shape[1], self.width)
        return table(ids) * math.sqrt(self.width) + positions.to(table.weight.dtype)

    def forward(self, source, target):
        x, y = self.embed(self.source_embedding, source), self.embed(self.target_embedding, target)
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1], dtype=y.dtype)
        return F.linear(self.transformer(x, y, tgt_mask=mask, tgt_is_causal=True), self.target_embedding.weight)


def gradients(model, source, target, labels, autocast):
    model.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        logits = model(source, target).flatten(0, 1)
        F.cross_entropy(logits.float() if autocast else logits, labels.flatten()).backward()
    return {name: p.grad.double() for name, p in model.named_parameters()}


torch.backends.mha.set_fastpath_enabled(False)
errors = {"relu": [], "gelu": []}
for case in map(str, range(CASES)):
    o = [int(x) for x in hashes(case + "/options", 11)]
    width, vocab = [8, 16, 32][o[0] % 3], 5 + o[1] % 25
    model = Model(width, [1, 2, 4][o[2] % 3], 1 + o[3] % 3, 1 + o[4] % 3, width * [1, 2, 4][o[5] % 3], o[6] % 2 == 1,
                  o[7] % 2 == 1, vocab)
    for name, p in model.named_parameters():
        p.data = weights(f"{case}/{name}", p.shape, width)
    batch, S, T = 1 + o[8] % 4, 2 + o[9] % 10, 2 + o[10] % 10
    ids = whole(case + "/source", vocab, batch, S), whole(case + "/target", vocab, batch, T), \
        whole(case + "/labels", vocab, batch, T)
    low = gradients(model, *ids, True)
    exact = gradients(model.double(), *ids, False)
    errors["gelu" if o[6] % 2 == 1 else "relu"] += [
        ((low[n] - exact[n]).norm() / exact[n].norm()).item() for n in exact]
for activation, all in errors.items():
    print(activation, len(all), "gradients; median, 90 %, 99 %, largest:",
          " ".join(f"{x:.5f}" for x in numpy.quantile(all, [0.5, 0.9, 0.99, 1])))
