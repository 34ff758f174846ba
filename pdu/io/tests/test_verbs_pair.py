# SPDX-License-Identifier: BSD-3-Clause
"""What is expected of real devices is expected of those in memory, too: the cases of test_verbs_lab.py
over verbs_memory.h, which then says of itself what rxe and siw do."""
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BUILD = Path(os.environ.get("NVMFSPEC", ROOT / "build/nvmfspec")).resolve().parent
PAIR = BUILD / "verbs_pair"
pytestmark = [pytest.mark.timeout(120),
              pytest.mark.skipif(not PAIR.exists(), reason="built without RDMA")]

# these are about the addresses, links and resources of a kernel
ELSEWHERE = {"addresses", "port_down", "removed", "many_connects"}


def cases():
    if not PAIR.exists():
        return []
    run = subprocess.run([PAIR, "list"], capture_output=True, text=True, check=True)
    return [c for c in run.stdout.split() if c not in ELSEWHERE]


@pytest.mark.parametrize("device", ["rxe", "siw"])
@pytest.mark.parametrize("case", cases())
def test_case(case, device):
    run = subprocess.run([PAIR, case], capture_output=True, text=True, timeout=100,
                         env={**os.environ, "VERBS_MEMORY": device})
    assert run.returncode == 0 and f"ok {case}\n" in run.stdout, run.stdout + run.stderr
