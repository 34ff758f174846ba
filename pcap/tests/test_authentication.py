# SPDX-License-Identifier: BSD-3-Clause
"""Authentication between the kernel's host and target, judged from a capture of it, without the keys."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))


@pytest.mark.lab
def test_lab(tmp_path):
    done = subprocess.run(
        [ROOT / "ci/lab", "--timeout", "120", "--out", tmp_path, "--", "bash",
         str(ROOT / "pcap/tests/lab/kernel_authentication.sh"), str(tmp_path)],
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    checked = subprocess.run(
        [NVMFSPEC, "pcap", "check", "--all", tmp_path / "authentication.pcap"],
        capture_output=True, text=True, timeout=60).stdout
    assert "5 connections, 0 gaps" in checked
    found = re.findall(r"(?:connection (\d+) |^  (\w+) \w+ (fab/auth/[a-z-]+))", checked, re.M)
    blamed = [(connection, who, rule) for (connection, *_), (_, who, rule) in zip(found, found[1:])
              if rule]
    assert blamed == [("5", "host", "fab/auth/response-of-host")]
