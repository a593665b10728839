#!/usr/bin/env python3
"""Plants errors in adjoints, kernels, masks, optimisers, losses and readers, and lists those that no test notices.

    tests/mutate.py                             all of them, in one build; goes on where it was stopped
    tests/mutate.py --list                      what is changed
    tests/mutate.py --sample 20 --seed 1        20 of them at random
    tests/mutate.py core/ops/network/softmax.cpp        those of some files
    tests/mutate.py nn/optim nn/loss            those of the files in some folders
    tests/mutate.py --again                     those that survived once more, with the tests as they are now
    tests/mutate.py --table                     what was found, in numbers

Run by hand: all of them take hours, the files of one change take minutes. The sources are copied to build/mutate and built once, with every error in them:
`a + b` becomes `a + mutant::Plus<17>{} + b`, which is a - b in a process that has FIT_MUTANT=17 (support/mutant.hpp). Each
test runs alone at first, to see what it reaches. An error is then given to those tests that reach it, quick ones first, up
to the first that fails, crashes or doesn't end. An adjoint is what stands in a lambda that takes Backward&, and in
functions whose names end in _backward.

What survives is a missing test, or the same function in other words (a buffer that is larger, work that is cut
otherwise, a bound where both sides give the same): a person reads the list. Constants and reserved memory are left out
(UNSEEN), and what doesn't compile.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading

TOP = pathlib.Path(__file__).resolve().parent.parent
COPY = TOP / "build" / "mutate"
BUILD = COPY / "build"
CALL = r"(?:(?<![.>:\w])(?<!\w )|(?<=return ))"  # of a function, not its declaration, nor of a member
RULES = [  # what is found, what stands before and after its first group then, what is done
    (CALL + r"(neg)\(", "FIT_MUTANT_CALL(%d, ", ", Tensor)", "drop a sign"),
    (CALL + r"(mul)\(", "FIT_MUTANT_CALL(%d, ", ", div)", "divide in place of multiply"),
    (CALL + r"(div)\(", "FIT_MUTANT_CALL(%d, ", ", mul)", "multiply in place of divide"),
    (CALL + r"(add)\(", "FIT_MUTANT_CALL(%d, ", ", sub)", "subtract in place of add"),
    (CALL + r"(sub)\(", "FIT_MUTANT_CALL(%d, ", ", add)", "add in place of subtract"),
    (r"() \+ ", " + mutant::Plus<%d>{}", "", "subtract in place of add"),
    (r"() - ", " - mutant::Minus<%d>{}", "", "add in place of subtract"),
    (r"() \* ", " * mutant::Times<%d>{}", "", "divide in place of multiply"),
    (r"() / ", " / mutant::Over<%d>{}", "", "multiply in place of divide"),
    (r"() < ", " < mutant::Less<%d>{}", "", "move a bound"),
    (r"() > ", " > mutant::Greater<%d>{}", "", "move a bound"),
    (r"\b(true|false)\b", "mutant::flag<%d>(", ")", "flip a flag"),
    (r"(?<!\.)(?<!e-)\b([2-9]|0\.5)\b(?=[,); ])", "mutant::number<%d>(", ")", "change a number"),
    (r"(\b\w+\.(?:take_)?dy\(\d?\))", "mutant::scaled<%d>(", ")", "change a gradient by 0.05 %"),
    (r"\bif \((\w+\.wants\(\d\))\) (?=\w+\.give)", "mutant::keep<%d>(", ")", "lose a gradient"),
    (r"^ +()\w+\.give\(\d, ", "if (!mutant::keep<%d>(true)) {} else ", "", "lose a gradient"),
]
# Lines that no test can see by their kind: the compiler evaluates them, or they reserve memory.
UNSEEN = re.compile(r"\b(constexpr|static_assert|template|reserve\(|Scratch<|integral_constant)")
WHOLE = ["core/matmul", "core/kernels", "core/kernels/simd", "core/io", "core/attention",
         "core/attention/kernel", "core/attention/score", "core/attention/visibility", "core/linear_attention",
         "core/linear_attention/kernel", "core/ops/linalg/matmul.cpp", "nn/optim", "nn/loss", "nn/data"]  # where all that a file defines is changed, not adjoints alone
AREAS = [  # in this order they are run
    ("attention, its kernels", r"core/attention/(kernel|visibility)/"),
    ("attention, its ops and masks", r"core/(linear_)?attention/"),
    ("products", r"core/matmul|core/ops/(matmul|int8|linalg|einsum)"),
    ("optimisers, schedules", r"nn/(include/fit/)?optim|core/kernels/sum_of_squares"),
    ("losses", r"nn/loss|core/ops/cross_entropy"),
    ("adjoints", r"core/ops/"),
    ("readers, writers", r"core/io"),
    ("data sets, tokens", r"nn/data"),
    ("other kernels", r"core/kernels/"),
]
Mutant = collections.namedtuple("Mutant", "id key path line what begin end before after")
CATCH = "tests/session/run_tests.cpp"
OPEN = ["survives", "not reached"]
NOT_PLANTED, RESULTS = COPY / "not_planted.json", COPY / "results.tsv"


def regions(path, text):
    """Begin and end of each adjoint's body, or of all that a file defines."""
    if path.startswith(tuple(WHOLE)):
        yield text.index("namespace fit"), len(text)
        return
    for head in re.finditer(r"\(Backward& \w+[^;{}()]*\) \{|\b\w+_backward\([^;{]*\) \{", text):
        depth, i = 1, head.end()
        while depth and i < len(text):
            depth += {"{": 1, "}": -1}.get(text[i], 0)
            i += 1
        yield head.end(), i


