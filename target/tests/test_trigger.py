# SPDX-License-Identifier: BSD-3-Clause
"""Faults with a trigger, as users meet them: option, file and RPC, the log, the recording; hosts by hand, our own
host, and the suite over both transports. What each fault does: test_trigger.c."""
import json
import re
import signal
import struct
import subprocess
import time

import pytest

from test_rpc import NQN as RPC_NQN
from test_rpc import PARAMS, Failed
from test_rpc import Target as Driven
from test_target import NQN, NVMFSPEC, Queue, status, target

X = "nqn.2014-08.org.example:x"
Y = "nqn.2014-08.org.example:y"


class Host:
    """An admin and an I/O queue by hand."""

    def __init__(self, port, name, subsystem=NQN, qid=1):
        self.admin = Queue(port, host=name, subsystem=subsystem)
        self.admin.enable()
        self.io = Queue(port, qid=qid, cntlid=self.admin.cntlid, host=name, subsystem=subsystem)

    def send_read(self, blocks=1):
        sqe = struct.pack("<BBHI16xQI3xBQI12x", 2, 0x40, self.io.cid, 1, 0, blocks * 512, 0x5a, 0,
                          blocks - 1)
        self.io.cid += 1
        self.io.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 0, 72) + sqe)

    def read(self, blocks=1):
        """Its status; EOFError: the connection has ended."""
        self.send_read(blocks)
        head = self.io.receive(8)
        rest = self.io.receive(struct.unpack_from("<I", head, 4)[0] - 8)
        if head[0] == 5:
            return status(rest[:16]) & 0x7ff
        assert head[0] == 7 and head[1] & 0xc == 0xc, head  # C2HData with SUCCESS
        return 0

    def bytes_until_the_end(self):
        n = 0
        try:
            while more := self.io.socket.recv(65536):
                n += len(more)
        except ConnectionResetError:
            return n, True
        return n, False

    def close(self):
        self.io.close()
        self.admin.close()


def comments(path):
    """The comments of a pcapng file, by number of the frame."""
    data, at, frame, found = path.read_bytes(), 0, 0, {}
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 6:
            frame += 1
            n = struct.unpack_from("<I", data, at + 20)[0]
            option = at + 28 + (n + 3) // 4 * 4
            if option < at + size - 4 and struct.unpack_from("<H", data, option)[0] == 1:
                length = struct.unpack_from("<H", data, option + 2)[0]
                found[frame] = data[option + 4:option + 4 + length].decode()
        at += size
    return found


