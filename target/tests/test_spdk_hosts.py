# SPDX-License-Identifier: BSD-3-Clause
"""peers/spdk_hosts says how each program ended, and fails where one has not ended well: run with programs of a line in
the place of SPDK's."""
import os
import pathlib
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
SCRIPT = pathlib.Path(__file__).parent / "peers/spdk_hosts"
HELLO = "echo 'Hello world!'"

ENDS = {
    "well": (HELLO, "ok      hello_world: Hello world!"),
    "with what SPDK always says": (f"{HELLO}; echo '[a,b,qid:1,DISCONNECTED] CQ transport error -6 *ERROR*' >&2",
                                   "ok      hello_world: Hello world!"),
    "with a status": (f"{HELLO}; echo 'x: *ERROR*: no such subsystem' >&2; exit 3",
                      "FAILED  hello_world: exit status 3: x: *ERROR*: no such subsystem"),
    "killed": ("kill -SEGV $$", "FAILED  hello_world: killed by signal 11: nothing printed"),
    "never": ("echo started; exec sleep 100", "FAILED  hello_world: timed out after 3 s: started"),
    "with an error printed": (f"{HELLO}; echo 'x: *ERROR*: data digest' >&2",
                              "FAILED  hello_world: printed 'x: *ERROR*: data digest'"),
    "without its work": ("echo bye", "FAILED  hello_world: did not print /^Hello world!$/"),
}


def hosts(folder, *options):
    return subprocess.run([SCRIPT, "--seconds", "1", *options, folder, NVMFSPEC], capture_output=True, text=True,
                          timeout=120)


def program(folder, name, line):
    path = folder / "build/examples" / name
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("how", ENDS)
def test_program_ends(how, tmp_path):
    line, said = ENDS[how]
    program(tmp_path, "hello_world", line)
    ran = hosts(tmp_path, "--only", "^hello_world$", *(["--limit", "3"] if how == "never" else []))
    assert ran.stdout.splitlines()[1] == said, ran
    assert ran.returncode == (0 if said.startswith("ok") else 1)


def test_program_is_missing(tmp_path):
    ran = hosts(tmp_path, "--only", "^hello_world$")
    assert ran.returncode == 1 and "FAILED  hello_world: not started: " in ran.stdout, ran


def test_nothing_run_is_no_success(tmp_path):
    ran = hosts(tmp_path, "--only", "^hello, wrld$")
    assert ran.returncode == 1 and ran.stdout.endswith("0 passed, 0 failed\n"), ran


def test_host_that_does_not_come_back(tmp_path):
    """It has its two connections, and ends well before the target has been killed: that is not what it is for."""
    program(tmp_path, "reconnect", "exit 0")
    ran = hosts(tmp_path, "--only", "^reconnect$")
    assert ran.returncode == 1 and "FAILED  reconnect: did not print /^Controller properly reset" in ran.stdout, ran


def test_terminated_leaves_nothing(tmp_path):
    program(tmp_path, "hello_world", f"echo $$ $PPID >{tmp_path}/pids; exec sleep 100")
    ran = subprocess.Popen([SCRIPT, "--only", "^hello_world$", tmp_path, NVMFSPEC], stdout=subprocess.DEVNULL)
    pids = tmp_path / "pids"
    end = time.monotonic() + 60
    while not (pids.exists() and pids.read_text().endswith("\n")):
        assert ran.poll() is None and time.monotonic() < end
        time.sleep(0.05)
    hello, script = map(int, pids.read_text().split())
    tasks = pathlib.Path(f"/proc/{script}/task/{script}/children").read_text().split()
    assert str(hello) in tasks and len(tasks) == 2  # and the target
    ran.terminate()
    assert ran.wait(60) == 143
    while any(pathlib.Path(f"/proc/{pid}").exists() for pid in tasks):  # whoever inherits them has to fetch them
        assert time.monotonic() < end
        time.sleep(0.05)


def test_target_that_does_not_listen(tmp_path):
    ran = subprocess.run([SCRIPT, "--only", "^hello_world$", tmp_path, "/bin/false"], capture_output=True, text=True,
                         timeout=60)
    assert ran.returncode == 1 and "FAILED  hello_world: the target does not listen: " in ran.stdout, ran