def without_comments(text):
    """The same positions, with blanks in place of comments, strings and what the preprocessor reads."""
    return re.sub(r'//[^\n]*|"[^"\n]*"|^ *#[^\n]*', lambda m: " " * len(m.group()), text, flags=re.M)


def area(path):
    return next(i for i, (_, pattern) in enumerate(AREAS) if re.match(pattern, path))


def all_mutants():
    """Of every file; their numbers begin with 1."""
    files = {p for place in ["core/ops", *WHOLE] for p in (TOP / place).glob("*.[ch]pp")}
    files = sorted((str(p.relative_to(TOP)) for p in files), key=lambda p: (area(p), p))
    found, number = [], 0
    for path in files:
        if path.endswith(("_tables.cpp", "isa_namespace.hpp")):  # generated; macros
            continue
        text = (TOP / path).read_text()
        code, lines, seen = without_comments(text), text.split("\n"), collections.Counter()
        hits = {(m.start(1), m.end(1), rule) for begin, end in regions(path, code) for rule in RULES
                for m in re.compile(rule[0], re.M).finditer(code, begin, end)}
        for begin, end, (_, before, after, what) in sorted(hits):
            line = text.count("\n", 0, begin)
            if UNSEEN.search(lines[line]):
                continue
            key = f"{path}: {what}: {lines[line].strip()}"
            seen[key] += 1
            number += 1
            found.append(Mutant(number, f"{key} #{seen[key]}", path, line + 1, what, begin, end, before % number, after))
    return found


def planted_text(path, mutants):
    text = (TOP / path).read_text()
    edits = [(m.begin, 1 if m.begin == m.end else 2, m.before) for m in mutants]
    edits += [(m.end, 0, m.after) for m in mutants if m.after]
    for at, _, inserted in sorted(edits, reverse=True):
        text = text[:at] + inserted + text[at:]
    return f'#include "mutant.hpp"\n{text}'


def likely(mutant):
    return ["FIT_M" in mutant.before, mutant.begin < mutant.end, True].index(True)


def write(target, content):
    if not target.exists() or target.read_bytes() != content:  # what is the same isn't built again
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def errors_at(output):
    """Path and line of each error, and of what was being instantiated there, innermost first."""
    context = []
    for line in output.split("\n"):
        m = re.match(r"(\S+?):(\d+):(?:\d+:)? +([Ee]rror|required from|recursively required|in .constexpr. expansion)?", line)
        if m and m[3] in ("error", "Error"):  # the latter is the assembler's
            yield [(m[1], int(m[2])), *context]
            context = []
        elif m and m[3]:
            context.append((m[1], int(m[2])))
        elif "In instantiation of" in line or "In substitution of" in line:
            context = []


def build(jobs):
    return subprocess.run(["cmake", "--build", BUILD, "--target", "fit_tests", "--parallel", str(jobs), "--", "-k0"],
                          capture_output=True, text=True)


