# SPDX-License-Identifier: BSD-3-Clause
"""The rulebook and `pcap check`: each rule is flagged in some capture, or it is said why no reader of
captures can tell. Three kinds of captures: those of the suite, whose cases break the rules of hosts;
those of the embedded target, told to break its own (test_pcap.py, too); and crafted ones."""
import collections
import concurrent.futures
import json
import os
import pathlib
import struct
import subprocess

import pytest

from craft import (AQA, CAP, CAP_FAIR, CC, CRTO, CSTS, DISCOVERY, HOSTNQN, IN_CAPSULE, INTMS, KEYED, NSSD,
                   PSK_OF, SUBNQN, TRANSPORT, VS, Capture, Queue, Roce, Stream, admin, cqe, disc_entry,
                   disc_log, discovery, fabrics, icreq, icresp, identify, io, pdu, sgl, sqe, tls)

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

# Crafted below, and all the same looked for where the embedded target breaks them.
TWICE = {
    "fab/connect/no-error-log", "fab/discovery/persistent",
    "fab/auth/fresh", "fab/auth/not-asked", "fab/connect/cntlid-allocated", "fab/property/kept",
    "fab/property/reserved", "fab/queue/success-bits", "fab/property/vs", "fab/reset/clears", "fab/sgl/long", "tcp/capsule/command-data-buffer",
    "tcp/termreq/no-answer",
}


# --- crafted: Fabrics ----------------------------------------------------------------------------

def refused_connect(status, ipo, qid=0, **data):
    def craft(c):
        if qid:
            admin(c)
        Queue(c, qid, sqsize=0).connect(status=status, result=ipo, **data)
    return craft


def cc_readback(c):
    admin(c).get(CC, 0x460011)


def not_ready(wait_ms):
    """CAP.TO is a second."""
    def craft(c):
        q = admin(c, enabled=False)
        q.get(CAP, CAP_FAIR)
        q.set(0x460001)
        c.ms += wait_ms
        q.get(CSTS, 0)
    return craft


def never_down(c):
    q = admin(c)
    q.set(0x464001)
    q.get(CSTS, 1)  # it may show a moment later
    c.ms += 6000
    q.get(CSTS, 1)


def shown_late(c):
    """CSTS.SHST is 00b for a moment after CC.SHN was written."""
    q = admin(c)
    q.set(0x464001)
    q.get(CSTS, 1)
    c.ms += 4000
    q.get(CSTS, 1)
    c.ms += 100
    q.get(CSTS, 9)


def unauthenticated(c):
    admin(c, enabled=False, result=1 | 2 << 16).get(VS, status=0x191)


def two_subsystems(c):
    """Both have a controller 1, at one portal; the capture lacks the second one's admin queue."""
    admin(c)
    first = io(c)
    other = io(c, subnqn=SUBNQN + "2", hostid=b"x" * 16)
    first.run(0x00, nsid=1)
    other.run(0x00, nsid=1)


def hostid_is_set(c, twice=False):
    """A controller that takes HOSTID 0 (ZHIDS) is told another one before there are reservations."""
    q = admin(c, hostid=bytes(16))
    q.identify()
    for hostid in [b"x" * 16] + [b"y" * 16] * twice:
        q.run(0x09, cdw=[0x81, 1], h2c=hostid)
    io(c, hostid=b"x" * 16).run(0x00, nsid=1)
    io(c, qid=2, hostid=bytes(16)).run(0x00, nsid=1)


def overwritten(c):
    q = admin(c)
    q.set(0x20200, ofst=VS)
    q.get(VS, 0x20200)


def abort_nothing(c):
    q = admin(c)
    q.run(0x08, result=0, cdw=[0x1234 << 16])


def flagged(flags):
    """Property Get of VS with these SQE flags."""
    def craft(c):
        q = admin(c)
        q.send(fabrics(4, q.next_cid(), struct.pack("<B3xI", 0, VS), flags=flags))
    return craft


def crto(c):
    admin(c).get(CRTO, status=2)


def kato_rounded(c):
    q = admin(c, kato=5000)
    q.identify(kas=10)
    q.run(0x0a, result=5500, cdw=[0x0f])


def kato_minimum(c):
    q = admin(c, kato=5000)
    q.run(0x0a, result=5000, cdw=[0x0f])
    q.run(0x09, status=0x1a, cdw=[0x0f, 1000])


def outlived(c):
    q = admin(c, kato=1000)
    q.run(0x0a, result=1000, cdw=[0x0f])
    c.ms += 10000
    q.run(0x18)


def event_twice(c, *between):
    q = admin(c)
    q.run(0x09, cdw=[0x0b, 0x100])
    for _ in range(2):
        q.run(0x0c, result=0x040002)
        for read in between:
            read(q)


def kept_event(c):
    event_twice(c, lambda q: q.log(4, bytes(4096), rae=1))


def log_in_pieces(c):
    q = discovery(c)
    log = disc_log(7, disc_entry(SUBNQN))
    q.log(0x70, log)
    q.log(0x70, log[:1024], offset=1024)  # what belongs to offset 0
    q.log(0x70, log[:1024])


def read_beyond_the_end(c, **k):
    """More is asked for than the log has: what comes then is undefined."""
    q = discovery(c)
    log = disc_log(7, disc_entry(SUBNQN), **k)
    for rest in b"x", b"y":
        q.log(0x70, log + rest * 1024)
    q.log(0x70, log[1024:] + b"z" * 1024, offset=1024)
    q.log(0x70, log[:1024])


def extended(entry, attribute):
    """An Extended Discovery Log Page Entry with one attribute."""
    return entry + struct.pack("<IH2xHH", 1036 + len(attribute), 1, 1, len(attribute)) + attribute


def extended_entries(**k):
    """What lies 1,024 bytes beyond the first one is none."""
    log = disc_log(7, extended(disc_entry(SUBNQN), bytes(64)), disc_entry(SUBNQN, portid=2), flags=1)
    return lambda c: discovery(c).log(0x70, log, **k)


def attribute_like_an_entry(c):
    """... which would demand TLS."""
    attribute = bytes(2048 - 1036) + disc_entry(SUBNQN, treq=1)
    discovery(c).log(0x70, disc_log(1, extended(disc_entry(SUBNQN + "2"), attribute), flags=1), lsp=1)
    tls(c, f"NVMe0R01 {HOSTNQN} another")
    admin(c)


def log_of_the_same_genctr(c):
    q = discovery(c)
    q.log(0x70, disc_log(7, disc_entry(SUBNQN)))
    q.log(0x70, disc_log(7, disc_entry(SUBNQN), disc_entry(SUBNQN, portid=2)))


def reset_in_vain(c):
    q, i = admin(c), io(c)
    q.set(0x460000)
    q.get(CSTS, 0)
    i.run(0x00, nsid=1)


def queue_twice(c):
    admin(c)
    first = io(c)
    io(c)
    first.run(0x00, nsid=1)


def late_io_queue(c):
    q = admin(c, enabled=False)
    io(c)
    q.get(CAP, CAP_FAIR)


def granted(c):
    q = admin(c)
    q.run(0x09, result=0x10001, cdw=[7, 0x10001])
    io(c, qid=3)
    q.run(0x18)


def too_many_events(c):
    q = admin(c)
    q.identify(aerl=1)
    for _ in range(3):
        q.send(sqe(0x0c, q.next_cid()))


def few_events_refused(c):
    """AERL allows for four; the controller still counts some of before."""
    q = admin(c)
    q.identify(aerl=3)
    q.send(sqe(0x0c, q.next_cid()))
    q.run(0x0c, status=0x105)


def many_r2ts(c, writes=300):
    """One for each Write of a deep queue at once."""
    q = io(c, sqsize=1023)
    cids = [q.next_cid() for _ in range(writes)]
    for cid in cids:
        q.send(sqe(1, cid, nsid=1, dptr=sgl(TRANSPORT, 512)))
    for cid in cids:
        q.controller(pdu(9, struct.pack("<HHII4x", cid, cid, 0, 512)))
    for cid in cids:
        q.host(pdu(6, struct.pack("<HHII4x", cid, cid, 0, 512), bytes(512), flags=4))
    for cid in cids:
        q.answer(cid)


def kick_start(c):
    """A DDC asks a CDC to discover it (8.3.2.2.2.1)."""
    q = Stream(c, 50000)
    q.send("host", icreq()[:1] + b"\x80" + icreq()[2:])
    q.send("controller", icresp())
    q.send("host", pdu(0x0a, bytes(16), bytes(512)))
    q.send("controller", pdu(0x0b, bytes(8)))
    q.close()


def error_logged(status, sqid=0):
    """Of a Fabrics command, whose opcode the entry has."""
    entry = struct.pack("<QHHHHQI3xB", 1, sqid, 5, status << 1, 0xffff, 0, 0, 0x7f).ljust(63, b"\0") + b"\1"
    return lambda c: admin(c).log(1, entry)


def identified(c, **k):
    """An I/O controller, as it says itself: its name alone does not tell."""
    q = admin(c, **k)
    q.identify()
    return q


def admin_log(lid, **k):
    def craft(c):
        q = admin(c)
        q.identify(lpa=4) # extended data
        q.log(lid, length=512, **k)
    return craft


def mps_changed(c):
    """CC.MPS becomes another one with the shutdown."""
    admin(c).set(0x464081)


def busy_disconnect(c):
    admin(c)
    q = io(c)
    q.send(sqe(0, q.next_cid(), nsid=1))
    q.send(fabrics(8, q.next_cid(), bytes(24)))
    q.answer(q.cid - 1)
    q.answer(q.cid)


def log_without_end(c):
    """In two pieces, and GENCTR is not read again."""
    q = discovery(c)
    log = disc_log(7, disc_entry(SUBNQN))
    q.log(0x70, log[:1024])
    q.log(0x70, log[1024:], offset=1024)
    q.set(0x464001)


def kept_waiting(c):
    q = admin(c, kato=1000)
    q.identify()
    q.run(0x18)
    c.ms += 2500
    q.run(0x18)


def half_valid_reply(c):
    """CVALID 2, of a host that proves itself without a DH exchange."""
    q = admin(c, enabled=False, result=1 | 2 << 16)
    negotiate = bytes([0, 0, 0, 0, 7, 0, 0, 1, 1, 0, 1, 1, 1]).ljust(42, b"\0") + b"\0"
    q.authenticate(5, negotiate.ljust(72, b"\0"))
    q.authenticate(6, struct.pack("<BBHHBBBBHI", 1, 1, 0, 7, 32, 0, 1, 0, 0, 9) + b"c" * 32)
    q.authenticate(5, struct.pack("<BBHHBBBBHI", 1, 2, 0, 7, 32, 0, 2, 0, 0, 9) + b"r" * 32 + b"d" * 32)


def host_stays(c):
    q = admin(c)
    q.controller(pdu(3, struct.pack("<HI10x", 2, 0), pdu(4, sqe(0x18, q.cid))))
    c.ms += 31000
    q.send(sqe(0x18, q.next_cid()))


def stays_without_admin(c):
    q, i = admin(c), io(c)
    q.identify()
    q.stream.close()
    c.ms += 6000
    i.run(0x00, nsid=1)


def lost_write(c, wait_ms):
    """A Write is outstanding when its association ends; CQT is 10 s; then it is sent again."""
    q, i = admin(c), io(c)
    q.identify(cqt=10000)
    i.send(sqe(0x01, i.next_cid(), nsid=1, dptr=sgl(IN_CAPSULE, 512)), bytes(512))
    i.stream.close()
    q.stream.close()
    c.ms += wait_ms
    admin(c)
    io(c).run(0x01, nsid=1, h2c=bytes(512))


def fatal_status(c, wait_ms=6000):
    q = admin(c)
    q.get(CSTS, 3)
    c.ms += wait_ms
    q.identify()


def static_again(c, cntlid):
    for asked in (0xfffe, cntlid):
        q = admin(c, enabled=False, cntlid=asked, result=5)
        q.stream.close()


UUID = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111"
HOST_ENTRY = bytes(1024) + struct.pack("<IHHHH", 1052, 1, 0, 1, 16) + b"h" * 16  # a Host Identifier


