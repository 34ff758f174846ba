# SPDX-License-Identifier: BSD-3-Clause
"""SRP's suite against the Linux kernel's target, in the lab's guest."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


def guest(out, *options, timeout=400, **environment):
    env = [f"{name}={value}" for name, value in {"NVMFSPEC": NVMFSPEC, **environment}.items()]
    return subprocess.run(
        [ROOT / "ci/lab", "--timeout", str(timeout), "--out", out, "--", "env", *env, "bash",
         ROOT / "conformance/tests/lab/srp.sh", *options],
        capture_output=True, text=True, cwd=ROOT, timeout=timeout + 60)


def test_ib_srpt_fails_only_where_it_is_known_to(tmp_path):
    run = guest(tmp_path, "--json", f"{tmp_path}/report.json")
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    seen = [result["verdict"] for result in json.loads((tmp_path / "report.json").read_text())["results"]]
    assert seen.count("pass") > 60 and "error" not in seen


def deadly():
    lines = (ROOT / "conformance/baseline/ib_srpt-deadly.txt").read_text().splitlines()
    return [line.split()[:2] for line in lines if line and line[0] != "#"]


@pytest.mark.parametrize("case, how", [row for row in deadly() if row[1] != "chance"], ids=lambda value: value)
def test_what_takes_the_kernel_down_still_does(tmp_path, case, how):
    """Else its line in ib_srpt-deadly.txt is to go."""
    run = guest(tmp_path, case, timeout=60, DEADLY="yes", BASELINE="/dev/null")
    said = run.stdout + run.stderr
    assert "Kernel panic" in said if how == "panic" else run.returncode != 0, said
