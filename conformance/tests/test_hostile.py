# SPDX-License-Identifier: BSD-3-Clause
"""The suite and the host against a target of its own, written apart from both, that is hostile.

Whatever it does: the end comes soon, says why, and is no crash.
"""
import contextlib
import itertools
import json
import os
import pathlib
import re
import resource
import select
import socket
import struct
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = pytest.mark.calm(0.1)  # the targets are in this process
NQN = b"nqn.2026-01.org.example:hostile"
DENIED = b"nqn.2026-01.org.example:denied"
BLOCK, BLOCKS = 512, 65536
CAP = 1 << 59 | 1 << 37 | 4 << 24 | 1 << 16 | 127
ICRESP, RESP, H2C_DATA, C2H, R2T = 1, 5, 6, 7, 9
LAST, SUCCESS, KATO = 4, 8, 0x0f
CONNECT, PROPERTY_GET, PROPERTY_SET = 1, 4, 0
IDENTIFY, GET_LOG, SET_FEATURES, GET_FEATURES, AER, ABORT = 6, 2, 9, 10, 12, 8
FLUSH, WRITE, READ = 0, 1, 2
CONNECT_INVALID, LBA_RANGE, INACCESSIBLE, SGL_SHORT = 0x182, 0x80, 0x302, 0x0f
INTERNAL_ERROR, ABORT_REQUESTED = 0x06, 0x07


class Target:
    """A minimal target. A mode is a method of Spoilt below that it hands its actions to."""

    def __init__(self, spoilt):
        self.spoilt, self.controllers, self.lock = spoilt, {}, threading.Lock()
        self.cntlids = itertools.count(spoilt.first)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(peer,), daemon=True).start()

    def serve(self, peer):
        connection = Connection(self, peer)
        try:
            connection.run()
        except (OSError, EOFError, struct.error, IndexError, AttributeError):
            pass # what a host may not send ends the connection
        finally:
            self.spoilt.forget(connection)
            peer.close()

    def new_controller(self):
        with self.lock:
            controller = type("Controller", (), {"cc": 0, "qids": set(), "shut": 0})()
            controller.id = next(self.cntlids)
            self.controllers[controller.id] = controller
        return controller


