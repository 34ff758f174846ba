# SPDX-License-Identifier: BSD-3-Clause
"""A target under attack: whoever behaves well is served as before, and afterwards everything is back."""
import base64
import concurrent.futures
import contextlib
import fcntl
import json
import math
import os
import pathlib
import platform
import pwd
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

from test_target import KEY, NQN, NVMFSPEC, Queue, Refused, Target, is_quiet, status, target

F_SETPIPE_SZ = 1031

pytestmark = pytest.mark.calm(0.5)  # who is attacked is measured by the clock


def malformed(port, count, sources=1):
    """Connections whose first PDU is wrong."""
    for i in range(count):
        source = f"127.0.0.{1 + i % sources}", 0
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), None, source) as s:
            s.settimeout(5)
            s.sendall(bytes([0, 0, 127, 0, 128, 0, 0, 0]) + bytes(120))
            s.recv(4096)  # the target waits for us to close


@contextlib.contextmanager
def going_on(attack, count=1):
    """So many threads of attack(stop), until what is within is over."""
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        running = [pool.submit(attack, stop) for _ in range(count)]
        try:
            yield
        finally:
            stop.set()
        for attacker in running:
            attacker.result()


def ended(process, seconds):
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.poll() is not None


# --- the log --------------------------------------------------------------------------------------

@pytest.mark.fast
def test_a_log_that_nobody_reads_stops_nothing():
    with target("--limit", "controllers=64", "--ns", "mem:1M") as t:
        fcntl.fcntl(t.process.stderr, F_SETPIPE_SZ, 4096)
        def flood(stop):
            malformed(t.port, 5000, 250)  # of so many that each may fill its part of the log
            while not stop.is_set():
                malformed(t.port, 50, 50)
        with borne(t) as measure, going_on(flood):
            measure()
        assert t.host("identify", "-n", NQN).returncode == 0
        t.process.send_signal(signal.SIGHUP)
        t.process.send_signal(signal.SIGTERM)
        assert ended(t.process, 10)


def test_the_log_is_limited_and_says_what_it_left_out():
    with target("--log-format", "json") as t:
        malformed(t.port, 200)
        lines = [json.loads(line) for line in t.stop().splitlines()]
    faults = [line for line in lines if line["kind"] == "tcp/header/hlen-h2c"
              and line["peer"] == "127.0.0.1" and line["level"] == "warning"]
    assert faults == lines and len(lines) == 21
    assert "C2HTermReq 01h" in lines[0]["message"]
    assert re.search(r": 180 lines like these were left out", lines[-1]["message"])


def test_log_levels():
    for option, said in [("info", True), ("warning", True), ("error", False)]:
        with target("--log-level", option) as t:
            malformed(t.port, 1)
            assert bool(t.stop()) == said, option


# --- what one host may have ------------------------------------------------------------------------

ATTACKER = "127.0.0.2"


LEAST = 60      # us: below it the scheduler is what is measured
ROUNDS = 5, 15  # are played; that many, if they do not settle it


NAMED = "nqn.2026-01.org.example:named"


