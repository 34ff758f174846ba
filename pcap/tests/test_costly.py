# SPDX-License-Identifier: BSD-3-Clause
"""Captures made to keep `nvmfspec pcap` busy: each costs a few times what as many harmless frames do."""
import os
import pathlib
import resource
import struct
import subprocess

import craft
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
HOST, CONTROLLER = bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])
SYN, ACK = 2, 0x10


class Capture:
    def __init__(self):
        self.out = bytearray(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, 1))
        self.frames = 0

    def packet(self, ends, protocol, payload, whole=None):
        """whole: bytes of the frame that the file and nobody else tells of."""
        length = 20 + len(payload) if whole is None else 0
        head = struct.pack(">HBBHHHBBH", 0x800, 0x45, 0, length, 0, 0x4000, 64, protocol, 0)
        frame = bytes(12) + head + b"".join(ends) + payload
        self.out += struct.pack("<IIII", self.frames // 1000, self.frames % 1000 * 1000,
                                len(frame), whole or len(frame)) + frame
        self.frames += 1

    def segment(self, ends, ports, seq, ack, flags, data=b""):
        tcp = struct.pack(">HHIIBBHHH", *ports, seq % 2**32, ack % 2**32, 0x50, flags, 65535, 0, 0)
        self.packet(ends, 6, tcp + data)

    def frame(self, sender, protocol, payload):
        """As craft.Roce calls it."""
        self.packet((HOST, CONTROLLER) if sender == "host" else (CONTROLLER, HOST), protocol, payload)

    def cost(self, path, memory=None, tool=("check",)):
        """Seconds of processor time of a tool of `pcap`, which has so many bytes of memory."""
        def limit():
            resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        path.write_bytes(self.out)
        run = subprocess.Popen([NVMFSPEC, "pcap", tool[0], path, *tool[1:]], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, preexec_fn=limit if memory else None)
        _, status, usage = os.wait4(run.pid, 0)
        run.returncode = os.waitstatus_to_exitcode(status)
        assert run.returncode in (0, 1, 4)
        return usage.ru_utime + usage.ru_stime


UP, DOWN = 0, 1  # from the host, to it
DDGST = 2


class Connection:
    """Over TCP; begin: what is said first."""
    def __init__(self, capture, port=50000, digests=0, begin=None, first=999):
        self.c, self.seq = capture, [first, first + 4000]
        self.ways = ((HOST, CONTROLLER), (port, 4420)), ((CONTROLLER, HOST), (4420, port))
        self.send(UP, flags=SYN)
        self.send(DOWN, flags=SYN | ACK)
        if begin is not None:
            for way, data in enumerate(begin):
                self.send(way, data)
            return
        ic = struct.pack("<BxBxIHBB", 0, 128, 128, 0, 0, digests)
        self.send(UP, ic + bytes(116))
        self.send(DOWN, b"\1" + ic[1:] + struct.pack("<I", 1 << 17) + bytes(112))

    def send(self, way, data=b"", flags=ACK):
        self.c.segment(*self.ways[way], self.seq[way], self.seq[1 - way], flags, data)
        self.seq[way] += len(data) + (flags & SYN) // SYN

    def send_all(self, way, pdus):
        """Many to a segment."""
        for i in range(0, len(pdus), 500):
            self.send(way, b"".join(pdus[i:i + 500]))

    def miss(self, way, n):
        """The other side has received n bytes that nobody has caught."""
        while n > 0:
            part = min(n, 0x7fff0000)
            self.seq[way] += part
            self.send(1 - way)
            n -= part


def command(opcode, cid, nsid=1):
    return struct.pack("<BxBxIBBHI56x", 4, 72, 72, opcode, 0x40, cid, nsid)


def c2h_data(cid, offset, n, data=b"", flags=4, plen=None):
    """n bytes, of which those in `data` follow at once."""
    plen = 24 + n if plen is None else plen
    return struct.pack("<BBBBIHHII4x", 7, flags, 24, 24, plen, cid, 0, offset, n) + data


