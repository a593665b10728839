#!/usr/bin/env python3
"""Writes linear_attention.npz: what transformers' gated delta rule in chunks computes in float64, with its gradients.

    pip install torch==2.13.0 transformers==5.23.0 numpy && python3 tests/golden/linear_attention.py

Gradients are those of sum(y * d_y) + sum(state * d_state). All inputs are numbers that float32 represents exactly.
"""

import pathlib

import numpy as np
import torch
import transformers.models.qwen3_next.modeling_qwen3_next as qwen
from in_float64 import InFloat64, leaf

assert torch.__version__.startswith("2.13.0"), torch.__version__

qwen.torch = InFloat64()
torch.manual_seed(7)
B, H, T, D, Dv = 2, 2, 70, 8, 6

inputs = {
    "q": leaf(torch.randn(B, H, T, D)),
    "k": leaf(torch.nn.functional.normalize(torch.randn(B, H, T, D), dim=-1)),
    "v": leaf(torch.randn(B, H, T, Dv)),
    "g": leaf(-torch.rand(B, H, T)),
    "beta": leaf(torch.rand(B, H, T)),
    "S": leaf(torch.randn(B, H, D, Dv)),
}
q, k, v, g, beta = (inputs[name].transpose(1, 2) for name in ("q", "k", "v", "g", "beta"))
function = getattr(qwen.torch_chunk_gated_delta_rule, "__wrapped__", qwen.torch_chunk_gated_delta_rule)
y, state = function(q, k, v, g, beta, initial_state=inputs["S"], output_final_state=True)
y = y.transpose(1, 2)
assert y.dtype == torch.float64
d_y, d_state = torch.randn(y.shape).double(), torch.randn(state.shape).double()
((y * d_y).sum() + (state * d_state).sum()).backward()
arrays = inputs | {"y": y, "state": state, "d_y": d_y, "d_state": d_state}
arrays |= {f"d_{name}": x.grad for name, x in inputs.items()}
np.savez(pathlib.Path(__file__).parent / "linear_attention.npz", **{k: v.detach().numpy() for k, v in arrays.items()})
