# SPDX-License-Identifier: BSD-3-Clause
"""The suite as pytest items, one for each case: against the embedded target over TCP and over RDMA
in memory, the kernel's targets in the lab, or any address.

    pytest conformance/pytest                              # embedded, all set-ups, and the lab
    pytest conformance/pytest --target 192.0.2.7:4420      # one's own
    pytest conformance/pytest --target 192.0.2.7 --transport rdma
    pytest conformance/pytest --target 192.0.2.7 --target-nqn NQN --allow-write 1:0+65536 \\
        --baseline known.txt --junitxml out.xml
"""
import functools
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

# How positive set-ups are made: digests and alignment. The embedded target also asks for CPDA.
SETUPS = {
    "plain": [],
    "hdgst": ["-g"],
    "ddgst": ["-G"],
    "digests": ["-g", "-G"],
    "hpda2": ["--hpda", "2"],
    "hpda31-digests": ["--hpda", "31", "-g", "-G"],
}
EMBEDDED_SETUPS = {
    **{name: args for name, args in SETUPS.items()},
    "cpda1": ["--cpda", "1"],
    "cpda17-hdgst": ["--cpda", "17", "-g"],
    "cpda31-hpda31-digests": ["--cpda", "31", "--hpda", "31", "-g", "-G"],
    "blocks4096": ["--ns", "mem:64M,bs=4096"],
}
RDMA_SETUPS = {
    "rdma": ["-t", "rdma"],
    "rdma-blocks4096": ["-t", "rdma", "--ns", "mem:64M,bs=4096"],
    "rdma-one-at-a-time": ["-t", "rdma", "--jobs", "1"],
}


def pytest_addoption(parser):
    group = parser.getgroup("nvmfspec", "the target under test (default: the embedded one)")
    group.addoption("--target", metavar="ADDR[:PORT]", default=os.environ.get("NVMFSPEC_TARGET"))
    group.addoption("--transport", choices=("tcp", "rdma"), default="tcp", help="of --target")
    group.addoption("--target-nqn", metavar="NQN", default=os.environ.get("NVMFSPEC_TARGET_NQN"))
    group.addoption("--allow-write", metavar="NSID[:SLBA+BLOCKS]",
                    default=os.environ.get("NVMFSPEC_ALLOW_WRITE"))
    group.addoption("--baseline", metavar="FILE", default=os.environ.get("NVMFSPEC_BASELINE"))
    group.addoption("--conform", metavar="OPTIONS", default="",
                    help="more options for nvmfspec conform, such as '--strict --timeout-scale 3'")


@functools.cache
def cases(transport):
    listed = subprocess.run([NVMFSPEC, "conform", "-t", transport, "--list", "--json", "-"],
                            capture_output=True, text=True)
    if listed.returncode != 0:
        raise pytest.UsageError(f"{NVMFSPEC} conform --list: {listed.stderr}")
    return json.loads(listed.stdout)["cases"]


class Embedded:
    name = "embedded"
    setups = {**EMBEDDED_SETUPS, **RDMA_SETUPS}
    marks = ()

    def __init__(self, config):
        self.more = config.getoption("--conform").split()

    def unusable(self):
        return None

    def left_out(self, setup):
        return ()

    def transport(self, setup):
        return "rdma" if "rdma" in self.setups[setup] else "tcp"

    def run(self, args):
        # json on stdout: everything else goes to stderr; a machine that is busy is given time
        done = subprocess.run([NVMFSPEC, "conform", "--strict", "--timeout-scale", "4", *self.more,
                               *args, "--json", "-"],
                              capture_output=True, text=True, timeout=250)
        return done.stdout, done.stderr


class Address(Embedded):
    name = "target"
    setups = SETUPS

    def __init__(self, config):
        super().__init__(config)
        addr, _, port = config.getoption("--target").rpartition(":")
        if not addr or addr.endswith(":"):  # no port, or an IPv6 address
            addr, port = config.getoption("--target"), "4420"
        self.where = ["-a", addr.strip("[]"), "-s", port]
        if config.getoption("--transport") == "rdma":
            self.setups = {"rdma": ["-t", "rdma"]}
        for option, flag in (("--target-nqn", "-n"), ("--allow-write", "--allow-write"),
                             ("--baseline", "--baseline")):
            if config.getoption(option):
                self.where += [flag, config.getoption(option)]

    def run(self, args):
        # workers share the namespace: each writes to a part of its own (pytest-xdist)
        worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{k}") for k in ("", "_COUNT"))
        part = ["--slice", f"{int(worker[2:]) + 1}/{workers}"] if worker else []
        done = subprocess.run([NVMFSPEC, "conform", *self.where, *self.more, *part, *args, "--json", "-"],
                              capture_output=True, text=True, timeout=900)
        return done.stdout, done.stderr


