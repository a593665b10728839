"""event_files.py PROGRAM DIR: the tensorboard package reads the event files that PROGRAM (exchange_files.cpp) writes into
DIR. Exit code 77: the package is not there."""

import pathlib
import subprocess
import sys

try:
    from tensorboard.backend.event_processing import event_accumulator
    from tensorboard.util import tensor_util
except ImportError as missing:
    print(f"{missing}: pip install tensorboard")
    sys.exit(77)

program, folder = sys.argv[1], pathlib.Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
for old in folder.glob("events/*"):
    old.unlink()
subprocess.run([program, str(folder)], check=True)
events = event_accumulator.EventAccumulator(str(folder / "events"), size_guidance={}).Reload()
losses = [(e.step, round(e.value, 6)) for e in events.Scalars("loss")]
assert losses == [(1, 1.0), (2, 0.5), (3, 0.333333), (4, 2.5), (5, 2.0)], losses
tags = events.Tags()
values = {}
for tag in tags["tensors"]:
    values[tag] = events.Tensors(tag)[0].tensor_proto
text = tensor_util.make_ndarray(values["note/text_summary"])
assert text.tolist() == ["größer **Markdown**".encode()], text
histogram = events.Histograms("weights/w")[0].histogram_value
assert (histogram.min, histogram.max, histogram.num, histogram.sum) == (0, 99, 100, 4950), histogram
assert sum(histogram.bucket) == 100 and len(histogram.bucket_limit) == 30, histogram
assert events.Histograms("weights/none")[0].histogram_value.num == 0
print("tensorboard has read", tags["scalars"], tags["histograms"], list(values))
