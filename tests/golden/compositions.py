#!/usr/bin/env python3
"""Writes compositions.npz, in float64: PyTorch's results of what docs/recipes/recipes.md composes.

    pip install torch==2.13.0 numpy && python3 tests/golden/compositions.py
"""

import torch
import torch.nn.functional as F

from npz import save, start, write

start(57)
a, b = torch.randn(4, 3), torch.randn(4, 3)
far = torch.randn(4, 3)
x = torch.randn(2, 4, 6, 8)
y = torch.tensor([1.0, -1.0, -1.0, 1.0])
holes = a.clone()
holes[0, 1] = holes[2, 0] = torch.nan
w, v = torch.randn(5, 3, 3), torch.randn(3)
for name, value in dict(a=a, b=b, far=far, x=x, y=y, holes=holes, w=w).items():
    save(f"given/{name}", value)

save("triplet_margin", F.triplet_margin_loss(a, b, far, margin=1, eps=0))
save("margin_ranking", F.margin_ranking_loss(a[:, 0], b[:, 0], y, margin=0.5))
save("hinge_embedding", F.hinge_embedding_loss(a[:, 0], y, margin=1))
save("soft_margin", F.soft_margin_loss(a[:, 0], y))
save("poisson_nll", F.poisson_nll_loss(a, b.exp()))
save("info_nce", F.cross_entropy(F.normalize(a) @ F.normalize(b).T / 0.1, torch.arange(4)))
save("instance_norm", F.instance_norm(x))
save("adaptive_avg_pool", F.adaptive_avg_pool2d(x, (3, 2)))
save("global_pool", F.adaptive_avg_pool2d(x, 1)[:, :, 0, 0])
save("bilinear", F.bilinear(a, b, w))
save("kron", torch.kron(a, b))
save("tensordot", torch.tensordot(x, x, dims=([2, 3], [2, 3])))
save("cross", torch.linalg.cross(a, b))
save("nanmean", torch.nanmean(holes, 1))
save("cov", torch.cov(a))
save("geglu", F.gelu(x.chunk(2, -1)[0]) * x.chunk(2, -1)[1])
spectrum = torch.fft.fft(a, dim=0)
save("fft_real", spectrum.real)
save("fft_imaginary", spectrum.imag)
write()
