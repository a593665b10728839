"""model.py LINES: the table of what bench_ranks has measured, and a model fitted to it of how a step scales.

A step of R rows on each of N machines, for P parameters of 4 bytes:
  compute    T = a + b R, from runs of one rank of one thread with several numbers of rows
  machine    M = c n + m B: what the sum of gradients costs the processor, n buckets, B = 4 P bytes copied to and from
             buckets and added; fitted to the waits without overlap on two ranks, by least squares
  network    W = 2 (N - 1) / N B / bandwidth + 2 n (N - 1) latency: each rank sends a piece to every other, twice
  exposed    without overlap M + W; with it, what is longer than the part of backward() behind the first bucket, and the
             last bucket's own way at least
  memory     parameters, gradients and buckets 3 B, the averages of AdamW 2 B (2 B / N divided among the ranks)
Larger models compute at the rate of floating-point operations that was measured here: 6 P operations a token.
"""
import sys

BACKWARD = 2 / 3  # backward()'s share of a step's computation
OVERLAP = 0.9  # of it, what lies behind the first bucket
TOKENS = 64  # of a row
NETWORKS = (("10 Gbit/s", 1.25e9, 30e-6), ("100 Gbit/s", 12.5e9, 5e-6))  # bytes a second, seconds a message

names = (
    "ranks threads rows bucket overlap shard parameters buckets early step least wait sent state live".split()
)
runs = []
for line in open(sys.argv[1]):
    values = line.split()
    if len(values) == len(names):
        runs.append(dict(zip(names, map(float, values))))


def pick(**want):
    return [r for r in runs if all(r[k] == v for k, v in want.items())]


def solve(rows, values):
    """Least squares of two unknowns, neither below zero."""
    s = [[sum(r[i] * r[j] for r in rows) for j in (0, 1)] for i in (0, 1)]
    t = [sum(r[i] * v for r, v in zip(rows, values)) for i in (0, 1)]
    det = s[0][0] * s[1][1] - s[0][1] ** 2
    x = [(t[0] * s[1][1] - t[1] * s[0][1]) / det, (t[1] * s[0][0] - t[0] * s[0][1]) / det]
    for i in (0, 1):
        if x[i] < 0:
            x = [0, 0]
            x[1 - i] = t[1 - i] / s[1 - i][1 - i]
    return x


BUCKET, P = 1 << 20, min(r["parameters"] for r in pick(ranks=1, threads=2))
table = pick(bucket=BUCKET, rows=12, parameters=P)
print("\n| ranks | threads each | overlap | averages divided | step, ms | waited, ms | sent early | MB sent | averages, MB |")
print("|---|---|---|---|---|---|---|---|---|")
seen = []
for r in table:
    key = tuple(r[k] for k in ("ranks", "threads", "overlap", "shard"))
    if key in seen:
        continue
    seen.append(key)
    same = [q for q in table if tuple(q[k] for k in ("ranks", "threads", "overlap", "shard")) == key]
    yes = lambda x: "yes" if x else "no"
    alone = r["ranks"] == 1
    print(
        f"| {r['ranks']:.0f} | {r['threads']:.0f} | {'' if alone else yes(r['overlap'])} | {'' if alone else yes(r['shard'])} "
        f"| {min(q['step'] for q in same):.2f} | {'' if alone else format(min(q['wait'] for q in same), '.2f')} "
        f"| {'' if alone else format(r['early'], '.0f') + ' of ' + format(r['buckets'], '.0f')} "
        f"| {r['sent'] / 1e6:.2f} | {r['state'] / 1e6:.2f} |"
    )
two_threads = min(q["step"] for q in pick(ranks=1, threads=2, rows=12, parameters=P))
two_ranks = min(q["step"] for q in pick(ranks=2, threads=1, overlap=1, shard=0, rows=12, bucket=BUCKET, parameters=P))
print(f"\nTwo ranks of one thread take {two_ranks / two_threads:.3f} times as long as one rank of two threads.")

one = pick(ranks=1, threads=1, parameters=P)
a, b = solve([(1, r["rows"]) for r in one], [r["step"] / 1e3 for r in one])
off = [r for r in runs if r["ranks"] == 2 and r["overlap"] == 0 and r["shard"] == 0]
c, m = solve([(r["buckets"], 4 * r["parameters"]) for r in off], [r["wait"] / 1e3 for r in off])
rate = 6 * P * TOKENS / b
print(f"compute {1e3 * a:.2f} ms + {1e3 * b:.3f} ms a row ({rate / 1e9:.1f} Gflop/s); "
      f"machine {1e6 * c:.0f} us a bucket + {1e9 * m:.3f} ns a byte")
print("fit of the waits: " + ", ".join(
    f"{r['wait']:.2f} ms measured, {1e3 * (c * r['buckets'] + m * 4 * r['parameters']):.2f} by the model" for r in off))


def step(machines, params, rows, fixed, per_row, bytes_second, latency, bucket):
    size = 4 * params
    buckets = max(1, -(-size // bucket))
    compute = fixed + per_row * rows
    moved = c * buckets + m * size
    net = 0 if machines == 1 else 2 * (machines - 1) / machines * size / bytes_second + 2 * buckets * (machines - 1) * latency
    if machines == 1:
        return compute, 0
    hidden = OVERLAP * BACKWARD * per_row * rows
    return compute, moved + max(net - hidden, net / buckets)


print("\n| model | rows a machine | network | machines | compute, ms | exposed, ms | efficiency | memory, MB | divided, MB |")
print("|---|---|---|---|---|---|---|---|---|")
for name, params, rows, bucket in (("char_gpt", P, 12, 1 << 20), ("GPT-2 small", 124e6, 16, 25 << 20)):
    # of the larger model what doesn't depend on rows grows with its parameters
    fixed, per_row = a * params / P, 6 * params * TOKENS / rate
    for network, bytes_second, latency in NETWORKS:
        for machines in (1, 8, 64, 512):
            compute, exposed = step(machines, params, rows, fixed, per_row, bytes_second, latency, bucket)
            size = 4 * params / 1e6
            print(
                f"| {name} | {rows} | {network} | {machines} | {1e3 * compute:.1f} | {1e3 * exposed:.1f} "
                f"| {compute / (compute + exposed):.0%} | {5 * size:.1f} | {(3 + 2 / machines) * size:.1f} |"
            )
    for network, bytes_second, latency in NETWORKS:
        most = 1
        while most < 1 << 20:
            compute, exposed = step(2 * most, params, rows, fixed, per_row, bytes_second, latency, bucket)
            if compute / (compute + exposed) < 0.5:
                break
            most *= 2
        print(f"{name}, {network}: half of the time is lost beyond about {most} machines", file=sys.stderr)
