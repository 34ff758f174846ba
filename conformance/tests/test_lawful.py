# SPDX-License-Identifier: BSD-3-Clause
"""Peers that are right and unlike the reference target and host: the suite accuses none of them.

Some are written apart from it (test_hostile.py); others are the reference target and host that overlook
what nobody has to notice, or end the connection where that is as good as what they do by themselves.
"""
import concurrent.futures
import contextlib
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time

import pytest

from test_hostile import (ABORT_REQUESTED, AER, BLOCKS, C2H, CONNECT, CONNECT_INVALID, GET_FEATURES, GET_LOG, H2C_DATA,
                          IDENTIFY, INTERNAL_ERROR, KATO, NVMFSPEC, PROPERTY_GET, PROPERTY_SET, READ, SET_FEATURES, KeepsControllers, Spoilt,
                          Target, judge)
from test_hostile_stream import NQN as SOUND
from test_hostile_stream import Proxy

TERM, H2C_TERM, WRITE, DISCONNECT, KEEP_ALIVE, QUEUES, AEC = 3, 2, 1, 8, 0x18, 7, 0x0b
INVALID_NAMESPACE, INVALID_LOG, SGL_LENGTH, BUSY, AER_LIMIT, SEQUENCE, RESTART = 0x0b, 0x109, 0x0f, 0x181, 0x105, 0x0c, 0x190
NOT_CHANGEABLE, CONFLICT, COPY, COPY_SIZE = 0x10e, 0x83, 0x19, 0x183


@pytest.fixture
def target(request):
    target = Target(request.param())
    yield target
    target.listener.close()


def terminate(queue, pdu, fes, fei=0):
    """C2HTermReq with the header of what was received."""
    copy = pdu[:pdu[2]]
    queue.peer.sendall(struct.pack("<BBBBIHI10x", TERM, 0, 24, 0, 24 + len(copy), fes, fei) + copy)
    raise EOFError


# --- Fabrics and Base -----------------------------------------------------------------------------

class LargerEntries(Spoilt):
    """The maximum sizes of queue entries may be larger than the required ones."""
    entry_sizes = 0x76, 0x54


class FromZero(Spoilt):
    """FFF0h and above are reserved, 0 is not (Base 2.2 figure 27)."""
    first = 0


class Zoned(Spoilt):
    """Has the Changed Zone List (BFh), and refuses log pages that it does not have."""
    logs = 1, 2, 3, 0x70, 0xbf

    def serve(self, queue, sqe, data):
        unknown = sqe[0] == GET_LOG and not queue.qid and sqe[40] not in self.logs
        if unknown:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], INVALID_LOG)
        return unknown


class CompletesInAnyOrder(Spoilt):
    """SQHD is of when the completion was made; they are sent in another order (Base 2.2 figure 97)."""
    def complete(self, queue, cqe):
        queue.held = [*getattr(queue, "held", ()), cqe]
        if len(queue.held) > 3 or not queue.is_readable(0.02):
            for held in reversed(queue.held):
                super().complete(queue, held)
            queue.held = []


class FreesSlotsLater(Spoilt):
    """A capsule is removed from the queue, which moves its head, once its command has been answered (3.3.2.6)."""
    def complete(self, queue, cqe):
        if hasattr(queue, "answers"):  # what answers Connect counts it
            cqe = cqe[:8] + struct.pack("<H", (struct.unpack_from("<H", cqe, 8)[0] - 1) % queue.entries) + cqe[10:]
        queue.answers = True
        super().complete(queue, cqe)


class FlowOfAdmin(Spoilt):
    """Can do without flow control on I/O queues where the admin queue's Connect asked for that, too."""
    def goes_without(self, queue, asked):
        if queue.qid == 0:
            queue.controller.asked = asked
        return asked and queue.controller.asked


class EndsLater(Spoilt):
    """A second goes by from the loss of the admin queue to the end of its controller's other queues:
    nobody says how soon that is (Base 2.2 3.1.2)."""
    def forget(self, connection):
        if not connection.controller or connection.qid:
            return
        controllers, known = connection.target.controllers, connection.controller

        def end():
            controllers.pop(known.id, None)
            for peer in getattr(known, "peers", ()):
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_RDWR)
        threading.Timer(1, end).start()

    def serve(self, queue, sqe, data):
        if sqe[0] == 0x7f and sqe[4] == CONNECT and struct.unpack_from("<H", sqe, 42)[0]:
            known = queue.target.controllers.get(struct.unpack_from("<H", data, 16)[0])
            if known:
                known.peers = [*getattr(known, "peers", ()), queue.peer]
        return False


class LeavesItToKeepAlive(Spoilt):
    """Two seconds of silence end the other queues of a controller whose admin queue is gone."""
    kato = 2000

    def forget(self, connection):
        if connection.controller and not connection.qid:
            connection.controller.lost = True

    def serve(self, queue, sqe, data):
        if queue.qid:
            queue.served = time.monotonic()
            threading.Timer(2, self.look, [queue, queue.served]).start()
        return False

    def look(self, queue, served):
        if served == queue.served and hasattr(queue.controller, "lost"):
            with contextlib.suppress(OSError):
                queue.peer.shutdown(socket.SHUT_RDWR)


class KeepsTime(Spoilt):
    """Keep Alive, from each command on that it sees on the admin queue; to connect takes it half a second."""
    thinks, runs = 0.5, 1

    def serve(self, queue, sqe, data):
        if queue.qid or not queue.controller:
            return False
        if sqe[0] == SET_FEATURES and sqe[40] == KATO:
            self.kato, queue.keeps = struct.unpack_from("<I", sqe, 44)[0], True
        if hasattr(queue, "timer"):
            queue.timer.cancel()
        if hasattr(queue, "keeps"):
            queue.timer = threading.Timer(self.kato / 1000 * self.runs, queue.expire)
            queue.timer.daemon = True
            queue.timer.start()
        if sqe[0] == KEEP_ALIVE:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0])
        return sqe[0] == KEEP_ALIVE


class KeepsHalfTheTime(KeepsTime):
    """Which is wrong: its clock is twice as fast."""
    runs = 0.5


class ReadyLater(Spoilt):
    """CSTS.RDY follows after a second, and CAP.TO tells the host to wait for half of that (Base 2.2 3.1.4.1)."""
    cap = Spoilt.cap & ~(0xff << 24) | 1 << 24

    def serve(self, queue, sqe, data):
        if queue.qid or not queue.controller or sqe[0] != 0x7f:
            return False
        known, offset, now = queue.controller, struct.unpack_from("<I", sqe, 44)[0], time.monotonic()
        if (sqe[4], offset) == (PROPERTY_SET, 0x14):
            known.was, known.until = known.cc & 1, now + 1
        holds = (sqe[4], offset) == (PROPERTY_GET, 0x1c) and now < getattr(known, "until", 0)
        if holds:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], 0, known.was)
        return holds


class OfAnEarlierRevision(Spoilt):
    """Fabrics came with 1.2.1: no sentence forbids a controller to report 1.2."""
    vs = 0x10200


class EndsAfterReset(Spoilt):
    """A Controller Reset ends the association (Base 2.2 3.1.2): how soon nobody says."""
    def ends(self, controller, cc):
        return controller.cc & ~cc & 1

    def serve(self, queue, sqe, data):
        if not queue.qid and queue.controller and sqe[0] == 0x7f and sqe[4] == PROPERTY_SET and \
                self.ends(queue.controller, struct.unpack_from("<Q", sqe, 48)[0]):
            threading.Timer(1, queue.expire).start()
        return False


class EndsAfterShutdown(EndsAfterReset):
    """... and so does a shutdown, after which the host is given the time to disconnect (3.6.2)."""
    def ends(self, controller, cc):
        return cc >> 14 & 3


class EndsWithShutdown(EndsAfterShutdown):
    """... or at once (Base 2.2 3.1.2)."""
    def serve(self, queue, sqe, data):
        if not queue.qid and queue.controller and sqe[0] == 0x7f and sqe[4] == PROPERTY_SET and \
                self.ends(queue.controller, struct.unpack_from("<Q", sqe, 48)[0]):
            queue.respond(struct.unpack_from("<H", sqe, 2)[0])
            raise EOFError
        return False


