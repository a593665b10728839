#!/usr/bin/env python3
"""Times everyday.cpp's rows beside PyTorch's, as beside.py says: BENCH [--only NAME[,NAME]] [--rounds N]

Needs PyTorch, and for the rows of files the package safetensors.
"""
import os
import tempfile

import torch
from torch import nn
from torch.nn import functional as F

from beside import main, without_gradients


def recurrent(kind, B, T, I, H, backward):
    layer, x, g = kind(I, H, batch_first=True), torch.randn(B, T, I), torch.randn(B, T, H)
    if not backward:
        return without_gradients(lambda: layer(x))

    def step():
        layer.zero_grad()
        layer(x)[0].backward(g)
    return step


def operation(shape, f):
    x = torch.randn(*shape)
    return lambda: f(x)


def gather():
    ids = (torch.rand(4096, 1024) * 1024).long()
    return operation((4096, 1024), lambda x: x.gather(1, ids))


def linear():
    w = torch.randn(768, 768)
    return operation((20, 768), lambda x: F.linear(x, w))


def loader():
    data = torch.utils.data.TensorDataset(torch.randn(8192, 784), torch.zeros(8192, dtype=torch.long))
    batches = torch.utils.data.DataLoader(data, batch_size=128)

    def step():
        for x, _ in batches:
            x.sum().item()
    return step


def file(used):
    from safetensors.torch import load_file, save_file
    folder = tempfile.TemporaryDirectory()  # goes when `step` does
    path = os.path.join(folder.name, "x")
    save_file({str(i): torch.ones(1000000) for i in range(50)}, path)

    def step(folder=folder):
        tensors = load_file(path)
        if used:
            for x in tensors.values():
                x.sum().item()
    return step


def adamw():
    weights = [torch.randn(1000000, requires_grad=True) for _ in range(30)]
    for w in weights:
        (w * torch.randn(1000000)).sum().backward()
    return torch.optim.AdamW(weights, 1e-3, fused=True).step


def muon():
    C = 384
    weights = [torch.randn(m * C, n * C, requires_grad=True) for m, n in ((3, 1), (1, 1), (4, 1), (1, 4)) * 6]
    for w in weights:
        (w * torch.randn_like(w)).sum().backward()
    return torch.optim.Muon(weights, 1e-3).step


def slopes():
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer, x = torch.optim.Adam(net.parameters(), 1e-3), torch.rand(1024, 2)

    def step():
        optimizer.zero_grad()
        at = x.clone().requires_grad_()
        slope = torch.autograd.grad(net(at).sum(), at, create_graph=True)[0].sum(1)
        (slope - 1).square().mean().backward()
        optimizer.step()
    return step


class Block(nn.Module):
    def __init__(self, C, H):
        super().__init__()
        self.H, self.norm1, self.norm2 = H, nn.LayerNorm(C), nn.LayerNorm(C)
        self.qkv, self.out, self.up, self.down = [nn.Linear(m * C, n * C) for m, n in ((1, 3), (1, 1), (1, 4), (4, 1))]

    def forward(self, x, past):
        B, T, C = x.shape
        q, k, v = (y.view(B, T, self.H, -1).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(C, -1))
        if past:
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
        past[:] = k, v
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, C))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def decode(B, tokens, layers=12, H=12, C=768, vocab=50257):
    ids, places = nn.Embedding(vocab, C), nn.Embedding(tokens + 1, C)
    blocks, norm = nn.ModuleList(Block(C, H) for _ in range(layers)), nn.LayerNorm(C)

    def step():
        pasts, last = [[] for _ in blocks], torch.zeros(B, 1, dtype=torch.long)
        for t in range(tokens):
            x = ids(last) + places.weight[t]
            for block, past in zip(blocks, pasts):
                x = block(x, past)
            last = F.linear(norm(x[:, -1:]), ids.weight).argmax(-1)
    return without_gradients(step)


ROWS = {
    "lstm_fwd_b32t64i128h256": lambda: recurrent(nn.LSTM, 32, 64, 128, 256, False),
    "lstm_fwdbwd_b32t64i128h256": lambda: recurrent(nn.LSTM, 32, 64, 128, 256, True),
    "lstm_fwd_b8t32i64h64": lambda: recurrent(nn.LSTM, 8, 32, 64, 64, False),
    "lstm_fwdbwd_b8t32i64h64": lambda: recurrent(nn.LSTM, 8, 32, 64, 64, True),
    "gru_fwd_b32t64i128h256": lambda: recurrent(nn.GRU, 32, 64, 128, 256, False),
    "gru_fwdbwd_b32t64i128h256": lambda: recurrent(nn.GRU, 32, 64, 128, 256, True),
    "gather_4096x1024": gather,
    "sort_1024x1000": lambda: operation((1024, 1000), lambda x: x.sort(stable=True)),
    "sort_200000": lambda: operation((200000,), lambda x: x.sort(stable=True)),
    "topk50_64x50257": lambda: operation((64, 50257), lambda x: x.topk(50)),
    "cumsum_4096x1024": lambda: operation((4096, 1024), lambda x: x.cumsum(1)),
    "transpose_10x4x5": lambda: operation((10, 4, 5), lambda x: x.transpose(1, 2).contiguous()),
    "linear_20x768x768": linear,
    "loader_8192x784": loader,
    "loader_8192x784_prefetch": loader,  # without workers, which are slower for data that are in memory
    "safetensors_200mb": lambda: file(False),
    "safetensors_200mb_sum": lambda: file(True),
    "adamw_30m": adamw,
    "muon_10m": muon,  # which iterates in bfloat16
    "muon_10m_bf16": muon,
    "slopes_b1024h64": slopes,
    "decode_l12h12c768_b8_32tokens": lambda: decode(8, 32),
}


if __name__ == "__main__":
    main(__doc__, {name: {"PyTorch": row} for name, row in ROWS.items()})
