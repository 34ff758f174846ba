# SPDX-License-Identifier: BSD-3-Clause
"""Planted bugs are in a build of their own and nowhere else."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
pytestmark = pytest.mark.fast


def names():
    return re.findall(r'^PLANT\(\w+, "([^"]+)"', (ROOT / "pdu/core/plants.def").read_text(), re.M)


def test_each_has_its_place_in_the_code():
    symbols = re.findall(r"^PLANT\((\w+),", (ROOT / "pdu/core/plants.def").read_text(), re.M)
    code = "".join(p.read_text() for room in ("pdu", "target") for p in (ROOT / room).glob("**/*.[ch]"))
    assert len(symbols) >= 24 and len(set(symbols)) == len(set(names())) == len(symbols)
    assert [s for s in symbols if f"PLANTED({s})" not in code] == []


def test_the_program_has_none():
    run = subprocess.run([NVMFSPEC, "target", "--plant", "list"], capture_output=True, text=True)
    assert run.returncode == 2 and "plant" in run.stderr
    program = pathlib.Path(NVMFSPEC).read_bytes()
    assert [n for n in names() if f"\0{n}\0".encode() in program] == []


def test_only_one_preset_plants():
    presets = json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"]
    assert [p["name"] for p in presets if "NVMF_PLANT" in p.get("cacheVariables", {})] == ["plant"]


def test_a_release_with_bugs_does_not_configure(tmp_path):
    run = subprocess.run(["cmake", "-S", ROOT, "-B", tmp_path, "-DNVMF_PLANT=ON",
                          "-DCMAKE_BUILD_TYPE=RelWithDebInfo"], capture_output=True, text=True)
    assert run.returncode != 0 and "NVMF_PLANT" in run.stderr


@pytest.mark.plants
@pytest.mark.timeout(1800)  # it builds
def test_bugs_are_found_over_tcp(tmp_path):
    """Quick ones, and one that no time is left for: how long any takes is the machine's affair."""
    quick = ["nqn-end", "property-offset", "icreq-twice"]
    run = subprocess.run([ROOT / "fuzz/plants", "--tcp", "--limit", "60", "--out", tmp_path, *quick],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "found 3 of 3 over TCP, 3 with a sequence and a capture that replay" in run.stdout
    for name in quick:
        text = (tmp_path / f"tcp/{name}.seq").read_text()
        assert "sequence host" in text and len(text.splitlines()) < 20
        assert (tmp_path / f"tcp/{name}.pcap").stat().st_size > 100
    run = subprocess.run([ROOT / "fuzz/plants", "--tcp", "--limit", "0", "--out", tmp_path, "kato-zero"],
                         capture_output=True, text=True)
    assert run.returncode == 1 and "NOT FOUND" in run.stdout and "found 0 of 1" in run.stdout
    assert not (tmp_path / "tcp/kato-zero.seq").exists()
