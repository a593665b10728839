#!/usr/bin/env python3
"""Plants errors in the adjoints and the kernels, one at a time, and lists those that no test notices.

    tests/mutate.py --list                      what could be changed
    tests/mutate.py --sample 20 --seed 1        20 of them at random; about a minute each
    tests/mutate.py core/ops/softmax.cpp        all those of some files
    tests/mutate.py core/kernels/visible.cpp    of a kernel's file, all that it defines

Run by hand: it takes long. It works on a copy of the sources of HEAD in build/mutate, with a build of its own. An
adjoint is what stands in a lambda that takes Backward&, and in functions whose names end in _backward. A mutant that
doesn't compile counts for nothing; one that survives is either the same function in other words, or a missing test.
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
    (r"\.dy\(\)", ".dy() * 1.0005", "change a gradient by 0.05 %"),
    (r"\bif \(\w+\.wants\(\d\)\) (?=\w+\.give)", "if (false) ", "lose a gradient"),
    (r"^( +)(\w+)\.give\((\d), ", r"\1if (false) \2.give(\3, ", "lose a gradient"),
]


def regions(path, text):
    """Begin and end of each adjoint's body, or of all that a kernel's file defines."""
    if path.startswith("core/kernels/"):
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
    configured = run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DFIT_EXAMPLES=OFF")
    if not (configured and build(jobs) and tests_pass(tests)):
        sys.exit(f"the unchanged sources don't build or don't pass in {COPY}")


def build(jobs):
    return run("cmake", "--build", "build", "--target", "fit_tests", "--parallel", str(jobs))


def tests_pass(tests):
    return run("build/tests/fit_tests", "--abort", tests, timeout=600)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="*", help="all of core/ops if none is given")
    arguments.add_argument("--sample", type=int, help="so many, at random")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--tests", default="~[deep]", help="which tests must notice, as Catch2 names them")
    arguments.add_argument("--list", action="store_true")
    options = arguments.parse_args()
    files = options.files or sorted(str(p.relative_to(TOP)) for p in (TOP / "core" / "ops").glob("*.cpp"))
    chosen = list(mutants(files))
    if options.sample is not None:
        random.seed(options.seed)
        chosen = random.sample(chosen, min(options.sample, len(chosen)))
    if options.list:
        for path, line, what, _ in chosen:
            print(f"{path}:{line}: {what}")
        return
    prepare(options.jobs, options.tests)
    survivors = 0
    for path, line, what, changed in chosen:
        target = COPY / path
        original = target.read_text()
        target.write_text(changed)
        print(f"{path}:{line}: {what}: ", end="", flush=True)
        verdict = "does not compile" if not build(options.jobs) else "SURVIVES" if tests_pass(options.tests) else "caught"
        target.write_text(original)
        survivors += verdict == "SURVIVES"
        print(verdict, flush=True)
    sys.exit(f"{survivors} of {len(chosen)} survive" if survivors else 0)


if __name__ == "__main__":
    main()
