# SPDX-License-Identifier: BSD-3-Clause
"""A sound capture, of which less was caught, or more: nobody is blamed for what the whole of it does not show.

Each snapshot length from 14 to 256, each number of leading frames left out, each frame lost, cut short, or twice, at
once or three frames later; bursts and many frames lost; all frames twice, as two points on their way see them.
NVMFSPEC_CUTS=all tries them all, in ten minutes; otherwise some of each kind. NVMFSPEC_CAPTURES names a folder of more
sound captures, of either format.
"""
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import struct
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
MORE = os.environ.get("NVMFSPEC_CAPTURES")
CAPTURES = [*sorted((ROOT / "pdu/io/tests/captures").glob("*.pcap")), *sorted((ROOT / "pcap/tests/captures").glob("*.pcap")),
            *(sorted(pathlib.Path(MORE).rglob("*.pcap*")) if MORE else ())]
ALL = os.environ.get("NVMFSPEC_CUTS") == "all"
SOME = 5  # of each kind


def read(path):
    """The header of the file, and its records."""
    content = path.read_bytes()
    if content[:4] == b"\n\r\r\n":
        content = subprocess.run(["editcap", "-F", "pcap", path, "-"], stdout=subprocess.PIPE, check=True).stdout
    assert content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"), "of another byte order"
    records, at = [], 24
    while at < len(content):
        length, = struct.unpack_from("<I", content, at + 8)
        records.append(content[at:at + 16 + length])
        at += 16 + length
    return content[:24], records


def cut(record, length):
    data = record[16:16 + length]
    return record[:8] + struct.pack("<I", len(data)) + record[12:16] + data


def thin(records, seed):
    chance = random.Random(seed)
    share = chance.choice([0.01, 0.05, 0.2, 0.5])
    return [r for r in records if chance.random() > share]


def passed_on(record):
    """As a router sends it on: TTL one less, and the header checksum or, of IPv6, none."""
    frame = bytearray(record[16:])
    if frame[12:14] == b"\x86\xdd" and len(frame) > 21:
        frame[21] -= 1
    elif frame[12:14] == b"\x08\x00" and len(frame) > 25:
        frame[22] -= 1
        total = struct.unpack_from(">H", frame, 24)[0] + 0x100  # RFC 1624: what the TTL has less
        struct.pack_into(">H", frame, 24, (total & 0xffff) + (total >> 16))
    return record[:16] + bytes(frame)


def two_points(records, distance):
    """Each frame again, so many frames later, at the time of its neighbour there."""
    out = []
    for i in range(len(records) + distance):
        here = records[min(i, len(records) - 1)]
        out += records[i:i + 1]
        if i >= distance:
            out.append(here[:8] + passed_on(records[i - distance])[8:])
    return out


def some(numbers):
    numbers = list(numbers)
    return numbers if ALL else numbers[::max(1, len(numbers) // SOME)]


KINDS = {
    "snapshot length": (lambda records: range(14, 257), lambda records, n: [cut(r, n) for r in records]),
    "leading frames": (lambda records: range(1, len(records)), lambda records, n: records[n:]),
    "a frame lost": (lambda records: range(len(records)), lambda records, n: records[:n] + records[n + 1:]),
    "a frame cut short": (lambda records: range(len(records)),
                          lambda records, n: records[:n] + [cut(records[n], 60 + n % 90)] + records[n + 1:]),
    "some frames lost": (lambda records: range(300), lambda records, n: thin(records, n)),
    "a burst lost": (lambda records: range(len(records)),
                     lambda records, n: records[:n] + records[n + 1 + n * 7919 % (len(records) // 3):]),
    "a frame twice": (lambda records: range(len(records)), lambda records, n: records[:n + 1] + records[n:]),
    "a frame again, three later": (lambda records: range(len(records) - 3),
                                   lambda records, n: records[:n + 4] + records[n:n + 1] + records[n + 4:]),
    "two points": (lambda records: (1, 3), two_points),
}


AGAIN = {"a frame twice", "a frame again, three later", "two points"}  # nothing is missed for it, either
EVERYDAY = {"snapshot length": {64, 80, 92, 124, 128}}  # of tcpdump -s and of tools that cut packets


def musts(path):
    done = subprocess.run([NVMFSPEC, "pcap", "check", "--all", "-o", "json", path], capture_output=True, text=True,
                          timeout=60)
    assert not done.stderr.startswith("nvmfspec") or done.returncode in (0, 1, 4), done.stderr
    lines = map(json.loads, done.stdout.splitlines())
    return collections.Counter((o["bound"], o["rule"]) for o in lines
                               if o.get("level") == "must" and o.get("proven", True))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.stem)
def test_nobody_is_blamed_for_what_was_not_caught(path, kind, tmp_path):
    head, records = read(path)
    numbers, change = KINDS[kind]
    tried = sorted({*some(numbers(records)), *EVERYDAY.get(kind, ())})
    whole = musts(path)

    def invented(n):
        file = tmp_path / f"{n}.pcap"
        file.write_bytes(head + b"".join(change(records, n)))
        found = musts(file)
        file.unlink()
        return n, found - whole or (whole - found if kind in AGAIN else None)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        blamed = [(n, dict(found)) for n, found in pool.map(invented, tried) if found]
    assert blamed == []
