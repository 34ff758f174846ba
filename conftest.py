# SPDX-License-Identifier: BSD-3-Clause
"""Tests that lay our work beside another program's: @pytest.mark.needs("tshark"). Where it is missing
they are skipped; in ci/test, which has installed it, they fail."""
import os
import shutil

import pytest


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        missing = [program for program in mark.args if not shutil.which(program)]
        if missing:
            says = f"NOT COMPARED: {' and '.join(missing)} not installed (ci/setup does that)"
            (pytest.fail if os.environ.get("NVMFSPEC_NEEDS") == "fail" else pytest.skip)(says)
