# SPDX-License-Identifier: BSD-3-Clause
"""`nvmfspec target --trace-file`: a line for each command, by option, file and RPC; what does not fit is counted;
nobody waits for it. The lines themselves: test_command_trace.c; RDMA: test_rdma.c; their reader: test_stat_trace.py."""
import collections
import json
import os
import re
import signal
import subprocess
import time

import pytest

from test_rpc import NQN as RPC_NQN
from test_rpc import PARAMS
from test_rpc import Target as Driven
from test_target import NQN, NVMFSPEC, Queue, target
from test_trigger import X, Host, config

TCP_READ = ["new", "ready to execute", "executing", "executed", "transferring controller to host", "completed"]


def lines_of(path):
    text = path.read_text()
    assert text.endswith("\n")
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["nvmfspec_trace"] == 1
    return lines[1:]


def named(lines, opcode):
    return [line for line in lines if line.get("opcode") == opcode]


def stat(path):
    done = subprocess.run([NVMFSPEC, "pcap", "stat", str(path), "-o", "json"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_command_has_a_line(tmp_path):
    file = tmp_path / "trace"
    since = time.time_ns()
    with target("--trace-file", str(file), "--fault", f"status=2/81h cmd=read host={X} nth=3",
                "--fault", f"delay=50ms cmd=read host={X} nth=2") as t:
        x = Host(t.port, X)
        assert [x.read(8) for _ in range(4)] == [0, 0, 0x281, 0]
        x.close()
        t.stop()
    lines = lines_of(file)
    reads = named(lines, "Read")
    assert [r["status"] for r in reads] == ["0/00h", "0/00h", "2/81h", "0/00h"]
    assert reads[2]["status_text"] == "Unrecovered Read Error" and reads[2]["bytes"] == 0
    for r in reads:
        assert since <= r["time"] <= time.time_ns()
        assert (r["hostnqn"], r["subnqn"], r["qid"], r["nsid"]) == (X, NQN, 1, 1)
        assert (r["slba"], r["nlb"], r["transport"], r["data"]) == (0, 8, "tcp", "c2h")
        ats = [s["at"] for s in r["states"]]
        assert ats == sorted(ats) and ats[0] == 0
    assert [s["state"] for s in reads[0]["states"]] == TCP_READ and reads[0]["bytes"] == 4096
    late = {a["state"]: b["at"] - a["at"] for a, b in zip(reads[1]["states"], reads[1]["states"][1:])}
    assert late["executing"] >= 50e6 and reads[1]["states"][-1]["at"] < 20e9
    connects = named(lines, "Connect")
    assert [(c["qid"], c["hostnqn"]) for c in connects] == [(0, X), (1, X)]
    assert connects[0]["cntlid"] == connects[1]["cntlid"] == reads[0]["cntlid"]
    assert connects[0]["conn"] != connects[1]["conn"] == reads[0]["conn"]
    assert len({r["cid"] for r in reads}) == 4


def test_what_the_host_gets_no_answer_to(tmp_path):
    """A command that is dropped, one that is cut off with its connection, and requests for events."""
    file = tmp_path / "trace"
    with target("--trace-file", str(file), "--fault", f"drop cmd=read host={X} nth=1", "--ns",
                "mem:8M,delay=60s") as t:
        x = Host(t.port, X)
        x.send_read(1)
        x.send_read(2)
        while not [r for r in file.read_text().splitlines() if '"Connect"' in r and '"qid":1,' in r]:
            time.sleep(0.01)
        x.close()
        t.stop()
    reads = {r["nlb"]: r for r in named(lines_of(file), "Read")}
    assert set(reads) == {1, 2} and all(r["status"] is None for r in reads.values())
    assert "status_text" not in reads[1]


def test_sums_are_those_of_the_load(tmp_path):
    """Of eight queues and two reactors no command is missing, and pcap stat finds what the host has counted."""
    file = tmp_path / "trace"
    with target("--trace-file", str(file), "--reactors", "2", "--ns", "mem:64M") as t:
        done = t.host("perf", "-n", NQN, "-N", "1", "--rw", "randrw", "--bs", "8k", "--iodepth", "8", "-i", "8",
                      "--time", "1", "-o", "json")
        assert done.returncode == 0, done.stderr
        t.stop()
    lines = lines_of(file)
    out = stat(file)
    left_out = sum(line.get("left_out", 0) for line in lines)
    kinds = {k["command"]: k for k in out["kinds"] if k["io"]}
    there = collections.Counter(line.get("opcode") for line in lines if line.get("qid", 0) > 0)
    for name in ("Read", "Write"):
        assert kinds[name]["count"] == there[name] > 0
    assert kinds["Read"]["c2h_bytes"] == 8192 * there["Read"]
    assert kinds["Write"]["h2c_bytes"] == 8192 * there["Write"]
    assert out["left_out"] == left_out and out["errors"] == 0
    assert sum(s["count"] for s in out["states"] if s["state"] == "executing" and s["io"]) == \
        sum(k["count"] for k in kinds.values())


@pytest.fixture(name="driven")
def with_rpc(tmp_path):
    t = Driven(tmp_path / "rpc.sock", "--reactors", "2")
    yield t
    t.stop()


def test_it_begins_and_ends_live(driven, tmp_path):
    """Under load, on connections that are there, again and again: no host sees anything of it."""
    port = driven.serve()
    load = driven.load(port, 5)
    while len(driven.call("nvmf_subsystem_get_qpairs", nqn=RPC_NQN)) < 9 and load.poll() is None:
        time.sleep(0.02)
    for i in range(6):
        file = tmp_path / f"trace{i}"
        assert driven.call("nvmfspec_trace_start", file=str(file)) is True
        assert driven.call("nvmfspec_trace_get")["file"] == str(file)
        while "Write" not in file.read_text() and load.poll() is None:
            time.sleep(0.005)
        assert driven.call("nvmfspec_trace_stop") is True
        assert driven.call("nvmfspec_trace_get") == {}
        size = file.stat().st_size
        if load.poll() is not None:  # a slow machine: nothing may have been left to see
            break
        lines = lines_of(file)
        assert len({line["conn"] for line in named(lines, "Write")}) >= 1
        # Those that were under way are told as such; their answers came later.
        assert all(line["status"] is None for line in lines if line.get("ended") is False)
        assert stat(file)["commands"] == len([1 for line in lines if "opcode" in line])
    assert load.wait(60) == 0, load.stdout.read()
    assert i > 0 and file.stat().st_size == size


def test_rpc_says_what_is_wrong(driven, tmp_path):
    driven.serve()
    driven.refuses(-2, "nvmfspec_trace_stop")
    driven.refuses(PARAMS, "nvmfspec_trace_start")
    assert "64k" in driven.refuses(PARAMS, "nvmfspec_trace_start", file="/tmp/x", size=5)
    assert "size" in driven.refuses(PARAMS, "nvmfspec_trace_start", file="/tmp/x", size=0, files=2)
    assert "not a path" in driven.refuses(PARAMS, "nvmfspec_trace_start", file="")
    assert "No such file" in driven.refuses(-32603, "nvmfspec_trace_start", file="/nonexistent/x")
    file = str(tmp_path / "t")
    assert driven.call("nvmfspec_trace_start", file=file, size=1 << 20, files=3) is True
    driven.refuses(-16, "nvmfspec_trace_start", file=file + "2")
    assert not os.path.exists(file + "2")
    saved = driven.call("framework_get_config", name="nvmf")
    assert {"method": "nvmfspec_trace_start", "params": {"file": file, "size": 1 << 20, "files": 3}} in saved


def test_a_ring(tmp_path):
    """Files of the size that was asked for, each of which can be read alone."""
    file = tmp_path / "trace"
    with target("--trace-file", str(file), "--trace-size", "64k", "--trace-files", "3") as t:
        x = Host(t.port, X)
        for _ in range(40):
            assert [x.read() for _ in range(25)] == [0] * 25
            time.sleep(0.01)
        x.close()
        t.stop()
    parts = {}
    for path in (file, *(tmp_path / f"trace.{i}" for i in (1, 2))):
        assert 30000 < path.stat().st_size <= 64 << 10 or path.stat().st_size <= 64 << 10
        parts[json.loads(path.read_text().splitlines()[0])["part"]] = stat(path)
    assert len(parts) == 3 and max(parts) == min(parts) + 2 > 2
    assert all(out["left_out"] == 0 for out in parts.values())
    assert all(out["part"] == n for n, out in parts.items())


def test_it_ends_when_it_is_full(tmp_path):
    """The log says so, the file says how much is not in it, and the target serves as before."""
    file = tmp_path / "trace"
    with target("--trace-file", str(file), "--trace-size", "64k") as t:
        x = Host(t.port, X)
        assert [x.read() for _ in range(500)] == [0] * 500
        x.close()
        said = t.stop()
    assert "the trace has ended: it may have 65536 bytes" in said
    lines = lines_of(file)
    assert file.stat().st_size <= 64 << 10
    commands = [line for line in lines if "opcode" in line]
    assert len(lines) == len(commands) + 1
    assert len(named(commands, "Read")) < 500 and lines[-1]["left_out"] >= 500 - len(named(commands, "Read"))


def test_nobody_waits_for_it(tmp_path):
    """It goes into a pipe that nobody reads: the load goes on, and what was left out is told once it is read again."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with target("--trace-file", str(fifo), "--trace-size", "0", "--ns", "mem:64M") as t:
        done = t.host("perf", "-n", NQN, "-N", "1", "--rw", "randread", "--bs", "512", "--iodepth", "32", "--time", "2")
        assert done.returncode == 0, done.stderr
        t.process.send_signal(signal.SIGTERM)
        os.set_blocking(reader, True)
        with os.fdopen(reader) as f:
            text = f.read()
        assert t.process.wait(30) == 0
    assert re.search(r'^\{"left_out":[1-9]\d*\}$', text, re.M), text[-300:]


def test_a_configuration_has_it(tmp_path):
    """SIGHUP begins it and ends it; what is wrong is named with its place."""
    file, traces = tmp_path / "config.json", [tmp_path / "one", tmp_path / "two"]

    def write(port, trace):
        file.write_text(json.dumps({**config(port, []), **({"trace": trace} if trace else {})}))

    write("0", {"file": str(traces[0]), "size": "1M", "files": "2"})
    t = subprocess.Popen([NVMFSPEC, "target", "--config", str(file)], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)

    def reload():
        t.send_signal(signal.SIGHUP)
        return next(line for line in iter(t.stderr.readline, "") if "read again" in line or "changed" in line)

    try:
        port = re.match(r"listening on 127.0.0.1:(\d+)", t.stdout.readline())[1]
        x = Host(int(port), X)
        assert x.read(1) == 0
        write(port, {"file": str(traces[0]), "size": "1M", "files": "2"})
        assert "read again" in reload() and x.read(2) == 0
        write(port, {"file": str(traces[1])})
        assert "read again" in reload() and x.read(3) == 0
        write(port, {"file": str(traces[1]), "size": 0})
        assert "has to be stopped first" in reload() and x.read(4) == 0
        write(port, None)
        assert "read again" in reload() and x.read(5) == 0
        x.close()
    finally:
        t.kill()
        t.wait()
    assert [[r["nlb"] for r in named(lines_of(f), "Read")] for f in traces] == [[1, 2], [3, 4]]
    for trace, says in (({}, "trace: has no file"), ({"file": "x", "size": 5}, "trace: size is at least 64k"),
                        ({"file": "x", "size": "many"}, "trace.size: 'many' is not a size"),
                        ({"file": "x", "files": 0}, "trace.files:"), ({"path": "x"}, "trace.path"),
                        ({"file": "/nonexistent/x"}, "/nonexistent/x: No such file")):
        write("0", trace)
        file.write_text(json.dumps({**config("0", []), "trace": trace}))
        done = subprocess.run([NVMFSPEC, "target", "--config", str(file)], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and says in done.stderr, (trace, done.stderr)


@pytest.mark.parametrize("options,says", [
    (["--trace-size", "1M"], "require --trace-file"),
    (["--trace-files", "2"], "require --trace-file"),
    (["--trace-file", "/tmp/x", "--trace-size", "1k"], "size is at least 64k"),
    (["--trace-file", "/tmp/x", "--trace-size", "0", "--trace-files", "2"], "files requires a size"),
    (["--trace-file", "/nonexistent/x"], "/nonexistent/x: No such file"),
    (["--trace-file", "/dev/full"], "/dev/full: No space left"),
    (["--trace-file", "/tmp/x", "--config", "/tmp/y"], "--config excludes --trace-file")])
def test_options_that_do_not_fit(options, says):
    done = subprocess.run([NVMFSPEC, "target", *options], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and says in done.stderr, done.stderr


def test_the_name_of_a_host_is_harmless(tmp_path):
    """It may have quotes and control characters: each line is JSON, and what reads it gives no orders to a terminal."""
    file = tmp_path / "trace"
    with target("--trace-file", str(file)) as t:
        name = 'nqn.2014-08.org.example:"\\\x1b]0;x'
        queue = Queue(t.port, host=name)
        queue.socket.close()
        t.stop()
    assert {line["hostnqn"] for line in named(lines_of(file), "Connect")} == {name}
    shown = subprocess.run([NVMFSPEC, "pcap", "stat", str(file)], capture_output=True, timeout=20)
    assert shown.returncode == 0 and b"\x1b" not in shown.stdout
