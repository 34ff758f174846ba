# SPDX-License-Identifier: BSD-3-Clause
"""TLS between our own ends, and with GnuTLS (on which the kernel's tlshd rests), whose keys are derived here,
apart from the program."""
import base64
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import time
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
HOST, SUBSYS = "nqn.2026-01.org.example:tls-host", "nqn.2026-01.org.example:tls-subsystem"
CONFIGURED = bytes.fromhex("5512DBB6737D0106F65975B773DFB011FFC344BCF442E2DD6D8BC4870B5D5B03")
KEY = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
LONG = "NVMeTLSkey-1:02:11LCxR+6DimqGQVwqdQlPkQHegWNMpf6OlYw1b0BJiL5fCisrtMTtcg7uZDKp9qFhClnuQ==:"

needs_gnutls = pytest.mark.skipif(not shutil.which("gnutls-cli") and os.environ.get("NVMFSPEC_NEEDS") != "fail",
                                  reason="gnutls-cli (gnutls-bin) is not installed")


def psk(version=0, old=False, secret=None, kind="R", names=f"{HOST} {SUBSYS}"):
    """Identity and key of TLS_AES_128_GCM_SHA256 (T1.0 3.6.1.3); secret: a generated PSK; names: of its host, which is
    HOST, and its subsystem."""
    def mac(key, data):
        return hmac.new(key, data, hashlib.sha256).digest()

    def expand(secret, label, context):
        label = b"tls13 " + label
        info = struct.pack("<H", 32) + label + context if old else \
            struct.pack(">HB", 32, len(label)) + label + bytes([len(context)]) + context
        return mac(mac(bytes(32), secret), info + b"\1")

    retained = secret or expand(CONFIGURED, b"HostNQN", HOST.encode())
    digest = base64.b64encode(mac(retained, f"{names} NVMe-over-Fabrics".encode())).decode()
    identity = f"NVMe1{kind}01 {names} {digest}" if version else f"NVMe0{kind}01 {names}"
    context = f"01 {digest}" if version else identity
    return identity, expand(retained, b"nvme-tls-psk", context.encode()).hex()


