# SPDX-License-Identifier: BSD-3-Clause
"""What all tests of the programs share.

@pytest.mark.needs("tshark"): tests that lay our work beside another program's. Where it is missing they
are skipped; in ci/test, which has installed it, they fail.

NVMFSPEC_PATIENCE (1): how many times longer than a test says it waits for a program. Limits are there for
what hangs; ci/test sets it by the speed of the machine.

NVMFSPEC_RUNNING: a folder that has, while tests run, a file for each worker with the name of its test.

NVMFSPEC_COSTS: a file that gets a line for each test: its CPU seconds, of what it started, too, wall seconds, its name.

NVMFSPEC_FAILED: a file that names each test that failed, a line each: its id, a tab, the first line of why.
"""
import contextlib
import os
import pathlib
import re
import shutil
import socket
import subprocess
import threading
import time
import warnings

import pytest

PATIENCE = float(os.environ.get("NVMFSPEC_PATIENCE", 1))
FAILED = os.environ.pop("NVMFSPEC_FAILED", None)  # not of the pytest that a test starts, nor of workers
RUNNING = os.environ.get("NVMFSPEC_RUNNING")
COSTS = os.environ.get("NVMFSPEC_COSTS")
WORKER = f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}-{os.getpid()}"
TRIES = 5  # at a test that stands on times (calm)
MAY_LACK = "at most .* open files here|has no (tlshd|newer kernel)"


COMMUNICATE, WAIT = subprocess.Popen.communicate, subprocess.Popen.wait


def patiently(timeout):
    return timeout and timeout * PATIENCE


# run(), call() and check_output() wait by these.
subprocess.Popen.communicate = lambda self, input=None, timeout=None: \
    COMMUNICATE(self, input, patiently(timeout))
subprocess.Popen.wait = lambda self, timeout=None: WAIT(self, patiently(timeout))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Marks by ci/gate.txt; and the limits of pytest-timeout are patient, too."""
    lines = (pathlib.Path(__file__).parent / "ci/gate.txt").read_text().splitlines()
    marks = {}
    for mark, begins in (line.split(None, 1) for line in lines if line and line[0] != "#"):
        marks[mark] = (*marks.get(mark, ()), begins)
    for item in items:
        for mark, begins in marks.items():
            if item.nodeid.startswith(begins):
                item.add_marker(mark)
        mark = item.get_closest_marker("timeout")
        limit = float(mark.args[0] if mark else config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(patiently(limit)), append=False)
    items.sort(key=lambda item: not item.get_closest_marker("first"))


def pytest_configure(config):
    global RUNNING
    if config.getoption("numprocesses", None) and "PYTEST_XDIST_WORKER" not in os.environ:
        RUNNING = None  # its workers run them
    else:
        os.environ.pop("NVMFSPEC_COSTS", None)  # not of the pytest that a test starts


@pytest.fixture
def connected():
    """connected(port, n): waits until n TCP connections to this port of 127.0.0.1 stand."""
    def wait(port, n):
        end, remote = time.monotonic() + patiently(20), f"0100007F:{int(port):04X}"
        while True:
            rows = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()]
            if sum(row[2] == remote and row[3] == "01" for row in rows) >= n:
                return
            assert time.monotonic() < end, f"not {n} connections to port {port}"
            time.sleep(0.02)
    return wait


@pytest.fixture
def free_port():
    """free_port(): a port of 127.0.0.1 at which nobody listens. It is kept until the test ends: no program is given it that
    asks for any port; one that names it, and sets SO_REUSEADDR as ours and Python's servers do, listens."""
    with contextlib.ExitStack() as kept:
        def keep():
            s = kept.enter_context(socket.socket())
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            s.bind(("127.0.0.1", 0))
            return s.getsockname()[1]
        yield keep


