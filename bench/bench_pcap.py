#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How fast captures are read, beside tshark on the very same file: a part of bench.py, or by itself.

A large capture is made by repeating a small one with other addresses: the kernel's of the tests (up to
128 KiB a command), and 4 KiB and 512 bytes a command, recorded from our own host and target. Rates
are of the whole file, by the clock and by CPU time, the best of several runs; the file was just
written, so no disk is waited for. tshark does two jobs: "lines" prints a line for each frame with NVMe,
which is the least that dissects it; "opcodes" prints opcode and status of each command, which is
what `show --count` counts.

    bench/bench_pcap.py [--size MIB] [--pdus N] [--runs N] [--dir DIR]
"""
import argparse
import multiprocessing
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
NQN = "nqn.2026-01.io.nvmfspec:bench"
TCP, RDMA = ROOT / "pdu/io/tests/captures", ROOT / "pcap/tests/captures"

# name, capture, or how one is recorded: bytes a command, queue depth, more options of the host
SOURCES = [
    ("TCP", TCP / "nvme-tcp-6.12.pcap"),
    ("TCP, digests", TCP / "nvme-tcp-digest-6.12.pcap"),
    ("TCP 4 KiB", ("4096", "32")),
    ("4 KiB, digests", ("4096", "32", "-g", "-G")),
    ("TCP 512 B", ("512", "1")), # a frame a PDU: tshark crashes where many share one
    ("RoCEv2", RDMA / "nvme-rdma-rxe-6.12.pcap"),
    ("iWARP", RDMA / "nvme-rdma-siw-6.12.pcap"),
]
TSHARK = {
    "lines": ["-Y", "nvme || nvme-tcp"],
    "opcodes": ["-Y", "nvme", "-T", "fields", "-e", "frame.number", "-e", "nvme.cmd.opc",
                "-e", "nvme.cqe.status.sc"],
}


def record(path, size, depth, *options):
    """Half a second of random reads and writes, from our host to our target."""
    target = subprocess.Popen([NVMFSPEC, "target", "-t", "tcp", "-a", "127.0.0.1", "-s", "0", "-n", NQN,
                               "--ns", "mem:64M", "--quiet"], stdout=subprocess.PIPE, text=True)
    port = re.search(r"listening on \S*:(\d+)", target.stdout.readline()).group(1)
    try:
        subprocess.run([NVMFSPEC, "host", "perf", "-t", "tcp", "-a", "127.0.0.1", "-s", port, "-n", NQN,
                        "--rw", "randrw", "--bs", size, "--iodepth", depth, "--time", "0.5",
                        "--pcap", path, *options], check=True, stdout=subprocess.DEVNULL)
    finally:
        target.terminate()
        target.wait()


def write_copies(source, target, size):
    data = source.read_bytes()
    head, body = data[:24], bytearray(data[24:])
    spots, at = [], 0
    while at < len(body):
        length, frame = struct.unpack_from("<I", body, at + 8)[0], at + 16
        if body[frame + 12:frame + 14] == b"\x08\x00":
            spots += [frame + 27, frame + 31]
        at += 16 + length
    with open(target, "wb") as out:
        out.write(head)
        for k in range(-(-size // len(body))):
            for spot in spots:
                struct.pack_into(">H", body, spot, k % 65536)
            out.write(body)
        out.flush()
        os.fsync(out.fileno())


def repeat(source, target, size):
    """Copies of a capture, one after the other, `size` bytes or a little more; 10.k.k.x is copy k.
    By a process of its own: a child's peak counts what its parent took up before."""
    writer = multiprocessing.Process(target=write_copies, args=(source, target, size))
    writer.start()
    writer.join()
    return target.stat().st_size


