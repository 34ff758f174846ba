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
    code = "".join(p.read_text() for room in ("pdu", "target", "host") for p in (ROOT / room).glob("**/*.[ch]"))
    assert len(symbols) >= 50 and len(set(symbols)) == len(set(names())) == len(symbols)
    assert [s for s in symbols if f"PLANTED({s})" not in code] == []


def test_each_names_who_finds_it():
    found = re.findall(r'^PLANT\(\w+, "([^"]+)", "([^"]+)"', (ROOT / "pdu/core/plants.def").read_text(), re.M)
    targets = {p.stem for p in (ROOT / "fuzz/targets").glob("*.c")}
    assert [name for name, _ in found] == names()
    for name, by in found:
        target, *ways = by.split()
        assert set(ways) <= {"tcp", "rdma", "suite"} and (ways if target == "-" else target in targets)
        assert target == "-" or (ROOT / f"fuzz/planted/{name}.seq").exists()


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
    quick, reloads = ["nqn-end", "property-offset", "icreq-twice"], "port-twice"
    run = subprocess.run([ROOT / "fuzz/plants", "--tcp", "--limit", "300", "--out", tmp_path, *quick, reloads],
                         capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "found 4 of 4 over TCP, 4 with a sequence and a capture that replay" in run.stdout
    assert re.search(r"(?m)^reload \d", (tmp_path / f"tcp/{reloads}.seq").read_text())
    for name in quick:
        text = (tmp_path / f"tcp/{name}.seq").read_text()
        assert "sequence host" in text and len(text.splitlines()) < 20
        assert (tmp_path / f"tcp/{name}.pcap").stat().st_size > 100
    run = subprocess.run([ROOT / "fuzz/plants", "--tcp", "--limit", "0", "--out", tmp_path, "kato-zero"],
                         capture_output=True, text=True)
    assert run.returncode == 1 and "NOT FOUND" in run.stdout and "found 0 of 1" in run.stdout
    assert not (tmp_path / "tcp/kato-zero.seq").exists()
