# SPDX-License-Identifier: BSD-3-Clause
"""One item for each case, peer and set-up; see conftest.py for how to name a target."""
import pytest


def explain(result):
    lines = [f"{result['verdict']}  {result['id']}", result.get("requirement", "")]
    lines += [f"{k:9} {result[k]}" for k in ("expected", "seen", "rule", "note") if k in result]
    return "\n".join(lines + result.get("exchange", []))


def test_case(verdict_of):
    if verdict_of.get("baseline") == "listed":
        pytest.xfail(verdict_of.get("baseline_reason", "known failure"))
    if verdict_of["verdict"] == "skip":
        pytest.skip(verdict_of["note"])
    if verdict_of["verdict"] in ("fail", "error") or verdict_of.get("baseline") == "fixed":
        pytest.fail(explain(verdict_of), pytrace=False)


def test_nothing_else_was_noticed(results_of):
    """Rules that a target broke on the way, though no case looked for it."""
    noticed = [r for r in results_of.values() if r["id"].startswith(("noticed/", "probe/"))
               and r.get("baseline") != "listed" and r["verdict"] == "fail"]
    assert not noticed, "\n".join(explain(r) for r in noticed)
