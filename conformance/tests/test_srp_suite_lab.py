# SPDX-License-Identifier: BSD-3-Clause
"""SRP's suites against the Linux kernel's target and its initiator, in the lab's guest."""
import fnmatch
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BASELINE = ROOT / "conformance/baseline"
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1300)]


def guest(out, script, *options, timeout=400, **environment):
    env = [f"{name}={value}" for name, value in {"NVMFSPEC": NVMFSPEC, **environment}.items()]
    return subprocess.run(
        [ROOT / "ci/lab", "--timeout", str(timeout), "--out", out, "--", "env", *env, "bash",
         ROOT / "conformance/tests/lab" / script, *options],
        capture_output=True, text=True, cwd=ROOT, timeout=timeout + 60)


def judged(out, script, *options, timeout=400, **environment):
    """Ids and verdicts of a run in which nothing failed that is not known to."""
    run = guest(out, script, *options, "--json", f"{out}/report.json", timeout=timeout, **environment)
    print(run.stdout, run.stderr)
    assert run.returncode == 0
    seen = {r["id"]: r["verdict"] for r in json.loads((out / "report.json").read_text())["results"]}
    assert "error" not in seen.values()
    return seen


def rows(name):
    """The first words of each row."""
    lines = (BASELINE / name).read_text().splitlines()
    return [line.split()[:3] for line in lines if line and line[0] != "#"]


def deadly(name):
    return [row for row in rows(name) if row[1] != "chance"]


def still(seen, name):
    """What the baseline names comes as it says."""
    for case, verdict, _ in rows(name):
        assert {seen[i] for i in seen if fnmatch.fnmatchcase(i, case)} == {verdict}, case


def test_ib_srpt_fails_only_where_it_is_known_to(tmp_path):
    """And whatever else is named of it, it still does: else its row in ib_srpt.txt is to go."""
    seen = judged(tmp_path, "srp.sh", "shared")
    assert list(seen.values()).count("pass") > 150
    still(seen, "ib_srpt.txt")


def test_ib_srpt_with_immediate_data(tmp_path):
    """It grants that only to channels with receives of their own."""
    seen = judged(tmp_path, "srp.sh", "own", "srp/transfer/immediate", "srp/login/immediate")
    assert seen["srp/transfer/immediate"] == seen["srp/transfer/immediate-large"] == "pass"


@pytest.mark.parametrize("case, how, where", deadly("ib_srpt-deadly.txt"), ids=lambda value: value)
def test_what_takes_the_kernel_down_still_does(tmp_path, case, how, where):
    """Else its line in ib_srpt-deadly.txt is to go."""
    run = guest(tmp_path, "srp.sh", "shared" if where == "#" else where, case, timeout=60, DEADLY="yes",
                BASELINE="/dev/null")
    said = run.stdout + run.stderr
    assert "Kernel panic" in said if how == "panic" else run.returncode != 0, said


HOST_WORKS = ["srp/login/session", "srp/login/no-immediate", "srp/limit/two", "srp/command/large-blocks"]


def test_ib_srp_works_with_each_lawful_target(tmp_path):
    seen = judged(tmp_path, "srp_host.sh", *HOST_WORKS, "srp/reject/rejected")
    assert [seen[case] for case in HOST_WORKS] == ["pass"] * len(HOST_WORKS)


def test_ib_srp_fails_only_where_it_is_known_to(tmp_path):
    seen = judged(tmp_path, "srp_host.sh", timeout=600)
    assert list(seen.values()).count("pass") > 60
    still(seen, "linux-host-srp.txt")


@pytest.mark.parametrize("case, how", deadly("linux-host-srp-deadly.txt"), ids=lambda value: value)
def test_what_takes_the_initiator_down_still_does(tmp_path, case, how):
    """Else its line in linux-host-srp-deadly.txt is to go."""
    run = guest(tmp_path, "srp_host.sh", case, timeout=120, DEADLY="yes", BASELINE="/dev/null")
    said = run.stdout + run.stderr
    signs = {"warning": "WARNING", "hang": "it no longer answers"}
    assert run.returncode != 0 and signs[how] in said, said
