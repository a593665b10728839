"""What scripts share that time rows of `bench` beside PyTorch, turn by turn on one machine.

Each side runs in a process of its own, with the same number of threads; of each, the best round's median counts.
"""
import argparse
import json
import os
import subprocess
import sys
import time

import torch


def median(step, budget=1.0):
    step(), step()
    times, end = [], time.perf_counter() + budget
    while (time.perf_counter() < end and len(times) < 2000) or len(times) < 3:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def without_gradients(f):
    def step():
        with torch.no_grad():
            f()
    return step


def with_gradients(f, leaves, g):
    """A step that gives the leaves their gradients, from the gradient g of f(*leaves)."""
    for x in leaves:
        x.requires_grad_()

    def step():
        for x in leaves:
            x.grad = None
        f(*leaves).backward(g)
    return step


def last_line(command):
    """None if the command fails; it has said why."""
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()[-1] if done.returncode == 0 else None


def main(doc, rows):
    """rows[name][kind]() makes a step of PyTorch's, of one kind, for the row `name` of the bench."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("bench", help="the program `bench`")
    parser.add_argument("--only", help="the rows, with commas between")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.one:
        print(median(rows[args.one[0]][args.one[1]]()))
        return
    names = args.only.split(",") if args.only else list(rows)
    for name in names:
        if name not in rows:
            parser.error(f"there is no row {name}: {', '.join(rows)}")
    same = ["--threads", str(args.threads)]
    for name in names:
        ours, theirs = [], {kind: [] for kind in rows[name]}
        for _ in range(args.rounds):
            row = last_line([args.bench, "--quick", *same, "--only", name])
            if row is None:
                sys.exit(1)
            ours.append(json.loads(row))
            for kind, times in theirs.items():
                time_of = last_line([sys.executable, sys.argv[0], args.bench, *same, "--one", name, kind])
                times.append(float("nan") if time_of is None else float(time_of))
        best = min(ours, key=lambda row: row["median_s"])
        line = f"{name:46} ours {best['median_s'] * 1e3:9.4f} ms"
        for kind, times in theirs.items():
            line += f"  {kind} {min(times) * 1e3:9.4f} ms  ratio {best['median_s'] / min(times):.3f}"
        share = f"  {best['share']:.2f} of {best['limit']}" if best["limit"] != "none" else ""
        print(line + share, flush=True)
