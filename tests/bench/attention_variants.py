#!/usr/bin/env python3
"""Times attention with functions of scores and masks of ops.cpp beside PyTorch's ways, as beside.py says: BENCH
[--only NAME[,NAME]] [--rounds N] [--threads N]. The ways: flex_attention, compiled, which has no backward on CPUs; SDPA
with a mask or a bias as a tensor; the formula in operations, compiled. Needs PyTorch and a C++ compiler.
"""
import math

import torch
from torch.nn import functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from beside import main, with_gradients, without_gradients

H, D = 8, 64


def buckets():
    """T5's 32 buckets of the distances -1024 ... 1023 in both directions."""
    distance = torch.arange(2048) - 1024
    far = distance.abs()
    log_far = (8 + (far.clamp(min=1) / 8).log() / math.log(16) * 8).floor().clamp(max=15)
    return ((distance > 0) * 16 + torch.where(far < 8, far, log_far.long())).long()


IDS = buckets()


class Variant:
    """A function of scores, a mask, or neither. `tables` are captured, and get gradients."""

    def __init__(self, T, tables=(), score=None, bias=None, mask=None):
        self.T, self.tables, self.score, self.bias, self.mask = T, tables, score, bias, mask

    def step(self, backward, f):
        operands = [torch.randn(1, H, self.T, D) for _ in range(3)] + [torch.randn(shape) for shape in self.tables]
        if backward:
            return with_gradients(f, operands, torch.randn(1, H, self.T, D))
        return without_gradients(lambda: f(*operands))

    def pairs(self):
        i = torch.arange(self.T)
        return i[:, None], i[None, :]

    def flex(self, backward):
        mask = self.mask and create_block_mask(lambda b, h, i, j: self.mask(i, j), None, None, self.T, self.T, device="cpu")

        @torch.compile
        def f(q, k, v, *tables):
            score = self.score and (lambda s, b, h, i, j: self.score(s, h, i, j, *tables))
            return flex_attention(q, k, v, score_mod=score, block_mask=mask)
        return self.step(backward, f)

    def sdpa(self, backward):
        mask = self.mask and self.mask(*self.pairs())
        return self.step(backward, lambda q, k, v, *tables: F.scaled_dot_product_attention(
            q, k, v, attn_mask=self.bias(*self.pairs(), *tables) if self.bias else mask))

    def formula(self, backward):
        mask, h = self.mask and self.mask(*self.pairs()), torch.arange(H)[:, None, None]

        @torch.compile
        def f(q, k, v, *tables):
            s = q @ k.transpose(-1, -2) / math.sqrt(D)
            s = self.score(s, h, *self.pairs(), *tables) if self.score else s
            return (s if mask is None else s.masked_fill(~mask, -math.inf)).softmax(-1) @ v
        return self.step(backward, f)


VARIANTS = {
    "b1h8t1024d64": Variant(1024),
    "b1h8t1024d64_score_cap": Variant(1024, score=lambda s, h, i, j: 30 * torch.tanh(s / 30)),
    "b1h8t1024d64_score_t5": Variant(
        1024, [(H, 32)],
        score=lambda s, h, i, j, table: s + table[h, IDS[j - i + 1024]],
        bias=lambda i, j, table: table[:, IDS[j - i + 1024]]),
    "b1h8t4096d64_causal_document_mask": Variant(4096, mask=lambda i, j: (i >= j) & (i // 512 == j // 512)),
    "b1h8t8192d64_causal_window256": Variant(8192, mask=lambda i, j: (i >= j) & (i - j < 256)),
}


def kinds(v, backward):
    """Those that can compute the variant."""
    all = {} if backward else {"flex": lambda: v.flex(backward)}
    if not v.score or v.bias:
        all["SDPA"] = lambda: v.sdpa(backward)
    return all | {"formula": lambda: v.formula(backward)}


if __name__ == "__main__":
    main(__doc__, {f"sdpa_{passes}_{name}": kinds(v, passes == "fwdbwd")
                   for name, v in VARIANTS.items() for passes in ("fwd", "fwdbwd")})
