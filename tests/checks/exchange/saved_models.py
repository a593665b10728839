#!/usr/bin/env python3
"""saved_models.py FOLDER: the models and adapters of FOLDER/*, which fit wrote, give fit's answers in transformers and peft, to 1e-5."""

import pathlib
import sys

try:
    import torch
    import transformers
    from safetensors.torch import load_file
except ImportError as e:
    print(f"skipped: {e} (pip install torch transformers safetensors)")
    sys.exit(77)

try:
    import peft
except ImportError:  # pip install peft
    peft = None
transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
wrong = 0
for folder in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    expected = load_file(folder / "expected.safetensors")
    config = transformers.AutoConfig.from_pretrained(folder)
    decoder = config.architectures[0].endswith(("ForCausalLM", "LMHeadModel"))
    kind = transformers.AutoModelForCausalLM if decoder else transformers.AutoModel
    model, report = kind.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    with torch.no_grad():
        result = model.eval()(expected["ids"])
    y = result.last_hidden_state if "last_hidden_state" in result else result.logits
    difference = ((y - expected["y"].float()).abs().max() / y.abs().max().clamp(min=1)).item()
    missing = [name for name in report["missing_keys"] if "pooler" not in name]
    text = ""
    if "text_ids" in expected:
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = tokenizer("Don't go, 12 cafés!").input_ids
        text = ", the same ids" if ids == expected["text_ids"].tolist() else f", other ids: {ids}"
    fits = difference < 1e-5 and not missing and not report["unexpected_keys"] and "other" not in text
    print(f"{folder.name}: {difference:.1e}{text}", "" if fits else f"WRONG {missing} {report['unexpected_keys']}")
    wrong += not fits
    if peft and (folder / "adapter").exists():
        y = load_file(folder / "adapter/expected.safetensors")["y"].float()
        with torch.no_grad():
            adapted = peft.PeftModel.from_pretrained(model, folder / "adapter").eval()(expected["ids"]).logits
        difference = ((y - adapted).abs().max() / y.abs().max().clamp(min=1)).item()
        print(f"{folder.name} with an adapter: {difference:.1e}", "" if difference < 1e-5 else "WRONG")
        wrong += difference >= 1e-5
sys.exit(1 if wrong else 0)
