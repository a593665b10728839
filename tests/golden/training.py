#!/usr/bin/env python3
"""Writes training.npz, in float64: paths of PyTorch's optimisers, rates of its schedules, its recurrent layers, and
attention with further keys.

    pip install torch==2.13.0 numpy && python3 tests/golden/training.py
"""

import torch
from torch.optim import lr_scheduler as lr

from npz import save, start, write

start(17)


def optimisers():
    """A vector and a matrix, and their values after each of 30 steps."""
    starts = {"vector": torch.randn(5), "matrix": torch.randn(2, 3, 4)}
    gradients = {n: torch.randn(30, *x.shape) * (1 + torch.arange(30).reshape(-1, *[1] * x.dim()) % 7)
                 for n, x in starts.items()}
    for n in starts:
        save(f"optimisers/{n}/start", starts[n])
        save(f"optimisers/{n}/gradients", gradients[n])
    for name, make in {
        "adadelta": lambda p: torch.optim.Adadelta(p),
        "adadelta_all": lambda p: torch.optim.Adadelta(p, lr=0.5, rho=0.8, eps=1e-3, weight_decay=0.1, maximize=True),
        "adafactor": lambda p: torch.optim.Adafactor(p),
        "adafactor_all": lambda p: torch.optim.Adafactor(
            p, lr=0.3, beta2_decay=-0.5, eps=(1e-4, 1e-2), d=1.5, weight_decay=0.1, maximize=True),
        "sgd_maximize": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, maximize=True),
        "adam_maximize": lambda p: torch.optim.Adam(p, lr=0.05, weight_decay=0.1, maximize=True),
        "adamw_maximize": lambda p: torch.optim.AdamW(p, lr=0.05, maximize=True),
        "nadam_maximize": lambda p: torch.optim.NAdam(p, lr=0.05, maximize=True),
        "radam_maximize": lambda p: torch.optim.RAdam(p, lr=0.05, maximize=True),
        "adamax_maximize": lambda p: torch.optim.Adamax(p, lr=0.05, maximize=True),
        "rmsprop_maximize": lambda p: torch.optim.RMSprop(p, lr=0.05, maximize=True),
        "adagrad_maximize": lambda p: torch.optim.Adagrad(p, lr=0.05, maximize=True),
    }.items():
        for n, start in starts.items():
            p = start.clone().requires_grad_()
            optimiser, path = make([p]), []
            for g in gradients[n]:
                p.grad = g.clone()
                optimiser.step()
                path.append(p.detach().clone())
            save(f"optimisers/{n}/{name}", torch.stack(path))


