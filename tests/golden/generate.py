#!/usr/bin/env python3
"""Writes golden.npy and golden.txt: what PyTorch 2.13.0 computes in float64, for the tests that say "golden".

    pip install torch==2.13.0 numpy && python3 tests/golden/generate.py

golden.npy holds all numbers one after the other, as float64. golden.txt says what they are: in its first line the
format's version, PyTorch's version and the seed; then, a line each, `case/tensor dtype offset sizes...`.
All inputs are numbers that float32 represents exactly. Gradients are those of sum(output * d_output), d_output random.
"""

import pathlib

import numpy as np
import torch
import torch.nn.functional as F

SEED = 7
assert torch.__version__.startswith("2.13.0"), torch.__version__
torch.manual_seed(SEED)
torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)

tensors = []  # (name, tensor)


def randn(*shape):
    return torch.randn(shape).float().double()


def leaf(*shape):
    return randn(*shape).requires_grad_()


def save(case, **values):
    for name, value in values.items():
        assert case.startswith("kinks/") or value.isfinite().all(), f"{case}/{name}"
        tensors.append((f"{case}/{name}", value.detach().clone()))


def save_with_gradients(case, outputs, inputs, **constants):
    """outputs and inputs by name; an output's cotangent is d_<name>, and so is an input's gradient."""
    cotangents = {name: randn(*y.shape) for name, y in outputs.items()}
    sum((y * cotangents[name]).sum() for name, y in outputs.items()).backward()
    save(case, **inputs, **constants, **outputs)
    save(case, **{f"d_{name}": v for name, v in cotangents.items()})
    save(case, **{f"d_{name}": v.grad for name, v in inputs.items()})


def elementary():
    x, w, b = leaf(3, 5, 4), leaf(6, 4), leaf(6)
    save_with_gradients("linear", {"y": F.linear(x, w, b)}, {"x": x, "weight": w, "bias": b})
    x, w, b = leaf(2, 3, 7), leaf(7), leaf(7)
    save_with_gradients("layer_norm", {"y": F.layer_norm(x, (7,), w, b, 1e-5)}, {"x": x, "weight": w, "bias": b})
    x, w = leaf(2, 3, 7), leaf(7)
    save_with_gradients("rms_norm", {"y": F.rms_norm(x, (7,), w, 1e-6)}, {"x": x, "weight": w})
    for name, f in {
        "gelu_exact": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "softmax": lambda x: F.softmax(x, -1),
        "softmax_axis0": lambda x: F.softmax(x, 0),
        "log_softmax": lambda x: F.log_softmax(x, -1),
    }.items():
        x = (2 * randn(4, 9)).requires_grad_()
        save_with_gradients(name, {"y": f(x)}, {"x": x})
    table, ids = leaf(6, 3), torch.tensor([[0, 5, 2, 2], [1, 2, 5, 3]])
    save_with_gradients("embedding", {"y": F.embedding(ids, table, padding_idx=2)}, {"weight": table}, ids=ids)


def losses():
    for reduction in "mean", "sum", "none":
        x, target = leaf(4, 5), leaf(4, 5)
        save_with_gradients(
            f"mse_{reduction}", {"y": F.mse_loss(x, target, reduction=reduction)}, {"x": x, "target": target})
        x, ids = leaf(6, 5), torch.tensor([0, 4, 2, 1, 1, 3])
        save_with_gradients(
            f"cross_entropy_{reduction}", {"y": F.cross_entropy(x, ids, reduction=reduction)}, {"x": x}, ids=ids)
        x, ids = leaf(6, 5), torch.tensor([0, -1, 2, 1, -1, 3])
        y = F.cross_entropy(x, ids, ignore_index=-1, reduction=reduction)
        save_with_gradients(f"cross_entropy_ignored_{reduction}", {"y": y}, {"x": x}, ids=ids)
    x, ids = leaf(2, 3, 5), torch.tensor([[0, 4, -100], [1, 1, 3]])
    save_with_gradients(
        "cross_entropy_batch", {"y": F.cross_entropy(x.reshape(-1, 5), ids.reshape(-1))}, {"x": x}, ids=ids)


