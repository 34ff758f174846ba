# SPDX-License-Identifier: BSD-3-Clause
"""Our target under the Linux kernel's own host, in the lab's guest."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def guest(script, *args, kind="tcp", lab=(), env=(), timeout=300):
    """Runs a script of tests/lab in the guest; its output is the failure's message."""
    run = subprocess.run(
        [ROOT / "ci/lab", *lab, "--timeout", str(timeout), "--", "env", f"NVMFSPEC={NVMFSPEC}",
         f"KIND={kind}", *env, "bash", ROOT / "target/tests/lab" / script, *args],
        capture_output=True, text=True, cwd=ROOT, timeout=timeout + 60)
    print(run.stdout, run.stderr)
    assert run.returncode == 0, f"{script} {' '.join(args)}: exit {run.returncode}"
    return run.stdout


@pytest.mark.parametrize("options", [[], ["-g"], ["-G"], ["-g", "-G"], ["-i", "2"],
                                     ["-g", "-G", "-i", "2"], ["-Q", "16"], ["-D"]],
                         ids=lambda o: " ".join(o) or "plain")
def test_connect_and_verify(options):
    guest("basic.sh", *options)


# Descriptors and the kernel's objects are counted exactly: a leak in each connection shows in few.
RECONNECTS = os.environ.get("NVMFSPEC_RECONNECTS", "20")


def test_reconnects_and_resets():
    guest("reconnect.sh", RECONNECTS)


def test_changes_reach_the_host():
    guest("change.sh")


def test_persistent_discovery():
    guest("discovery.sh")


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("kind", ["tcp", "rxe"])
def test_failover_each_second(kind):
    """Asymmetric Namespace Access: two listeners, the kernel's multipath host, states set over RPC."""
    seconds = int(os.environ.get("NVMFSPEC_ANA_SECONDS", "30"))
    guest("ana.sh", str(seconds), kind=kind, timeout=120 + 2 * seconds)


rdma = pytest.mark.parametrize("kind", ["rxe", "siw"])


@rdma
@pytest.mark.parametrize("options", [[], ["-i", "2"], ["-Q", "16", "-i", "1"], ["-Q", "128", "-D"]],
                         ids=lambda o: " ".join(o) or "plain")
def test_connect_and_verify_over_rdma(kind, options):
    guest("basic.sh", *options, kind=kind)


@rdma
def test_what_went_over_the_wire_is_lawful(kind, tmp_path):
    """The same, captured: both sides by the rulebook, passively."""
    capture = tmp_path / "wire.pcap"
    guest("basic.sh", kind=kind, lab=["--out", tmp_path], env=[f"CAPTURE={capture}"])
    check = subprocess.run([NVMFSPEC, "pcap", "check", capture], capture_output=True, text=True)
    print(check.stdout, check.stderr)
    assert check.returncode == 0
    count = subprocess.run([NVMFSPEC, "pcap", "show", "--count", capture],
                           capture_output=True, text=True, check=True)
    assert "Write" in count.stdout


@pytest.mark.parametrize("kind", ["rxe", "siw"])
def test_reconnects_and_resets_over_rdma(kind):
    guest("reconnect.sh", RECONNECTS, kind=kind)


@rdma
def test_changes_reach_the_host_over_rdma(kind):
    guest("change.sh", kind=kind)


@rdma
def test_what_only_rdma_has(kind):
    guest("rdma.sh", kind=kind)


@pytest.mark.timeout(1000)
@rdma
def test_link_is_down_for_a_while(kind):
    count = int(os.environ.get("NVMFSPEC_LINK_CUTS", "1"))
    guest("link.sh", str(count), kind=kind, timeout=120 + 60 * count)


def test_a_device_that_is_mounted_or_in_use_is_refused():
    guest("device.sh")


# What of ib_srp's parameters matters to a target; the others are about times, and about old products. (prefer_fr, which
# chose between two ways to register memory, is gone since 5.8.)
#
# register_always, never_register  Y, N as by default: a command's memory is one region, which needs one direct descriptor.
#                                  N, Y: none is registered, and what is in several pieces needs a table
# cmd_sg_entries (12)              entries of a table that SRP_CMD has room for; also how long IUs it asks for
# indirect_sg_entries (12)         entries of a table at most
# allow_ext_sg (N)                 Y: a table may have more of them than SRP_CMD, and the target has to read it
# use_imm_data (Y)                 WRITEs in two pieces at most may have their data in SRP_CMD, if the target grants it,
# max_imm_data (8192)              ... up to that many bytes; also how long IUs it asks for
TABLES = "ib_srp.never_register=Y ib_srp.register_always=N ib_srp.use_imm_data=N"
EXTERNAL = f"{TABLES} ib_srp.cmd_sg_entries=1 ib_srp.allow_ext_sg=Y ib_srp.indirect_sg_entries=128"
SRP = {  # parameters, options of our target, and what has to be on the wire by them
    "default": ("", [], ["out 4096 immediate", "out 16384 direct", "in 16384 direct"]),
    "indirect": (TABLES, [], ["out 4096 direct", "out 16384 indirect, ([0-9]+) of \\1 entries in line",
                              "in 16384 indirect"]),
    "external": (EXTERNAL, [], ["out 65536 indirect, 1 of [0-9]+ entries in line",
                                "in 65536 indirect, 1 of [0-9]+ entries in line"]),
    "short": ("ib_srp.max_imm_data=2048", [], ["out 512 immediate", "out 4096 direct"]),
    "small": ("", ["--request-limit", "4", "--reactors", "2", "--no-immediate"], ["out 4096 direct"]),
}
LOGINS = os.environ.get("NVMFSPEC_SRP_LOGINS", "3")


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("name", SRP)
def test_srp(name):
    """Our SRP target under ib_srp, through RDMA CM over rxe."""
    parameters, options, forms = SRP[name]
    guest("srp.sh", *options, kind="rxe", env=[f"LOGINS={LOGINS}", f"FORMS={';'.join(forms)}"],
          lab=["--append", parameters] if parameters else (), timeout=600 + 6 * int(LOGINS))


@pytest.mark.parametrize("kind", ["tcp", "rxe"])
def test_authentication(kind):
    guest("authentication.sh", kind=kind)


@pytest.mark.usefixtures("tlshd")
def test_tls():
    guest("tls.sh", lab=["--tls"])


@pytest.mark.timeout(1500)
@pytest.mark.usefixtures("tlshd", "newer")
@pytest.mark.parametrize("script", ["concat.sh", "tls.sh", "basic.sh", "authentication.sh"])
def test_a_newer_kernel(script):
    guest(script, lab=["--newer", "--tls"])


@pytest.mark.qemu
@rdma
def test_device_is_taken_away(kind):
    guest("removal.sh", kind=kind, lab=["--engine", "qemu"], timeout=400)