class Disconnects(Spoilt):
    """Deletes I/O queues. After Disconnect nothing comes any more, whatever was outstanding."""
    ofcs = 1

    def serve(self, queue, sqe, data):
        if sqe[0] == 0x7f and sqe[4] == DISCONNECT and queue.qid:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0])
            self.after(queue)
        return False

    def after(self, queue):
        while queue.peer.recv(65536):
            pass
        raise EOFError

    def fetch(self, queue, cid, size):
        """A Write whose data is not there yet does not keep Disconnect waiting."""
        queue.r2t(cid, 0, size)
        pdu, data = queue.next()
        got = len(data)
        if pdu[0] != H2C_DATA:
            self.serve(queue, pdu[8:72], b"")
        while got < size:
            got += len(queue.next()[1])


class CompletesBeforeDisconnect(Disconnects):
    """Disconnect waits for a Write that waits for its data (Base 2.2 3.3.2.4)."""
    def fetch(self, queue, cid, size):
        for sqe, _ in Spoilt.fetch(self, queue, cid, size):
            queue.late = sqe

    def complete(self, queue, cqe):
        super().complete(queue, cqe)
        late, queue.late = getattr(queue, "late", None), None
        if late:
            self.serve(queue, late, b"")


class ClosesAfterDisconnect(Disconnects):
    def after(self, queue):
        raise EOFError


class ResetsAfterDisconnect(Disconnects):
    def after(self, queue):
        queue.peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        queue.peer.close()
        raise EOFError


class AnswersAfterDisconnect(Disconnects):
    """Which is wrong: the response to Disconnect is the last one (Base 2.2 6.4)."""
    def after(self, queue):
        queue.respond(self.waits)

    def fetch(self, queue, cid, size):
        self.waits = cid
        super().fetch(queue, cid, size)


class CannotDeleteNow(Spoilt):
    """Controller Busy, where a queue cannot be deleted (Base 2.2 6.4)."""
    ofcs = 1

    def serve(self, queue, sqe, data):
        mine = sqe[0] == 0x7f and sqe[4] == DISCONNECT and queue.qid
        if mine:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], BUSY)
        return mine


class EndsWhatItRefuses(Spoilt):
    """A Connect that fails is the end of its connection."""
    def serve(self, queue, sqe, data):
        if sqe[0] == 0x7f and sqe[4] == CONNECT:
            qid, sqsize = struct.unpack_from("<HH", sqe, 42)
            if qid > 128 or not sqsize:
                raise EOFError
        return False


class KnowsPsdt(Spoilt):
    """PSDT of Connect as revisions have it; another one is refused."""
    vs, psdt = 0x10300, (1,)

    def serve(self, queue, sqe, data):
        refused = sqe[0] == 0x7f and sqe[4] == CONNECT and sqe[1] >> 6 not in self.psdt
        if refused:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], CONNECT_INVALID)
        return refused


class KnowsPsdtOf20(KnowsPsdt):
    """Base 2.0 figure 80."""
    vs, psdt = 0x20000, (1, 0)


class KnowsPsdtOf21(KnowsPsdt):
    """Base 2.1 figure 95: 01b is reserved, and all hosts send it."""
    vs, psdt = 0x20100, (1, 0, 2)


class KnowsOldPsdt20(KnowsPsdt):
    """Which is wrong: hosts may clear it in 2.0."""
    vs = 0x20000


class KnowsOldPsdt21(KnowsPsdtOf20):
    """Which is wrong: 10b is what hosts should set in 2.1."""
    vs = 0x20100


class AllocatesWhenAsked(Spoilt):
    """I/O queues, by Number of Queues."""
    vs = 0x20100

    def serve(self, queue, sqe, data):
        if sqe[0] == SET_FEATURES and sqe[40] == QUEUES and not queue.qid:
            queue.controller.queues = True
        if sqe[0] != 0x7f or sqe[4] != CONNECT or not struct.unpack_from("<H", sqe, 42)[0]:
            return False
        known = queue.target.controllers.get(struct.unpack_from("<H", data, 16)[0])
        refused = not hasattr(known, "queues")
        if refused:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], CONNECT_INVALID)
        return refused


class OneHostid(Spoilt):
    """An I/O queue has the HOSTID of its admin queue: until 2.1 none may have 0 instead (Base 2.0 6.3)."""
    def serve(self, queue, sqe, data):
        refused = sqe[0] == 0x7f and sqe[4] == CONNECT and sqe[42] and not any(data[:16])
        if refused:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], CONNECT_INVALID, 1 << 16)
        return bool(refused)


class RefusesAnyOfThem(Spoilt):
    """Nothing orders requests for events: it is the first of them that is one too many (Base 2.2 3.4.1)."""
    def serve(self, queue, sqe, data):
        if sqe[0] != AER or queue.qid:
            return False
        queue.events.append(struct.unpack_from("<H", sqe, 2)[0])
        if len(queue.events) > 1: # AERL is 0
            queue.respond(queue.events.pop(0), AER_LIMIT)
        return True


class HasAWarning(Spoilt):
    """Critical warnings are there before its events are enabled, as they are by default (5.1.25.1.5)."""
    def serve(self, queue, sqe, data):
        if queue.qid or not queue.controller:
            return False
        controller, cid = queue.controller, struct.unpack_from("<H", sqe, 2)[0]
        controller.enabled = getattr(controller, "enabled", True)
        if sqe[0] == SET_FEATURES and sqe[40] == AEC:
            controller.enabled = bool(struct.unpack_from("<I", sqe, 44)[0] & 0xff)
        if sqe[0] == AER and controller.enabled:
            queue.respond(cid, 0, 2 << 16 | 1 << 8 | 1) # SMART, temperature
        return sqe[0] == AER and controller.enabled


class TakesTheResetFirst(Spoilt):
    """Requests for events are late for a reset that was sent after them, and aborted then (3.3.2.3)."""
    late = SEQUENCE

    def serve(self, queue, sqe, data):
        disabled = sqe[0] == 0x7f and sqe[4] == PROPERTY_SET and not sqe[48] & 1
        if disabled and not queue.qid:
            late, queue.events = queue.events, []
            queue.controller.cc = 0
            queue.respond(struct.unpack_from("<H", sqe, 2)[0])
            for cid in late:
                queue.respond(cid, self.late)
        return disabled and not queue.qid


class AbortsAtReset(TakesTheResetFirst):
    """Requests for events come back, which they should not in Base 2.0 (5.2)."""
    vs, late = 0x20000, ABORT_REQUESTED


class AbortsAtResetOf21(AbortsAtReset):
    """Which is wrong: they shall not in 2.1 (5.1.2)."""
    vs = 0x20100


class SilentAfterReset(Spoilt):
    """What is sent on a queue that a reset has deleted is dropped."""
    def serve(self, queue, sqe, data):
        if sqe[0] == 0x7f and sqe[4] == CONNECT and struct.unpack_from("<H", sqe, 42)[0]:
            known = queue.target.controllers[struct.unpack_from("<H", data, 16)[0]]
            known.queues = [*getattr(known, "queues", ()), queue]
        elif queue.controller and not queue.qid:
            queue.controller.admin = queue
        if sqe[0] == 0x7f and sqe[4] == PROPERTY_SET and not sqe[48] & 1:
            queue.controller.queues = []
            queue.controller.qids.clear()
        return bool(queue.qid) and queue not in queue.controller.queues and self.drop(queue)

    def drop(self, queue):
        return True


class EndsWithAnyConnection(SilentAfterReset):
    """An association whose queues are not deleted one by one ends when one of them is lost (3.3.2.4)."""
    def forget(self, connection):
        if connection.qid and connection.controller and hasattr(connection.controller, "admin"):
            with contextlib.suppress(OSError):
                connection.controller.admin.peer.shutdown(socket.SHUT_RDWR)
        super().forget(connection)


class WorksOnAfterReset(SilentAfterReset):
    """Which is wrong: the queue is gone (3.7.2)."""
    def drop(self, queue):
        return False


class EventsAreFixed(Spoilt):
    """Asynchronous Event Configuration cannot be another one."""
    status = NOT_CHANGEABLE

    def serve(self, queue, sqe, data):
        mine = sqe[0] == SET_FEATURES and sqe[40] == AEC and not queue.qid
        if mine:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], self.status)
        return mine


class EventsBreakIt(EventsAreFixed):
    """Which is wrong: the status does not say that it is not supported."""
    status = INTERNAL_ERROR


