# SPDX-License-Identifier: BSD-3-Clause
"""The weak spots that the reference's source shows, each planted once: the suite finds every one."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "build-plant/nvmfspec"
PLANTS = re.findall(r'^PLANT\(\w+, "(doca-[^"]+)"', (ROOT / "pdu/core/plants.def").read_text(), re.M)
pytestmark = [pytest.mark.plants, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", autouse=True)
def built():
    subprocess.run(["cmake", "--preset", "plant"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "plant", "-j", os.environ.get("JOBS", "2"), "--target", "nvmfspec"],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def blamed(plant, *args):
    """The cases that do not pass with it; where the process died, what it said last."""
    run = subprocess.run([PROGRAM, "conform", "-t", "doca", "-o", "json", *args], capture_output=True, text=True, timeout=600,
                         env=dict(os.environ, NVMF_PLANT=plant))
    if run.returncode not in (0, 1):
        return {run.stderr[-2000:]}
    return {r["id"] for r in json.loads(run.stdout)["results"] if r["verdict"] not in ("pass", "skip")}


@pytest.fixture(scope="module")
def innocent():
    return blamed("") | blamed("", "--role", "host")


@pytest.mark.parametrize("plant", PLANTS)
def test_weak_spots_are_found(plant, innocent):
    found = blamed(plant, *(["--role", "host"] if plant == "doca-error-masked" else [])) - innocent
    print(plant, sorted(found))
    assert found
