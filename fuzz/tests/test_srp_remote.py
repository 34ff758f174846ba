# SPDX-License-Identifier: BSD-3-Clause
"""nvmfspec fuzz -t srp, without an address: to a target of its own over verbs in memory."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = pytest.mark.calm(0.1)


def fuzz(*args, status=0):
    done = subprocess.run([NVMFSPEC, "fuzz", *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_our_target_is_clean_and_the_corpus_is_kept(tmp_path):
    total = json.loads(fuzz("remote", "-t", "srp", "--runs", 400, "-o", tmp_path).splitlines()[-1])
    assert total["runs"] == 400 and total["findings"] == 0
    assert total["novelty"] > 150 and total["ends"]["done"] > 100 and total["ends"]["closed"] > 5
    kept = [p for p in tmp_path.rglob("*") if p.is_file()]
    assert kept and all("sequence srp host" in p.read_text() for p in kept)


def test_a_sequence_is_shown_mutated_and_played(tmp_path):
    text = tmp_path / "a.seq"
    text.write_text("sequence srp host queues=2\nlogin\nready\nwrite_immediate\nlogin on=1\nread_table keys=9 on=1\n"
                    "reset_lun\nready violate=srp/command/attribute\n")
    assert fuzz("show", text) == text.read_text()
    assert fuzz("mutate", text, 3) != text.read_text()
    played = fuzz("repro", "-t", "srp", "--settle", 2000, text)  # all that it has to say, on a busy machine, too
    for line in ("host      > SRP_LOGIN_REQ tag 1h", "controller< SRP_LOGIN_RSP tag 1h req_lim_delta 64",
                 "host      > SRP_CMD tag 3h lun 0 WRITE(10) out 512 immediate",
                 "1 host      > SRP_CMD tag 2h lun 0 READ(10) in 4096 indirect, 9 of 9 entries in line",
                 "host      > SRP_TSK_MGMT tag 4h function logical unit reset", "response code 0\n"):
        assert line in played, line + "\n" + played
    assert " after 7 steps" in played


@pytest.mark.parametrize("args, says", [
    (("--avoid", "tcp/icreq/pfv"), "no rule 'tcp/icreq/pfv'"), (("--target-id", "12"), "32 hexadecimal digits"),
    (("-s", "70000"), "'70000' is not a port"), (("-a", "192.0.2.1", "--fresh"), "--fresh needs --restart")])
def test_usage(args, says):
    assert says in fuzz("remote", "-t", "srp", "--runs", 1, *args, status=2)


def test_steps_that_are_none_are_named(tmp_path):
    text = tmp_path / "a.seq"
    text.write_text("sequence srp host\nlogin\nicreq\n")
    assert "line 3" in fuzz("repro", "-t", "srp", text, status=3)
    text.write_text("sequence srp host\nlogin\nread nonsense=1\n")
    assert "line 3: no field 'nonsense' in SRP_CMD" in fuzz("repro", "-t", "srp", text, status=3)
