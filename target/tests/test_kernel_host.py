# SPDX-License-Identifier: BSD-3-Clause
"""Our target under the Linux kernel's own host, in the lab's guest."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def guest(script, *args, timeout=300):
    """Runs a script of tests/lab in the guest; its output is the failure's message."""
    run = subprocess.run(
        [ROOT / "ci/lab", "--timeout", str(timeout), "--", "env", f"NVMFSPEC={NVMFSPEC}",
         "bash", ROOT / "target/tests/lab" / script, *args],
        capture_output=True, text=True, cwd=ROOT, timeout=timeout + 60)
    print(run.stdout, run.stderr)
    assert run.returncode == 0, f"{script} {' '.join(args)}: exit {run.returncode}"
    return run.stdout


@pytest.mark.parametrize("options", [[], ["-g"], ["-G"], ["-g", "-G"], ["-i", "2"],
                                     ["-g", "-G", "-i", "2"], ["-Q", "16"], ["-D"]],
                         ids=lambda o: " ".join(o) or "plain")
def test_connect_and_verify(options):
    guest("basic.sh", *options)


def test_hundred_reconnects_and_resets():
    guest("reconnect.sh", "100")


def test_changes_reach_the_host():
    guest("change.sh")


def test_persistent_discovery():
    guest("discovery.sh")