class Connection:
    def __init__(self, target, peer):
        self.target, self.peer, self.spoilt = target, peer, target.spoilt
        self.sqhd, self.entries, self.qid, self.controller = 0, 32, 0, None
        self.flow_control, self.events, self.alignment = True, [], 4
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def receive(self, n):
        data = b""
        while len(data) < n:
            piece = self.peer.recv(n - len(data))
            if not piece:
                self.spoilt.ended(self)
                raise EOFError
            data += piece
        return data

    def is_readable(self, seconds):
        return bool(select.select([self.peer], [], [], seconds)[0])

    def next(self):
        head = self.receive(8)
        plen, = struct.unpack_from("<I", head, 4)
        if not 8 < plen < 1 << 20:
            raise EOFError
        pdu = head + self.receive(plen - 8)
        self.spoilt.check(self, pdu)
        return pdu, pdu[head[3]:] if head[3] else b""

    def send(self, kind, flags, header, data=b""):
        hlen = 8 + len(header)
        pad = -hlen % self.alignment if data else 0
        pdo = hlen + pad if data else 0
        self.peer.sendall(struct.pack("<BBBBI", kind, flags, hlen, pdo, hlen + pad + len(data)) + header + bytes(pad) +
                          data)

    def respond(self, cid, status=0, dw0=0, dw1=0, sqhd=None):
        self.sqhd = (self.sqhd + 1) % self.entries if self.flow_control else 0
        sqhd = self.sqhd if sqhd is None else sqhd
        self.spoilt.complete(self, struct.pack("<IIHHHH", dw0, dw1, sqhd, 0, cid, status << 1))

    def data_out(self, cid, data, flags=LAST):
        self.send(C2H, flags, struct.pack("<HHII4x", cid, 0, 0, len(data)), data)

    def r2t(self, cid, offset, length):
        self.send(R2T, 0, struct.pack("<HHII4x", cid, 1, offset, length))

    def run(self):
        pdu, _ = self.next()
        time.sleep(self.spoilt.thinks)
        if pdu[0] != 0 or pdu[10] > 31:
            return
        self.peer.sendall(self.spoilt.greet(self, pdu))
        while True:
            pdu, data = self.next()
            if pdu[0] != 4:
                self.spoilt.fault(self)
                return
            if not self.spoilt.serve(self, pdu[8:72], data):
                self.command(pdu[8:72], data)

    def command(self, sqe, data):
        opcode, cid = sqe[0], struct.unpack_from("<H", sqe, 2)[0]
        if opcode == 0x7f:
            self.fabrics(sqe[4], sqe, cid, data)
        elif self.qid:
            self.io(opcode, sqe, cid, data)
        else:
            self.admin(opcode, sqe, cid)

    def fabrics(self, kind, sqe, cid, data):
        if kind == CONNECT and self.controller:
            self.respond(cid, self.spoilt.again)
            return
        if kind == CONNECT and data[512:].split(b"\0")[0] in self.spoilt.strangers:
            self.respond(cid, CONNECT_INVALID, 1 << 16 | 512)
            return
        if kind == CONNECT and data[256:].startswith(DENIED):
            self.respond(cid, CONNECT_INVALID, 1 << 16 | 512)
            return
        if kind == CONNECT:
            self.qid, sqsize = struct.unpack_from("<HH", sqe, 42)
            self.entries = sqsize + 1
            known = self.target.controllers.get(struct.unpack_from("<H", data, 16)[0])
            self.controller = known if self.qid else self.target.new_controller()
            if self.qid in self.controller.qids:
                self.respond(cid, CONNECT_INVALID)
                return
            self.controller.qids.add(self.qid)
            if self.spoilt.expires:
                threading.Timer(self.spoilt.expires, self.expire).start()
            self.flow_control = not self.spoilt.goes_without(self, sqe[46] & 4)
            self.respond(cid ^ self.spoilt.connected, 0, self.controller.id,
                         sqhd=None if self.flow_control else 0xffff)
            return
        offset, value = struct.unpack_from("<IQ", sqe, 44)
        if kind == PROPERTY_SET and offset != 0x14:
            self.respond(cid) # and changes nothing
            return
        if kind == PROPERTY_SET:
            wrong = value & 1 and not self.spoilt.cap >> 37 & 0xff & 1 << (value >> 4 & 7)
            if value >> 14 & 3:
                self.controller.shut = time.monotonic() + (self.spoilt.shutdown or 0)
            if self.spoilt.reset_ends and self.controller.cc & ~value & 1:
                raise EOFError
            self.controller.cc = self.controller.cc if wrong else value & 0xffffffff
            self.respond(cid, 0x4002 if wrong else 0)
            return
        if not self.spoilt.tells:
            return
        cc = self.controller.cc
        value = {0: self.spoilt.cap, 8: self.spoilt.vs, 0x14: cc, **self.spoilt.properties,
                 0x1c: (cc & self.spoilt.ready) | self.shutdown_status()}.get(offset, 0)
        self.respond(cid, 0, value & 0xffffffff, value >> 32)

    def shutdown_status(self):
        if not self.controller.cc >> 14 & 3 or self.spoilt.shutdown is None:
            return 0
        left = self.controller.shut - time.monotonic()
        return 8 if left <= 0 else 4 if left <= self.spoilt.shutdown - self.spoilt.begins else 0

    def expire(self):
        with contextlib.suppress(OSError): # the host was first
            self.peer.shutdown(socket.SHUT_RDWR)

    def admin(self, opcode, sqe, cid):
        dw10, dw11 = struct.unpack_from("<II", sqe, 40)
        if opcode == AER:
            self.events.append(cid)
            return
        if opcode == ABORT and self.spoilt.aborts:
            self.abort(cid, dw10 >> 16)
        elif opcode == IDENTIFY:
            self.spoilt.answer(self, cid, self.identify(dw10 & 255, sqe))
        elif opcode == GET_LOG:
            size = ((dw10 >> 16) + 1) * 4 + (dw11 & 0xffff) * 262144
            self.spoilt.answer(self, cid, bytes(min(size, 65536)))
        elif opcode == GET_FEATURES and dw10 & 255 == KATO:
            self.respond(cid, 0, self.spoilt.kato)
        elif opcode in (SET_FEATURES, GET_FEATURES):
            self.respond(cid, 0, 7 << 16 | 7)
        else:
            self.respond(cid, self.spoilt.unknown)

    def abort(self, cid, named):
        found = named in self.events
        self.respond(cid, 0, not found)
        if found:
            self.events.remove(named)
            self.respond(named, ABORT_REQUESTED)

    def identify(self, cns, sqe):
        page = bytearray(4096)
        if cns == 1:
            struct.pack_into("<HI", page, 78, self.controller.id, self.spoilt.vs)
            page[4:72] = b" " * 68
            page[77], page[111], page[512], page[513] = 5, 1, *self.spoilt.entry_sizes
            page[259] = 3 if self.spoilt.aborts else 0 # AERL
            page[261] = self.spoilt.lpa
            struct.pack_into("<H", page, 320, 10)
            struct.pack_into("<H", page, 386, self.spoilt.cqt)
            struct.pack_into("<HI", page, 514, 128, 1)
            page[536] = 1
            page[768:768 + len(NQN)] = NQN
            struct.pack_into("<II", page, 1792, self.spoilt.ioccsz, 1)
            page[1804] = self.spoilt.ofcs
        nsid, = struct.unpack_from("<I", sqe, 4)
        if cns == 0:
            blocks, metadata = self.spoilt.namespaces.get(nsid, (0, 0))
            struct.pack_into("<QQQ", page, 0, blocks, blocks, blocks)
            struct.pack_into("<HB", page, 128, metadata, self.spoilt.lbads)
        elif cns == 2:
            listed = [n for n in sorted(self.spoilt.namespaces) if n > nsid][:1024]
            struct.pack_into(f"<{len(listed)}I", page, 0, *listed)
        return bytes(page)

    def io(self, opcode, sqe, cid, data):
        blocks = struct.unpack_from("<H", sqe, 48)[0] + 1
        size, nsid = blocks * BLOCK, struct.unpack_from("<I", sqe, 4)[0]
        there, metadata = self.spoilt.namespaces.get(nsid, (0, 0))
        if opcode == READ and nsid in self.spoilt.inaccessible:
            self.respond(cid, INACCESSIBLE)
        elif opcode == READ and struct.unpack_from("<Q", sqe, 40)[0] + blocks > there:
            self.respond(cid, LBA_RANGE)
        elif opcode == READ and metadata:
            self.respond(cid, SGL_SHORT)
        elif opcode == READ:
            self.spoilt.answer(self, cid, bytes(size))
        elif opcode == WRITE and not data:
            self.spoilt.fetch(self, cid, size)
            self.respond(cid)
        else:
            self.respond(cid)