def focal(x, target, alpha, gamma, reduction):
    """Lin et al. 2017, equation 5."""
    p = torch.sigmoid(x)
    p_t, alpha_t = torch.where(target == 1, p, 1 - p), torch.where(target == 1, alpha, 1 - alpha)
    y = -alpha_t * (1 - p_t) ** gamma * p_t.log()
    return {"mean": y.mean, "sum": y.sum, "none": lambda: y}[reduction]()


def losses_with_options():
    ids, some, weight = torch.tensor([0, 4, 2, 1, 1, 3]), torch.tensor([0, -1, 2, 1, -1, 3]), torch.rand(5).float().double()
    yes, positive = (torch.rand(3, 4) < 0.5).double(), torch.tensor([0.5, 3.0, 1.0, 2.0])
    save("losses", ids=ids, some=some, weight=weight, yes=yes, positive=positive)
    far, rows, pair = 2 * randn(3, 4), (torch.rand(3, 4) + 0.1).float().double(), torch.tensor([1, -1, -1, 1, -1])
    save("losses", pair=pair)
    log_rows = F.log_softmax(randn(3, 4), -1).float().double()
    share = F.softmax(randn(6, 5), -1).float().double()
    for name, f, *inputs in [
        ("cross_entropy_weighted", lambda x, r: F.cross_entropy(x, some, weight, ignore_index=-1, reduction=r),
         randn(6, 5)),
        ("cross_entropy_smooth", lambda x, r: F.cross_entropy(x, ids, label_smoothing=0.2, reduction=r), randn(6, 5)),
        ("cross_entropy_smooth_weighted", lambda x, r: F.cross_entropy(
            x, some, weight, ignore_index=-1, label_smoothing=0.2, reduction=r), randn(6, 5)),
        ("cross_entropy_soft", lambda x, t, r: F.cross_entropy(x, t, reduction=r), randn(6, 5), share),
        ("cross_entropy_soft_weighted", lambda x, t, r: F.cross_entropy(
            x, t, weight, label_smoothing=0.2, reduction=r), randn(6, 5), share),
        ("nll", lambda x, r: F.nll_loss(x, ids, reduction=r), randn(6, 5)),
        ("nll_weighted", lambda x, r: F.nll_loss(x, some, weight, ignore_index=-1, reduction=r), randn(6, 5)),
        ("bce", lambda x, t, r: F.binary_cross_entropy(x, t, reduction=r), rows / 1.25, rows.flip(0) / 1.25),
        ("bce_sure", lambda x, r: F.binary_cross_entropy(x, yes, reduction=r), 1 - yes.flip(0)),
        ("bce_weighted", lambda x, r: F.binary_cross_entropy(x, yes, positive, reduction=r), rows / 1.25),
        ("bce_logits", lambda x, t, r: F.binary_cross_entropy_with_logits(x, t, reduction=r), far, rows / 1.25),
        ("bce_logits_weighted", lambda x, t, r: F.binary_cross_entropy_with_logits(
            x, t, positive, pos_weight=positive + 1, reduction=r), far, rows / 1.25),
        ("focal", lambda x, r: focal(x, yes, 0.25, 2.0, r), far),
        ("focal_flat", lambda x, r: focal(x, yes, 0.6, 0.5, r), far),
        ("l1", lambda x, t, r: F.l1_loss(x, t, reduction=r), randn(3, 4), randn(3, 4)),
        ("smooth_l1", lambda x, t, r: F.smooth_l1_loss(x, t, reduction=r), randn(3, 4), randn(3, 4)),
        ("smooth_l1_narrow", lambda x, t, r: F.smooth_l1_loss(x, t, beta=0.25, reduction=r), randn(3, 4), randn(3, 4)),
        ("huber", lambda x, t, r: F.huber_loss(x, t, reduction=r), randn(3, 4), randn(3, 4)),
        ("huber_narrow", lambda x, t, r: F.huber_loss(x, t, delta=0.25, reduction=r), randn(3, 4), randn(3, 4)),
        ("kl_div", lambda x, t, r: F.kl_div(x, t, reduction=r), log_rows, rows),
        ("kl_div_log", lambda x, t, r: F.kl_div(x, t, reduction=r, log_target=True), log_rows, log_rows.flip(0)),
        ("cosine_embedding", lambda x, t, r: F.cosine_embedding_loss(x, t, pair, reduction=r), randn(5, 4), randn(5, 4)),
        ("cosine_embedding_margin", lambda x, t, r: F.cosine_embedding_loss(x, t, pair, margin=0.2, reduction=r),
         randn(5, 4), randn(5, 4)),
    ]:
        for reduction in "mean", "sum", "none":
            leaves = {n: x.float().double().requires_grad_() for n, x in zip(("x", "target"), inputs)}
            save_with_gradients(f"losses/{name}_{reduction}", {"y": f(*leaves.values(), reduction)}, leaves)


