# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces whose blocks have metadata are judged as others are, and by cases of their own."""
import json
import os
import subprocess
from pathlib import Path

import pytest

NVMFSPEC = os.environ.get(
    "NVMFSPEC", str(Path(__file__).resolve().parents[2] / "build" / "nvmfspec"))


def results(*args):
    ran = subprocess.run([NVMFSPEC, "conform", "--strict", "--json", "-", *args],
                         capture_output=True, text=True, timeout=120, check=False)

    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr
    return {r["id"]: r for r in json.loads(ran.stdout)["results"]}


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
@pytest.mark.parametrize("kind", [1, 2, 3])
def test_protection_information_alone(transport, kind):
    found = results("-t", transport, "--ns", f"mem:64M,ms=8,pi={kind}")
    skipped = {i for i, r in found.items() if r["verdict"] == "skip"}

    assert "nvm/protection/guard" not in skipped and "nvm/protection/inserted" not in skipped
    assert not [i for i in skipped if "blocks of" in found[i]["note"]]


@pytest.mark.parametrize("spec", ["mem:64M,ms=8", "mem:64M,ms=16,pi=1", "mem:64M,bs=4096,ms=8,pi=1"])
def test_metadata_with_each_block(spec):
    assert results("--ns", spec)["nvm/metadata/stored"]["verdict"] == "pass"


@pytest.mark.parametrize("spec, says", [
    ("mem:1M,ms=12", "'ms=12' is not an option"), ("mem:1M,ms=8,pi=4", "'pi=4' is not an option"),
    ("mem:1M,pi=1", "pi= needs metadata"), ("null:1M,ms=8", "only mem: has metadata")])
def test_what_no_namespace_can_have(spec, says):
    ran = subprocess.run([NVMFSPEC, "target", "-s", "0", "--ns", spec], capture_output=True,
                         text=True, timeout=30, check=False)

    assert ran.returncode != 0 and says in ran.stderr


def test_a_file_can_be_protected(tmp_path):
    """Where its file system has attributes: what cannot be kept is not promised."""
    try:
        os.setxattr(tmp_path, "user.nvmfspec.test", b"1")
    except OSError as error:
        pytest.skip(str(error))
    spec = f"file:{tmp_path}/disk,size=64M"

    assert results("--ns", spec, "nvm/write-protect")["nvm/write-protect/state"]["verdict"] == "pass"
    assert os.listxattr(tmp_path / "disk") == []
