# SPDX-License-Identifier: BSD-3-Clause
"""Our host against the Linux kernel's own target, in the lab's guest."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]



def in_guest(script, *arguments):
    run = subprocess.run(
        [ROOT / "ci/lab", "--timeout", "240", "--", "env", f"NVMFSPEC={NVMFSPEC}", "bash",
         ROOT / "host/tests/lab" / script, *arguments],
        capture_output=True, text=True, cwd=ROOT, timeout=300)
    print(run.stdout, run.stderr)
    assert run.returncode == 0


@pytest.mark.parametrize("options", [[], ["-g"], ["-G"], ["-g", "-G"]],
                         ids=lambda o: " ".join(o) or "plain")
def test_kernel_target(options):
    in_guest("kernel_target.sh", *options)


@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_kernel_target_by_rdma(device):
    in_guest("kernel_target_rdma.sh", device)


@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_own_target_by_rdma(device):
    in_guest("own_target_rdma.sh", device)


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_authentication(transport):
    in_guest("authentication.sh", transport)