def optimisers():
    gradients, start = randn(50, 7), randn(7)
    save("optimisers", gradients=gradients, start=start)
    for name, make in {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.05),
        "sgd_momentum": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "sgd_nesterov": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True),
        "sgd_dampened": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, dampening=0.5),
        "adam": lambda p: torch.optim.Adam(p, lr=0.05),
        "adam_decay": lambda p: torch.optim.Adam(p, lr=0.05, betas=(0.8, 0.95), weight_decay=0.1, amsgrad=True),
        "adamw": lambda p: torch.optim.AdamW(p, lr=0.05),
        "adamw_decay": lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
        "adamw_amsgrad": lambda p: torch.optim.AdamW(p, lr=0.05, betas=(0.8, 0.95), amsgrad=True),
        "nadam": lambda p: torch.optim.NAdam(p, lr=0.05),
        "nadam_decay": lambda p: torch.optim.NAdam(
            p, lr=0.05, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1, momentum_decay=0.02),
        "nadam_decoupled": lambda p: torch.optim.NAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
        "radam": lambda p: torch.optim.RAdam(p, lr=0.05),
        "radam_decay": lambda p: torch.optim.RAdam(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
        "radam_decoupled": lambda p: torch.optim.RAdam(p, lr=0.05, weight_decay=0.1, decoupled_weight_decay=True),
        "adamax": lambda p: torch.optim.Adamax(p, lr=0.05),
        "adamax_decay": lambda p: torch.optim.Adamax(p, lr=0.05, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
        "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.05),
        "rmsprop_momentum": lambda p: torch.optim.RMSprop(p, lr=0.01, alpha=0.9, eps=1e-6, momentum=0.8),
        "rmsprop_centered": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True),
        "rmsprop_all": lambda p: torch.optim.RMSprop(
            p, lr=0.01, alpha=0.9, weight_decay=0.1, momentum=0.8, centered=True),
        "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.05),
        "adagrad_decay": lambda p: torch.optim.Adagrad(
            p, lr=0.05, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3),
    }.items():
        parameter = start.clone().requires_grad_()
        optimiser = make([parameter])
        path = []
        for g in gradients:
            parameter.grad = g.clone()
            optimiser.step()
            path.append(parameter.detach().clone())
        save(f"optimisers/{name}", path=torch.stack(path))