def test_the_third_read_of_one_host(tmp_path):
    """It alone is hit, the log has it with the frame of the recording, and the recording has it, too."""
    spec = f"status=2/81h cmd=read host={X} nth=3"
    capture = tmp_path / "faults.pcapng"
    with target("--fault", spec, "--pcap", str(capture), "--log-level", "info") as t:
        x, y = Host(t.port, X), Host(t.port, Y)
        statuses = [(x.read(), y.read()) for _ in range(5)]
        assert statuses == [(0, 0), (0, 0), (0x281, 0), (0, 0), (0, 0)]
        x.close()
        y.close()
        log = t.stop()
    lines = [line for line in log.splitlines() if "fault 1 (" in line]
    assert len(lines) == 1 and spec in lines[0] and "Read CID" in lines[0], log
    frame = int(re.search(r"after frame (\d+)", lines[0])[1])
    assert comments(capture) == {frame + 1: spec}
    checked = subprocess.run([NVMFSPEC, "pcap", "check", str(capture)], capture_output=True,
                             text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("how,reset,n", [("reset=half", True, 24 + 2048 - 12), ("close=100", False, 100),
                                         ("close", False, 0), ("reset=1M", True, 24 + 4096)])
def test_a_connection_that_ends_within_c2hdata(how, reset, n):
    with target("--fault", f"{how} on=c2hdata host={X} nth=2") as t:
        x, y = Host(t.port, X), Host(t.port, Y)
        assert x.read(8) == 0 and y.read(8) == 0
        x.send_read(8)
        assert x.bytes_until_the_end() == (n, reset)
        assert y.read(8) == 0 and y.read(8) == 0
        t.stop()


def add(t, fault):
    return t.call("nvmfspec_fault_add", fault=fault)


def counts(t):
    return {f["fault"]: (f["met"], f["fired"]) for f in t.call("nvmfspec_fault_list")}


@pytest.fixture(name="driven")
def with_rpc(tmp_path):
    t = Driven(tmp_path / "rpc.sock", "--reactors", "2")
    yield t
    t.stop()


def test_late_r2ts_under_load(driven):
    """One in so many, by the seed; the load goes on, and counts agree."""
    port = driven.serve()
    fault = "delay=50ms on=r2t one-in=50 seed=7"
    assert add(driven, fault) == 1
    load = driven.load(port, 2)
    assert load.wait(60) == 0, load.stdout.read()
    met, fired = counts(driven)[fault]
    assert met > 100 and met / 150 < fired < met / 15
    assert driven.call("nvmfspec_fault_remove", id=1) == 1
    assert driven.call("nvmfspec_fault_list") == []


def test_a_rule_that_is_broken_once(driven):
    """On queue 2, after a MiB: no other queue sees it, and then all is well again."""
    port = driven.serve()
    fault = "violate=tcp/c2hdata/datao qid=2 after=1M times=1"
    add(driven, fault)
    load = driven.load(port, 20)
    assert load.wait(60) != 0
    assert counts(driven)[fault][1] == 1
    again = driven.host("verify", port, "-N", "1", "--range", "1M", "--time", "1")
    assert again.returncode == 0, again.stderr
    assert counts(driven)[fault][1] == 1


def test_faults_come_and_go_live(driven):
    """Connections that are there meet what is added, and not what is removed."""
    port = int(driven.serve())
    x = Host(port, X, RPC_NQN)
    assert x.read() == 0
    assert add(driven, "status=0/6 cmd=read every=2") == 1
    assert add(driven, "delay=10ms qid=7") == 2
    assert [x.read() for _ in range(4)] == [0, 6, 0, 6]
    assert driven.call("nvmfspec_fault_remove", id=2) == 1
    assert [x.read() for _ in range(2)] == [0, 6]  # its count is as it was
    assert counts(driven) == {"status=0/6 cmd=read every=2": (6, 3)}
    assert driven.call("nvmfspec_fault_remove") == 1
    assert [x.read() for _ in range(2)] == [0, 0]
    assert add(driven, "drop cmd=flush") == 3
    assert [x.read() for _ in range(2)] == [0, 0]
    x.close()


def test_errors_of_the_rpc(driven):
    says = driven.refuses(PARAMS, "nvmfspec_fault_add", fault="drop on=c2hdta")
    assert "at character 6, 'c2hdta': on= is one of command, r2t, h2cdata, c2hdata, resp" in says
    driven.refuses(PARAMS, "nvmfspec_fault_add")
    driven.refuses(-2, "nvmfspec_fault_remove", id=1)
    driven.refuses(-2, "nvmfspec_fault_remove")
    driven.serve()
    add(driven, "drop qid=1")
    assert "already" in driven.refuses(PARAMS, "nvmfspec_fault_add", fault="drop qid=1")
    for i in range(2, 65):
        add(driven, f"drop qid={i + 1000}")
    assert "64 faults" in driven.refuses(PARAMS, "nvmfspec_fault_add", fault="drop qid=3000")
    saved = driven.call("framework_get_config", name="nvmf")
    assert {"method": "nvmfspec_fault_add", "params": {"fault": "drop qid=1"}} in saved
    with pytest.raises(Failed):
        driven.call("nvmfspec_fault_list", id=1)


def test_ctl_has_them(driven):
    driven.serve()
    run = [subprocess.run([NVMFSPEC, "ctl", "-s", driven.path, *words], capture_output=True,
                          text=True, timeout=20)
           for words in (["nvmfspec_fault_add", "fault=drop nth=3"], ["nvmfspec_fault_list"])]
    assert [r.returncode for r in run] == [0, 0], run
    assert "drop nth=3" in run[1].stdout and "fired" in run[1].stdout


def config(port, faults):
    return {"hosts": [], "ports": [{"portid": 1, "addr": {"trtype": "tcp", "adrfam": "ipv4",
                                                          "traddr": "127.0.0.1", "trsvcid": port},
                                    "subsystems": [NQN]}],
            "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"},
                            "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "mem:8M"}}]}],
            "faults": faults}


