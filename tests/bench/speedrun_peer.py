"""The peer of examples/speedrun.cpp in PyTorch: nanoGPT's recipe and that of docs/speedrun.md, with torch.compile and
bfloat16. Same model, data, schedule and validation; the random numbers differ.

    speedrun_peer.py [--nanogpt] [--float32] [--threads N] [--tokens N] [--seed N]    trains to the goal
    speedrun_peer.py [--nanogpt] [--float32] [--threads N] --rate-only                tokens a second alone, of 8 steps
"""
import argparse
import math
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import nn

GOAL = 1.4697
LENGTH, LAYERS, HEADS, WIDTH = 256, 6, 6, 384
POLAR_EXPRESS = [(7.9899, -22.7523, 16.6825), (3.6434, -2.7268, 0.5371), (2.6712, -1.9853, 0.4535)]


def rotary(x):  # (B, H, T, D), half_split
    half = x.size(-1) // 2
    angle = torch.outer(torch.arange(x.size(-2)), 10000 ** (-torch.arange(half) / half))
    cos, sin, (a, b) = angle.cos().to(x.dtype), angle.sin().to(x.dtype), x.split(half, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Block(nn.Module):
    def __init__(self, today, kinds, dropout):
        super().__init__()
        norm = (lambda n: nn.RMSNorm(n, eps=1e-6)) if today else (lambda n: nn.LayerNorm(n, bias=False))
        self.today, self.p, self.drop = today, dropout, nn.Dropout(dropout)
        self.ln_1, self.ln_2 = norm(WIDTH), norm(WIDTH)
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.fc, self.out = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        if today:
            self.q_norm, self.k_norm = (nn.RMSNorm(WIDTH // HEADS, eps=1e-6) for _ in range(2))
            self.values = nn.Embedding(kinds, WIDTH)

    def forward(self, x, ids):
        B, T, _ = x.shape
        q, k, v = self.qkv(self.ln_1(x)).split(WIDTH, -1)
        v = v + self.values(ids) if self.today else v
        q, k, v = (z.view(B, T, HEADS, -1).transpose(1, 2) for z in (q, k, v))
        if self.today:
            q, k = rotary(self.q_norm(q)), rotary(self.k_norm(k))
        p = self.p if self.training else 0
        y = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v, is_causal=True, dropout_p=p)
        x = x + self.drop(self.proj(y.transpose(1, 2).reshape(B, T, WIDTH)))
        h = self.fc(self.ln_2(x))
        return x + self.drop(self.out(F.relu(h).square() if self.today else F.gelu(h)))


class GPT(nn.Module):
    def __init__(self, today, kinds, dropout):
        super().__init__()
        self.today, self.drop = today, nn.Dropout(dropout)
        self.wte = nn.Embedding(kinds, WIDTH)
        self.wpe = None if today else nn.Embedding(LENGTH, WIDTH)
        self.h = nn.ModuleList(Block(today, kinds, dropout) for _ in range(LAYERS))
        self.ln_f = nn.RMSNorm(WIDTH, eps=1e-6) if today else nn.LayerNorm(WIDTH, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith(("proj.weight", "out.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * LAYERS) if residual else 0.02)

    def forward(self, ids, targets):
        x = self.wte(ids)
        x = self.drop(x if self.today else x + self.wpe(torch.arange(ids.size(1))))
        for block in self.h:
            x = block(x, ids)
        logits = F.linear(self.ln_f(x), self.wte.weight).float()
        logits = 15 * torch.tanh(logits / 15) if self.today else logits
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class Muon:
    def __init__(self, matrices, dtype, lr=0.02, momentum=0.95, decay=0.1):
        self.dtype = dtype
        self.matrices, self.lr, self.momentum, self.decay = matrices, lr, momentum, decay
        self.averages = [torch.zeros_like(p) for p in matrices]

    @torch.no_grad()
    def step(self, factor):
        lr = self.lr * factor
        for p, m in zip(self.matrices, self.averages):
            m.lerp_(p.grad, 1 - self.momentum)
            u = p.grad.lerp(m, self.momentum)
            x = (u / u.norm()).to(self.dtype)
            x = x.T if p.size(0) > p.size(1) else x
            for a, b, c in POLAR_EXPRESS:
                s = x @ x.T
                x = a * x + (b * s + c * s @ s) @ x
            x = x.T if p.size(0) > p.size(1) else x
            p.mul_(1 - lr * self.decay).sub_(x.float(), alpha=lr * max(1, p.size(0) / p.size(1)) ** 0.5)


def windows(text, batch):
    """Batches of windows, none twice in an epoch; each epoch has another offset."""
    while True:
        starts = LENGTH * torch.randperm(len(text) // LENGTH - 1) + torch.randint(LENGTH, (1,))
        for some in starts.split(batch):
            if len(some) == batch:
                at = some[:, None] + torch.arange(LENGTH)
                yield text[at], text[at + 1]


@torch.no_grad()
def validate(model, text, bfloat16):
    model.eval()
    starts = LENGTH * torch.arange((len(text) - 1) // LENGTH)
    total = 0
    for some in starts.split(32):
        at = some[:, None] + torch.arange(LENGTH)
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            total += model(text[at], text[at + 1]).item() * len(some)
    model.train()
    return total / len(starts)


def rates(nanogpt, steps):  # the rates' factor at each step
    warm = max(1, int(0.02 * steps))
    for t in range(steps):
        if t < warm:
            yield t / warm if nanogpt else (t + 1) / warm
        elif nanogpt:
            yield 0.1 + 0.45 * (1 + math.cos(math.pi * (t - warm) / (steps - warm)))
        else:
            yield min(1, (steps - t) / int(0.6 * steps))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--nanogpt", action="store_true")
    arguments.add_argument("--float32", action="store_true")
    arguments.add_argument("--rate-only", action="store_true")
    arguments.add_argument("--threads", type=int, default=2)
    arguments.add_argument("--tokens", type=float)
    arguments.add_argument("--seed", type=int, default=42)
    arguments.add_argument("--data", default=pathlib.Path(__file__).parents[2] / "examples/data/tinyshakespeare.txt")
    o = arguments.parse_args()
    torch.set_num_threads(o.threads)
    bfloat16 = not o.float32
    torch.manual_seed(o.seed)
    plays = pathlib.Path(o.data).read_text()
    letters = sorted(set(plays))
    text = torch.tensor([letters.index(c) for c in plays])
    training, validation = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]

    batch = 64 if o.nanogpt else 16
    steps = int(o.tokens or (81.92e6 if o.nanogpt else 3e6)) // (batch * LENGTH)
    model = GPT(not o.nanogpt, len(letters), 0.2 if o.nanogpt else 0.0)
    hidden = [p for n, p in model.named_parameters() if p.dim() == 2 and n.split(".")[-2] in ("qkv", "proj", "fc", "out")]
    muon = None if o.nanogpt else Muon(hidden, torch.bfloat16 if bfloat16 else torch.float32)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if not any(p is q for q in (matrices if o.nanogpt else hidden))]
    groups = [{"params": rest, "weight_decay": 0}] + ([{"params": matrices, "weight_decay": 0.1}] if o.nanogpt else [])
    peak = 1e-3 if o.nanogpt else 6e-3
    adamw = torch.optim.AdamW(groups, lr=peak, betas=(0.9, 0.99), fused=True)
    compiled, batches = torch.compile(model), windows(training, batch)
    trained, times = 0.0, []
    print(sum(p.numel() for p in model.parameters()), "parameters,", steps, "steps", flush=True)
    for step, factor in enumerate(rates(o.nanogpt, steps), 1):
        begin = time.monotonic()
        ids, targets = next(batches)
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = compiled(ids, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in adamw.param_groups:
            group["lr"] = peak * factor
        adamw.step()
        if muon:
            muon.step(factor)
        times.append(time.monotonic() - begin)
        trained += times[-1]
        if o.rate_only and step == 8:
            print(f"{batch * LENGTH / sorted(times)[len(times) // 2 - 1]:.0f} tokens a second")
            return
        if not o.rate_only and (step % (steps // 10) == 0 or step == steps):
            validated = validate(model, validation, bfloat16)
            print(step, step * batch * LENGTH, f"{trained / 60:.2f} min {loss.item():.4f} {validated:.4f}", flush=True)
            if validated <= GOAL:
                return


main()