def schedules():
    """The rates of two groups at positions 0 to 100."""
    from torch.optim import lr_scheduler as lr

    def optimiser():
        groups = [{"params": [torch.zeros(1, requires_grad=True)], "lr": rate} for rate in (0.5, 0.02)]
        return torch.optim.SGD(groups)

    def follow(o, step):
        path = [[g["lr"] for g in o.param_groups]]
        for t in range(100):
            o.step()
            step(t)
            path.append([g["lr"] for g in o.param_groups])
        return torch.tensor(path)

    for name, make in {
        "step": lambda o: lr.StepLR(o, 7, 0.5),
        "multi_step": lambda o: lr.MultiStepLR(o, [3, 10, 10, 50], 0.3),
        "exponential": lambda o: lr.ExponentialLR(o, 0.95),
        "linear": lambda o: lr.LinearLR(o),
        "linear_down": lambda o: lr.LinearLR(o, 1.0, 0.2, 30),
        "cosine": lambda o: lr.CosineAnnealingLR(o, 30, 0.001),
        "restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 10, 2, 0.001),
        "restarts_equal": lambda o: lr.CosineAnnealingWarmRestarts(o, 9),
        "one_cycle": lambda o: lr.OneCycleLR(o, 0.3, 100, cycle_momentum=False),
        "one_cycle_linear": lambda o: lr.OneCycleLR(
            o, 0.3, 100, pct_start=0.4, anneal_strategy="linear", cycle_momentum=False, div_factor=10.0,
            final_div_factor=100.0),
        "one_cycle_three": lambda o: lr.OneCycleLR(o, 0.3, 110, pct_start=0.35, cycle_momentum=False, three_phase=True),
        "sequential": lambda o: lr.SequentialLR(
            o, [lr.LinearLR(o, 0.1, 1.0, 10), lr.CosineAnnealingLR(o, 50, 0.001), lr.StepLR(o, 5, 0.5)], [10, 60]),
        "chained": lambda o: lr.ChainedScheduler(
            [lr.LinearLR(o, 0.2, 1.0, 10), lr.ExponentialLR(o, 0.97), lr.CosineAnnealingLR(o, 120)]),
    }.items():
        o = optimiser()
        schedule = make(o)
        save(f"schedules/{name}", path=follow(o, lambda t: schedule.step()))

    for name, make, options in [
        ("momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), dict()),
        ("betas", lambda p: torch.optim.Adam(p, lr=0.1), dict(
            three_phase=True, pct_start=0.35, anneal_strategy="linear", base_momentum=0.8, max_momentum=0.9)),
    ]:
        o = make([torch.zeros(1, requires_grad=True)])
        schedule, path = lr.OneCycleLR(o, 0.3, 101, **options), []
        for t in range(100):
            group = o.param_groups[0]
            path.append([group["lr"], group["momentum"] if name == "momentum" else group["betas"][0]])
            o.step(), schedule.step()
        save(f"schedules/one_cycle_{name}", path=torch.tensor(path))

    metrics = (torch.rand(100) + 3 * 0.9 ** torch.arange(100)).float().double()
    save("schedules", metrics=metrics)
    for name, sign, options in [
        ("plateau", 1, dict(patience=4)),
        ("plateau_max", -1, dict(mode="max", factor=0.5, patience=2, threshold=0.01, threshold_mode="abs", cooldown=3)),
        ("plateau_floor", 1, dict(factor=0.5, patience=0, threshold=0.2, min_lr=0.01, eps=1e-3)),
    ]:
        o = optimiser()
        schedule = lr.ReduceLROnPlateau(o, **options)
        save(f"schedules/{name}", path=follow(o, lambda t: schedule.step(sign * metrics[t])))


def multihead_attention():
    width, heads = 8, 2

    def case(name, batch, queries, keys, self_attention=False, bias=True, kdim=None, vdim=None, **masks):
        layer = torch.nn.MultiheadAttention(width, heads, bias=bias, kdim=kdim, vdim=vdim, batch_first=True)
        with torch.no_grad():
            for p in layer.parameters():
                p.copy_(randn(*p.shape) / 2)
        query = leaf(batch, queries, width)
        key = query if self_attention else leaf(batch, keys, kdim or width)
        value = query if self_attention else leaf(batch, keys, vdim or width)
        y, weights = layer(query, key, value, average_attn_weights=False, **masks)
        inputs = {"query": query} if self_attention else {"query": query, "key": key, "value": value}
        inputs |= {n.replace(".", "_"): p for n, p in layer.named_parameters()}
        if masks.get("attn_mask") is not None and masks["attn_mask"].requires_grad:
            inputs["attn_mask"] = masks.pop("attn_mask")
        masks.pop("is_causal", None)
        save_with_gradients(f"mha/{name}", {"y": y, "weights": weights}, inputs, **masks)

    causal = torch.ones(4, 4, dtype=torch.bool).triu(1)
    padding = torch.tensor([[False, False, False, True], [False, False, False, False], [False, True, True, True]])
    case("self", 2, 4, 4, self_attention=True)
    case("cross", 2, 3, 5)
    case("without_bias", 2, 3, 5, bias=False)
    case("padding", 3, 2, 4, key_padding_mask=padding)
    case("causal", 2, 4, 4, self_attention=True, attn_mask=causal, is_causal=True)
    case("causal_padding", 3, 4, 4, self_attention=True, attn_mask=causal, key_padding_mask=padding)
    case("kdim_vdim", 2, 3, 5, kdim=6, vdim=10)
    case("mask_per_head", 2, 3, 5, attn_mask=torch.rand(4, 3, 5) < 0.3)
    case("bias_per_head", 2, 3, 5, attn_mask=leaf(4, 3, 5))


def scaled_dot_product_attention():
    def case(name, q, k, v, mask=None, **options):
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **options)
        inputs, constants = {"q": q, "k": k, "v": v}, {}
        if mask is not None:
            (inputs if mask.requires_grad else constants)["mask"] = mask
        save_with_gradients(f"sdpa/{name}", {"y": y}, inputs, **constants)

    def qkv(batch=2, heads=3, queries=4, keys=5, width=6, out=6, kv_heads=None):
        return (leaf(batch, heads, queries, width), leaf(batch, kv_heads or heads, keys, width),
                leaf(batch, kv_heads or heads, keys, out))

    def visible(*shape):  # every query sees at least one key
        mask = torch.rand(shape) < 0.6
        mask[..., 0] = True
        return mask

    case("plain", *qkv())
    case("other_value_width", *qkv(out=3))
    case("scale", *qkv(), scale=0.3)
    case("bool_mask", *qkv(), mask=visible(4, 5))
    case("bool_mask_batch", *qkv(), mask=visible(2, 1, 4, 5))
    case("float_mask", *qkv(), mask=leaf(4, 5))
    case("float_mask_full", *qkv(), mask=leaf(2, 3, 4, 5))
    case("float_mask_heads", *qkv(), mask=leaf(1, 3, 1, 5))
    case("causal", *qkv(keys=4), is_causal=True)
    case("grouped", *qkv(heads=4, kv_heads=2), enable_gqa=True)
    q, k, v = qkv(heads=1)
    case("three_axes", *[t.detach()[:, 0].clone().requires_grad_() for t in (q, k, v)])


