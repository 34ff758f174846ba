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


def test_ib_srpt_fails_only_where_it_is_known_to(tmp_path):
    run = subprocess.run(
        [ROOT / "ci/lab", "--timeout", "400", "--out", tmp_path, "--", "env", f"NVMFSPEC={NVMFSPEC}", "bash",
         ROOT / "conformance/tests/lab/srp.sh", "--json", f"{tmp_path}/report.json"],
        capture_output=True, text=True, cwd=ROOT, timeout=500)
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    seen = [result["verdict"] for result in json.loads((tmp_path / "report.json").read_text())["results"]]
    assert seen.count("pass") > 60 and "error" not in seen
