# SPDX-License-Identifier: BSD-3-Clause
"""One file is a namespace in two subsystems of a target: hosts of both write and read the same blocks. No block
is torn, and there is one reservation."""
import concurrent.futures
import contextlib
import os
import random
import struct

import pytest

from test_target import NQN, Queue, status, target

OTHER = "nqn.2026-01.io.nvmfspec:other"
BLOCK, BLOCKS, BATCH = 4096, 8, 8
BATCHES = 400
WRITE, READ = 1, 2
REGISTER, ACQUIRE, RELEASE = 0x0d, 0x11, 0x15
WRITE_EXCLUSIVE, CONFLICT = 1 << 8, 0x83


def content(block, version):
    return struct.pack("<QQ", block, version) * (BLOCK // 16)


def torn(data, first):
    """Which blocks of what was read are not as one write left them."""
    wrong = []
    for i in range(len(data) // BLOCK):
        got = data[i * BLOCK:(i + 1) * BLOCK]
        at, version = struct.unpack_from("<QQ", got)
        if got != (content(first + i, version) if version else bytes(BLOCK)):
            wrong.append(f"block {first + i} begins as that of {at}, version {version}")
    return wrong


class Host:
    """An I/O queue, with an admin queue that keeps it."""

    def __init__(self, port, number, subsystem):
        who = {"host": f"nqn.2026-01.org.example:shared{number}", "subsystem": subsystem,
               "hostid": bytes([number]) * 16}
        self.number, self.version, self.rng = number, 0, random.Random(number)
        self.admin = Queue(port, **who)
        self.admin.enable()
        self.admin.command(struct.pack("<BBH36xII16x", 9, 0x40, 0, 7, 0))
        self.queue = Queue(port, 1, self.admin.cntlid, **who)
        self.reads = {}

    def capsule(self, cid):
        """One or two blocks, written or read."""
        first, count = self.rng.randrange(BLOCKS - 1), self.rng.randint(1, 2)
        opcode, data = self.rng.choice([WRITE, READ]), b""
        if opcode == READ:
            self.reads[cid] = first
        else:
            self.version += 2
            data = b"".join(content(first + i, self.version + self.number % 2) for i in range(count))
        sqe = struct.pack("<BBHI16xQI3xBQII8x", opcode, 0x40, cid, 1, 0, count * BLOCK, 1 if data else 0x5a, first,
                          count - 1, 0)
        return struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data)) + sqe + data

    def collect(self, count):
        """What is torn in the answers to so many commands."""
        wrong = []
        while count:
            head = self.queue.receive(8)
            body = self.queue.receive(struct.unpack_from("<I", head, 4)[0] - 8)
            if head[0] == 7:  # C2HData
                wrong += torn(body[16:], self.reads[struct.unpack_from("<H", body)[0]])
                count -= bool(head[1] & 8)  # SUCCESS
            else:
                assert head[0] == 5 and status(body) == 0, (head + body).hex()
                count -= 1
        return wrong

    def play(self):
        wrong = []
        for _ in range(BATCHES):
            self.queue.socket.sendall(b"".join(self.capsule(cid) for cid in range(BATCH)))
            wrong += self.collect(BATCH)
        return wrong

    def write(self):
        """Status of a write of one block."""
        sqe = struct.pack("<BBHI16xQI3xBQII8x", WRITE, 0x40, 0, 1, 0, BLOCK, 1, 0, 0, 0)
        return status(self.queue.command(sqe, content(0, 1))) & 0x7ff

    def reserve(self, opcode, action, data):
        """Status of Reservation Register, Acquire or Release."""
        sqe = struct.pack("<BBHI16xQI3xBI20x", opcode, 0x40, 0, 1, 0, len(data), 1, action)
        return status(self.queue.command(sqe, data)) & 0x7ff

    def close(self):
        self.queue.close()
        self.admin.close()


@contextlib.contextmanager
def two_hosts(tmp_path):
    """Of a target whose subsystems name the file differently."""
    image, name = tmp_path / "image", tmp_path / "name"
    image.write_bytes(bytes(1 << 20))
    os.link(image, name)
    with target("--reactors", "2", "-n", NQN, "--ns", f"file:{image},bs={BLOCK}", "-n", OTHER, "--ns",
                f"file:{name},bs={BLOCK}") as t, contextlib.ExitStack() as stack:
        hosts = [Host(t.port, number, subsystem) for number, subsystem in enumerate([NQN, OTHER], 1)]
        for host in hosts:
            stack.callback(host.close)
        yield hosts


def test_no_block_is_torn_by_hosts_of_two_subsystems(tmp_path):
    with two_hosts(tmp_path) as hosts, concurrent.futures.ThreadPoolExecutor(2) as pool:
        wrong = sum(pool.map(Host.play, hosts), [])
        assert not wrong, f"{len(wrong)}: {wrong[:5]}"
        assert all(host.version > BATCHES for host in hosts)
    image = (tmp_path / "image").read_bytes()[:BLOCK * BLOCKS]
    assert not torn(image, 0) and any(image)


@pytest.mark.parametrize("spoil", [
    lambda block: block[:512] + content(3, 6)[512:], lambda block: content(2, 5), lambda block: bytes(16) + block[16:]])
def test_what_is_torn_is_seen(spoil):
    good = content(2, 4) + content(3, 5)
    assert torn(good, 2) == []
    assert len(torn(good[:BLOCK] + spoil(good[BLOCK:]), 2)) == 1


def test_a_file_has_one_reservation_in_both_subsystems(tmp_path):
    """Base 2.2 8.1.22.1: Write Exclusive keeps all other hosts from writing, by whichever subsystem they come."""
    with two_hosts(tmp_path) as (one, other):
        assert one.reserve(REGISTER, 0, struct.pack("<QQ", 0, 1)) == 0
        assert other.reserve(REGISTER, 0, struct.pack("<QQ", 0, 2)) == 0
        assert one.reserve(ACQUIRE, WRITE_EXCLUSIVE, struct.pack("<QQ", 1, 0)) == 0
        assert one.write() == 0
        assert other.write() == CONFLICT
        assert other.reserve(ACQUIRE, WRITE_EXCLUSIVE, struct.pack("<QQ", 2, 0)) == CONFLICT
        assert one.reserve(RELEASE, WRITE_EXCLUSIVE, struct.pack("<Q", 1)) == 0
        assert other.write() == 0
