#!/usr/bin/env python3
"""Says how many lines and branches the tests reach, and lists the others.

    llvm-cov export --skip-functions ... | tests/coverage.py --lines 98 --branches 95 --missing FILE FOLDER...

Prints the two figures of the sources in the folders; fails if one is below its limit. A branch is one outcome, true or
false, of a condition in the source; of templates and of kernels for several instruction sets, any copy counts. Not
counted are

- lines with LCOV_EXCL_LINE, lines from LCOV_EXCL_START to LCOV_EXCL_STOP, and branches of lines with LCOV_EXCL_BR_LINE:
  the comment says why. LCOV_EXCL_LINE(avx512_bf16), with any flag of /proc/cpuinfo, counts where the processor has it;
- blocks behind `#if` with __AVX512 where the processor lacks AVX-512;
- constexpr functions that never run: the compiler ran them;
- the missing default of a switch: the compiler warns where an enumerator is missing;
- the conditions of `if constexpr`, which the compiler decides.

`tests/long coverage` calls this.
"""

import argparse
import bisect
import collections
import json
import pathlib
import re
import sys


def cpu_flags():
    cpu = pathlib.Path("/proc/cpuinfo")
    found = re.search(r"^flags\s*:(.*)", cpu.read_text(), re.M) if cpu.exists() else None
    return set(found[1].split()) if found else set()


def excluded(source, flags):
    """The numbers of the lines that don't count, and of those whose branches don't."""
    lines, branches, within, foreign = set(), set(), False, []
    avx512 = "avx512bw" in flags
    for number, text in enumerate(source, 1):
        marks = {kind for kind, flag in re.findall(r"LCOV_EXCL_(\w+)(?:\((\w+)\))?", text) if flag not in flags}
        if re.match(r"#if", text):
            foreign.append(not avx512 and "__AVX512" in text)
        elif re.match(r"#el", text) and foreign:
            foreign[-1] = not avx512 and "__AVX512" in text
        elif text.startswith("#endif") and foreign:
            foreign.pop()
        within = ("START" in marks or within) and "STOP" not in marks
        if within or any(foreign) or "LINE" in marks:
            lines.add(number)
        if "BR_LINE" in marks or re.match(r"\s*switch \(|.*\bif constexpr \(", text):
            branches.add(number)
    return lines, branches | lines


def run_by_compiler(source, counts):
    """The lines of constexpr functions that never ran."""
    lines = set()
    for number, text in enumerate(source, 1):
        if counts.get(number) == 0 and re.match(r"\s*(static |inline )*constexpr [^=;]*\(.*\{", text):
            indent = text[: len(text) - len(text.lstrip())]
            end = number
            while not re.search(r"\}$", text) and not source[end - 1].startswith(indent + "}"):
                end += 1
            lines.update(range(number, end + 1))
    return lines


def line_counts(segments):
    """{line: count}, as llvm-cov counts lines: the most of the regions that begin in it, or of the one around it."""
    starts = {}
    for line, _, count, has_count, is_entry, is_gap in segments:
        starts.setdefault(line, []).append((count, has_count, is_entry and not is_gap))
    counts, around = {}, None
    for line in range(segments[0][0], segments[-1][0] + 1) if segments else ():
        here = starts.get(line, [])
        begun = [count for count, has_count, is_region in here if has_count and is_region]
        skipped = here and here[0][2] and not here[0][1]
        if not skipped and (begun or (around and around[1])):
            counts[line] = max(begun + ([around[0]] if around and around[1] else []))
        if here:
            around = here[-1]
    return counts


def read(files, folders):
    """{file: ({line: count}, {(line, column, outcome): count})} of what llvm-cov exports, for the sources in folders.

    Copies of a template have one place in the source, so their branches are one.
    """
    found = {}
    for file in files:
        path = pathlib.Path(file["filename"]).resolve()
        if not any(folder in path.parents for folder in folders):
            continue
        branches = collections.Counter()
        for line, column, _, _, true, false, *_ in file["branches"]:
            branches[line, column, True] += true
            branches[line, column, False] += false
        places = [tuple(segment[:2]) for segment in file["segments"]]
        for line, column in {key[:2] for key in branches}:
            # A condition that was reached without an outcome is a constant.
            around = file["segments"][bisect.bisect(places, (line, column)) - 1]
            if around[2] and not branches[line, column, True] and not branches[line, column, False]:
                del branches[line, column, True], branches[line, column, False]
        found[path] = line_counts(file["segments"]), branches
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=float, default=0, metavar="PERCENT")
    parser.add_argument("--branches", type=float, default=0, metavar="PERCENT")
    parser.add_argument("--missing", type=pathlib.Path, required=True, metavar="FILE", help="gets the list")
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    args = parser.parse_args()
    files = json.load(sys.stdin)["data"][0]["files"]
    flags = cpu_flags()
    total = [0, 0]
    reached = [0, 0]
    missing = []
    for path, counts in sorted(read(files, [f.resolve() for f in args.folders]).items()):
        here, lost = [], [[], []]
        source = path.read_text().splitlines()
        compiled = run_by_compiler(source, counts[0])
        for kind, skipped in enumerate(excluded(source, flags)):
            skipped |= compiled
            mine = {key: n for key, n in counts[kind].items() if (key if kind == 0 else key[0]) not in skipped}
            lost[kind] = [key if kind == 0 else key[0] for key, n in sorted(mine.items()) if n == 0]
            total[kind] += len(mine)
            reached[kind] += len(mine) - len(lost[kind])
            here.append(f"{len(mine) - len(lost[kind])}/{len(mine)}")
        missing.append((len(lost[0]) + len(lost[1]), path, here, lost))
    if not total[0]:
        sys.exit("tests/coverage.py: the input names no source in these folders")
    with args.missing.open("w") as out:
        for _, path, here, lost in sorted(missing, key=lambda m: -m[0]):
            out.write(f"{path}: lines {here[0]}, branches {here[1]}\n")
            source = path.read_text().splitlines()
            for kind, name in enumerate(("line", "branch")):
                for number in sorted(set(lost[kind])):
                    out.write(f"  {name} {number}: {source[number - 1].strip()}\n")
    low = False
    for kind, (name, limit) in enumerate((("lines", args.lines), ("branches", args.branches))):
        percent = 100 * reached[kind] / max(total[kind], 1)
        wanted = f", at least {limit:g} % wanted" if percent < limit else ""
        print(f"{name}: {percent:.2f} % ({reached[kind]} of {total[kind]}){wanted}")
        low |= percent < limit
    sys.exit(low)


if __name__ == "__main__":
    main()