def commands(n, cids, step, lost=0):
    """n Reads without an answer, under so many CIDs; before each so many bytes are missing."""
    h = Connection(Capture())
    for i in range(n):
        h.seq[UP] += lost
        h.send(UP, command(2, i * step % cids))
    return h.c


def outstanding(conns):
    """65536 commands of each connection."""
    c = Capture()
    for i in range(conns):
        Connection(c, 50000 + i).send_all(UP, [command(2, cid) for cid in range(65536)])
    return c


IDENTIFY, READ = 6, 2


def ends_of_data(n, opcode, end, cids=65536, flags=4):
    """n commands, each with the last four bytes of so much data."""
    h, batch = Connection(Capture()), min(cids, 1000)
    for i in range(0, n, batch):
        cid = [k % cids for k in range(i, i + batch)]
        h.send_all(UP, [command(opcode, k, opcode == READ) for k in cid])
        h.send_all(DOWN, [c2h_data(k, end - 4, 4, b"data", flags) for k in cid])
    return h.c


def long_pdus(n, length, digests=0):
    """n data PDUs of so many bytes that nobody has caught: 0 are those of a PDU of 4 GiB."""
    h = Connection(Capture(), digests=digests)
    h.send(UP, command(READ, 0))
    for _ in range(n):
        h.send(DOWN, c2h_data(0, 0, length, flags=4 | digests, plen=24 + length + 2 * digests))
        h.miss(DOWN, length + 2 * digests)
    return h.c


def begun_pdus(n, length, lost):
    """n connections, each in the middle of a data PDU; of its data so much was sent, and not caught."""
    c = Capture()
    for i in range(n):
        h = Connection(c, 50000 + i)
        h.send(UP, command(READ, 0))
        h.send(DOWN, c2h_data(0, 0, length, b"data"))
        h.miss(DOWN, lost)
    return c


def handshakes(n, port, ports=20000):
    """n SYNs, each of another pair of ends: addresses change after so many; port(i): those of the i-th."""
    c = Capture()
    for i in range(n):
        turn = i // ports
        ends = bytes([10, 1, 1, 1 + turn]), bytes([10, 1, 1, 200 - turn])
        c.segment(ends, port(i % ports), i, 0, SYN)
    return c


# --- over RDMA -----------------------------------------------------------------------------------

MPA = [b"MPA ID %s Frame" % word + struct.pack(">BBH", 0, 1, 32) + bytes(32) for word in (b"Req", b"Rep")]
TAGGED, LAST, SEND = 0x80, 0x40, 3


def fpdu_begun(opcode, flags, place):
    """An FPDU of 64 KiB, without most of its data, and how much that is; place: what follows the first two bytes of DDP."""
    head = struct.pack(">HBB", 65000, 1 | flags, 0x40 | opcode) + place
    return head + bytes(64), 65004 + 2 - len(head) - 62


def iwarp(conns, fpdus, ways, kind):
    """On each of the connections a message of so many FPDUs begins, whose data nobody has caught."""
    c = Capture()
    for i in range(conns):
        h = Connection(c, 50000 + i, begin=MPA)
        for way, k in ((way, k) for way in ways for k in range(fpdus)):
            begun, missing = kind(k)
            h.send(way, begun)
            h.miss(way, missing)
    return c


def send_segment(k):
    return fpdu_begun(SEND, 0, struct.pack(">IIII", 0, 0, 1, k * (65000 - 18)))


def write_segment(k):
    return fpdu_begun(0, TAGGED, struct.pack(">IQ", 7, 4096 + k * (65000 - 14)))


def fpdus_begun(k):
    """Of each FPDU the last bytes are yet to come."""
    begun, missing = send_segment(k)
    return begun, missing - 8


