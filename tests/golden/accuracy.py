#!/usr/bin/env python3
"""Writes accuracy.npy and accuracy.txt: functions of one and two numbers and their derivatives, exact at 160 bits and
then rounded to float64, at special and random float32 numbers.

    pip install mpmath numpy && python3 tests/golden/accuracy.py

accuracy.npy is [rows, points], float64; line i of accuracy.txt names row i: `function quantity`, where the quantity is
x, y (the second argument, if there is one), value, or the derivative by x or y: dx, dy.
tests/core/table/accuracy_test.cpp measures how far the library is from these numbers.
"""

import pathlib

import mpmath as mp
import numpy as np

mp.mp.prec = 160
POINTS = 1024
inf, nan = float("inf"), float("nan")
random = np.random.default_rng(11)


def rounded(v):
    """mpf to float64; what is beyond its range becomes infinity or 0 by itself."""
    return float(v)


def draws(n, low, high):
    return random.uniform(low, high, n)


def any_float(n):
    """Every size, sign and exponent alike."""
    x = random.integers(0, 2**32, n, dtype=np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(nan), x)


def points():
    with np.errstate(all="ignore"):
        tiny, least, most = 2.0**-149, 2.0**-126, 3.4028234663852886e38
        special = [0.0, -0.0, inf, -inf, nan]
        special += [s * v for s in (1, -1) for v in (tiny, 3 * tiny, least - tiny, least, most, 1e-26, 9e-27, 1e-40)]
        special += [s * v for s in (1, -1) for v in (0.5, 1, np.nextafter(np.float32(1), np.float32(0)), 1.5, 2, 3, 10)]
        special += [s * 2.0**k for s in (1, -1) for k in range(-148, 128, 9)]
        special += [87.2, 87.4, 88.0, 88.7, 88.72, 88.73, 89, 103.9, 104.1]  # around the ends of e^x
        special += [-87.2, -87.4, -88.0, -88.7, -90, -92, -95, -100, -103.2, -103.9, -104.1, -107, -108.5]
        special += [-12.9, -13.1, -13.3, -13.5, -14.0, -14.2, -14.4, 8.9, 9.1, 9.3, 9.4, 10.1]  # and of e^(-x^2)
        special += [k * np.pi / 2 for k in range(-6, 7)]
        x = np.array(special, np.float32)
        rest = POINTS - len(x)
        parts = [any_float(rest // 4), draws(rest // 4, -16, 16), draws(rest // 4, -108, 108)]
        parts.append(draws(rest - 3 * (rest // 4), -2, 2))
        return np.concatenate([x] + [p.astype(np.float32) for p in parts])


def pairs():
    x, y = points(), points()
    random.shuffle(y)
    half = POINTS // 2
    x[half:] = np.exp2(draws(POINTS - half, -40, 40)).astype(np.float32)
    y[half:] = draws(POINTS - half, -3, 3).astype(np.float32)
    return x, y


def at(f, x, pole=None):
    """f(x), with infinities approached from the inside; at 0 `pole` stands for what f can't compute."""
    if np.isnan(x):
        return nan
    if pole is not None and x == 0:
        return pole(np.copysign(1.0, x))
    try:
        v = f(mp.mpf(float(np.sign(x))) * mp.mpf(10) ** 4000 if np.isinf(x) else mp.mpf(float(x)))
    except (ZeroDivisionError, ValueError):
        return nan
    if isinstance(v, mp.mpc):
        return nan
    return rounded(v)


rows = []  # (name, numbers)


def save(name, **quantities):
    for quantity, numbers in quantities.items():
        assert len(numbers) == POINTS, name
        rows.append((f"{name} {quantity}", np.array(numbers, np.float64)))


def one(name, f, df, pole=None, pole_of_slope=None, fix=None, x=None):
    """pole(sign of zero) is f there; fix(x) gives (value, slope) where a convention decides, None elsewhere."""
    x = points() if x is None else x
    value = [at(f, v, pole) for v in x]
    slope = [at(df, v, pole_of_slope) for v in x]
    for i, v in enumerate(x):
        if fix and fix(v) is not None:
            value[i], slope[i] = fix(v)
    save(name, x=x, value=value, dx=slope)


def positive(f):
    return lambda x: f(x) if x >= 0 else mp.nan


def finite(f):
    return lambda x: f(x) if abs(x) < mp.mpf(10) ** 100 else mp.nan


def sigmoid(x):
    return 1 / (1 + mp.exp(-x)) if x > 0 else mp.exp(x) / (1 + mp.exp(x))


def normal_cdf(x):
    return mp.mpf(x > 0) if abs(x) > 1000 else mp.erfc(-x / mp.sqrt(2)) / 2


def functions_of_one():
    one("exp", mp.exp, mp.exp)
    one("log", positive(mp.log), lambda x: 1 / x, lambda s: -inf, lambda s: s * inf,
        fix=lambda x: (inf, 0) if x == inf else None)
    one("log1p", lambda x: mp.log1p(x) if x > -1 else mp.nan, lambda x: 1 / (1 + x),
        fix=lambda x: (-inf, inf) if x == -1 else (inf, 0) if x == inf else None)
    one("sqrt", positive(mp.sqrt), positive(lambda x: 1 / (2 * mp.sqrt(x))), lambda s: s * 0.0, lambda s: s * inf)
    one("rsqrt", positive(lambda x: 1 / mp.sqrt(x)), positive(lambda x: -1 / (2 * x * mp.sqrt(x))), lambda s: s * inf,
        lambda s: -s * inf)
    one("sin", finite(mp.sin), finite(mp.cos))
    one("cos", finite(mp.cos), finite(lambda x: -mp.sin(x)))
    one("tanh", mp.tanh, lambda x: mp.sech(x) ** 2)
    one("erf", mp.erf, lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x))
    one("sigmoid", sigmoid, lambda x: sigmoid(x) * sigmoid(-x))
    # With slopes of their pieces at NaN, and 0 or the left piece's at the kink, as PyTorch has them.
    one("abs", abs, mp.sign, fix=lambda x: (nan, 0) if np.isnan(x) else None)
    one("relu", lambda x: max(x, 0), lambda x: mp.mpf(x > 0), fix=lambda x: (nan, 1) if np.isnan(x) else None)
    one("leaky_relu 0.125", lambda x: x if x > 0 else x / 8, lambda x: mp.mpf(1) if x > 0 else mp.mpf(0.125),
        fix=lambda x: (nan, 0.125) if np.isnan(x) else None)
    one("elu 1.25", lambda x: x if x > 0 else 1.25 * mp.expm1(x), lambda x: mp.mpf(1) if x > 0 else 1.25 * mp.exp(x))
    one("gelu", lambda x: x * normal_cdf(x), lambda x: normal_cdf(x) + x * mp.npdf(x))
    k = 2 * mp.sqrt(2 / mp.pi)
    u = lambda x: k * (x + mp.mpf("0.044715") * x**3)
    one("gelu tanh", lambda x: x * sigmoid(u(x)),
        lambda x: sigmoid(u(x)) * (1 + x * sigmoid(-u(x)) * k * (1 + 3 * mp.mpf("0.044715") * x * x)))
    one("silu", lambda x: x * sigmoid(x), lambda x: sigmoid(x) * (1 + x * sigmoid(-x)))
    one("softplus", lambda x: max(x, 0) + mp.log1p(mp.exp(-abs(x))), sigmoid)
    for e in (-1, -0.5, 0.125, 0.5, 1.5, 2, 3):
        whole = e == int(e)
        power = lambda p: lambda x: x**p if whole or x >= 0 else mp.nan
        odd = lambda p, s: s if p == int(p) and p % 2 else 1.0
        pole = lambda p: lambda s: odd(p, s) * inf if p < 0 else odd(p, s) * 0.0
        slope_pole = lambda s: e * (1.0 if e == 1 else pole(e - 1)(s))
        x = points()
        if not whole:  # pow(-0, e) and pow(-inf, e) are tests of their own
            x = np.where(np.isneginf(x) | ((x == 0) & np.signbit(x)), np.float32(0.75), x)
        one(f"pow {e}", power(mp.mpf(e)), lambda x: e * power(mp.mpf(e) - 1)(x), pole(e), slope_pole, x=x)


def functions_of_two():
    x, y = pairs()
    with np.errstate(all="ignore"):
        exact = np.isfinite(x) & np.isfinite(y) & (y != 0)
        wide, by = x.astype(np.float64), y.astype(np.float64)
        value, dx, dy = wide / by, 1 / by, -wide / by / by  # where infinities and zeros decide
    for i in np.flatnonzero(exact):
        a, b = mp.mpf(float(x[i])), mp.mpf(float(y[i]))
        value[i], dx[i], dy[i] = rounded(a / b), rounded(1 / b), rounded(-a / b**2)
    save("div", x=x, y=y, value=value, dx=dx, dy=dy)

    x, y = pairs()
    x = np.where((x > 0) & np.isfinite(x), x, np.float32(1.75))  # the special cases are tests of their own
    y = np.where(np.isfinite(y), y, np.float32(0.75))
    value, dx, dy = np.zeros(POINTS), np.zeros(POINTS), np.zeros(POINTS)
    for i in range(POINTS):
        a, b = mp.mpf(float(x[i])), mp.mpf(float(y[i]))
        value[i], dx[i], dy[i] = rounded(a**b), rounded(b * a ** (b - 1)), rounded(a**b * mp.log(a))
    save("pow", x=x, y=y, value=value, dx=dx, dy=dy)


def more_functions_of_one():  # last, so that the numbers above stay as they were
    one("log2", positive(lambda x: mp.log(x) / mp.log(2)), lambda x: 1 / (x * mp.log(2)), lambda s: -inf,
        lambda s: s * inf, fix=lambda x: (inf, 0) if x == inf else None)
    one("expm1", mp.expm1, mp.exp)
    one("tan", finite(mp.tan), finite(lambda x: 1 + mp.tan(x) ** 2))
    inside = lambda f: lambda x: f(x) if abs(x) <= 1 else mp.nan
    ends = lambda f, slope: lambda x: (float(f(float(x))), slope * inf) if abs(x) == 1 else None
    one("asin", inside(mp.asin), inside(lambda x: 1 / mp.sqrt(1 - x * x)), fix=ends(mp.asin, 1))
    one("acos", inside(mp.acos), inside(lambda x: -1 / mp.sqrt(1 - x * x)), fix=ends(mp.acos, -1))
    one("atan", mp.atan, lambda x: 1 / (1 + x * x))
    one("log_sigmoid", lambda x: min(x, 0) - mp.log1p(mp.exp(-abs(x))), lambda x: sigmoid(-x))


functions_of_one()
functions_of_two()
more_functions_of_one()
here = pathlib.Path(__file__).parent
np.save(here / "accuracy.npy", np.stack([numbers for _, numbers in rows]))
(here / "accuracy.txt").write_text("".join(name + "\n" for name, _ in rows))