class Spoilt:
    """How the target behaves; sound here."""
    cap, ioccsz, lbads, thinks, ready, tells, connected = CAP, 4 + 512, 9, 0, 1, True, 0
    shutdown = begins = expires = cqt = reset_ends = lpa = 0
    aborts = False
    unknown = 0x4001
    again, vs, kato, strangers = 0x0c, 0x10400, 1000, ()
    properties = {}
    sqfc_off, namespaces, inaccessible = False, {1: (BLOCKS, 0)}, ()
    first, entry_sizes, ofcs = 1, (0x66, 0x44), 0  # the first CNTLID; SQES and CQES
    icresp = struct.pack("<BBBBIHBBI112x", ICRESP, 0, 128, 0, 128, 0, 0, 0, 131072)

    def answer(self, queue, cid, data):
        queue.data_out(cid, data)
        queue.respond(cid)

    def greet(self, queue, icreq):
        """The ICResp."""
        return self.icresp

    def check(self, queue, pdu):
        """Each PDU that came, before anything is done with it."""

    def serve(self, queue, sqe, data):
        """Whether this is the end of a command: what is below has not to serve it."""

    def complete(self, queue, cqe):
        queue.send(RESP, 0, cqe)

    def goes_without(self, queue, asked):
        """Flow control is disabled on this queue."""
        return self.sqfc_off and asked

    def fault(self, queue):
        """What came is the last that is looked at."""

    def ended(self, queue):
        """Nothing more comes from the host."""

    def forget(self, connection):
        """The admin queue's end is that of the controller."""
        if connection.controller and not connection.qid:
            connection.target.controllers.pop(connection.controller.id, None)

    def fetch(self, queue, cid, size):
        """The data of a Write. Returns the capsules that came between, as serve() takes them."""
        queue.r2t(cid, 0, size)
        got, between = 0, []
        while got < size:
            pdu, data = queue.next()
            if pdu[0] == H2C_DATA:
                got += len(data)
            else:
                between.append((pdu[8:72], data))
        return between


