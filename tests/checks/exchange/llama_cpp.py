"""llama_cpp.py PROGRAM DIR: llama.cpp runs the models that PROGRAM (exchange_files.cpp) writes into DIR, and gives the same
answers: 64 greedy tokens in float32, and logits to 1e-3, compared as logarithms of probabilities. Exit code 77: xllamacpp,
a package that holds llama.cpp, is not there."""

import pathlib
import subprocess
import sys

try:
    import numpy as np
    import xllamacpp
except ImportError as missing:
    print(f"{missing}: pip install xllamacpp numpy")
    sys.exit(77)

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
subprocess.run([program, str(folder)], check=True)

for name in ("gpt2", "llama", "qwen2", "qwen3"):
    path = folder / f"answered_{name}.gguf"
    expected = np.load(f"{path}.npz")
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.warmup, params.verbosity = 96, 1, False, -1
    params.cpuparams.n_threads = 2
    # By default, keys and values are float16.
    params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(params)
    vocabulary = expected["logs"].shape[1]
    wanted = {"n_predict": 64, "temperature": 0, "n_probs": vocabulary, "cache_prompt": False, "ignore_eos": True}
    # As text, too: its tokenizer is the same.
    for prompt in (expected["prompt"].tolist(), pathlib.Path(f"{path}.txt").read_text()):
        reply = server.handle_completions({**wanted, "prompt": prompt})
        steps = reply["choices"][0]["logprobs"]["content"]
        answer = [step["id"] for step in steps]
        assert answer == expected["answer"].tolist(), (name, answer, expected["answer"].tolist())
        worst = 0
        for step, logs in zip(steps, expected["logs"]):
            assert len(step["top_logprobs"]) == vocabulary, len(step["top_logprobs"])
            worst = max(worst, *(abs(one["logprob"] - logs[one["id"]]) for one in step["top_logprobs"]))
        assert worst < 1e-3, (name, worst)
        print(f"{name}: 64 tokens are equal, {len(set(answer))} of them different; logits differ by at most {worst:.1e}")
