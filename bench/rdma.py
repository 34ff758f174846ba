# SPDX-License-Identifier: BSD-3-Clause
"""Figures of RDMA over soft devices, in the lab's guest: parts of bench.py.

The guest has one processor that the machine's other work slows down in jerks: what is compared is
run by turns in one guest, and only ratios mean anything.
"""
import collections
import itertools
import pathlib
import re
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"


def guest(*command, options=()):
    run = subprocess.run([ROOT / "ci/lab", "--timeout", "600", "--mem", "2048", *options, "--", "bash",
                          *map(str, command)], capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(run.stdout + run.stderr)
    return run.stdout


def verbs(runs, _seconds):
    """The provider against itself, without NVMe: sleeping, polling."""
    cases = ["ping_pong", "requests"] * runs
    for kind in "rxe", "siw":
        out = guest(ROOT / "pdu/io/tests/lab/verbs.sh", BUILD / "verbs_pair", kind, *cases)
        figures = collections.defaultdict(list)
        for what, us in re.findall(r"^    (.* at a time, .*): ([\d.]+) us each", out, re.M):
            figures[what].append(float(us))
        for what, us in figures.items():
            print(f"{kind}: {what}: {statistics.median(us):.0f} us ({min(us):.0f}-{max(us):.0f})")


def rdma(runs, seconds, against=None):
    """The kernel's host against the kernel's target, or another build's, and ours."""
    who = "the other build" if against else "nvmet"
    for kind in "rxe", "siw":
        out = guest(ROOT / "bench/lab/rdma.sh", BUILD / "nvmfspec", kind, runs, max(1, int(seconds)),
                    *([against] if against else []))
        iops = collections.defaultdict(list)
        for whose, rw, depth, n in re.findall(r"^(\w+) (\w+) (\d+) (\d+)$", out, re.M):
            iops[rw, depth, whose].append(int(n))
        for rw, depth in itertools.product(("randread", "randwrite"), ("1", "32")):
            ours, theirs = iops[rw, depth, "ours"], iops[rw, depth, "theirs"]
            ratio = statistics.median(a / b for a, b in zip(ours, theirs))
            print(f"{kind}: {rw} 4 KiB QD {depth}: {statistics.median(ours):.0f} IOPS, {who} "
                  f"{statistics.median(theirs):.0f}, ratio {ratio:.2f} of pairs run by turns")
