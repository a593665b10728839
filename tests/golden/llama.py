#!/usr/bin/env python3
"""Writes llama.safetensors: Hugging Face's Llama and Qwen 3 with random weights: state, logits, gradients of the loss,
and greedy generation; and the angles of scaled rotary positions.

    pip install torch==2.13.0 transformers==5.23.0 safetensors && python3 tests/golden/llama.py
"""

import pathlib

import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

assert torch.__version__.startswith("2.13.0"), torch.__version__
torch.manual_seed(23)
torch.set_num_threads(1)
tensors = {}
common = dict(vocab_size=13, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, max_position_embeddings=16, attn_implementation="eager", use_cache=True,
              bos_token_id=None, eos_token_id=None, pad_token_id=None)


def rope(theta, **scaling):
    return {"rope_parameters": {"rope_type": "default", "rope_theta": theta, **scaling}}


def save_model(name, model):
    for p in model.parameters():  # large enough that every part matters
        torch.nn.init.normal_(p, 1.0 if p.dim() == 1 else 0.0, 0.4)
    model.eval()
    ids = torch.randint(0, 13, (2, 12))
    logits = model(ids).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 13), ids[:, 1:].reshape(-1))
    loss.backward()
    prompt = ids[:1, :4]
    generated = model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=10, do_sample=False)
    tensors.update({f"{name}/ids": ids, f"{name}/logits": logits, f"{name}/generated": generated})
    tensors.update({f"{name}/state/{n}": x for n, x in model.state_dict().items()})
    tensors.update({f"{name}/gradient/{n}": p.grad for n, p in model.named_parameters()})


save_model("llama", LlamaForCausalLM(LlamaConfig(**common, **rope(10000.0), rms_norm_eps=1e-6,
                                                 tie_word_embeddings=False)))
save_model("yarn", LlamaForCausalLM(LlamaConfig(
    **common, **rope(10000.0, rope_type="yarn", factor=4.0, original_max_position_embeddings=4), rms_norm_eps=1e-6,
    tie_word_embeddings=True)))
save_model("qwen3", Qwen3ForCausalLM(Qwen3Config(**common, **rope(100.0), head_dim=6, rms_norm_eps=1e-5,
                                                 tie_word_embeddings=True)))

save_model("llama3", LlamaForCausalLM(LlamaConfig(
    **common, **rope(10000.0, rope_type="llama3", factor=4.0, original_max_position_embeddings=8, low_freq_factor=0.5,
                     high_freq_factor=2.0), rms_norm_eps=1e-6, tie_word_embeddings=True)))

for kind, more in {"linear": {}, "yarn": {"original_max_position_embeddings": 64},
                   "llama3": {"original_max_position_embeddings": 64, "low_freq_factor": 1.0,
                              "high_freq_factor": 4.0}}.items():
    config = LlamaConfig(hidden_size=32, num_attention_heads=2, max_position_embeddings=512,
                         **rope(10000.0, rope_type=kind, factor=8.0, **more))
    angles, length = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS[kind](config, "cpu")
    tensors[f"rope/{kind}"] = torch.cat([angles, torch.tensor([length])])

save_file({n: x.detach().clone().contiguous() for n, x in tensors.items()},
          pathlib.Path(__file__).parent / "llama.safetensors")
