#!/usr/bin/env python3
"""Writes packed.npz, in float64: PyTorch's recurrent layers on sequences of unequal lengths (pack_padded_sequence).

    pip install torch==2.13.0 numpy && python3 tests/golden/packed.py
"""

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from npz import save, start, write

start(33)
# Of each layer: state/NAME, x, lengths and the state before; output, h, c; their cotangents d_…, and gradients.
lengths = torch.tensor([3, 6, 1, 6, 4])
for kind, make in ("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU), ("rnn", torch.nn.RNN):
    for form, options in {
        "plain": dict(),
        "deep": dict(num_layers=3, bias=False),
        "both": dict(num_layers=2, bidirectional=True),
    }.items():
        case = f"recurrent/{kind}_{form}"
        layer = make(3, 4, batch_first=True, **options)
        rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
        leaves = {"x": torch.randn(5, 7, 3), "h0": torch.randn(rows, 5, 4)}
        if kind == "lstm":
            leaves["c0"] = torch.randn(rows, 5, 4)
        for x in leaves.values():
            x.requires_grad_()
        state = tuple(leaves[n] for n in ("h0", "c0")) if kind == "lstm" else leaves["h0"]
        packed = pack_padded_sequence(leaves["x"], lengths, batch_first=True, enforce_sorted=False)
        output, last = layer(packed, state)
        output, _ = pad_packed_sequence(output, batch_first=True, total_length=7)
        results = {"output": output} | dict(zip(("h", "c"), last if kind == "lstm" else (last,)))
        d = {n: torch.randn_like(y) for n, y in results.items()}
        sum((y * d[n]).sum() for n, y in results.items()).backward()
        save(f"{case}/lengths", lengths)
        for n, y in results.items():
            save(f"{case}/{n}", y)
            save(f"{case}/d_{n}", d[n])
        for n, x in leaves.items():
            save(f"{case}/{n}", x)
            save(f"{case}/grad/{n}", x.grad)
        for n, p in layer.named_parameters():
            save(f"{case}/state/{n}", p)
            save(f"{case}/grad/{n}", p.grad)
write()
