#!/usr/bin/env python3
"""Writes hub/lens_*: small models of TransformerLens in a folder as NeelNanda's models have it, with random weights, and
expected.safetensors as hub.py writes it. model.safetensors holds what model_final.pth does.

    pip install torch==2.13.0 transformer_lens==2.16.1 safetensors && python3 tests/golden/hub_lens.py
"""

import json
import pathlib
import shutil

import torch
from safetensors.torch import save_file
from transformer_lens import HookedTransformer, HookedTransformerConfig

torch.manual_seed(31)
torch.set_num_threads(1)
here = pathlib.Path(__file__).parent / "hub"
V, T, PROMPT, NEW = 40, 12, 5, 32
sizes = dict(n_layers=2, d_model=16, n_ctx=48, d_head=6, n_heads=3, d_vocab=V)
# The keys that TransformerLens reads from such a file.
in_files = ("n_layers", "d_model", "d_mlp", "d_head", "n_heads", "n_ctx", "d_vocab", "act_fn", "attn_only",
            "tokenizer_name", "normalization_type", "seed")


def model_of(name, whole=False, **more):
    config = HookedTransformerConfig(**sizes, **more, seed=5, device="cpu")
    model = HookedTransformer(config, move_to_device=False)
    for key, p in model.named_parameters():  # large enough that every part matters
        torch.nn.init.normal_(p, 1.0 if key.endswith(".w") else 0.0, 0.3)
    x = torch.randint(0, V, (2, T))
    logits = model(x)
    torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, V), x[:, 1:].reshape(-1)).backward()
    text = x[:1, :PROMPT]
    with torch.no_grad():
        for _ in range(NEW):
            text = torch.cat([text, model(text)[:, -1:].argmax(-1)], 1)
    expected = {"ids": x, "logits": logits, "generated": text}
    expected.update({"gradient/" + key: p.grad for key, p in model.named_parameters()})
    folder = here / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    written = config.to_dict()
    written = {k: v for k, v in written.items() if (k in in_files if not whole else v is None or isinstance(
        v, (bool, int, float, str)))}
    if not whole:
        written["normalization"] = written.pop("normalization_type")
        written["shortformer_pos"] = False
    (folder / "config.json").write_text(json.dumps(written, indent=2) + "\n")
    contiguous = {n: x.detach().clone().contiguous() for n, x in model.state_dict().items()}
    save_file(contiguous, folder / "model.safetensors")
    save_file({n: x.detach().clone().contiguous() for n, x in expected.items()}, folder / "expected.safetensors")


model_of("lens_attn_only", attn_only=True, normalization_type=None)
model_of("lens_attn_only_norms", whole=True, attn_only=True, normalization_type="LN")
model_of("lens_solu", d_mlp=24, act_fn="solu_ln", normalization_type="LN")
model_of("lens_folded", whole=True, d_mlp=24, act_fn="gelu_new", normalization_type="LNPre")
