"""Stores a PyTorch nn.MultiheadAttention(64, 8), an input and its results: python3 generate.py (PyTorch 2.13)."""
from pathlib import Path

import numpy as np
import torch

torch.manual_seed(42)
mha = torch.nn.MultiheadAttention(64, 8, batch_first=True).eval()
torch.nn.init.normal_(mha.in_proj_bias, std=0.1)  # PyTorch's are zero, which would compare nothing
torch.nn.init.normal_(mha.out_proj.bias, std=0.1)
x = torch.randn(2, 8, 64)
with torch.no_grad():
    output, weights = mha(x, x, x, average_attn_weights=False)

arrays = {
    "in_proj_weight": mha.in_proj_weight,
    "in_proj_bias": mha.in_proj_bias,
    "out_proj_weight": mha.out_proj.weight,
    "out_proj_bias": mha.out_proj.bias,
    "input": x,
    "output": output,
    "weights": weights,
}
for name, array in arrays.items():
    np.save(Path(__file__).parent / f"{name}.npy", array.detach().numpy().astype(np.float32))