class KeepsEvents(Spoilt):
    """Reports a namespace change from before a Controller Reset: up to Base 2.0 it is a power off that drops it (5.2)."""
    vs, changed = 0x20000, None

    def serve(self, queue, sqe, data):
        there, cid = self.changed and self.changed.exists(), struct.unpack_from("<H", sqe, 2)[0]
        if queue.qid or sqe[0] not in (IDENTIFY, GET_LOG, AER):
            return False
        if sqe[0] == IDENTIFY and sqe[40] == 1:
            page = bytearray(queue.identify(1, sqe))
            struct.pack_into("<I", page, 92, 1 << 8)  # OAES: Namespace Attribute Notices
            self.answer(queue, cid, bytes(page))
        elif sqe[0] == GET_LOG and sqe[40] == 4:
            self.answer(queue, cid, struct.pack("<I", bool(there)) + bytes(4092))
        elif sqe[0] == AER and there:
            queue.respond(cid, 0, 4 << 16 | 2)
        else:
            return False
        return True


class KeepsEventsOf21(KeepsEvents):
    """Which is wrong: a Controller Level Reset does (Base 2.1 5.1.2)."""
    vs = 0x20100


class CountsLater(Spoilt):
    """Host Read Commands, now and then: how soon nobody says."""
    reads = shown = 0
    since = 0.0

    def serve(self, queue, sqe, data):
        self.reads += bool(queue.qid and sqe[0] == READ)
        if queue.qid or sqe[0] != GET_LOG or sqe[40] != 2:
            return False
        if time.monotonic() > self.since + 0.4:
            self.since, self.shown = time.monotonic(), self.reads
        page = bytearray(512)
        struct.pack_into("<Q", page, 64, self.shown)
        self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], bytes(page))
        return True


class BusyLog(Spoilt):
    """A subsystem comes into the discovery log while it is read, and Discover Restart may tell of that."""
    restarts, comes, lpa = False, 3, 4  # LPA: there are offsets

    def log(self, there, genctr):
        entries = b"".join(bytes([3, 1, 2, 0]) + struct.pack("<HHHH20x32s192x256s256s256x", 1, 0xffff, 32, 0,
                           b"4420", b"nqn.2026-01.org.example:%d" % n, b"127.0.0.1") for n in range(1 + there))
        return struct.pack("<QQ1008x", genctr, 1 + there) + entries

    def serve(self, queue, sqe, data):
        if queue.qid or sqe[0] != GET_LOG or sqe[40] != 0x70:
            return False
        cid, (offset,) = struct.unpack_from("<H", sqe, 2)[0], struct.unpack_from("<Q", sqe, 48)
        size = (struct.unpack_from("<H", sqe, 42)[0] + 1) * 4
        queue.reads = getattr(queue, "reads", 0) + 1
        there = queue.reads >= self.comes
        if queue.reads == self.comes and self.restarts:
            queue.respond(cid, RESTART)
        else:
            self.answer(queue, cid, self.log(there, self.count(queue, there))[offset:offset + size].ljust(size, b"\0"))
        return True

    def count(self, queue, there):
        return int(there)


class RestartingLog(BusyLog):
    restarts = True


class LongLog(BusyLog):
    """200 entries."""
    comes, entries, numrec = 1 << 30, 200, 200

    def log(self, there, genctr):
        page = super().log(0, genctr)
        return struct.pack("<QQ", genctr, self.numrec) + page[16:1024] + page[1024:] * self.entries


class LogOf16(LongLog):
    """Which is wrong: 200 entries are announced."""
    entries = 16


class LogBeyondOffsets(LongLog):
    """Which is wrong: the last entry would be beyond each offset."""
    numrec = (1 << 54) + 2


class LogOfAPort(BusyLog):
    """Its entries are those of the port that they are asked for by: each subsystem numbers its ports itself."""
    entries = ((1, b"one"), (2, b"two"))

    def log(self, there, genctr):
        entries = b"".join(bytes([3, 1, 2, 0]) + struct.pack("<HHHH20x32s192x256s256s256x", port, 0xffff, 32, 0, b"4420",
                           b"nqn.2026-01.org.example:" + name, b"127.0.0.1") for port, name in self.entries)
        return struct.pack("<QQHB1005x", genctr, len(self.entries), 0, 2) + entries

    def serve(self, queue, sqe, data):
        supported = not queue.qid and sqe[0] == GET_LOG and sqe[40] == 0
        if supported:
            page = struct.pack("<I", 1 | 2 << 16).rjust(4 * 0x70 + 4, b"\0").ljust(1024, b"\0")
            self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], page)
        return supported or super().serve(queue, sqe, data)


class LogOfTwoPorts(LogOfAPort):
    """Which is wrong: they are of one subsystem."""
    entries = ((1, b"one"), (2, b"one"))


class CountsReadings(BusyLog):
    """Which is wrong: GENCTR moves while nothing changes."""
    comes = 1 << 30

    def count(self, queue, there):
        return queue.reads


class Copies(Spoilt):
    """Compares NLB, which is a block less, with the limits (NVM 1.0 3.2.2): 8 blocks a range, 16 a command."""
    most, total, more, beyond = 8, 16, 0, 0x80

    def serve(self, queue, sqe, data):
        cid, = struct.unpack_from("<H", sqe, 2)
        described, copied = sqe[0] == IDENTIFY and not queue.qid, sqe[0] == COPY and queue.qid
        if described:
            page = bytearray(queue.identify(sqe[40], sqe))
            if sqe[40] == 0:
                struct.pack_into("<HIB", page, 74, self.most, self.total, 3)
            elif sqe[40] == 1:
                page[521] = page[534] = 1  # ONCS and, format 0h, CDFS
            self.answer(queue, cid, page)
        elif copied:
            queue.respond(cid, self.copy(sqe, data))
        return bool(described or copied)

    def copy(self, sqe, data):
        ranges = [struct.unpack_from("<8xQH", data, 32 * i) for i in range(sqe[48] + 1)]
        nlb, (to,) = [last for _, last in ranges], struct.unpack_from("<Q", sqe, 40)
        if len(ranges) > 4 or max(nlb) > self.most + self.more or sum(nlb) > self.total:
            return COPY_SIZE
        return self.beyond if max(to, *(slba for slba, _ in ranges)) >= BLOCKS else 0


class CopiesMore(Copies):
    """... and takes a block more than it says, which is wrong."""
    more = 1


class CannotCopyThere(Copies):
    """LBA Out of Range is the status for that; Internal Error is one, too."""
    beyond = INTERNAL_ERROR


class RunsHalves(Spoilt):
    """Takes one half of a fused operation for a command of its own: Base 2.0 3.4.2 does not say what to do with it."""
    def serve(self, queue, sqe, data):
        described = sqe[0] == IDENTIFY and sqe[40] == 1 and not queue.qid
        if described:
            page = bytearray(queue.identify(1, sqe))
            page[522] = 1  # FUSES
            self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], page)
        return described


class RunsHalvesStill(RunsHalves):
    """... and 2.1 does."""
    vs = 0x20100


class HealthOfAll(Spoilt):
    """SMART / Health is the controller's, whatever the NSID: Base 2.0 5.16.1.3 only advises to refuse it."""


class HealthOfAllStill(HealthOfAll):
    """... and 2.2 wants that."""
    vs = 0x20200


class ListsBeyondOf21(Spoilt):
    """An empty list after NSID FFFFFFFEh, which Base 2.0 only advises to refuse, and 2.1 wants to be refused."""
    vs = 0x20100


class HeldByOthers(Spoilt):
    """Another host has a reservation: what a namespace's size is no Read tells."""
    status, ctratt = CONFLICT, 0

    def serve(self, queue, sqe, data):
        held, described = bool(queue.qid and sqe[0] == READ), sqe[0] == IDENTIFY and sqe[40] == 1
        if held:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], self.status)
        if described:
            page = bytearray(queue.identify(1, sqe))
            struct.pack_into("<I", page, 96, self.ctratt)
            self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], bytes(page))
        return held or described


class HasExtendedFormats(HeldByOthers):
    """... which the host has not enabled (NVM 1.2 4.1.3.6.1)."""
    status, ctratt = 0x0b, 1 << 15


class HasNoFormat(HeldByOthers):
    """Which is wrong: there are no extended ones."""
    status = 0x0b


class ZoneIsOffline(HeldByOthers):
    status = 0x1bb


class CountsByTheHour(Spoilt):
    """SMART / Health, brought up to date now and then: how soon nobody says."""
    def serve(self, queue, sqe, data):
        asked = not queue.qid and sqe[0] == GET_LOG and sqe[40] == 2
        if asked:
            page = bytearray(512)
            struct.pack_into("<Q8xQ8xQ8xQ", page, 32, 7, 9, 70, 90)
            self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], bytes(page))
        return asked


