# SPDX-License-Identifier: BSD-3-Clause
"""The verbs provider on soft RDMA devices, in the lab's guest: two boots for each kind of device."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("NVMFSPEC", ROOT / "build/nvmfspec")).resolve().parent
PAIR = BUILD / "verbs_pair"
pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def cases():
    if not PAIR.exists():
        return []
    run = subprocess.run([PAIR, "list"], capture_output=True, text=True, check=True)
    return run.stdout.split()


ALONE = {"removed"} # takes the device away; and only where modules come in the right order
CASES = [c for c in cases() if c not in ALONE]


def guest(kind, names, options=(), whole=True):
    """What each case printed, and the run; whole: all of them ended."""
    probe = subprocess.run([ROOT / "ci/lab", *options, "--probe"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(probe.stdout)
    run = subprocess.run(
        [ROOT / "ci/lab", *options, "--timeout", "300", "--", "bash",
         ROOT / "pdu/io/tests/lab/verbs.sh", PAIR, kind, *names],
        capture_output=True, text=True)
    assert not whole or "== end\n" in run.stdout, run.stdout + run.stderr
    parts = re.split(r"^== (\S+)\n", run.stdout, flags=re.M)[1:]
    return dict(zip(parts[::2], parts[1::2])), run


@pytest.fixture(scope="module", params=[
    pytest.param(kind, marks=pytest.mark.xdist_group(f"verbs-{kind}")) for kind in ("rxe", "siw")])
def outcome(request):
    """Two guests: one that a case takes down has the other half's outcome left."""
    output, runs = {}, []
    for half in CASES[::2], CASES[1::2]:
        seen, run = guest(request.param, half, whole=False)
        for case in half:
            output[case] = seen.get(case, run.stdout + run.stderr)
        runs.append(run)
    return request.param, output, runs


@pytest.mark.parametrize("case", CASES)
def test_case(outcome, case):
    _, output, _ = outcome
    assert f"ok {case}\n" in output[case], output[case]


def test_the_kernel_had_nothing_to_say(outcome):
    for run in outcome[2]:
        assert run.returncode == 0 and "== end\n" in run.stdout, run.stdout + run.stderr


def test_all_cases_are_known():
    if not PAIR.exists():
        pytest.skip("built without RDMA")
    assert len(CASES) >= 30


# What the provider tells of a device is what the device does.

def line(outcome, case, pattern):
    found = re.search(pattern, outcome[1][case])
    assert found, outcome[1][case]
    return found.groups()


def test_private_data_is_padded_by_infiniband_only(outcome):
    lengths = (*line(outcome, "private_data", r"request: (\d+) bytes"),
               *line(outcome, "private_data", r"acceptance: (\d+) bytes"),
               *line(outcome, "reject", r"rejected: (\d+) bytes"))
    assert lengths == {"rxe": ("56", "196", "148"), "siw": ("32", "32", "4")}[outcome[0]]


def test_rnr_is_of_infiniband_only(outcome):
    status, = line(outcome, "no_receive", r"retry 0: ([^\d]*) after")
    assert status == {"rxe": "RNR retry count exceeded", "siw": "success"}[outcome[0]]


JOINS = ["joined", "joined_ipv6", "joined_late", "joined_to_nobody", "joined_parts", "joined_by_tcp"]


@pytest.mark.parametrize("case", JOINS)
def test_queue_pairs_are_joined_by_numbers_but_of_iwarp(outcome, case):
    refused = "local endpoint: Operation not supported" in outcome[1][case]
    assert refused == (outcome[0] == "siw"), outcome[1][case]


@pytest.mark.qemu
@pytest.mark.slow
def test_with_two_processors():
    output, run = guest("rxe", CASES, ["--engine", "qemu", "--smp", "2"])
    failed = {c: output[c] for c in CASES if f"ok {c}\n" not in output[c]}
    assert not failed and run.returncode == 0, (failed, run.stderr)


# Needs a kernel where the connection manager is told of the removal before user verbs, which wait
# until the device is closed: there modules are loaded in that order.
@pytest.mark.qemu
@pytest.mark.parametrize("kind", ["rxe", "siw"])
def test_device_removal(kind):
    output, _ = guest(kind, ["removed"], ["--engine", "qemu"])
    assert "ok removed\n" in output["removed"], output["removed"]
    assert f"{kind}0/1" not in output["links"] and f"{kind}1/1" in output["links"]
