# SPDX-License-Identifier: BSD-3-Clause
"""The benchmark: codec, suite, target, captures. Figures are medians of several runs, never a test.

verbs, rdma and tls run in the lab's guest, and only when asked for: see rdma.py.

bench.py [--runs N] [--time SECONDS] [--only wire,suite,target,memory,pcap,sessions,verbs,rdma,tls,remote]
         [--against NVMFSPEC]   target: another build, its host on its target, by turns with ours;
                                rdma: its target in the place of the kernel's
Run it through ci/bench, which builds first.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import bench_pcap
import fuzz
import rdma
import tls

ROOT = pathlib.Path(__file__).resolve().parents[1]
NVMFSPEC = ROOT / "build/nvmfspec"
NQN = "nqn.2026-01.io.nvmfspec:bench"

# mode, bytes a command, queue depth
ROWS = [
    ("randread", 4096, 1),
    ("randread", 4096, 32),
    ("randread", 4096, 128),
    ("randwrite", 4096, 1),
    ("randwrite", 4096, 32),
    ("randwrite", 4096, 128),
    ("randread", 131072, 8),
]


class Target:
    """The reference target on core 0, with one busy-polling reactor and a memory namespace."""

    def __init__(self, *options, program=NVMFSPEC):
        self.process = subprocess.Popen(
            ["taskset", "-c", "0", program, "target", "-t", "tcp", "-a", "127.0.0.1", "-s", "0", "-n",
             NQN, "--ns", "mem:256M", *options], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = re.search(r"listening on \S*:(\d+)", line).group(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def perf(program, port, rw, size, depth, digests, seconds):
    run = subprocess.run(
        ["taskset", "-c", "1", program, "host", "perf", "-t", "tcp", "-a", "127.0.0.1", "-s", port,
         "-n", NQN, "--rw", rw, "--bs", str(size), "--iodepth", str(depth), "-i", "1", "--time",
         str(seconds), "-o", "json", *(["-g", "-G"] if digests else [])],
        capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"perf failed: {run.stderr}")
    result = json.loads(run.stdout)
    return result["read"]["iops"] + result["write"]["iops"]


def measure(program, row, digests, seconds):
    """Thousand IOPS of this program's host on its own target."""
    with Target("--busy-poll", "1000", "--quiet", program=program) as target:
        return perf(program, target.port, *row, digests, seconds) / 1000


def bench_target(runs, seconds, against=None):
    """Ours alone, or by turns with another build, where only the ratio of pairs means anything."""
    print("\ntarget: one reactor on core 0, client on core 1, loopback, memory namespace")
    columns = ["ours", "theirs", "ratio"] if against else ["thousand IOPS"]
    print(" " * 26 + "".join(f"{c:>14}" for c in columns) + f"   (median of {runs})")
    for row in ROWS:
        for digests in False, True:
            pairs = []
            for i in range(runs):
                programs = [NVMFSPEC] + [against] * bool(against)
                order = programs if i % 2 == 0 else programs[::-1]
                got = {program: measure(program, row, digests, seconds) for program in order}
                pairs.append([got[program] for program in programs])
            cells = [statistics.median(column) for column in zip(*pairs)]
            if against:
                cells.append(statistics.median(ours / theirs for ours, theirs in pairs))
            print(f"  {row[0]} {row[1] // 1024} KiB QD {row[2]:<4}{'digests' if digests else ''}".ljust(34) +
                  "".join(f"{cell:14.2f}" for cell in cells), flush=True)


def bench_memory(*_):
    print("\nmemory: idle I/O connections of depth 128")
    with Target("--quiet", "--limit", "connections=4096", "--limit", "controllers=256") as target:
        run = subprocess.run(["/usr/bin/python3", ROOT / "bench/idle.py", str(target.process.pid),
                              target.port, NQN, "2000"], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"idle.py failed: {run.stderr}")
        r = json.loads(run.stdout)
    print(f"  {r['io_connections']} held; {r['bytes_per_connection'] / 1024:.1f} KiB each, "
          f"{r['resident'] >> 20} MiB resident in all")


def bench_suite(runs, _):
    print("\nsuite: the whole default suite against the embedded target")
    walls = []
    for _ in range(runs):
        began = time.monotonic()
        if subprocess.run([NVMFSPEC, "conform"], stdout=subprocess.DEVNULL).returncode != 0:
            sys.exit("the suite failed")
        walls.append(time.monotonic() - began)
    print(f"  {statistics.median(walls):.2f} s wall, median of {runs}, {os.cpu_count()} cores")


def bench_wire(*_):
    print("\nwire:", flush=True)
    subprocess.run([ROOT / "build/bench_wire"], check=True)


def bench_captures(runs, _):
    bench_pcap.pcap(runs)


def bench_sessions(*_):
    for build in "build", "build-asan":
        if (ROOT / build / "bench_fuzz").exists():
            print(f"\nsessions in process, {build}:", flush=True)
            subprocess.run([ROOT / build / "bench_fuzz"], check=True)


PARTS = {"wire": bench_wire, "suite": bench_suite, "target": bench_target, "memory": bench_memory,
         "pcap": bench_captures, "sessions": bench_sessions, "verbs": rdma.verbs,
         "rdma": rdma.rdma, "tls": tls.tls, "remote": fuzz.fuzz}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--time", type=float, default=2, help="seconds of one target run")
    parser.add_argument("--against", type=pathlib.Path, help="target, rdma: the program of another build")
    parser.add_argument("--only", default="wire,suite,target,memory,pcap,sessions")
    args = parser.parse_args()
    for part in args.only.split(","):
        if part not in PARTS:
            parser.error(f"no part '{part}'; there are {', '.join(PARTS)}")
        more = [args.against] if part in ("target", "rdma") else []
        PARTS[part](args.runs, args.time, *more)


if __name__ == "__main__":
    main()
