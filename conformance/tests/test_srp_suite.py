# SPDX-License-Identifier: BSD-3-Clause
"""SRP's suite against our own target and initiator, over verbs in memory: what is right passes, what is broken is found."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
ROLES = ["target", "host"]


def conform(*args, status=0):
    run = subprocess.run([NVMFSPEC, "conform", "-t", "srp", *map(str, args)], capture_output=True, text=True, timeout=500)
    assert run.returncode == status, run.stdout + run.stderr
    return run.stdout + run.stderr


def report(tmp_path, *args, status=0):
    path = tmp_path / "report.json"
    conform("--json", path, *args, status=status)
    return {result["id"]: result for result in json.loads(path.read_text())["results"]}


def listed(tmp_path, *args):
    path = tmp_path / "list.json"
    conform(*args, "--list", "--json", path)
    return json.loads(path.read_text())["cases"]


@pytest.mark.parametrize("role, least", [("target", 150), ("host", 75)])
def test_there_are_as_many_cases(tmp_path, role, least):
    cases = listed(tmp_path, "--role", role)
    ids = [case["id"] for case in cases]
    assert len(ids) >= least and len(set(ids)) == len(ids)
    assert all(case["requirement"] and not case["requirement"].endswith(".") for case in cases)


def test_who_is_silent_is_judged_by_a_rule(tmp_path):
    """No sentence of the standard can be read that asks for an answer: where a case has no rule, silence would fail."""
    cases = listed(tmp_path)
    assert not [c["id"] for c in cases if "is answered, or ends the channel" in c["requirement"] and not c["rules"]]
    assert [c["id"] for c in cases if not c["rules"]]  # what harms others needs none


@pytest.mark.parametrize("role", ROLES)
def test_ours_pass_strictly(tmp_path, role):
    seen = report(tmp_path, "--role", role, "--strict")
    wrong = {i: r for i, r in seen.items() if r["verdict"] not in ("pass", "info")}
    assert not wrong, wrong


@pytest.mark.parametrize("role", ROLES)
def test_power(role):
    """Each rule that a case names is found when it alone is broken, or overlooked."""
    said = conform("--role", role, "--power")
    tried, of = re.search(r"power: (\d+) of (\d+)", said).groups()
    assert tried == of and int(of) >= (50 if role == "target" else 4), said
    assert "SURVIVED" not in said and "no use" not in said


def test_live_is_what_a_case_names(tmp_path):
    path = tmp_path / "rules.json"
    conform("--rules", "--json", path)
    for rule in json.loads(path.read_text())["rules"]:
        assert rule["live"] == bool(rule["cases"] or rule["host_cases"]), rule["id"]


def test_what_can_be_broken_is_named(tmp_path):
    """What the target has a way to break, or is to notice, a case names: --power tries it."""
    path = tmp_path / "rules.json"
    conform("--rules", "--json", path)
    for rule in json.loads(path.read_text())["rules"]:
        if rule["violators"]:
            assert rule["cases"], rule["id"]


@pytest.mark.parametrize("rule, case", [
    ("srp/tag/response", "srp/tag/response"), ("srp/iu/type-target", "srp/iu/type-target"),
    ("srp/login/tag", "srp/login/tag"), ("srp/response/parts", "srp/response/parts"),
    ("srp/logout/disconnect-answered", "srp/logout/disconnect-idle")])
def test_a_target_that_breaks_what_everybody_needs_fails(tmp_path, rule, case):
    result = report(tmp_path, "--violate", rule, case, status=1)[case]
    assert (result["verdict"], result["rule"]) == ("fail", rule)


@pytest.mark.parametrize("rule, case", [
    ("srp/limit/returned", "srp/limit/returned"), ("srp/response/count", "srp/response/read-under"),
    ("srp/login/older-end", "srp/login/older-end"), ("srp/transfer/memory", "srp/transfer/no-more-than-there-is"),
    ("srp/logout/ends", "srp/logout/ends"), ("srp/tag/target-waits", "srp/tag/target-waits")])
def test_a_target_that_departs_from_our_reading_is_advised(tmp_path, rule, case):
    result = report(tmp_path, "--violate", rule, case)[case]
    assert (result["verdict"], result["rule"]) == ("advice", rule)


@pytest.mark.parametrize("rule, case, verdict, status", [
    # A first limit below zero: nothing may be sent until credit comes, which it does not.
    ("srp/login/limit", "srp/tag/zero", "advice", 0), ("srp/login/limit", "srp/iu/type-target", "advice", 0),
    # What was not aborted is answered.
    ("srp/task-management/result", "srp/task-management/abort-last", "skip", 77),
    ("srp/task-management/result", "srp/task-management/tag-again", "skip", 77),
    ("srp/task-management/result", "srp/task-management/reset-told", "skip", 77),
    # IUs longer than it accepts are not sent.
    ("srp/login/it-iu-granted", "srp/iu/length-target", "skip", 0)])
def test_a_rule_that_is_held_is_not_broken_by_something_else(tmp_path, rule, case, verdict, status):
    assert report(tmp_path, "--violate", rule, case, status=status)[case]["verdict"] == verdict


def test_a_request_limit_that_shrinks_is_kept(tmp_path):
    """The target gives nothing back, and nobody sends more than it has given: it ends no channel."""
    case = "srp/limit/whole-again"
    result = report(tmp_path, "--violate", "srp/limit/returned", case)[case]
    assert result["verdict"] == "advice" and "limit of 0" in result["seen"]


def test_a_disconnect_that_is_not_answered_harms_nobody(tmp_path):
    case = "srp/logout/disconnect-idle"
    result = report(tmp_path, "--violate", "srp/logout/disconnect-answered", case, status=1)[case]
    assert "no longer answers" not in result["seen"]


def test_lost_data_is_harm(tmp_path):
    """However little of it is printed: a READ that brings nothing fails."""
    result = report(tmp_path, "--violate", "srp/transfer/whole", "srp/transfer/direct", status=1)["srp/transfer/direct"]
    assert result["verdict"] == "fail" and "bytes differ" in result["seen"]


@pytest.mark.parametrize("rule", ["srp/command/table", "srp/iu/length-initiator", "srp/limit/overrun"])
def test_a_target_that_overlooks_is_advised(tmp_path, rule):
    seen = report(tmp_path, "--waive", rule, "--rule", rule)
    assert "advice" in {r["verdict"] for r in seen.values()}


def test_an_initiator_that_breaks_a_rule_fails(tmp_path):
    case = "srp/tag/credit-request"
    result = report(tmp_path, "--role", "host", "--violate", "srp/tag/answer", case, status=1)[case]
    assert (result["verdict"], result["rule"]) == ("fail", "srp/tag/answer")


def test_an_initiator_that_overlooks_is_advised(tmp_path):
    case = "srp/login/tag"
    assert report(tmp_path, "--role", "host", "--waive", case, case)[case]["verdict"] == "advice"


def test_a_hook_that_does_nothing():
    """Without an RDMA device it is not even asked."""
    assert "1 passed" not in conform("--role", "host", "--hook", "true", "srp/login/session", status=3)


def test_what_is_explained():
    said = conform("--explain", "srp/login/older-end")
    assert "A single login ends the older channel" in said and "expect_ended" in said
    assert "if broken: rejection" in conform("--explain", "srp/login/it-iu-length")


def test_usage():
    assert "is not 32 hexadecimal digits" in conform("--target-id", "12", status=2)
    assert "--hook is for --role host" in conform("--hook", "true", status=2)
    assert "--target-id" in conform("--help")