class Target:
    def __init__(self, log, *args, config=None):
        self.log = log
        served = ["--config", str(config)] if config else \
            ["-a", "127.0.0.1", "-s", "0", "-n", SUBSYS, "--ns", "mem:16M"]
        with open(log, "w") as stderr:
            self.process = subprocess.Popen(
                [NVMFSPEC, "target", *served, *args], stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.port = re.match(r"listening on 127\.0\.0\.1:(\d+)", self.process.stdout.readline())[1]

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.terminate()
        assert self.process.wait(timeout=20) == 0

    def host(self, what, *args):
        return subprocess.run([NVMFSPEC, "host", what, "-t", "tcp", "-a", "127.0.0.1", "-s", self.port, "-q", HOST,
                               *(["-n", SUBSYS] if what != "discover" else []), *args],
                              capture_output=True, text=True, timeout=100)

    def says(self, text):
        """Whether the log has it, at once or soon."""
        for _ in range(100):
            if text in pathlib.Path(self.log).read_text():
                return True
            time.sleep(0.1)
        return False


@pytest.fixture(name="log")
def fixture_log(tmp_path):
    return tmp_path / "log"


@pytest.fixture(name="key")
def fixture_key(tmp_path):
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    file.chmod(0o600)
    return f"@{file}"


@pytest.mark.parametrize("args", [(), ("--tls-identity", "1"), ("--tls-suite", "aes256"), ("--tls-groups", "ffdhe3072"),
                                  ("--tls-dhe-only",), ("--tls-identity", "1", "--tls-derivation", "old")], ids=" ".join)
def test_a_host_reads_what_it_wrote(log, key, args):
    with Target(log, "--tls-key", key, "--tls-required") as target:
        done = target.host("verify", "--tls-key", key, "--range", "4M", "-g", "-G", *args)
        assert done.returncode == 0 and "verified" in done.stdout, done.stderr


def test_keys_of_48_bytes(log):
    with Target(log, "--tls-key", LONG, "--tls-required") as target:
        assert target.host("identify", "--tls-key", LONG).returncode == 0


def test_without_tls_where_it_is_required(log, key):
    with Target(log, "--tls-key", key, "--tls-required") as target:
        assert target.host("identify").returncode == 3
        assert target.says("TLS: the peer does not begin with TLS")
        log_page = target.host("discover", "--tls-key", key).stdout
        assert log_page.count("sectype: tls13") == 2 and log_page.count("treq:    required") == 2


def test_both_on_one_port(log, key):
    with Target(log, "--tls-key", key) as target:
        assert target.host("identify").returncode == 0
        assert target.host("identify", "--tls-key", key).returncode == 0
        assert target.host("discover").stdout.count("treq:    not required") == 2


NAMES = f"{HOST} {SUBSYS}"


@pytest.mark.parametrize("args, derived, says", [
    (("--tls-derivation", "old"), "the old way",
     f"binder does not verify: the host has our key of NVMe0R01 {NAMES}, but derived the old way, "
     "ours as RFC 8446 prints it"),
    (("--tls-key", LONG), "as RFC 8446 prints it",
     f"binder does not verify: the host's key of NVMe0R02 {NAMES} is not ours, derived either way"),
])
def test_a_key_that_differs(log, key, args, derived, says):
    """Version 0 does not show how a key was derived; the binder does."""
    with Target(log, "--tls-key", key) as target:
        done = target.host("identify", "--tls-key", key, *args)
        assert done.returncode == 3 and "TLS: " in done.stderr and "alert" in done.stderr
        assert re.search(rf"we offered NVMe0R0[12] {NAMES}, derived {derived}", done.stderr), done.stderr
        assert target.says(says)
        assert target.host("identify", "--tls-key", key).returncode == 0


def test_another_key_of_version_1_has_no_identity(log, key):
    with Target(log, "--tls-key", key) as target:
        done = target.host("identify", "--tls-key", LONG, "--tls-identity", "1")
        assert done.returncode == 3 and "alert" in done.stderr
        assert target.says("TLS: no key for the identity NVMe1R02 " + HOST)
        assert target.says(": its digest is not of our key")


def test_suites_can_be_disabled(log, key):
    with Target(log, "--tls-key", key, "--tls-suite", "aes256") as target:
        assert target.host("identify", "--tls-key", key).returncode == 3
        assert target.host("identify", "--tls-key", key, "--tls-suite", "aes256").returncode == 0


@pytest.mark.parametrize("args, says", [
    (("--tls-required",), "TLS cannot be required without a PSK"),
    (("--tls-key", "NVMeTLSkey-1:01:AAAA:"), "32 or 48 bytes"),
    (("--tls-key", "@/does/not/exist"), "/does/not/exist: No such file"),
    (("--tls-key", KEY, "--tls-groups", "none-such"), "Invalid argument"),
])
def test_what_cannot_be(args, says):
    done = subprocess.run([NVMFSPEC, "target", "-a", "127.0.0.1", "-s", "0", *args], capture_output=True, text=True,
                          timeout=20)
    assert done.returncode != 0 and says in done.stderr


def test_the_suite_inside_tls(key):
    """A part of it; what it says of a target is the same with TLS and without."""
    done = subprocess.run([NVMFSPEC, "conform", "--tls-key", key, "--strict", "--brief", "tcp/h2cdata", "tcp/termreq",
                           "fab/connect", "fab/discovery", "--timeout-scale", "4"], capture_output=True, text=True,
                          timeout=200)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("offers", [("--tls-identity", "1"), ("--tls-derivation", "old")], ids=" ".join)
def test_the_suite_offers_what_it_is_told(log, key, offers):
    with Target(log, "--tls-key", key, "--tls-required", *(offers if "old" in offers else [])) as target:
        args = [NVMFSPEC, "conform", "-a", "127.0.0.1", "-s", target.port, "-n", SUBSYS, "--tls-key", key, "tcp/tls"]
        done = subprocess.run([*args, *offers], capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stdout
        if "old" in offers:
            assert subprocess.run(args, capture_output=True, timeout=100).returncode != 0


# --- GnuTLS ---------------------------------------------------------------------------------------

GCM128 = "NONE:+VERS-TLS1.3:+AES-128-GCM:+AEAD:+SIGN-ALL:+GROUP-ALL:"
ICREQ = struct.pack("<BBBBIHBBI", 0, 0, 128, 0, 128, 0, 0, 0, 0).ljust(128, b"\0")


def gnutls(port, priority, identity, key):
    """What comes back for an ICReq."""
    run = subprocess.Popen(["gnutls-cli", "-p", port, "127.0.0.1", "--pskusername", identity, "--pskkey", key,
                            "--priority", priority, "--logfile", "/dev/null"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with contextlib.suppress(BrokenPipeError):  # it was refused so soon
        run.stdin.write(ICREQ)
        run.stdin.flush()
    os.set_blocking(run.stdout.fileno(), False)
    got, deadline = b"", time.monotonic() + 20
    while len(got) < 128 and run.poll() is None and time.monotonic() < deadline:
        got += run.stdout.read() or b""
        time.sleep(0.02)
    got += run.stdout.read() or b""
    run.kill()
    run.communicate()
    return got


@needs_gnutls
@pytest.mark.parametrize("version, old", [(0, False), (1, False), (1, True)])
@pytest.mark.parametrize("exchange", ["+PSK", "+ECDHE-PSK", "+DHE-PSK:-GROUP-ALL:+GROUP-FFDHE3072",
                                      "+ECDHE-PSK:-GROUP-ALL:+GROUP-SECP384R1"])
def test_gnutls_as_a_host(log, key, version, old, exchange):
    with Target(log, "--tls-key", key, "--tls-required") as target:
        got = gnutls(target.port, GCM128 + exchange, *psk(version, old))
        assert len(got) == 128 and got[0] == 1, (got, log.read_text())


@needs_gnutls
def test_psk_alone_can_be_disabled(log, key):
    with Target(log, "--tls-key", key, "--tls-required", "--tls-dhe-only") as target:
        assert gnutls(target.port, GCM128 + "+PSK", *psk()) == b""
        assert len(gnutls(target.port, GCM128 + "+ECDHE-PSK", *psk())) == 128


@needs_gnutls
@pytest.mark.parametrize("priority", ["NORMAL:-VERS-ALL:+VERS-TLS1.2:-KX-ALL:+PSK:+ECDHE-PSK",
                                      "NORMAL:-VERS-ALL:+VERS-TLS1.3"], ids=["1.2", "certificates"])
def test_nothing_older_and_no_certificates(log, key, priority):
    with Target(log, "--tls-key", key, "--tls-required") as target:
        assert gnutls(target.port, priority, "other", "00" * 32) == b""
        assert target.says("TLS: ")


# --- secure channel concatenation ------------------------------------------------------------------

SECRET = bytes(range(32))
DHCHAP = "DHHC-1:00:" + base64.b64encode(SECRET + zlib.crc32(SECRET).to_bytes(4, "little")).decode() + ":"


def ffdhe2048():
    """RFC 7919 A.1: 2^2048 - 2^1984 + {[2^1918 * e] + 560316} * 2^64 - 1."""
    e, term = 0, 1 << 2100
    for n in range(1, 400):
        e, term = e + term, term // n
    return 2**2048 - 2**1984 + ((e >> (2100 - 1918)) + 560316) * 2**64 - 1


P = ffdhe2048()


class PlainHost:
    """NVMe/TCP as far as authentication needs it."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", int(port)))
        self.socket.settimeout(20)
        self.cid = 0
        self.socket.sendall(ICREQ)
        assert self.pdu()[0] == 1

    def read(self, n):
        got = b""
        while len(got) < n:
            more = self.socket.recv(n - len(got))
            assert more, "the connection ends"
            got += more
        return got

    def pdu(self):
        head = self.read(8)
        return head + self.read(struct.unpack_from("<I", head, 4)[0] - 8)

    def command(self, sqe, data=b""):
        """DW0, status and data of a Fabrics command whose data goes within the capsule."""
        self.cid += 1
        sqe = sqe[:2] + struct.pack("<H", self.cid) + sqe[4:]
        self.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, 72 + len(data)) + sqe + data)
        got = b""
        while (pdu := self.pdu())[0] == 7:
            got += pdu[pdu[3]:]
        dw0, = struct.unpack_from("<I", pdu, 8)
        return dw0, struct.unpack_from("<H", pdu, 22)[0] >> 1, got

    @staticmethod
    def sqe(fctype, length, tail, inside):
        sgl = struct.pack("<QI3xB", 0, length, 0x01 if inside else 0x5a)
        return (bytes([0x7f, 0x40, 0, 0, fctype]) + bytes(19) + sgl + tail).ljust(64, b"\0")

    def connect(self):
        data = (bytes(range(16)) + b"\xff\xff").ljust(256, b"\0") + SUBSYS.encode().ljust(256, b"\0") + \
            HOST.encode().ljust(256, b"\0")
        return self.command(self.sqe(1, 1024, struct.pack("<HHHBxI", 0, 0, 31, 0, 120000), True),
                            data.ljust(1024, b"\0"))

    def say(self, message):
        return self.command(self.sqe(5, len(message), struct.pack("<xBBBI", 1, 1, 0xe9, len(message)), True),
                            message)[1]

    def hear(self):
        dw0, status, data = self.command(self.sqe(6, 2048, struct.pack("<xBBBI", 1, 1, 0xe9, 2048), False))
        assert status == 0
        return data


def generate_psk(port, digest):
    """DH-HMAC-CHAP with NEWTLSPSK, one way, with ffdhe2048: the PSK (Base 2.2 8.3.4.5.9)."""
    number, name = {hashlib.sha256: 1, hashlib.sha384: 2, hashlib.sha512: 3}[digest], digest().digest_size
    host = PlainHost(port)
    dw0, status, _ = host.connect()
    assert status == 0 and dw0 & 7 << 16
    lists = bytes([number]).ljust(30, b"\0") + bytes([1]).ljust(30, b"\0")
    assert host.say(struct.pack("<BBHHBB", 0, 0, 0, 7, 2, 1) + bytes([1, 0, 1, 1]) + lists) == 0
    challenge = host.hear()
    assert challenge[:2] == b"\1\1" and challenge[6] == name and challenge[8:10] == bytes([number, 1])
    dhvlen, s1 = struct.unpack_from("<HI", challenge, 10)
    c1, gx = challenge[16:16 + name], challenge[16 + name:16 + name + dhvlen]
    y, c2 = int.from_bytes(os.urandom(64), "big"), os.urandom(name)
    shared = pow(int.from_bytes(gx, "big"), y, P).to_bytes(256, "big")
    session = digest(shared).digest()
    augmented = hmac.new(session, c1, digest).digest()
    r1 = hmac.new(SECRET, augmented + struct.pack("<IHB", s1, 7, 2) + b"HostHost" + HOST.encode() + b"\0" +
                  SUBSYS.encode(), digest).digest()
    assert host.say(struct.pack("<BBHHBxBxHI", 1, 2, 0, 7, name, 1, 256, 0) + r1 + c2 +
                    pow(2, y, P).to_bytes(256, "big")) == 0
    success = host.hear()
    assert success[:2] == b"\1\3" and success[8] == 0, success[:16]
    host.socket.close()
    return hmac.new(session, c1 + c2, digest).digest()


@pytest.fixture(name="dhchap")
def fixture_dhchap(tmp_path):
    file = tmp_path / "dhchap"
    file.write_text(DHCHAP)
    file.chmod(0o600)
    return f"@{file}"


@needs_gnutls
@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("digest", [hashlib.sha256, hashlib.sha384, hashlib.sha512])
def test_a_generated_psk(log, dhchap, digest, version):
    with Target(log, "--dhchap-key", dhchap, "--concat", "required") as target:
        secret = generate_psk(target.port, digest)
        for kind, expected in (("R", b""), ("G", 128)):
            got = gnutls(target.port, GCM128 + "+ECDHE-PSK", *psk(version, secret=secret, kind=kind))
            assert got == expected if kind == "R" else len(got) == expected, log.read_text()


def write_config(file, hosts, addr=None):
    """A subsystem for these hosts: a dict of their attributes."""
    address = {"trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "0", **(addr or {})}
    file.write_text(json.dumps({
        "hosts": [{"nqn": nqn, "attr": attr} for nqn, attr in hosts.items()],
        "ports": [{"portid": 1, "addr": address, "subsystems": [SUBSYS]}],
        "subsystems": [{"nqn": SUBSYS, "allowed_hosts": list(hosts), "attr": {"allow_any_host": "0"},
                        "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "mem:16M"}}]}]}))
    file.chmod(0o600)
    return file


TLS_ONLY = {"tsas": "tls1.3", "treq": "required"}


@pytest.mark.parametrize("addr, plain", [({"tsas": "tls1.3"}, 0), (TLS_ONLY, 1)], ids=["optional", "required"])
def test_each_host_has_its_own_psk(tmp_path, log, key, addr, plain):
    """T1.0 3.6.1.3: and a host that has none of its own is told by the target's."""
    other, third = HOST + "2", HOST + "3"
    config = write_config(tmp_path / "config.json", {HOST: {"tls_key": KEY}, other: {"tls_key": LONG}, third: {}}, addr)
    with Target(log, config=config) as target:
        for nqn, text, code in ((HOST, KEY, 0), (other, LONG, 0), (HOST, LONG, 1), (other, KEY, 1), (third, KEY, 1)):
            done = target.host("identify", "-q", nqn, "--tls-key", text)
            assert bool(done.returncode) == bool(code), (nqn, text, done.stderr)
        assert bool(target.host("identify").returncode) == bool(plain)
        if not plain:
            records = json.loads(target.host("discover", "-o", "json").stdout)["records"]
            assert {r["sectype"] for r in records} == {"tls13"}
        write_config(config, {HOST: {"tls_key": LONG}, other: {"tls_key": LONG}, third: {}}, addr)
        target.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while target.host("identify", "--tls-key", LONG).returncode and time.monotonic() < deadline:
            pass
        assert target.host("identify", "--tls-key", LONG).returncode == 0
        assert target.host("identify", "--tls-key", KEY).returncode != 0


@pytest.mark.parametrize("addr, attr, says", [
    ({"treq": "required"}, {}, "ports[0]: addr.treq is"),
    ({"trtype": "rdma", "tsas": "tls1.3"}, {}, "there is no TLS over RDMA"),
    ({"tsas": "tls1.2"}, {}, "ports[0].addr.tsas"),
    ({"tsas": "tls1.3"}, {"tls_key": "NVMeTLSkey-1:01:AAAA:"}, "hosts[0].attr.tls_key: "),
])
def test_a_configuration_that_cannot_be(tmp_path, addr, attr, says):
    config = write_config(tmp_path / "config.json", {HOST: attr}, addr)
    done = subprocess.run([NVMFSPEC, "target", "--config", config], capture_output=True, text=True, timeout=20)
    assert done.returncode != 0 and says in done.stderr, done.stderr


@pytest.mark.calm(0.3)
@needs_gnutls
def test_a_generated_psk_dies(log, dhchap):
    with Target(log, "--dhchap-key", dhchap, "--concat", "permitted", "--limit", "psk_lifetime=1500") as target:
        of_it = psk(secret=generate_psk(target.port, hashlib.sha256), kind="G")
        assert len(gnutls(target.port, GCM128 + "+PSK", *of_it)) == 128
        time.sleep(1.6)
        assert gnutls(target.port, GCM128 + "+PSK", *of_it) == b""


@pytest.mark.parametrize("how", ["permitted", "required"])
@pytest.mark.parametrize("args", [[], ["--tls-identity", "0"], ["--tls-suite", "aes256"], ["--tls-dhe-only"]])
def test_a_host_concatenates(log, dhchap, how, args):
    with Target(log, "--dhchap-key", dhchap, "--dhchap-ctrl-key", dhchap, "--concat", how) as target:
        done = target.host("verify", "-N", "1", "--range", "1M", "--time", "1", "-i", "2", "--dhchap-secret", dhchap,
                           "--dhchap-ctrl-secret", dhchap, "--concat", *args)
        assert done.returncode == 0, done.stderr + log.read_text()


@pytest.mark.parametrize("args, offered", [([], "NVMe1G01"), (["--tls-identity", "0"], "NVMe0G01")])
def test_the_identity_of_a_generated_psk(log, dhchap, args, offered):
    """T1.0 3.6.1.3 prints version 0; Linux, as the other peer that concatenates, knows version 1 alone."""
    with Target(log, "--dhchap-key", dhchap, "--concat", "required", "--limit", "psk_lifetime=1") as target:
        done = target.host("list", "--dhchap-secret", dhchap, "--concat", *args)
        assert done.returncode != 0 and f"we offered {offered} " in done.stderr, done.stderr


def test_who_does_not_concatenate(log, dhchap):
    with Target(log, "--dhchap-key", dhchap, "--concat", "required") as target:
        done = target.host("identify", "--dhchap-secret", dhchap)
        assert done.returncode != 0 and "requires a secure channel (--concat)" in done.stderr
    with Target(log, "--dhchap-key", dhchap, "--concat", "permitted") as target:
        assert target.host("identify", "--dhchap-secret", dhchap).returncode == 0
    with Target(log, "--dhchap-key", dhchap) as target:
        done = target.host("identify", "--dhchap-secret", dhchap, "--concat")
        assert done.returncode != 0 and "secure channel concatenation mismatch" in done.stderr


def test_keys_that_change_end_what_they_generated(tmp_path, log, dhchap):
    config = tmp_path / "config.json"

    def write(secret):
        text = "DHHC-1:00:" + base64.b64encode(secret + zlib.crc32(secret).to_bytes(4, "little")).decode() + ":"
        write_config(config, {HOST: {"dhchap_key": text}})

    write(SECRET)
    with Target(log, "--concat", "required", config=config) as target:
        of_it = psk(secret=generate_psk(target.port, hashlib.sha256), kind="G")
        assert len(gnutls(target.port, GCM128 + "+PSK", *of_it)) == 128
        write(bytes(32))
        target.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 60
        while gnutls(target.port, GCM128 + "+PSK", *of_it) and time.monotonic() < deadline:
            pass
        assert gnutls(target.port, GCM128 + "+PSK", *of_it) == b""


def any_port():
    """Free now: gnutls-serv binds each address, so nobody can keep it one."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        return str(s.getsockname()[1])


def against_gnutls(passwords, *args):
    """What our host and gnutls-serv say."""
    for _ in range(5):
        done, said = at_gnutls(any_port(), passwords, *args)
        if "Address already in use" not in said:
            break
    return done, said


def at_gnutls(port, passwords, *args):
    server = subprocess.Popen(["gnutls-serv", "--echo", "-p", port, "--pskpasswd", passwords, "--priority",
                               GCM128 + "+ECDHE-PSK:+DHE-PSK:+PSK"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        for _ in range(100):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            time.sleep(0.1)
        done = subprocess.run([NVMFSPEC, "host", "identify", "-a", "127.0.0.1", "-s", port, "-n", SUBSYS, "-q", HOST,
                               "--timeout", "4000", *args], capture_output=True, text=True, timeout=60)
    finally:
        server.kill()
        said = server.communicate()[0].decode(errors="replace")
    return done, said


@needs_gnutls
@pytest.mark.parametrize("version", [0, 1])
def test_gnutls_as_a_target(tmp_path, key, version):
    """It agrees on the key, and then knows no NVMe: our host waits for an ICResp, inside TLS."""
    identity, secret = psk(version)
    passwords = tmp_path / "psk"
    passwords.write_text(f"#{identity.encode().hex()}:{secret}\n")
    done, said = against_gnutls(passwords, "--tls-key", key, "--tls-identity", str(version))
    assert done.returncode == 3 and "no ICResp" in done.stderr, (done.stderr, said)
    assert "'tls-exporter': " in said # of a handshake that is complete


# --- key stores -----------------------------------------------------------------------------------

def interchange(secret):
    """Of a PSK of 32 bytes (T1.0 3.6.1.5): its bytes and their CRC-32, least significant byte first."""
    return f"NVMeTLSkey-1:01:{base64.b64encode(secret + struct.pack('<I', zlib.crc32(secret))).decode()}:"


def entry(version=0):
    """As nvme-cli exports a keyring: the identity, and the TLS PSK that is derived already."""
    identity, key = psk(version)
    return f"{identity} {interchange(bytes.fromhex(key))}"


OTHER = "NVMe0R01 nqn.2026-01.org.example:somebody nqn.2026-01.org.example:else " + interchange(bytes(range(32)))


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("folder", [False, True])
def test_key_store(tmp_path, version, folder):
    """Our ends by a store against ours by a configured PSK, either way, and by a store both."""
    store = tmp_path / "keys"
    if folder:
        store.mkdir()
        (store / "a").write_text(f"# others\n\n{OTHER}\n")
        (store / "b").write_text(entry(version))
        (store / ".hidden").write_text("no key at all\n")
    else:
        store.write_text(f"# of this lab\r\n{OTHER}\n{entry(version)}\n")
    by_key = ["--tls-key", KEY, "--tls-identity", str(version)]
    with Target(tmp_path / "log", "--tls-keyfile", store, "--tls-required") as target:
        for ours in (by_key, ["--tls-keyfile", store]):
            run = target.host("identify", *ours)
            assert run.returncode == 0, run.stderr
        run = target.host("identify")
        assert run.returncode != 0
    with Target(tmp_path / "log2", "--tls-key", KEY, "--tls-required") as target:
        run = target.host("identify", "--tls-keyfile", store)
        assert run.returncode == 0, run.stderr


def test_key_store_without_the_key(tmp_path):
    store = tmp_path / "keys"
    store.write_text(f"{OTHER}\n")
    with Target(tmp_path / "log", "--tls-keyfile", store) as target:
        run = target.host("identify", "--tls-key", KEY)
        assert run.returncode != 0
        assert target.says("there is none for this host and subsystem")
        run = target.host("identify", "--tls-keyfile", store)
        assert run.returncode != 0 and f"no key of {HOST} and {SUBSYS}" in run.stderr


def test_key_store_with_a_configured_psk(tmp_path):
    store = tmp_path / "keys"
    store.write_text(f"{OTHER}\n{KEY}\n")
    with Target(tmp_path / "log", "--tls-keyfile", store) as target:
        for ours in (["--tls-key", KEY], ["--tls-keyfile", store]):
            run = target.host("identify", *ours)
            assert run.returncode == 0, run.stderr


@pytest.mark.parametrize("text, says", [
    ("NVMe0R01 a NVMeTLSkey-1:01:zzzz:\n", "line 1"), (f"\n# x\nNVMe0R01 nqn.a {KEY}\n", "line 3"),
    (f"{KEY}\n{KEY}\n", "line 2: a second configured PSK"), (f"{OTHER}\n{OTHER}\n", "line 2: a second key of the same identity"),
    (f"NVMe0R02 nqn.a nqn.b {KEY}\n", "not as long as"), ("# nothing\n", "no key"), ("x" * 5000, "line 1: longer"),
    (f"NVMe0R01 nqn.{'a' * 230} nqn.b {KEY}\n", "no identity")])
@pytest.mark.parametrize("command", ["target", "host"])
def test_key_stores_that_are_none(tmp_path, command, text, says):
    store = tmp_path / "keys"
    store.write_text(text)
    words = ["target"] if command == "target" else ["host", "identify", "-a", "127.0.0.1", "-n", "nqn.a"]
    run = subprocess.run([NVMFSPEC, *words, "--tls-keyfile", store], capture_output=True, text=True, timeout=20)
    assert run.returncode == 2 and says in run.stderr and str(store) in run.stderr
    assert KEY[17:40] not in run.stderr  # no key is ever shown


def test_usual_key_store():
    """--tls is nvme-cli's own file."""
    run = subprocess.run([NVMFSPEC, "host", "identify", "-a", "127.0.0.1", "-n", "nqn.a", "--tls"], capture_output=True, text=True,
                         timeout=20)
    assert run.returncode != 0
    if not os.path.exists("/etc/nvme/tls-keys"):
        assert "/etc/nvme/tls-keys" in run.stderr and run.returncode == 2
