#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""What the corpus covers: usage: fuzz/coverage.py GCOVR.json CELLS [--all]

Lines and branches of codec and machines (pdu/core, pdu/verbs, pdu/nvme, pdu/srp, pdu/doca) without what
fuzz/coverage.exclude lists with its reason,
and the cells of the state tables (fuzz/harness/cells.c). What is missing is named; with --all line by
line. Exit 1: below the bars."""
import json
import sys
from pathlib import Path

BARS = {"lines": 97, "branches": 92, "legal cells": 100, "illegal cells": 95}
HERE = Path(__file__).parent


class Exclusions:
    """Rows 'file | text of the line, or * for all of it | reason'; * is any file."""

    def __init__(self, path):
        self.rows = []
        for n, line in enumerate(path.read_text().splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            parts = [p.strip() for p in line.split(" | ")]
            if len(parts) != 3 or not all(parts):
                sys.exit(f"{path}:{n}: wants 'file | text | reason'")
            self.rows.append([*parts, n, 0])

    def takes(self, file, text):
        for row in self.rows:
            if row[0] in ("*", file) and (row[1] == "*" or row[1] in text):
                row[4] += 1
                return True
        return False

    def idle(self):
        return [r for r in self.rows if not r[4]]


def line_counts(line):
    """Lines and branches of one: had, of how many."""
    branches = line["branches"]
    return (int(line["count"] > 0), 1, sum(b["count"] > 0 for b in branches), len(branches))


def coverage(files, exclusions, tell):
    total, listed = [0] * 4, [0, 0]
    for f in files:
        source = (HERE.parent / f["file"]).read_text().splitlines()
        mine, missed = [0] * 4, []
        for line in f["lines"]:
            if line.get("gcovr/noncode"):
                continue
            got, all_, taken, branches = line_counts(line)
            text = source[line["line_number"] - 1]
            if (got < all_ or taken < branches) and exclusions.takes(f["file"], text):
                listed = [listed[0] + all_ - got, listed[1] + branches - taken]
                all_, branches = got, taken
            elif got < all_ or taken < branches:
                missed.append(f"      {line['line_number']:4} {taken}/{branches} {text.strip()}")
            mine = [a + b for a, b in zip(mine, (got, all_, taken, branches))]
        total = [a + b for a, b in zip(total, mine)]
        if missed:
            print(f"  {f['file']:34} lines {mine[0]:4} of {mine[1]:4}, branches {mine[2]:4} of {mine[3]:4}")
        if tell and missed:
            print("\n".join(missed))
    print(f"  listed with its reason: {listed[0]} lines, {listed[1]} branches")
    return {"lines": total[:2], "branches": total[2:]}


def cells(path):
    """{(machine, state, event, kind): times}"""
    seen = {}
    for row in path.read_text().splitlines():
        *key, n = row.split()
        seen[tuple(key)] = seen.get(tuple(key), 0) + int(n)
    return seen


def state_tables(seen, exclusions):
    figures = {}
    for kind in ("legal", "illegal"):
        rows = {k: n for k, n in seen.items() if k[3] == kind}
        missed = [k for k, n in rows.items() if not n and not exclusions.takes("cell", " ".join(k))]
        listed = [k for k, n in rows.items() if not n and k not in missed]
        for k in missed:
            print(f"  never: {' '.join(k)}")
        all_ = len(rows) - len(listed)
        figures[f"{kind} cells"] = [all_ - len(missed), all_]
        if listed:
            print(f"  listed with its reason: {len(listed)} {kind} cells")
    return figures


def main():
    exclusions = Exclusions(HERE / "coverage.exclude")
    figures = coverage(json.loads(Path(sys.argv[1]).read_text())["files"], exclusions,
                       "--all" in sys.argv)
    figures |= state_tables(cells(Path(sys.argv[2])), exclusions)
    for row in exclusions.idle():
        print(f"  fuzz/coverage.exclude:{row[3]}: nothing needs it any more")
    low = 0
    for what, (n, all_) in figures.items():
        share = 100 * n / all_ if all_ else 0
        print(f"{what:14} {n:5} of {all_:5}  {share:5.1f} %  (at least {BARS[what]} %)")
        low += share < BARS[what]
    return low > 0


if __name__ == "__main__":
    sys.exit(main())
