# SPDX-License-Identifier: BSD-3-Clause
"""Captures of TLS 1.3 between real ends, decrypted with their key log or their PSK: what is inside reads as our own
ends have recorded it, and what cannot be read is told and never judged."""
import json
import os
import pathlib
import random
import re
import selectors
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

import pytest

from craft import Capture, Stream

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "target/tests"))
from test_tls import GCM128, HOST, ICREQ, KEY, SUBSYS, needs_gnutls, psk  # pylint: disable=wrong-import-position

NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
OTHER = "NVMeTLSkey-1:01:ABEiM0RVZneImaq7zN3u/wARIjNEVWZ3iJmqu8zd7v8qDMNU:"
ALONE = (("--tls-groups", "P-256"), ("--tls-groups", "X25519"))  # the two have no group in common
APPLICATION = 23


# --- real traffic --------------------------------------------------------------------------------

class Relay:
    """Between a host and a target: keeps what goes through as [connection, sender, bytes]; b"": its end."""

    def __init__(self, port):
        self.to, self.events, self.lock = port, [], threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = str(self.listener.getsockname()[1])
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()

    def accept(self):
        number = 0
        while True:
            try:
                host, _ = self.listener.accept()
            except OSError:
                return
            target = socket.create_connection(("127.0.0.1", int(self.to)))
            self.threads.append(threading.Thread(target=self.pump, args=(number, host, target)))
            self.threads[-1].start()
            number += 1

    def pump(self, number, host, target):
        ends = selectors.DefaultSelector()
        ends.register(host, selectors.EVENT_READ, ("host", target))
        ends.register(target, selectors.EVENT_READ, ("controller", host))
        while ends.get_map():
            for key, _ in ends.select():
                sender, peer = key.data
                try:
                    data = key.fileobj.recv(65536)
                except OSError:
                    data = b""
                with self.lock:
                    self.events.append([number, sender, data])
                try:
                    peer.sendall(data) if data else peer.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                if not data:
                    ends.unregister(key.fileobj)
        host.close()
        target.close()

    def end(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(20)


class Traffic:
    """One run of a host against a target, over a relay."""

    def __init__(self, folder, target=(), host=(), run=("verify", "--range", "1M", "-i", "2", "-g", "-G"), code=0):
        self.folder, self.keys, self.plain = folder, folder / "keys", folder / "host.pcap"
        key = folder / "psk"
        key.write_text(KEY + "\n")
        key.chmod(0o600)
        self.psk = f"@{key}"
        with subprocess.Popen([NVMFSPEC, "target", "-a", "127.0.0.1", "-s", "0", "-n", SUBSYS, "--ns", "mem:16M",
                               "--quiet", "--tls-key", self.psk, "--tls-required", "--tls-keylog",
                               folder / "target-keys", *target], stdout=subprocess.PIPE, text=True) as process:
            relay = Relay(re.match(r"listening on 127\.0\.0\.1:(\d+)", process.stdout.readline())[1])
            try:
                if callable(run):
                    run(relay, self.keys)
                else:
                    self.run(relay, run, host, code)
            finally:
                relay.end()
                process.terminate()
        self.events = relay.events

    def run(self, relay, run, more, code):
        done = subprocess.run([NVMFSPEC, "host", run[0], "-t", "tcp", "-a", "127.0.0.1", "-s", relay.port, "-q", HOST,
                               "-n", SUBSYS, "--tls-key", self.psk, "--tls-keylog", self.keys, "--pcap", self.plain,
                               *run[1:], *more], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done.stderr

    def write(self, name="tls.pcap", segment=1400, lost=(), change=lambda frame, data: data):
        """A capture of it, in segments of this size at most. lost: frames that it lacks. change(frame, data): what
        a frame's data has become. Returns its path; self.frames[frame] is [connection, sender, data]."""
        capture, streams, self.frames = Capture(), {}, {}
        for number, sender, data in self.events:
            if number not in streams:
                streams[number] = Stream(capture, 50000 + number)
                self.frames.update({len(self.frames) + i + 1: [number, sender, b""] for i in range(3)})
            for at in range(0, max(len(data), 1), segment):
                piece, frame = data[at:at + segment], len(self.frames) + 1
                before = len(capture.out)
                self.frames[frame] = [number, sender, piece]
                streams[number].segment(sender, 0x18 if piece else 0x11, change(frame, piece))
                if frame in lost:
                    del capture.out[before:]
        return capture.write(self.folder / name)


@pytest.fixture(name="traffic", scope="module", params=["aes128", "aes256", "alone-aes128", "alone-aes256", "retry"])
def fixture_traffic(request, tmp_path_factory):
    alone, suite = request.param.startswith("alone"), request.param[-6:]
    groups = ALONE if alone else (("--tls-groups", "P-256"), ("--tls-groups", "X25519:P-256")) \
        if request.param == "retry" else ((), ())
    host = groups[1] + (("--tls-suite", suite) if suite.startswith("aes") else ())
    made = Traffic(tmp_path_factory.mktemp(request.param), groups[0], host)
    made.alone = alone
    return made


@pytest.fixture(name="one", scope="module")
def fixture_one(tmp_path_factory):
    return Traffic(tmp_path_factory.mktemp("one"))


def pcap(*args, code=0):
    done = subprocess.run([NVMFSPEC, "pcap", *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def pdus(path, *args):
    """By connection and sender, in order."""
    found = {}
    for line in pcap("show", "-o", "json", path, *args).stdout.splitlines():
        o = json.loads(line)
        if o["kind"] == "pdu":
            found.setdefault((o["connection"], o["sender"]), []).append(o)
    return found


def fields(found):
    return {key: [o.get("fields") for o in list_] for key, list_ in found.items()}


# --- what is inside ------------------------------------------------------------------------------

@pytest.mark.parametrize("segment", [60000, 1400, 89])
def test_what_is_inside_is_what_was_recorded(traffic, segment):
    path = traffic.write(segment=segment)
    inside = pdus(path, "--keylog", traffic.keys)
    assert sum(map(len, inside.values())) > 100
    assert fields(inside) == fields(pdus(traffic.plain))
    for args in (["--keylog", traffic.folder / "target-keys"], ["--tls-key", traffic.psk])[:1 + traffic.alone]:
        assert fields(pdus(path, *args)) == fields(inside)


def record_ends(traffic, number, sender):
    """Frames in which a record of application data ends."""
    stream, ends = b"", set()
    for frame, (n, s, data) in traffic.frames.items():
        if (n, s) != (number, sender):
            continue
        stream += data
        while len(stream) >= 5 and len(stream) >= 5 + int.from_bytes(stream[3:5], "big"):
            if stream[0] == APPLICATION:
                ends.add(frame)
            stream = stream[5 + int.from_bytes(stream[3:5], "big"):]
    return ends


def test_frames_are_those_of_the_capture(one):
    inside = pdus(one.write(segment=700), "--keylog", one.keys)
    for (connection, sender), list_ in inside.items():
        frames = [o["frame"] for o in list_]
        assert frames == sorted(frames)
        assert set(frames) <= record_ends(one, connection - 1, sender)
        assert len(set(frames)) > 5


def test_it_is_checked_like_any_other(traffic):
    done = pcap("check", "--all", "--strict", traffic.write(), "--keylog", traffic.keys)
    assert "3 connections, 0 gaps: 0 must and 0 should broken" in done.stdout
    assert done.stderr == ""


def test_what_is_broken_inside_is_found(tmp_path):
    broken = Traffic(tmp_path, ("--violate", "base/identify/text"), run=("identify",))
    done = pcap("check", broken.write(), "--keylog", broken.keys, code=1)
    found = re.search(r"frame (\d+) .*\n.*base/identify/text", done.stdout)
    assert broken.frames[int(found[1])][1] == "controller"


def test_everybody_who_reads_captures_decrypts(one, tmp_path):
    path, keys = one.write(), ("--keylog", one.keys)
    counted, plainly = (pcap("show", "--count", *args).stdout.partition("frames")[2]
                        for args in ((path, *keys), (one.plain,)))
    assert counted == plainly and " 3 connections, 0 gaps" in counted
    assert pcap("stat", path, *keys).stdout.count("\n") == pcap("stat", one.plain).stdout.count("\n")
    pcap("extract", path, "--nsid", "1", "--to", tmp_path / "image", *keys)
    pcap("extract", one.plain, "--nsid", "1", "--to", tmp_path / "plain", "-s", "4420")
    assert (tmp_path / "image").read_bytes() == (tmp_path / "plain").read_bytes() != b""
    pcap("anonymize", path, "--to", tmp_path / "anonymous.pcap", *keys)
    assert pcap("show", "--count", tmp_path / "anonymous.pcap").stdout.partition("frames")[2] == counted
    with subprocess.Popen([NVMFSPEC, "target", "-a", "127.0.0.1", "-s", "0", "-n", SUBSYS, "--ns", "mem:16M",
                           "--quiet"], stdout=subprocess.PIPE, text=True) as target:
        port = re.match(r"listening on 127\.0\.0\.1:(\d+)", target.stdout.readline())[1]
        done = pcap("replay", path, "-a", "127.0.0.1", "-s", port, "--allow-write", *keys)
        target.terminate()
    assert " 0 DIFFERENT, 0 skipped" in done.stdout


def pcapng(path, secrets, order="<"):
    """The frames of a pcap file, and a key log, as pcapng."""
    def block(kind, body):
        body += bytes(-len(body) % 4)
        return struct.pack(order + "II", kind, 12 + len(body)) + body + struct.pack(order + "I", 12 + len(body))
    old, at = path.read_bytes(), 24
    out = block(0x0a0d0d0a, struct.pack(order + "IHHq", 0x1a2b3c4d, 1, 0, -1))
    for text in secrets:
        out += block(10, struct.pack(order + "II", 0x544c534b, len(text)) + text)
    out += block(1, struct.pack(order + "HHI", 1, 0, 1 << 18))
    while at < len(old):
        seconds, us, n, whole = struct.unpack_from("<IIII", old, at)
        ticks = seconds * 1000000 + us
        out += block(6, struct.pack(order + "IIIII", 0, ticks >> 32, ticks & 0xffffffff, n, whole) +
                     old[at + 16:at + 16 + n])
        at += 16 + n
    new = path.with_suffix(".pcapng")
    new.write_bytes(out)
    return new


@pytest.mark.parametrize("order", ["<", ">"])
def test_secrets_in_the_capture_are_used(one, order):
    text = one.keys.read_bytes()
    half = text.index(b"\n", len(text) // 2) + 1
    path = pcapng(one.write(), [text[:half], text[half:]], order)
    assert fields(pdus(path)) == fields(pdus(one.plain))
    bad = judged(pcapng(one.write(), [b"nonsense"], order), code=4)
    assert "TLS secrets in the capture: line 1 is not one of a TLS key log" in bad.stderr
    assert "3 connections use TLS" in bad.stderr
    cut = pcapng(one.write(), [text], order)
    cut.write_bytes(cut.read_bytes()[:60])
    assert pcap("show", cut, code=3).stdout == ""


# --- what is not ---------------------------------------------------------------------------------

def lines_of(done):
    return [line for line in done.stderr.splitlines() if "TLS connection" in line]


def judged(path, *args, code=0):
    done = pcap("check", "--all", "--strict", path, *args, code=code)
    assert ": 0 must and 0 should broken" in done.stdout, done.stdout
    return done


def test_without_keys_it_is_told(one):
    done = judged(one.write(), code=4)
    assert "3 connections use TLS, and are not read without --keylog or --tls-key" in done.stderr


def test_keys_of_another_run(one, traffic):
    done = judged(one.write(), "--keylog", traffic.keys, code=3)
    said = lines_of(done)
    assert len(said) == 3 and all("the key log has no secrets of it (client random " in line for line in said)
    assert "none of 3 connections over TLS could be read" in done.stderr


def test_wrong_secrets(one, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(re.sub(r"(?m)^(CLIENT_TRAFFIC_SECRET_0 \S+ )....", r"\g<1>0000", one.keys.read_text()))
    said = lines_of(judged(one.write(), "--keylog", keys, code=3))
    assert len(said) == 3 and all("record 1 of the host's data does not decrypt" in line for line in said)


@pytest.mark.parametrize("label", ["CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"])
def test_missing_secrets(one, tmp_path, label):
    keys = tmp_path / "keys"
    keys.write_text("".join(line for line in one.keys.open() if not line.startswith(label)))
    said = lines_of(judged(one.write(), "--keylog", keys, code=3))
    assert len(said) == 3 and all(f"the key log lacks its {label}" in line for line in said)


def test_secrets_of_the_handshake_may_be_missing(one, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("".join(line for line in one.keys.open() if "HANDSHAKE" not in line))
    assert fields(pdus(one.write(), "--keylog", keys)) == fields(pdus(one.plain))


def test_secrets_of_one_connection(one, tmp_path):
    first = re.search(r" (\S+) ", one.keys.read_text())[1]
    keys = tmp_path / "keys"
    keys.write_text("".join(line for line in one.keys.open() if first in line))
    done = judged(one.write(), "--keylog", keys)
    assert len(lines_of(done)) == 2 and "1 connections, 0 gaps" in done.stdout


def test_a_psk_is_not_enough_for_dhe(one):
    said = lines_of(judged(one.write(), "--tls-key", one.psk, code=3))
    assert len(said) == 3 and all("its keys come from (EC)DHE, too" in line for line in said)


def test_another_psk(tmp_path):
    alone = Traffic(tmp_path, *ALONE, run=("identify",))
    said = lines_of(judged(alone.write(), "--tls-key", OTHER, code=3))
    assert said and all("its binder is not of this PSK" in line for line in said)


def middle(one):
    """A frame of the data of an I/O queue."""
    frames = [f for f, (number, sender, data) in one.frames.items() if number == 1 and sender == "host" and data]
    return frames[len(frames) // 2]


def test_a_lost_segment_ends_the_reading(one):
    one.write()
    frame = middle(one)
    done = judged(one.write(lost=[frame]), "--keylog", one.keys)
    said = lines_of(done)
    assert len(said) == 1 and "is not read from here on: bytes are missing in the capture" in said[0]
    assert "3 connections, 2 gaps" in done.stdout
    inside = pdus(one.write(lost=[frame]), "--keylog", one.keys)
    assert 0 < len(inside[2, "host"]) < len(pdus(one.plain)[2, "host"])
    assert all(o["frame"] <= frame + 70 for o in inside[2, "host"] + inside[2, "controller"])


def test_a_damaged_record_ends_the_reading(one):
    one.write()
    frame = middle(one)
    spoilt = one.write(change=lambda f, data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:] if f == frame else data)
    said = lines_of(judged(spoilt, "--keylog", one.keys))
    assert len(said) == 1 and re.search(r"record \d+ of the host's data does not decrypt: it is damaged|"
                                        r"what the host sent is not a TLS record", said[0])


def test_a_capture_that_is_cut_off(one):
    path = one.write()
    path.write_bytes(path.read_bytes()[:len(path.read_bytes()) // 2 + 11])
    done = judged(path, "--keylog", one.keys, code=3)
    assert "the file ends in" in done.stderr


@pytest.mark.parametrize("seed", range(12))
def test_lost_segments_are_nobodys_fault(one, seed):
    """Nor are damaged ones."""
    draw = random.Random(seed)
    one.write(segment=1400)
    lost = [frame for frame in one.frames if draw.random() < 0.003]
    spoilt = {frame for frame in one.frames if draw.random() < 0.001}

    def change(frame, data):
        at = draw.randrange(len(data)) if frame in spoilt and data else None
        return data if at is None else data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1:]
    path = one.write(lost=lost, change=change)
    done = subprocess.run([NVMFSPEC, "pcap", "check", "--all", "--strict", path, "--keylog", one.keys],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, 3) and ": 0 must and 0 should broken" in done.stdout, done.stdout


def test_a_handshake_that_fails_says_how(tmp_path):
    key = tmp_path / "other"
    key.write_text(OTHER + "\n")
    key.chmod(0o600)
    failed = Traffic(tmp_path, host=("--tls-key", f"@{key}"), run=("identify",), code=3)
    (tmp_path / "empty").write_text("CLIENT_TRAFFIC_SECRET_0 " + "0" * 64 + " " + "0" * 64)
    said = lines_of(judged(failed.write(), "--keylog", tmp_path / "empty", code=3))
    assert said and all("the controller ended it by alert 47 (illegal_parameter) in the handshake" in line or
                        "the controller ended it by alert 51 (decrypt_error) in the handshake" in line for line in said)


@pytest.mark.parametrize("args, says", [
    (("--keylog", "/does/not/exist"), "/does/not/exist: No such file or directory"),
    (("--keylog", "/dev/null"), "/dev/null: has no secret of TLS 1.3"),
    (("--keylog", __file__), "is not one of a TLS key log"),
    (("--tls-key", "@/dev/null"), "/dev/null: No data available"),
])
def test_what_is_no_key(one, args, says):
    done = pcap("check", one.write(), *args, code=2)
    assert says in done.stderr and len(done.stderr.splitlines()) == 1


# --- key logs of our own ends --------------------------------------------------------------------

def test_a_key_log_is_its_owners(one):
    for path in (one.keys, one.folder / "target-keys"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(one.keys.read_text().splitlines()) == sorted((one.folder / "target-keys").read_text().splitlines())


@pytest.mark.parametrize("command", [["target", "-a", "127.0.0.1", "-s", "0", "--tls-key", KEY],
                                     ["host", "identify", "-a", "127.0.0.1", "-n", SUBSYS, "--tls-key", KEY],
                                     ["conform", "--tls-key", KEY, "tcp/setup"]])
def test_a_key_log_that_others_may_read(tmp_path, command):
    path = tmp_path / "keys"
    path.write_text("")
    path.chmod(0o644)
    done = subprocess.run([NVMFSPEC, *command, "--tls-keylog", path], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0 and "others may read it (mode 0644; chmod 600)" in done.stderr


def test_the_suite_writes_one(tmp_path):
    keys = tmp_path / "keys"
    done = subprocess.run([NVMFSPEC, "conform", "--tls-key", KEY, "--brief", "--tls-keylog", keys, "fab/discovery",
                           "--timeout-scale", "4"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "CLIENT_TRAFFIC_SECRET_0 " in keys.read_text()
    assert stat.S_IMODE(keys.stat().st_mode) == 0o600


# --- other programs ------------------------------------------------------------------------------

def client(relay, command, steps, **environment):
    """Says what the steps have, each after that side has sent a record that begins so."""
    program = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               bufsize=0, env={**os.environ, **environment})
    for text, side, record in steps:
        program.stdin.write(text)
        deadline = time.monotonic() + 20
        while not any(sender == side and record in data
                      for _, sender, data in list(relay.events)) and time.monotonic() < deadline:
            time.sleep(0.02)
    program.kill()
    program.wait()
    program.stdin.close()


ICRESP, UPDATED = b"\x17\3\3\0\x91", b"\x17\3\3\0\x16"  # headers of their records


@needs_gnutls
def test_what_gnutls_says_and_logs(tmp_path):
    def run(relay, keys):
        identity, secret = psk()
        client(relay, ["gnutls-cli", "-p", relay.port, "127.0.0.1", "--pskusername", identity, "--pskkey", secret,
                       "--priority", GCM128 + "+ECDHE-PSK", "--logfile", "/dev/null"],
               [(ICREQ, "controller", ICRESP)], SSLKEYLOGFILE=str(keys))
    traffic = Traffic(tmp_path, run=run)
    shown = pcap("show", traffic.write(), "--keylog", traffic.keys).stdout
    assert re.findall(r" [<>] (\w+) pfv", shown) == ["ICReq", "ICResp"], shown


@pytest.mark.needs("openssl")
def test_keys_are_updated(tmp_path):
    """OpenSSL's client asks for new keys of both sides before it says ICReq once more."""
    def run(relay, keys):
        identity, secret = psk()
        client(relay, ["openssl", "s_client", "-connect", f"127.0.0.1:{relay.port}", "-tls1_3", "-psk_identity",
                       identity, "-psk", secret, "-ciphersuites", "TLS_AES_128_GCM_SHA256", "-keylogfile", keys],
               [(ICREQ, "controller", ICRESP), (b"K\n", "host", UPDATED), (ICREQ, "controller", UPDATED)])
    traffic = Traffic(tmp_path, run=run)
    shown = pcap("show", traffic.write(), "--keylog", traffic.keys).stdout
    updates = {sender for _, sender, data in traffic.events if UPDATED in data}
    assert updates == {"host", "controller"}
    assert re.findall(r" [<>] (ICReq|ICResp|C2HTermReq) ", shown) == ["ICReq", "ICResp", "ICReq", "C2HTermReq"], shown


# --- the kernel's ends ---------------------------------------------------------------------------

def captures_of_the_kernel(out, *how, lab=()):
    """Of its host and of its target, with a key log of one end."""
    done = subprocess.run([ROOT / "ci/lab", "--tls", *lab, "--timeout", "200", "--out", out, "--", "env",
                           f"NVMFSPEC={NVMFSPEC}", "bash", ROOT / "pcap/tests/lab/tls.sh", out, *how],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def expect_within(out, end, connections, blamed):
    """All of an end's capture is read; its controllers break these of their rules, and no host any."""
    capture, keys = out / f"{end}.pcap", out / f"{end}.keys"
    done = subprocess.run([NVMFSPEC, "pcap", "check", "--all", capture, "--keylog", keys],
                          capture_output=True, text=True, timeout=60)
    assert f"{connections} connections, 0 gaps" in done.stdout and not lines_of(done), done.stdout + done.stderr
    assert set(re.findall(r"(?m)^  controller must (\S+):", done.stdout)) == blamed
    assert not re.findall(r"(?m)^  host must (\S+):", done.stdout)
    said = pdus(capture, "--keylog", keys)
    assert sum(map(len, said.values())) > 50  # how often the kernel reads by itself, it decides


@pytest.fixture(name="lab", scope="module")
def fixture_lab(tmp_path_factory, tlshd):  # pylint: disable=unused-argument
    return captures_of_the_kernel(tmp_path_factory.mktemp("lab"))


@pytest.fixture(name="newer_lab", scope="module")
def fixture_newer_lab(tmp_path_factory, tlshd, newer):  # pylint: disable=unused-argument
    return captures_of_the_kernel(tmp_path_factory.mktemp("lab"), "concat", lab=["--newer"])


NVMET = {"fab/property/cap", "base/identify/controller-fields"}  # as without TLS: baseline/nvmet-tcp.txt
NEWER_NVMET = NVMET | {"fab/property/crms", "nvm/identify/namespace-fields"}  # nvmet-2.1.txt


@pytest.mark.lab
@pytest.mark.xdist_group("tls-lab")
@pytest.mark.parametrize("end, connections, blamed", [
    ("target", 2, set()),
    ("host", 3, NVMET),
    ("kernel", 2, NVMET),
])
def test_what_the_kernel_says_inside_tls(lab, end, connections, blamed):
    """The log is our target's, our host's, and tlshd's."""
    expect_within(lab, end, connections, blamed)


@pytest.mark.lab
@pytest.mark.xdist_group("concat-lab")
@pytest.mark.parametrize("end, connections, blamed", [
    ("target", 6, set()),
    ("host", 4, NEWER_NVMET),
    ("kernel", 6, NEWER_NVMET),
])
def test_what_a_newer_kernel_concatenates(newer_lab, end, connections, blamed):
    """Authentication is read in plain, and what comes after it inside TLS; a PSK that replaces another, too."""
    expect_within(newer_lab, end, connections, blamed)
