# SPDX-License-Identifier: BSD-3-Clause
"""DOCA's storage protocol over a device: our requester and our target, joined by numbers over rxe, by the connection manager
over siw, in the lab's guest."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]


@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_requester_and_target(device, tmp_path):
    run = subprocess.run(
        [ROOT / "ci/lab", "--timeout", "500", "--out", tmp_path, "--", "env", f"NVMFSPEC={NVMFSPEC}", "bash",
         str(ROOT / "tests/doca/lab/doca.sh"), device, str(tmp_path)],
        capture_output=True, text=True, cwd=ROOT, timeout=580)
    print(run.stdout, run.stderr)
    assert run.returncode == 0