def lost(pattern):
    """A connection of iWARP whose bytes are searched for an FPDU."""
    h = Connection(Capture(), begin=MPA)
    h.send(UP, bytes(100))
    h.miss(UP, 100)
    for _ in range(100):
        h.send(UP, pattern * (65000 // len(pattern)))
    return h.c


def roce_sends(conns):
    """Each begins a SEND whose first packet was cut off by the snapshot length, if one believes the file."""
    c = Capture()
    for _ in range(conns):
        r = craft.Roce(c)
        bth = struct.pack(">BBHII", 0, 0, 0xffff, r.qpn["controller"], r.psn["host"])
        c.packet((HOST, CONTROLLER), 17, struct.pack(">HHHH", 50000, 4791, 0, 0) + bth + bytes(64), (1 << 20) - 64)
    return c


def roce_held(conns):
    """Each has packets that wait for one before them."""
    c = Capture()
    for _ in range(conns):
        r = craft.Roce(c)
        for i in range(60):
            r.packet("host", 1, bytes(60000), r.psn["host"] + 1 + i)
    return c


def findings(conns):
    """Each has 60 commands that break a rule, unless a packet is missing."""
    c = Capture()
    for _ in range(conns):
        r = craft.Roce(c)
        for cid in range(60):
            r.packet("host", 4, craft.sqe(2, 1, nsid=1))
    return c


def clients(n):
    """Control channels of DOCA, one after the other."""
    c = Capture()
    for i in range(n):
        Connection(c, begin=[struct.pack(">III", 12, 1, 0)], first=i * 20000)
    return c


def blocks_beside(others, namespaces):
    """Blocks of one subsystem are moved, while so many others have told the ANA states of these namespaces."""
    def log(*nsids):
        return struct.pack("<QH6xIIQB15x", 1, 1, 1, len(nsids), 1, 1) + struct.pack(f"<{len(nsids)}I", *nsids)

    c = Capture()
    for i in range(others):
        craft.admin(c, subnqn=f"{craft.SUBNQN}-{i}").log(0x0c, log(*namespaces))
    craft.admin(c).log(0x0c, log(1))
    q = craft.io(c)
    for _ in range(5000):
        q.run(8, nsid=1)
    return c


def early(conns):
    """Segments of one byte that come too early, each of them cut off."""
    c = Capture()
    for i in range(conns):
        h = Connection(c, 50000 + i)
        for k in range(4000):
            c.segment(*h.ways[UP], h.seq[UP] + 2 + 2 * k, 0, 0, b"x")
    return c


HOSTILE = {
    "65536 commands outstanding": (lambda: commands(140000, 65536, 1), lambda: commands(140000, 16, 1)),
    "and all bytes between them missing": (lambda: commands(100000, 65536, 1, 100),
                                           lambda: commands(100000, 16, 1, 100)),
    "connections that a sum cannot tell apart": (
        lambda: handshakes(40000, lambda i: (1024 + i, 64000 - i)),
        lambda: handshakes(40000, lambda i: (1024 + i, 4420))),
    "a million connections": (  # beside a thousand that are opened again and again
        lambda: handshakes(1000000, lambda i: (1024 + i, 4420)),
        lambda: handshakes(1000000, lambda i: (1024 + i % 1000, 4420), 1000000)),
    "data PDUs of 4 GiB with a digest, not caught": (lambda: long_pdus(20, 0xffff0000, DDGST),
                                                     lambda: long_pdus(20, 4096, DDGST)),
    "an FPDU at each place, by its header": (lambda: lost(b"\xc1\x02"), lambda: lost(b"\0\0")),
    "blocks beside long ANA logs": (  # in which the namespace comes last
        lambda: blocks_beside(30, (*range(2, 20002), 1)), lambda: blocks_beside(30, range(1, 20002))),
    "the ends of much data": (lambda: ends_of_data(1000, READ, 32 << 20, 1, 0xc),
                              lambda: ends_of_data(1000, READ, 4, 1, 0xc), "sequence"),
}


def arguments(tool, folder):
    """Of `pcap`; the name of a tool, or of one way to use it."""
    return {"extract": ("extract", "--kind", "data", "--nsid", "1", "--block-size", "512", "--to", folder / "image"),
            "sequence": ("extract", "--kind", "sequence", "--to", folder / "lines"),
            "anonymize": ("anonymize", "--to", folder / "anonymous.pcap")}.get(tool, (tool,))


@pytest.mark.fast
@pytest.mark.parametrize("name", HOSTILE)
def test_no_capture_costs_more_than_its_size(name, tmp_path):
    make_hostile, make_harmless, *tool = HOSTILE[name]
    hostile, harmless, call = make_hostile(), make_harmless(), arguments(*tool or ["check"], tmp_path)
    for number in range(1, 4):  # the least counts: what else runs takes the caches
        limit = 4 * harmless.cost(tmp_path / "harmless.pcap", tool=call) + 0.3
        cost = hostile.cost(tmp_path / "hostile.pcap", tool=call)
        print(f"try {number} of 3: {cost:.2f} of at most {limit:.2f} s")
        if cost <= limit:
            break
    assert cost <= limit


@pytest.mark.fast
def test_half_open_connections_take_memory_for_so_many_and_no_more(tmp_path):
    """16,384 are followed at a time, each for less than 1 KiB. If all of these were, they would take more."""
    handshakes(400000, lambda i: (1024 + i, 4420)).cost(tmp_path / "flood.pcap", 96 << 20)


# What a file of a megabyte or less would keep if nothing counted it, the tools, and the memory that they have to get on with.
KEEPS = {
    "10 GiB: a hole in the data of each command": (
        lambda: ends_of_data(10000, IDENTIFY, 1 << 20), ["check", "show", "stat"], 160),
    "312 GiB: the same where all data is kept": (
        lambda: ends_of_data(10000, READ, 32 << 20), ["extract", "sequence", "anonymize"], 420),
    "180 MiB: commands without an answer": (lambda: outstanding(4), ["check", "show"], 160),
    "512 MiB: data PDUs that have begun": (
        lambda: begun_pdus(8, 64 << 20, 0), ["extract", "anonymize"], 380),
    "512 MiB: data PDUs of which nobody has caught the middle": (
        lambda: begun_pdus(8, 64 << 20, (64 << 20) - 100), ["extract", "anonymize"], 128),
    "390 MiB: SENDs of iWARP that have begun": (
        lambda: iwarp(400, 15, [UP], send_segment), ["check", "extract", "anonymize"], 128),
    "375 MiB, and 180 for 3,000 connections: FPDUs that have begun": (
        lambda: iwarp(3000, 1, [UP, DOWN], fpdus_begun), ["check", "extract"], 320),
    "640 MiB: RDMA WRITEs that have begun": (
        lambda: iwarp(20, 500, [DOWN], write_segment), ["anonymize"], 420),
    "600 MiB: SENDs of RoCEv2 that have begun": (
        lambda: roce_sends(600), ["check", "extract", "anonymize"], 128),
    "220 MiB: packets of RoCEv2 that wait": (lambda: roce_held(64), ["check"], 128),
    "140 MiB, and 115 for 2,000 connections: findings that need proof": (
        lambda: findings(2000), ["check"], 180),
    "140 MiB: segments that wait": (lambda: early(400), ["check"], 128),
    "160 MiB: control channels of DOCA": (lambda: clients(150000), ["check", "stat"], 96),
    "4 GiB: a data PDU of which nobody has caught the data": (
        lambda: long_pdus(1, 0xffff0000), ["check", "extract", "anonymize"], 128),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", KEEPS)
def test_no_capture_takes_more_memory_than_its_size(name, tmp_path):
    make, tools, mib = KEEPS[name]
    capture = make()
    for tool in tools:
        seconds = capture.cost(tmp_path / "hostile.pcap", mib << 20, arguments(tool, tmp_path))
        print(f"{tool}: {seconds:.2f} s")
