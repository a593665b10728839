#!/usr/bin/env python3
"""Times linear_attention.cpp's row gated_delta_rule beside transformers' function in chunks, turn by turn: BENCH
[--rounds N] [--threads N]. PyTorch runs it as it is, and compiled by torch.compile. Needs PyTorch and transformers.
"""
import argparse
import json
import os
import subprocess
import sys

import torch
from torch.nn import functional as F

from everyday import median


def torch_step(compiled):
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule as function
    function = getattr(function, "__wrapped__", function)
    function = torch.compile(function) if compiled else function
    shape = 1, 2048, 8, 64  # heads third
    q, k, v = torch.randn(shape), F.normalize(torch.randn(shape), dim=-1), torch.randn(shape)
    decay, beta = F.logsigmoid(torch.randn(shape[:3]) + 3), torch.rand(shape[:3])
    leaves, g = [x.requires_grad_() for x in (q, k, v, decay, beta)], torch.randn(shape)

    def step():
        for x in leaves:
            x.grad = None
        function(*leaves)[0].backward(g)
    return step


def run(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:  # it has said why
        sys.exit(f"failed: {' '.join(command)}")
    return done.stdout.splitlines()[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bench", help="the program `bench`")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--one", choices=["eager", "compiled"], help=argparse.SUPPRESS)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.one:
        print(median(torch_step(args.one == "compiled")))
        return
    ours, theirs = [], {"eager": [], "compiled": []}
    for _ in range(args.rounds):
        row = run([args.bench, "--quick", "--threads", str(args.threads), "--only", "gated_delta_rule_h8t2048d64"])
        ours.append(json.loads(row)["median_s"])
        for kind, times in theirs.items():
            times.append(float(run([sys.executable, __file__, args.bench, "--threads", str(args.threads), "--one", kind])))
    for kind, times in theirs.items():
        print(f"ours {min(ours) * 1e3:.2f} ms  PyTorch {kind} {min(times) * 1e3:.2f} ms  ratio {min(ours) / min(times):.3f}")


if __name__ == "__main__":
    main()