def plant(mutants, jobs):
    """Builds the copy with all mutants, but for those that don't compile; gives the keys of the latter."""
    failing = set(json.loads(NOT_PLANTED.read_text())) if NOT_PLANTED.exists() else set()
    names = subprocess.run(["git", "ls-files", "-z"], cwd=TOP, check=True, capture_output=True, text=True).stdout
    by_file = collections.defaultdict(list)
    for m in mutants:
        by_file[m.path].append(m)
    for name in filter(None, names.split("\0")):
        if name not in by_file and name != CATCH and (TOP / name).is_file():
            write(COPY / name, (TOP / name).read_bytes())
            shutil.copymode(TOP / name, COPY / name)
    # A crash ends the program: Catch's report of it may wait for ever, as for malloc's lock.
    write(COPY / CATCH, b"#define CATCH_CONFIG_NO_POSIX_SIGNALS\n" + (TOP / CATCH).read_bytes())
    write(COPY / "core" / "mutant.hpp", (TOP / "tests/support/mutant.hpp").read_bytes())
    if not (BUILD / "build.ninja").exists():
        subprocess.run(["cmake", "-S", COPY, "-B", BUILD, "-G", "Ninja", "-DFIT_EXAMPLES=OFF", "-DCMAKE_CXX_FLAGS=-w",
                        "-DCMAKE_CXX_FLAGS_RELEASE=-O1", "-DFIT_KERNEL_OPTIMIZATION=-O1"], check=True)
    while True:
        for path, of_file in by_file.items():
            text = planted_text(path, [m for m in of_file if m.key not in failing])
            write(COPY / path, text.encode())
        built = build(jobs)
        if built.returncode == 0:
            return failing
        at = collections.defaultdict(list)
        for m in mutants:
            if m.key not in failing:
                at[m.path, m.line].append(m)
        before = len(failing)
        for places in errors_at(built.stdout):
            lines = [(os.path.relpath(os.path.join(BUILD, name), COPY), line - up)
                     for name, line in places for up in (1, 2, 3)]
            of_line = next((at[place] for place in lines if place in at), [])
            # Calls fail more often than numbers, and these more often than operators.
            worst = min(map(likely, of_line), default=0)
            failing.update(m.key for m in of_line if likely(m) == worst)
        print(f"{len(failing)} of {len(mutants)} don't compile", flush=True)
        NOT_PLANTED.write_text(json.dumps(sorted(failing)))
        if len(failing) == before:
            sys.exit(f"{built.stdout[-4000:]}\nthe sources don't build in {COPY}")