def registers(etype=1, entfmt=2, ektype=0x5f, eid=UUID, entry=HOST_ENTRY, nument=1):
    data = struct.pack("<IIQHHBBH", 1024 + len(entry), 0, nument, entfmt, etype, 0, 0, ektype)
    data = (data + eid.encode().ljust(256, b"\0")).ljust(1024, b"\0") + entry
    return lambda c: discovery(c).run(0x21, h2c=data, cdw=[0])


NEGOTIATE = bytes([0, 0, 0, 0, 7, 0, 0, 1, 1, 0, 1, 1, 1]).ljust(42, b"\0") + b"\0"


def failed_and_stays(c):
    q = negotiated(c)
    q.authenticate(5, bytes([0, 0xf0, 0, 0, 7, 0, 1, 1]))
    c.ms += 2000
    q.get(VS, status=0x191)


def challenged_alike(c, second=b"d"):
    for cval, c2 in ((b"a", b"d"), (b"b", second)):
        q = admin(c, enabled=False, result=1 | 2 << 16)
        q.authenticate(5, NEGOTIATE.ljust(72, b"\0"))
        q.authenticate(6, struct.pack("<BBHHBBBBHI", 1, 1, 0, 7, 32, 0, 1, 0, 0, 9) + cval * 32)
        q.authenticate(5, struct.pack("<BBHHBBBBHI", 1, 2, 0, 7, 32, 0, 1, 0, 0, 9) + cval.upper() * 32 +
                       c2 * 32)


def proves_itself_to_discovery(c):
    q = Queue(c, subnqn=DISCOVERY)
    q.authenticate(5, NEGOTIATE.ljust(72, b"\0"))


def aborted(status, result=0):
    """Abort says that it has ended a command; that one ends behind it, as it may."""
    def craft(c):
        q = admin(c)
        q.run(0x09, cdw=[0x0b, 0x100])
        aer = q.next_cid()
        q.send(sqe(0x0c, aer))
        q.run(0x08, cdw=[aer << 16])
        q.answer(aer, status, result)
    return craft


def upper_dword(c):
    q = admin(c)
    q.get(VS, 0x20000 | 1 << 32)


def lists(cns, data, nsid=0):
    return lambda c: admin(c).run(0x06, data=data.ljust(4096, b"\0"), cdw=[cns], nsid=nsid)


def notice(aec=None, info=0, lid=4, told=None):
    """A notice, when feature 0Bh was set to this value, or Get Features has told it."""
    def craft(c):
        q = admin(c)
        q.identify(oaes=1 << (8 + info))
        aer = q.next_cid()
        q.send(sqe(0x0c, aer))
        if aec is not None:
            q.run(0x09, cdw=[0x0b, aec])
        if told is not None:
            q.run(0x0a, cdw=[0x0b], result=told)
        q.answer(aer, result=2 | info << 8 | lid << 16)
    return craft


def late_data(wait_ms):
    """Data of a command that an Abort has ended at once."""
    def craft(c):
        q, i = admin(c), io(c)
        cid = i.next_cid()
        i.send(sqe(0x02, cid, nsid=1, dptr=sgl(TRANSPORT, 512)))
        q.run(0x08, cdw=[1 | cid << 16])
        c.ms += wait_ms
        i.controller(pdu(7, struct.pack("<HHII4x", cid, 0, 0, 512), bytes(512), flags=4))
        i.answer(cid, status=7)
    return craft


def persistent(*reads):
    """Reads of the Persistent Event log: action and offset of each; then the host leaves."""
    def craft(c):
        q = admin(c)
        q.identify(lpa=0x14)
        for action, offset in reads:
            q.run(0x02, data=b"\x0d\0\0\0", cdw=[0x0d | action << 8, 0, offset])
        q.set(0x464001)
    return craft


def persistent_at_once(*actions):
    """Two commands that are outstanding together, and the second one completes first; then the host leaves."""
    def craft(c):
        q = admin(c)
        q.identify(lpa=0x14)
        if 1 not in actions:
            q.run(0x02, data=b"\x0d\0\0\0", cdw=[0x0d | 1 << 8])
        cids = [q.next_cid() for _ in actions]
        for cid, action in zip(cids, actions):
            q.send(sqe(0x02, cid, dptr=sgl(TRANSPORT, 4), cdw=[0x0d | action << 8]))
        for cid in reversed(cids):
            q.controller(pdu(7, struct.pack("<HHII4x", cid, 0, 0, 4), b"\x0d\0\0\0", flags=4))
            q.answer(cid)
        q.run(0x02, length=4, cdw=[0x0d | 2 << 8])  # without data
        q.set(0x464001)
    return craft


def effects_of(dword_14):
    """Commands Supported and Effects names no command of what is selected."""
    def craft(c):
        q = admin(c)
        q.identify()
        q.run(0x02, data=bytes(4096), cdw=[5 | 1023 << 16, 0, 0, 0, dword_14])
    return craft


def told_of_a_change(read, wait_ms=9000):
    """The discovery service reports a change; the host leaves."""
    def craft(c):
        q = discovery(c, kato=60000)
        aer = q.next_cid()
        q.send(sqe(0x0c, aer))
        q.answer(aer, result=2 | 0xf0 << 8 | 0x70 << 16)
        c.ms += wait_ms
        if read:
            q.log(0x70, disc_log(7, disc_entry(SUBNQN)))
        q.set(0x464001)
    return craft


def host_log(entry):
    data = struct.pack("<QQH", 1, 1, 0).ljust(1024, b"\0") + entry
    return lambda c: discovery(c).log(0x71, data)


def copies(to, *ranges):
    """A Copy of format 0h: where to, and from which blocks, how many."""
    def craft(c):
        admin(c)
        data = b"".join(struct.pack("<8xQH14x", at, n - 1) for at, n in ranges)
        io(c).run(0x19, nsid=1, h2c=data, cdw=[to, 0, len(ranges) - 1])
    return craft


def lba_ranges(*ranges):
    data = b"".join(struct.pack("<16xQQ32x", at, n) for at, n in ranges).ljust(4096, b"\0")
    return lambda c: admin(c).run(0x09, nsid=1, h2c=data, cdw=[3, len(ranges) - 1])


def deletes(*before):
    """Namespace 1 is attached, and at last deleted."""
    def craft(c):
        q = admin(c)
        for sel in (0, *before):
            q.run(0x15, nsid=1, h2c=struct.pack("<HH", 1, 1).ljust(4096, b"\0"), cdw=[sel])
        q.run(0x0d, nsid=1, cdw=[1], dptr=sgl(TRANSPORT, 0))
    return craft


def creates(at):
    data = bytearray(struct.pack("<QQ", 64, 64).ljust(4096, b"\0"))
    data[at] = 1
    return lambda c: admin(c).run(0x0d, h2c=bytes(data), cdw=[0], result=1)


def at_version(c, vs, rescap=0xff):
    """An I/O queue of a controller of this revision, with a namespace."""
    q = admin(c, enabled=False)
    q.enable(vs=vs)
    ns = bytearray(struct.pack("<QQQ", 64, 64, 64).ljust(4096, b"\0"))
    ns[31], ns[130] = rescap, 9
    q.run(0x06, data=bytes(ns), cdw=[0], nsid=1)
    return io(c)