def test_faults_of_a_file(tmp_path):
    """SIGHUP reads them again: those that stay go on counting."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config("0", ["status=0/6 cmd=read every=3", "drop qid=9"])))
    t = subprocess.Popen([NVMFSPEC, "target", "--config", str(file)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
    try:
        port = re.match(r"listening on 127.0.0.1:(\d+)", t.stdout.readline())[1]
        x = Host(int(port), X)
        assert [x.read() for _ in range(4)] == [0, 0, 6, 0]
        file.write_text(json.dumps(config(port, ["status=0/82h cmd=read nth=3",
                                                 "status=0/6 cmd=read every=3"])))
        t.send_signal(signal.SIGHUP)
        assert any("read again" in line for line in iter(t.stderr.readline, ""))
        assert [x.read() for _ in range(4)] == [0, 6, 0x82, 0]
        x.close()
    finally:
        t.kill()
        t.wait()


def test_what_is_wrong_is_named(tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config("0", ["drop", "drop nth=first"])))
    for options, says in (
            (["--config", str(file)], "faults[1]: at character 6, 'first': nth= is a number from 1"),
            (["--fault", "delay=1"], "option --fault: at character 1, '1': delay is a time such as"),
            (["--fault", "drop", "--fault", "drop"], "there is such a fault already"),
            (["--config", str(file), "--fault", "drop"], "--config excludes --fault")):
        t = subprocess.run([NVMFSPEC, "target", *options], capture_output=True, text=True,
                           timeout=20)
        assert t.returncode == 2 and says in t.stderr, t.stderr
    shown = subprocess.run([NVMFSPEC, "target", "--help"], capture_output=True, text=True,
                           timeout=20)
    assert all(word in shown.stdout for word in ("status=SCT/SC", "one-in=", "after="))


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_the_suite_finds_them(transport):
    """Its own words, over TCP on loopback and RDMA in memory: a case that passes fails with the fault."""
    case = "nvm/data/kept"
    for fault, code in (("status=0/6 cmd=write", 1), ("status=0/6 cmd=write nth=10000", 0),
                        ("corrupt cmd=read", 1), ("close cmd=write", 1), ("drop cmd=compare qid=77", 0)):
        run = subprocess.run([NVMFSPEC, "conform", "-t", transport, "--brief", "--fault", fault, case],
                             capture_output=True, text=True, timeout=60)
        assert run.returncode == code, (fault, run.stdout, run.stderr)
    refused = subprocess.run([NVMFSPEC, "conform", "-t", transport, "-a", "127.0.0.1", "--fault",
                              "drop"], capture_output=True, text=True, timeout=20)
    assert refused.returncode == 2 and "--fault" in refused.stderr


@pytest.mark.calm(0.5)
def test_without_delay_others_are_not_late():
    """A Read that is late by two seconds holds up nobody, on its own queue or another."""
    with target("--fault", f"delay=2s cmd=read host={X} nth=2") as t:
        x, y = Host(t.port, X), Host(t.port, Y)
        assert x.read() == 0
        since = time.monotonic()
        x.send_read()
        assert [y.read() for _ in range(20)] == [0] * 20
        assert time.monotonic() - since < 2
        assert x.io.receive(24)[0] == 7 and time.monotonic() - since >= 2
        t.stop()
