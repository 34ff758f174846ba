# SPDX-License-Identifier: BSD-3-Clause
"""What was once judged wrongly: verdicts.tsv names the tests that hold each point, and these are there.

Points about a row of the rulebook (how binding it is, what it rests on, which reaction is prescribed) are
held by the table below: what `nvmfspec conform --explain RULE` has to say, and what not.
"""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
POINTS = [line.split("\t") for line in (ROOT / "conformance/tests/verdicts.tsv").read_text().splitlines()
          if line and not line.startswith("#")]


def holds(test):
    """FILE::NAME, NAME a function of that file, or the key of a row in one of its tables."""
    file, name = test.split("::")
    text = (ROOT / file).read_text()
    if file.endswith(".c"):
        return re.search(rf"\b{re.escape(name)}(\(|,)", text)
    if name.startswith("test_"):
        return re.search(rf"^def {re.escape(name)}\(", text, re.M)
    return re.search(rf'^    (\(?"{re.escape(name)}"[:,]|\({re.escape(name)}, )', text, re.M)


def test_each_point_is_told_in_three_columns():
    assert all(len(point) == 3 and all(point) for point in POINTS)
    assert len({what for _, what, _ in POINTS}) == len(POINTS) > 70


@pytest.mark.parametrize("what, tests", [point[1:] for point in POINTS], ids=[what for _, what, _ in POINTS])
def test_a_point_is_held(what, tests):
    assert [test for test in tests.split() if not holds(test)] == []


# Rule: what is said of it, and what is not (with a minus).
ROWS = [
    ("fab/nsid/unused", "binds the host, must", "Invalid Field in Command (0/02h) (printed)"),
    ("fab/nsid/invalid", "error status: Invalid Namespace or Format (0/0Bh) (printed)"),
    ("fab/nsid/inactive", "error status: Invalid Field in Command (0/02h) (printed)"),
    ("fab/sgl/short", "error status: Data SGL Length Invalid (0/0Fh) (printed)"),
    ("fab/property/reserved", "binds the controller, must, B2.2 3.1.4", "(printed)"),
    ("base/identify/maxcmd", "binds the controller, must", "(printed)"),
    ("fab/connect/data-length", "Data SGL Length Invalid (0/0Fh)", "-0/02h"),
    ("fab/connect/qid-not-granted", "(own reading)"),
    ("base/feature/fid", "B2.2 4.4 "),
    ("fab/auth/fresh", "should, B2.2 8.3.4.5.3"),
    ("fab/auth/hash", "B2.2 8.3.4.5.2 "),
    ("fab/auth/dh-group", "B2.2 8.3.4.5.2 "),
    ("fab/auth/lengths", "B2.2 8.3.4.5.2, "),
    ("fab/auth/order", "B2.2 8.3.4.5.1 "),
    ("fab/auth/t-id", "B2.2 8.3.4.5.1 "),
    ("fab/shutdown/complete", "-RTD3E"),
    ("fab/association/admin-lost", "B2.2 3.1.2", "-R1.0"),
    ("rdma/sgl/overflow", "error status: Data SGL Length Invalid (0/0Fh) (printed)", "-end of the connection"),
    ("tcp/r2t/ttag-unique", "should, T1.0 3.6.2.10", "(own reading)"),
    ("tcp/termreq/no-answer", "PLEN below 24 or above 152"),
    ("tcp/alignment/pad-minimal-h2c", "must, T1.0 figures 24 and 26 (printed)", "nobody is required to detect it"),
    ("tcp/icresp/maxh2cdata-4096", "should, T1.0 3.6.2.3", "nobody is required to detect it"),
    ("tcp/setup/ic-timeout", "binds the host, must, T1.0 3.1 (printed)"),
    ("tcp/r2t/range", "Invalid PDU Header Field (01h)", "(own reading)", "-(04h)"),
    ("tcp/capsule/response-cid", "FEI 20"),
    ("tcp/capsule/in-capsule-length", "-offset 0", "-at offset"),
    ("tcp/capsule/in-capsule-limit", "admin or Fabrics command has at most 8256 bytes"),
    ("tcp/termreq/quiet-after-fault", "should", "(own reading)"),
    ("tcp/h2cdata/cccid", "binds the host, must, T1.0 3.6.2.8 (printed)"),
    ("tcp/h2cdata/ttag", "binds the host, must"),
    ("tcp/h2cdata/datal-dword", "T1.0 3.6.2.8 "),
    ("tcp/h2cdata/datao-dword", "T1.0 3.6.2.8 "),
    ("tcp/h2cdata/datal-plen", "T1.0 3.6.2.8 "),
    ("tcp/c2hdata/datal-dword", "T1.0 3.6.2.9 "),
    ("tcp/c2hdata/datao-dword", "T1.0 3.6.2.9 "),
    ("tcp/c2hdata/datal-plen", "T1.0 3.6.2.9 "),
    ("tcp/r2t/r2to-dword", "T1.0 3.6.2.10 "),
    ("tcp/r2t/r2tl-dword", "T1.0 3.6.2.10 "),
    ("tcp/alignment/pdo-h2c", "figure 8 "),
    ("tcp/alignment/pdo-c2h", "figure 9 "),
    ("tcp/setup/digest-unasked", "T1.0 3.3.1.1, "),
    ("tcp/capsule/sgl-type", "T1.0 3.3.2 "),
    ("tcp/discovery/trsvcid", "T1.0 3.1.2 ", "-leading zeroes"),
    ("rdma/discovery/trsvcid", "with AF_IB it is 16 hex digits", "without leading zeroes"),
    ("rdma/request/length", "no more than padding after them"),
    ("rdma/flow/host-receives", "should, R1.0 3.1.4", "(own reading)"),
    ("rdma/key/invalidated-check", "should, R1.0 3.6.1", "(own reading)"),
    ("rdma/key/valid", "R1.0 3.6.1 "),
    ("rdma/key/invalidate-key", "R1.0 3.6.1 "),
    ("rdma/key/invalidate-unasked", "R1.0 3.6.1 "),
    ("rdma/key/invalidate-early", "R1.0 3.6.1 "),
    ("rdma/request/ird", "R1.0 3.1.4, "),
    ("rdma/transfer/read-limit", "R1.0 3.1.4 "),
    # The same paragraph as read-limit, without a shall; but devices of iWARP set it as they will.
    ("rdma/accept/ird", "should, R1.0 3.1.4 (general rule)"),
    ("rdma/teardown/error-ends-queue", "should, R1.0 3.5.1", "(own reading)"),
    ("rdma/sgl/length", "at least as many bytes"),
    ("rdma/disconnect/answered", "-R1.0 3.2"),
]