class Kernel(Embedded):
    """nvmet-tcp in the lab's guest."""

    name = "kernel"
    setups = {"plain": [],
              "digests": ["-g", "-G", "--baseline-lax", "--baseline",
                          "conformance/baseline/nvmet-tcp-digests.txt"]}
    marks = (pytest.mark.lab,)
    script = """
        cd "$1"; shift
        . ci/lab.d/nvmet.sh
        ip link set lo up
        nvmet_up tcp 127.0.0.1 nqn.2026-01.org.example:a /dev/ram0
        "$@" -a 127.0.0.1 -n nqn.2026-01.org.example:a --allow-write 1 \
            --baseline conformance/baseline/nvmet-tcp.txt --json -
        status=$?
        dmesg | grep -E 'WARNING|BUG|Oops|KASAN' | grep -v 'Command line' && exit 99
        exit $status
    """

    @functools.cache
    def unusable(self):
        probe = subprocess.run([ROOT / "ci/lab", "--probe"], capture_output=True, text=True)
        return probe.stdout if probe.returncode != 0 else None

    def run(self, args):
        done = subprocess.run([ROOT / "ci/lab", "--timeout", "280", "--", "bash", "-c", self.script,
                               "script", ROOT, NVMFSPEC, "conform", *self.more, *args],
                              capture_output=True, text=True, timeout=290)
        assert done.returncode != 99, f"the kernel complains: {done.stdout[-2000:]}"
        return done.stdout[done.stdout.find('{\n  "schema"'):], done.stderr


class KernelRdma(Kernel):
    """nvmet-rdma in the lab's guest, over soft RoCE or soft iWARP."""

    def __init__(self, config, device):
        super().__init__(config)
        self.name = f"kernel-{device}"
        self.device = device

    setups = {"plain": ["-t", "rdma"]}

    def left_out(self, setup):
        """What would take the guest down: see the file."""
        lines = (ROOT / "conformance/baseline/nvmet-rdma-deadly.txt").read_text().splitlines()
        return [line.split()[0] for line in lines
                if line and line[0] != "#" and line.split()[2] in ("#", self.device)]

    def run(self, args):
        done = subprocess.run([ROOT / "ci/lab", "--timeout", "400", "--", "env",
                               f"NVMFSPEC={NVMFSPEC}", "bash",
                               ROOT / "conformance/tests/lab/nvmet_rdma.sh", self.device,
                               *self.more, *args[2:], "--json", "-"],
                              capture_output=True, text=True, timeout=420)
        return done.stdout[done.stdout.find('{\n  "schema"'):], done.stderr


@functools.cache
def peers(config):
    if config.getoption("--target"):
        return [Address(config)]
    return [Embedded(config), Kernel(config), KernelRdma(config, "rxe"), KernelRdma(config, "siw")]


def cases_of(peer, setup):
    left_out = peer.left_out(setup)
    return [c["id"] for c in cases(peer.transport(setup)) if c["id"] not in left_out]


def pytest_generate_tests(metafunc):
    def param(peer, setup, *case):
        # what shares a run stays in one worker (pytest-xdist, --dist loadgroup)
        run = "-".join((peer.name, setup))
        return pytest.param((peer, setup, *case), id="-".join((run, *case)),
                            marks=(*peer.marks, pytest.mark.xdist_group(run)))

    setups = [(peer, setup) for peer in peers(metafunc.config) for setup in peer.setups]
    if "verdict_of" in metafunc.fixturenames:
        params = [param(peer, setup, case) for peer, setup in setups
                  for case in cases_of(peer, setup)]
        metafunc.parametrize("verdict_of", params, indirect=True)
    if "results_of" in metafunc.fixturenames:
        params = [param(peer, setup) for peer, setup in setups]
        metafunc.parametrize("results_of", params, indirect=True)


def selected(session, peer, setup):
    """The cases that this session has items for; all of them where it has none."""
    wanted = [i.callspec.params["verdict_of"] for i in session.items
              if hasattr(i, "callspec") and "verdict_of" in i.callspec.params]
    return ([case for p, s, case in wanted if (p.name, s) == (peer.name, setup)] or
            cases_of(peer, setup))


def run(peer, args):
    try:
        out, err = peer.run(args)
        report = json.loads(out)
        for result in report["results"]:
            if report["baseline_lax"] and result.get("baseline") == "fixed":
                del result["baseline"]
        return {r["id"]: r for r in report["results"]}
    except ValueError:
        return f"no report: {out[-1000:]} {err[-3000:]}"
    except (AssertionError, subprocess.TimeoutExpired) as why:
        return str(why)


RUNS = {}  # by peer and set-up: results by id, or why there are none


def results(session, peer, setup):
    """All selected cases of a peer and set-up run at once, concurrently, for the first that asks."""
    if peer.unusable():
        pytest.skip(peer.unusable())
    if (peer.name, setup) not in RUNS:
        RUNS[peer.name, setup] = run(peer, peer.setups[setup] + selected(session, peer, setup))
    if isinstance(RUNS[peer.name, setup], str):
        pytest.fail(RUNS[peer.name, setup], pytrace=False)
    return RUNS[peer.name, setup]


@pytest.fixture
def verdict_of(request):
    """The result of one case."""
    peer, setup, case = request.param
    return results(request.session, peer, setup)[case]


@pytest.fixture
def results_of(request):
    """All results of a peer and set-up by id, for what no single case says."""
    return results(request.session, *request.param)