class NoData(Spoilt):
    def answer(self, queue, cid, data):
        queue.respond(cid)


class OtherCid(Spoilt):
    def answer(self, queue, cid, data):
        queue.data_out(cid ^ 0x100, data)
        queue.respond(cid)


class SameDataForEver(Spoilt):
    def answer(self, queue, cid, data):
        while True:
            queue.send(C2H, 0, struct.pack("<HHII4x", cid, 0, 0, len(data)), data)


class ResponsesForEver(Spoilt):
    def answer(self, queue, cid, data):
        while True:
            queue.respond(cid ^ 0x100)


class EmptyR2t(Spoilt):
    def fetch(self, queue, cid, size):
        queue.r2t(cid, 0, 0)


class HugeR2t(Spoilt):
    def fetch(self, queue, cid, size):
        queue.r2t(cid, 0, 0xfffffffc)


class HugeBlocks(Spoilt):
    lbads = 31


class EndlessBlocks(Spoilt):
    lbads = 255


class NoBlocks(Spoilt):
    lbads = 0


class HugeCapsules(Spoilt):
    ioccsz = 0xffffffff


class NoEntries(Spoilt):
    cap = CAP & ~0xffff


class AllCommandSets(Spoilt):
    """Takes no CC.CSS but 110b: right, too, where CAP.CSS has bit 6 only."""
    cap = CAP & ~(0xff << 37) | 1 << 43


class ManyCommandSets(Spoilt):
    cap = CAP | 1 << 43


class Misaligned(Spoilt):
    def answer(self, queue, cid, data):
        head = struct.pack("<BBBBIHHII4x", C2H, LAST, 24, 26, 26 + len(data), cid, 0, 0, len(data))
        queue.peer.sendall(head + bytes(2) + data)
        queue.respond(cid)


class NeverReady(Spoilt):
    ready = 0


class LongIcresp(Spoilt):
    """PLEN is one byte more than HLEN."""
    icresp = struct.pack("<BBBBIHBBI112x", ICRESP, 0, 128, 0, 129, 0, 0, 0, 131072) + b"\0"


class ConnectOfAnother(Spoilt):
    """CID of the response."""
    connected = 1


class NoProperties(Spoilt):
    tells = False


class KeepsControllers(Spoilt):
    """... and what was connected to them."""
    def forget(self, connection):
        pass


class WorksOn(Spoilt):
    """The end comes when nothing more does."""
    def fault(self, queue):
        queue.peer.settimeout(0.3)
        while True:
            pdu, data = queue.next()
            queue.command(pdu[8:72], data)


class NoResponses(Spoilt):
    """Where data can say it: right, if flow control can be disabled, also where it is not."""
    sqfc_off = True

    def answer(self, queue, cid, data):
        queue.data_out(cid, data, LAST | SUCCESS)
        queue.sqhd = (queue.sqhd + 1) % queue.entries


class NeverResponses(NoResponses):
    sqfc_off = False