# --- Asymmetric Namespace Access ------------------------------------------------------------------

class Ana(Spoilt):
    """All namespaces in one group, whose log is as it was."""
    state, status = 1, 0  # optimized; what I/O commands end with

    def serve(self, queue, sqe, data):
        cid, = struct.unpack_from("<H", sqe, 2)
        if queue.qid and self.status and sqe[0] in (0, READ):
            queue.respond(cid, self.status)
        elif queue.qid or not queue.controller:
            return False
        elif sqe[0] == IDENTIFY and sqe[40] < 2:
            self.answer(queue, cid, self.describe(queue, sqe, bytearray(queue.identify(sqe[40], sqe))))
        elif sqe[0] == GET_LOG and sqe[40] == 0x0c:
            size = (struct.unpack_from("<H", sqe, 42)[0] + 1) * 4
            self.answer(queue, cid, self.log(queue, sqe)[:size].ljust(size, b"\0"))
        elif sqe[0] == GET_LOG and sqe[40] == 0:
            self.answer(queue, cid, struct.pack("<I", 3).rjust(4 * 0x0c + 4, b"\0").ljust(1024, b"\0"))
        else:
            return False
        return True

    def describe(self, queue, sqe, page):
        if sqe[40]:
            page[76] = 1 << 3  # CMIC; ANATT, ANACAP, ANAGRPMAX, NANAGRPID; NN, MNAN
            struct.pack_into("<BBII", page, 342, 10, 0x1f, 1 << 16, 1)
            struct.pack_into("<I20xI", page, 516, max(self.namespaces), len(self.namespaces))
        elif any(page):
            struct.pack_into("<I", page, 92, self.group(queue))
        return page

    def group(self, queue):
        return 1

    def log(self, queue, sqe):
        """By bytes or, with OT, from this descriptor on."""
        index = sqe[58] >> 7 and struct.unpack_from("<I", sqe, 48)[0]
        return self.whole(queue, self.state, 0)[32 * index - 16 if index else 0:]

    def members(self):
        return sorted(self.namespaces)

    def whole(self, queue, state, count):
        nsids = self.members()
        return struct.pack(f"<QH6xIIQB15x{len(nsids)}I", count, 1, self.group(queue), len(nsids), 0, state, *nsids)


class ManyNamespaces(Ana):
    """More than a list of namespaces has room for."""
    namespaces = {n: (BLOCKS, 0) for n in range(1, 1101)}


class MissesSome(ManyNamespaces):
    """... some of which are in no group, which is wrong."""
    def members(self):
        return super().members()[:1024]


class Transits(Ana):
    """A transition that does not show in the log (Base 2.2 8.1.1.8)."""
    status = 0x303


class TransitsFrom(Transits):
    state = 3  # inaccessible


class Closed(Ana):
    """Which is wrong: its state is optimized."""
    status = 0x302


class Open(Ana):
    """Which is wrong: its state is inaccessible."""
    state = 3


class ChangesState(Ana):
    """... as soon as its log has been read."""
    def log(self, queue, sqe):
        queue.reads = getattr(queue, "reads", 0) + 1
        log = self.whole(queue, 1 + (queue.reads > 1), int(queue.reads > 1))
        return log[16 if sqe[58] >> 7 and sqe[48] else 0:]


class IgnoresIndex(Ana):
    """Which is wrong: IOS says that there is one."""
    def log(self, queue, sqe):
        return self.whole(queue, 1, 0)


class MovesGroup(Ana):
    """Its group is another one for all controllers, with each that is connected."""
    def group(self, queue):
        return max(queue.target.controllers)


class GroupOfEach(Ana):
    """Which is wrong: one of its own for each controller."""
    def group(self, queue):
        return queue.controller.id


class FixedGroups(Ana):
    """ANACAP bit 6: groups do not change. Nobody has NSID 0, so that Identify of it is refused."""
    changed = None

    def serve(self, queue, sqe, data):
        nobody = not queue.qid and sqe[0] == IDENTIFY and not sqe[40] and not any(sqe[4:8])
        if nobody:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], INVALID_NAMESPACE)
        return nobody or super().serve(queue, sqe, data)

    def describe(self, queue, sqe, page):
        page = super().describe(queue, sqe, page)
        page[343] |= sqe[40] << 6
        return page


class MovesFixedGroup(FixedGroups):
    """Which is wrong."""
    def group(self, queue):
        return 1 + (self.changed is not None and self.changed.exists())


# --- reservations ---------------------------------------------------------------------------------

class Reserves(Spoilt):
    """One namespace, whose reservation is looked at when the data of a Write are there: until then it is not
    being processed, and nobody has to wait for it (Base 2.2 3.4.4, 8.1.22.7)."""
    unmatched, kept = CONFLICT, 0  # what Preempt of a key that nobody has ends with; PTPL

    def __init__(self):
        self.keys, self.holder, self.type, self.generation = {}, None, 0, 0

    def serve(self, queue, sqe, data):
        if sqe[0] == 0x7f and sqe[4] == CONNECT:
            queue.hostid = data[:16]
            return False
        if queue.controller:
            queue.controller.hostid = queue.hostid
        if not queue.qid:
            return sqe[0] == IDENTIFY and self.describe(queue, sqe)
        run = {WRITE: self.write, 0x0d: self.register, 0x0e: self.report, 0x11: self.acquire,
               0x15: self.release}.get(sqe[0])
        if run:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], run(queue, sqe, data))
        return bool(run)

    def describe(self, queue, sqe):
        page = bytearray(queue.identify(sqe[40], sqe))
        at, value = {0: (31, 0xff), 1: (520, 1 << 5)}.get(sqe[40], (0, page[0]))  # RESCAP, ONCS
        page[at] = value
        self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], page)
        return True

    def holds(self, host):
        return host in self.keys if self.type > 4 else host == self.holder

    def write(self, queue, sqe, data):
        if not data:
            self.fetch(queue, struct.unpack_from("<H", sqe, 2)[0], struct.unpack_from("<I", sqe, 32)[0])
        may = queue.hostid in self.keys if self.type > 2 else queue.hostid == self.holder
        return 0 if may or not self.type else CONFLICT

    def register(self, queue, sqe, data):
        host, action, (current, new) = queue.hostid, sqe[40] & 7, struct.unpack_from("<QQ", data)
        known = self.keys.get(host)
        if action > 2 or sqe[43] >> 6 == 1:
            return 2
        if known is None and action or known not in (None, new if action == 0 else known if sqe[40] & 8 else current):
            return CONFLICT
        self.generation += 1
        if action == 1:
            del self.keys[host]
            self.give_up({host})
        else:
            self.keys[host] = new
        return 0

    def give_up(self, hosts):
        """Who is no longer registered holds nothing."""
        if self.holder in hosts or not self.keys:
            self.holder, self.type = None, 0

    def acquire(self, queue, sqe, data):
        host, (current, other) = queue.hostid, struct.unpack_from("<QQ", data)
        if sqe[40] & 8 or sqe[40] & 7 > 2 or not 0 < sqe[41] < 7:
            return 2
        if self.keys.get(host) != current:
            return CONFLICT
        if sqe[40] & 7:
            return self.preempt(host, sqe[41], other)
        if self.type and (sqe[41] != self.type or not self.holds(host)):
            return CONFLICT
        self.holder, self.type = host, sqe[41]
        return 0

    def preempt(self, host, kind, key):
        gone = {each for each, known in self.keys.items() if known == key or not key and self.type > 4}
        if not gone:
            return self.unmatched
        takes = not key if self.type > 4 else self.holder in gone
        for each in gone - {host}:
            del self.keys[each]
        self.generation += 1
        if self.type and takes:
            self.holder, self.type = host, kind
        return 0

    def release(self, queue, sqe, data):
        if sqe[40] & 8 or sqe[40] & 7 > 1:
            return 2
        if self.keys.get(queue.hostid) != struct.unpack_from("<Q", data)[0]:
            return CONFLICT
        if sqe[40] & 7:
            self.generation += 1
            self.keys = {}
        elif not self.type or not self.holds(queue.hostid):
            return 0
        elif sqe[41] != self.type:
            return self.other_type()
        self.holder, self.type = None, 0
        return 0

    def other_type(self):
        return 2

    def entries(self, queue):
        return [(queue.controller.id, host) for host in self.keys]

    def report(self, queue, sqe, data):
        if not sqe[44] & 1:
            return 0x18
        entries = self.entries(queue)
        page = struct.pack("<IBHxxB54x", self.generation, self.type, len(entries), self.kept)
        for cntlid, host in entries:
            page += struct.pack("<HB5xQ16s32x", cntlid, self.holds(host), self.keys[host], host)
        cid, = struct.unpack_from("<H", sqe, 2)
        queue.data_out(cid, page[:4 * (struct.unpack_from("<I", sqe, 40)[0] + 1)])
        return 0


