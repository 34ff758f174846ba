# SPDX-License-Identifier: BSD-3-Clause
"""Targets that take the time that they may: no case is over before they are, and none says that they failed.

The run's own limits are a tenth of the usual ones, so that what is announced is far beyond them.
"""
import json
import struct
import subprocess
import time

import pytest

from test_hostile import CAP, CONNECT, CONNECT_INVALID, NQN, NVMFSPEC, PROPERTY_GET, PROPERTY_SET, Spoilt, Target

DISCOVERY = b"nqn.2014-08.org.nvmexpress.discovery"
CSTS = 0x1c


def conform(*args, code=0):
    done = subprocess.run([NVMFSPEC, "conform", "--json", "-", *map(str, args)], capture_output=True, text=True,
                          timeout=120, check=False)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return {r["id"]: r for r in json.loads(done.stdout)["results"]}


def judge(behaviour, *args, nqn=NQN, code=0):
    target = Target(behaviour())
    try:
        return conform("-a", "127.0.0.1", "-s", target.port, "-n", nqn.decode(), "--timeout-scale", 0.1, "--strict",
                       "--allow-write", 1, *args, code=code)
    finally:
        target.listener.close()


def is_fabrics(sqe, kind):
    return sqe[0] == 0x7f and sqe[4] == kind


class ReadyLate(Spoilt):
    """CSTS follows CC after a while, within CAP.TO."""
    cap, takes = CAP | 255 << 24, 0.3

    def serve(self, queue, sqe, data):
        controller = queue.controller
        if is_fabrics(sqe, PROPERTY_SET):
            controller.before, controller.since = controller.cc & 1, time.monotonic()
        if not is_fabrics(sqe, PROPERTY_GET) or struct.unpack_from("<I", sqe, 44)[0] != CSTS:
            return False
        late = time.monotonic() - getattr(controller, "since", 0) < self.takes
        queue.respond(struct.unpack_from("<H", sqe, 2)[0], 0, controller.before if late else controller.cc & 1)
        return True


class AnswersWhenReady(Spoilt):
    """The response to Property Set comes when all that it asks for is done."""
    cap = CAP | 255 << 24

    def serve(self, queue, sqe, data):
        if is_fabrics(sqe, PROPERTY_SET):
            time.sleep(0.5)


class SaysMoreInCrto(ReadyLate):
    """CAP.TO has no more bits: what it really takes is in CRTO.CRWMT."""
    cap, properties = CAP & ~(255 << 24) | 1 << 24, {0x68: 60}


class NeverReady(Spoilt):
    cap, ready = CAP & ~(255 << 24) | 8 << 24, 0


@pytest.mark.parametrize("behaviour", [ReadyLate, SaysMoreInCrto])
def test_what_a_controller_announces_is_not_the_time_of_the_case(behaviour):
    """20 times 0.3 s in a case of 3 s."""
    assert judge(behaviour, "fab/ready/ten-times")["fab/ready/ten-times"]["verdict"] == "pass"


def test_property_set_may_be_answered_when_it_is_done():
    case = "base/identify/queue-entry-sizes"
    assert judge(AnswersWhenReady, case)[case]["verdict"] == "pass"


def test_what_is_never_ready_is_found():
    found = judge(NeverReady, "base/identify/queue-entry-sizes", code=1)
    assert found["probe/controller"]["verdict"] == "fail"


class RefusesKato(Spoilt):
    """A discovery controller without persistent connections."""

    def serve(self, queue, sqe, data):
        refuses = is_fabrics(sqe, CONNECT) and data[256:].startswith(DISCOVERY) and struct.unpack_from("<I", sqe, 48)[0]
        if refuses:
            queue.respond(struct.unpack_from("<H", sqe, 2)[0], CONNECT_INVALID, 48)
        return bool(refuses)


def test_no_kato_where_it_has_to_be_refused():
    case = "base/identify/queue-entry-sizes"
    assert judge(RefusesKato, case, nqn=DISCOVERY)[case]["verdict"] == "pass"


class OneR2tAtATime(Spoilt):
    """Has room for the data of one command."""

    def fetch(self, queue, cid, size):
        queue.waiting = [*getattr(queue, "waiting", ()), *super().fetch(queue, cid, size)]

    def complete(self, queue, cqe):
        super().complete(queue, cqe)
        if getattr(queue, "waiting", ()):
            sqe, *queue.waiting = queue.waiting
            queue.command(*sqe)


def test_one_r2t_at_a_time():
    case = "tcp/capsule/response-cid"
    assert judge(OneR2tAtATime, case)[case]["verdict"] == "pass"


class ClosesLate(Spoilt):
    """After H2CTermReq, before the host gives up (T1.0 3.5)."""

    def fault(self, queue):
        time.sleep(1)


def test_the_end_after_h2ctermreq_may_take_its_time():
    cases = "tcp/termreq/h2ctermreq-24", "tcp/termreq/h2ctermreq-fes"
    found = judge(ClosesLate, *cases)
    assert [found[case]["verdict"] for case in cases] == ["pass", "pass"], found


# --- busy -----------------------------------------------------------------------------------------

@pytest.mark.parametrize("transport", ["tcp", "rdma"])
@pytest.mark.parametrize("jobs, controllers", [(16, 3), (1, 1)])
def test_how_many_controllers_there_are_is_no_question_of_right(transport, jobs, controllers):
    found = conform("-t", transport, "--limit", f"controllers={controllers}", "-j", jobs, "--strict",
                    "fab/connect/cntlid", "fab/ready", "fab/reset", "fab/property")
    verdicts = [r["verdict"] for r in found.values()]
    assert verdicts.count("pass") > 10 and not {"fail", "error", "lenient"} & set(verdicts), found
    skipped = [r["note"] for r in found.values() if r["verdict"] == "skip"]
    assert controllers > 1 or any("the target was busy" in note for note in skipped)