class LastIsBest(Spoilt):
    """Metadata between the blocks, an ANA state, and one that can be used."""
    namespaces, inaccessible = {1: (BLOCKS, 8), 3: (BLOCKS, 0), 7: (BLOCKS, 0)}, (3,)


class NoneToRead(LastIsBest):
    inaccessible = 3, 7


class Unreadable(Spoilt):
    """Not for want of a path."""
    def answer(self, queue, cid, data):
        if queue.qid:
            queue.respond(cid, INTERNAL_ERROR)
        else:
            super().answer(queue, cid, data)


class Tiny(Spoilt):
    """8 blocks."""
    namespaces = {1: (8, 0)}


class TakesLeave(Spoilt):
    """Later than CAP.TO would have it (a third of it, in these tests), and sooner than 5 s."""
    shutdown = 1


class ShutsDownSlowly(Spoilt):
    """Later than any host waits: nobody says by when (3.6.1)."""
    shutdown = 3600


class BeginsToShutDown(Spoilt):
    """A moment later than CC.SHN is written: nobody says how soon (SPDK does it so)."""
    begins, shutdown = 0.2, 0.4


class AbortsFirst(Spoilt):
    """What is aborted has no effects any more, so the two responses may come in any order (Base 5.1.1)."""
    aborts = True


class IgnoresShutdown(Spoilt):
    shutdown = None


class ReservedNotZero(Spoilt):
    """INTMS returns something."""
    properties = {0x0c: 7}


class CleansUp(Spoilt):
    """Connections end late, but no later than the timer and CQT allow."""
    expires, cqt = 2.5, 10000


class CleansUpLate(CleansUp):
    cqt = 0


class EndsWithReset(Spoilt):
    """A Controller Level Reset ends the association (Base 3.1.2; 3.6.2 would keep it)."""
    reset_ends = True


class QidExists(Spoilt):
    """A second Connect names a queue that exists (figure 546)."""
    again = 0x101


class RaisesKato(CleansUp):
    """To its minimum (3.9.1)."""
    kato, cqt = 6000, 0


class Later(Spoilt):
    """What is reserved may be a field of its revision."""
    vs, cap = 0x20300, CAP | 1 << 62


class SetsReserved(Spoilt):
    cap = CAP | 1 << 62


class TakesUnusedNsid(Spoilt):
    """As revisions before 2.2 may (figure 92 of 2.2 refuses it)."""
    unknown = 0


class KnowsItsHosts(Spoilt):
    """By name: the ones of the suite's own making are none of them."""
    strangers = (b"nqn.2014-08.org.example:h", b"nqn.2014-08.org.example:".ljust(223, b"h"))


class RefusesLength(Spoilt):
    strangers = KnowsItsHosts.strangers[1:]


class Slow(Spoilt):
    thinks = 0.1


class SlowToRefuse(Spoilt):
    """It does not support HPDA other than 0, and needs a moment to say so."""
    def check(self, queue, pdu):
        if pdu[0] == 0 and pdu[10]:
            time.sleep(0.15)
            queue.peer.sendall(struct.pack("<BBBBIHI10x", 3, 0, 24, 0, 24 + len(pdu), 6, 10) + pdu)
            raise EOFError


MODES = [NoData, OtherCid, SameDataForEver, ResponsesForEver, EmptyR2t, HugeR2t, HugeBlocks,
         EndlessBlocks, NoBlocks, HugeCapsules, NoEntries]
ASAN = "asan" in NVMFSPEC


def run(*args):
    def bound():
        if not ASAN: # whose shadow is far larger
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    return subprocess.run([NVMFSPEC, *map(str, args)], capture_output=True, text=True, timeout=100,
                          errors="replace", preexec_fn=bound)


@pytest.fixture
def target(request):
    target = Target(request.param())
    yield target
    target.listener.close()


def where(target):
    return "-a", "127.0.0.1", "-s", target.port, "-n", NQN.decode()


