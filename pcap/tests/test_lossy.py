# SPDX-License-Identifier: BSD-3-Clause
"""Captures as they come from production: with holes, from the middle, caught twice, of other things."""
import json
import os
import pathlib
import random
import struct
import subprocess
import unicodedata

import pytest

import craft
from craft import Capture, Stream, TRANSPORT, admin, cqe, discovery, identify, io, pdu, sgl, sqe

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
READ, WRITE, FLUSH = 2, 1, 0
IN_CAPSULE = 0x01
LAST = 4


def crc32c(content):
    crc = 0xffffffff
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def pcap(*args, code=0):
    done = subprocess.run([NVMFSPEC, "pcap", *map(str, args)], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def stat(path):
    return json.loads(pcap("stat", "-o", "json", path).stdout)


def data(kind, cid, at, content, flags=LAST, ttag=0):
    return pdu(kind, struct.pack("<HHII4x", cid, ttag, at, len(content)), content, flags=flags)


def r2t(cid, length):
    return pdu(9, struct.pack("<HHII4x", cid, 1, 0, length))


def start(queue, opc, length, slba=0, cid=None):
    cid = cid or queue.next_cid()
    queue.send(sqe(opc, cid, nsid=1, dptr=sgl(TRANSPORT, length), cdw=[slba, 0, length // 512 - 1]))
    return cid


def queues(capture):
    a = admin(capture)
    a.identify()
    return a, io(capture)


def written(capture, tmp_path, *rest):
    for queue in rest:
        queue.stream.close()
    return capture.write(tmp_path / "x.pcap")


# --- data that is not there ------------------------------------------------------------------------

def test_data_that_was_lost_is_not_zeroes(tmp_path):
    """A whole C2HData, and a whole H2CData, between others of the same command."""
    capture = Capture()
    a, q = queues(capture)
    cid = start(q, READ, 1024)
    q.stream.lose("controller", 24 + 512)
    q.controller(data(7, cid, 512, b"B" * 512))
    q.answer(cid)
    cid = start(q, WRITE, 1024, slba=8)
    q.controller(r2t(cid, 1024))
    q.stream.lose("host", 24 + 512)
    q.host(data(6, cid, 512, b"W" * 512, ttag=1))
    q.answer(cid)
    path = written(capture, tmp_path, q, a)
    out = pcap("extract", path, "--kind", "data", "--block-size", 512, "--to", tmp_path / "image")
    assert "2 commands skipped" in out.stderr
    assert not (tmp_path / "image").read_bytes()


def test_the_next_command_of_a_cid_is_not_the_one_before(tmp_path):
    """The response of CID 5 is lost, and the next command with it."""
    capture = Capture()
    a, q = queues(capture)
    start(q, READ, 512, cid=5)
    q.stream.lose("controller", 24 + 512 + 24)
    q.stream.lose("host", 72)
    capture.ms += 5000
    q.controller(data(7, 5, 0, b"N" * 512))
    q.answer(5)
    path = written(capture, tmp_path, q, a)
    pcap("extract", path, "--kind", "data", "--block-size", 512, "--to", tmp_path / "image")
    assert not (tmp_path / "image").read_bytes()
    found = stat(path)
    assert found["unanswered"] == 1
    assert all(g["command"] != "Read" for g in found["kinds"])


def test_what_waits_is_counted_where_responses_are_lost(tmp_path):
    capture = Capture()
    a, q = queues(capture)
    for _ in range(50):
        start(q, READ, 512, cid=7)
        q.stream.lose("controller", 24 + 512 + 24)
    q.run(READ, nsid=1, data=b"x" * 512, cdw=[0, 0, 0])
    found = stat(written(capture, tmp_path, q, a))
    assert found["depth_max"] <= 2
    assert found["commands"] == found["completed"] + found["unanswered"]


def test_events_that_wait_are_not_counted_off_others(tmp_path):
    """Four Reads wait on one queue when an association with four AERs ends."""
    capture = Capture()
    a, q = queues(capture)
    cids = [start(q, READ, 512) for _ in range(4)]
    b = admin(capture)
    for k in range(4):
        b.send(sqe(0x0c, 100 + k))
    b.stream.close()
    capture.ms += 10000
    for cid in cids:
        q.answer(cid, status=0x80)
    found = stat(written(capture, tmp_path, q, a))
    assert max(b["depth_mean"] for b in found["timeline"][len(found["timeline"]) // 2:]) > 3.9


# --- where the stream goes on ----------------------------------------------------------------------

LIKE_A_PDU = {
    "capsule": bytes([4, 0, 72, 72]) + struct.pack("<I", 0x7fffffff),
    "digest": bytes([4, 1, 72, 76]) + struct.pack("<I", 0x7fffffff),
    "termreq": bytes([2, 0, 24, 0]) + struct.pack("<I", 0x1234567),
    "zeroes": (bytes([4, 0, 72, 0]) + struct.pack("<I", 72) + bytes(64)) * 2,
    "no-psdt": pdu(4, sqe(READ, 1, nsid=1, flags=0)[:8] + b"\x5a" * 16 + sgl(TRANSPORT, 512) + bytes(24)) * 2,
    "no-psdt-flags": pdu(4, sqe(READ, 1, nsid=1, flags=0x3c, dptr=sgl(TRANSPORT, 512))) * 2,
    "no-psdt-sgl": pdu(4, sqe(READ, 1, nsid=1, flags=0, dptr=sgl(0x5b, 512))) * 2,
    "termreq-short": bytes([2, 0, 24, 0]) + struct.pack("<I", 24) + bytes(16),
}


@pytest.mark.parametrize("name", LIKE_A_PDU)
def test_payload_is_not_taken_for_a_pdu(name, tmp_path):
    """The header of H2CData is lost, so its payload is searched."""
    capture = Capture()
    a, q = queues(capture)
    cid = start(q, WRITE, 8192)
    q.controller(r2t(cid, 8192))
    content = bytearray(b"\x5a" * 8192)
    content[3000:3000 + len(LIKE_A_PDU[name])] = LIKE_A_PDU[name]
    whole = data(6, cid, 0, bytes(content), ttag=1)
    q.stream.lose("host", 1400)
    for at in range(1400, len(whole), 1400):
        q.stream.segment("host", 0x18, whole[at:at + 1400])
    q.answer(cid)
    for _ in range(4):
        q.run(READ, nsid=1, data=b"x" * 512, cdw=[0, 0, 0])
    path = written(capture, tmp_path, q, a)
    assert "0 must and 0 should broken" in pcap("check", path).stdout
    reads = [g for g in stat(path)["kinds"] if g["command"] == "Read"]
    assert reads[0]["count"] == 4


@pytest.mark.parametrize("flags", [0x40, 0])
@pytest.mark.parametrize("wrong", [data(7, 2, 0, b"d" * 512)[:16] + struct.pack("<I", 300) + bytes(4) + b"d" * 512,
                                   bytes([3, 0, 24, 0]) + struct.pack("<I", 20) + bytes(16)])
def test_what_cannot_be_followed_is_a_gap(wrong, flags, tmp_path):
    """From the middle: DATAL that is not the data's length, a TermReq that is too short. What else it was, nobody knows."""
    capture = Capture()
    s = Stream(capture, 40000, begun=False)
    for cid in range(1, 4):
        s.send("host", pdu(4, sqe(READ, cid, nsid=1, flags=flags, dptr=sgl(TRANSPORT, 512), cdw=[0, 0, 0])))
        s.send("controller", wrong if cid == 2 else data(7, cid, 0, b"d" * 512))
        s.send("controller", pdu(5, cqe(cid)))
    path = capture.write(tmp_path / "x.pcap")
    done = subprocess.run([NVMFSPEC, "pcap", "check", path], capture_output=True, text=True, timeout=60)
    assert ", 1 connections, 1 gaps: " in done.stdout and "1 gaps" in done.stderr
    assert flags == 0 or ", 1 gaps: 0 must" in done.stdout
    assert stat(path)["commands"] == 3


@pytest.mark.parametrize("opc, dptr, content", [(READ, sgl(TRANSPORT, 512), b""), (WRITE, sgl(IN_CAPSULE, 512), b"w" * 512),
                                                (FLUSH, bytes(16), b"")])
def test_commands_without_psdt_are_found(opc, dptr, content, tmp_path):
    """From the middle, and what the controller says was not caught."""
    capture = Capture()
    s = Stream(capture, 40000, begun=False)
    for cid in range(1, 4):
        s.send("host", pdu(4, sqe(opc, cid, nsid=1, flags=0, dptr=dptr), content))
    found = stat(capture.write(tmp_path / "x.pcap"))
    assert found["commands"] == 3


def test_digests_that_nobody_saw_agreed(tmp_path):
    """From the middle: the first PDUs carry no data, C2HData begins a packet and has DDGST."""
    def with_digest(cid, content):
        head = struct.pack("<BBBBI", 7, LAST | 2, 24, 24, 24 + len(content) + 4)
        return head + struct.pack("<HHII4x", cid, 0, 0, len(content)) + content + \
            struct.pack("<I", crc32c(content))

    capture = Capture()
    s = Stream(capture, 40000, begun=False)
    s.send("host", pdu(4, sqe(FLUSH, 1, nsid=1)))
    s.send("controller", pdu(5, cqe(1)))
    for cid in range(2, 8):
        s.send("host", pdu(4, sqe(READ, cid, nsid=1, dptr=sgl(TRANSPORT, 512), cdw=[0, 0, 0])))
        s.send("controller", with_digest(cid, b"r" * 512))
        s.send("controller", pdu(5, cqe(cid)))
    reads = [g for g in stat(capture.write(tmp_path / "x.pcap"))["kinds"] if g["command"] == "Read"]
    assert reads[0]["count"] == 6 and reads[0]["c2h_bytes"] == 6 * 512


def test_limits_that_nobody_saw_are_not_assumed(tmp_path):
    """From the middle: in-capsule data of 16 KiB, as much as IOCCSZ of Linux allows."""
    capture = Capture()
    s = Stream(capture, 40000, begun=False)
    for cid in range(1, 4):
        s.send("host", pdu(4, sqe(WRITE, cid, nsid=1, dptr=sgl(IN_CAPSULE, 16384), cdw=[0, 0, 31]), b"w" * 16384))
        s.send("controller", pdu(5, cqe(cid)))
    assert ": 0 must" in pcap("check", capture.write(tmp_path / "x.pcap")).stdout


def test_ports_tell_who_is_who_in_the_middle(tmp_path):
    """The controller's is the larger number."""
    capture = Capture()
    s = Stream(capture, 40000, begun=False, controller=61000)
    for cid in range(1, 6):
        s.send("host", pdu(4, sqe(FLUSH, cid, nsid=1)))
        s.send("controller", pdu(5, cqe(cid)))
    path = capture.write(tmp_path / "x.pcap")
    assert ", 1 connections," in pcap("check", "-s", 61000, path).stdout


# --- what is said of whom --------------------------------------------------------------------------

def test_tls_is_told_and_not_judged(tmp_path):
    capture = Capture()
    s = Stream(capture, 51000)
    s.send("host", bytes([22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]) + bytes(194))
    s.send("controller", bytes([22, 3, 3, 0, 90]) + bytes(90))
    s.close()
    a = admin(capture)
    a.stream.close()
    done = pcap("check", capture.write(tmp_path / "x.pcap"))
    assert ", 1 connections," in done.stdout and "0 must" in done.stdout
    assert "1 connections use TLS" in done.stderr


def test_names_are_shown_without_what_terminals_obey(tmp_path):
    """Whoever sends a name chooses its bytes."""
    capture = Capture()
    q = admin(capture, hostnqn="nqn.2026-01.lab:\x1b[2J\x07\n\x9b31mhost")
    q.identify()
    path = written(capture, tmp_path, q)
    for command in [["show", "-v"], ["check"], ["stat"]]:
        run = subprocess.run([NVMFSPEC, "pcap", *command, path], capture_output=True, timeout=60)
        controls = {c for c in (run.stdout + run.stderr).decode() if unicodedata.category(c) == "Cc"}
        assert controls <= {"\n"}, command
        assert command[0] != "show" or rb"\x1b[2J\x07\x0a" in run.stdout


@pytest.mark.parametrize("version", [0x10300, 0x20000])
def test_a_discovery_subsystem_may_have_its_own_name(version, tmp_path):
    """As Linux' nvmet answers with discovery_nqn: it says 1.3 and CNTRLTYPE 2, and has nothing that I/O controllers owe."""
    capture = Capture()
    q = admin(capture, enabled=False, subnqn="nqn.2026-01.lab:central-discovery")
    q.enable(cap=craft.CAP_FAIR & ~(1 << 59) | 1 << 32, vs=version)
    q.run(0x18, status=1)
    q.run(6, data=identify(ver=version, cntrltype=2, oaes=1 << 31, frmw=0, temperatures=(0, 0), ioccsz=0, kas=0), cdw=[1])
    assert "0 must" in pcap("check", written(capture, tmp_path, q)).stdout


@pytest.mark.parametrize("subnqn, kind, broken", [
    (craft.DISCOVERY, 1, True), (craft.SUBNQN, 0, True), (craft.SUBNQN, 4, True),
    (craft.SUBNQN, 3, False)])
def test_types_of_controllers(subnqn, kind, broken, tmp_path):
    capture = Capture()
    q = discovery(capture) if subnqn == craft.DISCOVERY else admin(capture)
    q.run(6, data=identify(cntrltype=kind), cdw=[1])
    done = pcap("check", written(capture, tmp_path, q), code=1 if broken else 0)
    assert ("base/identify/cntrltype" in done.stdout) == broken


def on_both_sides_of_a_nat(path):
    """The same traffic twice, the host's address another one the second time."""
    whole, out, at = path.read_bytes(), bytearray(), 24
    while at < len(whole):
        n, = struct.unpack_from("<I", whole, at + 8)
        record, at = whole[at:at + 16 + n], at + 16 + n
        out += record + record.replace(bytes([10, 0, 0, 1]), bytes([10, 9, 9, 9]))
    path.write_bytes(whole[:24] + out)
    return path


def test_both_sides_of_a_nat(tmp_path):
    capture = Capture()
    a, q = queues(capture)
    q.run(FLUSH, nsid=1)
    path = on_both_sides_of_a_nat(written(capture, tmp_path, q, a))
    assert "4 connections, 0 gaps: 0 must and 0 should" in pcap("check", path).stdout


def test_authentication_on_both_sides_of_a_nat(tmp_path):
    """Challenge and Reply are caught twice, and used once."""
    capture = Capture()
    q = admin(capture, enabled=False, result=1 | 2 << 16)
    q.authenticate(5, bytes([0, 0, 0, 0, 7, 0, 0, 1, 1, 0, 1, 1, 1]).ljust(42, b"\0") + bytes(30))
    q.authenticate(6, struct.pack("<BBHHBBBBHI", 1, 1, 0, 7, 32, 0, 1, 0, 0, 9) + b"c" * 32)
    q.authenticate(5, struct.pack("<BBHHBBBBHI", 1, 2, 0, 7, 32, 0, 1, 0, 0, 9) + b"r" * 32 + b"d" * 32)
    path = on_both_sides_of_a_nat(written(capture, tmp_path, q))
    assert "2 connections, 0 gaps: 0 must and 0 should" in pcap("check", path).stdout


def test_what_nobody_knows_is_emptied(tmp_path):
    """anonymize: features, logs and structures that may name somebody."""
    capture = Capture()
    q = admin(capture)
    q.identify()
    q.run(9, h2c=b"SECRET-HOST.example.com".ljust(512, b"\0"), cdw=[0x7d])
    for lid in (0x07, 0x0d, 0x71, 0xc0):
        q.log(lid, b"SECRET-LOG".ljust(512, b"\0"))
    q.log(0x0d, bytes([0x0d]).ljust(56, b"\0") + b"SECRET-SERIAL".ljust(456, b" ") + b"SECRET-EVENT")
    q.run(6, data=b"SECRET-LIST".ljust(4096, b"\0"), cdw=[0x17])
    path, other = written(capture, tmp_path, q), tmp_path / "anonymous.pcap"
    assert b"SECRET" in path.read_bytes()
    pcap("anonymize", path, "--to", other)
    assert b"SECRET" not in other.read_bytes()


@pytest.mark.parametrize("tags", ["8100 0001", "88a8 0001 8100 0002", "9100 0001 8100 0002"])
def test_tagged_frames(tags, tmp_path):
    capture = Capture()
    a, q = queues(capture)
    path = written(capture, tmp_path, q, a)
    whole, out, at = path.read_bytes(), bytearray(), 24
    tag = bytes.fromhex(tags)
    while at < len(whole):
        seconds, us, n, _ = struct.unpack_from("<IIII", whole, at)
        frame, at = whole[at + 16:at + 16 + n], at + 16 + n
        out += struct.pack("<IIII", seconds, us, n + len(tag), n + len(tag))
        out += frame[:12] + tag + frame[12:]
    path.write_bytes(whole[:24] + out)
    assert ", 2 connections, 0 gaps: 0 must" in pcap("check", path).stdout


# --- more connections than the reader remembers ---------------------------------------------------

def test_a_queue_that_is_forgotten_has_not_ended(tmp_path):
    """Its host goes on with the others, and with it."""
    capture = Capture()
    a = admin(capture)
    a.identify()
    a.run(0x09, result=0x10001, cdw=[7, 0x10001])  # Number of Queues
    q = io(capture)
    q.run(FLUSH, nsid=1)
    a.run(0x18)
    for n in range(16384 - 1):
        Stream(capture, 1024 + n, begun=False, controller=9999).send("host", b"x")
    capture.ms += 6000
    a.run(0x18)
    q.run(FLUSH, nsid=1)
    assert "0 must and 0 should broken" in pcap("check", written(capture, tmp_path, q, a)).stdout


def test_a_queue_pair_that_is_forgotten_has_not_ended(tmp_path):
    capture = Capture()
    craft.Roce(capture).connect()
    q = craft.Roce(capture, qid=1)
    q.connect(cntlid=1)
    for _ in range(8192 - 1):
        craft.Roce(capture)
    capture.ms += 6000
    for _ in range(3):
        q.flush()
    assert "0 must and 0 should broken" in pcap("check", capture.write(tmp_path / "x.pcap")).stdout


# --- what is no verdict ---------------------------------------------------------------------------

NO_VERDICT = "nothing could be judged; this is no clean verdict"


def no_verdict(path, *args):
    """check says so, by its status too; show and stat have nothing to complain about."""
    done = pcap("check", path, *args, code=4)
    assert NO_VERDICT in done.stderr and "0 must and 0 should" in done.stdout
    pcap("show", path)
    pcap("stat", path)
    return done


def test_connections_without_a_byte_are_no_verdict(tmp_path):
    capture = Capture()
    Stream(capture, 51000).close()
    assert "no NVMe connection among 5 frames" in no_verdict(capture.write(tmp_path / "x.pcap")).stderr


def test_tls_without_secrets_is_no_verdict(tmp_path):
    capture = Capture()
    s = Stream(capture, 51000)
    s.send("host", bytes([22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]) + bytes(194))
    s.close()
    assert "1 connections use TLS" in no_verdict(capture.write(tmp_path / "x.pcap")).stderr


def test_halves_of_capsules_are_no_verdict(tmp_path):
    """RoCEv2 from the middle, each packet cut behind ten bytes of what it carries."""
    capture = Capture()
    roce = craft.Roce(capture)
    roce.connect()
    first = len(capture.out)
    for _ in range(4):
        roce.flush()
    whole, out, at = bytes(capture.out), bytearray(capture.out[:24]), first
    while at < len(whole):
        n, = struct.unpack_from("<I", whole, at + 8)
        out += whole[at:at + 8] + struct.pack("<II", min(n, 64), n) + whole[at + 16:at + 16 + min(n, 64)]
        at += 16 + n
    path = tmp_path / "x.pcap"
    path.write_bytes(out)
    assert ", 1 connections," in no_verdict(path).stdout


def test_one_connection_is_a_verdict(tmp_path):
    """The other one is over TLS."""
    capture = Capture()
    Stream(capture, 51000).send("host", bytes([22, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3]) + bytes(194))
    admin(capture).stream.close()
    assert NO_VERDICT not in pcap("check", capture.write(tmp_path / "x.pcap")).stderr


# --- what uses the same ports ---------------------------------------------------------------------

AJP = bytes.fromhex("1234000f 02 02 0008 485454502f312e31") + b"/index.html\0"
AJP_ANSWER = bytes.fromhex("4142000f 04 00c8 0002 4f4b 00 0000 0000 00 00")
FOREIGN = {
    "ajp": [("host", AJP), ("controller", AJP_ANSWER)],
    "ajp-ping": [("host", bytes.fromhex("123400010a")), ("controller", bytes.fromhex("4142000109"))],
    "ajp-in-pieces": [("host", AJP[:3]), ("host", AJP[3:]), ("controller", AJP_ANSWER)],
    "http": [("host", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), ("controller", b"HTTP/1.1 200 OK\r\n\r\n")],
    "http2": [("host", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")],
    "ssh": [("controller", b"SSH-2.0-OpenSSH_9.2\r\n"), ("host", b"SSH-2.0-OpenSSH_9.2\r\n")],
    "one-byte": [("controller", b"\1"), ("host", b"\0")],
    "iscsi": [("host", bytes([0x43, 0x87, 0, 0, 0, 0, 1, 0x2c]) + bytes(340))],
    "zeroes": [("host", bytes(1000)), ("controller", bytes(1000))],
}


@pytest.mark.parametrize("port", [4420, 8009])
@pytest.mark.parametrize("name", FOREIGN)
def test_a_port_is_no_proof(name, port, tmp_path):
    capture = Capture()
    s = Stream(capture, 40000, controller=port)
    for sender, said in FOREIGN[name] * 3:
        s.send(sender, said)
    s.close()
    done = no_verdict(capture.write(tmp_path / "x.pcap"))
    assert "1 TCP connections to ports of controllers begin as another protocol" in done.stderr


@pytest.mark.parametrize("name", FOREIGN)
def test_a_port_is_no_proof_in_the_middle(name, tmp_path):
    capture = Capture()
    s = Stream(capture, 40000, begun=False, controller=8009)
    for sender, said in FOREIGN[name] * 3:
        s.send(sender, said)
    no_verdict(capture.write(tmp_path / "x.pcap"))


@pytest.mark.parametrize("begun", [True, False])
def test_random_bytes_are_no_proof(begun, tmp_path):
    draw, capture = random.Random(8009), Capture()
    for k in range(500):
        s = Stream(capture, 40000 + k, begun=begun, controller=8009)
        for sender in draw.choice(["hc", "ch", "hhc"]):
            s.send({"h": "host", "c": "controller"}[sender], draw.randbytes(draw.randrange(1, 2000)))
    no_verdict(capture.write(tmp_path / "x.pcap"))


def changed(at, value):
    whole = bytearray(craft.icreq())
    whole[at] = value
    return bytes(whole)


@pytest.mark.parametrize("first", [
    *(changed(at, value) for at, value in [(0, 1), (0, 4), (0, 0x0a), (0, 0xff), (1, 1), (2, 127), (2, 0),
                                           (3, 128), (4, 129), (5, 1), (7, 1), (8, 1)]),
    pdu(4, sqe(FLUSH, 1)), pdu(5, cqe(1)), pdu(2, bytes(16), bytes(24)), pdu(0x0a, bytes(16))],
    ids=lambda first: first[:9].hex())
def test_a_connection_that_begins_wrong_is_judged(first, tmp_path):
    capture = Capture()
    Stream(capture, 40000).send("host", first)
    done = pcap("check", "--strict", capture.write(tmp_path / "x.pcap"), code=1)
    assert "host must tcp/" in done.stdout or "host should tcp/header/flags-h2c" in done.stdout


def test_a_controller_that_speaks_first_is_judged(tmp_path):
    capture = Capture()
    s = Stream(capture, 40000)
    s.send("controller", craft.icresp())
    s.send("host", craft.icreq())
    done = pcap("check", "--all", capture.write(tmp_path / "x.pcap"), code=1)
    assert "controller must tcp/" in done.stdout and "host must" not in done.stdout


def test_a_controller_that_speaks_in_the_midst_of_a_header_is_judged(tmp_path):
    capture = Capture()
    s = Stream(capture, 40000)
    s.send("host", craft.icreq()[:5])
    s.send("controller", craft.icresp())
    s.send("host", craft.icreq()[5:])
    done = pcap("check", "--all", capture.write(tmp_path / "x.pcap"), code=1)
    assert "controller must tcp/" in done.stdout and "host must" not in done.stdout
