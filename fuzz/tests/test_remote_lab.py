# SPDX-License-Identifier: BSD-3-Clause
"""fuzz remote against the Linux kernel's own target, with its log as the oracle. What is found in it
is not for a test to judge: that it still serves, and that sessions come and go."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


@pytest.mark.parametrize("kind", ["tcp", "rxe"])
def test_kernel_target(kind):
    run = subprocess.run(
        [ROOT / "ci/lab", "--timeout", "120", "--", "env", f"NVMFSPEC={NVMFSPEC}", "bash",
         ROOT / "fuzz/tests/lab/kernel_target.sh", kind, "4", "--minimise", "3"],
        capture_output=True, text=True, cwd=ROOT, timeout=200)
    print(run.stdout, run.stderr)
    assert run.returncode in (0, 1)
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    assert not [line for line in lines if line.get("finding") == "lost"]
    total = lines[-1]
    assert total["runs"] > 40 and total["novelty"] > 40 and total["ends"]["done"] > 10
