# SPDX-License-Identifier: BSD-3-Clause
"""Our host against the Linux kernel's own target, in the lab's guest."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def in_guest(script, *arguments, timeout=240, lab=(), env=()):
    run = subprocess.run(
        [ROOT / "ci/lab", *lab, "--timeout", str(timeout), "--", "env", f"NVMFSPEC={NVMFSPEC}", *env, "bash",
         ROOT / "host/tests/lab" / script, *arguments],
        capture_output=True, text=True, cwd=ROOT, timeout=timeout + 60)
    print(run.stdout, run.stderr)
    assert run.returncode == 0


@pytest.mark.parametrize("options", [[], ["-g"], ["-G"], ["-g", "-G"]],
                         ids=lambda o: " ".join(o) or "plain")
def test_kernel_target(options):
    in_guest("kernel_target.sh", *options)


@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_kernel_target_by_rdma(device):
    in_guest("kernel_target_rdma.sh", device)


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_link_is_down_for_a_while(device):
    count = int(os.environ.get("NVMFSPEC_LINK_CUTS", "1"))
    in_guest("link.sh", device, str(count), timeout=120 + 60 * count)


@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_own_target_by_rdma(device):
    in_guest("own_target_rdma.sh", device)


LOGINS = os.environ.get("NVMFSPEC_SRP_LOGINS", "3")


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("device, target", [("rxe", "kernel"), ("rxe", "own"), ("siw", "own")])
def test_srp(device, target):
    """Our initiator against ib_srpt and LIO, and against our own target over devices."""
    in_guest("srp.sh", device, target, timeout=300 + 3 * int(LOGINS), env=[f"LOGINS={LOGINS}"])


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_authentication(transport):
    in_guest("authentication.sh", transport)


@pytest.mark.usefixtures("tlshd")
def test_tls():
    in_guest("tls.sh", lab=["--tls"])


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("tlshd", "newer")
@pytest.mark.parametrize("script", ["concat.sh", "tls.sh", "kernel_target.sh"])
def test_a_newer_kernel(script):
    in_guest(script, lab=["--newer", "--tls"])
