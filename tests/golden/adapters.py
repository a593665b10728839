#!/usr/bin/env python3
"""Writes adapters/: LoRA adapters of peft for models of hub/, and expected.safetensors with the ids and what the adapted model
computes.

    pip install torch==2.13.0 transformers==5.24.0 peft==0.21.2 && python3 tests/golden/adapters.py
"""

import pathlib
import shutil

import peft
import torch
import transformers as hf
from safetensors.torch import save_file

here = pathlib.Path(__file__).parent
torch.manual_seed(31)
torch.set_num_threads(1)


def adapter(name, base, kind=hf.AutoModelForCausalLM, embeddings=False, **config):
    model = kind.from_pretrained(here / "hub" / base, dtype=torch.float32, attn_implementation="eager")
    model = peft.get_peft_model(model, peft.LoraConfig(**config)).eval()
    for n, p in model.named_parameters():
        if "lora_" in n:
            torch.nn.init.normal_(p, 0, 0.3)
    x = torch.randint(5, 40, (2, 12))
    y = model(x)
    folder = here / "adapters" / name
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder, save_embedding_layers=embeddings)
    (folder / "README.md").unlink()
    path = folder / "adapter_config.json"
    path.write_text(path.read_text().replace(str(here), "…"))
    save_file({"ids": x, "y": (y.logits if "logits" in y else y.last_hidden_state).detach().contiguous()},
              folder / "expected.safetensors")


adapter("llama", "llama", r=2, lora_alpha=6, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"])
adapter("patterns", "qwen2", r=2, lora_alpha=6, target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj"],
        rank_pattern={"v_proj": 3, "layers.0.self_attn.k_proj": 1}, alpha_pattern={"k_proj": 5}, lora_dropout=0.1)
adapter("rslora", "gpt2", r=4, lora_alpha=3, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True, use_rslora=True)
adapter("gpt_neox", "gpt_neox", r=2, lora_alpha=4, target_modules=["query_key_value", "dense_4h_to_h"])
adapter("bert", "bert", kind=hf.AutoModel, r=2, lora_alpha=4, target_modules=["query", "value"])
adapter("bert_all", "bert", kind=hf.AutoModel, r=2, lora_alpha=4, target_modules="all-linear")  # the pooler, too
adapter("head", "qwen2", embeddings="auto", r=2, lora_alpha=4, target_modules=["q_proj", "lm_head"])
