# SPDX-License-Identifier: BSD-3-Clause
"""peers/spdk_target fails where the target does what the baseline does not say, and leaves no target behind: run with
our own target in the place of SPDK's."""
import os
import pathlib
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
SCRIPT = pathlib.Path(__file__).parent / "peers/spdk_target"
SERVE = """port=$(sed 's/.*"trsvcid": "\\([0-9]*\\)".*/\\1/' "$2")
(until grep -q 'listening on' /proc/$$/fd/1; do sleep 0.1; done; echo 'NVMe/TCP Target Listening') &
exec "$NVMFSPEC" target -s "$port" -n nqn.2026-01.org.example:spdk --ns mem:64M --ns mem:64M {}"""


def runs(pid):
    """Whether there is such a process, which has not ended (nobody may have waited for it yet)."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def suite(folder, line):
    path = folder / "build/bin/nvmf_tgt"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho $$ >{folder}/pid\n{line}\n")
    path.chmod(0o755)
    ran = subprocess.run([SCRIPT, folder, NVMFSPEC, "--", "tcp/icreq"], capture_output=True, text=True, timeout=120,
                         env={**os.environ, "NVMFSPEC": NVMFSPEC})
    end = time.monotonic() + 20
    while runs((folder / "pid").read_text().strip()):
        assert time.monotonic() < end, ran
        time.sleep(0.05)
    return ran


@pytest.mark.parametrize("options, status", [("", 0), ("--violate tcp/icresp/pfv", 1)])
def test_a_new_failure_fails(tmp_path, options, status):
    ran = suite(tmp_path, SERVE.format(options))
    assert ran.returncode == status, ran


def test_target_that_does_not_start(tmp_path):
    ran = suite(tmp_path, "echo 'EAL: no memory'; exit 1")
    assert ran.returncode == 1 and "nvmf_tgt does not listen" in ran.stderr, ran
