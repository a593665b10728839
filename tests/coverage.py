#!/usr/bin/env python3
"""Says how many lines and branches the tests reach, and lists the others.

    llvm-cov export --skip-functions ... | tests/coverage.py --lines 95 --branches 90 --missing FILE FOLDER...

Prints the two figures of the sources in the folders; fails if one is below its limit. A branch is one outcome, true or
false, of a condition in the source; of templates and of kernels for several instruction sets, any copy counts. Not
counted are lines with LCOV_EXCL_LINE, lines from LCOV_EXCL_START to LCOV_EXCL_STOP, branches of lines with
LCOV_EXCL_BR_LINE (the comment says why), and code for instructions that this processor lacks. `tests/long coverage`
calls this.
"""

import argparse
import bisect
import collections
import json
import pathlib
import re
import sys


def excluded(path, avx512):
    """The numbers of the lines that don't count, and of those whose branches don't."""
    lines, branches, within, foreign = set(), set(), False, []
    for number, text in enumerate(path.read_text().splitlines(), 1):
        if re.match(r"#if", text):
            foreign.append(not avx512 and "__AVX512" in text)
        elif re.match(r"#el", text) and foreign:
            foreign[-1] = not avx512 and "__AVX512" in text
        elif text.startswith("#endif") and foreign:
            foreign.pop()
        within = ("LCOV_EXCL_START" in text or within) and "LCOV_EXCL_STOP" not in text
        if within or any(foreign) or "LCOV_EXCL_LINE" in text:
            lines.add(number)
        if "LCOV_EXCL_BR_LINE" in text:
            branches.add(number)
    return lines, branches | lines


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
    cpu = pathlib.Path("/proc/cpuinfo")
    avx512 = cpu.exists() and " avx512bw " in cpu.read_text()
    total = [0, 0]
    reached = [0, 0]
    missing = []
    for path, counts in sorted(read(files, [f.resolve() for f in args.folders]).items()):
        here, lost = [], [[], []]
        for kind, skipped in enumerate(excluded(path, avx512)):
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
