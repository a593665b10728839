#!/usr/bin/env python3
"""Times linear_attention.cpp's row gated_delta_rule beside transformers' function in chunks, as beside.py says: BENCH
[--rounds N] [--threads N]. PyTorch runs it as it is, and compiled by torch.compile. Needs PyTorch and transformers.
"""
import torch
from torch.nn import functional as F

from beside import main, with_gradients


def step(compiled):
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule as function
    function = getattr(function, "__wrapped__", function)
    function = torch.compile(function) if compiled else function
    shape = 1, 2048, 8, 64  # heads third
    q, k, v = torch.randn(shape), F.normalize(torch.randn(shape), dim=-1), torch.randn(shape)
    decay, beta = F.logsigmoid(torch.randn(shape[:3]) + 3), torch.rand(shape[:3])
    return with_gradients(lambda *x: function(*x)[0], [q, k, v, decay, beta], torch.randn(shape))


if __name__ == "__main__":
    kinds = {"PyTorch eager": lambda: step(False), "PyTorch compiled": lambda: step(True)}
    main(__doc__, {"gated_delta_rule_h8t2048d64": kinds})
