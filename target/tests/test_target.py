# SPDX-License-Identifier: BSD-3-Clause
"""The target as a program: options, signals, durability, memory, many connections."""
import contextlib
import json
import os
import pathlib
import re
import resource
import signal
import socket
import struct
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
NQN = "nqn.2026-01.io.nvmfspec:target"


class Target:
    """A running `nvmfspec target` on a free port."""

    def __init__(self, *options, program=NVMFSPEC, **kw):
        self.options = options
        self.process = subprocess.Popen([program, "target", *options], text=True, **{
            "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kw})
        line = self.process.stdout.readline()
        found = re.match(r"listening on (\S+):(\d+)", line)
        assert found, line + self.process.stderr.read()
        self.port = int(found[2])

    def host(self, *args):
        return subprocess.run([NVMFSPEC, "host", args[0], "-t", "tcp", "-a", "127.0.0.1",
                               "-s", str(self.port), *args[1:]],
                              capture_output=True, timeout=60)

    def start(self, *args):
        """A host that goes on by itself."""
        return subprocess.Popen([NVMFSPEC, "host", args[0], "-t", "tcp", "-a", "127.0.0.1",
                                 "-s", str(self.port), *args[1:]],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def rss(self):
        """Bytes of memory in use."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) << 10

    def files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        self.process.wait(30)
        return self.process.stderr.read()


def is_quiet(said):
    """A log with nothing in it, but for what the file system of these tests lacks."""
    return all("has no extended attributes" in line for line in said.splitlines())


KEY = "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:"
CTRL_KEY = "DHHC-1:01:ejnPQY5lhlwzN5IwoTcoN3GfbbP5if4Cwz20DH5o9TnkEZbS:"


@contextlib.contextmanager
def target(*options, **kw):
    t = Target("-s", "0", *options, **kw)
    try:
        yield t
    finally:
        t.process.kill()
        t.process.wait()


class Refused(Exception):
    """Connect has failed."""


class Queue:
    """The least host that holds a queue: ICReq, Connect, and what a test sends by hand."""

    def __init__(self, port, qid=0, cntlid=0xffff, entries=32, connect=True, source="127.0.0.1",
                 host="nqn.2026-01.io.nvmfspec:python", subsystem=NQN, hostid=bytes(range(16))):
        self.socket = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
        self.socket.settimeout(20)
        self.cid = 0
        self.socket.sendall(struct.pack("<BBBBI", 0, 0, 128, 0, 128) + bytes(120))
        assert self.receive(128)[0] == 1
        if connect:
            sqe = struct.pack("<BBHB19xQIBBBB", 0x7f, 0x40, 0, 1, 0, 1024, 0, 0, 0, 1)
            sqe += struct.pack("<HHHBxI12x", 0, qid, entries - 1, 4, 0 if qid else 120000)
            data = hostid + struct.pack("<H", cntlid) + bytes(238)
            data += subsystem.encode().ljust(256, b"\0")
            data += host.encode().ljust(256, b"\0") + bytes(256)
            cqe = self.command(sqe, data)
            if struct.unpack_from("<H", cqe, 14)[0] >> 1:
                raise Refused(cqe.hex())
            self.cntlid = struct.unpack_from("<H", cqe)[0]

    def receive(self, n):
        got = b""
        while len(got) < n:
            more = self.socket.recv(n - len(got))
            if not more:
                raise EOFError
            got += more
        return got

    def send(self, sqe, data=b""):
        """The CID."""
        plen, cid = 72 + len(data), self.cid
        sqe = sqe[:2] + struct.pack("<H", cid) + sqe[4:]
        self.cid += 1
        self.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, plen) + sqe + data)
        return cid

    def command(self, sqe, data=b""):
        self.send(sqe, data)
        return self.receive(24)[8:]

    def enable(self):
        self.command(struct.pack("<BBHB35xBxxxIQ8x", 0x7f, 0x40, 0, 0, 0, 0x14, 0x460001))

    def close(self, reset=False):
        if reset:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


# --- hosts that are rude --------------------------------------------------------------------------

GET_VS = struct.pack("<BBHB35xBxxxI16x", 0x7f, 0x40, 0, 4, 0, 8)


def status(cqe):
    return struct.unpack_from("<H", cqe, 14)[0] >> 1


def drop_event_request(admin):
    admin.cid = admin.send(struct.pack("<BBH60x", 0x0c, 0x40, 0))
    assert status(admin.command(GET_VS)) & 0x7ff == 0x003
    assert status(admin.command(GET_VS)) == 0  # with the next CID


def test_a_host_may_use_the_cid_of_an_event_request_that_it_dropped():
    with target() as t:
        admin = Queue(t.port)
        admin.enable()
        drop_event_request(admin)


@pytest.mark.parametrize("profile, lives", [("tolerant", True), ("strict", False)])
def test_a_host_may_close_io_queues_and_open_them_again(profile, lives):
    with target("--profile", profile) as t:
        admin = Queue(t.port)
        admin.enable()
        Queue(t.port, 1, admin.cntlid).close()
        time.sleep(3)
        try:
            assert status(admin.command(GET_VS)) == 0
            Queue(t.port, 1, admin.cntlid)
        except (EOFError, ConnectionError):
            assert not lives
        else:
            assert lives


@pytest.mark.parametrize("profile, lives", [("tolerant", True), ("strict", False)])
def test_a_host_may_have_no_name(profile, lives):
    """SPDK's programs send an empty HOSTNQN. One without an end is no name to anybody."""
    with target("--profile", profile) as t:
        for name in ("", "host"):
            with contextlib.suppress(Refused) if not lives else contextlib.nullcontext():
                admin = Queue(t.port, host=name)
                assert lives
                admin.enable()
                assert status(Queue(t.port, 1, admin.cntlid, host=name).command(GET_VS)) != 0
        with pytest.raises(Refused):
            Queue(t.port, host="x" * 256)


FLUSH = struct.pack("<BBHI56x", 0, 0x40, 0, 1)
DISCONNECT = struct.pack("<BBHB59x", 0x7f, 0x40, 0, 8)
WRITE, READ, IN_CAPSULE, BY_R2T = 1, 2, 0x01, 0x5a
FAR = 100000  # beyond what the host beside it uses


def io(opcode, blocks, sgl):
    return struct.pack("<BBHI16xQI3xBQI12x", opcode, 0x40, 0, 1, 0, blocks * 512, sgl, FAR, blocks - 1)


def half_a_write(queue, blocks):
    """What the target asks for, and half of it."""
    cid = queue.send(io(WRITE, blocks, BY_R2T))
    kind, asked, ttag, offset, n = struct.unpack("<B7xHHII4x", queue.receive(24))
    assert (kind, asked, offset, n) == (9, cid, 0, blocks * 512)
    queue.socket.sendall(struct.pack("<BBBBIHHII4x", 6, 4, 24, 24, 24 + n, cid, ttag, 0, n) + bytes(n // 2))


def io_queue(port, admin, qid):
    """As soon as the target has seen the one before it go."""
    end = time.monotonic() + 60
    while True:
        try:
            return Queue(port, qid, admin.cntlid, host="")
        except Refused:
            assert time.monotonic() < end
            time.sleep(0.01)


def be_rude(port, blocks, reset):
    admin = Queue(port, host="")
    admin.enable()
    drop_event_request(admin)
    first = io_queue(port, admin, 1)
    assert status(first.command(io(WRITE, 8, IN_CAPSULE), blocks)) == 0
    for _ in range(16):
        first.send(io(READ, 256, BY_R2T))
    first.close(reset)
    again, gone = io_queue(port, admin, 1), io_queue(port, admin, 2)
    assert status(again.command(FLUSH)) == 0
    gone.command(DISCONNECT)
    with contextlib.suppress(ConnectionError):
        gone.send(FLUSH)
    half_a_write(again, 128)
    for queue in (again, gone, admin):
        queue.close(reset)


def controllers(path):
    done = subprocess.run([NVMFSPEC, "ctl", "-s", path, "--json", "nvmf_subsystem_get_controllers", f"nqn={NQN}"],
                          capture_output=True, text=True, timeout=60, check=True)
    return len(json.loads(done.stdout))


def wait_for(fn, expected):
    end = time.monotonic() + 60
    while fn() != expected and time.monotonic() < end:
        time.sleep(0.05)
    assert fn() == expected


def test_a_host_may_be_as_rude_as_can_be(tmp_path, connected):
    """It is served each time, what is beside it works on, and nothing of it stays."""
    with target("--rpc", str(tmp_path / "rpc")) as t:
        files, blocks = t.files(), os.urandom(8 * 512)
        load = t.start("verify", "-n", NQN, "-N", "1", "--range", "4M", "-i", "2", "--time", "100000")
        connected(t.port, 3)
        try:
            for number in range(10):
                be_rude(t.port, blocks, reset=number % 2 == 1)
            wait_for(lambda: controllers(tmp_path / "rpc"), 1)
            assert load.poll() is None, "a host beside it was ended"
        finally:
            load.kill()
            load.wait()
        wait_for(lambda: controllers(tmp_path / "rpc"), 0)
        wait_for(t.files, files)
        back = t.host("read", "-n", NQN, "--slba", str(FAR), "--blocks", "8", "--file", "-")
        assert back.stdout == blocks, "half a Write was written"
        t.stop()
        assert t.process.returncode == 0


def test_an_admin_queue_may_have_256_entries():
    with target() as t:
        Queue(t.port, entries=256).enable()
        with pytest.raises(Refused):
            Queue(t.port, entries=257)


# --- options -------------------------------------------------------------------------------------

@pytest.mark.parametrize("options, word", [
    (["--ns", "mem:1x"], "'1x' is not a size"),
    (["--ns", "tape:1G"], "tape:1G"),
    (["--waive", "tcp/nonsense"], "tcp/nonsense"),
    (["--limit", "fun=1"], "fun"),
    (["--limit", "queues=0"], "queues"),
    (["--profile", "strict,huge"], "'huge' is not a profile"),
    (["--limit", "max_transfer=5000"], "max_transfer"),
    (["--config", "/nowhere.json"], "/nowhere.json"),
    (["-a", "256.1.1.1"], "256.1.1.1"),
    (["-s", "http"], "http"),
    (["--bogus"], "bogus"),
    (["stray"], "stray"),
], ids=lambda v: v if isinstance(v, str) else "_".join(v))
def test_bad_options_end_in_one_line(options, word):
    run = subprocess.run([NVMFSPEC, "target", *options], capture_output=True, text=True, timeout=20)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1 and word in run.stderr, run.stderr
    assert run.stdout == ""


def test_a_port_in_use_is_named():
    with target() as t:
        run = subprocess.run([NVMFSPEC, "target", "-s", str(t.port)], capture_output=True, text=True)
        assert run.returncode == 2 and f"127.0.0.1:{t.port}" in run.stderr


def test_sigterm_ends_it_quietly():
    t = Target("-s", "0")
    q = Queue(t.port)
    assert t.stop() == ""
    assert t.process.returncode == 0
    with pytest.raises((EOFError, ConnectionResetError)):
        q.receive(1)


def test_trace_shows_request_states():
    with target("--trace") as t:
        Queue(t.port).close()
        states = re.findall(r"Connect: (.*)", t.stop())
    assert states == ["new", "ready to execute", "executing", "executed", "completing", "completed"]


def test_io_capsules_without_data():
    """Connect and the admin queue have 8 KiB still (NVMe/TCP 1.0 3.3.1)."""
    with target("--limit", "in_capsule=0") as t:
        assert json.loads(t.host("identify", "-n", NQN, "-o", "json").stdout)["ioccsz"] == 4
        assert t.host("verify", "-n", NQN, "-N", "1", "--range", "1M").returncode == 0
        admin = Queue(t.port)
        admin.enable()
        queue = Queue(t.port, 1, admin.cntlid)
        half_a_write(queue, 8)
        queue.socket.sendall(bytes(8 * 512 // 2))
        assert status(queue.receive(24)[8:]) == 0
        queue.send(io(WRITE, 8, IN_CAPSULE), bytes(8 * 512))
        assert queue.receive(8)[0] == 3  # C2HTermReq


# --- durability ----------------------------------------------------------------------------------

def test_what_was_written_survives_kill_9(tmp_path):
    image, data = tmp_path / "image", tmp_path / "data"
    data.write_bytes(os.urandom(65536))
    ns = f"file:{image},size=1M"
    with target("--ns", ns) as t:
        assert t.host("write", "-n", NQN, "--slba", "16", "--file", str(data)).returncode == 0
        assert t.host("flush", "-n", NQN).returncode == 0
        t.process.kill()
        t.process.wait()
    with target("--ns", ns) as t:
        back = t.host("read", "-n", NQN, "--slba", "16", "--blocks", "128", "--file", "-")
        assert back.stdout == data.read_bytes()


def test_shutdown_is_complete_when_files_are_flushed(tmp_path):
    """The delay of the namespace is the time that its disk takes."""
    with target("--ns", f"file:{tmp_path}/image,size=1M,delay=300ms") as t:
        q = Queue(t.port)
        q.enable()
        began = time.monotonic()
        cqe = q.command(struct.pack("<BBHB35xBxxxIQ8x", 0x7f, 0x40, 0, 0, 0, 0x14, 0x464001))
        assert struct.unpack_from("<H", cqe, 14)[0] >> 1 == 0
        csts = struct.unpack("<Q", q.command(struct.pack("<BBHB35xBxxxI16x", 0x7f, 0x40, 0, 4, 0, 0x1c))[:8])
        assert csts[0] >> 2 & 3 == 2 and time.monotonic() - began >= 0.3


@pytest.mark.parametrize("rpc", [False, True])
def test_a_size_that_cannot_be_had_fails_the_reload(tmp_path, rpc):
    """But not the rest of it, and the log says so; nor does the RPC go back to what there was."""
    image, config, place = tmp_path / "image", tmp_path / "config.json", str(tmp_path / "rpc")
    image.write_bytes(bytes(1 << 20))
    new = NQN + "-new"

    def write(path, nqns):
        config.write_text(json.dumps({
            "ports": [{"portid": 1, "subsystems": nqns, "addr": {
                "trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "0"}}],
            "subsystems": [{"nqn": nqn, "attr": {"allow_any_host": "1"}, "namespaces": [
                {"nsid": 1, "enable": 1, "device": {"path": path if nqn == NQN else "mem:1M"}}]}
                for nqn in nqns]}))

    def says(text):
        err = ""
        while text not in err:
            err = t.process.stderr.readline()
            assert err, f"no {text}"
        return err

    write(f"file:{image},size=2M", [NQN])
    t = Target("--config", str(config), *(["--rpc", place] if rpc else []))
    try:
        write(f"file:{image},size=1M", [NQN, new])
        t.process.send_signal(signal.SIGHUP)
        line = says("namespace 1 cannot get the size of")
        assert "(all else was changed)" in line and image.stat().st_size == 2 << 20, line
        assert t.host("identify", "-n", new).returncode == 0
        if rpc:
            done = subprocess.run([NVMFSPEC, "ctl", "-s", place, "nvmf_create_subsystem", f"nqn={NQN}-third"],
                                  capture_output=True, timeout=30)
            assert done.returncode == 0, done.stderr
            assert t.host("identify", "-n", new).returncode == 0
        write("tape:1M", [NQN])
        t.process.send_signal(signal.SIGHUP)
        assert "(nothing was changed)" in says("tape:1M")
        assert t.host("identify", "-n", new).returncode == 0
        t.stop()
    finally:
        t.process.kill()
        t.process.wait()


def test_a_file_larger_than_may_be_written_fails_the_write(tmp_path):
    """Beyond RLIMIT_FSIZE a signal that nobody takes ends the process."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    image = tmp_path / "image"
    with open(image, "wb") as f:
        f.truncate(2 << 20)
    with target("--ns", f"file:{image}", preexec_fn=limit) as t:
        wrong = t.host("write", "-n", NQN, "--slba", "2048", "--blocks", "8", "--pattern", "1")
        assert wrong.returncode == 1 and b"Write" in wrong.stderr
        assert t.host("write", "-n", NQN, "--blocks", "8", "--pattern", "1").returncode == 0
        assert is_quiet(t.stop())


def test_maxcmd_of_the_longest_queues():
    """65,536 entries are more than MAXCMD can say; 0 would be 'not told'."""
    with target("--limit", "queue_entries=65536") as t:
        told = t.host("identify", "-n", NQN, "-o", "json")
        assert json.loads(told.stdout)["maxcmd"] == 65535


# --- memory and many connections -----------------------------------------------------------------

CONNECTIONS, PER_CONTROLLER = 2000, 63


def hold_idle_queues(port, count, entries):
    queues, admin = [], None
    for n in range(count):
        if n % PER_CONTROLLER == 0:
            admin = Queue(port)
            admin.enable()
            admin.command(struct.pack("<BBH36xII16x", 9, 0x40, 0, 7, 0x003f003f))
            queues.append(admin)
        queues.append(Queue(port, n % PER_CONTROLLER + 1, admin.cntlid, entries))
    return queues


@pytest.mark.fast
def test_idle_connections_cost_little():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard < 2 * CONNECTIONS:
        pytest.skip(f"at most {hard} open files here")
    with target("--limit", "controllers=64") as t:
        Queue(t.port).close()
        before, files = t.rss(), t.files()
        queues = hold_idle_queues(t.port, CONNECTIONS, 128)
        each = (t.rss() - before) / CONNECTIONS
        print(f"{each / 1024:.1f} KiB for each of {CONNECTIONS} connections")
        assert each < 64 << 10
        assert t.host("identify", "-n", NQN).returncode == 0
        for q in queues:
            q.close()
        deadline = time.time() + 20
        while t.files() > files and time.time() < deadline:
            time.sleep(0.1)
        assert t.files() <= files
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.calm(0.2)
def test_half_open_peers_cost_nobody_else():
    with target("--limit", "ic_timeout=400", "--limit", "stall_timeout=400") as t:
        silent = [socket.create_connection(("127.0.0.1", t.port)) for _ in range(50)]
        partial = [Queue(t.port, connect=False) for _ in range(50)]
        for q in partial:
            q.socket.sendall(b"\x04\0\x48")
        assert t.host("identify", "-n", NQN).returncode == 0
        for s in silent + [q.socket for q in partial]:
            s.settimeout(20)
            try:
                assert s.recv(1) == b""
            except ConnectionResetError:
                pass
        deadline = time.monotonic() + 20
        while t.files() >= 20 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert t.files() < 20


# --- delays ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("backend", ["mem:8M", "file:{}/image,size=8M"])
def test_a_namespace_that_takes_its_time(backend, tmp_path):
    capture = tmp_path / "slow.pcapng"
    with target("--ns", backend.format(tmp_path) + ",delay=0-4ms", "--pcap", str(capture)) as t:
        done = t.host("verify", "-n", NQN, "-N", "1", "--range", "1M", "-i", "2", "-g", "-G")
        assert done.returncode == 0, done.stdout + done.stderr
        perf = t.host("perf", "-n", NQN, "--rw", "randread", "--time", "1", "-o", "json")
        assert 1000 < json.loads(perf.stdout)["read"]["latency_us"]["mean"]
        assert t.host("flush", "-n", NQN).returncode == 0
        assert t.stop() == ""
    checked = subprocess.run([NVMFSPEC, "pcap", "check", str(capture)], capture_output=True,
                             text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_a_delayed_command_outlives_its_connection():
    """Hosts that go while their commands wait cost nobody else anything."""
    with target("--ns", "mem:8M,delay=1s") as t:
        for _ in range(3):
            cut = subprocess.Popen([NVMFSPEC, "host", "perf", "-t", "tcp", "-a", "127.0.0.1", "-s",
                                    str(t.port), "-n", NQN, "--rw", "randwrite", "--time", "5"],
                                   stdout=subprocess.DEVNULL)
            time.sleep(0.4)
            cut.kill()
            cut.wait()
        assert t.host("identify", "-n", NQN).returncode == 0
        assert t.stop() == ""


# --- races ---------------------------------------------------------------------------------------

@pytest.mark.tsan
@pytest.mark.timeout(300)
def test_no_data_race_under_load(tmp_path):
    """Queues on three reactors, files and memory, hosts that come, leave and are cut off, and a
    configuration that changes meanwhile."""
    program = os.environ.get("NVMFSPEC_TSAN")
    if not program:
        pytest.skip("NVMFSPEC_TSAN is not set")
    configs = [f"""{{ "hosts": [], "ports": [ {{ "portid": 1, "addr": {{ "trtype": "tcp",
        "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "0" }}, "subsystems": [ "{NQN}" ] }} ],
        "subsystems": [ {{ "nqn": "{NQN}", "attr": {{ "allow_any_host": "1" }}, "namespaces": [
        {{ "nsid": 1, "enable": 1, "device": {{ "path": "mem:{size}M" }} }},
        {{ "nsid": 2, "enable": 1, "device": {{ "path": "file:{tmp_path}/image,size=16M,delay=0-300us" }} }}
        {more} ] }} ] }}""" for size, more in [
            (64, ""), (128, ', { "nsid": 3, "enable": 1, "device": { "path": "null:1G" } }')]]
    config = tmp_path / "config.json"
    config.write_text(configs[0])
    t = Target("--config", str(config), "--reactors", "3", program=program)
    where = ["-t", "tcp", "-a", "127.0.0.1", "-s", str(t.port), "-n", NQN]

    def start(*args):
        return subprocess.Popen([NVMFSPEC, "host", args[0], *where, *args[1:]])

    # within what the namespace has in either configuration, whichever it has when they begin
    load = [start("perf", "--rw", "randrw", "-i", "4", "--time", "8", "--no-busy-poll", "--range", "64M"),
            start("perf", "--rw", "randrw", "-i", "3", "--time", "8", "--no-busy-poll", "-g", "-G",
                  "--bs", "64k", "--iodepth", "8", "--range", "64M"),
            start("verify", "-N", "2", "-i", "2")]
    for n in range(16):
        config.write_text(configs[n % 2])
        t.process.send_signal(signal.SIGHUP)
        for args in (["identify", "-n", NQN], ["flush", "-n", NQN, "-N", "2"], ["discover"]):
            assert t.host(*args).returncode == 0, args
        cut = start("perf", "--rw", "randwrite", "--time", "5")
        time.sleep(0.1)
        cut.kill()
        cut.wait()
    assert [p.wait(120) for p in load] == [0, 0, 0]
    last = start("perf", "--rw", "randrw", "-i", "4", "--time", "5")
    time.sleep(1)
    errors = t.stop()
    last.wait()
    assert "ThreadSanitizer" not in errors, errors
    assert t.process.returncode == 0


# --- authentication -------------------------------------------------------------------------------

@pytest.mark.parametrize("hash, group", [
    ("sha256", "ffdhe3072"), ("sha384", "null"), ("sha512", "ffdhe8192")])
def test_authentication(hash, group, tmp_path):
    (tmp_path / "key").write_text(KEY + "\n")
    record = tmp_path / "auth.pcapng"
    with target("--dhchap-key", f"@{tmp_path}/key", "--dhchap-ctrl-key", CTRL_KEY,
                "--dhchap-hash", hash, "--dhchap-dhgroup", group) as t:
        done = t.host("verify", "-n", NQN, "-S", KEY, "-C", CTRL_KEY, "-i", "2", "--range", "1M",
                      "--passes", "1", "--pcap", str(record))
        assert done.returncode == 0, done.stderr
        for keys, says in [([], b"no key is given"),
                           (["-S", CTRL_KEY], b"refused by the controller: authentication failed"),
                           (["-S", KEY, "-C", KEY], b"the response of the controller is wrong")]:
            done = t.host("list", "-n", NQN, *keys)
            assert done.returncode == 1 and says in done.stderr
        assert t.host("list", "-n", NQN, "-S", KEY).returncode == 0
    shown = subprocess.run([NVMFSPEC, "pcap", "show", "-v", record], capture_output=True, text=True)
    assert shown.stdout.count("DH-HMAC-CHAP_Success2") == 3  # the admin queue and two more
    assert shown.stdout.count(f"({'NULL' if group == 'null' else group})") == 3
    checked = subprocess.run([NVMFSPEC, "pcap", "check", record], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_authentication_by_nvmetcli(tmp_path):
    host = "nqn.2026-01.org.example:host"
    config = tmp_path / "target.json"
    config.write_text(json.dumps({
        "hosts": [{"nqn": host, "attr": {"dhchap_key": KEY, "dhchap_ctrl_key": CTRL_KEY,
                                         "dhchap_hash": "hmac(sha512)",
                                         "dhchap_dhgroup": "ffdhe2048"}}],
        "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "0"}, "allowed_hosts": [host],
                        "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "mem:1M"}}]}],
        "ports": [{"portid": 1, "addr": {"trtype": "tcp", "adrfam": "ipv4", "trsvcid": "0",
                                         "traddr": "127.0.0.1"}, "subsystems": [NQN]}]}))
    t = Target("--config", str(config))
    try:
        done = t.host("list", "-n", NQN, "-q", host, "-S", KEY, "-C", CTRL_KEY)
        assert done.returncode == 0, done.stderr
        assert b"no key is given" in t.host("list", "-n", NQN, "-q", host).stderr
    finally:
        t.process.kill()
        t.process.wait()
