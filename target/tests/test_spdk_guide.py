# SPDX-License-Identifier: BSD-3-Clause
"""peers/spdk_guide says which step failed, and why: run with programs of a line in the place of SPDK's rpc.py; and all of
it, where NVMFSPEC_SPDK names a checkout of SPDK."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
SCRIPT = pathlib.Path(__file__).parent / "peers/spdk_guide"
SPDK = os.environ.get("NVMFSPEC_SPDK")


def guide(folder, program=NVMFSPEC):
    return subprocess.run([SCRIPT, folder, program], capture_output=True, text=True, timeout=300)


def rpc(folder, text):
    (folder / "scripts").mkdir()
    (folder / "scripts/rpc.py").write_text(text)
    return folder


@pytest.mark.parametrize("text,says", [
    ("import sys; sys.exit('no such socket')", "rpc.py framework_wait_init: no such socket"),
    ("print('[]')", "framework_wait_init"),
    ("import sys; print('true' if 'framework_wait_init' in sys.argv else '{}')", "spdk_get_version has no version"),
])
def test_a_step_that_fails_is_named(tmp_path, text, says):
    ran = guide(rpc(tmp_path, text))
    assert ran.returncode == 1 and f"FAILED  start: {says}" in ran.stdout, ran
    assert ran.stdout.endswith("0 passed, 1 failed\n")


def test_what_follows_is_looked_at(tmp_path):
    """A program that says yes to everything does nothing."""
    text = """import sys
print({"framework_wait_init": "true", "spdk_get_version": '{"version": "x"}',
       "rpc_get_methods": '["nvmf_create_transport"]'}.get(sys.argv[3], "[]"))"""
    ran = guide(rpc(tmp_path, text))
    assert ran.returncode == 1 and "ok      start" in ran.stdout and "FAILED  transport: " in ran.stdout, ran


def test_no_target(tmp_path):
    ran = guide(tmp_path, "/bin/false")
    assert ran.returncode == 1 and "FAILED  start: the target does not listen" in ran.stdout, ran


if SPDK:
    def test_all_of_it():
        ran = guide(SPDK)
        assert ran.returncode == 0 and ran.stdout.endswith("11 passed, 0 failed\n"), ran
