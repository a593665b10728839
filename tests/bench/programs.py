#!/usr/bin/env python3
"""Times programs.cpp's rows beside PyTorch's, as beside.py says: BENCH [--only NAME[,NAME]] [--rounds N]

Needs PyTorch.
"""
import torch
from torch import nn
from torch.nn import functional as F

from beside import main


def stepped(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def images(net, x):
    classes, optimizer = torch.randint(0, 10, (len(x),)), torch.optim.Adam(net.parameters(), 1e-3)
    return lambda: stepped(optimizer, F.cross_entropy(net(x), classes))


def cnn():
    return images(nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                                nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10)), torch.randn(64, 1, 28, 28))


def cnn_batch_norm():
    def block(i, o, stride=1):
        return nn.Conv2d(i, o, 3, padding=1, stride=stride), nn.BatchNorm2d(o), nn.ReLU()
    return images(nn.Sequential(*block(3, 32), *block(32, 32), *block(32, 64, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                nn.Linear(64, 10)), torch.randn(32, 3, 32, 32))


def vit():
    patches, head = nn.Conv2d(3, 128, 8, stride=8), nn.Linear(128, 10)
    encoder = nn.Sequential(*(nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True) for _ in range(2)))
    parameters = [p for layer in (patches, encoder, head) for p in layer.parameters()]
    optimizer, x, classes = torch.optim.AdamW(parameters, 1e-3), torch.randn(32, 3, 64, 64), torch.randint(0, 10, (32,))

    def step():
        tokens = patches(x).flatten(2).transpose(1, 2)
        stepped(optimizer, F.cross_entropy(head(encoder(tokens).mean(1)), classes))
    return step


def vae():
    encode, mean, log_var, decode, pixels = layers = [
        nn.Linear(*sizes) for sizes in ((784, 400), (400, 20), (400, 20), (20, 400), (400, 784))]
    optimizer, x = torch.optim.Adam([p for layer in layers for p in layer.parameters()], 1e-3), torch.rand(128, 784)

    def step():
        h = F.relu(encode(x))
        m, l = mean(h), log_var(h)
        y = pixels(F.relu(decode(m + torch.randn(128, 20) * torch.exp(l * 0.5))))
        loss = F.binary_cross_entropy_with_logits(y, x, reduction="sum")
        stepped(optimizer, loss + (torch.exp(l) + m * m - 1 - l).sum() * 0.5)
    return step


def gan():
    leaky = lambda: nn.LeakyReLU(0.2)
    generator = nn.Sequential(nn.Linear(64, 256), leaky(), nn.Linear(256, 512), leaky(), nn.Linear(512, 784), nn.Tanh())
    judge = nn.Sequential(nn.Linear(784, 512), leaky(), nn.Dropout(0.3), nn.Linear(512, 256), leaky(), nn.Dropout(0.3),
                          nn.Linear(256, 1))
    judging, generating = (torch.optim.Adam(net.parameters(), 2e-4) for net in (judge, generator))
    x, real, made = torch.randn(64, 784), torch.ones(64, 1), torch.zeros(64, 1)

    def loss(y, target):
        return F.binary_cross_entropy_with_logits(judge(y), target)

    def step():
        y = generator(torch.randn(64, 64))
        stepped(judging, loss(x, real) + loss(y.detach(), made))
        stepped(generating, loss(y, real))
    return step


def dqn():
    net, target = (nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
                   for _ in range(2))
    optimizer, state, next_state = torch.optim.Adam(net.parameters(), 1e-3), torch.randn(128, 4), torch.randn(128, 4)
    reward, action = torch.randn(128, 1), torch.randint(0, 2, (128, 1))

    def step():
        with torch.no_grad():
            value = reward + target(next_state).max(1, keepdim=True)[0] * 0.99
        optimizer.zero_grad()
        F.smooth_l1_loss(net(state).gather(1, action), value).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1)
        optimizer.step()
    return step


ROWS = {
    "cnn_b64": cnn,
    "cnn_batch_norm_b32": cnn_batch_norm,
    "vae_b128": vae,
    "gan_b64": gan,
    "dqn_b128": dqn,
    "vit_b32t64c128": vit,
}


if __name__ == "__main__":
    main(__doc__, {name: {"PyTorch": row} for name, row in ROWS.items()})
