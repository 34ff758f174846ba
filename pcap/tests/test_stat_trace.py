# SPDX-License-Identifier: BSD-3-Clause
"""`nvmfspec pcap stat` of a trace of commands: sums by hand, and what is wrong with a file is named. Traces of a target
are read in target/tests/test_command_trace.py."""
import json
import random

import pytest

from test_pcap import run

HEAD = {"nvmfspec_trace": 1, "part": 0, "time": 1790000000000000000}
BASE = 1790000000000000000


def command(at, *states, opcode="Read", status="0/00h", text="Success", **more):
    """One that came `at` ns after BASE; states: (name, ns that it was in it)."""
    line = {"time": BASE + at, "conn": 3, "transport": "tcp", "hostnqn": "nqn.h", "subnqn": "nqn.s", "cntlid": 1,
            "qid": 1, "cid": 7, "opcode": opcode, "opc": 2, "nsid": 1, "slba": 64, "nlb": 8, "bytes": 4096,
            "data": "c2h", "status": status, "status_text": text, **more}
    now, line["states"] = 0, []
    for name, ns in (*states, ("completed", 0)):
        line["states"].append({"state": name, "at": now})
        now += ns
    return line


def write(path, lines, end="\n"):
    path.write_text("\n".join(json.dumps(line, separators=(",", ":")) if not isinstance(line, str) else line
                              for line in [HEAD, *lines]) + end)
    return path


def stat(path, *args, **how):
    return json.loads(run("stat", path, "-o", "json", *args, **how).stdout)


@pytest.fixture(name="trace")
def a_trace(tmp_path):
    return write(tmp_path / "trace", [
        command(0, ("new", 10), ("executing", 1000)),
        command(500, ("new", 20), ("executing", 3000), ("completing", 100), cid=8, slba=1 << 40),
        command(600, ("new", 30), ("transferring host to controller", 400), ("executing", 70), opcode="Write",
                data="h2c", bytes=512, status="2/81h", text="Unrecovered Read Error", conn=4),
        command(700, ("new", 9), ("executing", 1), opcode="Identify", qid=0, conn=2),
        {"left_out": 5},
        command(800, ("new", 1), opcode="Asynchronous Event Request", qid=0, conn=2, status=None, ended=False),
        command(900, ("new", 1), opcode="Keep Alive", qid=0, conn=2, status=None),
        {"left_out": 2},
    ])


def test_sums(trace):
    """Whatever its name is, the file is known by its first line."""
    out = stat(trace)
    assert (out["lines"], out["commands"], out["completed"], out["errors"], out["unanswered"]) == (9, 6, 4, 1, 2)
    assert (out["connections"], out["left_out"], out["unended"], out["part"]) == (3, 7, 1, 0)
    kinds = {(k["command"], k["io"]): k for k in out["kinds"]}
    assert set(kinds) == {("Read", True), ("Write", True), ("Identify", False)}
    read, written = kinds["Read", True], kinds["Write", True]
    assert read["count"] == 2 and read["c2h_bytes"] == 8192 and read["errors"] == 0
    assert (read["whole_ns"]["min"], read["whole_ns"]["max"]) == (1010, 3120)
    assert written["h2c_bytes"] == 512 and written["errors"] == 1
    states = {(s["state"], s["io"]): s for s in out["states"]}
    assert states["executing", True]["count"] == 3 and states["executing", True]["max_ns"] == 3000
    assert states["executing", True]["sum_ns"] == 4070 and states["executing", False]["sum_ns"] == 1
    assert 1000 <= states["executing", True]["p50_ns"] <= 1016 and ("completed", True) not in states
    assert states["transferring host to controller", True]["p99_ns"] == 400
    assert out["statuses"] == [{"status": 0x281, "count": 1}]  # of errors
    assert [(s["ns"], s["line"]) for s in out["slowest"]] == [(3120, 3), (1010, 2), (500, 4), (10, 5)]
    slowest = out["slowest"][0]
    assert (slowest["slba"], slowest["nlb"], slowest["cid"], slowest["longest_state"]) == (1 << 40, 8, 8, "executing")
    assert out["depth_max"] == 4  # from 700 to 710 ns
    assert sum(b["completed"] for b in out["timeline"]) == 4
    assert [(q["connection"], q["qid"], q["count"]) for q in out["queues"]] == [(3, 1, 2), (4, 1, 1), (2, 0, 1)]


def test_text(trace, tmp_path):
    out = run("stat", trace, "--html", tmp_path / "page.html").stdout.decode()
    for words in ("9 lines", "I/O queues: latency in us", "I/O queues: us in each state", "slowest",
                  "1099511627776+8", "2/81h Unrecovered Read Error", "7 commands left out, 1 cut off",
                  "tcp nqn.h > nqn.s"):
        assert words in out, out
    assert "<svg" in (tmp_path / "page.html").read_text()


def test_one_connection(trace):
    assert stat(trace, "--conn", 4)["commands"] == 1
    assert stat(trace, "--qid", 0)["commands"] == 3
    assert "no such connection" in run("stat", trace, "--conn", 9, code=2).stderr.decode()


def test_the_ten_slowest(tmp_path):
    times = list(range(1, 1000))
    random.Random(1).shuffle(times)
    out = stat(write(tmp_path / "t", [command(0, ("new", n)) for n in times]))
    assert [s["ns"] for s in out["slowest"]] == list(range(999, 989, -1))
    assert [s["line"] for s in out["slowest"]] == [times.index(n) + 2 for n in range(999, 989, -1)]


