# SPDX-License-Identifier: BSD-3-Clause
"""`nvmfspec target --metrics`: a page that is the text format of Prometheus to the letter, with counts that are
right, from a server that nobody can hold up."""
import math
import os
import pathlib
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
NQN = "nqn.2026-01.io.nvmfspec:target"
DOCUMENT = (ROOT / "doc/target.md").read_text()


# --- the format, strictly -------------------------------------------------------------------------

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)$")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


def number(text):
    if text == "+Inf":
        return math.inf
    assert re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text), text
    return float(text)


def parse(text):
    """{family: {"type": T, "samples": {(name, labels): value}}}; asserts all that the format demands."""
    families, current = {}, None
    assert text.endswith("\n") and "\r" not in text
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, says = re.fullmatch(rf"# HELP ({NAME}) (\S.*)", line).groups()
            assert name not in families, f"{name} comes twice"
            current = families[name] = {"help": says, "samples": {}}
            current["name"] = name
        elif line.startswith("#"):
            name, kind = re.fullmatch(rf"# TYPE ({NAME}) (counter|gauge|histogram)", line).groups()
            assert current and name == current["name"] and "type" not in current
            assert not current["samples"]
            current["type"] = kind
        else:
            found = SAMPLE.match(line)
            assert found, line
            labels = tuple(re.findall(LABEL, found[2] or ""))
            assert len({k for k, _ in labels}) == len(labels)
            assert found[1] in [current["name"] + s for s in SUFFIXES[current["type"]]], line
            assert (found[1], labels) not in current["samples"], f"{line} comes twice"
            current["samples"][found[1], labels] = number(found.groups()[-1])
    for name, family in families.items():
        check(name, family)
    return families


def check(name, family):
    if family["type"] == "counter":
        assert name.endswith("_total")
    if family["type"] != "gauge":
        assert all(v >= 0 for v in family["samples"].values())
    if family["type"] == "histogram":
        check_histogram(name, family["samples"])


def check_histogram(name, samples):
    rows = {}
    for (sample, labels), value in samples.items():
        le = dict(labels).get("le")
        rest = tuple(p for p in labels if p[0] != "le")
        assert (le is not None) == (sample == name + "_bucket")
        rows.setdefault(rest, {})[sample if le is None else number(le)] = value
    for row in rows.values():
        les = [k for k in row if isinstance(k, float)]
        assert les == sorted(les) and les[-1] == math.inf and len(les) > 2
        counts = [row[k] for k in les]
        assert counts == sorted(counts) and counts[-1] == row[name + "_count"]
        assert name + "_sum" in row


@pytest.mark.parametrize("wrong", [
    "a 1", "# TYPE a gauge\na 1\n", "# HELP a x\n# TYPE a gauge\na 1\na 2\n",
    "# HELP a x\n# TYPE a gauge\nb 1\n", "# HELP a x\n# TYPE a counter\na 1\n",
    '# HELP a x\n# TYPE a gauge\na{b="c} 1\n', "# HELP a x\n# TYPE a gauge\na NaN?\n",
    '# HELP a x\n# TYPE a histogram\na_bucket{le="1"} 2\na_bucket{le="2"} 1\n'
    'a_bucket{le="+Inf"} 2\na_sum 1\na_count 2\n',
    '# HELP a x\n# TYPE a histogram\na_bucket{le="1"} 1\na_bucket{le="2"} 1\n'
    'a_bucket{le="+Inf"} 2\na_sum 1\na_count 3\n'])
def test_the_parser_is_strict(wrong):
    with pytest.raises((AssertionError, AttributeError, TypeError, KeyError)):
        parse(wrong)


# --- a target ---------------------------------------------------------------------------------------