def read_one_by_one(targets, *options):
    """p99 in us of a host at each of them that reads one block after the other, all at the same time."""
    runs = [subprocess.Popen(
        [NVMFSPEC, "host", "perf", "-t", "tcp", "-a", "127.0.0.1", "-s", str(t.port), "-n", NQN,
         "--rw", "randread", "--iodepth", "1", "--time", "0.5", "--warmup", "0.1", "--no-busy-poll", "-o", "json",
         *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for t in targets]
    found = []
    for run in runs:
        out, err = run.communicate(timeout=60)
        assert run.returncode == 0, err
        found.append(json.loads(out)["read"]["latency_us"]["p99"])
    return found


def hurry(pid, nice=-20):
    """All threads of a process before others on a busy machine, if we may."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, int(thread), nice)


def room(t, subsystem):
    """How many controllers the attacker may have."""
    with contextlib.ExitStack() as stack, contextlib.suppress(Refused):
        for n in range(1000):
            q = Queue(t.port, source=ATTACKER, subsystem=subsystem)
            stack.callback(q.close)
    return n


class Beside:
    """A client of the target and, in the same moments, one of a target like it that nobody attacks: what
    else goes on here, and the attackers' own work, slows both."""

    def __init__(self, t, control, *host):
        self.targets, self.host = (t, control), host
        self.quiet = read_one_by_one(self.targets, *host)
        self.rounds = []

    def measure(self, *options):
        for _ in range(ROUNDS[0]):
            self.rounds.append(read_one_by_one(self.targets, *self.host, *options))
        while self.ratio() > 10 and len(self.rounds) < ROUNDS[1]:
            self.rounds.append(read_one_by_one(self.targets, *self.host, *options))

    def ratio(self):
        """The mean of factors: that one of both was held up in a round by something else weighs no more than
        the other way round."""
        return math.exp(sum(math.log(max(a, LEAST) / max(b, LEAST)) for a, b in self.rounds) / len(self.rounds))

    def __str__(self):
        attacked, control = (sorted(r)[len(r) // 2] for r in zip(*self.rounds))
        return (f"p99 {attacked:.0f} us, of a target that is not attacked {control:.0f} us at the same time, "
                f"{self.ratio():.1f} times ({len(self.rounds)} rounds); before that {max(self.quiet):.0f} us")


@contextlib.contextmanager
def borne(t, *host, attacked=NQN):
    """What goes on within holds up others at most ten times, and leaves nothing behind: no memory, no
    descriptor, no controller of the subsystem that is attacked, within ten seconds. Its namespace, whose
    memory comes when it is read, is smaller than what is not told apart. host: options of who is measured.
    They and the attackers go before whatever else this machine does, if they may."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with target(*t.options) as control:
        try:
            for pid in t.process.pid, control.process.pid, os.getpid():
                hurry(pid)
            beside = Beside(t, control, *host)
            controllers = room(t, attacked)
            time.sleep(0.5)
            files, rss = t.files(), t.rss()
            yield beside.measure
            end = time.monotonic() + 10
            while (t.files() > files or t.rss() > rss + (8 << 20)
                   or room(t, attacked) < controllers) and time.monotonic() < end:
                time.sleep(0.1)
            print(f"{beside}; all is back after {time.monotonic() - end + 10:.1f} s")
            time.sleep(0.5)  # what the last look at it held
            assert t.files() <= files and t.rss() <= rss + (8 << 20) and room(t, attacked) == controllers
            assert beside.ratio() <= 10, str(beside)
        finally:
            hurry(os.getpid(), before)


@pytest.mark.fast
def test_a_target_that_is_held_up_is_seen():
    """By the measure itself: here each Read waits, and those of the target beside it do not."""
    with target("--limit", "controllers=64", "--ns", "mem:1M,delay=200ms") as t, \
            pytest.raises(AssertionError, match="p99 .* at the same time, [0-9]{2,}"):
        t.options = "--limit", "controllers=64", "--ns", "mem:1M"
        with borne(t) as measure:
            measure()


def slow_writers(port, count):
    """Queues of one host, each with eight writes of 1 MiB."""
    admin = Queue(port, source=ATTACKER)
    admin.enable()
    admin.command(struct.pack("<BBH36xII16x", 9, 0x40, 0, 7, 0x003f003f))
    queues = [Queue(port, qid, admin.cntlid, 32, source=ATTACKER) for qid in range(1, count)]
    for q in queues:
        for cid in range(8):
            sqe = struct.pack("<BBHI16xQI3xBQII8x", 1, 0x40, 100 + cid, 1, 0, 1 << 20, 0x5a, 0, 2047, 0)
            q.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 0, 72) + sqe.ljust(64, b"\0"))
    return admin, queues


def trickle(queues, seconds):
    """The data that the target asks for, byte by byte. Who has been closed is dropped from queues."""
    asked, end = set(), time.monotonic() + seconds
    while queues and time.monotonic() < end:
        for q in list(queues):
            try:
                if q in asked:
                    q.socket.send(b"\x5a")
                if select.select([q.socket], [], [], 0)[0]:
                    r2t = q.receive(24)
                    if q not in asked:
                        cid, ttag = struct.unpack_from("<HH", r2t, 8)
                        q.socket.sendall(struct.pack("<BBBBIHHII4x", 6, 0, 24, 24, 24 + 8192, cid, ttag, 0, 8192))
                        asked.add(q)
            except (OSError, EOFError):
                queues.remove(q)
                q.close()
        time.sleep(0.1)


def asks_and_keeps_alive(port, stop):
    """A host whose Identify and Keep Alive get through at any time; how often."""
    q, turns = Queue(port, host="nqn.2026-01.org.example:other"), 0
    q.enable()
    q.socket.settimeout(5)
    while not stop.is_set():
        assert status(q.command(struct.pack("<BB62x", 0x18, 0x40))) == 0
        q.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 0, 72)
                         + struct.pack("<BBH20xQI3xBI20x", 6, 0x40, 0x77, 0, 4096, 0x5a, 1))
        data = q.receive(24 + 4096)
        assert data[0] == 7 and data[8:10] == b"\x77\0"
        if not data[1] & 8:  # SUCCESS
            assert status(q.receive(24)[8:]) == 0
        turns += 1
        time.sleep(0.05)
    q.close()
    assert turns > 3


@pytest.mark.fast
def test_slow_writers_starve_nobody():
    """Each byte that comes is progress, and none is enough: a command's data has a least rate."""
    with target("--limit", "buffers=32M", "--limit", "stall_timeout=2000", "--limit", "least_rate=16M",
                "--limit", "controllers=64", "--ns", "mem:1M") as t:
        def write_slowly(stop):
            while not stop.is_set():  # whoever was closed comes again
                admin, queues = slow_writers(t.port, 60)
                trickle(queues, 45)  # seconds, on a busy machine
                assert not queues, f"{len(queues)} slow writers are still there"
                admin.close()
        with borne(t) as measure, going_on(write_slowly), \
                going_on(lambda stop: asks_and_keeps_alive(t.port, stop)):
            measure("--bs", "64k")


@contextlib.contextmanager
def io_queues(port, count):
    """So many I/O queues of 128 entries of one host, the attacker's."""
    with contextlib.ExitStack() as stack:
        admin = Queue(port, source=ATTACKER)
        stack.callback(admin.close)
        admin.enable()
        admin.command(struct.pack("<BBH36xII16x", 9, 0x40, 0, 7, 0x003f003f))
        queues = [Queue(port, qid, admin.cntlid, 128, source=ATTACKER) for qid in range(1, count + 1)]
        for q in queues:
            stack.callback(q.close)
        yield queues


def deep_queues(port, count, stop):
    """So many I/O queues of one host, each with 127 Flushes outstanding again and again; how many have ended."""
    flushes = b"".join(struct.pack("<BBBBIBBHI56x", 4, 0, 72, 0, 72, 0, 0x40, cid, 1) for cid in range(127))
    ended = 0
    with io_queues(port, count) as queues:
        while not stop.is_set():
            for q in queues:
                q.socket.sendall(flushes)
            for q in queues:
                ended += len(q.receive(127 * 24)) // 24
    return ended


@pytest.mark.fast
def test_many_deep_queues_have_one_share_of_each_turn():
    """All of them on the reactor that a client with one command outstanding is on, too."""
    ended = []
    with target("--limit", "controllers=64", "--reactors", "1", "--ns", "mem:1M") as t:
        with borne(t) as measure, going_on(lambda stop: ended.append(deep_queues(t.port, 60, stop))):
            measure()
    assert ended[0] > 60 * 127


def commands_in_slices(port, count, stop):
    """So many I/O queues of one host, each with 127 Verifies of 65536 blocks outstanding; how many have ended."""
    verifies = b"".join(struct.pack("<BBBBIBBHI32xQI12x", 4, 0, 72, 0, 72, 0x0c, 0x40, cid, 1, 0, 0xffff)
                        for cid in range(127))
    ended = 0
    with io_queues(port, count) as queues:
        for q in queues:
            q.socket.sendall(verifies)
        while not stop.is_set():
            ended += len([q for q in queues if select.select([q.socket], [], [], 0)[0] and not status(q.receive(24)[8:])])
            time.sleep(0.05)
    return ended


@pytest.mark.fast
def test_commands_in_slices_have_one_share_of_each_turn(tmp_path):
    """Verify of 256 MiB is thousands of reads of a file. All that is outstanding at the end is dropped with its queue."""
    ended, options = [], ["--limit", "controllers=64", "--reactors", "1", "--ns"]
    with target(*options, f"file:{tmp_path}/ns,size=1G,bs=4096") as t:
        t.options = *options, f"file:{tmp_path}/control,size=1G,bs=4096"
        with borne(t) as measure, going_on(lambda stop: ended.append(commands_in_slices(t.port, 30, stop))):
            measure()


@pytest.mark.fast
def test_halves_that_wait_take_a_bounded_memory():
    """Compares whose data came in their capsules, and whose Writes wait for data that does not come."""
    length, pairs, count = 8192, 250, 20
    def pair(n):
        blocks = struct.pack("<QI12x", 0, length // 512 - 1)
        compare = struct.pack("<BBHI16xQI3xB", 5, 0x41, 2 * n, 1, 0, length, 1) + blocks
        write = struct.pack("<BBHI16xQI3xB", 1, 0x42, 2 * n + 1, 1, 0, length, 0x5a) + blocks
        return (struct.pack("<BBBBI", 4, 0, 72, 72, 72 + length) + compare + bytes(length)
                + struct.pack("<BBBBI", 4, 0, 72, 0, 72) + write)
    with target("--limit", "buffers=8M", "--limit", "max_transfer=256K", "--ns", "mem:8M") as t, \
            contextlib.ExitStack() as stack:
        admin = Queue(t.port)
        stack.callback(admin.close)
        admin.enable()
        admin.command(struct.pack("<BBH36xII16x", 9, 0x40, 0, 7, 0x003f003f))
        queues = [Queue(t.port, qid, admin.cntlid, 1024) for qid in range(1, count + 1)]
        for q in queues:
            stack.callback(q.close)
        before = t.rss()
        for q in queues:
            with contextlib.suppress(OSError):  # it may have been ended
                q.socket.sendall(b"".join(pair(n) for n in range(pairs)))
        time.sleep(0.2)
        assert t.rss() - before < length * pairs * count // 2


@pytest.mark.fast
def test_one_host_does_not_have_all_controllers():
    with target("--limit", "controllers=64", "--dhchap-key", KEY, "--limit", "auth_timeout=8000", "--ns", "mem:1M") as t:
        with borne(t, "-S", KEY) as measure, contextlib.ExitStack() as stack:
            held = []
            with pytest.raises(Refused):
                for _ in range(64):
                    held.append(Queue(t.port, source=ATTACKER))
                    stack.callback(held[-1].close)
            assert len(held) == 48
            assert t.host("identify", "-n", NQN, "-S", KEY).returncode == 0
            assert t.host("discover").returncode == 0
            measure()
            deadline = time.monotonic() + 12
            with pytest.raises((EOFError, OSError)):  # what is refused keeps nothing alive
                while time.monotonic() < deadline:
                    held[0].command(struct.pack("<BBH36xB3xI12x", 0x7f, 0x40, 0, 4, 8))
                    time.sleep(0.1)
            Queue(t.port, source=ATTACKER).close()


@pytest.mark.parametrize("secret", [[], ["-S", KEY]])
def test_who_takes_the_name_of_a_host_takes_nothing_of_its(secret):
    """From another address, without its key where it needs one."""
    served = ["--dhchap-key", KEY, "--limit", "auth_timeout=60000"] if secret else []
    with target("--limit", "controllers=64", "--limit", "host_controllers=24", "--limit", "unproven=64",
                "--limit", "subsystem_controllers=60", *served) as t, contextlib.ExitStack() as stack:
        with pytest.raises(Refused):
            for _ in range(64):
                stack.callback(Queue(t.port, source=ATTACKER, host=NAMED).close)
        assert t.host("identify", "-n", NQN, "-q", NAMED, *secret).returncode == 0


def test_one_address_does_not_have_all_connections():
    with target("--limit", "connections=40") as t:
        held = [socket.create_connection(("127.0.0.1", t.port), source_address=(ATTACKER, 0))
                for _ in range(60)]
        assert t.host("identify", "-n", NQN).returncode == 0
        for s in held:
            s.close()


# --- authentication -------------------------------------------------------------------------------

SECRET = "nqn.2026-01.io.nvmfspec:secret"


def ask_for_challenges(port, stop):
    """Negotiates 8,192 bits, has the target compute its half, and goes away."""
    sgl = struct.pack("<QI3xB", 0, 72, 1)
    negotiate = bytes(7) + b"\1" + bytes([1, 0, 1, 1, 1]) + bytes(29) + b"\5" + bytes(29)
    while not stop.is_set():
        with contextlib.suppress(OSError, EOFError, Refused):
            q = Queue(port, source=ATTACKER, subsystem=SECRET)
            sqe = bytes([0x7f, 0x40, 0, 0, 5]) + bytes(19) + sgl + bytes([0, 1, 1, 0xe9])
            q.command(sqe + struct.pack("<I16x", 72), negotiate)
            sqe = bytes([0x7f, 0x40, 0, 0, 6]) + bytes(19) + struct.pack("<QI3xB", 0, 1200, 0x5a)
            sqe = sqe[:2] + struct.pack("<H", 9) + sqe[4:] + bytes([0, 1, 1, 0xe9])
            q.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 0, 72) + sqe + struct.pack("<I16x", 1200))
            q.socket.recv(4096)
            q.close()


def threads(pid):
    """Of each: processor time in ticks, nice value."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        stat = pathlib.Path(f"/proc/{pid}/task/{thread}/stat").read_text().rsplit(")", 1)[1].split()
        yield int(stat[11]) + int(stat[12]), int(stat[16])


def assert_computed_behind_others(pid):
    """By a thread of its own, of a lower priority than all others."""
    *others, (nice, ticks) = sorted((nice, ticks) for ticks, nice in threads(pid))
    assert nice > max(others)[0] and ticks > 2, (others, nice, ticks)


def test_computing_gives_way_whatever_the_priority_of_the_target():
    with target("--dhchap-key", KEY, preexec_fn=lambda: os.nice(max(0, 15 - os.nice(0)))) as t:
        assert t.host("identify", "-n", NQN, "-S", KEY).returncode == 0
        *others, last = sorted(nice for _, nice in threads(t.process.pid))
        assert set(others) == {others[0]} and last > others[0] >= 15


@pytest.mark.fast
def test_a_flood_of_handshakes_holds_up_nobody():
    with target("--limit", "controllers=64", "-n", NQN, "--ns", "mem:1M", "-n", SECRET, "--ns", "mem:1M",
                "--dhchap-key", KEY) as t:
        with borne(t, attacked=SECRET) as measure, \
                going_on(lambda stop: ask_for_challenges(t.port, stop), 16):
            measure()
            done = t.host("identify", "-n", SECRET, "-S", KEY)
            assert done.returncode == 0, done.stderr
            assert_computed_behind_others(t.process.pid)


# --- what is changed ------------------------------------------------------------------------------

PSK = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
OTHER_KEY = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"


def keyed(path, keys, *policy):
    """policy: further attributes of each host."""
    hosts = [f"nqn.2026-01.org.example:host{i}" for i in range(len(keys))]
    policy = policy or [{}] * len(keys)
    path.write_text(json.dumps({
        "hosts": [{"nqn": h, "attr": {"dhchap_key": k, **p}} for h, k, p in zip(hosts, keys, policy)],
        "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "0"}, "allowed_hosts": hosts,
                        "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "mem:8M"}}]}],
        "ports": [{"portid": 1, "addr": {"trtype": "tcp", "adrfam": "ipv4", "trsvcid": "0",
                                         "traddr": "127.0.0.1"}, "subsystems": [NQN]}]}))
    return hosts


def test_a_key_that_is_changed_reaches_who_is_there(tmp_path, connected):
    config = tmp_path / "config.json"
    hosts = keyed(config, [KEY, KEY])
    t = Target("--config", str(config))
    try:
        running = [t.start("perf", "-n", NQN, "-q", host, "-S", KEY, "--time", seconds)
                   for host, seconds in zip(hosts, ["60", "4"])]  # the first one does not get to its end
        connected(t.port, 4)
        time.sleep(1)  # each is authenticated
        keyed(config, [KEY, OTHER_KEY])
        t.process.send_signal(signal.SIGHUP)
        assert [p.wait(30) == 0 for p in running] == [True, False]
        assert t.host("list", "-n", NQN, "-q", hosts[1], "-S", KEY).returncode != 0
        assert t.host("list", "-n", NQN, "-q", hosts[1], "-S", OTHER_KEY).returncode == 0
        assert f"of {hosts[1]} with {NQN} ended: its keys have changed" in t.stop()
    finally:
        t.process.kill()
        t.process.wait()


def negotiate(port, host, hashes, groups):
    """The controller's answer to what a host offers: its message of DH-HMAC-CHAP."""
    q = Queue(port, host=host)
    lists = bytes(hashes).ljust(30, b"\0") + bytes(groups).ljust(30, b"\0")
    message = bytes(7) + b"\1" + bytes([1, 0, len(hashes), len(groups)]) + lists
    fabrics = bytes([0x7f, 0x40, 0, 0])
    send, receive = (fabrics + bytes([fctype]) + bytes(19) for fctype in (5, 6))
    q.command(send + struct.pack("<QI3xBBBBBI16x", 0, 72, 1, 0, 1, 1, 0xe9, 72), message)
    receive = receive[:2] + struct.pack("<H", q.cid) + receive[4:]
    q.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 0, 72) + receive
                     + struct.pack("<QI3xBBBBBI16x", 0, 1200, 0x5a, 0, 1, 1, 0xe9, 1200))
    head = q.receive(24)
    answer = q.receive(struct.unpack_from("<I", head, 4)[0] - 24)
    q.close()
    return answer


def test_a_host_that_offers_too_little_is_refused(tmp_path, connected):
    """Per host: hash functions and DH groups from one on. Base 2.2 8.3.4.4.2: reason code 01h,
    explanations 04h hash function not usable, 05h DH group not usable."""
    config = tmp_path / "config.json"
    strict = {"dhchap_hash": "sha384+", "dhchap_dhgroup": "ffdhe3072+"}
    hosts = keyed(config, [KEY, KEY], strict, {})
    failure = {True: bytes([0, 0xf1]), False: bytes([1, 1])}  # AUTH_Failure1, DH-HMAC-CHAP_Challenge
    t = Target("--config", str(config))
    try:
        for host, hashes, groups, why in [
                (hosts[0], [1], [2], 4), (hosts[0], [2], [0, 1], 5), (hosts[0], [1, 2], [0, 1, 2], None),
                (hosts[0], [3], [5], None), (hosts[1], [1], [0], None)]:
            answer = negotiate(t.port, host, hashes, groups)
            assert answer[:2] == failure[why is not None], (host, hashes, groups, answer.hex())
            assert why is None or answer[6:8] == bytes([1, why]), answer.hex()
        assert t.host("list", "-n", NQN, "-q", hosts[0], "-S", KEY).returncode == 0
        running = [t.start("perf", "-n", NQN, "-q", host, "-S", KEY, "--time", seconds)
                   for host, seconds in zip(hosts, ["60", "4"])]  # the first one does not get to its end
        connected(t.port, 4)
        time.sleep(1)  # each is authenticated
        keyed(config, [KEY, KEY], {**strict, "dhchap_hash": "sha512+"}, {})
        t.process.send_signal(signal.SIGHUP)
        assert [p.wait(30) == 0 for p in running] == [False, True]  # who is there is asked again
    finally:
        t.process.kill()
        t.process.wait()


def test_a_host_is_there_once(tmp_path):
    config = tmp_path / "config.json"
    keyed(config, [KEY, KEY])
    twice = json.loads(config.read_text())
    twice["hosts"][1]["nqn"] = twice["hosts"][0]["nqn"]
    twice["subsystems"][0]["allowed_hosts"].pop()
    config.write_text(json.dumps(twice))
    run = subprocess.run([NVMFSPEC, "target", "--config", config], capture_output=True, text=True,
                         timeout=10)
    assert run.returncode == 2 and "hosts[1]: nqn 'nqn.2026-01.org.example:host0' occurs twice" in run.stderr
    with target("-n", NQN, "--host", "nqn.2026-01.org.example:h", "-n", SECRET, "--host",
                "nqn.2026-01.org.example:h") as t:
        assert t.host("list", "-n", NQN, "-q", "nqn.2026-01.org.example:h").returncode == 0


# --- the end --------------------------------------------------------------------------------------

def test_sigterm_does_not_wait_for_delayed_commands():
    with target("--ns", "mem:8M,delay=20s") as t:
        slow = t.start("perf", "-n", NQN, "--time", "1")
        time.sleep(1)
        t.process.send_signal(signal.SIGTERM)
        assert ended(t.process, 8) and t.process.returncode == 0
        slow.wait(30)


def test_a_second_signal_ends_it_at_once():
    with target() as t:
        with contextlib.ExitStack() as stack:
            admin = Queue(t.port)
            stack.callback(admin.close)
            admin.enable()
            admin.command(struct.pack("<BBH36xII16x", 9, 0x40, 0, 7, 0x003f003f))
            io = Queue(t.port, 1, admin.cntlid)
            stack.callback(io.close)
            sqe = struct.pack("<BBHI16xQI3xBQII8x", 1, 0x40, 9, 1, 0, 65536, 0x5a, 0, 127, 0)
            io.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 0, 72) + sqe.ljust(64, b"\0"))
            io.receive(24)  # an R2T that is not answered
            t.process.send_signal(signal.SIGTERM)
            time.sleep(0.3)
            assert t.process.poll() is None
            t.process.send_signal(signal.SIGTERM)
            assert ended(t.process, 20) and t.process.returncode == -signal.SIGTERM