@pytest.mark.parametrize("target", [Spoilt], indirect=True)
def test_sound_target_serves(target):
    for sub in ("identify", "list"):
        assert run("host", sub, *where(target)).returncode == 0
    assert run("host", "verify", *where(target), "--range", "1M", "--passes", 0).returncode == 2


# Each case costs a flood as much as the suite reads of it.
FLOODS = SameDataForEver, ResponsesForEver


@pytest.mark.slow
@pytest.mark.parametrize("target", MODES, indirect=True)
def test_suite_survives(target):
    cases = ["base/identify", "base/fused"] if isinstance(target.spoilt, FLOODS) else ["tcp/alignment", "base"]
    done = run("conform", *where(target), "--brief", "--allow-write", 1, "--timeout-scale", 0.3, *cases)
    assert done.returncode in (1, 3), done.stderr
    assert done.returncode == 1 or done.stderr.startswith("nvmfspec conform: ")


@pytest.mark.parametrize("sub", [["identify"], ["list"], ["read", "--file", "/dev/null"],
                                 ["write", "--blocks", 64, "--pattern", 1],
                                 ["perf", "--time", 1]], ids=lambda s: s[0])
@pytest.mark.parametrize("target", MODES, indirect=True)
def test_host_survives(target, sub):
    done = run("host", *sub, *where(target), "--timeout", 1000)
    assert done.returncode in (0, 1, 3), done.stderr
    assert done.returncode == 0 or done.stderr.startswith("nvmfspec host "), done.stderr
    assert done.stderr.count("\n") <= 1


@pytest.mark.parametrize("target", [NoData, OtherCid], indirect=True)
def test_probe_names_the_broken_rule(target):
    done = run("conform", "-a", "127.0.0.1", "-s", target.port, "tcp/setup")
    assert done.returncode == 3
    assert "before that it broke tcp/c2hdata/" in done.stderr


ICREQ, READY = "tcp/setup/icreq-twice", "fab/ready/ready"


@pytest.mark.parametrize("target, failed, passed", [
    (NoData, {"noticed/tcp/c2hdata/whole-transfer"}, {"probe/controller", ICREQ, READY}),
    (OtherCid, {"noticed/tcp/c2hdata/cccid"}, {"probe/controller", ICREQ, READY}),
    (LongIcresp, {"noticed/tcp/header/plen-c2h"}, {"probe/ics", ICREQ, READY}),
    (ConnectOfAnother, {"probe/connect", "noticed/tcp/capsule/response-cid"}, {ICREQ}),
    (NeverReady, {"probe/controller", READY}, {ICREQ}),
    (NoProperties, {"probe/properties", "probe/controller"}, {ICREQ}),
], indirect=["target"])
def test_what_the_probe_meets_is_judged(target, failed, passed):
    """There is a target: its cases run, as far as they come."""
    done = run("conform", *where(target), "--timeout-scale", 0.3, "--json", "-", ICREQ, READY)
    assert done.returncode == 1, done.stderr
    results = {r["id"]: r["verdict"] for r in json.loads(done.stdout)["results"]}
    assert failed <= {i for i, verdict in results.items() if verdict == "fail"}
    assert passed <= {i for i, verdict in results.items() if verdict == "pass"}


def judge(target, *args):
    """Cases by the verdicts that they get."""
    done = run("conform", *where(target), "--timeout-scale", 0.3, "--json", "-", *args)
    assert done.returncode in (0, 1, 77), done.stderr
    verdicts = {}
    for result in json.loads(done.stdout)["results"]:
        verdicts.setdefault(result["verdict"], set()).add(result["id"])
    return verdicts


GONE = "fab/connect/cntlid-gone"


@pytest.mark.parametrize("target, verdict", [(Spoilt, "pass"), (KeepsControllers, "fail")],
                         indirect=["target"])
def test_a_controller_is_gone_with_its_association(target, verdict):
    """A target that keeps it may refuse a QID, as in use: that proves nothing."""
    assert judge(target, GONE) == {verdict: {GONE}}


QUIET, BEHIND = "tcp/termreq/quiet-after-fault", "tcp/termreq/nothing-after-h2ctermreq"