class Standstill(threading.Thread):
    """For how long at most this process did not get its turn, in seconds, while `with` lasts."""

    def __enter__(self):
        self.longest, self.over = 0, False
        self.start()
        return self

    def run(self):
        last = time.monotonic()
        while not self.over:
            time.sleep(0.01)
            last, before = time.monotonic(), last
            self.longest = max(self.longest, last - before)

    def __exit__(self, *what):
        self.over = True
        self.join()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem):
    """calm(SECONDS): see pytest.ini. Each try has a folder of its own."""
    mark = pyfuncitem.get_closest_marker("calm")
    if not mark:
        return None
    given = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    for number in range(1, TRIES + 1):
        if number > 1 and "tmp_path" in given:
            given["tmp_path"] = pyfuncitem.funcargs["tmp_path"] / f"try-{number}"
            given["tmp_path"].mkdir()
        try:
            with Standstill(daemon=True) as stood:
                pyfuncitem.obj(**given)
            return True
        except (Exception, pytest.fail.Exception) as error:
            if stood.longest <= mark.args[0] or number == TRIES:
                raise
            warnings.warn(f"{pyfuncitem.nodeid}: try {number} of {TRIES}: nothing ran for {stood.longest:.2f} s: "
                          f"{error!r:.200}", stacklevel=1)


def not_compared(why):
    (pytest.fail if os.environ.get("NVMFSPEC_NEEDS") == "fail" else pytest.skip)(f"NOT COMPARED: {why}")


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        missing = [program for program in mark.args if not shutil.which(program)]
        if missing:
            not_compared(f"{' and '.join(missing)} not installed (ci/setup does that)")


def lab_has(option, what):
    """What is of a release that still changes: where it is out of reach tests are skipped, in ci/test as well. What is
    there, and cannot be built, is a failure."""
    lab = pathlib.Path(__file__).resolve().parent / "ci/lab"
    got = subprocess.run([lab, option, "--build"], capture_output=True, text=True)
    if got.returncode:
        leave = pytest.skip if "out of reach: " in got.stderr else pytest.fail
        leave(f"NOT COMPARED: the guest has no {what}: {got.stderr.strip().splitlines()[-1]}")


@pytest.fixture(scope="session")
def tlshd():
    """Tests of TLS in the lab's kernel: ci/lab --tls."""
    lab_has("--tls", "tlshd")


@pytest.fixture(scope="session")
def newer():
    """Tests in a guest with the kernel of the distribution's next release: ci/lab --newer."""
    lab_has("--newer", "newer kernel")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    """Nothing is left out in ci/test but what no machine of its kind can do. Cases of the suite say by
    themselves why they do not apply."""
    report = (yield).get_result()
    if not report.skipped or os.environ.get("NVMFSPEC_NEEDS") != "fail" or hasattr(report, "wasxfail"):
        return
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if "conformance/pytest" not in report.nodeid and not re.search(MAY_LACK, why):
        report.outcome, report.longrepr = "failed", f"left out: {why}"


def pytest_runtest_logstart(nodeid):
    if RUNNING:
        (pathlib.Path(RUNNING) / WORKER).write_text(f"{nodeid}\n")


def pytest_runtest_logfinish():
    if RUNNING:
        (pathlib.Path(RUNNING) / WORKER).unlink(missing_ok=True)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    before = os.times()
    yield
    cost = [now - then for now, then in zip(os.times(), before)]
    if COSTS:
        with open(COSTS, "a", encoding="utf-8") as file:
            print(f"{sum(cost[:4]):.1f} {cost[4]:.1f} {item.nodeid}", file=file)


def pytest_runtest_logreport(report):
    if not (FAILED and report.failed):
        return
    name = re.sub(r"@[\w-]+$", "", report.nodeid)  # the group that shares a worker
    crash = getattr(report.longrepr, "reprcrash", None)
    why = str(crash.message if crash else report.longrepr or "").strip().split("\n")[0][:200]
    with open(FAILED, "a", encoding="utf-8") as file:
        print(name, why, sep="\t", file=file)
