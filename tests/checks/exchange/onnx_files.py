"""onnx_files.py PROGRAM DIR: onnx checks the models that PROGRAM (onnx_files.cpp) writes into DIR, and ONNX Runtime computes
what fit does. Exit code 77: a package is not there."""

import pathlib
import subprocess
import sys

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print(f"{missing}: pip install onnx onnxruntime numpy")
    missing_package = True
else:
    missing_package = False

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for old in folder.iterdir():
    old.unlink()
subprocess.run([program, str(folder)], check=True)
if missing_package:
    sys.exit(77)  # what the program itself checks is right


def compare(y, expected, what):
    assert y.shape == expected.shape and y.dtype == expected.dtype, (what, y.shape, expected.shape)
    error = np.abs(y - expected).max() / max(1, np.abs(expected).max())
    assert error < 1e-5, f"{what} differs by {error}"


def decode(session, expected):
    """Gives a sequence in parts, and the keys and values of one part to the next."""
    ids = expected["ids"]
    past = {i.name: np.zeros((len(ids), i.shape[1], 0, i.shape[3]), np.float32) for i in session.get_inputs()[1:]}
    at = 0
    for part in (4, 1, 2, 1, 1):
        logits, *grown = session.run(None, {"ids": ids[:, at:at + part], **past})
        compare(logits, expected["logits"][:, at:at + part], f"step {at}")
        past = dict(zip(past, grown))
        at += part
    assert at == ids.shape[1], at


wrong = 0
paths = sorted(folder.glob("*.onnx"))
for path in paths:
    try:
        onnx.checker.check_model(onnx.load(path), full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        for kind in ("", ".other"):
            values = path.with_name(path.stem + kind + ".npz")
            if not values.exists():
                continue
            given = np.load(values)
            for output, y in zip(session.get_outputs(), session.run(None, {n: given[n] for n in names})):
                compare(y, given[output.name], output.name + kind)
        whole = path.with_name(path.stem + ".whole.npz")
        if whole.exists():
            decode(session, np.load(whole))
    except Exception as error:  # all models are tried
        print(f"{path.stem}: {str(error)[:300]}")
        wrong += 1
if wrong:
    sys.exit(f"{wrong} of {len(paths)} models are wrong")
print(f"onnx {onnx.__version__} and ONNX Runtime {onnxruntime.__version__} have read {len(paths)} models")
