# SPDX-License-Identifier: BSD-3-Clause
"""`nvmfspec pcap replay` on the command line: captures of the kernel's host and target against the
reference target, whole and spoilt on purpose, and against the kernel's own target in the lab."""
import os
import pathlib
import random
import re
import socket
import struct
import subprocess
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
CAPTURES = {
    "tcp": ROOT / "pdu/io/tests/captures/nvme-tcp-6.12.pcap",
    "digest": ROOT / "pdu/io/tests/captures/nvme-tcp-digest-6.12.pcap",
    "rxe": ROOT / "pcap/tests/captures/nvme-rdma-rxe-6.12.pcap",
    "siw": ROOT / "pcap/tests/captures/nvme-rdma-siw-6.12.pcap",
    "auth": ROOT / "pcap/tests/captures/nvme-tcp-auth-6.12.pcap",
}
NQN = "nqn.2026-01.io.nvmfspec:replay-test"
KEY = "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:"


@pytest.fixture
def target():
    process = subprocess.Popen(
        [NVMFSPEC, "target", "-a", "127.0.0.1", "-s", "0", "-n", NQN, "--ns", "mem:64M"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = re.match(r"listening on 127\.0\.0\.1:(\d+)", process.stdout.readline())
    assert found
    yield int(found[1])
    process.terminate()
    assert process.wait(timeout=20) == 0


def replay(capture, port, *args, code=0):
    done = subprocess.run(
        [NVMFSPEC, "pcap", "replay", CAPTURES.get(capture, capture), "-a", "127.0.0.1",
         "-s", str(port), "-n", NQN, *map(str, args)],
        capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code in (0, 1) else done.stderr


def figures(out):
    found = re.search(r"^(\d+) same, (\d+) allowed differences, (\d+) DIFFERENT, (\d+) skipped$",
                      out, re.M)
    assert found, out
    return tuple(map(int, found.groups()))


@pytest.mark.parametrize("capture, options", [
    ("tcp", []), ("digest", ["-g", "-G"]), ("rxe", []), ("siw", ["-G"])])
def test_all_is_the_same_or_allowed(target, capture, options):
    out = replay(capture, target, "--allow-write", "-v", *options)
    same, allowed, different, skipped = figures(out)
    assert (different, skipped) == (0, 0)
    assert same >= 30
    lines = out.splitlines()[:-1]
    assert len(lines) == same + allowed
    for line in lines:
        assert re.match(r"(SAME|allowed) +frame \d+(-\d+)? connection \d q\d cid \d+ \S.*, "
                        r"live q\d cid \d+", line), line
        assert line.startswith("allowed") == (": " in line.split(", live")[1]), line


def test_authentication_is_not_done_unasked(target):
    out = replay("auth", target, "--allow-write", "-v", "-S", KEY)
    different, skipped = figures(out)[2:]
    assert (different, skipped) == (0, 38)
    assert out.count("the live target does not ask for authentication") == 38


def test_who_wants_proof_of_identity_gets_it_or_stops(target):
    out = replay("auth", target, "-S", KEY, "-C", KEY, code=1)
    assert "the controller does not ask for authentication, so it cannot be authenticated itself" in out


def test_nothing_is_written_unasked(target):
    out = replay("tcp", target, "-v")
    assert figures(out)[3] == 10
    assert len(re.findall(r"^skipped .* Write .*which requires --allow-write$", out, re.M)) == 9
    read = subprocess.run(
        [NVMFSPEC, "host", "read", "-t", "tcp", "-a", "127.0.0.1", "-s", str(target), "-n", NQN,
         "--blocks", "1024", "--file", "-"], capture_output=True, timeout=30, check=True).stdout
    assert read == bytes(1024 * 512)


def test_what_was_written_is_there(target):
    replay("tcp", target, "--allow-write")
    read = subprocess.run(
        [NVMFSPEC, "host", "read", "-t", "tcp", "-a", "127.0.0.1", "-s", str(target), "-n", NQN,
         "--blocks", "8", "--file", "-"], capture_output=True, timeout=30, check=True).stdout
    assert read in CAPTURES["tcp"].read_bytes()


# --- a target that is spoilt ----------------------------------------------------------------------

class Spoiler:
    """Stands before a target and changes what hosts send to it, PDU by PDU."""

    def __init__(self, port, change):
        self.target, self.change = port, change
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                host, _ = self.listener.accept()
            except OSError:
                return
            live = socket.create_connection(("127.0.0.1", self.target))
            for work in ((self.forward, host, live), (self.copy, live, host)):
                threading.Thread(target=work[0], args=work[1:], daemon=True).start()

    @staticmethod
    def copy(source, sink):
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)

    def forward(self, host, live):
        stream, qid = host.makefile("rb"), 0
        while head := stream.read(8):
            pdu = bytearray(head + stream.read(struct.unpack_from("<I", head, 4)[0] - 8))
            if pdu[0] == 4 and pdu[8] == 0x7f and pdu[12] == 1:
                qid = struct.unpack_from("<H", pdu, 8 + 42)[0]
            elif pdu[0] == 4 and qid:
                self.change(pdu)
            live.sendall(pdu)
        live.shutdown(socket.SHUT_WR)

    def stop(self):
        self.listener.close()


def read_elsewhere(pdu):
    """Reads of 256 blocks from LBA 256 get those from LBA 512."""
    if pdu[8] == 2 and struct.unpack_from("<Q", pdu, 8 + 40)[0] == 256:
        struct.pack_into("<Q", pdu, 8 + 40, 512)


def refuse_flush(pdu):
    if pdu[8] == 0:
        struct.pack_into("<I", pdu, 8 + 4, 7)  # no such namespace


@pytest.mark.parametrize("capture, frame", [("tcp", 436), ("rxe", None), ("siw", None)])
def test_data_of_another_lba(target, capture, frame):
    spoiler = Spoiler(target, read_elsewhere)
    out = replay(capture, spoiler.port, "--allow-write", code=1)
    spoiler.stop()
    assert figures(out)[2] == 1
    (line,) = [line for line in out.splitlines() if line.startswith("DIFFERENT")]
    assert re.search(r"Read nsid 1 slba 256 nlb 256 .*data: byte 0 of 131072: captured ..,", line)
    if frame:
        assert f"frame {frame}-" in line


def test_another_status(target):
    spoiler = Spoiler(target, refuse_flush)
    out = replay("tcp", spoiler.port, "--allow-write", code=1)
    spoiler.stop()
    (line,) = [line for line in out.splitlines() if line.startswith("DIFFERENT")]
    assert re.search(r"frame 713-714 .* Flush .*status: captured Success, live Invalid Field",
                     line)


# --- usage ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("args, says", [
    ([CAPTURES["tcp"]], "-a"),
    (["-a", "127.0.0.1"], "no file given"),
    ([CAPTURES["tcp"], "-a", "127.0.0.1", "--timing", "fast"], "scale of time"),
    ([CAPTURES["tcp"], "-a", "127.0.0.1", "--remap-lba", "5:"], "OFFSET"),
    ([CAPTURES["tcp"], "-a", "127.0.0.1", "-t", "rdma", "-g"], "digests"),
    ([CAPTURES["tcp"], "-a", "127.0.0.1", "-I", "x"], "UUID"),
    ([CAPTURES["tcp"], "-a", "127.0.0.1", "-S", "key"], "DHHC-1"),
    ([CAPTURES["tcp"], "-a", "127.0.0.1", "-C", "@/nowhere/key"], "/nowhere/key"),
    ([CAPTURES["tcp"], "-a", "127.0.0.1", "-C", KEY], "--dhchap-secret"),
])
def test_usage(args, says):
    done = subprocess.run([NVMFSPEC, "pcap", "replay", *args], capture_output=True, text=True,
                          timeout=30)
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if "a key on the command line" not in line]
    assert len(said) == 1 and says in said[0]