class PreemptsNobody(Reserves):
    """Where all registrants hold the reservation, Preempt of a key that none has does nothing: 2.0 8.19 only advises
    Reservation Conflict."""
    unmatched = 0


class PreemptsNobodyStill(PreemptsNobody):
    """... which 2.2 demands."""
    vs = 0x20200


class PreemptsAnybody(Reserves):
    """... does something, which is wrong."""
    def preempt(self, host, kind, key):
        return super().preempt(host, kind, key if key in self.keys.values() else 0)


class ReleasesNothing(Reserves):
    """Release of another type succeeds, and the reservation stays: 7.7 only advises Invalid Field."""
    def other_type(self):
        return 0


class ReleasesAnything(Reserves):
    """... or is gone, which is wrong."""
    def other_type(self):
        self.holder, self.type = None, 0
        return 0


class NotifiesLater(Reserves):
    """A notice is there 30 ms after what it is about: nobody says how soon."""
    def serve(self, queue, sqe, data):
        known = queue.controller
        disabled = sqe[0] == 0x7f and sqe[4] == PROPERTY_SET and sqe[44] == 0x14 and not sqe[48] & 1
        if known and (disabled or not hasattr(known, "notices")):
            known.notices, known.count = [], 0
        if sqe[0] != GET_LOG or queue.qid or sqe[40] != 0x80:
            return super().serve(queue, sqe, data)
        page = struct.pack("<QBBxxI48x", *known.notices.pop(0), len(known.notices), 1) if known.notices else bytes(64)
        self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], page)
        return True

    def release(self, queue, sqe, data):
        kind, status = self.type, super().release(queue, sqe, data)
        if kind > 2 and not self.type:
            threading.Timer(0.03, self.notify, [queue]).start()
        return status

    def notify(self, queue):
        for each in list(queue.target.controllers.values()):
            if getattr(each, "hostid", queue.hostid) != queue.hostid and each.hostid in self.keys:
                each.count += 1
                each.notices.append((each.count, 2))


class HasDomains(Reserves):
    """With several domains a feature is set for one namespace at a time (Base 2.2 4.4)."""
    def serve(self, queue, sqe, data):
        if queue.qid or sqe[0] not in (SET_FEATURES, GET_FEATURES) or sqe[40] != 0x83:
            return super().serve(queue, sqe, data)
        refused = sqe[4:8] == b"\xff" * 4
        if sqe[0] == SET_FEATURES and not refused:
            self.kept = sqe[44] & 1
        queue.respond(struct.unpack_from("<H", sqe, 2)[0], 2 if refused else 0, self.kept)
        return True

    def describe(self, queue, sqe):
        if sqe[40] != 1:
            return super().describe(queue, sqe)
        page = bytearray(queue.identify(1, sqe))
        page[97], page[520] = 4, 1 << 5  # CTRATT, ONCS
        self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], page)
        return True


class ReportsControllers(Reserves):
    """Up to 2.0 Reservation Report has an entry for each controller of a registrant (7.5)."""
    def entries(self, queue):
        return [(each.id, each.hostid) for each in list(queue.target.controllers.values())
                if getattr(each, "hostid", None) in self.keys]


# --- NVMe/TCP -------------------------------------------------------------------------------------

class Stores(Spoilt):
    """What is written can be read; Writes are fetched one at a time, and what comes before that is done waits."""
    part = 1 << 20

    def __init__(self):
        self.memory = bytearray(BLOCKS * 512)

    def serve(self, queue, sqe, data):
        if not queue.qid or sqe[0] not in (WRITE, READ):
            return False
        cid, (lba,) = struct.unpack_from("<H", sqe, 2)[0], struct.unpack_from("<Q", sqe, 40)
        at, size = lba * 512, (struct.unpack_from("<H", sqe, 48)[0] + 1) * 512
        if sqe[0] == READ:
            self.answer(queue, cid, bytes(self.memory[at:at + size]))
            return True
        waiting = []
        self.memory[at:at + size] = data or self.fetched(queue, cid, size, waiting)
        queue.respond(cid)
        for later, of in waiting:
            if not self.serve(queue, later, of):
                queue.command(later, of)
        return True

    def fetched(self, queue, cid, size, waiting):
        got = b""
        while len(got) < size:
            n = min(self.part, size - len(got))
            queue.r2t(cid, len(got), n)
            end, last = len(got) + n, False
            while not last:
                pdu, data = queue.next()
                if pdu[0] == 4:
                    waiting.append((pdu[8:72], data))
                    continue
                got += data
                last = bool(pdu[1] & 4)
                if pdu[0] != H2C_DATA or len(got) > end or last != (len(got) == end):
                    raise EOFError
        return got


class FindsConflicts(Stores):
    """Attributes that conflict, of Dataset Management and of Reads and Writes (NVM 1.2 figures 48, 58, 75)."""
    status = 0x180

    def serve(self, queue, sqe, data):
        if sqe[0] == IDENTIFY and sqe[40] == 1 and not queue.qid:
            page = bytearray(queue.identify(1, sqe))
            page[520] = 1 << 2  # ONCS: Dataset Management
            self.answer(queue, struct.unpack_from("<H", sqe, 2)[0], bytes(page))
            return True
        refused = queue.qid and (sqe[0] == 9 and self.refuses(data) or sqe[0] in (READ, WRITE) and sqe[52] == 0xf6)
        if refused:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], self.status)
        return bool(refused) or super().serve(queue, sqe, data)

    def refuses(self, ranges):
        return any(ranges[:4])


class FindsOthers(FindsConflicts):
    """Which is wrong: it refuses what is there for another reason."""
    status = 2


class RefusesBoth(FindsConflicts):
    """Which is wrong: without context attributes nothing of Dataset Management conflicts."""
    def refuses(self, ranges):
        return True


class AsksInParts(Stores):
    """R2TL is any number of dwords (T1.0 3.3.2.2)."""
    part = 300


class AnswersTermReq(Spoilt):
    """A reserved FES is one more fatal error: T1.0 3.5 wants only bad lengths ignored."""
    def check(self, queue, pdu):
        if pdu[0] == H2C_TERM and struct.unpack_from("<H", pdu, 8)[0] not in range(1, 7):
            terminate(queue, pdu, 1, 8)


class Interrupted(Spoilt):
    """Commands of an I/O queue fail for a second, and may then be submitted again (Base 2.2 4.2.3.1: 21h, DNR 0)."""
    status, lasts, until = 0x21, 1, None

    def serve(self, queue, sqe, data):
        if not queue.qid or sqe[0] != READ:
            return False
        self.until = self.until or time.monotonic() + self.lasts
        interrupted = time.monotonic() < self.until
        if interrupted:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], self.status)
        return interrupted


class InterruptedForGood(Interrupted):
    """... which is wrong with DNR."""
    status, lasts = 0x4021, 1000


class RefusesPadding(Spoilt):
    """PAD is as long as the alignment needs (T1.0 figures 24 and 26), and CPDA is 0."""
    def check(self, queue, pdu):
        if pdu[0] in (4, H2C_DATA) and pdu[3] > pdu[2]:
            terminate(queue, pdu, 1, 3)


class ConnectsByField(Spoilt):
    """Which is wrong: a Connect never fails with Invalid Field in Command (Base 2.2 6.3)."""
    def serve(self, queue, sqe, data):
        short = sqe[0] == 0x7f and sqe[4] == CONNECT and len(data) < 1024
        if short:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], 2)
        return short


class NoAlignment(Stores):
    """HPDA other than 0 is a parameter that it does not support."""
    def check(self, queue, pdu):
        if pdu[0] == 0 and pdu[10]:
            terminate(queue, pdu, 6, 10)


class ClosesAtAlignment(Spoilt):
    """... and closes, in place of saying so by C2HTermReq."""
    def check(self, queue, pdu):
        if pdu[0] == 0 and pdu[10]:
            raise EOFError


