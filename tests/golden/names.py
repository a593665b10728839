#!/usr/bin/env python3
"""Writes names.npz: what PyTorch computes in float64 for functions of one number, of two, cumulative ones, rolls, pads,
pairs of lists, solves, convolutions, pools, other sizes of images and CTC; with gradients of sum(y * d_y).

    pip install torch==2.13.0 numpy && python3 tests/golden/names.py

Arrays "NAME.x0", "NAME.x1" … are the inputs, "NAME.y" the result, "NAME.d_y" its gradient and "NAME.d_x0" … theirs.
"""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F

assert torch.__version__.startswith("2.13.0"), torch.__version__
torch.manual_seed(57)
arrays = {}


def case(name, f, *inputs):
    leaves = [x.double().clone().requires_grad_() for x in inputs]
    y = f(*leaves)
    d_y = torch.randn(y.shape).double()
    if y.requires_grad:
        (y * d_y).sum().backward()
    arrays[f"{name}.y"], arrays[f"{name}.d_y"] = y, d_y
    for i, x in enumerate(leaves):
        arrays[f"{name}.x{i}"] = x
        arrays[f"{name}.d_x{i}"] = torch.zeros_like(x) if x.grad is None else x.grad


ends = torch.tensor([-7.0, -3, -1, -0.5, 0, 0.5, 1, 3, 6, 8])  # with the ends and kinks
wide = torch.cat([ends, torch.randn(20) * 4])
for name, f in {
    "selu": F.selu, "mish": F.mish, "softsign": F.softsign, "hardtanh": F.hardtanh, "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish, "relu6": F.relu6, "sinh": torch.sinh, "cosh": torch.cosh, "asinh": torch.asinh,
    "celu": lambda x: F.celu(x, 0.5), "softplus": lambda x: F.softplus(x, 1.7, 1000),
}.items():
    case(name, f, wide)
case("log10", torch.log10, torch.rand(20) * 5 + 0.01)
case("acosh", torch.acosh, torch.rand(20) * 5 + 1.01)
case("atanh", torch.atanh, torch.rand(20) * 1.9 - 0.95)
case("prelu", F.prelu, torch.cat([torch.randn(2, 3, 4), torch.zeros(1, 3, 4)]), torch.randn(3))

a, b = torch.randn(4, 5) * 3, torch.randn(4, 5)
case("fmod", torch.fmod, a, b)
case("floor_divide", lambda a, b: torch.floor_divide(a.detach(), b.detach()), a, b)
case("copysign", torch.copysign, torch.cat([a, torch.zeros(1, 5)]), torch.cat([b, torch.tensor([[0.0, -0.0, 1, -1, 2]])]))
case("logaddexp", torch.logaddexp, a * 300, b * 300)

x = torch.randint(-3, 4, (3, 6)).double()  # with ties and zeros
case("cummax", lambda x: torch.cummax(x, 1).values, x)
case("cummin", lambda x: torch.cummin(x, 0).values, x)
arrays["cummax.ids"], arrays["cummin.ids"] = torch.cummax(x, 1).indices, torch.cummin(x, 0).indices
case("logcumsumexp", lambda x: torch.logcumsumexp(x, 1), torch.randn(3, 7) * 20)
case("roll", lambda x: torch.roll(x, (1, -2), (0, 1)), torch.randn(3, 4))
case("pad", lambda x: F.pad(x, (3, -1, -1, 2)), torch.randn(3, 4))
case("pairs", lambda x: x[[0, 2, 2], [1, 0, 1]], torch.randn(3, 2, 4))
case("pairs_apart", lambda x: x[[0, 2, 2], :, [1, 0, 1]], torch.randn(3, 2, 4))
case("solve", torch.linalg.solve, torch.randn(2, 1, 3, 3) + 3 * torch.eye(3), torch.randn(4, 3, 2))
case("einsum", lambda a, b, c: torch.einsum("ij,jk,kl->il", a, b, c), torch.randn(2, 30), torch.randn(30, 40),
     torch.randn(40, 3))
case("conv2d", lambda x, w: F.conv2d(x, w, None, (2, 1), (0, 2), (1, 2)), torch.randn(2, 3, 6, 7), torch.randn(4, 3, 2, 3))
case("max_pool2d", lambda x: F.max_pool2d(x, (3, 2), (1, 2), (1, 0), (2, 1)), torch.randn(2, 3, 7, 6))
case("avg_pool2d", lambda x: F.avg_pool2d(x, (3, 2), (1, 2), (1, 0)), torch.randn(2, 3, 7, 6))
case("conv_transpose2d", lambda x, w, b: F.conv_transpose2d(x, w, b, (2, 3), (1, 2), (1, 0), 2, (1, 2)),
     torch.randn(2, 4, 5, 4), torch.randn(4, 3, 2, 3), torch.randn(6))
image = torch.randn(2, 3, 4, 6)
case("nearest", lambda x: F.interpolate(x, (7, 3)), image)
case("bilinear", lambda x: F.interpolate(x, (7, 3), mode="bilinear"), image)
case("bilinear_scaled", lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), image)
case("bilinear_aligned", lambda x: F.interpolate(x, (7, 3), mode="bilinear", align_corners=True), image)
case("linear", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), torch.randn(2, 3, 5))
case("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), torch.randn(2, 8, 3, 2))
case("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), torch.randn(2, 2, 4, 6))
targets, steps, labels = torch.tensor([[1, 2, 2], [3, 1, 4], [4, 0, 0]]), torch.tensor([9, 7, 5]), torch.tensor([3, 3, 1])
for reduction in "none", "mean", "sum":
    case(f"ctc_{reduction}", lambda x: F.ctc_loss(F.log_softmax(x, -1), targets, steps, labels, reduction=reduction),
         torch.randn(9, 3, 5) * 2)
arrays["ctc.targets"], arrays["ctc.steps"], arrays["ctc.labels"] = targets, steps, labels
np.savez(pathlib.Path(__file__).parent / "names.npz", **{k: v.detach().numpy() for k, v in arrays.items()})
