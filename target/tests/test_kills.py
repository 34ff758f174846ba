# SPDX-License-Identifier: BSD-3-Clause
"""The target is killed while hosts write, flush and write through, again and again: whatever was reported
durable is there when it starts again, and no block is torn. NVMFSPEC_KILLS says how often (20)."""
import os
import random
import select
import struct
import subprocess
import time

import pytest

from test_target import NQN, Queue, Target

KILLS = int(os.environ.get("NVMFSPEC_KILLS", "20"))
BLOCK, BLOCKS, HOSTS, DEPTH = 4096, 64, 4, 8  # each host has blocks of its own
WRITE, FLUSH, FUA = 1, 0, 1 << 30


def content(block, version):
    return struct.pack("<QQ", block, version) * (BLOCK // 16)


class Ledger:
    """For each block the version written last, and that which is durable at least."""

    def __init__(self):
        self.issued, self.durable = [0] * BLOCKS, [0] * BLOCKS
        self.writes = self.wrong = 0

    def judge(self, image):
        """What is wrong with the blocks of the file."""
        found = []
        for block in range(BLOCKS):
            data = image[block * BLOCK:(block + 1) * BLOCK]
            at, version = struct.unpack_from("<QQ", data)
            if version and data != content(block, version):
                found.append(f"block {block} is torn, or lies elsewhere: {at} {version}")
            elif not self.durable[block] <= version <= self.issued[block]:
                found.append(f"block {block} is version {version}, not {self.durable[block]} "
                             f"to {self.issued[block]}")
            self.issued[block] = self.durable[block] = max(version, self.durable[block])
        return found


class Writer:
    """A host with some commands outstanding, no two of them for one block."""

    def __init__(self, port, ledger, number):
        self.ledger, self.admin = ledger, Queue(port, host=f"nqn.2026-01.org.example:kill{number}")
        self.admin.enable()
        self.admin.command(struct.pack("<BBH36xII16x", 9, 0x40, 0, 7, 0))
        self.queue = Queue(port, 1, self.admin.cntlid, host=f"nqn.2026-01.org.example:kill{number}")
        self.first = number * (BLOCKS // HOSTS)
        self.outstanding, self.acknowledged = {}, {}

    def submit(self, rng):
        cid = next(c for c in range(DEPTH) if c not in self.outstanding)
        busy = {b for o in self.outstanding.values() if o[0] == WRITE for b in o[1]}
        if rng.random() < 0.1:
            self.outstanding[cid] = FLUSH, dict(self.acknowledged), False
            sqe = struct.pack("<BBHI56x", FLUSH, 0x40, cid, 1)
            self.queue.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 0, 72) + sqe)
            return
        block = self.first + rng.randrange(BLOCKS // HOSTS - 1)
        blocks = [b for b in (block, block + 1) if b not in busy][:rng.randint(1, 2)]
        if not blocks or (len(blocks) == 2 and blocks[1] != blocks[0] + 1):
            return
        through = rng.random() < 0.3
        for b in blocks:
            self.ledger.issued[b] += 1
        versions = {b: self.ledger.issued[b] for b in blocks}
        data = b"".join(content(b, v) for b, v in versions.items())
        self.outstanding[cid] = WRITE, versions, through
        sqe = struct.pack("<BBHI16xQI3xBQII8x", WRITE, 0x40, cid, 1, 0, len(data), 1, blocks[0],
                          len(blocks) - 1 | FUA * through, 0)
        self.queue.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 72, 72 + len(data)) + sqe.ljust(64, b"\0") + data)
        self.ledger.writes += 1

    def complete(self):
        cqe = self.queue.receive(24)[8:]
        kind, versions, through = self.outstanding.pop(struct.unpack_from("<H", cqe, 12)[0])
        assert struct.unpack_from("<H", cqe, 14)[0] >> 1 == 0, cqe.hex()
        if kind == WRITE:
            self.acknowledged.update(versions)
        if kind == FLUSH or through:
            for block, version in versions.items():
                self.ledger.durable[block] = max(self.ledger.durable[block], version)

    def turn(self, rng):
        if len(self.outstanding) < DEPTH:
            self.submit(rng)
        while select.select([self.queue.socket], [], [], 0)[0]:
            self.complete()

    def close(self):
        self.queue.close()
        self.admin.close()


def kill_once(image, ledger, rng):
    t = Target("-s", "0", "--reactors", "2", "--ns", f"file:{image},size={BLOCKS * BLOCK},bs={BLOCK}")
    writers = []
    try:
        writers = [Writer(t.port, ledger, n) for n in range(HOSTS)]
        killer = subprocess.Popen(["sh", "-c", f"sleep {rng.uniform(0.005, 0.12)}; kill -9 {t.process.pid}"])
        try:
            while True:
                for w in writers:
                    w.turn(rng)
        except (OSError, EOFError):
            pass
        killer.wait()
    finally:
        t.process.kill()
        t.process.wait()
        for w in writers:
            w.close()


@pytest.mark.fast
@pytest.mark.timeout(60 + 3 * KILLS)
def test_nothing_durable_is_lost_by_a_kill(tmp_path):
    image, ledger, rng, wrong = tmp_path / "image", Ledger(), random.Random(1), []
    began = time.monotonic()
    for _ in range(KILLS):
        kill_once(image, ledger, rng)
        wrong += ledger.judge(image.read_bytes())
    print(f"{KILLS} kills, {ledger.writes} writes, {time.monotonic() - began:.0f} s: {len(wrong)} blocks "
          "lost or torn")
    assert not wrong, "\n".join(wrong)
    assert ledger.writes > 20 * KILLS


@pytest.mark.parametrize("spoil, says", [
    (lambda block: content(3, 4), "block 3 is version 4, not 5 to 7"),
    (lambda block: block[:512] + content(3, 6)[512:], "block 3 is torn"),
    (lambda block: content(2, 6), "block 3 is torn, or lies elsewhere"),
])
def test_what_is_lost_is_seen(spoil, says):
    ledger = Ledger()
    ledger.durable[3], ledger.issued[3] = 5, 7
    image = bytearray(BLOCKS * BLOCK)
    image[3 * BLOCK:4 * BLOCK] = spoil(content(3, 5))
    assert says in "".join(ledger.judge(bytes(image)))