class RepeatsAlignment(Stores):
    """CPDA is what HPDA is. But no PDO is more than 128, which is wrong: capsules may ask for 136."""
    def greet(self, queue, icreq):
        queue.alignment = 4 * (icreq[10] + 1)
        return struct.pack("<BBBBIHBBI112x", 1, 0, 128, 0, 128, 0, icreq[10], 0, 131072)

    def check(self, queue, pdu):
        if pdu[0] in (4, H2C_DATA) and (pdu[3] % queue.alignment or pdu[3] > 128):
            terminate(queue, pdu, 1, 3)

    def serve(self, queue, sqe, data):
        if data or sqe[0] != 0x7f or sqe[4] != CONNECT:
            return super().serve(queue, sqe, data)
        fetched = b""
        queue.r2t(struct.unpack_from("<H", sqe, 2)[0], 0, 1024)
        while len(fetched) < 1024:
            fetched += queue.next()[1]
        queue.command(sqe, fetched)
        return True


class FewBytesOfData(Stores):
    """MAXH2CDATA below 4,096 is only advised against."""
    icresp = struct.pack("<BBBBIHBBI112x", 1, 0, 128, 0, 128, 0, 0, 0, 2048)


class FailsHuge(Spoilt):
    """A Write of 4 GiB is not as long as its blocks."""
    def serve(self, queue, sqe, data):
        huge = sqe[0] == WRITE and queue.qid and struct.unpack_from("<I", sqe, 32)[0] > 1 << 30
        if huge:
            self.refuse(queue, sqe)
        return huge

    def refuse(self, queue, sqe):
        queue.respond(struct.unpack_from("<H", sqe, 2)[0], SGL_LENGTH)


class EndsHuge(FailsHuge):
    def refuse(self, queue, sqe):
        terminate(queue, struct.pack("<BBBBI", 4, 0, 72, 0, 72) + sqe, 1, 44)


class ClosesHuge(FailsHuge):
    def refuse(self, queue, sqe):
        raise EOFError


class ForgetsHuge(FailsHuge):
    """Which is wrong: nobody ever hears of it again."""
    def refuse(self, queue, sqe):
        pass


class TakesNoEnd(Spoilt):
    """The host may still read: its half of the connection is open. No sentence wants it closed."""
    def ended(self, queue):
        time.sleep(5)


class ExactLengths(Spoilt):
    """SGLS bit 18 is 0, and so SGLs longer than the data are refused (Base 2.2 4.3.2)."""
    refusal = SGL_LENGTH

    def serve(self, queue, sqe, data):
        length, = struct.unpack_from("<I", sqe, 32)
        asked = 4096 if sqe[0] == 6 else (struct.unpack_from("<H", sqe, 48)[0] + 1) * 512
        is_long = length > asked and (sqe[0] == 6 and not queue.qid or sqe[0] == READ and queue.qid)
        if is_long:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], self.refusal)
        return is_long


class RefusesLonger(ExactLengths):
    """... by another status than 4.3.2 names."""
    refusal = 2


class DiesOfMany(Spoilt):
    """Which is wrong, whatever the host did: more than 100 commands beyond the size of a queue end it."""
    def fetch(self, queue, cid, size):
        for _ in range(100):
            queue.next()
        queue.target.listener.shutdown(socket.SHUT_RDWR)
        queue.target.listener.close()
        raise EOFError


class ReturnsAnOldOne(Spoilt):
    """C2HTermReq of the first command too many, when many more have been sent."""
    def fetch(self, queue, cid, size):
        pdus = [queue.next()[0] for _ in range(100)]
        terminate(queue, pdus[31], 2)


class ReturnsAnOldPiece(Spoilt):
    """... of the first of 600 pieces, which is wrong: but not because nobody had sent it."""
    def fetch(self, queue, cid, size):
        queue.r2t(cid, 0, size)
        first, _ = queue.next()
        for _ in range(599):
            queue.next()
        terminate(queue, first, 2)


PADDED = {"tcp/alignment/pad-more", "tcp/alignment/pad-more-h2cdata"}
HPDA = {"tcp/alignment/hpda", "tcp/alignment/hpda-minimal", "tcp/alignment/hpda-writes"}
LAST = {"fab/disconnect/last-response"}
SQHD = {"fab/queue/sqhd", "fab/queue/sqhd-overtaking"}
PSDT = {"fab/connect/psdt"}
HUGE = {"fab/sgl/huge"}
LONG = {"fab/sgl/long-admin", "fab/sgl/long-read"}
DISCOVERY = {"fab/discovery/genctr", "fab/discovery/log-offsets", "fab/discovery/log-header", "fab/discovery/traddr"}
CNTLIDS = {"fab/connect/admin", "fab/connect/io-cntlid", "fab/connect/cntlid-allocated", "base/identify/cntlid"}