NO_MEMORY = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
int accept4(int fd, struct sockaddr *a, socklen_t *len, int flags)
{
        (void)fd, (void)a, (void)len, (void)flags;
        if (access(getenv("REFUSE"), F_OK) == 0) {
                errno = ENOMEM;
                return -1;
        }
        return (int)syscall(SYS_accept4, fd, a, len, flags);
}
"""


def cpu_time(pid):
    """Seconds of processor time."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.fast  # not sanitized: a library is preloaded, memory is searched
def test_an_accept_that_fails_does_not_spin(tmp_path):
    (tmp_path / "a.c").write_text(NO_MEMORY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "a.so", tmp_path / "a.c"], check=True)
    refuse = tmp_path / "refuse"
    refuse.touch()
    with target(env={**os.environ, "LD_PRELOAD": str(tmp_path / "a.so"), "REFUSE": str(refuse)}) as t:
        with socket.create_connection(("127.0.0.1", t.port)):
            before = cpu_time(t.process.pid)
            time.sleep(1)
            assert cpu_time(t.process.pid) - before < 0.2
        refuse.unlink()
        assert t.host("identify", "-n", NQN).returncode == 0


# --- secrets --------------------------------------------------------------------------------------

def places_in_memory(pid, what):
    """How often the bytes are in what the process can write to."""
    count = 0
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, mode = line.split()[:2]
            if mode.startswith("rw") and "[v" not in line:
                start, end = (int(at, 16) for at in span.split("-"))
                memory.seek(start)
                with contextlib.suppress(OSError):
                    count += memory.read(end - start).count(what)
    return count


