# SPDX-License-Identifier: BSD-3-Clause
"""The suite as pytest items (conformance/pytest): what a spoilt target fails, alone and with workers."""
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALONE, WORKERS = (), ("-n", "2", "--dist", "loadgroup")
NOTICED = "test_nothing_else_was_noticed[embedded-plain]"


def items(case, *args):
    """Of one case and of what was noticed besides: which items passed and which failed."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA",
                           ROOT / "conformance/pytest", "-k", f"embedded-plain and ({case} or noticed)",
                           *args], capture_output=True, text=True, timeout=100, env=environment)
    found = re.findall(r"^(PASSED|FAILED) \S+::(.+?\])", done.stdout, re.M)
    assert found, done.stdout + done.stderr
    return {name: verdict for verdict, name in found}


@pytest.mark.parametrize("how", [ALONE, WORKERS], ids=["alone", "workers"])
def test_what_no_case_looked_for_fails_an_item_of_its_own(how):
    """With workers, too: the one that has this item has to have made the run."""
    case = "test_case[embedded-plain-nvm/read/beyond]"
    assert items("nvm/read/beyond]", *how) == {case: "PASSED", NOTICED: "PASSED"}
    assert items("nvm/read/beyond]", *how, "--conform", "--violate fab/queue/sqhd") == {
        case: "PASSED", NOTICED: "FAILED"}


def test_a_case_that_fails_fails_its_item():
    case = "test_case[embedded-plain-fab/connect/data-768]"
    assert items("data-768", "--conform", "--waive fab/connect/data-length") == {
        case: "FAILED", NOTICED: "PASSED"}