def kinks():
    """Where a derivative is a choice, or where the plain formula breaks down: ties, bounds, zeros, infinities, NaN."""
    inf, nan = float("inf"), float("nan")
    numbers = [-1.0, 0.0, 0.5, 1.0, nan]
    far = [-1000.0, -100.0, -50.0, 50.0, 100.0, 1000.0]
    pairs = ([1.0, 2.0, 3.0, 0.0, nan], [1.0, 3.0, 2.0, 0.0, 1.0])
    ties = [[3.0, 1.0, 3.0], [2.0, 2.0, 2.0], [0.0, -1.0, -1.0]]
    some_zeros = [[0.0, 0.0, 0.0], [3.0, -4.0, 0.0], [1.0, 1.0, 1.0]]
    bases, exponents = [0.0, 0.0, 0.0, 0.0, 2.0, -2.0, -2.0], [0.0, 1.0, 2.0, 0.5, 0.0, 0.0, 3.0]
    hidden = [[-inf, 1.0, 2.0], [0.0, -inf, -inf], [1000.0, 0.0, -1000.0]]
    for name, f, *inputs in [
        ("abs", torch.abs, numbers),
        ("relu", F.relu, numbers),
        ("leaky_relu", F.leaky_relu, numbers),
        ("elu", F.elu, numbers),
        ("clamp", lambda x: x.clamp(-1, 0.5), numbers),
        ("tanh", torch.tanh, far),
        ("sigmoid", torch.sigmoid, far),
        ("softplus", lambda x: F.softplus(x, threshold=1e9), [-1000.0, -100.0, -50.0, 50.0, 100.0, 600.0]),
        ("gelu_exact", F.gelu, far),
        ("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), far),
        ("silu", F.silu, far),
        ("sqrt", torch.sqrt, [0.0, 1.0, -1.0]),
        ("maximum", torch.maximum, *pairs),
        ("minimum", torch.minimum, *pairs),
        ("where", lambda a, b: torch.where(torch.tensor([1, 0, 1, 0, 0]).bool(), a, b), *pairs),
        ("pow_0", lambda x: x.pow(0), numbers),
        ("pow_2", lambda x: x.pow(2), numbers),
        ("pow_half", lambda x: x.pow(0.5), numbers),
        ("pow", torch.pow, bases, exponents),
        ("max", torch.max, ties),
        ("min", torch.min, ties),
        ("max_axis", lambda x: x.max(1)[0], ties),
        ("min_axis", lambda x: x.min(0)[0], ties),
        ("max_axes", lambda x: x.amax((0, 1)), ties),
        ("prod", torch.prod, [2.0, 3.0, 4.0]),
        ("prod_one_zero", torch.prod, [2.0, 0.0, 4.0]),
        ("prod_two_zeros", torch.prod, [0.0, 3.0, 0.0]),
        ("prod_axis", lambda x: x.prod(1), some_zeros),
        ("norm_1", lambda x: torch.linalg.vector_norm(x, 1, 1), some_zeros),
        ("norm_2", lambda x: torch.linalg.vector_norm(x, 2, 1), some_zeros),
        ("norm_3", lambda x: torch.linalg.vector_norm(x, 3, 1), some_zeros),
        ("norm_inf", lambda x: torch.linalg.vector_norm(x, inf, 1), some_zeros),
        ("std", lambda x: x.std(1), some_zeros),
        ("var", lambda x: x.var(1), some_zeros),
        ("logsumexp", lambda x: x.logsumexp(1), hidden),
        ("softmax", lambda x: x.softmax(1), hidden),
        ("log_softmax", lambda x: x.log_softmax(1), hidden),
    ]:
        inputs = {n: torch.tensor(x, requires_grad=True) for n, x in zip("xb", inputs)}
        save_with_gradients(f"kinks/{name}", {"y": f(*inputs.values())}, inputs)


def transformer_layers():
    padding = torch.tensor([[False, False, False], [False, False, True]])
    for kind, make in {"encoder": torch.nn.TransformerEncoderLayer, "decoder": torch.nn.TransformerDecoderLayer}.items():
        for order, norm_first in {"post": False, "pre": True}.items():
            for activation in "relu", "gelu":
                layer = make(4, 2, 6, 0.0, activation, norm_first=norm_first, batch_first=True)
                with torch.no_grad():
                    for p in layer.parameters():
                        p.copy_(randn(*p.shape) / 2)
                inputs = {"x": leaf(2, 3, 4)}
                if kind == "encoder":
                    y = layer(inputs["x"], src_key_padding_mask=padding)
                else:
                    inputs["memory"] = leaf(2, 3, 4)
                    causal = torch.ones(3, 3, dtype=torch.bool).triu(1)
                    y = layer(inputs["x"], inputs["memory"], tgt_mask=causal, memory_key_padding_mask=padding)
                inputs |= {name.replace(".", "_"): p for name, p in layer.named_parameters()}
                save_with_gradients(f"transformer/{kind}_{order}_{activation}", {"y": y}, inputs)


def norms_that_count_or_choose():
    inf = float("inf")
    rows = [[0.0, 0.0, 0.0], [3.0, -4.0, 0.0], [1.0, -1.0, 2.0]]
    for name, f, *inputs in [
        ("norm_0", lambda x: torch.linalg.vector_norm(x, 0, 1) + 0 * x.sum(1), rows),  # PyTorch cuts its graph
        ("norm_minus_1", lambda x: torch.linalg.vector_norm(x, -1, 1), rows),
        ("norm_minus_inf", lambda x: torch.linalg.vector_norm(x, -inf, 1), rows),
        ("normalize_0", lambda x: F.normalize(x, 0, 1), rows),
        ("normalize_minus_inf", lambda x: F.normalize(x, -inf, 1, 0.125), rows),
        ("cdist_0", lambda a, b: torch.cdist(a, b, 0), rows, rows[::-1]),
    ]:
        inputs = {n: torch.tensor(x, requires_grad=True) for n, x in zip("xb", inputs)}
        save_with_gradients(f"kinks/{name}", {"y": f(*inputs.values())}, inputs)


def graphs_and_gates():
    ids, edges = torch.tensor([[0, 2, 0, 0], [1, 1, 0, 2]]), torch.tensor([2, 0, 2, 5, 0, 2])
    for reduce in "sum", "mean", "amax", "amin":
        for kind, include in {"joined": True, "replaced": False}.items():
            x, src = leaf(2, 3), leaf(2, 4)
            y = x.scatter_reduce(1, ids, src, reduce, include_self=include)
            save_with_gradients(f"scatter_reduce/{reduce}_{kind}", {"y": y}, {"x": x, "src": src}, ids=ids)
    for reduce in "amax", "amin":  # equal elements
        x = torch.tensor([[1.0, 2.0, 0.5]], requires_grad=True)
        src = torch.tensor([[1.0, 0.0, 1.0, 2.0]], requires_grad=True)
        y = x.scatter_reduce(1, torch.tensor([[0, 1, 0, 1]]), src, reduce)
        save_with_gradients(f"scatter_reduce/{reduce}_ties", {"y": y}, {"x": x, "src": src})
    x, along = leaf(6, 2), edges[:, None].expand(6, 2)
    e = (x - torch.full((6, 2), -torch.inf).scatter_reduce(0, along, x, "amax").detach().gather(0, along)).exp()
    y = e / torch.zeros(6, 2).scatter_add(0, along, e).gather(0, along)
    save_with_gradients("segment_softmax", {"y": y}, {"x": x}, ids=edges)
    x = leaf(3, 4)
    save_with_gradients("glu", {"y": F.glu(x, 1)}, {"x": x})
    for name, shape in {"tall": (4, 3), "wide": (2, 3), "square": (3, 3)}.items():
        a, b = leaf(2, *shape), leaf(2, shape[0], 2)
        save_with_gradients(f"lstsq/{name}", {"y": torch.linalg.lstsq(a, b).solution}, {"a": a, "b": b})
    for name, size in {"full": 4, "one": 1}.items():
        for reduction in "mean", "sum", "none":
            x, target, var = leaf(3, 4), leaf(3, 4), (torch.rand(3, size) + 0.1).float().double()
            var[0, 0] = 0.01
            var.requires_grad_()
            y = F.gaussian_nll_loss(x, target, var, full=name == "one", eps=0.05, reduction=reduction)
            save_with_gradients(f"gaussian_nll/{name}_{reduction}", {"y": y}, {"x": x, "target": target, "var": var})


def distributions():
    from torch import distributions as D

    def positive(*shape):
        return (torch.rand(shape) + 0.25).float().double().requires_grad_()

    def case(name, make, p, q, value):
        """p and q: two sets of parameters; value: some samples."""
        one, other = make(*p), make(*q)
        outputs = {"log_prob": one.log_prob(value), "entropy": one.entropy(), "kl": D.kl_divergence(one, other)}
        inputs = {f"p{i}": t for i, t in enumerate(p)} | {f"q{i}": t for i, t in enumerate(q)}
        save_with_gradients(f"distributions/{name}", outputs, inputs, value=value)

    bits, classes = (torch.rand(5, 2, 3) < 0.5).double(), torch.randint(0, 4, (5, 2))
    case("normal", D.Normal, (leaf(2, 3), positive(2, 3)), (leaf(2, 3), positive(2, 3)), randn(5, 2, 3))
    low, high = leaf(2, 3), leaf(2, 3)
    high.data += 9
    case("uniform", D.Uniform, (low, high),
         (torch.nn.Parameter(low.detach() - 1), torch.nn.Parameter(high.detach() + 1)), low.detach() + torch.rand(5, 2, 3))
    half = [torch.nn.Parameter(positive(2, 3).detach() / 2) for _ in range(2)]
    case("bernoulli", D.Bernoulli, half[:1], half[1:], bits)
    case("bernoulli_logits", lambda x: D.Bernoulli(logits=x), (leaf(2, 3),), (leaf(2, 3),), bits)
    case("categorical", D.Categorical, (positive(2, 4),), (positive(2, 4),), classes)
    case("categorical_logits", lambda x: D.Categorical(logits=x), (leaf(2, 4),), (leaf(2, 4),), classes)


elementary()
kinks()
losses()
optimisers()
schedules()
multihead_attention()
scaled_dot_product_attention()
losses_with_options()
transformer_layers()
norms_that_count_or_choose()
graphs_and_gates()
distributions()

here = pathlib.Path(__file__).parent
lines, offset = [f"fit-golden 1 torch {torch.__version__} seed {SEED}"], 0
for name, t in tensors:
    dtype = {torch.float64: "float64", torch.int64: "int64", torch.bool: "boolean"}[t.dtype]
    lines.append(" ".join([name, dtype, str(offset), *map(str, t.shape)]))
    offset += t.numel()
(here / "golden.txt").write_text("\n".join(lines) + "\n")
np.save(here / "golden.npy", torch.cat([t.reshape(-1).double() for _, t in tensors]).numpy())
print(f"{len(tensors)} tensors, {offset} numbers")