def reservation_report(vs, *holders, rtype=1, eds=1):
    """Each entry: HOSTID, and whether it holds the reservation."""
    def craft(c):
        entries = b"".join(struct.pack("<HB5x8s16s32x", 1 + i, holds, b"key.key.", host * 16)
                           for i, (host, holds) in enumerate(holders))
        data = struct.pack("<IBH", 1, rtype, len(holders)).ljust(64, b"\0") + entries
        at_version(c, vs).run(0x0e, nsid=1, data=data, cdw=[len(data) // 4 - 1, eds])
    return craft


def ignores_key(vs, rescap):
    """Acquire and Release with IEKEY 1 succeed."""
    def craft(c):
        q = at_version(c, vs, rescap)
        q.run(0x11, nsid=1, h2c=b"key.key." + bytes(8), cdw=[1 << 8 | 1 << 3])
        q.run(0x15, nsid=1, h2c=b"key.key.", cdw=[1 << 8 | 1 << 3])
    return craft


def reserves(acquired, released, status=0, **host):
    def craft(c):
        admin(c, **host)
        q = io(c, **host)
        q.run(0x0d, nsid=1, h2c=bytes(8) + b"key.key.", cdw=[0])
        q.run(0x11, nsid=1, h2c=b"key.key." + bytes(8), cdw=[acquired << 8])
        q.run(0x15, nsid=1, h2c=b"key.key.", cdw=[released << 8], status=status)
    return craft


CHALLENGE = struct.pack("<BBHHBBBBHI", 1, 1, 0, 7, 32, 0, 1, 1, 256, 9) + b"a" * 32 + b"x" * 256


def concatenates(sc_c=2, cvalid=1, stays=True, s2=0):
    """The controller proves itself, too, where S2 is not 0; a challenge is there for the PSK all the same."""
    rvalid = int(cvalid and s2 != 0)

    def craft(c):
        q = admin(c, enabled=False, result=1 | 2 << 16)
        negotiate = bytes([0, 0, 0, 0, 7, 0, sc_c, 1, 1, 0, 1, 1, 1]).ljust(42, b"\0") + b"\1"
        q.authenticate(5, negotiate.ljust(72, b"\0"))
        q.authenticate(6, CHALLENGE)
        q.authenticate(5, struct.pack("<BBHHBBBBHI", 1, 2, 0, 7, 32, 0, cvalid, 0, 256, s2) +
                       b"r" * 32 + (b"d" if cvalid else b"\0") * 32 + b"y" * 256)
        q.authenticate(6, struct.pack("<BBHHBBB7x", 1, 3, 0, 7, 32, 0, rvalid) + (b"s" if rvalid else b"\0") * 32)
        if rvalid:
            q.authenticate(5, struct.pack("<BBHH", 1, 4, 0, 7).ljust(16, b"\0"))
        c.ms += 2000
        if stays:
            q.get(CAP, CAP_FAIR)
        q.stream.close()
    return craft


def comes_back(secured):
    """A PSK is generated; the next association is over TLS with it, or is not."""
    def craft(c):
        concatenates(stays=False)(c)
        tls(c, PSK_OF.replace("0R", "0G"))
        if not secured:
            Queue(c)
    return craft


def secure_entry(treq):
    def craft(c):
        discovery(c).log(0x70, disc_log(1, disc_entry(SUBNQN, treq=treq)))
        tls(c, f"NVMe0R01 {HOSTNQN} another")
        admin(c)
    return craft


def same_exponential(c):
    tls(c, share=b"y" * 256)
    concatenates(stays=False)(c)


def compared_in_vain(status):
    """A fused Compare fails; its Write ends like this."""
    def craft(c):
        admin(c)
        q = io(c)
        for opc, flags in ((5, 0x41), (1, 0x42)):
            q.send(sqe(opc, q.next_cid(), nsid=1, flags=flags, dptr=sgl(IN_CAPSULE, 512)), bytes(512))
        q.answer(q.cid - 1, status=0x285)
        q.answer(q.cid, status=status)
    return craft


def namespace(c, **k):
    """An association that has read of namespace 1, which is of NVM Set 2; Format NVM wants to be alone."""
    q = admin(c)
    data = bytearray(struct.pack("<QQQ", 64, 64, 64).ljust(4096, b"\0"))
    data[100], data[130] = 2, 9
    q.run(0x06, data=bytes(data), cdw=[0], nsid=1)
    effects = bytearray(4096)
    struct.pack_into("<I", effects, 0x80 * 4, 1 | 1 << 16)
    q.log(5, bytes(effects))
    return q, io(c, **k)


def disturbs_format(wait_ms, nsid=1):
    def craft(c):
        q, i = namespace(c)
        q.send(sqe(0x80, q.next_cid(), nsid=nsid))
        c.ms += wait_ms
        i.run(0x00, nsid=1, status=0x84)
        q.answer(q.cid)
    return craft


def report_interval(lsiri):
    def craft(c):
        q = admin(c)
        q.run(0x0a, cdw=[0x15], result=20 << 16 | 30)
        q.run(0x09, cdw=[0x15, lsiri], result=20 << 16 | 30)
    return craft


def offers_no_group(c):
    """NEWTLSPSK, and among the DH groups none; the controller goes on."""
    q = admin(c, enabled=False, result=1 | 2 << 16)
    negotiate = bytes([0, 0, 0, 0, 7, 0, 2, 1, 1, 0, 1, 2, 1]).ljust(42, b"\0") + b"\1\0"
    q.authenticate(5, negotiate.ljust(72, b"\0"))
    q.authenticate(6, CHALLENGE)


# --- crafted, and lawful: nobody is blamed -------------------------------------------------------

def slow_shutdown(c):
    """RTD3E is half a second, and nobody is bound to it (3.6.1)."""
    q = admin(c)
    q.identify(rtd3e=500000)
    q.set(0x464001)
    c.ms += 5000
    q.get(CSTS, 5)
    q.get(CSTS, 9)


def cc_after_reset(c):
    """A reset clears CC (3.7.2)."""
    q = admin(c)
    q.get(CC, 0x460001)
    q.set(0x460000)
    q.get(CC, 0)


def cc_of_discovery(c):
    """IOSQES and IOCQES are reserved there."""
    discovery(c).get(CC, 1)


def silent_after_shutdown(c):
    """The timer of a controller that is shut down does not run (3.9.2)."""
    q = admin(c, kato=1000)
    q.run(0x0a, result=1000, cdw=[0x0f])
    q.set(0x464001)
    c.ms += 10000
    q.get(CSTS, 9)


def cleaned_up_late(c):
    """CQT is what a controller has to end the association (3.9.5)."""
    q = admin(c, kato=1000)
    q.identify(cqt=10000)
    q.run(0x0a, result=1000, cdw=[0x0f])
    c.ms += 8000
    q.run(0x18)


def lawful_properties(c):
    """Reserved ones return 0, or are refused; NSSD and CSTS (NSSRO) can be written."""
    q = admin(c)
    q.get(INTMS)
    q.get(AQA, status=2)
    q.set(0x4e726d6c, ofst=NSSD)
    q.set(1 << 4, ofst=CSTS)


def challenges(c, *values):
    """Authentication transactions as far as the Challenge, with these challenge and DH values."""
    for cval, dhv in values:
        q = admin(c, enabled=False, result=1 | 2 << 16)
        negotiate = bytes([0, 0, 0, 0, 7, 0, 0, 1, 1, 0, 1, 1, 1]).ljust(42, b"\0") + b"\1"
        q.authenticate(5, negotiate.ljust(72, b"\0"))
        q.authenticate(6, struct.pack("<BBHHBBBBHI", 1, 1, 0, 7, 32, 0, 1, 1, 256, 9) + cval * 32 +
                       dhv * 256)


def negotiated(c, authid=1):
    q = admin(c, enabled=False, result=1 | 2 << 16)
    negotiate = bytes([0, 0, 0, 0, 7, 0, 0, 1, authid, 0, 1, 1, 1]).ljust(42, b"\0") + b"\0"
    q.authenticate(5, negotiate.ljust(72, b"\0"))
    q.authenticate(6, struct.pack("<BBHHBBBBHI", 1, 1, 0, 7, 32, 0, 1, 0, 0, 9) + b"a" * 32)
    return q


def proven_unasked(c):
    """Success1 with a response that the Reply has not asked for."""
    q = negotiated(c)
    q.authenticate(5, struct.pack("<BBHHBBBBHI", 1, 2, 0, 7, 32, 0, 0, 0, 0, 9) + bytes(64))
    q.authenticate(6, struct.pack("<BBHHBBB7x", 1, 3, 0, 7, 32, 0, 1) + b"r" * 32)


def fused(c):
    """Compare and Write; then one that is aborted since the other half failed."""
    admin(c)
    q = io(c)
    for opc, flags in ((5, 0x41), (1, 0x42), (2, 0x40), (5, 0x41), (1, 0x42)):
        q.send(sqe(opc, q.next_cid(), nsid=1, flags=flags, dptr=sgl(TRANSPORT, 512)))
        q.answer(q.cid, status=9)


def io_flagged(flags, opc=0, nsid=1):
    def craft(c):
        admin(c)
        q = io(c)
        q.send(sqe(opc, q.next_cid(), nsid=nsid, flags=flags, dptr=sgl(TRANSPORT, 512)))
        q.answer(q.cid, status=2)
    return craft


def names_of_discovery(c):
    data = bytearray(4096)
    data[4:24] = b"serial number alone."
    struct.pack_into("<HI", data, 78, 1, 0x20100)
    data[111] = 2
    struct.pack_into("<H", data, 514, 128)
    struct.pack_into("<I", data, 536, 0x300001)
    discovery(c).run(0x06, data=bytes(data), cdw=[1])


def page(lid, data):
    """A log page of an identified controller, from its beginning."""
    def craft(c):
        q = admin(c)
        q.identify()
        q.log(lid, data.ljust(512, b"\0"))
    return craft


def limits_of_write_zeroes(c):
    q = admin(c, enabled=False)
    q.enable(vs=0x20100)
    q.identify(ver=0x20100)
    q.run(0x06, data=bytes(17) + b"\1" + bytes(4078), cdw=[6])


def bits_of_later(c):
    """CAP bit 62 and CSTS bit 8 may be fields of NVMe 2.3."""
    q = admin(c, enabled=False)
    q.enable(vs=0x20300)
    q.get(CAP, CAP_FAIR | 1 << 62)
    q.get(CSTS, 1 | 1 << 8)


def bits_without_a_version(c):
    admin(c, enabled=False).get(CAP, CAP_FAIR | 1 << 62)


def bits_reserved(c):
    admin(c).get(CSTS, 1 | 1 << 8)


def tags_beyond_the_guard(c):
    """A format with type 1 protection, a 16b guard and a storage tag of 33 bits."""
    q = admin(c, enabled=False)
    q.enable(vs=0x20100)
    q.identify(ver=0x20100)
    ns = bytearray(4096)
    ns[0], ns[8], ns[29], ns[128], ns[130] = 8, 8, 1, 8, 9  # NSZE, NCAP, DPS, MS and LBADS
    ns[27], ns[28] = 2, 1
    q.run(0x06, data=bytes(ns), cdw=[0], nsid=1)
    q.run(0x06, data=bytes(12) + b"\x21" + bytes(4083), cdw=[5], nsid=1)


def ana_log(count, state, group=1):
    """One group, with namespace 1."""
    return struct.pack("<QH6xIIQB15xI", count, 1, group, 1, count + 1, state, 1)


def ana_changes(c):
    """What happens between log pages of two change counts happened in either state."""
    q, i = admin(c), io(c)
    q.log(0x0c, ana_log(0, 3))
    i.run(0x00, nsid=1, status=0x302)
    i.run(0x00, nsid=1)
    q.log(0x0c, ana_log(1, 1))
    i.run(0x00, nsid=1, status=0x303)
    q.log(0x0c, ana_log(2, 1))
    q.log(0x0c, ana_log(2, 1))
    q.set(0x460000)
    q.set(0x460001)
    q.log(0x0c, ana_log(0, 4))
    i = io(c, qid=2)
    i.run(0x00, nsid=1, status=0x301)
    q.log(0x0c, ana_log(0, 4))


def io_in_state(state, status, between=lambda q, aer: None):
    """An I/O command between two log pages that say the same."""
    def craft(c):
        q, i = admin(c), io(c)
        q.identify(oaes=1 << 11, anacap=0x1f)
        q.run(0x09, cdw=[0x0b, 1 << 11])
        aer = q.next_cid()
        q.send(sqe(0x0c, aer))
        q.log(0x0c, ana_log(0, state))
        i.run(0x00, nsid=1, status=status)
        between(q, aer)
        q.log(0x0c, ana_log(0, state))
    return craft


def tells_of_ana(q, aer):
    q.answer(aer, result=2 | 3 << 8 | 0x0c << 16)


def two_paths(first, second, **late):
    """Two controllers of a subsystem show these ANA states; a Read goes to the first one."""
    def craft(c):
        a = admin(c)
        a.log(0x0c, ana_log(1, first))
        i = io(c)
        b = admin(c, result=2, kato=late.get("kato", 0))
        b.log(0x0c, ana_log(1, second))
        io(c, cntlid=2)
        c.ms += late.get("ms", 3000)
        if late.get("lives"):
            b.run(0x18)
        if late.get("again"):
            a.log(0x0c, ana_log(2, late["again"]))
        i.run(0x02, nsid=1, length=512, status=0x302 if first > 2 else 0x281)
    return craft


def sent_again(status, ms, between=lambda q: None, opc=2, **k):
    """A command fails, and the same is sent so much later."""
    def craft(c):
        q = admin(c)
        if status >> 8 != 3:
            q.identify(crdt=10)
        q.run(0x09, h2c=bytes([1]).ljust(512, b"\0"), cdw=[0x16])
        i = io(c)
        for n in range(2):
            i.run(opc, nsid=1, status=status, **(k or {"length": 512}))
            if not n:
                c.ms += ms
                between(q)
    return craft


COPY = {"opc": 0x19, "h2c": struct.pack("<8xQH14x", 0, 3), "cdw": [20, 0, 0]}


def stays_after(info, lid, wait_ms=9000, read=False):
    """An I/O controller tells of a change in a log; the host leaves."""
    def craft(c):
        q = admin(c)
        q.run(0x09, cdw=[0x0b, 1 << (8 + info)])
        aer = q.next_cid()
        q.send(sqe(0x0c, aer))
        q.answer(aer, result=2 | info << 8 | lid << 16)
        c.ms += wait_ms
        if read:
            q.log(lid, ana_log(0, 1))
        q.set(0x464001)
    return craft


def restarts(reads=False, ends=False, watched=True):
    """watched: the host has a discovery service in this capture, until it ends that."""
    def craft(c):
        d = discovery(c) if watched else None
        Queue(c, status=0x183, result=0)
        if reads:
            discovery(c).log(0x70, disc_log(7, disc_entry(SUBNQN)))
        if ends:
            d.stream.close()
        Queue(c, status=0x183, result=0)
    return craft


def disconnected(c, ofcs):
    admin(c).identify(ofcs=ofcs)
    q = io(c)
    q.send(fabrics(8, q.next_cid(), b""))
    q.answer(q.cid)


def deletes_queue(stays=True, cattr=0xc):
    """Its connection ends; both sides can delete single queues, or do not say so."""
    def craft(c):
        q = Roce(c)
        q.connect(cattr=cattr)
        q.set(0x460001)
        q.cid += 1
        q.command(sqe(0x06, q.cid, cdw=[1], dptr=sgl(KEYED, 4096, 0x2000, 0x99)))
        q.write(0x2000, 0x99, identify(ofcs=1, sgls=0x300005))
        q.answer(q.cid)
        roce_io(c).disconnect()
        c.ms += 3000
        if stays:
            q.cid += 1
            q.command(sqe(0x18, q.cid))
            q.answer(q.cid)
    return craft


def refuses_long(c, sgls):
    """An SGL of 8 KiB for the 4 KiB of Identify; bit 18 of SGLS says that this is supported."""
    q = admin(c)
    q.identify(sgls=sgls)
    q.run(0x06, status=0x0f, cdw=[1], length=8192)


def infiniband_entry(c):
    """TRSVCID of AF_IB is a service identifier."""
    entry = bytearray(disc_entry(SUBNQN, trsvcid=b"0000-0000-0106-1144", traddr=b"fe80::2"))
    entry[0:2] = 1, 3  # RDMA, InfiniBand
    entry[64:64 + 192] = bytes(192)
    entry[768:771] = 1, 2, 1  # reliable connected, InfiniBand, RDMA_IP_CM
    discovery(c).log(0x70, disc_log(1, bytes(entry)))


def detaches(q):
    q.run(0x15, nsid=2, h2c=struct.pack("<HH", 1, 1).ljust(4096, b"\0"), cdw=[1])


def listed(*nsids, nn=1, between=lambda q: None):
    """The active namespaces, of a controller with NN 1 before, and this one afterwards."""
    def craft(c):
        q = admin(c)
        q.identify()
        q.run(0x06, data=struct.pack(f"<{len(nsids)}I", *nsids).ljust(4096, b"\0"), cdw=[2])
        between(q)
        q.identify(nn=nn)
    return craft


def beyond_nn(*nsids):
    """The second namespace is refused; before, the list of namespaces has these."""
    def craft(c):
        q = admin(c)
        q.identify()
        lists_active(q, *nsids)
        io(c).run(0x00, nsid=2, status=0x0b)
    return craft


NGUID_TYPE, UUID_TYPE = 2, 3


def descriptors(*reads):
    """Of each namespace one descriptor: NSID, NIDT, NID. None: the list of namespaces is read."""
    def craft(c):
        q = admin(c)
        for read in reads:
            if not read:
                q.run(0x06, data=struct.pack("<I", 1).ljust(4096, b"\0"), cdw=[2])
                continue
            nsid, kind, value = read
            head = struct.pack("<BBxx", kind, len(value))
            q.run(0x06, data=(head + value).ljust(4096, b"\0"), cdw=[3], nsid=nsid)
    return craft


def watched(c, **k):
    """An association that is told of changed namespaces."""
    q = admin(c)
    q.identify(oaes=1 << 8 | ("anacap" in k) << 11, **k)
    q.run(0x09, cdw=[0x0b, 1 << 8])
    q.send(sqe(0x0c, q.next_cid()))
    return q, q.cid


def lists_active(q, *nsids):
    q.run(0x06, data=struct.pack(f"<{len(nsids)}I", *nsids).ljust(4096, b"\0"), cdw=[2])


def strange_read(between=lambda q, aer: None, status=0, again=(1,), watches=True):
    """A Read of namespace 2 between two lists of active namespaces, the first of which has namespace 1 alone."""
    def craft(c):
        q, aer = watched(c, nn=8) if watches else (admin(c), 0)
        i = io(c)
        lists_active(q, 1)
        between(q, aer)
        i.run(0x02, nsid=2, status=status, **({"length": 512} if status else {"data": bytes(512)}))
        lists_active(q, *again)
    return craft


def told_in_between(q, aer):
    q.answer(aer, result=2 | 4 << 16)


def detached_before(q, _):
    q.run(0x15, nsid=2, h2c=struct.pack("<HH", 1, 1).ljust(4096, b"\0"), cdw=[0])


def grouped(*groups, anacap=0x4f, **k):
    """What Identify Namespace says of the group of namespace 1, and of its NGUID; None: a change is told."""
    def craft(c):
        q, aer = watched(c, anacap=anacap, **k)
        for group, nguid in groups:
            if not group:
                q.answer(aer, result=2 | 4 << 16)
                q.log(4, bytes(4096))
                q.send(sqe(0x0c, q.next_cid()))
                continue
            ns = bytearray(4096)
            struct.pack_into("<QQQ", ns, 0, 64, 64, 64)
            struct.pack_into("<I", ns, 92, group)
            ns[104:120] = nguid * 16
            ns[130] = 9
            q.run(0x06, data=bytes(ns), cdw=[0], nsid=1)
    return craft


def enables(cc):
    """With CAP.CSS 01h."""
    def craft(c):
        q = admin(c, enabled=False)
        q.get(CAP, CAP_FAIR)
        q.set(cc)
    return craft


def numrec(n):
    """The header of the discovery log."""
    return lambda c: discovery(c).log(0x70, struct.pack("<QQ", 1, n).ljust(1024, b"\0"))


def of_old(c):
    """A controller of 1.2: that Fabrics came with 1.2.1 forbids nobody to say so."""
    q = admin(c, enabled=False)
    q.enable(vs=0x10200)
    q.identify(ver=0x10200)


LAWFUL = {
    "version-before-fabrics": of_old,
    "holder-with-two-controllers": reservation_report(0x20000, (b"a", 1), (b"a", 1), (b"b", 0)),
    "holder-with-two-controllers-of-unknown-version": reservation_report(0, (b"a", 1), (b"a", 1)),
    "holder-without-a-controller": reservation_report(0x20000, (b"b", 0)),
    "holders-all-without-a-controller": reservation_report(0x20000, rtype=5),
    "holder-in-two-subsystems": reservation_report(0x20100, (b"a", 1), (b"a", 1), (b"b", 0)),
    "report-before-eds": reservation_report(0x10201, eds=0),
    "ignored-key-of-1.2.1": ignores_key(0x10201, 0x7f),
    "two-subsystems-with-one-cntlid": two_subsystems,
    "hostid-set-after-connect": hostid_is_set,
    "notice-by-default": notice(),
    "notice-as-told": notice(told=0x100),
    "extended-entries": extended_entries(lsp=1),
    "extended-entries-unasked": extended_entries(),
    "extended-attribute-like-an-entry": attribute_like_an_entry,
    "log-read-beyond-its-end": read_beyond_the_end,
    "log-read-beyond-its-told-end": lambda c: read_beyond_the_end(c, tdlpl=2048),
    "static-controllers-all-taken": refused_connect(0x181, 0, cntlid=0xfffe),
    # the association has just ended, which these controllers say in their own way
    "queue-refused-by-qid": refused_connect(0x182, 42, qid=3),
    "queue-refused-by-cntlid": refused_connect(0x182, 1 << 16 | 16, qid=1),
    "queue-refused-by-another-cntlid": refused_connect(0x182, 1 << 16 | 16, qid=1, cntlid=9),
    "queue-refused-by-subnqn": refused_connect(0x182, 1 << 16 | 256, qid=1),
    "queue-refused-by-hostnqn": refused_connect(0x182, 1 << 16 | 512, qid=1),
    "queue-refused-by-hostid": refused_connect(0x182, 1 << 16, qid=1),
    "few-events-refused": few_events_refused,
    "many-r2ts": many_r2ts,
    "busy-disconnect-logged": error_logged(0x181, sqid=1),
    "keep-alive-while-power-is-lost": lambda c: identified(c).run(0x18, status=5),
    "keep-alive-of-who-knows-what": lambda c: admin(c).run(0x18, status=1),
    "discovery-keep-alive-while-power-is-lost": lambda c: discovery(c, kato=5000).run(0x18, status=5),
    "numrec-of-a-long-log": numrec((1 << 54) - 1),
    "namespaces-up-to-nn": listed(1),
    "namespaces-up-to-nn-that-grows": listed(1, 2, nn=2),
    "namespaces-beyond-nn-that-shrinks": listed(1, 2, between=detaches),
    "namespace-that-was-listed": beyond_nn(1, 2),
    "namespace-attached-meanwhile": strange_read(told_in_between),
    "namespace-attached-by-the-host": strange_read(detached_before, again=(1, 2)),
    "namespace-listed-afterwards": strange_read(again=(1, 2)),
    "unattached-namespace-refused": strange_read(status=2),
    "namespace-without-notices": strange_read(watches=False),
    "group-changes": grouped((1, b"a"), (2, b"a"), anacap=0x0f),
    "group-stays": grouped((1, b"a"), (1, b"a")),
    "group-of-another-namespace": grouped((1, b"a"), (2, b"b")),
    "group-after-a-notice": grouped((1, b"a"), (None, b""), (2, b"a")),
    "descriptors": descriptors((1, UUID_TYPE, b"u" * 16), (2, UUID_TYPE, b"v" * 16), (1, UUID_TYPE, b"u" * 16),
                               (2, NGUID_TYPE, b"u" * 16)),
    "uuid-of-another-namespace-later": descriptors((1, UUID_TYPE, b"u" * 16), None, (2, UUID_TYPE, b"u" * 16)),
    "other-path": two_paths(1, 3),
    "no-better-path": two_paths(2, 2),
    "path-just-changed": two_paths(3, 1, ms=100),
    "path-whose-cable-is-pulled": two_paths(3, 1, ms=6000),
    "path-whose-cable-is-pulled-beyond-kato": two_paths(3, 1, ms=11000, kato=10000),
    "path-read-again": two_paths(3, 1, again=1),
    "sent-again-after-crd": sent_again(0x882, 1100),
    "sent-again-in-time": sent_again(0x303, 100),
    "sent-again-after-log": sent_again(0x301, 100, lambda q: q.log(0x0c, ana_log(1, 1))),
    "another-copy": sent_again(0x186, 100, **COPY),
    "ana-change-that-is-read": stays_after(3, 0x0c, read=True),
    "discovery-restarted": restarts(True),
    "discovery-that-was-not-caught": restarts(watched=False),
    "discovery-before-the-refusal": lambda c: (discovery(c).stream.close(), restarts(watched=False)(c)),
    "disconnect-announced": lambda c: disconnected(c, 1),
    "queue-and-all": deletes_queue(stays=False),
    "queue-with-all": deletes_queue(cattr=4),
    "whole-namespace-zeroed": lambda c: (admin(c), io(c).run(
        0x08, nsid=1, cdw=[0, 0, 1 << 23], result=1)),
    "write-of-a-compare-that-failed": compared_in_vain(9),
    "flush-before-format": disturbs_format(10),
    "format-of-another-namespace": disturbs_format(2000, nsid=2),
    "command-of-its-nvm-set": lambda c: namespace(c, nvmsetid=2)[1].run(0x00, nsid=1),
    "treq-of-two-subsystems": lambda c: discovery(c).log(
        0x70, disc_log(1, disc_entry(SUBNQN), disc_entry(SUBNQN + "2", treq=1))),
    "report-interval": report_interval(30),
    "namespace-list": lists(2, struct.pack("<II", 2, 3), nsid=1),
    "controller-list": lists(0x13, struct.pack("<HHH", 2, 0, 5)),
    "notice-as-asked": notice(0x100),
    "persistent-event-log": persistent((1, 0), (0, 512), (0, 0), (2, 0)),
    "persistent-event-log-at-once": persistent_at_once(1, 0),
    "persistent-event-log-released-at-once": persistent_at_once(0, 2),
    "effects-of-another-command-set": effects_of(2 << 24),
    "effects-of-a-uuid": effects_of(1),
    "change-that-is-read": told_of_a_change(read=True),
    "change-that-comes-late": told_of_a_change(read=False, wait_ms=10),
    "host-discovery-log": host_log(HOST_ENTRY),
    "copy": copies(20, (0, 8), (40, 4)),
    "lba-ranges": lba_ranges((0, 8), (8, 8)),
    "detached-and-deleted": deletes(1),
    "reservation": reserves(1, 1),
    "preempted-meanwhile": reserves(1, 2),
    "data-on-its-way": late_data(10),
    "concatenation": concatenates(stays=False),
    "concatenation-both-ways": concatenates(stays=False, s2=9),
    "concatenated": comes_back(True),
    "tls": lambda c: (tls(c), tls(c, share=b"t", random=b"t"), tls(c)),
    "tls-two-keys": lambda c: tls(c, PSK_OF, PSK_OF.replace("R01", "R02"), suites=(0x1302, 0x1301)),
    "tls-ticket": lambda c: tls(c, "a ticket"),
    "tls-nul": lambda c: tls(c, PSK_OF + "\0"),
    "tls-version-1": lambda c: tls(c, PSK_OF.replace("NVMe0", "NVMe1") + " digest"),
    "tls-1.2": lambda c: tls(c, version=0x303, suites=(0x8b, 0x2f)),
    "tls-not-required": secure_entry(2),
    "psk-replaced-within-tls": concatenates(3),
    "static-controller-again": lambda c: static_again(c, 5),
    "write-again-after-cqt": lambda c: lost_write(c, 11000),
    "fatal-status-just-seen": lambda c: fatal_status(c, 100),
    "challenges-of-a-host": lambda c: challenged_alike(c, b"e"),
    "registration": registers(),
    "old-names-of-hosts": lambda c: admin(c, hostnqn=UUID.replace(":uuid", ":NVMf:uuid")),
    "aborted-after-abort": aborted(7),
    "ana-changes": ana_changes,
    "ana-transition-that-does-not-show": io_in_state(1, 0x303),
    "ana-transition-from-inaccessible": io_in_state(3, 0x303),
    "ana-state": io_in_state(3, 0x302),
    "ana-transition-that-has-failed": io_in_state(1, 0x302, tells_of_ana),
    "reserved-bits-of-later": bits_of_later,
    "reserved-bits-without-a-version": bits_without_a_version,
    "no-such-nvm-set": lambda c: (admin(c), io(c, nvmsetid=9, status=2, result=0)),
    "static-controller": lambda c: admin(c, enabled=False, cntlid=5, result=5),
    "any-static-controller": lambda c: admin(c, enabled=False, cntlid=0xfffe, result=5),
    "no-controller-left": refused_connect(0x181, 0),
    "fused": fused,
    "flush-of-all": io_flagged(0x40, nsid=0xffffffff),
    "shutdown-beyond-rtd3e": slow_shutdown,
    "shutdown-shows-late": shown_late,
    "cc-after-reset": cc_after_reset,
    "cc-of-discovery": cc_of_discovery,
    "silence-after-shutdown": silent_after_shutdown,
    "late-within-cqt": cleaned_up_late,
    "properties": lawful_properties,
    "entry-sizes": lambda c: admin(c).identify(entry_sizes=0x5476),
    "stride-of-discovery": lambda c: Queue(c, subnqn=DISCOVERY).get(
        CAP, CAP_FAIR & ~(1 << 59) | 1 << 32),
    "cntlid-0": lambda c: admin(c, result=0),
    "long-sgl-refused-at-once": lambda c: admin(c).run(0x06, status=0x0f, cdw=[1], length=8192),
    "entry-of-infiniband": infiniband_entry,
    "dh-value-again": lambda c: challenges(c, (b"a", b"z"), (b"b", b"z")),
}


def half_fused(c):
    admin(c)
    q = io(c)
    for flags in (0x41, 0x40):
        q.send(sqe(0, q.next_cid(), nsid=1, flags=flags))
        q.answer(q.cid)


def retried_never(c):
    """Success with DNR."""
    q = admin(c)
    q.send(sqe(0x18, q.next_cid()))
    q.answer(q.cid, status=0x4000)


def protected(c):
    """An association that has read of namespace 1 that it has protection information of type 1."""
    data = bytearray(4096)
    data[0:24] = struct.pack("<QQQ", 64, 64, 64)
    data[26:30] = bytes((0x10, 1, 0x11, 1))  # FLBAS, MC, DPC, DPS
    data[128:132] = struct.pack("<HBB", 8, 9, 0)
    admin(c).run(0x06, data=bytes(data), cdw=[0], nsid=1)
    return io(c)


FABRICS = {
    "base/namespace/unattached": strange_read(),
    "base/ana/fixed-group": grouped((1, b"a"), (2, b"a")),
    "nvm/fused/write-aborted": compared_in_vain(0),
    "fab/connect/authreq": lambda c: admin(c, enabled=False, result=1 | 6 << 16),
    "fab/discovery/treq-same": lambda c: discovery(c).log(
        0x70, disc_log(1, disc_entry(SUBNQN), disc_entry(SUBNQN, portid=2, treq=1))),
    "base/format/alone": disturbs_format(2000),
    "base/command/nvm-set": lambda c: namespace(c, nvmsetid=3)[1].run(0x00, nsid=1),
    "fab/property/upper-dword": upper_dword,
    "base/identify/list": lists(2, struct.pack("<II", 3, 2)),
    "base/identify/controllers": lists(0x13, struct.pack("<HHH", 2, 5, 5)),
    "base/event/asked": notice(0),
    "base/log/persistent-context": persistent((0, 0)),
    "base/log/read-again": persistent((1, 0)),
    "fab/discovery/event-read": told_of_a_change(read=False),
    "fab/discovery/host-entries": host_log(HOST_ENTRY[:1032] + struct.pack("<HH16x", 2, 16)),
    "nvm/command/overlaps": copies(20, (0, 8), (27, 4)),
    "base/namespace/detached-first": deletes(),
    "base/reservation/host-identifier": reserves(1, 1, hostid=bytes(16)),
    "base/reservation/release-type": reserves(1, 2, status=2),
    "fab/auth/concatenation": concatenates(),
    "fab/discovery/secure-channel": secure_entry(1),
    "base/ana/host-path": two_paths(3, 1),
    "base/ana/host-again": sent_again(0x301, 100),
    "base/ana/host-reads": stays_after(3, 0x0c),
    "nvm/host/lba-status-read": stays_after(5, 0x0e),
    "base/command/retry-delay": sent_again(0x882, 100),
    "nvm/copy/host-again": sent_again(0x4186, 100, **COPY),
    "fab/connect/restart-discovery": restarts(),
    "fab/disconnect/first": deletes_queue(),
    "fab/disconnect/announced": lambda c: disconnected(c, 0),
    "tcp/tls/host-version-old": lambda c: tls(c, version=0x302, suites=(0x8c, 0x2f)),
    "tcp/tls/host-psk": lambda c: tls(c, psk=False),
    "tcp/tls/host-psk-hash": lambda c: tls(c, suites=(0x1302,)),
    "tcp/tls/host-two-keys": lambda c: tls(c, suites=(0x1301, 0x1302)),
    "tcp/tls/host-identity": lambda c: tls(c, PSK_OF.replace("R01", "R1")),
    "tcp/tls/host-retained": lambda c: tls(c, PSK_OF, PSK_OF.replace("R", "G", 1)),
    "tcp/tls/host-share-fresh": lambda c: (tls(c), tls(c, random=b"other")),
    "tcp/tls/host-share-apart": same_exponential,
    "tcp/tls/host-early-data": lambda c: tls(c, early=True),
    "tcp/tls/host-all-queues": lambda c: (tls(c), io(c)),
    "fab/connect/nqn-form": lambda c: admin(c, hostnqn=UUID[:-1]),
    "fab/connect/cntlid-remembered": lambda c: static_again(c, 0xfffe),
    "fab/association/host-ends": stays_without_admin,
    "fab/association/retry-waits": lambda c: lost_write(c, 1000),
    "fab/ready/fatal-reset": fatal_status,
    "fab/discovery/registration": registers(eid=UUID[:-1]),
    "fab/discovery/traddr": lambda c: discovery(c).log(
        0x70, disc_log(1, disc_entry(SUBNQN, traddr=b"10.0.0.256"))),
    "fab/auth/host-ends": failed_and_stays,
    "fab/auth/discovery": proves_itself_to_discovery,
    "fab/auth/host-fresh": challenged_alike,
    "base/command/retry-unasked": lambda c: admin(c).run(0x06, status=0x21, cdw=[1], length=4096),
    "base/abort/which": aborted(0, 0x040002),
    "nvm/protection/first-tag": lambda c: protected(c).run(
        0x02, nsid=1, cdw=[5, 0, 1 << 26, 0, 6], status=0x181, length=520),
    "nvm/protection/length": lambda c: protected(c).run(
        0x02, nsid=1, cdw=[5, 0, 1 << 29, 0, 5], data=bytes(520), length=520),
    "base/command/reserved": lambda c: admin(c).run(0x18, cdw=[1]),
    "base/command/coded-values": lambda c: admin(c).run(0x0a, cdw=[0x0f | 4 << 8], status=2),
    "base/command/fields": lambda c: admin(c).log(2, bytes(64), offset=2),
    "base/command/fields-advised": lambda c: admin(c).log(5, bytes(64), rae=1),
    "nvm/command/fields": lambda c: (admin(c), io(c).run(0x08, nsid=1, cdw=[0, 0, 1 << 24])),
    "fab/property/cc-values": mps_changed,
    "fab/ready/order": lambda c: admin(c, enabled=False).set(0x460001),
    "fab/disconnect/idle": busy_disconnect,
    "fab/discovery/read-again": log_without_end,
    "fab/keep-alive/sent": kept_waiting,
    "fab/auth/message-fields": half_valid_reply,
    "base/fused/alone": half_fused,
    "base/fused/reserved": io_flagged(0x43),
    "base/fused/unsupported": lambda c: (lambda q: (q.send(sqe(0x18, q.next_cid(), flags=0x41)),
                                                    q.answer(q.cid, status=2)))(admin(c)),
    "fab/nsid/broadcast": io_flagged(0x40, opc=2, nsid=0xffffffff),
    "fab/nsid/unused": lambda c: admin(c).run(0x18, nsid=1, status=2),
    "fab/queue/refused": lambda c: admin(c).run(0x00),
    "fab/queue/success-bits": retried_never,
    "fab/auth/refused": lambda c: negotiated(c, authid=2),
    "fab/auth/success": proven_unasked,
    "fab/auth/fresh": lambda c: challenges(c, (b"a", b"y"), (b"a", b"z")),
    "fab/auth/not-asked": lambda c: admin(c).run(0x18, status=0x191),
    "fab/property/kept": overwritten,
    "fab/connect/cntlid-same": lambda c: admin(c, enabled=False, cntlid=5, result=6),
    "fab/connect/controller-taken": refused_connect(0x181, 0, cntlid=5),
    "fab/connect/cntlid-allocated": lambda c: admin(c, enabled=False, result=0xfff0),
    "fab/connect/cntlid-static": refused_connect(0x182, 1 << 16 | 16),
    "fab/connect/cntlid-dynamic": refused_connect(0x182, 1 << 16 | 16, cntlid=5),
    "fab/connect/hostnqn-is-subnqn": refused_connect(0x184, 0, hostnqn=SUBNQN),
    "fab/connect/host-allowed": refused_connect(0x182, 1 << 16 | 512),
    "fab/connect/subnqn": refused_connect(0x182, 1 << 16 | 256),
    "fab/connect/hostid-zero": refused_connect(0x182, 1 << 16, hostid=bytes(16)),
    "fab/connect/cntlid-io": refused_connect(0x182, 1 << 16 | 16, qid=1, cntlid=0xffff),
    "fab/connect/io-hostid": refused_connect(0x182, 0, qid=1, hostid=b"x" * 16),
    "fab/connect/io-hostnqn": refused_connect(0x182, 0, qid=1, hostnqn=HOSTNQN[:-1] + "2"),
    "fab/connect/io-subnqn": refused_connect(0x182, 1 << 16 | 256, qid=1, subnqn=SUBNQN + "2"),
    "fab/connect/io-enabled": late_io_queue,
    "fab/connect/qid": lambda c: (admin(c), Queue(c, 0xffff, sqsize=0).connect(
        status=0x182, result=42)),
    "fab/connect/qid-not-granted": granted,
    "fab/connect/qid-in-use": queue_twice,
    "fab/connect/sqsize-max": lambda c: (admin(c), io(c, sqsize=128)),
    "fab/connect/cntlid-reserved": lambda c: admin(c, cntlid=0xfff3),
    "fab/auth/required": unauthenticated,
    "fab/command/psdt": flagged(0xc0),
    "fab/command/fuse": flagged(0x41),
    "fab/property/crto": crto,
    "fab/property/crms": lambda c: (lambda q: (q.enable(cap=CAP_FAIR & ~(1 << 59)), q.identify()))(
        admin(c, enabled=False)),
    "fab/property/cap-discovery": lambda c: Queue(c, subnqn=DISCOVERY).get(CAP, CAP_FAIR | 1 << 36),
    "fab/property/reserved": lambda c: admin(c).get(INTMS, 1),
    "fab/property/vs": lambda c: admin(c).identify(ver=0x10400),
    "base/identify/discovery-names": names_of_discovery,
    "nvm/identify/protection": tags_beyond_the_guard,
    "nvm/identify/controller": limits_of_write_zeroes,
    "base/log/ana-fields": page(0x0c, struct.pack("<QH6xIIQB15xI", 1, 1, 1, 1, 1, 5, 1)),
    "base/log/persistent-fields": page(0x0d, b"\1"),
    "base/log/reservation-fields": page(0x80, struct.pack("<QB", 1, 4)),
    "base/log/sanitize-fields": page(0x81, b"\0"),
    "fab/property/cc": cc_readback,
    "fab/ready/ready": not_ready(301000),
    "fab/ready/time": not_ready(1500),
    "fab/shutdown/complete": never_down,
    "fab/reset/clears": reset_in_vain,
    "fab/keep-alive/round-up": kato_rounded,
    "fab/keep-alive/minimum": kato_minimum,
    "fab/keep-alive/expiry": outlived,
    "fab/keep-alive/command": lambda c: identified(c).run(0x18, status=2),
    "fab/nsid/invalid": lambda c: (admin(c), io(c).run(0x00, status=0x0b, nsid=0)),
    "fab/sgl/long": lambda c: refuses_long(c, 0x340001),
    "fab/connect/no-error-log": error_logged(0x182, sqid=1),
    "base/event/limit": too_many_events,
    "base/event/masked": event_twice,
    "base/log/rae": kept_event,
    "base/log/offset-type": admin_log(2, ot=1, status=2),
    "base/log/offset": admin_log(2, offset=1024, status=2),
    "base/log/discovery-logs": admin_log(0x70, status=0x109),
    "base/abort/unknown-cid": abort_nothing,
    "base/feature/host-identifier": lambda c: identified(c).run(
        0x09, cdw=[0x81, 1], h2c=b"another host id."),
    "fab/discovery/log-offsets": log_in_pieces,
    "fab/discovery/genctr-step": log_of_the_same_genctr,
    "fab/discovery/one-entry": lambda c: discovery(c).log(
        0x70, disc_log(1, disc_entry(SUBNQN), disc_entry(SUBNQN))),
    "base/reservation/report": reservation_report(0x20100, (b"a", 1), (b"b", 1)),
    "base/reservation/ignore-key": ignores_key(0x10300, 0xff),
    "base/reservation/report-format": reservation_report(0x10300, eds=0),
    "fab/discovery/prohibited-features": lambda c: discovery(c).run(0x0a, status=2, cdw=[7]),
    "fab/discovery/persistent": lambda c: discovery(c, kato=5000).run(0x18, status=1),
}


# --- crafted: NVMe/TCP ---------------------------------------------------------------------------

def served_in_another_order(c):
    admin(c)
    q = io(c, maxr2t=1)
    cid = q.next_cid()
    q.send(sqe(0x01, cid, nsid=1, dptr=sgl(TRANSPORT, 8192), cdw=[0, 0, 15]))
    for ttag, at in ((1, 0), (2, 4096)):
        q.controller(pdu(9, struct.pack("<HHII4x", cid, ttag, at, 4096)))
    for ttag, at in ((2, 4096), (1, 0)):
        q.host(pdu(6, struct.pack("<HHII4x", cid, ttag, at, 4096), bytes(4096), flags=4))
    q.answer(cid)


def term(q, sender, copy, fes=2):
    data = pdu(2 if sender == "host" else 3, struct.pack("<HI10x", fes, 0), copy)
    q.stream.send(sender, data)


def misnamed(sender):
    """Data that nobody has asked for is called a Data Transfer Limit Exceeded."""
    def craft(c):
        q = admin(c)
        data = pdu(6 if sender == "controller" else 7, struct.pack("<HHII4x", 9, 9 if sender == "controller" else 0, 0, 4), bytes(4),
                   flags=4)
        q.stream.send("host" if sender == "controller" else "controller", data)
        term(q, sender, data[:24], fes=5)
    return craft


def short_copy(c):
    q = admin(c)
    late = icreq()
    q.host(late)
    term(q, "controller", late[:64])


def term_answered(c):
    q = admin(c)
    short = struct.pack("<BBBBIHI10x", 2, 0, 24, 0, 20, 2, 0)
    q.stream.send("host", short)
    term(q, "controller", short)


def reserved_fes_answered(c):
    """Only of a bad PLEN is it said that nothing answers it (T1.0 3.5)."""
    q = admin(c)
    data = pdu(7, struct.pack("<HHII4x", 9, 0, 0, 4), bytes(4), flags=4)
    q.stream.send("controller", data)
    strange = struct.pack("<BBBBIHI10x", 2, 0, 24, 0, 24 + 24, 9, 0) + data[:24]
    q.stream.send("host", strange)
    term(q, "controller", strange[:24], fes=1)


def term_ignored(c):
    q = admin(c)
    cid = q.next_cid()
    q.send(sqe(0x18, cid))
    term(q, "host", pdu(5, cqe(9)))
    c.ms += 31000
    q.answer(cid)


def reserved(sender):
    """Each place in which a bit was found by nobody once: reserved bytes, FEI without meaning, PAD."""
    def craft(c):
        admin(c)
        q = io(c)
        write, read = q.next_cid(), q.next_cid()
        h2c, c2h = (1, 0) if sender == "host" else (0, 1)
        q.send(sqe(0x01, write, nsid=1, dptr=sgl(TRANSPORT, 512)))
        q.controller(pdu(9, struct.pack("<HHIII", write, 1, 0, 512, c2h)))
        q.host(pdu(6, struct.pack("<HHIII", write, 1, 0, 512, h2c), bytes(512), flags=4))
        q.answer(write)
        q.send(sqe(0x02, read, nsid=1, dptr=sgl(TRANSPORT, 512)))
        q.controller(pdu(7, struct.pack("<HHIII", read, c2h, 0, 512, 0), bytes(512), flags=4))
        q.answer(read)
        late = icreq()
        if c2h:
            q.host(late)
        q.stream.send(sender, pdu(2 + c2h, struct.pack("<HI10x", 2, 7), late))
    return craft


def goes_on_after_the_end(c):
    """A Write's R2T follows C2HData of no command."""
    admin(c)
    q = io(c)
    cid = q.next_cid()
    q.send(sqe(0x01, cid, nsid=1, dptr=sgl(TRANSPORT, 512)))
    q.controller(pdu(7, struct.pack("<HHII4x", 99, 0, 0, 4), bytes(4), flags=4))
    q.controller(pdu(9, struct.pack("<HHII4x", cid, 1, 0, 512)))
    q.host(pdu(6, struct.pack("<HHII4x", cid, 1, 0, 512), bytes(512), flags=4))


TCP = {
    "tcp/termreq/host-stops": goes_on_after_the_end,
    "tcp/discovery/port-8009": lambda c: discovery(c).log(
        0x70, disc_log(1, disc_entry(SUBNQN, trsvcid=b"8009"))),
    "tcp/header/reserved-h2c": reserved("host"),
    "tcp/header/reserved-c2h": reserved("controller"),
    "tcp/h2cdata/r2t-order": served_in_another_order,
    "tcp/capsule/in-capsule-admin": lambda c: admin(c).run(
        0x09, status=0x11, cdw=[0x16], h2c=bytes(512)),
    "tcp/capsule/command-data-buffer": lambda c: admin(c).run(
        0x09, status=0x11, cdw=[0x16], length=512),
    "tcp/termreq/reason-c2h": misnamed("controller"),
    "tcp/termreq/reason-h2c": misnamed("host"),
    "tcp/termreq/copy-length": short_copy,
    "tcp/termreq/no-answer": term_answered,
    "tcp/termreq/close": term_ignored,
    "tcp/termreq/host-closes": host_stays,
    "tcp/h2cdata/whole-fetch": lambda c: (admin(c), io(c).run(
        1, nsid=1, cdw=[0, 0, 7], dptr=sgl(TRANSPORT, 4096))),
}


# --- crafted: NVMe/RDMA --------------------------------------------------------------------------

def roce_admin(c, **k):
    q = Roce(c, **k)
    q.connect()
    q.set(0x460001)
    return q


def roce_io(c, **k):
    q = Roce(c, qid=1, **k)
    q.connect(cntlid=1)
    return q


def reads(q, invalidate=False, addr=0x9000, key=0x55):
    """A Read of 512 bytes that is outstanding."""
    q.cid += 1
    kind = 0x4f if invalidate else KEYED
    q.command(sqe(0x02, q.cid, nsid=1, cdw=[0, 0, 0],
                  dptr=struct.pack("<Q", addr) + (512).to_bytes(3, "little") +
                  struct.pack("<IB", key, kind)))
    return q.cid


def writes(q, addr=0xa000, key=0x66):
    q.cid += 1
    q.command(sqe(0x01, q.cid, nsid=1, cdw=[0, 0, 0], dptr=sgl(KEYED, 512, addr, key)))
    return q.cid


def read_and(does, invalidate=False, **k):
    """A Read, and what the controller makes of it."""
    def craft(c):
        roce_admin(c)
        q = roce_io(c, **k)
        does(q, reads(q, invalidate))
        q.ack("host")
        q.flush()
    return craft


def write_and(does):
    def craft(c):
        roce_admin(c)
        q = roce_io(c)
        does(q, writes(q))
        q.ack("host")
        q.flush()
    return craft


def delivered(q, cid, then):
    q.write(0x9000, 0x55, bytes(512))
    then(q, cid)


def three_reads(c, between=70):
    """One too many, if so many commands of another queue between requests and answers prove it."""
    a = roce_admin(c)
    q = roce_io(c, ird=2)
    cids = [writes(q, 0xa000 + 0x1000 * i, 0x60 + i) for i in range(3)]
    asked = [q.ask(0xa000 + 0x1000 * i, 0x60 + i, 512) for i in range(3)]
    for _ in range(between):
        a.set(0x460001)
    for psn in asked:
        q.reply(psn, bytes(512))
    for cid in cids:
        q.answer(cid)


def host_goes_on(c):
    roce_admin(c)
    q = roce_io(c)
    cid = reads(q)
    q.write(0x9000, 0x55, bytes(512))
    q.answer(cid, key=0x4242)
    c.ms += 6000
    q.command(sqe(0x00, 99, nsid=1))
    q.answer(99)


def refuses(sender, syndrome):
    def craft(c):
        roce_admin(c)
        q = roce_io(c)
        cid = reads(q)
        if sender == "host":
            q.write(0x9000, 0x55, bytes(512))
        q.packet(sender, 17, struct.pack(">I", syndrome << 24),
                 q.psn["controller" if sender == "host" else "host"] - 1)
        return q, cid
    return craft


def goes_on_after_an_error(c):
    q, cid = refuses("host", 0x62)(c)
    q.answer(cid)
    q.ack("controller")


def io_queue_stays(c, wait_ms=11000):
    a = roce_admin(c)
    q = roce_io(c)
    a.disconnect()
    c.ms += wait_ms
    for _ in range(2):
        q.flush()


def late_write(c):
    roce_admin(c)
    q = roce_io(c)
    reads(q)
    q.mad("controller", 0x15, struct.pack(">II", q.number + 5000, q.number))
    q.write(0x9000, 0x55, bytes(512))
    q.ack("host")


def mpa(sender, private, depths=None, rejects=False):
    """The start-up frame of iWARP, whose private data is as long as it says; IRD and ORD: revision 2."""
    key = b"MPA ID Req Frame" if sender == "host" else b"MPA ID Rep Frame"
    if depths:
        private = struct.pack(">HH", *depths) + private
    flags = (0x50 if depths else 0x40) | rejects << 5
    return key + struct.pack(">BBH", flags, 2 if depths else 1, len(private)) + private


def iwarp(request, reply=None, depths=None, rejects=False):
    def craft(c):
        s = Stream(c, 51000)
        s.send("host", mpa("host", request, depths))
        if reply is not None:
            s.send("controller", mpa("controller", reply, depths, rejects))
        s.close()
    return craft


REQUEST = struct.pack("<HHHHH", 0, 0, 32, 31, 0).ljust(32, b"\0")
ACCEPT = struct.pack("<HH", 0, 32).ljust(32, b"\0")


RDMA = {
    "rdma/request/cntlid-io": lambda c: (roce_admin(c), roce_io(c, cntlid=2).flush()),
    "rdma/request/reliable": lambda c: Roce(c, service=1),
    "rdma/request/rnr-retry": lambda c: Roce(c, retries=3),
    "rdma/request/length": iwarp(REQUEST[:20]),
    "rdma/request/qid": lambda c: Roce(c, qid=900, rejected=3),
    "rdma/request/hsqsize": lambda c: Roce(c, hsqsize=9000, rejected=4),
    "rdma/accept/length": iwarp(REQUEST, struct.pack("<HH", 0, 32)),
    "rdma/transfer/write-range": read_and(lambda q, cid: q.write(0x9000, 0x55, bytes(513))),
    "rdma/transfer/write-direction": write_and(lambda q, cid: q.write(0xa000, 0x66, bytes(512))),
    "rdma/transfer/write-before-response": read_and(
        lambda q, cid: (q.answer(cid), q.write(0x9000, 0x55, bytes(512)))),
    "rdma/transfer/whole-transfer": read_and(
        lambda q, cid: (q.write(0x9000, 0x55, bytes(256)), q.answer(cid))),
    "rdma/transfer/read-range": write_and(lambda q, cid: q.read(0xa000, 0x66, bytes(516))),
    "rdma/transfer/read-direction": read_and(lambda q, cid: q.read(0x9000, 0x55, bytes(512))),
    "rdma/transfer/whole-fetch": write_and(lambda q, cid: q.answer(cid)),
    "rdma/transfer/read-limit": three_reads,
    "rdma/key/invalidate-unasked": read_and(
        lambda q, cid: delivered(q, cid, lambda q, cid: q.answer(cid, key=0x55))),
    "rdma/key/invalidate-key": read_and(
        lambda q, cid: delivered(q, cid, lambda q, cid: q.answer(cid, key=0x56)), invalidate=True),
    "rdma/key/invalidate-early": read_and(
        lambda q, cid: (q.answer(cid, key=0x55), q.write(0x9000, 0x55, bytes(512))),
        invalidate=True),
    "rdma/key/valid": refuses("host", 0x62),
    "rdma/flow/host-receives": refuses("host", 0x21),
    "rdma/flow/controller-receives": refuses("controller", 0x21),
    "rdma/key/invalidated-check": host_goes_on,
    "rdma/teardown/error-ends-queue": goes_on_after_an_error,
    "rdma/teardown/association-ends": io_queue_stays,
    "rdma/teardown/quiet-after-disconnect": late_write,
}
CRAFTED = {**FABRICS, **TCP, **RDMA}
# Crafted hosts connect I/O queues at once: no Identify, no Number of Queues.
SHORTCUTS = {"fab/ready/order"}
# What goes with it: the same bytes break two rules, or what follows is of the same mind.
BESIDES = collections.defaultdict(set, {
    "fab/ready/ready": {"fab/ready/time"},
    "base/log/persistent-fields": {"base/log/persistent-context"},
    "base/reservation/host-identifier": {"fab/connect/hostid-zero"},
    "tcp/termreq/host-stops": {"tcp/c2hdata/cccid"},
    "fab/auth/host-ends": {"fab/auth/required"},
    "fab/queue/refused": {"fab/command/opcode"},
    "base/event/limit": {"base/identify/controller-advised"},  # AERL is 1
    "fab/auth/refused": {"fab/auth/protocol", "fab/auth/challenge"},
    "tcp/termreq/reason-c2h": {"tcp/h2cdata/unsolicited", "tcp/h2cdata/ttag"},
    "tcp/termreq/reason-h2c": {"tcp/c2hdata/cccid"},
    "tcp/termreq/copy-length": {"tcp/setup/icreq-once"},  # what the TermReq is about
    "fab/property/kept": {"fab/property/read-only"},
    "tcp/header/reserved-c2h": {"tcp/setup/icreq-once"},
    "tcp/termreq/no-answer": {"tcp/termreq/length-h2c"},
    "rdma/transfer/write-before-response": {"rdma/transfer/whole-transfer"},
    "rdma/key/invalidate-early": {"rdma/transfer/whole-transfer"},
    "rdma/key/invalidated-check": {"rdma/key/invalidate-unasked"},
    "rdma/teardown/error-ends-queue": {"rdma/key/valid"},
    "rdma/teardown/association-ends": {"fab/association/host-ends"},
})


# --- checks --------------------------------------------------------------------------------------

def check(path):
    done = subprocess.run([NVMFSPEC, "pcap", "check", "--all", "-o", "json", path],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 1, 4), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("rule", CRAFTED)
def test_a_crafted_capture_is_flagged(rule, tmp_path):
    capture = Capture()
    CRAFTED[rule](capture)
    found = check(capture.write(tmp_path / "crafted.pcap"))
    assert found[-1]["gaps"] == 0
    rules = {f["rule"] for f in found[:-1]}
    assert any(f["rule"] == rule and f["proven"] for f in found[:-1])
    assert rules <= {rule} | BESIDES[rule] | SHORTCUTS


@pytest.mark.parametrize("name", LAWFUL)
def test_a_lawful_capture_is_not_flagged(name, tmp_path):
    capture = Capture()
    LAWFUL[name](capture)
    found = check(capture.write(tmp_path / "lawful.pcap"))
    assert found[-1]["gaps"] == 0
    allowed = SHORTCUTS | ({"fab/keep-alive/sent"} if name == "late-within-cqt" else set())
    assert [f for f in found[:-1] if f["rule"] not in allowed] == []


ALSO = {
    "no-holder": (reservation_report(0x20100, (b"a", 0)), "base/reservation/report"),
    "two-holders-of-2.0": (reservation_report(0x20000, (b"a", 1), (b"b", 1)), "base/reservation/report"),
    "registrant-that-holds-nothing": (reservation_report(0x20000, (b"a", 1), (b"b", 0), rtype=6),
                                      "base/reservation/report"),
    "holder-of-nothing": (reservation_report(0x20000, (b"a", 1), rtype=0), "base/reservation/report"),
    "subsystem-refused": (refused_connect(0x182, 0, qid=1, subnqn=SUBNQN + "2"), "fab/connect/io-subnqn"),
    "notice-that-was-told-to-be-off": (notice(told=0), "base/event/asked"),
    "entry-of-a-log-that-is-not-extended": (lambda c: discovery(c).log(
        0x70, disc_log(7, bytes(1024))), "fab/discovery/log-entry"),
    "busy-connect-logged": (error_logged(0x181), "fab/connect/no-error-log"),
    "keep-alive-not-supported": (lambda c: identified(c).run(0x18, status=1), "fab/keep-alive/command"),
    "keep-alive-not-supported-beside-an-io-queue": (
        lambda c: (lambda q, _: q.run(0x18, status=1))(admin(c), io(c)), "fab/keep-alive/command"),
    "hostid-set-twice": (lambda c: hostid_is_set(c, twice=True), "base/feature/host-identifier"),
    "numrec-beyond-offsets": (numrec(1 << 54), "fab/discovery/log-header"),
    "namespace-above-nn": (listed(1, 2), "base/identify/list"),
    "nsid-above-nn": (beyond_nn(1), "fab/nsid/invalid"),
    "nguid-of-zeroes": (descriptors((1, NGUID_TYPE, bytes(16))), "base/identify/unique"),
    "uuid-of-two-namespaces": (descriptors((1, UUID_TYPE, b"u" * 16), (2, UUID_TYPE, b"u" * 16)),
                               "base/identify/unique"),
    "traddr-of-every-interface": (lambda c: discovery(c).log(
        0x70, disc_log(1, disc_entry(SUBNQN, traddr=b"0.0.0.0"))), "fab/discovery/traddr"),
    "command-set-that-is-not-offered": (enables(0x460061), "fab/property/cc-values"),
    "report-interval": (report_interval(10), "base/command/fields-advised"),
    "result-of-ranges": (lambda c: admin(c).run(0x0a, cdw=[3], result=0x40, data=bytes(4096)),
                         "base/command/result-reserved"),
    "result-of-zeroes": (lambda c: (admin(c), io(c).run(0x08, nsid=1, result=2)),
                         "base/command/result-reserved"),
    "result-of-atomicity": (lambda c: admin(c).run(0x0a, cdw=[0x0a], result=2),
                            "base/command/result-reserved"),
    "ranges": (lba_ranges((0, 8), (7, 8)), "nvm/command/overlaps"),
    "late-data": (late_data(2000), "base/abort/which"),
    "persistent-event-log-after-release": (persistent((1, 0), (2, 0), (0, 0)), "base/log/persistent-context"),
    "effects-of-nothing": (effects_of(0), "base/log/effects-fields"),
    "log-in-pieces": (persistent((1, 512), (2, 512)), "base/log/read-again"),
    "create": (creates(16), "base/command/reserved"),
    "create-nmic": (creates(31), "base/command/reserved"),
    "ana-log-from-behind": (lambda c: admin(c).log(0x0c, bytes(16), offset=16), "base/command/fields-advised"),
    "ana-open-and-inaccessible": (io_in_state(1, 0x302), "base/ana/accessible"),
    "ana-inaccessible-and-lost": (io_in_state(3, 0x301), "base/ana/inaccessible"),
    "ana-lost-and-in-transition": (io_in_state(4, 0x303), "base/ana/persistent-loss"),
    "non-optimized-path": (two_paths(2, 1), "base/ana/host-path"),
    "discovery-that-ends-in-vain": (restarts(ends=True), "fab/connect/restart-discovery"),
    "path-that-answers-keep-alive": (two_paths(3, 1, ms=6000, lives=True), "base/ana/host-path"),
    "path-within-kato": (two_paths(3, 1, ms=9000, kato=10000), "base/ana/host-path"),
    "transition-at-once": (sent_again(0x303, 0), "base/ana/host-again"),
    "copy-without-resources": (sent_again(0x189, 100, **COPY), "nvm/copy/host-again"),
    "no-tls-with-a-generated-psk": (comes_back(False), "fab/auth/concatenation"),
    "no-challenge": (concatenates(cvalid=0, stays=False), "fab/auth/concatenation"),
    "stride": (lambda c: (lambda q: (q.enable(cap=CAP_FAIR | 1 << 32), q.identify()))(admin(c, enabled=False)),
               "fab/property/cap"),
    "stride-of-who-has-told": (lambda c: identified(c).get(CAP, CAP_FAIR | 1 << 32), "fab/property/cap"),
    "crd-with-dnr": (lambda c: admin(c, cntlid=5, result=5).run(
        0x06, status=0x4802, cdw=[1], length=4096), "base/command/retry-unasked"),
}


def test_no_group_beside_a_secure_channel_is_refused(tmp_path):
    capture = Capture()
    offers_no_group(capture)
    found = {f.get("rule") for f in check(capture.write(tmp_path / "crafted.pcap"))}
    assert {"fab/auth/message-fields", "fab/auth/refused"} <= found


def test_a_discovery_that_was_not_restarted_counts_once(tmp_path):
    capture = Capture()
    discovery(capture)
    Queue(capture, status=0x183, result=0)
    admin(capture)
    admin(capture, result=2)
    found = [f["rule"] for f in check(capture.write(tmp_path / "crafted.pcap"))[:-1]]
    assert found.count("fab/connect/restart-discovery") == 1


@pytest.mark.parametrize("name", ALSO)
def test_other_ways_to_break_it(name, tmp_path):
    craft, rule = ALSO[name]
    capture = Capture()
    craft(capture)
    found = check(capture.write(tmp_path / "crafted.pcap"))
    assert {f["rule"] for f in found[:-1]} - SHORTCUTS == {rule}


@pytest.mark.parametrize("rule", """
    rdma/flow/host-receives rdma/key/invalidated-check rdma/teardown/error-ends-queue
    fab/ready/time fab/connect/controller-taken fab/connect/cntlid-static fab/connect/host-allowed
    fab/connect/subnqn fab/discovery/prohibited-features""".split())
def test_a_rule_of_our_own_reading_is_advice(rule, tmp_path):
    capture = Capture()
    CRAFTED[rule](capture)
    found = [f for f in check(capture.write(tmp_path / "advice.pcap"))[:-1] if f["rule"] == rule]
    assert found and {f["grade"] for f in found} == {"advice"}


def told_of_failure(code, replies=False):
    """AUTH_Failure1 with this explanation."""
    def craft(c):
        q = negotiated(c) if replies else admin(c, enabled=False, result=1 | 2 << 16)
        if replies:
            q.authenticate(5, struct.pack("<BBHHBBBBHI", 1, 2, 0, 7, 32, 0, 0, 0, 0, 9) + bytes(64))
        else:
            q.authenticate(5, NEGOTIATE.ljust(72, b"\0"))
        q.authenticate(6, bytes([0, 0xf1, 0, 0, 7, 0, 1, code]).ljust(16, b"\0"))
        q.stream.close()
    return craft


def after_shutdown(c):
    q = admin(c)
    q.set(0x464001)
    q.run(0x06, status=0x0c, cdw=[1], length=4096)


# No sentence binds the host: the controller refuses what it does not take, or does not process it.
@pytest.mark.parametrize("craft, rule, grade", [
    (told_of_failure(3), "fab/auth/sc-c", "advice"),
    (told_of_failure(4), "fab/auth/hash", "advice"),
    (told_of_failure(5), "fab/auth/dh-group", "advice"),
    (told_of_failure(1, replies=True), "fab/auth/response-of-host", "advice"),
    (lambda c: discovery(c).run(0x10, status=1, cdw=[0]), "fab/discovery/prohibited", "advice"),
    (lambda c: discovery(c).log(2, length=512, status=0x109), "fab/discovery/prohibited-logs", "advice"),
    (after_shutdown, "fab/shutdown/after", "should"),
], ids=lambda p: p if isinstance(p, str) else "")
def test_what_binds_the_controller_alone_accuses_no_host(craft, rule, grade, tmp_path):
    capture = Capture()
    craft(capture)
    path = capture.write(tmp_path / "crafted.pcap")
    assert [(f["rule"], f["grade"]) for f in check(path)[:-1]] == [(rule, grade)]
    assert subprocess.run([NVMFSPEC, "pcap", "check", path], capture_output=True).returncode == 0


def test_own_reading_is_advice(tmp_path):
    """That a host writes VS nobody forbids in print."""
    capture = Capture()
    admin(capture).set(0x20200, ofst=VS)
    path = capture.write(tmp_path / "advice.pcap")
    found = check(path)
    assert [(f["rule"], f["grade"], f["level"]) for f in found[:-1]] == [
        ("fab/property/read-only", "advice", "must")]
    assert (found[-1]["must"], found[-1]["should"], found[-1]["advice"]) == (0, 0, 1)
    done = subprocess.run([NVMFSPEC, "pcap", "check", "--strict", path], capture_output=True, text=True)
    assert done.returncode == 0
    assert "host advice fab/property/read-only: " in done.stdout
    assert "0 must and 0 should broken, 1 advised" in done.stdout


LOGIN = struct.pack(">QHBBI16s16sHxxxxxx", 0, 6, 0, 0, 8260, b"initiator's name", b"target's own name", 80)


LOGIN_RSP = struct.pack(">BxxxIQIIHB25x", 0xc0, 16, 0, 8260, 260, 6, 0)


def srp(c, accept=LOGIN_RSP, **k):
    """A login of SRP, and what follows it."""
    q = Roce(c, private=LOGIN, accept=accept, **k)
    for _ in range(9):
        q.send("host", bytes([2]) + bytes(79))
        q.send("controller", b"\xc1" + bytes(35))


def overrun(c):
    """300 Writes on a queue of 32, all of which the controller serves."""
    admin(c)
    q = io(c)
    for cid in range(1, 301):
        q.send(sqe(0x01, cid, nsid=1, dptr=sgl(TRANSPORT, 512)))
    for cid in range(1, 301):
        q.controller(pdu(9, struct.pack("<HHII4x", cid, cid, 0, 512)))
        q.host(pdu(6, struct.pack("<HHII4x", cid, cid, 0, 512), bytes(512), flags=4))
        q.answer(cid)


def no_capsule_data(c):
    """IOCCSZ 4, and all the same in-capsule data, which the controller takes."""
    admin(c).identify(ioccsz=4)
    io(c).run(0x01, nsid=1, h2c=bytes(512))


@pytest.mark.parametrize("sender,count", [("host", 2), ("controller", 3)])
def test_each_reserved_place_is_looked_at(sender, count, tmp_path):
    capture = Capture()
    reserved(sender)(capture)
    found = check(capture.write(tmp_path / "crafted.pcap"))
    assert [f.get("rule", "")[:19] for f in found].count("tcp/header/reserved") == count


# What breaks these rules, and no other one: the blame is the one side's, if anybody's.
SOBER = {
    "iwarp-256-reads": (iwarp(REQUEST, ACCEPT, (256, 256)), set()),
    "iwarp-without-reads": (iwarp(REQUEST, ACCEPT, (0, 1)), {"rdma/request/ird", "rdma/transfer/read-limit"}),
    "iwarp-no-depths": (iwarp(REQUEST, ACCEPT), set()),
    "iwarp-rejects-for-itself": (iwarp(REQUEST, b"", rejects=True), set()),
    "iwarp-rejects": (iwarp(REQUEST, struct.pack("<HH", 0, 6), rejects=True), set()),
    "iwarp-rejects-in-3-bytes": (iwarp(REQUEST, bytes(3), rejects=True), {"rdma/reject/format"}),
    "cm-rejects-for-itself": (lambda c: Roce(c, rejected=0), set()),
    "cm-rejects": (lambda c: Roce(c, rejected=6), set()),
    "cm-rejects-by-no-status": (lambda c: Roce(c, rejected=99), {"rdma/reject/status"}),
    "srp": (srp, set()),
    "srp-port": (lambda c: srp(c, port=5555), set()),
    "srp-iwarp": (iwarp(LOGIN, LOGIN_RSP), set()),
    "srp-answer": (lambda c: srp(c, ACCEPT), {"srp/login/answer"}),
    "srp-iwarp-answer": (iwarp(LOGIN, ACCEPT), {"srp/login/answer"}),
    "srp-beside-nvme": (lambda c: (srp(c, ACCEPT), roce_admin(c), Roce(c, retries=3)),
                        {"srp/login/answer", "rdma/request/rnr-retry"}),
    "queue-of-a-lost-association": (lambda c: io_queue_stays(c, 8000), {"fab/association/host-ends"}),
    "long-sgl-refused": (lambda c: refuses_long(c, 0x300001), {"base/command/fields"}),
    "overrun": (overrun, {"fab/queue/outstanding"}),
    "read-caught-before-an-answer": (lambda c: three_reads(c, between=0), set()),
    "reserved-fes-answered": (reserved_fes_answered, {"tcp/c2hdata/cccid", "tcp/termreq/fes-h2c"}),
    "no-capsule-data": (no_capsule_data, {"tcp/capsule/in-capsule-limit"}),
    "kick-start": (kick_start, {"tcp/header/flags-h2c"}),
}


@pytest.mark.parametrize("name", SOBER)
def test_a_capture_is_judged_soberly(name, tmp_path):
    craft, broken = SOBER[name]
    capture = Capture()
    craft(capture)
    path = capture.write(tmp_path / "crafted.pcap")
    assert {f["rule"] for f in check(path)[:-1]} - SHORTCUTS == broken
    for tool in "check", "stat":
        done = subprocess.run([NVMFSPEC, "pcap", tool, path], capture_output=True, text=True)
        assert "SRP" not in done.stderr
        assert ("1 connections on a port of NVMe are of another protocol\n" in done.stderr) == \
            ("srp" in name and name != "srp-port")
        assert tool == "check" or (", SRP " in done.stdout) == ("srp" in name)


OF_NAMES = {"fab/connect/nqn-form"}  # the other names are well-formed


def judged_alike(path, tmp_path, but=()):
    """Whether the same rules are broken, as often, when names, data and secrets are others."""
    out = tmp_path / "anonymous.pcapng"
    subprocess.run([NVMFSPEC, "pcap", "anonymize", path, "--to", out], check=True, capture_output=True)
    first, second = ([f["rule"] for f in check(p)[:-1]
                      if f["rule"] not in {*OF_NAMES, *but} and not f["rule"].startswith("tcp/tls/")]
                     for p in (path, out))
    return sorted(first) == sorted(second)


# What a NAK of RoCE says is not copied, nor how often a connect request would be repeated, nor logs
# whose names are not known.
REFUSALS = {"rdma/request/reliable", "rdma/request/rnr-retry", "fab/discovery/host-entries",
            "rdma/key/valid", "rdma/flow/host-receives", "rdma/flow/controller-receives",
            "rdma/teardown/error-ends-queue", "fab/discovery/secure-channel"}


# Nor are connections over TLS.
@pytest.mark.parametrize("rule", sorted(r for r in set(CRAFTED) - REFUSALS if not r.startswith("tcp/tls/")))
def test_an_anonymous_capture_is_judged_alike(rule, tmp_path):
    capture = Capture()
    CRAFTED[rule](capture)
    assert judged_alike(capture.write(tmp_path / "crafted.pcap"), tmp_path)


@pytest.mark.parametrize("capture", sorted((ROOT / "pcap/tests/captures").glob("*.pcap")), ids=lambda p: p.stem)
def test_an_anonymous_capture_of_the_kernel_is_judged_alike(capture, tmp_path):
    assert judged_alike(capture, tmp_path)


def test_replay_names_whose_connections_it_leaves_out():
    done = subprocess.run([NVMFSPEC, "pcap", "replay", "-a", "127.0.0.1", ROOT / "pcap/tests/captures/srp-rxe-6.12.pcap"],
                          capture_output=True, text=True)
    assert "2 connections of SRP are left out: -t srp\n" in done.stderr and done.returncode == 3


def conform(path, *args, codes):
    """Rules flagged in the capture of a run of the suite; who broke them."""
    done = subprocess.run([NVMFSPEC, "conform", "--brief", "--timeout-scale", "4", "--pcap", path, *args],
                          capture_output=True, text=True, timeout=240)
    assert done.returncode in codes, (path, done.returncode, done.stdout, done.stderr)
    return {f["rule"]: f["bound"] for f in check(path)[:-1]}


one_run = pytest.mark.xdist_group("suite-captured")  # made once, not by each worker


@pytest.fixture(scope="module")
def captured(tmp_path_factory):
    return tmp_path_factory.mktemp("suite")


@pytest.fixture(scope="module")
def suite(captured):
    """What the captures of the whole suite against a target without a fault are flagged for."""
    return {transport: conform(captured / f"{transport}.pcapng", "-t", transport, codes=(0,))
            for transport in ("tcp", "rdma")}


@pytest.fixture(scope="module")
def rulebook():
    out = subprocess.run([NVMFSPEC, "conform", "--rules", "--json", "-"], capture_output=True,
                         text=True, check=True).stdout
    return {rule["id"]: rule for rule in json.loads(out)["rules"]}


@pytest.fixture(scope="module")
def violated(rulebook):
    """Rules that the embedded target breaks when it is told to, while the suite's cases look for it."""
    own = {i for i, rule in rulebook.items() if rule["bound"] == "controller" and
           rule["capture"] and rule["cases"] and rule["violators"]}
    assert TWICE <= own
    return own - set(CRAFTED) | TWICE


@one_run
@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_the_suite_blames_only_its_own_host(suite, transport):
    assert set(suite[transport].values()) == {"host"}
    assert len(suite[transport]) >= 45


@one_run
@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_an_anonymous_capture_of_the_suite_is_judged_alike(suite, captured, transport, tmp_path):
    # Connections over TLS, which decide about these, are not copied.
    tls = ("fab/auth/concatenation", "fab/auth/sc-c", "fab/auth/message-fields", "fab/ready/order")
    assert suite[transport] and judged_alike(captured / f"{transport}.pcapng", tmp_path, tls)


@pytest.mark.parametrize("each", [4, 1])
def test_what_the_target_is_told_to_break_is_flagged(violated, each, tmp_path):
    """Each fourth rule, and all."""
    def missed(rule):
        transport = "rdma" if rule.startswith("rdma/") else "tcp"
        path = tmp_path / (rule.replace("/", "-") + ".pcapng")
        found = conform(path, "-t", transport, "--rule", rule, "--violate", rule,
                        codes=(0, 1)) # 0: lenient
        return None if found.get(rule) == "controller" else rule

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert [rule for rule in pool.map(missed, sorted(violated)[::each]) if rule] == []


@one_run
def test_every_rule_is_flagged_or_it_is_said_why_not(suite, rulebook, violated):
    unseen = {i for i, rule in rulebook.items() if not rule["capture"]}
    seen = {*suite["tcp"], *suite["rdma"], *violated, *CRAFTED}
    # Nine in twenty: much of the NVM Command Set is about what is stored. Handshakes of TLS are not looked into at all.
    inside = {i for i in rulebook if not i.startswith("tcp/tls/")}
    assert len(inside) > 600 and len(unseen & inside) <= len(inside) * 9 // 20
    assert all(rulebook[i]["unseen"] for i in unseen)
    assert seen | unseen == set(rulebook) and not seen & unseen
    print(f"{len(seen)} of {len(rulebook)} rules are flagged: {len(CRAFTED)} in crafted captures, "
          f"{len(violated)} in those of a target that breaks them; {len(unseen)} cannot be seen")