@pytest.mark.fast  # not sanitized: a library is preloaded, memory is searched
def test_a_key_is_in_memory_only_where_it_is_used(tmp_path):
    config = tmp_path / "config.json"
    hosts = keyed(config, [KEY])
    t = Target("--config", str(config))
    try:
        raw = base64.b64decode(KEY.split(":")[2])[:-4]
        for _ in range(2):
            assert t.host("list", "-n", NQN, "-q", hosts[0], "-S", KEY).returncode == 0
            deadline = time.monotonic() + 60
            while places_in_memory(t.process.pid, raw) > 1 and time.monotonic() < deadline:
                time.sleep(0.1)  # until the controller is gone
            assert places_in_memory(t.process.pid, raw) == 1
            assert places_in_memory(t.process.pid, KEY.encode()) == 0
            t.process.send_signal(signal.SIGHUP)
        assert dumps_nothing(t.process.pid)
    finally:
        t.process.kill()
        t.process.wait()


def found_at_most(pid, what, places):
    """Soon: what a connection had is wiped when its controller is gone."""
    deadline = time.monotonic() + 60
    while places_in_memory(pid, what) > places and time.monotonic() < deadline:
        time.sleep(0.1)
    return places_in_memory(pid, what) <= places


@pytest.mark.fast  # not sanitized: memory is searched
@pytest.mark.parametrize("option, host, secret, places", [
    ("--dhchap-key", "-S", KEY, 1),
    ("--tls-key", "--tls-key", PSK, 2)], ids=lambda v: v if str(v).startswith("--") else "")
