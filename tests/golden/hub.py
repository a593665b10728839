#!/usr/bin/env python3
"""Writes hub/: for each family of fit/nn/hub/hub.hpp a folder as the Hub has it, with a small config and random weights, and
expected.safetensors: ids, logits (vectors of encoders), 32 greedy tokens, and the gradients of a loss.

    pip install torch==2.13.0 transformers==5.24.0 safetensors && python3 tests/golden/hub.py
"""

import json
import pathlib
import shutil

import torch
import transformers as hf
from safetensors.torch import save_file

assert torch.__version__.startswith("2.13.0"), torch.__version__
torch.manual_seed(29)
torch.set_num_threads(1)
here = pathlib.Path(__file__).parent / "hub"
V, T, PROMPT, NEW = 40, 12, 5, 32
sizes = dict(vocab_size=V, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=48)
ids = dict(bos_token_id=1, eos_token_id=None, pad_token_id=None)
gqa = dict(**sizes, **ids, intermediate_size=24, num_key_value_heads=2)


in_files = {("gpt_neox", "lm_head.weight"): "embed_out.weight"}  # what transformers renames when it reads


def rope(theta, **more):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **more}}


def shaken(model):
    for p in model.parameters():  # large enough that every part matters
        torch.nn.init.normal_(p, 1.0 if p.dim() == 1 else 0.0, 0.3)
    for module in model.modules():
        if isinstance(module, torch.nn.Embedding) and module.padding_idx is not None:
            module.weight.data[module.padding_idx].normal_(0, 0.3)
    return model.eval()


def save(name, model, expected, **how):
    folder = here / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, **how)
    save_file({n: x.detach().clone().contiguous() for n, x in expected.items()}, folder / "expected.safetensors")


def decoder(name, config, legacy=None, **how):
    config._attn_implementation = "eager"
    model = shaken(hf.AutoModelForCausalLM.from_config(config, attn_implementation="eager"))
    with torch.no_grad():  # what files of this type hold
        for p in model.parameters():
            p.copy_(p.to(how.get("dtype", torch.float32)))
    x = torch.randint(3, V, (2, T))
    logits = model(x).logits
    torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, V), x[:, 1:].reshape(-1)).backward()
    prompt = x[:1, :PROMPT]
    generated = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW, do_sample=False,
                               eos_token_id=None, pad_token_id=0)
    expected = {"ids": x, "logits": logits, "generated": generated}
    expected.update({"gradient/" + in_files.get((config.model_type, n), n): p.grad.clone()  # to() below changes it
                     for n, p in model.named_parameters()})
    model.to(how.pop("dtype", torch.float32))
    save(name, model, expected, **how)
    if legacy:  # as files of transformers 4
        path = here / name / "config.json"
        written = json.loads(path.read_text())
        written.pop("rope_parameters", None)
        path.write_text(json.dumps({**written, **legacy}, indent=2) + "\n")


def encoder(name, config):
    config._attn_implementation = "eager"
    model = shaken(hf.AutoModel.from_config(config, attn_implementation="eager"))
    x = torch.randint(5, V, (2, T))
    mask = torch.ones_like(x)
    mask[1, 8:] = 0
    x[1, 8:] = config.pad_token_id
    y = model(x, attention_mask=mask).last_hidden_state
    (y[mask.bool()] * torch.linspace(-1, 1, 16)).sum().backward()
    expected = {"ids": x, "mask": mask.bool(), "vectors": y}
    expected.update({"gradient/" + n: p.grad for n, p in model.named_parameters() if p.grad is not None})
    save(name, model, expected)


gpt2 = dict(vocab_size=V, n_positions=48, n_embd=16, n_layer=2, n_head=4, **ids)
neox = dict(**sizes, **ids, intermediate_size=24)
gemma = dict(gqa, head_dim=6, sliding_window=5, query_pre_attn_scalar=9)
decoder("gpt2", hf.GPT2Config(**gpt2))
decoder("gpt_neo", hf.GPTNeoConfig(vocab_size=V, max_position_embeddings=48, hidden_size=16, num_layers=2, num_heads=4,
                                   window_size=5, attention_types=[[["global", "local"], 1]], **ids))
decoder("gpt_neox", hf.GPTNeoXConfig(**neox, rope_parameters={
    "rope_type": "default", "rope_theta": 1000.0, "partial_rotary_factor": 0.5}))
decoder("gpt_neox_sequential", hf.GPTNeoXConfig(**neox, use_parallel_residual=False, rope_parameters={
    "rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}),
        legacy={"rotary_pct": 0.5, "rotary_emb_base": 10000})
decoder("llama", hf.LlamaConfig(**gqa, tie_word_embeddings=True),  # SmolLM
        legacy={"rope_theta": 10000.0, "rope_scaling": None, "rope_interleaved": False})
decoder("llama3", hf.LlamaConfig(**gqa, head_dim=6, **rope(
    5000.0, rope_type="llama3", factor=4.0, original_max_position_embeddings=12, low_freq_factor=0.5,
    high_freq_factor=2.0)), max_shard_size="9KB")
decoder("mistral", hf.MistralConfig(**gqa, sliding_window=6, **rope(1e4)), dtype=torch.bfloat16)
decoder("qwen2", hf.Qwen2Config(**gqa, use_sliding_window=True, sliding_window=4, max_window_layers=1, **rope(1e6)))
decoder("qwen3", hf.Qwen3Config(**gqa, head_dim=6, tie_word_embeddings=True, **rope(
    1e6, rope_type="yarn", factor=2.0, original_max_position_embeddings=24)), dtype=torch.float16)
decoder("olmo2", hf.Olmo2Config(**gqa, **rope(5e5)))
decoder("gemma", hf.GemmaConfig(**gqa, head_dim=6))
decoder("gemma2", hf.Gemma2Config(**gemma))
decoder("gemma3", hf.Gemma3TextConfig(**gemma, layer_types=["sliding_attention", "full_attention"], rope_parameters={
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}}))
decoder("gemma3_legacy", hf.Gemma3TextConfig(**gemma, layer_types=["sliding_attention", "full_attention"], rope_parameters={
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
    "full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e6}}),
    legacy={"rope_theta": 1e6, "rope_local_base_freq": 100.0, "rope_scaling": {"rope_type": "linear", "factor": 2.0}})
small = dict(sizes, intermediate_size=24)
encoder("bert", hf.BertConfig(**small))
encoder("roberta", hf.RobertaConfig(**{**small, "max_position_embeddings": 50}, type_vocab_size=1))
encoder("distilbert", hf.DistilBertConfig(vocab_size=V, dim=16, hidden_dim=24, n_layers=2, n_heads=4,
                                          max_position_embeddings=48))
decoder("phi3", hf.Phi3Config(**gqa, sliding_window=7, rope_parameters={
    "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}))
decoder("phi", hf.PhiConfig(**gqa, partial_rotary_factor=0.5))
decoder("phi3_head_dim", hf.Phi3Config(**gqa, head_dim=8, rope_parameters={
    "rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}))