def lbfgs():
    """Rosenbrock's valley in 6 dimensions; after each of 5 steps the place and the loss that step() gave."""
    start = torch.randn(6)
    save("lbfgs/start", start)
    for name, options in {
        "plain": dict(lr=1e-3, max_iter=4),
        "wolfe": dict(max_iter=6, line_search_fn="strong_wolfe"),
        "short": dict(max_iter=8, max_eval=5, history_size=2, line_search_fn="strong_wolfe"),
        "long": dict(lr=3.0, max_iter=40, max_eval=60, line_search_fn="strong_wolfe"),
    }.items():
        a, b = start[:2].clone().requires_grad_(), start[2:].reshape(2, 2).clone().requires_grad_()
        optimiser, path = torch.optim.LBFGS([a, b], **options), []

        def closure():
            optimiser.zero_grad()
            x = torch.cat([a, b.flatten()])
            loss = (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
            loss.backward()
            return loss

        for _ in range(5):
            loss = optimiser.step(closure)
            path.append(torch.cat([a.detach(), b.detach().flatten(), loss.detach().reshape(1)]))
        save(f"lbfgs/{name}", torch.stack(path))


def line_searches():
    """Waves in a bowl: each place where two steps of LBFGS ask for the loss, and the loss."""
    for case, (start, waves, rate, max_iter, max_eval) in enumerate([
        ((-0.6, 0.0), 3, 1, 2, 20), ((-2.6, -0.2), 5, 10, 2, 6), ((0.4, 0.6), 1, 50, 2, 12),
        ((2.2, 3.3), 3, 0.3, 4, 20), ((-0.8, -1.6), 9, 1, 4, 6), ((-3.2, 2.1), 1, 10, 2, 6),
        ((-0.7, 3.8), 3, 1, 2, 20), ((0.3, -0.2), 1, 50, 2, 6), ((3.4, 1.6), 9, 3, 2, 20),
        ((-0.3, -0.4), 9, 0.3, 2, 6), ((-1.0, -1.3), 5, 3, 2, 20), ((0.4, 1.5), 1, 50, 2, 6)
    ]):
        p, seen = torch.tensor(start, requires_grad=True), []
        optimiser = torch.optim.LBFGS([p], rate, max_iter, max_eval, line_search_fn="strong_wolfe")

        def closure():
            optimiser.zero_grad()
            x, y = p
            loss = torch.sin(waves * x) + torch.cos(2 * y) + 0.1 * (x * x + y * y) + 0.05 * x * y
            loss.backward()
            seen.append(torch.cat([p.detach(), loss.detach().reshape(1)]))
            return loss

        optimiser.step(closure), optimiser.step(closure)
        save(f"line_searches/{case}/options", torch.tensor([*start, waves, rate, max_iter, max_eval]))
        save(f"line_searches/{case}/path", torch.stack(seen))


def told_losses():
    """Losses and slopes that are told beforehand, wherever LBFGS asks for them: the places where it asks, and the last."""
    wolfe = "strong_wolfe"
    for case, (rate, max_iter, max_eval, tolerance_grad, tolerance_change, search, told) in enumerate([
        # an end of the bracket comes too close: how far from it the next place is, and when
        (1, 3, 7, 0, 1, wolfe, [(0, -1), (-0.5, 0.95), (0.0001, 2), (-2, -1), (0, 1), (2, 0.95)]),
        (1, 3, 10, 0, 1, wolfe, [(0, -1), (0.0001, 0.25), (1, 2), (-4, -1), (1, -1), (-0.5, 1)]),
        (4, 2, 7, 0, 1, wolfe, [(0, -1), (-1, 2), (0.5, -1)]),
        (1, 1, 7, 0, 1e-9, wolfe, [(0, -1), (0.0001, -0.95), (2, 0.25), (2, -0.95), (0, 1), (-0.5, 2)]),
        (10, 1, 4, 0, 0, wolfe, [(0, -1), (40, 9), (5, 10), (6, 1)]),  # the tenth of the bracket is close enough
        # how far it goes where the loss still falls, and where it rises and falls again
        (4, 1, 7, 0, 0.25, wolfe, [(0, -1), (-4, -2), (-1, -2)]),
        (0.5, 3, 7, 0, 1e-9, wolfe, [(0, -1), (-1, -1), (-0.5, -1)]),
        # evaluations are used up before there is a bracket
        (1e-9, 3, 4, 0, 0, wolfe, [(0, -1), (-4, -2), (-1, 0.125), (-4, 0.25)]),
        (1e-9, 3, 4, 0, 0, wolfe, [(0, -1), (-0.5, -0.5), (-1, 2)]),
        # brackets of 1e-9 and less
        (1e-9, 1, 7, 0, 1, wolfe, [(0, -1), (2, -1), (-2, -0.5)]),
        (1e-9, 3, 10, 0, 1, wolfe, [(0, -1), (-4, 2), (1, -1)]),
        (1e-9, 2, 7, 0, 0, wolfe, [(0, -1), (-1, 0.125), (2, -0.5)]),
        (1e-9, 2, 10, 0, 0, wolfe, [(0, -1), (0, -2), (-1, -0.5), (1, -0.5)]),
        # the last step along a direction needs no further loss
        (0.5, 1, 4, 0, 0, None, [(0, -1)]),
        # what is as large as a tolerance
        (4, 1, 10, 0, 1, None, [(0, -1)]),
        (1, 3, 7, 0, 0, None, [(0, -1), (0, -2), (0.0001, -1)]),
        (1, 3, 7, 0, 1e-9, None, [(0, -1), (1, -0.25), (1, -0.25)]),
        (1, 3, 7, 0, 1e-9, None, [(0, -1), (-0.5, 1), (-0.5, 0.95)]),
        (1, 3, 7, 0, 0, None, [(0, -1e-10), (1, 0.9999999999), (2, 1)]),  # a curvature of 1e-10 is left out
    ]):
        p, seen = torch.zeros(1, requires_grad=True), []
        optimiser = torch.optim.LBFGS([p], rate, max_iter, max_eval, tolerance_grad, tolerance_change,
                                      line_search_fn=search)

        def closure():
            loss, slope = told[min(len(seen), len(told) - 1)]
            seen.append(p.item())
            p.grad = torch.tensor([float(slope)])
            return torch.tensor(float(loss))

        optimiser.step(closure)
        options = [rate, max_iter, max_eval, tolerance_grad, tolerance_change, search is not None]
        save(f"told_losses/{case}/options", torch.tensor([float(x) for x in options]))
        save(f"told_losses/{case}/told", torch.tensor(told, dtype=torch.float64))
        save(f"told_losses/{case}/places", torch.tensor([*seen, p.item()]))


def schedules():
    """The rates of two groups at positions 0 to 100."""
    for name, make in {
        "constant": lambda o: lr.ConstantLR(o),
        "constant_long": lambda o: lr.ConstantLR(o, 0.7, 60),
        "polynomial": lambda o: lr.PolynomialLR(o, 40),
        "polynomial_square": lambda o: lr.PolynomialLR(o, 90, 2.5),
        "lambda": lambda o: lr.LambdaLR(o, lambda t: 0.95**t),
        "lambda_each": lambda o: lr.LambdaLR(o, [lambda t: t // 30, lambda t: 1 / (1 + t)]),
        "multiplicative": lambda o: lr.MultiplicativeLR(o, lambda t: 1 - 1 / (1 + t)),
        "multiplicative_each": lambda o: lr.MultiplicativeLR(o, [lambda t: 0.9, lambda t: 1.01]),
    }.items():
        o = torch.optim.SGD([{"params": [torch.zeros(1, requires_grad=True)], "lr": rate} for rate in (0.5, 0.02)])
        schedule, path = make(o), []
        for _ in range(101):
            path.append([g["lr"] for g in o.param_groups])
            o.step(), schedule.step()
        save(f"schedules/{name}", torch.tensor(path))


def clipping():
    """Gradients of a vector and a matrix, the norm that clipping found, and what it left."""
    for norm_type in 0.5, 1.0, 2.0, 3.0, float("inf"):
        for limit in 0.7, 1e6:
            ps = [torch.zeros(5, requires_grad=True), torch.zeros(2, 3, requires_grad=True)]
            for p in ps:
                p.grad = torch.randn(p.shape)
            case = f"clipping/{norm_type}_{limit:g}"
            for i, p in enumerate(ps):
                save(f"{case}/before.{i}", p.grad)
            save(f"{case}/norm", torch.nn.utils.clip_grad_norm_(ps, limit, norm_type=norm_type))
            for i, p in enumerate(ps):
                save(f"{case}/after.{i}", p.grad)


def recurrent():
    """Of nn.LSTM and nn.GRU: state/NAME, x and the state before; output, h, c; their cotangents d_…, and gradients."""
    for kind, make in ("lstm", torch.nn.LSTM), ("gru", torch.nn.GRU):
        for form, options in {
            "plain": dict(),
            "deep": dict(num_layers=3, bias=False),
            "both": dict(num_layers=2, bidirectional=True),
        }.items():
            case = f"recurrent/{kind}_{form}"
            layer = make(3, 4, batch_first=True, **options)
            rows = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
            leaves = {"x": torch.randn(2, 5, 3), "h0": torch.randn(rows, 2, 4)}
            if kind == "lstm":
                leaves["c0"] = torch.randn(rows, 2, 4)
            for x in leaves.values():
                x.requires_grad_()
            state = tuple(leaves[n] for n in ("h0", "c0")) if kind == "lstm" else leaves["h0"]
            output, last = layer(leaves["x"], state)
            results = {"output": output} | dict(zip(("h", "c"), last if kind == "lstm" else (last,)))
            d = {n: torch.randn_like(y) for n, y in results.items()}
            sum((y * d[n]).sum() for n, y in results.items()).backward()
            for n, y in results.items():
                save(f"{case}/{n}", y)
                save(f"{case}/d_{n}", d[n])
            for n, x in leaves.items():
                save(f"{case}/{n}", x)
                save(f"{case}/grad/{n}", x.grad)
            for n, p in layer.named_parameters():
                save(f"{case}/state/{n}", p)
                save(f"{case}/grad/{n}", p.grad)


def further_keys():
    """nn.MultiheadAttention with add_bias_kv and add_zero_attn, causal and padded: as above."""
    hide = torch.ones(4, 5, dtype=torch.bool).triu(2)  # the last query sees all
    padding = torch.tensor([[False] * 5, [True, True, False, False, False]])
    save("attention/mask", ~hide)
    save("attention/padding", ~padding)
    for name, options in {
        "bias": dict(add_bias_kv=True),
        "zero": dict(add_zero_attn=True),
        "both": dict(add_bias_kv=True, add_zero_attn=True),
    }.items():
        case = f"attention/{name}"
        layer = torch.nn.MultiheadAttention(8, 2, batch_first=True, **options)
        query, memory = torch.randn(2, 4, 8, requires_grad=True), torch.randn(2, 5, 8, requires_grad=True)
        output, weights = layer(
            query, memory, memory, attn_mask=hide, key_padding_mask=padding, average_attn_weights=False)
        d = torch.randn_like(output)
        (output * d).sum().backward()
        for n, x in dict(query=query, memory=memory, output=output, weights=weights, d=d).items():
            save(f"{case}/{n}", x)
        for n, x in dict(query=query, memory=memory).items():
            save(f"{case}/grad/{n}", x.grad)
        for n, p in layer.named_parameters():
            save(f"{case}/state/{n}", p)
            save(f"{case}/theirs/{n}", p.grad)


def muon():
    """Paths of Muon: its formula in float64 ("exact": its iteration without the rounding to bfloat16), and as it is."""
    for n, shape in {"tall": (7, 4), "wide": (3, 6)}.items():
        start, gradients = torch.randn(shape), torch.randn(20, *shape)
        save(f"muon/{n}/start", start)
        save(f"muon/{n}/gradients", gradients)
        for name, options in {
            "plain": dict(),
            "all": dict(lr=0.02, weight_decay=0.3, momentum=0.8, nesterov=False, ns_steps=3,
                        adjust_lr_fn="match_rms_adamw"),
        }.items():
            for exact in True, False:
                rounded = torch.Tensor.bfloat16
                torch.Tensor.bfloat16 = (lambda x: x.clone()) if exact else rounded
                p = start.clone().requires_grad_()
                optimiser, path = torch.optim.Muon([p], **options), []
                for g in gradients:
                    p.grad = g.clone()
                    optimiser.step()
                    path.append(p.detach().clone())
                torch.Tensor.bfloat16 = rounded
                save(f"muon/{n}/{name}{'_exact' if exact else ''}", torch.stack(path))


optimisers()
lbfgs()
schedules()
clipping()
recurrent()
further_keys()
line_searches()
told_losses()
muon()
write()
