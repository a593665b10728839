#!/usr/bin/env python3
"""Plants errors in adjoints, kernels, masks, optimisers, losses and readers, one at a time, and lists those that no test
notices.

    tests/mutate.py --list                      what could be changed
    tests/mutate.py --sample 20 --seed 1        20 of them at random; about a minute each
    tests/mutate.py core/ops/softmax.cpp        all those of some files
    tests/mutate.py nn/optim nn/loss            all those of the files in some folders
    tests/mutate.py core/kernels/gather.cpp     of a file outside core/ops, all that it defines

Run by hand: it takes long. It works on a copy of the sources of HEAD in build/mutate, with a build of its own, of which
a mutant builds one object anew. Tests that are about the file come first, then all, up to the first failure. An adjoint
is what stands in a lambda that takes Backward&, and in functions whose names end in _backward. A mutant that doesn't
compile counts for nothing; one that survives is either the same function in other words, or a missing test. The last
lines are a table: file, mutants that compile, those caught, those that survive.
"""

import argparse
import io
import pathlib
import random
import re
import subprocess
import sys
import tarfile

TOP = pathlib.Path(__file__).resolve().parent.parent
COPY = TOP / "build" / "mutate"
RULES = [  # pattern, replacement, what is done
    (r"\bneg\(", "Tensor(", "drop a sign"),
    (r"\bmul\(", "div(", "divide in place of multiply"),
    (r"\bdiv\(", "mul(", "multiply in place of divide"),
    (r"\badd\(", "sub(", "subtract in place of add"),
    (r"\bsub\(", "add(", "add in place of subtract"),
    (r" \+ ", " - ", "subtract in place of add"),
    (r" - ", " + ", "add in place of subtract"),
    (r" \* ", " / ", "divide in place of multiply"),
    (r" / ", " * ", "multiply in place of divide"),
    (r" < ", " <= ", "move a bound"),
    (r" > ", " >= ", "move a bound"),
    (r"\btrue\b", "false", "flip a flag"),
    (r"\bfalse\b", "true", "flip a flag"),
    (r"\b([2-9]|0\.5)\b(?=[,); ])(?<!\.)", r"(1.0005 * \1)", "change a factor by 0.05 %"),
    (r"\.(take_)?dy\(\)", r"\g<0> * 1.0005", "change a gradient by 0.05 %"),
    (r"\bif \(\w+\.wants\(\d\)\) (?=\w+\.give)", "if (false) ", "lose a gradient"),
    (r"^( +)(\w+)\.give\((\d), ", r"\1if (false) \2.give(\3, ", "lose a gradient"),
]


WHOLE = ["core/kernels", "core/io", "core/ops/attention_masks.cpp", "core/ops/masked_products.cpp", "nn/optim", "nn/loss",
         "nn/data"]  # where all that a file defines is changed, not adjoints alone
FIRST = [  # which tests are about a file: the first that fits
    (r"core/kernels/(product|gemm|multiply|small_m)", "[#product_kernels_test],[#matmul_test],[#kernels_bf16_test]"),
    (r"core/kernels/(attention|masked)|core/ops/(.*attention|masked)",
     "[#kernels_attention_test],[#attention_test],[#attention_tiles_test],[#attention_draws_test]"),
    (r"core/kernels/rows", "[#kernels_rows_test],[#softmax_test],[#norm_test]"),
    (r"core/kernels/optim|nn/optim", "[#optim_test],[#schedule_test],[#training_golden_test]"),
    (r"core/kernels/", "[#kernels_pointwise_test],[#kernels_moving_test],[#elementwise_test]"),
    (r"nn/loss", "[#loss_test],[#trainer_losses_test]"),
    (r"core/io", "[#safetensors_test],[#npy_test],[#npz_test],[#fuzz_test],[#file_faults_test]"),
    (r"nn/data", "[#data_test],[#readers_test],[#text_test],[#tokenizers_test],[#fuzz_test]"),
    (r"", "[#op_table_test],[#gradcheck_test]"),
]


