# SPDX-License-Identifier: BSD-3-Clause
"""The table of methods in doc/target.md: a row for each that there is, and for each that SPDK's users call."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
KINDS = "same", "differs", "ours", "not there"
DOCUMENT = (ROOT / "doc/target.md").read_text()
RECORDED = ROOT / "target/tests/spdk/requests.jsonl"
# By version: parameters by method, members of objects as "object.member"; out of SPDK's schema/schema.{json,yaml}.
SPDK = json.loads((ROOT / "target/tests/spdk/methods.json").read_text())


def rows_of(document):
    """{method: (kind, remark)}"""
    found = re.findall(rf"^\| `(\w+)` \| ({'|'.join(KINDS)}) \| (.*?) ?\|$", document, re.M)
    assert len({m for m, _, _ in found}) == len(found), "a method has two rows"
    return {m: (kind, remark) for m, kind, remark in found}


def ctl(*args):
    return subprocess.run([NVMFSPEC, "ctl", *args], capture_output=True, text=True, check=True,
                          timeout=30).stdout.splitlines()


ROWS = rows_of(DOCUMENT)
METHODS = ctl("--methods")  # test_rpc.py: those of rpc_get_methods


def faults(rows, methods, recorded):
    there = {m for m, (kind, _) in rows.items() if kind != "not there"}
    yield from (f"{m} has no row" for m in methods if m not in there)
    yield from (f"{m} is not there" for m in there if m not in methods)
    yield from (f"{m} is called by SPDK's scripts and has no row" for m in recorded if m not in rows)
    yield from (f"{m}: {kind}" for m, (kind, _) in rows.items() if m.startswith("nvmfspec_") != (kind == "ours"))
    yield from (f"{m} does not say how" for m, (kind, remark) in rows.items() if not remark and kind in KINDS[1::2])


def test_each_method_of_spdk_has_its_row():
    """Of the versions that the document names."""
    assert all(f"{version}," in DOCUMENT for version in SPDK)
    assert {m for methods in SPDK.values() for m in methods} - set(ROWS) == set()
    assert {m for m, (kind, _) in ROWS.items() if kind != "ours"} - {m for v in SPDK.values() for m in v} == set()


def other_parameters(ours, kind, remark, versions):
    """Where a method has not SPDK's parameters, of whichever version, and its row does not name them."""
    theirs = {p for params in versions for p in params}
    for p in sorted(theirs ^ set(ours)):
        if kind == "same" or f"`{p.split('.')[-1]}`" not in remark:
            yield p


@pytest.mark.parametrize("method", [m for m in METHODS if not m.startswith("nvmfspec_")])
def test_parameters_are_those_of_spdk(method):
    ours = [line.split()[0] for line in ctl("--params", method)]
    assert list(other_parameters(ours, *ROWS[method], [v[method] for v in SPDK.values()])) == []


def test_another_parameter_is_found():
    versions = [["a", "b"], ["a", "o.c"]]
    assert list(other_parameters(["a", "b", "o.c"], "same", "", versions)) == []
    assert list(other_parameters(["a", "d"], "differs", "no `b`", versions)) == ["d", "o.c"]
    assert list(other_parameters(["a", "o.c"], "same", "`b`", versions)) == ["b"]


def test_each_method_has_its_row():
    recorded = {json.loads(line)["method"] for line in RECORDED.read_text().splitlines()}
    assert list(faults(ROWS, METHODS, recorded)) == []


@pytest.mark.parametrize("method", METHODS)
def test_what_is_the_same_takes_all_parameters(method):
    """One that has no effect, or one value, is a difference; the latter is named."""
    params = ctl("--params", method)
    kind, remark = ROWS[method]
    assert kind != "same" or not [p for p in params if "changes nothing here" in p or "has one value" in p]
    for param in params:
        if "has one value" in param:
            assert "`%s`" % param.split()[0].split(".")[-1] in remark


def test_faults_are_found():
    rows = rows_of("| `a` | same | |\n| `b` | differs | |\n| `c` | not there | x |\n| `d` | ours | |\n")
    assert list(faults(rows, ["a", "b", "e"], {"c", "f"})) == [
        "e has no row", "d is not there", "f is called by SPDK's scripts and has no row", "d: ours",
        "b does not say how"]