PEERS = [
    (LargerEntries, {"base/identify/queue-entry-sizes"}, "pass"),
    (FromZero, CNTLIDS, "pass"),
    (Zoned, {"base/log/lid-unknown"}, "pass"),
    (Spoilt, {"base/log/lid-unknown"}, "fail"),
    (CompletesInAnyOrder, SQHD, "pass"),
    (FreesSlotsLater, SQHD, "pass"),
    (FlowOfAdmin, {"tcp/c2hdata/success-off", "fab/connect/sqfc-off"}, "pass"),
    (EndsLater, {"fab/association/admin-lost", "fab/connect/cntlid-gone"}, "pass"),
    (Spoilt, {"base/log/offset-beyond", "fab/discovery/log-beyond"}, "skip"),  # LPA has no bit for offsets
    (KeepsTime, {"fab/keep-alive/alive"}, "pass"),
    (KeepsHalfTheTime, {"fab/keep-alive/alive"}, "fail"),
    (ReadyLater, {"fab/ready/ready"}, "advice"),
    (OfAnEarlierRevision, {"fab/property/vs"}, "advice"),
    (EndsAfterReset, {"fab/keep-alive/disabled"}, "skip"),
    (EndsAfterShutdown, {"fab/keep-alive/after-shutdown"}, "skip"),
    (EndsWithShutdown, {"fab/keep-alive/after-shutdown", "fab/shutdown/normal", "fab/shutdown/abrupt",
                        "fab/shutdown/alone", "fab/shutdown/io-queue", "fab/shutdown/admin-queue"}, "skip"),
    (Disconnects, LAST, "pass"),
    (CompletesBeforeDisconnect, LAST, "pass"),
    (ClosesAfterDisconnect, LAST, "pass"),
    (ResetsAfterDisconnect, LAST, "pass"),
    (AnswersAfterDisconnect, LAST, "fail"),
    (CannotDeleteNow, {"fab/disconnect/again", "fab/disconnect/others"}, "skip"),
    (EndsWhatItRefuses, {"fab/connect/failure-reserved", "fab/connect/not-invalid-field",
                         "fab/connect/no-error-log"}, "pass"),
    (KnowsPsdt, PSDT, "advice"),
    (KnowsPsdtOf20, PSDT, "advice"),
    (KnowsPsdtOf21, PSDT, "pass"),
    (KnowsOldPsdt20, PSDT, "fail"),
    (KnowsOldPsdt21, PSDT, "fail"),
    (AllocatesWhenAsked, {"fab/connect/io-cntlid", "fab/connect/io-hostid-zero"}, "pass"),
    (OneHostid, {"fab/connect/io-hostid-zero"}, "pass"),
    (RefusesAnyOfThem, {"base/event/limit"}, "pass"),
    (HasAWarning, {"base/event/held", "fab/reset/aer-vanishes", "fab/reset/aer-room"}, "pass"),
    (TakesTheResetFirst, {"fab/reset/aer-vanishes", "fab/reset/aer-room"}, "pass"),
    (AbortsAtReset, {"fab/reset/aer-vanishes", "fab/reset/aer-room"}, "pass"),
    (AbortsAtResetOf21, {"fab/reset/aer-vanishes", "fab/reset/aer-room"}, "fail"),
    (SilentAfterReset, {"fab/reset/controller", "fab/reset/queues-gone"}, "pass"),
    (EndsWithAnyConnection, {"fab/reset/controller"}, "pass"),
    (WorksOnAfterReset, {"fab/reset/controller", "fab/reset/queues-gone"}, "fail"),
    (EventsAreFixed, {"base/feature/value-kept", "fab/reset/features"}, "skip"),
    (EventsBreakIt, {"base/feature/value-kept", "fab/reset/features"}, "fail"),
    (CountsLater, {"base/log/host-reads"}, "pass"),
    (BusyLog, DISCOVERY, "pass"),
    (RestartingLog, DISCOVERY, "pass"),
    (CountsReadings, {"fab/discovery/genctr"}, "fail"),
    (LongLog, {"fab/discovery/log-header"}, "skip"),
    (LogOfAPort, {"fab/discovery/port-local"}, "pass"),
    (LogOfTwoPorts, {"fab/discovery/port-local"}, "fail"),
    (LogOf16, {"fab/discovery/log-header"}, "fail"),
    (LogBeyondOffsets, {"fab/discovery/log-header"}, "fail"),
    (Copies, {"nvm/copy/limits", "nvm/copy/beyond"}, "pass"),
    (CopiesMore, {"nvm/copy/limits"}, "fail"),
    (RunsHalves, {"base/fused/alone"}, "advice"),
    (RunsHalvesStill, {"base/fused/alone"}, "fail"),
    (HealthOfAllStill, {"base/log/smart-namespace"}, "fail"),
    (ListsBeyondOf21, {"base/identify/list-beyond"}, "fail"),
    (HeldByOthers, {"base/identify/capacity"}, "skip"),
    (HasExtendedFormats, {"base/identify/capacity"}, "skip"),
    (HasNoFormat, {"base/identify/capacity"}, "fail"),
    (ZoneIsOffline, {"base/identify/capacity"}, "skip"),
    (CountsByTheHour, {"base/log/data-units", "base/log/data-units-written"}, "skip"),
    (ManyNamespaces, {"base/ana/members"}, "pass"),
    (MissesSome, {"base/ana/members"}, "fail"),
    (Ana, {"base/ana/accessible", "base/ana/same-group", "base/ana/index"}, "pass"),
    (Transits, {"base/ana/accessible"}, "skip"),
    (Closed, {"base/ana/accessible"}, "fail"),
    (TransitsFrom, {"base/ana/inaccessible"}, "skip"),
    (Open, {"base/ana/inaccessible"}, "fail"),
    (ChangesState, {"base/ana/index"}, "skip"),
    (IgnoresIndex, {"base/ana/index"}, "fail"),
    (MovesGroup, {"base/ana/same-group"}, "skip"),
    (GroupOfEach, {"base/ana/same-group"}, "fail"),
    (Reserves, {"base/reservation/preempt-abort", "base/reservation/preempt-all"}, "pass"),
    (NotifiesLater, {"base/reservation/log-order", "base/reservation/log-reset"}, "pass"),
    (HasDomains, {"base/reservation/persistence-feature"}, "pass"),
    (ReportsControllers, {"base/reservation/host", "base/reservation/report"}, "pass"),
    (Stores, {"tcp/r2t/ttag-unique", "tcp/h2cdata/interleaved", "tcp/h2cdata/ttag-stale", "fab/queue/room"}, "skip"),
    (FindsConflicts, {"nvm/hints/dsm", "nvm/hints/read-write"}, "pass"),
    (FindsOthers, {"nvm/hints/dsm", "nvm/hints/read-write"}, "fail"),
    (RefusesBoth, {"nvm/hints/dsm"}, "fail"),
    (AsksInParts, {"tcp/h2cdata/pieces", "tcp/capsule/small-write-through-r2t"}, "pass"),
    (AnswersTermReq, {"tcp/termreq/h2ctermreq-fes"}, "pass"),
    (RefusesPadding, PADDED, "pass"),
    (RefusesPadding, {"tcp/digest/pad-not-summed"}, "skip"),
    (NoAlignment, HPDA, "pass"),
    (RepeatsAlignment, HPDA, "pass"),
    (RepeatsAlignment, {"tcp/capsule/connect-aligned"}, "fail"),
    (Stores, {"tcp/r2t/asked", "tcp/r2t/limit"}, "pass"),  # one TTAG for all R2Ts
    (Spoilt, HUGE, "pass"),
    (Spoilt, LONG, "pass"),
    (Interrupted, {"nvm/read/last-block"}, "pass"),
    (InterruptedForGood, {"nvm/read/last-block"}, "fail"),
    (ExactLengths, LONG, "skip"),
    (RefusesLonger, LONG, "fail"),
    (FailsHuge, HUGE, "pass"),
    (EndsHuge, HUGE, "pass"),
    (ClosesHuge, HUGE, "pass"),
    (ForgetsHuge, HUGE, "fail"),
    (TakesNoEnd, {"tcp/termreq/half-close"}, "info"),
    (ReturnsAnOldOne, {"fab/queue/overrun"}, "info"),
]


@pytest.mark.parametrize("target, cases, verdict", PEERS, indirect=["target"],
                         ids=[f"{peer.__name__}-{sorted(cases)[0]}" for peer, cases, _ in PEERS])
def test_another_target(target, cases, verdict):
    judged = judge(target, "--strict", "--allow-write", "1", *cases)
    assert cases <= judged.get(verdict, set()), judged
    assert verdict == "fail" or "fail" not in judged, judged


@pytest.mark.parametrize("target, verdict", [(KeepsEvents, "advice"), (KeepsEventsOf21, "fail")], indirect=["target"])
def test_what_drops_an_event_depends_on_the_revision(target, verdict, tmp_path):
    target.spoilt.changed = tmp_path / "changed"
    case = "base/event/cleared-by-reset"
    assert judge(target, "--change", f"touch {target.spoilt.changed} #", case) == {verdict: {case}}


@pytest.mark.parametrize("target, verdict", [(FixedGroups, "pass"), (MovesFixedGroup, "fail")], indirect=["target"])
def test_only_namespaces_that_exist_have_a_fixed_group(target, verdict, tmp_path):
    target.spoilt.changed = tmp_path / "changed"
    case = "base/ana/fixed-group"
    assert judge(target, "--change", f"touch {target.spoilt.changed} #", case) == {verdict: {case}}


@pytest.mark.parametrize("target", [ConnectsByField], indirect=True)
def test_a_connect_never_fails_by_invalid_field(target):
    judged = judge(target, "fab/connect/data-short")
    assert "noticed/fab/connect/not-invalid-field" in judged["fail"]


@pytest.mark.parametrize("target", [ClosesAtAlignment], indirect=True)
def test_a_parameter_that_is_not_supported_may_be_refused(target):
    """T1.0 3.1 names the PDU that says so; the end without it is the printed reaction met inexactly."""
    judged = judge(target, *HPDA)
    assert "tcp/alignment/hpda" in judged["lenient"] and "fail" not in judged


@pytest.mark.parametrize("target", [CannotCopyThere], indirect=True)
def test_another_error_of_a_copy_is_lenient(target):
    assert judge(target, "--allow-write", "1", "nvm/copy/beyond") == {"lenient": {"nvm/copy/beyond"}}


@pytest.mark.parametrize("target, verdict", [(LeavesItToKeepAlive, "lenient"), (KeepsControllers, "fail")],
                         indirect=["target"])
def test_an_association_without_its_admin_queue_may_end_by_keep_alive(target, verdict):
    lost = "fab/association/admin-lost"
    assert judge(target, lost) == {verdict: {lost}}


@pytest.mark.parametrize("target, verdict", [(PreemptsNobody, "lenient"), (PreemptsNobodyStill, "fail"),
                                             (PreemptsAnybody, "fail")], indirect=["target"])
def test_preempt_of_nobody_may_succeed(target, verdict):
    case = "base/reservation/preempt-one-of-all"
    assert case in judge(target, "--allow-write", "1", case)[verdict]


@pytest.mark.parametrize("target, verdict", [(Reserves, "pass"), (ReleasesNothing, "lenient"),
                                             (ReleasesAnything, "fail")], indirect=["target"])
def test_release_of_another_type_may_succeed_without_effect(target, verdict):
    case = "base/reservation/release-type"
    assert case in judge(target, "--allow-write", "1", case)[verdict]


@pytest.mark.parametrize("target", [HealthOfAll], indirect=True)
def test_the_health_of_a_namespace_may_be_the_controllers(target):
    case = "base/log/smart-namespace"
    assert judge(target, case) == {"lenient": {case}}


@pytest.mark.parametrize("target", [Spoilt], indirect=True)
def test_a_list_of_namespaces_beyond_all_may_be_empty(target):
    case = "base/identify/list-beyond"
    assert judge(target, case) == {"lenient": {case}}


@pytest.mark.parametrize("target", [FewBytesOfData], indirect=True)
def test_what_is_advised_against_is_no_failure(target):
    judged = judge(target, "--allow-write", "1", "tcp/r2t/asked")
    assert "tcp/r2t/asked" in judged["pass"] and "fail" not in judged
    assert judged["lenient"] == {"noticed/tcp/icresp/maxh2cdata-4096"}


