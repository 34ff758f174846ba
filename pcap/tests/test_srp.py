# SPDX-License-Identifier: BSD-3-Clause
"""The Linux kernel's SRP initiator (ib_srp) and target (ib_srpt, LIO) over rxe, captured in the lab: what
they say is shown, no rule is broken, it is measured, and replayed to our own target. Once with memory registration and immediate data, as by default,
and once with neither, for tables."""
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
SETTINGS = {
    "default": ("", ["out 4096 immediate", "in 16384 direct"]),
    "tables": ("ib_srp.never_register=Y ib_srp.register_always=N ib_srp.use_imm_data=N",
               [r"out 16384 indirect, ([2-4]) of \1 entries in line", "in 16384 indirect"]),  # pages side by side are one
}


@pytest.mark.lab
@pytest.mark.parametrize("name", SETTINGS)
def test_lab(name, tmp_path):
    parameters, expected = SETTINGS[name]
    done = subprocess.run(
        [ROOT / "ci/lab", "--timeout", "120", "--out", tmp_path, "--append", parameters, "--", "env",
         f"NVMFSPEC={NVMFSPEC}", "bash", str(ROOT / "pcap/tests/lab/srp.sh"), str(tmp_path)],
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert ", 2 connections, 0 gaps: 0 must and 0 should broken\n" in done.stdout
    assert "\nSRP commands: latency in us " in done.stdout
    same, allowed, different, skipped = map(int, re.search(
        r"(\d+) same, (\d+) allowed differences, (\d+) DIFFERENT, (\d+) skipped\n", done.stdout).groups())
    assert same > 10 and same + allowed > 25 and different == skipped == 0
    shown = subprocess.run([NVMFSPEC, "pcap", "show", tmp_path / "srp.pcap"], capture_output=True,
                           text=True).stdout
    for what in expected:
        assert re.search(what, shown), what
    for what in ["SRP_TSK_MGMT", "logical unit reset", "response code 0", "status CHECK CONDITION",
                 "REJECT SRP_LOGIN_REJ", "reason 10003h (cannot associate with the nexus)", "DISCONNECT"]:
        assert what in shown, what