class Target:
    def __init__(self, *options):
        self.process = subprocess.Popen(
            [NVMFSPEC, "target", "-a", "127.0.0.1", "-s", "0", "-n", NQN, "--ns", "mem:16M",
             "--reactors", "2", "--metrics", ":0", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.port = re.match(r"listening on 127\.0\.0\.1:(\d+)", self.process.stdout.readline())[1]
        for line in self.process.stderr:
            if found := re.search(r"metrics at (http://127\.0\.0\.1:(\d+)/metrics)", line):
                self.url, self.at = found[1], ("127.0.0.1", int(found[2]))
                break

    def page(self):
        with urllib.request.urlopen(self.url, timeout=20) as answer:
            assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
            return parse(answer.read().decode())

    def value(self, name, **labels):
        """Of one sample; 0 if it is not there."""
        wanted = tuple(labels.items())
        for family in self.page().values():
            if (name, wanted) in family["samples"]:
                return family["samples"][name, wanted]
        return 0

    def host(self, command, *args):
        return subprocess.Popen([NVMFSPEC, "host", command, "-a", "127.0.0.1", "-s", self.port, "-n",
                                 NQN, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def say(self, data, wait=10):
        """What the server answers to these bytes until it closes."""
        with socket.create_connection(self.at, wait) as s:
            s.sendall(data)
            answer = b""
            while more := s.recv(65536):
                answer += more
        return answer

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        out = self.process.communicate(timeout=30)[1]
        assert self.process.returncode == 0, out
        return out


@pytest.fixture(name="target")
def running():
    t = Target()
    yield t
    t.stop()


@pytest.fixture(name="options")
def with_options():
    all_ = []

    def start(*options):
        all_.append(Target(*options))
        return all_[-1]

    yield start
    for t in all_:
        t.stop()


def wait_for(fn, expected, seconds=60):
    end = time.monotonic() + seconds
    while fn() != expected and time.monotonic() < end:
        time.sleep(0.05)
    assert fn() == expected


def test_every_name_is_documented(target):
    page = target.page()
    for name, family in page.items():
        row = re.search(rf"^\| `{name}` \| {family['type']} \| (.*?) \|", DOCUMENT, re.M)
        assert row, f"{name} is not in doc/target.md"
    assert set(re.findall(r"^\| `(nvmfspec_[a-z_]+)` \| (?:gauge|counter|histogram) \|", DOCUMENT,
                          re.M)) == set(page)
    assert abs(target.value("nvmfspec_start_time_seconds") - time.time()) < 60
    assert target.value("nvmfspec_reactors") == 2


def test_counts(target):
    """What a host does is counted as it counts it itself."""
    count = "nvmfspec_commands_total"
    load = target.host("verify", "-N", "1", "--range", "4M", "-i", "3", "--time", "3")
    wait_for(lambda: target.value("nvmfspec_queues", type="io"), 3)
    assert target.value("nvmfspec_queues", type="admin") == 1
    assert target.value("nvmfspec_controllers", type="io") == 1
    assert target.value("nvmfspec_connections") == 4
    out = load.communicate(timeout=30)[0]
    assert load.returncode == 0, out
    wait_for(lambda: target.value("nvmfspec_connections"), 0)
    assert target.value("nvmfspec_queues", type="io") == target.value("nvmfspec_queues", type="admin") \
        == target.value("nvmfspec_controllers", type="io") == 0
    assert target.value("nvmfspec_queues_opened_total", type="io") == 3
    assert target.value("nvmfspec_connections_accepted_total") == 4
    page = target.page()
    commands = {dict(labels)["command"]: n for (_, labels), n in page[count]["samples"].items()
                if dict(labels)["queue"] == "io"}
    assert set(commands) <= {"Read", "Write", "Flush"} and commands["Read"] and commands["Write"]
    assert {dict(labels)["status"] for _, labels in page[count]["samples"]} == {"success"}
    timed = page["nvmfspec_command_duration_seconds"]["samples"]
    for name in ("Read", "Write"):
        assert timed["nvmfspec_command_duration_seconds_count", (("command", name),)] == commands[name]
        assert timed["nvmfspec_command_duration_seconds_sum", (("command", name),)] > 0
    moved = page["nvmfspec_bytes_total"]["samples"]
    assert all(n > 0 and n % 512 == 0 for n in moved.values())
    assert target.value(count, queue="fabrics", command="Connect", status="success") == 4
    assert target.host("identify", "ns-descs", "-N", "9").wait(30) != 0
    assert target.value(count, queue="admin", command="Identify", status="generic") == 1


def test_bytes(target):
    """Exactly those of the commands."""
    written = target.host("write", "-N", "1", "--slba", "8", "--blocks", "16", "--pattern", "7")
    out = written.communicate(timeout=30)[0]
    assert written.returncode == 0, out
    assert target.value("nvmfspec_bytes_total", direction="written") == 16 * 512
    assert target.value("nvmfspec_bytes_total", direction="read") == 0


def test_errors_and_limits(options):
    """Broken rules by name, and what limits refuse."""
    target = options("--limit", "host_connections=2", "--limit", "ic_timeout=300")
    at = ("127.0.0.1", int(target.port))
    with socket.create_connection(at, 10) as s:
        s.sendall(bytes([1, 0, 24, 0]) + (24).to_bytes(4, "little") + bytes(16))  # no ICReq
        assert s.recv(4096)[0] == 3  # C2HTermReq
    wait_for(lambda: target.value("nvmfspec_connections"), 0)
    errors = target.page()["nvmfspec_protocol_errors_total"]["samples"]
    assert sum(errors.values()) == 1
    rule = dict(next(iter(errors))[1])["rule"]
    listed = subprocess.run([NVMFSPEC, "conform", "--explain", rule], capture_output=True, text=True, timeout=30)
    assert listed.returncode == 0 and rule in listed.stdout
    three = [socket.create_connection(at, 10) for _ in range(3)]
    wait_for(lambda: target.value("nvmfspec_connections_refused_total", limit="address"), 1)
    wait_for(lambda: target.value("nvmfspec_protocol_errors_total", rule="tcp/setup/ic-timeout"), 2)
    for s in three:
        s.close()


def test_wrong_requests(target):
    """Each is answered, or closed, and the server lives."""
    assert b"404 Not Found" in target.say(b"GET / HTTP/1.1\r\n\r\n")
    assert b"404 Not Found" in target.say(b"GET /metricsX HTTP/1.1\r\n\r\n")
    assert b"405 Method" in target.say(b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
    for wrong in (b"GET /metrics\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n", b"GET  HTTP/1.1\r\n\r\n",
                  b"GET metrics HTTP/1.1\r\n\r\n", b"\0" * 50 + b"\r\n\r\n", b"GET /metrics HTTP/9\r\n\r\n",
                  b"G\rE\rT /metrics HTTP/1.1\r\n\r\n"):
        assert target.say(wrong).startswith(b"HTTP/1.1 400 "), wrong
    assert b"431 Request" in target.say(b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 9000)
    head = target.say(b"HEAD /metrics HTTP/1.1\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n") and head.endswith(b"\r\n\r\n")
    whole = target.say(b"GET /metrics?x=1 HTTP/1.0\r\nHost: x\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", whole)[1])
    assert len(whole.split(b"\r\n\r\n", 1)[1]) == length
    parse(whole.split(b"\r\n\r\n", 1)[1].decode())
    with socket.create_connection(target.at, 10) as s:  # byte by byte
        for byte in b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n":
            s.sendall(bytes([byte]))
        assert s.recv(15) == b"HTTP/1.1 200 OK"
    for _ in range(50):  # who goes at once
        s = socket.create_connection(target.at, 10)
        s.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        s.close()
    target.page()


@pytest.mark.calm(0.5)
def test_nobody_holds_it_up(target):
    """Idle, slow and greedy clients are ended, the page is served, and hosts are served meanwhile."""
    load = target.host("verify", "-N", "1", "--range", "4M", "--time", "8")
    idle = [socket.create_connection(target.at, 20) for _ in range(40)]
    target.page()
    slow = socket.create_connection(target.at, 20)
    slow.sendall(b"GET /metrics")
    begun = time.monotonic()
    target.page()
    assert time.monotonic() - begun < 2
    assert slow.recv(10) == b""
    assert 3 < time.monotonic() - begun < 10
    for s in idle:
        assert s.recv(10) == b""
        s.close()
    assert len(os.listdir(f"/proc/{target.process.pid}/fd")) < 60
    out = load.communicate(timeout=30)[0]
    assert load.returncode == 0, out


def test_a_place_that_cannot_be_had():
    for wrong, says in (("127.0.0.1", "not of the form"), ("203.0.113.77:1", "203.0.113.77")):
        done = subprocess.run([NVMFSPEC, "target", "-s", "0", "--metrics", wrong], capture_output=True,
                              text=True, timeout=30)
        assert done.returncode == 2 and says in done.stderr, done.stderr

