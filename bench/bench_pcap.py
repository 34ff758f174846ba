#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""How fast captures are read. A large capture of each kind is made by repeating a real one, each time
with other addresses; then `pcap show --count` and `pcap check` read it, and tshark a smaller one. Rates
are by CPU time, reading included, so that other work on the machine does not count.

    bench/bench_pcap.py [--size MIB] [--tshark-size MIB] [--dir DIR]
"""
import argparse
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
CAPTURES = {
    "TCP": ROOT / "pdu/io/tests/captures/nvme-tcp-6.12.pcap",
    "TCP, digests": ROOT / "pdu/io/tests/captures/nvme-tcp-digest-6.12.pcap",
    "RoCEv2": ROOT / "pcap/tests/captures/nvme-rdma-rxe-6.12.pcap",
    "iWARP": ROOT / "pcap/tests/captures/nvme-rdma-siw-6.12.pcap",
}


def repeat(source, target, size):
    """Copies of a capture, one after the other, until `size` bytes; 10.k.k.x is copy k."""
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
        copies = max(1, size // len(body))
        for k in range(copies):
            for spot in spots:
                struct.pack_into(">H", body, spot, k % 65536)
            out.write(body)
    return copies


def run(*args):
    """Seconds of CPU time, all threads, and peak MiB of a command."""
    child = subprocess.Popen([str(a) for a in args], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL)
    _, _, usage = os.wait4(child.pid, 0)
    child.returncode = 0
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def best(times, *args):
    runs = [run(*args) for _ in range(times)]
    return min(t for t, _ in runs), max(m for _, m in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--tshark-size", type=int, default=128)
    parser.add_argument("--dir", default="/dev/shm" if os.path.isdir("/dev/shm") else None)
    args = parser.parse_args()
    print(f"{'':14}{'MiB':>6}{'show --count':>16}{'check':>14}{'peak':>10}{'tshark':>12}{'ratio':>8}")
    with tempfile.TemporaryDirectory(dir=args.dir) as folder:
        for name, source in CAPTURES.items():
            big, small = pathlib.Path(folder, "big.pcap"), pathlib.Path(folder, "small.pcap")
            repeat(source, big, args.size << 20)
            size = big.stat().st_size
            count, _ = best(3, NVMFSPEC, "pcap", "show", "--count", big)
            check, peak = best(3, NVMFSPEC, "pcap", "check", big)
            line = (f"{name:14}{size >> 20:6}{size / count / 1e9:11.2f} GB/s"
                    f"{size / check / 1e9:9.2f} GB/s{peak:6.0f} MiB")
            if shutil.which("tshark"):
                repeat(source, small, args.tshark_size << 20)
                theirs, _ = run("tshark", "-r", small, "-Y", "nvme || nvme-tcp")
                ours, _ = best(5, NVMFSPEC, "pcap", "check", small)
                line += f"{small.stat().st_size / theirs / 1e9:7.3f} GB/s{theirs / ours:7.0f}x"
            print(line, flush=True)
            big.unlink()


if __name__ == "__main__":
    main()