def test_a_key_of_the_command_line_is_in_memory_only_where_it_is_used(tmp_path, option, host, secret, places):
    """A PSK twice: for ports that serve hosts without TLS, too, and for those that do not."""
    file = tmp_path / "key"
    file.write_text(secret + "\n")
    file.chmod(0o600)
    raw = base64.b64decode(secret.split(":")[2])[:-4]
    with target(option, f"@{file}") as t:
        for _ in range(2):
            assert t.host("list", "-n", NQN, host, f"@{file}").returncode == 0
            assert found_at_most(t.process.pid, raw, places), places_in_memory(t.process.pid, raw)
            assert places_in_memory(t.process.pid, raw) > 0
            assert places_in_memory(t.process.pid, secret.encode()) == 0


@pytest.mark.fast  # not sanitized: memory is searched
def test_the_token_is_in_memory_only_where_it_is_used(tmp_path, free_port):
    file = tmp_path / "token"
    file.write_text("one-that-nobody-else-has\n")
    with target("--rpc-listen", f"127.0.0.1:{free_port()}", "--rpc-token", f"@{file}", "--ns", "mem:8M") as t:
        assert found_at_most(t.process.pid, b"one-that-nobody-else-has", 1)
        assert places_in_memory(t.process.pid, b"one-that-nobody-else-has") == 1