@pytest.mark.parametrize("target, verdicts", [
    (Spoilt, {"pass": {QUIET, BEHIND}}),
    (WorksOn, {"lenient": {BEHIND}})], indirect=["target"])
def test_commands_behind_a_fault_are_not_answered(target, verdicts):
    judged = judge(target, QUIET, BEHIND)
    assert sum(map(len, judged.values())) == 2
    assert all(ids <= judged[verdict] for verdict, ids in verdicts.items())


SQHD, CAPSULES = "fab/queue/sqhd", "tcp/c2hdata/success-off"
OVERTAKING = "fab/queue/sqhd-overtaking"


@pytest.mark.parametrize("target, verdicts", [
    (NoResponses, {"pass": {SQHD, OVERTAKING, CAPSULES}}),
    (NeverResponses, {"pass": {SQHD, OVERTAKING}, "fail": {CAPSULES}})], indirect=["target"])
def test_success_is_for_who_can_do_without_sqhd(target, verdicts):
    assert judge(target, SQHD, CAPSULES) == verdicts


LARGE = [f"tcp/c2hdata/{name}" for name in ("whole", "last", "slow-reader")]
MDTS = "base/identify/mdts"


@pytest.mark.parametrize("target, options, verdicts", [
    (LastIsBest, (), {"pass"}),
    (NoneToRead, (), {"skip"}),
    (Tiny, (), {"pass", "skip"}),
    (Spoilt, ("--allow-write", f"1:{BLOCKS - 128}+128"), {"pass"})], indirect=["target"])
def test_what_the_namespace_holds_is_read(target, options, verdicts):
    judged = judge(target, *options, *LARGE, MDTS, "--exclude", "base/identify/mdts-*")
    assert judged.keys() == verdicts, judged


@pytest.mark.parametrize("target", [Unreadable], indirect=True)
def test_what_can_not_be_read_is_no_reason_to_skip(target):
    assert judge(target, "tcp/c2hdata/whole") == {"fail": {"tcp/c2hdata/whole"}}


SHUTDOWN, EXPIRY, SOONER = "fab/shutdown/abrupt", "fab/keep-alive/expiry", "fab/keep-alive/sooner"


@pytest.mark.parametrize("target, case, verdict", [
    (TakesLeave, SHUTDOWN, "pass"), (ShutsDownSlowly, SHUTDOWN, "advice"), (BeginsToShutDown, SHUTDOWN, "pass"),
    (IgnoresShutdown, SHUTDOWN, "fail"), (CleansUp, EXPIRY, "pass"), (CleansUpLate, EXPIRY, "fail"),
    (RaisesKato, SOONER, "pass"), (CleansUpLate, SOONER, "fail")],
    indirect=["target"])
def test_time_is_given_as_it_is_told(target, case, verdict):
    assert judge(target, case, "--exclude", "fab/keep-alive/expiry-alone") == {verdict: {case}}


RESETS = {"fab/reset/controller", "fab/reset/queues-gone", "fab/reset/aer-vanishes", "fab/ready/ready",
          "fab/ready/reset", "fab/ready/ten-times", "fab/shutdown/restart", "fab/shutdown/alone",
          "fab/keep-alive/disabled", "fab/connect/io-after-reset"}
ONCE = {"fab/connect/once-admin", "fab/connect/once-io", "fab/connect/another-queue"}
RSVD, LONGEST, DENIES = "fab/property/reserved", "fab/connect/hostnqn-longest", "fab/connect/host-denied"
UNUSED = "fab/nsid/unused"


@pytest.mark.parametrize("target, cases, verdict", [
    (EndsWithReset, RESETS, "skip"), (Spoilt, ONCE, "pass"), (QidExists, ONCE, "pass"),
    (Later, {RSVD}, "skip"), (SetsReserved, {RSVD}, "fail"), (Spoilt, {DENIES}, "pass"),
    (KnowsItsHosts, {LONGEST}, "skip"), (RefusesLength, {LONGEST}, "fail"), (Spoilt, {LONGEST}, "pass"),
    (TakesUnusedNsid, {UNUSED}, "advice"), (AbortsFirst, {"base/abort/which"}, "pass")], indirect=["target"])