# --- the reference target and host, which overlook or end what they need not ----------------------

def conform(*args):
    done = subprocess.run([NVMFSPEC, "conform", "--strict", "--timeout-scale", "4", "--json", "-", *args],
                          capture_output=True, text=True, timeout=140)
    assert done.returncode in (0, 1, 77), done.stderr
    return json.loads(done.stdout)["results"]


@pytest.fixture(scope="module")
def rulebook():
    out = subprocess.run([NVMFSPEC, "conform", "--rules", "--json", "-"], capture_output=True, text=True,
                         check=True).stdout
    return {rule["id"]: rule for rule in json.loads(out)["rules"]}


def transport_of(rule):
    return "rdma" if rule.startswith("rdma/") else "tcp"


# Who overlooks only this breaks another rule by it, or says nothing at all.
FOLLOWS = {"fab/connect/first", "rdma/capsule/length"}


def test_what_nobody_has_to_notice_fails_no_target(rulebook):
    """No reaction is printed: a target that goes on is as right as one that refuses."""
    rules = [i for i, rule in rulebook.items() if rule["bound"] == "host" and rule["cases"] and
             rule.get("reaction_basis") == "own reading" and i not in FOLLOWS]

    def failed(rule):
        return [(rule, r["id"]) for r in conform("-t", transport_of(rule), "--waive", rule, "--rule", rule)
                if r["verdict"] in ("fail", "error")]

    assert len(rules) > 30
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(failed, rules), []) == []


@pytest.mark.parametrize("rule", """
    tcp/icresp/maxh2cdata-4096 tcp/alignment/pdo-c2h tcp/digest/flags-c2h tcp/header/plen-c2h tcp/c2hdata/datal-dword
    rdma/accept/length rdma/accept/recfmt rdma/accept/crqsize""".split())
def test_what_nobody_has_to_notice_fails_no_host(rule):
    judged = {r["id"]: r["verdict"] for r in conform("--role", "host", "-t", transport_of(rule), "--waive", rule, rule)}
    assert judged[rule] in ("pass", "advice", "skip") and "fail" not in judged.values()


def pdus(then):
    """What a Proxy does with each whole PDU of the target: then(peer, pdu) returns what is sent."""
    left = {}

    def spoil(peer, data, at):
        data = left.pop(peer, b"") + data
        while len(data) >= 8 and len(data) >= (plen := struct.unpack_from("<I", data, 4)[0]):
            peer.sendall(then(peer, data[:plen]))
            data = data[plen:]
        left[peer] = data
    return spoil


def closes(peer, pdu):
    """... in place of C2HTermReq."""
    if pdu[0] == TERM:
        raise OSError
    return pdu


def resets(peer, pdu):
    if pdu[0] == TERM:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise OSError
    return pdu


def fails_otherwise(peer, pdu):
    """Internal Error in place of any other status that refuses a command."""
    if pdu[0] == 5 and (sf := struct.unpack_from("<H", pdu, 22)[0]) >> 1:
        pdu = pdu[:22] + struct.pack("<H", sf & 1 | 6 << 1) + pdu[24:]
    return pdu


@pytest.fixture(scope="module")
def sound():
    target = subprocess.Popen([NVMFSPEC, "target", "-s", "0", "--profile", "strict"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    yield int(re.search(r"listening on \S+:(\d+) ", target.stdout.readline()).group(1))
    target.terminate()
    target.communicate()


@pytest.mark.parametrize("how, topics", [(closes, ["tcp"]), (resets, ["tcp"]), (fails_otherwise, ["tcp", "fab"])])
def test_another_reaction_than_ours_fails_only_where_one_is_printed(how, topics, sound, rulebook):
    proxy = Proxy(sound, pdus(how))
    results = conform("-a", "127.0.0.1", "-s", str(proxy.port), "-n", SOUND, "--allow-write", "1", *topics)
    proxy.close()
    failed = {r["id"]: rulebook[r["rule"]] for r in results if r["verdict"] == "fail"}
    assert len(failed) > 20 # those where one is
    assert [i for i, rule in failed.items() if rule.get("reaction_basis") == "own reading"] == []
    assert "error" not in {r["verdict"] for r in results}


# Whatever happens to it, the target goes on; and what it has announced itself is so.
ROBUST = r"""(?x) .*-storm(-\w+)? | tcp/h2cdata/reset-midway | fab/sgl/huge | fab/property/offset-far |
    fab/shutdown/alone | fab/auth/(again|hang-up|host-gives-up|odd-lengths|too-early) | base/identify/odd-requests |
    rdma/(teardown|disconnect)/.* | rdma/transfer/host-writes | rdma/key/shared | rdma/sgl/(no-data|long-24-bits) |
    rdma/request/(33-bytes|ord|rnr-retry-0|cntlid-io.*|hrqsize-.*|qid-65534) | rdma/in-capsule/(odd-offset|unused)"""
ANNOUNCED = r"""(?x) base/identify/mdts | fab/connect/io-cntlid | fab/discovery/entry-(asqsz|cntlid) |
    fab/reset/aer-room | rdma/flow/few-receives | rdma/in-capsule/(admin-sent|after-command|most|write) |
    rdma/sgl/list-(admin-sent|fabrics)"""


def test_each_must_names_the_rule_that_decides():
    listed = json.loads(subprocess.run([NVMFSPEC, "conform", "--list", "--json", "-"], capture_output=True,
                                       text=True, check=True).stdout)["cases"]
    without = {case["id"] for case in listed if case["level"] == "must" and not case["rules"]}
    assert sorted(i for i in without if not re.fullmatch(ROBUST, i) and not re.fullmatch(ANNOUNCED, i)) == []


@pytest.mark.parametrize("target", [DiesOfMany], indirect=True)
def test_an_overrun_is_far_enough(target):
    judged = judge(target, "--allow-write", "1", "fab/queue/overrun")
    assert judged["fail"] == {"fab/queue/overrun"}, judged


def after_a_while(wait):
    """Responses without data, which leave others the time to do something."""
    before = {}

    def then(peer, pdu):
        if pdu[0] == 5 and before.get(peer) != C2H:
            time.sleep(wait)
        before[peer] = pdu[0]
        return pdu
    return then


def test_others_fill_the_persistent_event_log():
    """It is the subsystem's (Base 2.2 5.1.12.1.14): a command of 8 KiB shows what others have just recorded."""
    target = subprocess.Popen([NVMFSPEC, "target", "-s", "0", "--profile", "strict", "--limit", "max_transfer=8192"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    port = re.search(r"listening on \S+:(\d+) ", target.stdout.readline()).group(1)
    proxy = Proxy(int(port), pdus(after_a_while(0.05)))
    others = subprocess.Popen([NVMFSPEC, "conform", "-a", "127.0.0.1", "-s", port, "-n", SOUND, "--brief", "--repeat",
                               "1000000", "-j", "4", "fab/ready/ten-times", "fab/ready/ready"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        judged = conform("-a", "127.0.0.1", "-s", str(proxy.port), "-n", SOUND, "base/log/persistent-reset",
                         "base/log/persistent-timestamp", "base/log/persistent-subsystem")
        assert others.poll() is None
    finally:
        others.terminate()
        target.terminate()
        others.wait()
        target.communicate()
        proxy.close()
    assert [(r["id"], r["expected"], r["seen"]) for r in judged if r["verdict"] not in ("pass", "skip")] == []


# --- what other hosts do, and what takes its time --------------------------------------------------

@pytest.mark.parametrize("status", ["0/83h", "0/84h", "0/1dh", "0/82h"])
def test_the_state_of_a_namespace_is_no_fault(status):
    """Reserved by another host, being formatted or sanitized, not ready: commands that are right end with that."""
    results = conform("--timeout-scale", "1", "--fault", f"status={status} cmd=read,write", "nvm/read/*", "nvm/write/*",
                      "nvm/copy/*", "nvm/compare/*")
    assert not [r["id"] for r in results if r["verdict"] in ("fail", "error")]


@pytest.mark.parametrize("command, cases", [("io:09h", "nvm/dsm/*"), ("admin:80h", "base/format/erases"),
                                            ("io:08h", "nvm/write-zeroes/zeroes"),
                                            ("admin:0dh", "base/namespace/create")])
def test_some_commands_take_their_time(command, cases):
    results = conform("--timeout-scale", "1", "--fault", f"delay=3500ms cmd={command}", cases)
    assert not [r["id"] for r in results if r["verdict"] in ("fail", "error")]
