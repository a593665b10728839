#!/usr/bin/env python3
"""Writes weights.safetensors: small models of PyTorch, transformers and nanoGPT, for the tests of fit/nn/weights/weights.hpp.

    pip install torch==2.13.0 transformers==5.23.0 safetensors && python3 tests/golden/weights.py

All is float64. Of each case there are `case/state/NAME`, as PyTorch saves it; `case/in/NAME`; `case/out/NAME`, in which
weights.0, weights.1 … are the attention weights of each layer, per head; `case/d/NAME`, the cotangents of the outputs;
and `case/grad/NAME`, the gradients of the parameters.
"""

import math
import pathlib

import safetensors.torch
import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel

assert torch.__version__.startswith("2.13.0"), torch.__version__
torch.manual_seed(11)
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
tensors = {}


def save(case, kind, **values):
    for name, value in values.items():
        tensors[f"{case}/{kind}/{name}"] = value.detach().clone().contiguous()


def save_model(case, module, outputs, inputs, weights=(), leave_out=()):
    d = {name: torch.randn_like(y) for name, y in outputs.items()}
    sum((y * d[name]).sum() for name, y in outputs.items()).backward()
    save(case, "state", **{n: v for n, v in module.state_dict().items() if n not in leave_out})
    save(case, "grad", **{n: p.grad for n, p in module.named_parameters() if p.grad is not None})
    save(case, "in", **inputs)
    save(case, "out", **outputs, **{f"weights.{i}": w for i, w in enumerate(weights)})
    save(case, "d", **d)


def shaken(module):
    """Other numbers than those that it starts with, among which are ones and zeros."""
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn_like(p) * 0.3)
    return module.train()


recorded = []  # attention weights of nn.MultiheadAttention, in the order of the calls
attend = nn.MultiheadAttention.forward


def attend_and_record(self, *arguments, **options):
    y, weights = attend(self, *arguments, **options | {"need_weights": True, "average_attn_weights": False})
    recorded.append(weights)
    return y, weights


nn.MultiheadAttention.forward = attend_and_record
causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
padding = torch.tensor([[False, False, False, False], [False, False, False, True]])


def stacks():
    for case, norm_first, activation, final in ("encoder", False, "gelu", True), ("encoder_first", True, "relu", False):
        layer = nn.TransformerEncoderLayer(8, 2, 12, 0.0, activation, 1e-3, batch_first=True, norm_first=norm_first)
        stack = shaken(nn.TransformerEncoder(layer, 2, nn.LayerNorm(8, 1e-3) if final else None, enable_nested_tensor=False))
        x, bias = torch.randn(2, 4, 8), torch.randn(4, 4)
        recorded.clear()
        y = stack(x, mask=bias, src_key_padding_mask=torch.zeros(2, 4).masked_fill(padding, -torch.inf))
        save_model(case, stack, {"y": y}, {"x": x, "bias": bias, "mask": ~padding[:, None]}, recorded)
    layer = nn.TransformerDecoderLayer(8, 2, 12, 0.0, "relu", 1e-3, batch_first=True, bias=False)
    stack = shaken(nn.TransformerDecoder(layer, 2, nn.LayerNorm(8, 1e-3, bias=False)))
    x, memory, bias, memory_bias = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.randn(3, 3), torch.randn(3, 4)
    recorded.clear()
    y = stack(x, memory, tgt_mask=bias.masked_fill(causal, -torch.inf), memory_mask=memory_bias)
    save_model("decoder", stack, {"y": y}, {"x": x, "memory": memory, "bias": bias, "memory_bias": memory_bias}, recorded)


