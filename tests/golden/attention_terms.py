#!/usr/bin/env python3
"""Writes attention_terms.npz: what transformers' attention with sinks (gpt-oss) and with a cap on the scores (Gemma 2)
computes in float64, with its gradients.

    pip install torch==2.13.0 transformers==5.23.0 numpy && python3 tests/golden/attention_terms.py

Four heads of queries share two of keys. Keys of the second sequence are padded at the end; gpt-oss is causal besides.
Gradients are those of sum(y * d_y). All inputs are numbers that float32 represents exactly.
"""

import pathlib
import types

import numpy as np
import torch
import transformers.models.gemma2.modeling_gemma2 as gemma
import transformers.models.gpt_oss.modeling_gpt_oss as gpt_oss
from in_float64 import InFloat64, leaf

assert torch.__version__.startswith("2.13.0"), torch.__version__
gemma.torch = InFloat64()
torch.manual_seed(7)
B, H, K, T, D, CAP = 2, 4, 2, 70, 4, 1.5
attends = torch.ones(B, 1, 1, T, dtype=torch.bool)
attends[1, ..., 50:] = False
causal = torch.ones(T, T, dtype=torch.bool).tril()
arrays = {"attends": attends, "cap": torch.tensor(CAP).double()}


def case(name, mask, function, **inputs):
    inputs |= {"q": leaf(2 * torch.randn(B, H, T, D)), "k": leaf(torch.randn(B, K, T, D)), "v": leaf(torch.randn(B, K, T, D))}
    bias = torch.zeros(mask.shape, dtype=torch.float64).masked_fill(~mask, -torch.inf)
    module = types.SimpleNamespace(num_key_value_groups=H // K, training=False, sinks=inputs.get("sinks"))
    y, weights = function(module, inputs["q"], inputs["k"], inputs["v"], bias)
    y = y.transpose(1, 2)
    assert y.dtype == weights.dtype == torch.float64
    d_y = torch.randn(y.shape).double()
    (y * d_y).sum().backward()
    values = inputs | {"y": y, "weights": weights[:, :, -3:], "d_y": d_y} | {f"d_{n}": x.grad for n, x in inputs.items()}
    arrays.update({f"{name}_{n}": x for n, x in values.items()})


def sinks(*args):
    return gpt_oss.eager_attention_forward(*args, scaling=D**-0.5)


def cap(*args):
    return gemma.eager_attention_forward(*args, scaling=D**-0.5, softcap=CAP)


case("sink", attends & causal, sinks, sinks=leaf(torch.randn(H)))
case("cap", attends, cap)
np.savez(pathlib.Path(__file__).parent / "attention_terms.npz", **{k: v.detach().numpy() for k, v in arrays.items()})