class Tests:
    """The tests of the copy: which mutants each reaches, and in how many seconds."""

    def __init__(self, options):
        self.program, self.jobs, self.seconds = BUILD / "tests" / "fit_tests", options.jobs, options.seconds
        listed = subprocess.run([self.program, "--filenames-as-tags", "--list-test-names-only", options.tests],
                                capture_output=True, text=True)
        names = [n for n in listed.stdout.split("\n") if n]
        # What tests reach holds for the program that was asked.
        kept = COPY / f"reached-{hashlib.sha256(self.program.read_bytes()).hexdigest()[:16]}.json"
        self.known = json.loads(kept.read_text()) if kept.exists() and not options.fresh else {}
        new = [n for n in names if n not in self.known]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for name, found in zip(new, pool.map(self.measure, new)):
                self.known[name] = found
        kept.write_text(json.dumps(self.known))
        self.known = {n: self.known[n] for n in names}
        for name in (n for n in names if not self.known[n]["passes"]):
            print(f"fails without a mutant, left out: {name}", flush=True)
        self.reaching = collections.defaultdict(list)
        for name, found in self.known.items():
            for i in found["reached"]:
                self.reaching[i].append((found["seconds"], name))
        self.inapplicable = {i for found in self.known.values() for i in found["inapplicable"]}

    def run(self, names, seconds, **environment):
        """Whether the tests pass within so many seconds of the processors, and how many they took."""
        with tempfile.TemporaryDirectory(dir=COPY) as folder:
            os.chmod(folder, 0o755)  # some tests look at it as somebody else
            pathlib.Path(folder, "names").write_text("".join(re.sub(r"([\\,\[\]])", r"\\\1", n) + "\n" for n in names))
            process = subprocess.Popen(
                ["prlimit", f"--cpu={math.ceil(seconds)}", f"--as={8 << 30}", "--core=0",
                 self.program, "--abort", "-f", "names"],
                cwd=folder, env=os.environ | {"TMPDIR": folder, "OMP_NUM_THREADS": "2"} | environment,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            guard = threading.Timer(20 + 5 * seconds, process.kill)  # of one that waits for ever
            guard.start()
            _, process.returncode, used = os.wait4(process.pid, 0)
            guard.cancel()
            return process.returncode == 0, used.ru_utime + used.ru_stime

    def measure(self, name):
        with tempfile.NamedTemporaryFile(dir=COPY) as file:
            passes, seconds = self.run([name], 600, FIT_MUTANT_REACHED=file.name)
            marks = file.read() if passes else b""
        of = lambda kind: [i for i, mark in enumerate(marks) if mark == ord(kind)]
        return {"passes": passes, "seconds": seconds, "reached": of("r"), "inapplicable": of("x")}

    def verdict(self, mutant):
        left = sorted(self.reaching[mutant.id])
        if not left:
            return "does not apply" if mutant.id in self.inapplicable else "not reached"
        spent = 0
        for budget in sorted({min(b, self.seconds) for b in (0.3, 3, 20, math.inf)}):  # quick ones first, many at a time
            names, before = [], spent
            while left and (spent == 0 or spent + left[0][0] < budget):
                seconds, name = left.pop(0)
                names.append(name)
                spent += seconds
            if names and not self.run(names, 10 * (spent - before) + 5, FIT_MUTANT=str(mutant.id))[0]:
                return "caught"
        return "survives"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("files", nargs="*", help="files and folders; all if none is given")
    arguments.add_argument("--sample", type=int, help="so many, at random")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--jobs", type=int, default=2)
    arguments.add_argument("--seconds", type=float, default=90, help="of tests, which must notice")
    arguments.add_argument("--tests", default="~[deep]", help="which tests must notice, as Catch2 names them")
    arguments.add_argument("--list", action="store_true", help="what is changed")
    arguments.add_argument("--table", action="store_true", help="what was found")
    arguments.add_argument("--again", action="store_true", help="those that survived once more")
    arguments.add_argument("--fresh", action="store_true", help="forget what was found, and what tests reach")
    options = arguments.parse_args()
    mutants = all_mutants()
    chosen = [m for m in mutants if not options.files or m.path.startswith(tuple(options.files))]
    if options.sample is not None:
        random.seed(options.seed)
        chosen = random.sample(chosen, min(options.sample, len(chosen)))
    if options.list:
        for m in chosen:
            print(f"{m.path}:{m.line}: {m.what}")
        return
    failing = json.loads(NOT_PLANTED.read_text()) if options.table else plant(mutants, options.jobs)
    found = dict.fromkeys(failing, "does not compile")
    if RESULTS.exists() and not options.fresh:
        found.update(reversed(line.split("\t", 1)) for line in RESULTS.read_text().splitlines())
    if not options.table:
        tests = Tests(options)
        left = [m for m in chosen
                if found.get(m.key) is None or options.again and found[m.key] in OPEN]
        with open(RESULTS, "w" if options.fresh else "a", buffering=1) as results, \
             concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for m, verdict in zip(left, pool.map(tests.verdict, left)):
                found[m.key] = verdict
                print(f"{verdict}\t{m.key}", file=results)
                if verdict in OPEN:
                    print(f"{m.path}:{m.line}: {m.what}: {verdict}", flush=True)
    table = [collections.Counter() for _ in AREAS]
    survivors = []
    for m in chosen:
        verdict = found.get(m.key, "not run")
        if verdict in OPEN:
            survivors.append(f"{verdict}: {m.key}")
        table[area(m.path)][verdict] += 1
    print("\n".join(survivors))
    kinds = ["caught", *OPEN, "does not apply", "does not compile", "not run"]
    print("| area | " + " | ".join(kinds) + " |" + "\n" + "|---" * (len(kinds) + 1) + "|")
    for (name, _), counts in [*zip(AREAS, table), (("all", ""), sum(table, collections.Counter()))]:
        if counts:
            print(f"| {name} | " + " | ".join(str(counts[kind]) for kind in kinds) + " |")


if __name__ == "__main__":
    main()