def test_nobody_listens(free_port):
    assert "127.0.0.1" in replay("tcp", free_port(), "--timeout", "1000", code=3)


def test_no_capture(tmp_path, target):
    file = tmp_path / "x"
    file.write_bytes(b"no capture")
    replay(str(file), target, code=3)
    replay(str(tmp_path / "none"), target, code=3)


# --- as controller ------------------------------------------------------------------------------

class Served:
    """A capture, served to hosts."""

    def __init__(self, capture, *args):
        self.process = subprocess.Popen(
            [NVMFSPEC, "pcap", "replay", "--role", "controller", CAPTURES[capture],
             "-a", "127.0.0.1", "-s", "0", *args], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = re.match(r"listening on 127\.0\.0\.1:(\d+)", line)[1]

    def stop(self, code=0):
        self.process.terminate()
        out, _ = self.process.communicate(timeout=20)
        assert self.process.returncode == code, out
        return out


@pytest.mark.parametrize("capture", sorted(set(CAPTURES) - {"auth"}))
def test_host_and_controller_of_one_capture(capture):
    served = Served(capture)
    done = subprocess.run(
        [NVMFSPEC, "pcap", "replay", CAPTURES[capture], "-a", "127.0.0.1", "-s", served.port,
         "--allow-write", "--strict-data", "--loop", "2"],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    same, allowed, different, skipped = figures(done.stdout)
    assert same >= 130 and (different, skipped) == (0, 0)
    assert allowed <= 20  # events that do not come, the discovery log's addresses, what TCP can
    assert figures(served.stop())[2] == 0


def test_a_served_capture_asks_for_no_authentication():
    served = Served("auth", "-v")
    out = replay("auth", served.port, "--allow-write", "-n", "nqn.2026-01.lab:auth")
    assert figures(out)[2:] == (0, 38)
    out = served.stop()
    assert out.count("authentication is no longer asked for") == 8
    assert figures(out)[2] == 0


def test_a_host_that_asks_for_more_than_was_captured():
    served = Served("tcp", "-v")
    where = ["-a", "127.0.0.1", "-s", served.port, "-n", "nqn.2026-01.lab:tcp"]
    done = subprocess.run([NVMFSPEC, "host", "read", *where, "--slba", "256", "--blocks", "256",
                           "--file", "-"], capture_output=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert done.stdout[:1400] in CAPTURES["tcp"].read_bytes()
    done = subprocess.run([NVMFSPEC, "host", "read", *where, "--slba", "7", "--blocks", "3"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "Invalid" in done.stderr
    out = served.stop(code=1)
    assert re.search(r"^SAME +live q1 cid \d+ Read nsid 1 slba 256 .*, captured frame 436-556$", out,
                     re.M)
    assert re.search(r"^DIFFERENT live q1 .*slba 7 nlb 3.*: not in the capture", out, re.M)


def test_discovery_leads_to_where_it_is_served():
    served = Served("siw")
    done = subprocess.run([NVMFSPEC, "host", "discover", "-a", "127.0.0.1", "-s", served.port],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^subnqn: +nqn.2026-01.lab:siw$", done.stdout, re.M)
    assert set(re.findall(r"^traddr: +(\S+)$", done.stdout, re.M)) == {"127.0.0.1"}
    assert set(re.findall(r"^trsvcid: +(\S+)$", done.stdout, re.M)) == {served.port}
    assert set(re.findall(r"^trtype: +(\S+)$", done.stdout, re.M)) == {"tcp"}
    served.stop()


def test_hostile_hosts():
    """The suite's cases break every rule of hosts; what it thinks of the answers does not matter."""
    served = Served("tcp")
    subprocess.run([NVMFSPEC, "conform", "--brief", "-a", "127.0.0.1", "-s", served.port, "-n",
                    "nqn.2026-01.lab:tcp", "tcp/alignment", "tcp/header", "tcp/termreq"],
                   capture_output=True, timeout=100)
    served.process.terminate()
    served.process.communicate(timeout=20)
    assert served.process.returncode in (0, 1)


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_capture_is_served(seed, tmp_path):
    """Answers that are anything at all: hosts refuse what they have to, nothing crashes."""
    rng = random.Random(seed)
    whole = bytearray(CAPTURES["tcp"].read_bytes())
    at = 24
    while at < len(whole):
        (n,) = struct.unpack_from("<I", whole, at + 8)
        if rng.random() < 0.05 and n > 70:
            whole[at + 16 + 54 + rng.randrange(n - 54) % 120] = rng.randrange(256)
        at += 16 + n
    CAPTURES["damaged"] = tmp_path / "x.pcap"
    CAPTURES["damaged"].write_bytes(whole)
    served = Served("damaged")
    for capture in (CAPTURES["tcp"], CAPTURES["damaged"]):
        done = subprocess.run(
            [NVMFSPEC, "pcap", "replay", capture, "-a", "127.0.0.1", "-s", served.port,
             "--allow-write", "--timeout", "1000"], capture_output=True, text=True, timeout=60)
        assert done.returncode in (0, 1, 3), done.stderr
    del CAPTURES["damaged"]
    served.process.terminate()
    served.process.communicate(timeout=20)
    assert served.process.returncode in (0, 1)


def test_a_replay_is_recorded(target, tmp_path):
    capture = tmp_path / "x.pcapng"
    replay("rxe", target, "--allow-write", "--pcap", capture)
    assert subprocess.run([NVMFSPEC, "pcap", "check", "--strict", capture],
                          capture_output=True, timeout=60).returncode == 0
    replay(str(capture), target, "--allow-write")


def test_it_ends_by_itself():
    served = Served("tcp", "--idle", "0.3")
    subprocess.run([NVMFSPEC, "host", "list", "-a", "127.0.0.1", "-s", served.port, "-n",
                    "nqn.2026-01.lab:tcp"], capture_output=True, timeout=30)
    assert served.process.wait(timeout=20) in (0, 1)


# --- in the lab -----------------------------------------------------------------------------------

@pytest.mark.lab
@pytest.mark.parametrize("script", [
    ["kernel_target.sh"], ["rdma.sh"], ["authentication.sh"],
    ["controller.sh", str(CAPTURES["tcp"]), "nqn.2026-01.lab:tcp"],
    ["controller.sh", str(CAPTURES["digest"]), "nqn.2026-01.lab:tcp"],
    ["controller.sh", str(CAPTURES["rxe"]), "nqn.2026-01.lab:rxe", "rxe"],
    ["controller.sh", str(CAPTURES["tcp"]), "nqn.2026-01.lab:tcp", "rxe"],
    ["controller.sh", str(CAPTURES["siw"]), "nqn.2026-01.lab:siw", "siw"]],
    ids=lambda s: "-".join([s[0], *s[2:]]))
def test_lab(script, tmp_path):
    done = subprocess.run(
        [ROOT / "ci/lab", "--timeout", "120", "--out", tmp_path, "--", "env",
         f"NVMFSPEC={NVMFSPEC}", "bash", str(ROOT / "pcap/tests/lab" / script[0]), *script[1:]],
        capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
