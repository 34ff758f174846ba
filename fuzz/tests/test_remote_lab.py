# SPDX-License-Identifier: BSD-3-Clause
"""fuzz remote against the Linux kernel's own target, with its log as the oracle. What is found in it
is not for a test to judge: that it still serves, and that sessions come and go."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
SPEED = int(os.environ.get("NVMFSPEC_SPEED", "1"))  # how many times slower than usual this machine is

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


# What an unauthenticated peer may have of a 6.12 kernel's memory, or of its death: fuzz/tests/lab/campaign.sh.
deadly = {"tcp": [], "rxe": ["request.hrqsize>255", "rdma/in-capsule/offset"],
          "srp": ["external", "empty", "long", "srp/iu/length-initiator",
                  *(f"srp/command/{rule}" for rule in ("format-agreed", "immediate", "descriptors", "additional-cdb"))]}


def avoid(who, kind):
    """Of our SRP target nothing is avoided."""
    return [word for what in deadly[kind] if not who or kind != "srp" for word in ("--avoid", what)]


@pytest.mark.parametrize("who, kind", [
    pytest.param([], "tcp", id="kernel-tcp"), pytest.param(["--own"], "rxe", id="own-rxe"),
    pytest.param([], "rxe", id="kernel-rxe"),
    pytest.param([], "srp", id="kernel-srp"), pytest.param(["--own"], "srp", id="own-srp"),
    pytest.param(["--own"], "tcp", id="own-tcp")])
def test_campaign(who, kind, tmp_path):
    run = subprocess.run(
        [ROOT / "fuzz/tests/lab/run_campaign", *who, kind, str(30 * SPEED), tmp_path, "--runs", "200", "--minimise",
         "3", *avoid(who, kind)],
        capture_output=True, text=True, cwd=ROOT, timeout=280 * SPEED,
        env={**os.environ, "NVMFSPEC": NVMFSPEC, "TIMES": "2"})
    print(run.stdout, run.stderr)
    assert run.returncode in (0, 1)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    found = [line for line in lines if "finding" in line]
    unwell = re.compile("BUG:|WARNING:|KASAN|Oops|blocked for more than")  # the kernel's own words of it
    assert not [line for line in found if line["finding"] == "lost" and not unwell.search(line["says"])]
    assert re.search(r"(?m)^again: \d+ of (\d+)$", run.stdout)[1] == str(len(found))
    assert run.stdout.count(" of 2 times\n") == len(found)
    total = lines[-1]
    assert total["runs"] > 40 and total["novelty"] > 40 and total["ends"]["done"] > 10


@pytest.mark.timeout(0)
@pytest.mark.parametrize("who", [pytest.param([], id="kernel"), pytest.param(["--own"], id="own")])
def test_srp_for_minutes(who, tmp_path):
    """NVMFSPEC_FUZZ_MINUTES (1) of sessions to an SRP target in the guest with KASAN and lock checking. Of ours nothing
    may be found; of the kernel's each finding comes again in a fresh guest, or is said not to."""
    minutes = float(os.environ.get("NVMFSPEC_FUZZ_MINUTES", "1"))
    run = subprocess.run(
        [ROOT / "fuzz/tests/lab/run_campaign", "--lab", "--instrumented", "--lab", "--mem=6144", *who, "srp",
         str(int(minutes * 60)), tmp_path, *avoid(who, "srp")],
        capture_output=True, text=True, cwd=ROOT, timeout=minutes * 60 + 3600,
        env={**os.environ, "NVMFSPEC": NVMFSPEC})
    print(run.stdout, run.stderr)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert lines and lines[-1]["runs"] > 100
    if who:
        assert run.returncode == 0 and not [line for line in lines if "finding" in line]
    else:
        assert run.returncode in (0, 1) and re.search(r"(?m)^again: \d+ of \d+$", run.stdout)