# --- core dumps

def dumps_nothing(pid):
    """Whether a core of the process would have none of its memory in it."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        text = pathlib.Path(f"/proc/{pid}/coredump_filter").read_text(encoding="ascii")
        return text != "" and int(text, 16) == 0
    return False


def test_a_target_without_keys_may_get_some():
    with target() as t:
        assert dumps_nothing(t.process.pid)


@pytest.mark.parametrize("command, option", [
    ("host list", "-S"), ("host list", "--tls-key"), ("host list", "--tls-keylog"),
    ("conform", "--dhchap-secret"), ("conform", "--tls-key"), ("conform", "--tls-host"), ("conform", "--tls-keylog"),
    ("fuzz remote --runs 1", "--dhchap-secret"), ("pcap replay", "--dhchap-secret"),
    ("pcap check", "--tls-key"), ("pcap check", "--keylog"), ("pcap show", "--keylog")])
def test_no_core_has_keys(tmp_path, command, option):
    """Of any command, as soon as it has one: here they wait for a target that says nothing, or for a capture."""
    assert not dumps_nothing(os.getpid())
    fifo, log, file = tmp_path / "capture", tmp_path / "log", tmp_path / "key"
    os.mkfifo(fifo)
    log.write_text(f"CLIENT_TRAFFIC_SECRET_0 {'5a' * 32} {'a5' * 32}\n")
    file.write_text((PSK if "tls" in option else KEY) + "\n")
    file.chmod(0o600)
    value = {"--tls-keylog": str(tmp_path / "new"), "--keylog": str(log), "--tls-host": f"{NQN}=@{file}"}
    capture = pathlib.Path(__file__).resolve().parents[2] / "pdu/io/tests/captures/nvme-tcp-6.12.pcap"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        at = ["-t", "tcp", "-a", "127.0.0.1", "-s", str(silent.getsockname()[1]), "-n", NQN]
        words = {"pcap replay": [str(capture), *at], "pcap check": [str(fifo)], "pcap show": [str(fifo)]}
        process = subprocess.Popen([NVMFSPEC, *command.split(), *words.get(command, at), option,
                                    value.get(option, f"@{file}")], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            deadline = time.monotonic() + 30
            while not dumps_nothing(process.pid) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.02)
            assert process.poll() is None, process.stderr.read()
            assert dumps_nothing(process.pid)
        finally:
            process.kill()
            process.wait()


# --- what others can see

def test_keys_that_others_can_see_are_warned_of(tmp_path):
    key = tmp_path / "key"
    key.write_text(KEY + "\n")
    key.chmod(0o640)
    with target("--dhchap-key", f"@{key}") as t:
        assert re.search(r"warning \S*/key: has keys, and others may read it \(mode 0640", t.stop())
    with target("--dhchap-key", KEY) as t:
        assert "a key on the command line is seen by others" in t.stop()
    key.chmod(0o600)
    with open(key, encoding="ascii") as f:
        for name in (f"@{key}", f"@/dev/fd/{f.fileno()}"):
            f.seek(0)
            with target("--dhchap-key", name, pass_fds=[f.fileno()]) as t:
                assert t.host("list", "-n", NQN, "-S", f"@{key}").returncode == 0
                assert t.stop() == ""


@pytest.mark.parametrize("attr, warned", [
    ({"dhchap_key": KEY}, True),
    ({"tls_key": PSK}, True),
    ({"dhchap_key": "@{file}", "dhchap_ctrl_key": KEY}, True),
    ({"dhchap_key": "@{file}"}, False),
    ({}, False)], ids=["host", "psk", "controller", "elsewhere", "none"])
def test_a_configuration_with_keys_that_others_can_see_is_warned_of(tmp_path, attr, warned):
    """Whatever keys they are, where they are in it itself."""
    config, key = tmp_path / "config.json", tmp_path / "key"
    key.write_text(KEY + "\n")
    key.chmod(0o600)
    keyed(config, [""], {name: value.replace("{file}", str(key)) for name, value in attr.items()})
    config.chmod(0o644)
    says = Target("--config", str(config)).stop()
    assert bool(re.search(r"warning \S*/config.json: has keys, and others may read it \(mode 0644", says)) == warned, says
    config.chmod(0o600)
    assert "has keys" not in Target("--config", str(config)).stop()


@pytest.mark.parametrize("command", ["host list", "conform", "fuzz remote --runs 1", "pcap replay {}"])
def test_every_command_warns_of_a_key_that_others_see(command, free_port):
    capture = pathlib.Path(__file__).resolve().parents[2] / "pdu/io/tests/captures/nvme-tcp-6.12.pcap"
    run = subprocess.run([NVMFSPEC, *command.format(capture).split(), "-t", "tcp", "-a", "127.0.0.1", "-s",
                          str(free_port()), "-n", NQN, "--dhchap-secret", KEY, "--timeout", "500"],
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 3, run.stderr
    assert "a key on the command line is seen by others" in run.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give it up")
def test_root_is_given_up(tmp_path):
    (tmp_path / "image").write_bytes(bytes(1 << 20))
    (tmp_path / "image").chmod(0o600)
    with target("--user", "nobody", "--ns", f"file:{tmp_path}/image") as t:
        with open(f"/proc/{t.process.pid}/status", encoding="ascii") as f:
            ids = dict(line.split(":", 1) for line in f)
        nobody = pwd.getpwnam("nobody")
        assert set(ids["Uid"].split()) == {str(nobody.pw_uid)}
        assert set(ids["Gid"].split()) == {str(nobody.pw_gid)} and "0" not in ids["Groups"].split()
        assert int(ids["CapEff"], 16) == 0
        assert t.host("write", "-n", NQN, "--blocks", "8", "--pattern", "1").returncode == 0
        assert is_quiet(t.stop())
    run = subprocess.run([NVMFSPEC, "target", "-s", "0", "--user", "no-such-user"], capture_output=True,
                         text=True, timeout=10)
    assert run.returncode == 2 and "no user 'no-such-user'" in run.stderr


# --- how it is built and installed ----------------------------------------------------------------

@pytest.mark.fast
@pytest.mark.skipif(platform.machine() != "x86_64", reason="what other machines have differs")
def test_the_program_is_hardened():
    elf = subprocess.run(["readelf", "-Whldns", NVMFSPEC], capture_output=True, text=True).stdout
    assert "DYN (Position-Independent" in elf
    assert "GNU_RELRO" in elf and re.search(r"FLAGS.*BIND_NOW|FLAGS_1.*NOW", elf)
    assert pathlib.Path(NVMFSPEC).read_bytes().count(b"\xf3\x0f\x1e\xfa") > 1000  # endbr64
    assert "__stack_chk_fail" in elf and re.search(r"__\w+_chk\b", elf.replace("__stack_chk", ""))
    assert re.search(r"GNU_STACK.* RW ", elf)


def test_the_unit_is_hardened(tmp_path):
    build = pathlib.Path(NVMFSPEC).parent
    subprocess.run(["cmake", "--install", build, "--prefix", tmp_path], check=True, capture_output=True)
    unit = tmp_path / "lib/systemd/system/nvmfspec-target.service"
    assert "User=nvmfspec\n" in unit.read_text() and "SystemCallFilter=@system-service\n" in unit.read_text()
    assert "u nvmfspec " in (tmp_path / "lib/sysusers.d/nvmfspec.conf").read_text()
    if shutil.which("systemd-analyze"):
        judged = subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=30", unit],
                                capture_output=True, text=True)
        assert judged.returncode == 0, judged.stdout[-500:] + judged.stderr