def test_what_the_text_allows_is_no_failure(target, cases, verdict):
    assert judge(target, "--strict", "--denied-nqn", DENIED.decode(), *cases) == {verdict: cases}


PROPERTIES = {f"fab/property/{name}" for name in ("offset", "offset-far", "set-offset", "read-only",
                                                  "read-only-cap")}


@pytest.mark.parametrize("target, failed", [
    (Spoilt, set()), (ReservedNotZero, {"fab/property/offset"})], indirect=["target"])
def test_reserved_properties_may_read_as_zero_and_writes_may_be_ignored(target, failed):
    judged = judge(target, *PROPERTIES, "--exclude", "fab/property/offset-within")
    assert judged.get("fail", set()) == failed and judged["pass"] == PROPERTIES - failed


RECOMMENDED = {"fab/discovery/cap", "fab/discovery/listed", "fab/property/size"}


@pytest.mark.parametrize("target", [ManyCommandSets], indirect=True)
def test_what_is_recommended_is_no_failure(target):
    """CAP.CSS of discovery has bit 6, the log is empty, properties are read in any width."""
    judged = judge(target, *RECOMMENDED, "--exclude", "fab/property/size-reserved")
    own = {"fab/property/size"} # that a width is refused is our own reading
    assert judged == {"lenient": RECOMMENDED - own, "advice": own}


@pytest.mark.parametrize("target", [AllCommandSets], indirect=True)
def test_the_command_set_is_one_that_the_target_has(target):
    done = run("conform", *where(target), "--brief", "fab/property/cc", "fab/ready", "fab/shutdown",
               "fab/reset/features", "--exclude", "fab/shutdown/after")
    assert "Invalid Field" not in done.stdout
    assert run("host", "identify", *where(target)).returncode == 0


@pytest.mark.parametrize("target", [Misaligned], indirect=True)
def test_the_field_at_fault_is_told(target):
    done = run("conform", *where(target), "tcp/c2hdata")
    assert "fail     tcp/alignment/pdo-c2h" in done.stdout and " LAST pdo 26\n" in done.stdout


@pytest.mark.parametrize("says, told", [
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", '"HTTP/1.1 400 Bad Request"'),
    (b"\x15\x03\x03\0\2\2\x28", "15 03 03 00 02 02 28")])
def test_what_is_no_target_is_told(says, told):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def answer():
            with listener.accept()[0] as peer:
                peer.recv(128)
                peer.sendall(says)
        threading.Thread(target=answer, daemon=True).start()
        done = run("conform", "-a", "127.0.0.1", "-s", listener.getsockname()[1], "-n", NQN.decode())
    assert done.returncode == 3
    assert done.stderr.endswith(f"; this is not NVMe/TCP, it begins with {told}\n")


@pytest.mark.parametrize("target", [SlowToRefuse], indirect=True)
def test_a_slow_target_is_not_called_silent(target):
    done = run("conform", *where(target), "--brief", "--timeout-scale", 0.1, "tcp/alignment/hpda")
    assert done.returncode == 3
    assert "error    hpda" in done.stdout
    assert "the case timed out after 3 s" in done.stdout


@pytest.mark.parametrize("target", [Slow], indirect=True)
def test_a_storm_ends_before_its_time_is_over(target):
    """How many connections it makes is no part of the verdict."""
    done = run("conform", *where(target), "--timeout-scale", 0.1, "--json", "-", "tcp/setup/refusal-storm")
    assert done.returncode == 0
    assert re.match(r"\d+ of 200, in half of the case's time", json.loads(done.stdout)["results"][0]["note"])


@pytest.mark.parametrize("target, says", [(NoEntries, "CAP.MQES is 0"),
                                          (EndlessBlocks, "no usable block size")],
                         indirect=["target"])
def test_host_says_why(target, says):
    assert says in run("host", "read", *where(target), "--file", "/dev/null").stderr