@pytest.mark.parametrize("rule, says", [(row[0], row[1:]) for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_rule_says(rule, says):
    told = subprocess.run([NVMFSPEC, "conform", "--explain", rule], capture_output=True, text=True, check=True)
    row = told.stdout.split("\n\n")[0]
    assert row.startswith(rule + "\n")
    for part in says:
        assert (part[1:] not in row) if part.startswith("-") else (part in row), row


@pytest.fixture(scope="module")
def rulebook():
    out = subprocess.run([NVMFSPEC, "conform", "--rules", "--json", "-"], capture_output=True, text=True,
                         check=True).stdout
    return json.loads(out)["rules"]


def test_reserved_fields_have_one_level(rulebook):
    """What Base 1.4 says of them is the same everywhere; other sentences bind properties, and values."""
    others = {"fab/property/reserved", "fab/connect/cntlid-reserved", "base/fused/reserved"}
    levels = {(rule["level"], rule["basis"]) for rule in rulebook
              if rule["id"].endswith("reserved") and rule["id"] not in others}
    assert levels == {("should", "general rule")}


def test_sections_that_there_are_not_are_no_source(rulebook):
    """There is no 2.2 in the transports' specifications, and R1.0 3.2 has nothing of disconnecting."""
    assert [rule["id"] for rule in rulebook if re.search(r"[TR]1\.0[^;]*(?<![.\d])2\.2(?![.\d])", rule["source"])] == []
    assert [rule["id"] for rule in rulebook if re.search(r"R1\.0[^;]*(?<![.\d])3\.2(?![.\d])", rule["source"])] == []
