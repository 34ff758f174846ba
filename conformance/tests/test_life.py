# SPDX-License-Identifier: BSD-3-Clause
"""What happens around the cases: targets that die or leak, and runs that share one."""
import contextlib
import json
import os
import pathlib
import re
import select
import socket
import struct
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = pytest.mark.calm(0.3)  # what lies between is in this process


class Between:
    """Stands before the reference target and spoils connections: subclasses say how."""

    def __init__(self, folder, *args):
        self.dead, self.open, self.kept = folder / "dead", set(), []
        self.target = subprocess.Popen([NVMFSPEC, "target", "-a", "127.0.0.1", "-s", "0", "--quiet",
                                        "--profile", "strict", *map(str, args)],
                                       stdout=subprocess.PIPE, text=True)
        self.port = int(re.match(r"listening on 127\.0\.0\.1:(\d+)", self.target.stdout.readline())[1])
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.where = ["-a", "127.0.0.1", "-s", str(self.listener.getsockname()[1]), "--allow-write", "1"]
        threading.Thread(target=self.serve, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()
        self.target.terminate()
        self.target.wait(timeout=10)
        self.target.stdout.close()
        for s in self.kept:
            s.close()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.dead.exists():
                    reset(client)
                else:
                    threading.Thread(target=self.carry, args=(client,), daemon=True).start()

    def carry(self, client):
        server = socket.create_connection(("127.0.0.1", self.port))
        self.open |= {client, server}
        first = True
        with contextlib.suppress(OSError, ValueError):
            while True:
                for s in select.select([client, server], [], [])[0]:
                    data = s.recv(1 << 16)
                    if s is client and first and self.kills(data):
                        self.die()
                    first &= s is not client
                    (server if s is client else client).sendall(data)
                    if not data:
                        raise OSError
        server.close()
        self.close(client)
        self.open -= {client, server}

    def kills(self, data):
        """What begins like that ends the target."""
        return False

    def die(self):
        self.dead.touch()
        for s in list(self.open):
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def close(self, client):
        client.close()


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()


def conform(*args, code=0):
    done = subprocess.run([NVMFSPEC, "conform", *map(str, args), "--json", "-"], capture_output=True, text=True,
                          timeout=240)
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return {r["id"]: r for r in json.loads(done.stdout)["results"]}


# --- leaks ----------------------------------------------------------------------------------------

class Leaks(Between):
    def close(self, client):
        self.kept.append(client)


def test_connections_that_the_target_never_closes_are_counted(tmp_path):
    with Leaks(tmp_path) as peer:
        found = conform(*peer.where, "fab/property", "--timeout-scale", "0.4")
    leak = found.pop("noticed/leak")
    assert leak["verdict"] == "advice" and "were still open after 2000 ms" in leak["seen"]
    leaked, closed = map(int, re.match(r"(\d+) of (\d+) connections", leak["seen"]).groups())
    assert leaked == closed >= len(found)
    assert {r["verdict"] for r in found.values()} <= {"pass", "info", "skip"}


def test_a_target_that_closes_does_not_leak(tmp_path):
    with Between(tmp_path) as peer:
        assert "noticed/leak" not in conform(*peer.where, "fab/property", "--timeout-scale", "3")


# --- death ----------------------------------------------------------------------------------------

DEADLY = "tcp/icreq/pfv-1"


class Dies(Between):
    """Of an ICReq with PFV 1."""

    def kills(self, data):
        return len(data) == 128 and data[0] == 0 and struct.unpack_from("<H", data, 8)[0] == 1


CASES = ("tcp/icreq", "tcp/header", "fab/property", "--timeout-scale", "3")


def test_who_killed_it_is_found_after_a_restart(tmp_path):
    with Dies(tmp_path) as peer:
        found = conform(*peer.where, *CASES, "--restart", f"rm -f {peer.dead}", code=1)
    guilty = [i for i, r in found.items() if r["verdict"] == "fail"]
    assert guilty == [DEADLY]
    assert found[DEADLY]["harm"] is True and "this case, run alone, ends it" in found[DEADLY]["seen"]
    assert not [i for i, r in found.items() if r["verdict"] == "error"]


def test_without_a_restart_bystanders_are_interrupted(tmp_path):
    with Dies(tmp_path) as peer:
        found = conform(*peer.where, *CASES, code=1)
    failed = [r for r in found.values() if r["verdict"] == "fail"]
    assert len(failed) == 1 and "it no longer answers" in failed[0]["seen"]
    assert failed[0]["id"] == DEADLY or DEADLY in failed[0]["seen"]
    errors = {r["seen"].split(":")[0] for r in found.values() if r["verdict"] == "error"}
    assert errors <= {"interrupted", "not run"} and errors


def test_a_target_that_does_not_come_back(tmp_path):
    with Dies(tmp_path) as peer:
        found = conform(*peer.where, *CASES, "--restart", "false", code=1)
    assert len([r for r in found.values() if r["verdict"] == "fail"]) == 1
    assert any(r["seen"] == "not run: --restart did not bring the system under test back" for r in found.values()
               if r["verdict"] == "error")


class DiesOnce(Dies):
    def kills(self, data):
        return super().kills(data) and not (self.dead.with_name("died").exists() or
                                            self.dead.with_name("died").touch())


def test_a_death_that_no_case_alone_explains(tmp_path):
    with DiesOnce(tmp_path) as peer:
        found = conform(*peer.where, *CASES, "--restart", f"rm -f {peer.dead}", code=1)
    assert [i for i, r in found.items() if r["verdict"] in ("fail", "error")] == ["noticed/death"]
    assert DEADLY in found["noticed/death"]["note"]


# --- two runs at once -----------------------------------------------------------------------------

WRITING = ("tcp/h2cdata", "tcp/c2hdata", "tcp/r2t", "nvm/read", "nvm/write", "nvm/compare", "nvm/dsm", "nvm/fused",
           "--repeat", "8", "-j", "8", "--timeout-scale", "3")


def both(one, other):
    runs = [subprocess.Popen([NVMFSPEC, "conform", *map(str, args), *WRITING, "--json", "-"],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for args in (one, other)]
    return [json.loads(run.communicate(timeout=240)[0])["results"] for run in runs]


def test_runs_with_slices_do_not_meet(tmp_path):
    with Between(tmp_path) as peer:
        at = ["-a", "127.0.0.1", "-s", peer.port, "--allow-write", "1:0+4096", "--slice"]
        for results in both([*at, "1/2"], [*at, "2/2"]):
            assert {r["verdict"] for r in results} <= {"pass", "info", "skip"}


@pytest.mark.parametrize("blocks", ["512", "4096", "131072"])
def test_runs_on_one_machine_take_turns(tmp_path, blocks):
    """They may write to the same blocks, and each waits until the other has done with them."""
    with Between(tmp_path) as peer:
        at = ["-a", "127.0.0.1", "-s", peer.port, "--allow-write", f"1:0+{blocks}"]
        for results in both(at, at):
            assert {r["verdict"] for r in results} <= {"pass", "info", "skip"}


def test_what_another_run_writes_is_no_failure(tmp_path):
    """Both have the same slot, and know the target by different addresses. They may miss each other."""
    met = []
    with Between(tmp_path) as peer:
        for _ in range(20):
            results = sum(both(["-a", "127.0.0.1", "-s", peer.port, "--allow-write", "1:0+512"],
                               [*peer.where[:-1], "1:0+512"]), [])
            assert not [r for r in results if r["verdict"] == "fail"]
            met = met or [r for r in results if r["verdict"] == "error"]
            if met:
                break
    assert met and all("interrupted: another run of the suite " in r["seen"] for r in met)


@pytest.mark.parametrize("part", ["0/2", "3/2", "1", "1/2/3", "-1/2"])
def test_a_slice_that_is_none(part):
    done = subprocess.run([NVMFSPEC, "conform", "--slice", part], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--slice" in done.stderr