def test_any_names_and_numbers(tmp_path):
    """However many kinds of commands and connections a file names, what is kept of them is bounded, and adds up."""
    lines = [command(i, ("new", 5), opcode=f"X{i}", qid=i % 2, conn=5000 - i // 2) for i in range(4000)]
    out = stat(write(tmp_path / "t", lines + lines[:7]))
    kinds = {(k["command"], k["io"]): k["count"] for k in out["kinds"]}
    assert len(kinds) == 258 and kinds["X6", False] == kinds["X5", True] == 2
    assert kinds["others", False] == kinds["others", True] == 2000 - 128
    assert out["connections"] == 2000 and len(out["queues"]) == 64
    assert "and 1936 more" in run("stat", tmp_path / "t").stdout.decode()


def test_depth_over_time(tmp_path):
    """Against a count by hand, of commands that come and go at random."""
    r = random.Random(2)
    spans = [(r.randrange(100000), r.randrange(1, 5000)) for _ in range(500)]
    out = stat(write(tmp_path / "t", [command(at, ("new", n)) for at, n in spans]))
    assert out["depth_max"] == max(sum(at <= when <= at + n for at, n in spans) for when, _ in spans)
    area = sum(b["depth_mean"] for b in out["timeline"]) * out["interval_ns"]
    assert area == pytest.approx(sum(n for _, n in spans))


@pytest.mark.parametrize("line,says", [
    ("{", "is not a JSON object"),
    ("[1]", "is not a JSON object"),
    ("{} {}", "is not a JSON object"),
    ("", "is not a JSON object"),
    (dict(HEAD), "another file begins here"),
    ({"left_out": -1}, "left_out is out of range"),
    ({"left_out": "5"}, "left_out is of another type"),
    ({}, "time is missing"),
    (command(0, status="0/0"), "status is not a status"),
    (command(0, status="9/00h"), "status is not a status"),
    (command(0, status="0/00hx"), "status is not a status"),
    (command(0, status="0/-1h"), "status is not a status"),
    (command(0, status="0/ 1h"), "status is not a status"),
    (command(0, qid=65536), "qid is out of range"),
    (command(0, conn=-1), "conn is out of range"),
    (command(0, opcode=5), "opcode is of another type"),
    (command(0, nlb="x"), "nlb is of another type"),
    (command(1 << 62), "time is out of range"),
    ({**command(0), "states": []}, "states is empty"),
    ({**command(0), "states": [5]}, "not an object"),
    ({**command(0), "states": [{"state": "new", "at": 5}, {"state": "completed", "at": 4}]}, "at is before"),
    ({**command(0), "states": [{"state": "new", "at": 0}] * 65}, "too long"),
    ({k: v for k, v in command(0).items() if k != "status"}, "status is missing"),
    ("[" * 100, "is not a JSON object"),
    ("x" * 20000, "more than 16382"),
    ("\0", "has a zero byte"),
])
def test_a_bad_line_is_named(tmp_path, line, says):
    """With its number; what comes before it counts."""
    path = write(tmp_path / "t", [command(0, ("new", 5)), line, command(9, ("new", 5))])
    done = run("stat", path, "-o", "json", code=3)
    assert f"{path}: line 3: " in done.stderr.decode() and says in done.stderr.decode()
    assert json.loads(done.stdout)["commands"] == 1


@pytest.mark.parametrize("text,says", [
    ('{"nvmfspec_trace":2}', "line 1: nvmfspec_trace is a version that is not known"),
    ('{"nvmfspec_trace":"x"}', "line 1: nvmfspec_trace is of another type"),
    ('{"nvmfspec_trace":1', "line 1: the file is cut here"),
])
def test_a_bad_first_line(tmp_path, text, says):
    path = tmp_path / "t"
    path.write_text(text + ("\n" if text.endswith("}") else ""))
    assert says in run("stat", path, code=3).stderr.decode()


def test_a_cut_file_is_read_up_to_there(tmp_path, trace):
    """At each byte: no crash, and it says so, unless a line ends there."""
    data = trace.read_bytes()
    cut = tmp_path / "cut"
    first = data.index(b"\n") + 1
    for at in range(first, len(data), 37):
        cut.write_bytes(data[:at])
        done = run("stat", cut, "-o", "json", code=0 if data[:at].endswith(b"\n") else 3)
        lines = data[:at].count(b"\n")
        assert json.loads(done.stdout)["lines"] == lines
        if done.returncode:
            assert f"line {lines + 1}: the file is cut here" in done.stderr.decode()


def test_spoilt_files(tmp_path, trace):
    """Whatever is in it: exit 0 or 3, and nothing that gives orders to a terminal."""
    r, data = random.Random(3), trace.read_bytes()
    path = tmp_path / "spoilt"
    for _ in range(60):
        spoilt = bytearray(data)
        for _ in range(r.randrange(1, 6)):
            spoilt[r.randrange(data.index(b"\n"), len(data))] = r.choice(b'\0"{}[],:\\9x\x1b\xff')
        path.write_bytes(spoilt)
        done = run("stat", path, code=None)
        assert done.returncode in (0, 3), done.stderr
        assert b"\x1b" not in done.stdout + done.stderr
    path = write(path, [command(0, ("new\x1b", 5), opcode="Read\x1b]0;x", hostnqn="nqn\u009b", text="\x1b")])
    assert b"Read?]0;x" in run("stat", path).stdout and b"\x1b" not in run("stat", path).stdout


def test_an_empty_trace(tmp_path):
    out = stat(write(tmp_path / "t", []))
    assert (out["lines"], out["commands"], out["slowest"], out["timeline"]) == (1, 0, [], [])


def test_a_capture_is_not_one(tmp_path):
    path = tmp_path / "t"
    path.write_text('{"time":1}\n')
    assert "line" not in run("stat", path, code=3).stderr.decode()
