# SPDX-License-Identifier: BSD-3-Clause
"""The suite over soft RDMA in the lab's guest: against the reference target and the kernel's."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAB = ROOT / "conformance/tests/lab"
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
DEVICES = pytest.mark.parametrize("device", ["rxe", "siw"])


def guest(out, script, *options, timeout=300, engine="uml", **environment):
    env = [f"{name}={value}" for name, value in {"NVMFSPEC": NVMFSPEC, **environment}.items()]
    return subprocess.run(
        [ROOT / "ci/lab", "--engine", engine, "--timeout", str(timeout), "--out", out, "--", "env",
         *env, "bash", LAB / script, *options],
        capture_output=True, text=True, cwd=ROOT, timeout=timeout + 60)


def results(out):
    report = json.loads((out / "report.json").read_text())
    return {result["id"]: result for result in report["results"]}


@DEVICES
def test_reference_target_passes_strictly(tmp_path, device):
    run = guest(tmp_path, "target_rdma.sh", device, "--strict", "--json",
                f"{tmp_path}/report.json")
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    seen = results(tmp_path)
    assert sum(r["verdict"] == "pass" for r in seen.values()) > 340


@pytest.mark.parametrize("device, options", [
    ("rxe", "--no-in-capsule"), ("rxe", "--msdbd 1"), ("rxe", "--limit queue_entries=16"),
    ("siw", "--icdoff 2"), ("siw", "--limit max_transfer=8192")])
def test_targets_with_less_are_as_right(tmp_path, device, options):
    run = guest(tmp_path, "target_rdma.sh", device, "--strict", "rdma", TARGET=options)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_response_that_overtakes_its_data_is_seen(tmp_path):
    """What can't be seen in memory: the device is slower than we look."""
    for turn in range(1, 11):  # it is a race
        run = guest(tmp_path, "target_rdma.sh", "rxe", "rdma/transfer/write-before", "--repeat", "20",
                    "--json", f"{tmp_path}/report.json",
                    TARGET="--violate rdma/transfer/write-before-response")
        broken = {result.get("rule") for result in results(tmp_path).values()}
        if "rdma/transfer/write-before-response" in broken:
            break
        print(f"not seen in {20 * turn} of 200 repeats")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "rdma/transfer/write-before-response" in broken


@DEVICES
def test_nvmet_fails_only_where_it_is_known_to(tmp_path, device):
    run = guest(tmp_path, "nvmet_rdma.sh", device, "--json", f"{tmp_path}/report.json")
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    seen = results(tmp_path)
    assert sum(r["verdict"] == "pass" for r in seen.values()) > 250
    assert "error" not in {r["verdict"] for r in seen.values()}
    assert "--change CMD permits" not in json.dumps(list(seen.values()))  # it is given


def test_without_the_baseline_nvmet_fails(tmp_path):
    run = guest(tmp_path, "nvmet_rdma.sh", "rxe", "rdma/in-capsule", "--json", f"{tmp_path}/report.json",
                BASELINE="/dev/null")
    assert run.returncode == 1, run.stdout + run.stderr
    assert results(tmp_path)["rdma/in-capsule/length"]["verdict"] == "fail"


def deadly():
    lines = (ROOT / "conformance/baseline/nvmet-rdma-deadly.txt").read_text().splitlines()
    return [line.split()[:3] for line in lines if line and line[0] != "#"]


@pytest.mark.parametrize("case, how, where", deadly(), ids=lambda value: value)
def test_what_takes_the_kernel_down_still_does(tmp_path, case, how, where):
    """Else its line in nvmet-rdma-deadly.txt is to go."""
    device = "rxe" if where == "#" else where
    run = guest(tmp_path, "nvmet_rdma.sh", device, case, timeout=60, DEADLY="yes",
                BASELINE="/dev/null")
    said = run.stdout + run.stderr
    if how in ("panic", "memory"):
        assert "the guest died" in said and "Kernel panic" in said
        assert how != "panic" or "nvmet_rdma" in said
    elif how == "warning":
        assert run.returncode != 0 and "WARNING" in said
    else:
        assert run.returncode != 0 or "nothing" in said, "it ends the connection"


@pytest.mark.qemu
@DEVICES
def test_the_device_goes_away_and_comes_back(tmp_path, device):
    run = guest(tmp_path, "removal.sh", device, timeout=500, engine="qemu")
    assert run.returncode == 0, run.stdout + run.stderr