class Seq2Seq(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.source_embedding, self.target_embedding = nn.Embedding(7, width), nn.Embedding(6, width)
        self.transformer = nn.Transformer(width, 2, 2, 2, 12, 0.0, batch_first=True)
        self.head = nn.Linear(width, 6, bias=False)
        self.head.weight = self.target_embedding.weight
        t, i = torch.arange(5)[:, None], torch.arange(0, width, 2)
        angles = t / 10000 ** (i / width)
        self.places = torch.stack((angles.sin(), angles.cos()), -1).flatten(1).float().double()

    def embed(self, table, ids):
        return table(ids) * math.sqrt(table.embedding_dim) + self.places[: ids.shape[1]]

    def forward(self, source, target, hidden):
        y = self.transformer(
            self.embed(self.source_embedding, source), self.embed(self.target_embedding, target), tgt_mask=causal,
            src_key_padding_mask=hidden, memory_key_padding_mask=hidden)
        return self.head(y)


def sequence_to_sequence():
    source, target = torch.tensor([[1, 2, 3, 4], [5, 6, 1, 0]]), torch.tensor([[1, 2, 3], [3, 4, 5]])
    model = shaken(Seq2Seq())
    recorded.clear()
    y = model(source, target, padding)
    save_model("seq2seq", model, {"y": y}, {"source": source, "target": target}, recorded, leave_out=["head.weight"])


class Basic(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm, self.fc, self.rms = nn.Embedding(5, 4), nn.LayerNorm(4), nn.Linear(4, 3), nn.RMSNorm(3, 1e-6)

    def forward(self, ids):
        return self.rms(self.fc(self.norm(self.table(ids))))


def basic():
    ids, model = torch.tensor([[0, 4, 2]]), shaken(Basic())
    save_model("basic", model, {"y": model(ids)}, {"ids": ids})


def gpt2():
    model = shaken(GPT2LMHeadModel(GPT2Config(
        vocab_size=11, n_positions=8, n_embd=8, n_layer=2, n_head=2, attn_implementation="eager",
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).double())
    ids = torch.tensor([[1, 5, 10, 2, 0], [3, 3, 9, 8, 7]])
    r = model(ids, output_attentions=True)
    save_model("gpt2", model, {"y": r.logits}, {"ids": ids}, r.attentions, leave_out=["lm_head.weight"])


class NanoAttention(nn.Module):
    """As https://github.com/karpathy/nanoGPT names and computes it (model.py)."""

    def __init__(self, width, heads):
        super().__init__()
        self.c_attn, self.c_proj, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.c_attn(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        self.weights = scores.masked_fill(ahead, -torch.inf).softmax(-1)
        return self.c_proj((self.weights @ v).transpose(1, 2).flatten(2))


class NanoMLP(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x)))


class NanoBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn, self.ln_2, self.mlp = (
            nn.LayerNorm(width), NanoAttention(width, heads), nn.LayerNorm(width), NanoMLP(width))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class NanoGPT(nn.Module):
    def __init__(self, vocabulary=11, length=8, width=8, heads=2, layers=2):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(vocabulary, width), wpe=nn.Embedding(length, width),
            h=nn.ModuleList([NanoBlock(width, heads) for _ in range(layers)]), ln_f=nn.LayerNorm(width)))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, ids):
        t = self.transformer
        x = t.wte(ids) + t.wpe(torch.arange(ids.shape[1]))
        for block in t.h:
            x = block(x)
        return self.lm_head(t.ln_f(x))


def nanogpt():
    model, ids = shaken(NanoGPT()), torch.tensor([[1, 5, 10, 2, 0], [3, 3, 9, 8, 7]])
    y = model(ids)
    save_model("nanogpt", model, {"y": y}, {"ids": ids}, [block.attn.weights for block in model.transformer.h])


def bert():
    model = shaken(BertModel(BertConfig(
        vocab_size=11, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=12,
        max_position_embeddings=6, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
        attn_implementation="eager")).double())
    ids, segments = torch.tensor([[1, 5, 10, 2], [3, 3, 9, 4]]), torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
    r = model(ids, attention_mask=(~padding).long(), token_type_ids=segments, output_attentions=True)
    save_model("bert", model, {"y": r.last_hidden_state}, {"ids": ids, "segments": segments}, r.attentions)


stacks()
sequence_to_sequence()
basic()
gpt2()
nanogpt()
bert()
path = pathlib.Path(__file__).parent / "weights.safetensors"
safetensors.torch.save_file(tensors, path)
print(f"{len(tensors)} tensors, {path.stat().st_size} bytes")