class Run:
    """A command: seconds by the clock and of CPU time, and its peak in MiB (or, if that is more, ours)."""

    def __init__(self, *args):
        began = time.monotonic()
        child = subprocess.Popen([str(a) for a in args], stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        self.wall = time.monotonic() - began
        self.cpu = usage.ru_utime + usage.ru_stime
        self.peak = usage.ru_maxrss / 1024
        self.code = child.returncode


def best(runs, *args):
    """Each figure of the best run in it."""
    all_runs = [Run(*args) for _ in range(runs)]
    out = all_runs[0]
    if any(r.code not in (0, 1) for r in all_runs):
        sys.exit(f"{' '.join(map(str, args))}: exit {[r.code for r in all_runs]}")
    out.wall, out.cpu = min(r.wall for r in all_runs), min(r.cpu for r in all_runs)
    out.peak = max(r.peak for r in all_runs)
    return out


def ours(runs, path):
    return {words: best(runs, NVMFSPEC, "pcap", *words.split(), path)
            for words in ("show --count", "check", "stat", "show")}


def rates(name, path, runs):
    size, got = path.stat().st_size, ours(runs, path)
    cells = "".join(f"{size / r.wall / 1e9:8.2f}{size / r.cpu / 1e9:7.2f}" for r in got.values())
    print(f"  {name:16}{size >> 20:5}{cells}{max(r.peak for r in got.values()):7.0f}", flush=True)
    return got


def ratios(name, path, got):
    """tshark's seconds, and how many times ours those are."""
    cells = ""
    for job, options in TSHARK.items():
        theirs = Run("tshark", "-r", path, *options)
        if theirs.code != 0:
            cells += f"{job}: exit {theirs.code}".rjust(47)
            continue
        cells += f"{theirs.wall:8.2f}{theirs.cpu:7.2f}"
        for words in ("show --count", "check"):
            cells += f"{theirs.wall / got[words].wall:8.0f}x{theirs.cpu / got[words].cpu:6.0f}x"
    print(f"  {name:16}{cells}{theirs.peak:8.0f}", flush=True)


def count(path):
    text = subprocess.run([NVMFSPEC, "pcap", "show", "--count", path], capture_output=True,
                          text=True, check=True).stdout
    return sum(int(n) for n in re.findall(r"^  (?:Capsule|H2CData|C2HData|R2T|IC)\S* +(\d+)$", text,
                                          re.M))


def many(source, target, pdus, runs):
    """A capture of as many small PDUs: what it takes does not grow with it."""
    one = count(source)
    print(f"\n  {'small PDUs':>12}{'MiB':>7}{'show --count':>16}{'peak':>9}{'check':>11}{'peak':>9}")
    for n in one, pdus:
        size = repeat(source, target, -(-n // one) * (source.stat().st_size - 24))
        cells = ""
        for words in "show --count", "check":
            r = best(runs, NVMFSPEC, "pcap", *words.split(), target)
            cells += f"{r.cpu:9.2f} s{r.peak:7.1f} MiB"
        print(f"  {count(target):12}{size >> 20:7}   {cells}", flush=True)


def pcap(runs, size=256, pdus=10_000_000, folder=None):
    print("\ncaptures: GB/s by the clock and by CPU time (best of several runs), peak MiB")
    print(f"  {'':16}{'MiB':>5}{'show --count':>15}{'check':>15}{'stat':>15}{'show':>15}{'peak':>7}")
    with tempfile.TemporaryDirectory(dir=folder) as work:
        big, results, small = pathlib.Path(work, "big.pcap"), [], {}
        for name, source in SOURCES:
            if isinstance(source, tuple):
                small[name] = pathlib.Path(work, f"{name}.pcap".replace(" ", ""))
                record(small[name], *source)
                source = small[name]
            repeat(source, big, size << 20)
            results.append((name, source, rates(name, big, runs)))
        many(small["TCP 512 B"], big, pdus, 1)
        if not shutil.which("tshark"):
            print("  tshark is not installed: nothing to compare with")
            return
        print("\n  tshark on the same files: seconds by the clock and of CPU time, and how many times"
              " ours\n  " + " " * 16 +
              "".join(f"{job:>15}{'show --count':>16}{'check':>16}" for job in TSHARK) + f"{'MiB':>8}")
        for name, source, got in results:
            repeat(source, big, size << 20)
            ratios(name, big, got)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=256, help="MiB of each capture")
    parser.add_argument("--pdus", type=int, default=10_000_000, help="of the longest capture")
    parser.add_argument("--dir", help="where they are made; a tmpfs is read at half the speed")
    args = parser.parse_args()
    pcap(args.runs, args.size, args.pdus, args.dir)


if __name__ == "__main__":
    main()
