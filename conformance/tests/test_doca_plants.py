# SPDX-License-Identifier: BSD-3-Clause
"""The weak spots that the reference's source shows, each planted once: the suite finds every one, by a case about it."""
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

# Who has it: a target of its own process, which may end; the suite's, for what needs a data path; or our requester.
FOUND = [
    ("doca-context-end", "target", "doca/connection/context"),
    ("doca-blob-end", "target", "doca/frame/payload-service"),
    ("doca-blob-end", "target", "doca/frame/blob-endless"),
    ("doca-frame-short", "target", "doca/frame/size-service"),
    ("doca-frame-short", "target", "doca/frame/size-0"),
    ("doca-type-ends", "target", "doca/frame/type-service"),
    ("doca-close-unseen", "target", "doca/gone/half-closed"),
    ("doca-short-write", "target", "doca/answer/slow-reader"),
    ("doca-stop-count", "embedded", "doca/io/type-result"),
    ("doca-stop-count", "embedded", "doca/io/type-4"),
    ("doca-range", "embedded", "doca/io/storage-end"),
    ("doca-range", "embedded", "doca/io/storage-across"),
    ("doca-error-masked", "requester", "doca/refused/read"),
    ("doca-error-masked", "requester", "doca/refused/write"),
]


@pytest.fixture(scope="module", autouse=True)
def built():
    subprocess.run(["cmake", "--preset", "plant"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "plant", "-j", os.environ.get("JOBS", "2"), "--target", "nvmfspec"],
                   cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def with_plant(plant):
    return dict(os.environ, NVMF_PLANT=plant)


def verdict(case, *args, plant=""):
    """Of one case, whose run may come to nothing but that."""
    run = subprocess.run([PROGRAM, "conform", "-t", "doca", "--json", "-", "-j", "1", *args, case], capture_output=True, text=True, timeout=600,
                         env=with_plant(plant))
    assert run.returncode in (0, 1, 3), run.stdout + run.stderr
    result, = (r for r in json.loads(run.stdout)["results"] if r["id"] == case)
    print(plant, case, result["verdict"], result.get("seen"))
    return result["verdict"]


def verdict_on_target(case, plant):
    target = subprocess.Popen([PROGRAM, "target", "-t", "doca", "-s", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, env=with_plant(plant))
    try:
        port = re.match(r"listening on doca:127\.0\.0\.1:(\d+)", target.stdout.readline())[1]
        return verdict(case, "-a", "127.0.0.1", "-s", port)
    finally:
        target.kill()
        target.wait()
        target.stdout.close()


def judge(case, whose, plant):
    if whose == "target":
        return verdict_on_target(case, plant)
    return verdict(case, *(["--role", "host"] if whose == "requester" else []), plant=plant)


def test_none_is_left_out():
    assert {plant for plant, _, _ in FOUND} == set(PLANTS) and len(PLANTS) == 9


@pytest.mark.parametrize("plant, whose, case", FOUND)
def test_weak_spots_are_found(plant, whose, case):
    assert judge(case, whose, "") == "pass"
    assert judge(case, whose, plant) in ("fail", "lenient", "advice")
