#!/usr/bin/env python3
"""Times decoding and a prompt of GPT-2's sizes beside llama.cpp, turn by turn: BENCH [--rounds N] [--threads N]
[--seconds S]

Writes GGUF files of random weights in F32, BF16 and Q8_0, and runs them with llama.cpp's library. Each side runs in a
process of its own; of each, the best round's median counts. Q8_0 has a scale for each 32 numbers; our int8 has one for
each row, and with the suffix _group32 one for 32 numbers.

Needs numpy, and, built for this processor: pip install gguf llama-cpp-python --no-binary llama-cpp-python
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

LAYERS, HEADS, C, VOCAB, CONTEXT, PROMPT, TOKENS = 12, 12, 768, 50257, 1024, 512, 128
FORMS = {"F32": [""], "BF16": ["_bf16"], "Q8_0": ["_int8", "_int8_group32"]}


def write(path, form):
    import gguf
    import numpy as np
    kind = gguf.GGMLQuantizationType[form]
    random = np.random.default_rng(0)
    out = gguf.GGUFWriter(path, "gpt2")
    out.add_context_length(CONTEXT)
    out.add_embedding_length(C)
    out.add_feed_forward_length(4 * C)
    out.add_block_count(LAYERS)
    out.add_head_count(HEADS)
    out.add_layer_norm_eps(1e-5)
    out.add_vocab_size(VOCAB)
    out.add_tokenizer_model("no_vocab")

    def matrix(name, rows, columns, kind=kind):
        values = 0.02 * random.standard_normal((rows, columns), dtype=np.float32)
        out.add_tensor(name + ".weight", gguf.quants.quantize(values, kind), raw_dtype=kind)

    def vector(name, size, value):
        out.add_tensor(name, np.full(size, value, np.float32))

    matrix("token_embd", VOCAB, C)
    matrix("position_embd", CONTEXT, C, gguf.GGMLQuantizationType.F32)
    norms = ["output_norm"]
    for i in range(LAYERS):
        for name, rows, columns in (("attn_qkv", 3 * C, C), ("attn_output", C, C), ("ffn_up", 4 * C, C),
                                    ("ffn_down", C, 4 * C)):
            matrix(f"blk.{i}.{name}", rows, columns)
            vector(f"blk.{i}.{name}.bias", rows, 0)
        norms += [f"blk.{i}.attn_norm", f"blk.{i}.ffn_norm"]
    for name in norms:
        vector(name + ".weight", C, 1)
        vector(name + ".bias", C, 0)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def median(step, budget):
    step()
    times, end = [], time.perf_counter() + budget
    while time.perf_counter() < end or len(times) < 3:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2]


def serve(path, threads, budget):
    """In a process of its own: prints llama.cpp's medians."""
    import ctypes

    import llama_cpp as llama
    quiet = llama.llama_log_callback(lambda level, text, data: None)
    llama.llama_log_set(quiet, None)
    llama.llama_backend_init()
    model = llama.llama_model_load_from_file(path.encode(), llama.llama_model_default_params())
    options = llama.llama_context_default_params()
    options.n_ctx, options.n_batch, options.n_ubatch = CONTEXT, PROMPT, PROMPT
    options.n_threads = options.n_threads_batch = threads
    context = llama.llama_init_from_model(model, options)
    memory = llama.llama_get_memory(context)

    def read(ids):
        tokens = (llama.llama_token * len(ids))(*ids)
        if llama.llama_decode(context, llama.llama_batch_get_one(tokens, len(ids))) != 0:
            raise RuntimeError("llama_decode failed")

    def decode():
        llama.llama_memory_clear(memory, True)
        token = 0
        for _ in range(TOKENS):
            read([token])
            logits = llama.llama_get_logits_ith(context, -1)
            token = int(ctypes.cast(logits, ctypes.POINTER(ctypes.c_float))[0] > 0)  # any token costs the same

    def prompt():
        llama.llama_memory_clear(memory, True)
        read([(7 * i) % VOCAB for i in range(PROMPT)])
        llama.llama_get_logits_ith(context, -1)

    print(json.dumps({"decode": median(decode, budget), "prompt": median(prompt, budget)}))


def run(command, threads):
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True,
                         env=dict(os.environ, OMP_NUM_THREADS=str(threads))).stdout
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench", nargs="?", help="the program `bench`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4, help="how long each measurement of llama.cpp takes")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return serve(args.serve, args.threads, args.seconds)
    kinds = {"decode": f"decode_l12h12c768_{TOKENS}tokens", "prompt": f"prompt_l12h12c768_{PROMPT}tokens"}
    with tempfile.TemporaryDirectory() as folder:
        print("| row | ours, ms | llama.cpp, ms | ours / llama.cpp |\n|---|---|---|---|")
        for form, suffixes in FORMS.items():
            path = os.path.join(folder, form + ".gguf")
            write(path, form)
            best = {}
            names = ",".join(name + suffix for name in kinds.values() for suffix in suffixes)
            for _ in range(args.rounds):
                for row in run([args.bench, "--only", names, "--threads", str(args.threads)], args.threads):
                    if "workload" in row:
                        best[row["workload"]] = min(row["median_s"], best.get(row["workload"], 1e9))
                served = run([sys.executable, __file__, "--serve", path, "--threads", str(args.threads), "--seconds",
                              str(args.seconds)], args.threads)[-1]
                best.update({kind: min(t, best.get(kind, 1e9)) for kind, t in served.items()})
            os.remove(path)
            for kind, name in kinds.items():
                for suffix in suffixes:
                    ours, theirs = best[name + suffix], best[kind]
                    print(f"| {name + suffix}, {form} | {1e3 * ours:.1f} | {1e3 * theirs:.1f} | {ours / theirs:.3f} |",
                          flush=True)


if __name__ == "__main__":
    main()