def regions(path, text):
    """Begin and end of each adjoint's body, or of all that a file defines."""
    if path.startswith(tuple(WHOLE)):
        yield text.index("namespace fit"), len(text)
        return
    for head in re.finditer(r"\(Backward& \w+\) \{|\b\w+_backward\([^;{]*\) \{", text):
        depth, i = 1, head.end()
        while depth and i < len(text):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            i += 1
        yield head.end(), i


def without_comments(text):
    """The same positions, with blanks in place of comments and strings."""
    return re.sub(r'//[^\n]*|"[^"\n]*"', lambda m: " " * len(m.group()), text)


def mutants(files):
    for path in files:
        text = (TOP / path).read_text()
        code = without_comments(text)
        seen = set()
        for begin, end in regions(path, code):
            for pattern, replacement, what in RULES:
                for m in re.compile(pattern, re.M).finditer(code, begin, end):
                    changed = text[: m.start()] + m.expand(replacement) + text[m.end():]
                    if changed not in seen:
                        seen.add(changed)
                        yield path, text.count("\n", 0, m.start()) + 1, what, changed


def run(*command, timeout=None):
    try:
        return subprocess.run(command, cwd=COPY, capture_output=True, text=True, timeout=timeout).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def prepare(jobs, tests):
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=TOP, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        for entry in filter(tarfile.TarInfo.isfile, files):  # those that are the same aren't built again
            target, content = COPY / entry.name, files.extractfile(entry).read()
            if not target.exists() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    configured = run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DFIT_EXAMPLES=OFF", "-DFIT_DOCS=OFF",
                     "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DFIT_KERNEL_OPTIMIZATION=-O1")
    if not (configured and build(jobs) and tests_pass(tests)):
        sys.exit(f"the unchanged sources don't build or don't pass in {COPY}")


def build(jobs):
    return run("cmake", "--build", "build", "--target", "fit_tests", "--parallel", str(jobs))


def tests_pass(tests):
    return run("build/tests/fit_tests", "--filenames-as-tags", "--abort", tests, timeout=600)


def files_of(names):
    for name in names:
        path = TOP / name
        found = sorted(p for kind in ("*.cpp", "*.hpp") for p in path.glob(kind)) if path.is_dir() else [path]
        # The tables of Unicode are generated.
        yield from (str(p.relative_to(TOP)) for p in found if p.name != "unicode_tables.cpp")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="*", help="files and folders; core/ops and what stands under WHOLE if none is given")
    arguments.add_argument("--sample", type=int, help="so many, at random")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--tests", default="~[deep]", help="which tests must notice, as Catch2 names them")
    arguments.add_argument("--list", action="store_true")
    options = arguments.parse_args()
    chosen = list(mutants(dict.fromkeys(files_of(options.files or ["core/ops", *WHOLE]))))
    if options.sample is not None:
        random.seed(options.seed)
        chosen = random.sample(chosen, min(options.sample, len(chosen)))
    if options.list:
        for path, line, what, _ in chosen:
            print(f"{path}:{line}: {what}")
        return
    prepare(options.jobs, options.tests)
    table = {}  # of each file, how many were caught and how many survive
    for path, line, what, changed in chosen:
        target = COPY / path
        original = target.read_text()
        target.write_text(changed)
        print(f"{path}:{line}: {what}: ", end="", flush=True)
        first = next(tests for pattern, tests in FIRST if re.match(pattern, path))
        verdict = "does not compile" if not build(options.jobs) else \
            "SURVIVES" if tests_pass(first) and tests_pass(options.tests) else "caught"
        target.write_text(original)
        counts = table.setdefault(path, {"caught": 0, "SURVIVES": 0})
        if verdict in counts:
            counts[verdict] += 1
        print(verdict, flush=True)
    for path, counts in table.items():
        print(f"| `{path}` | {sum(counts.values())} | {counts['caught']} | {counts['SURVIVES']} |")
    survivors = sum(counts["SURVIVES"] for counts in table.values())
    sys.exit(f"{survivors} of {len(chosen)} survive" if survivors else 0)


if __name__ == "__main__":
    main()
