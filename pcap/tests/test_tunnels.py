# SPDX-License-Identifier: BSD-3-Clause
"""Frames inside tunnels, as mirrors send them: the verdict is that on the frames themselves."""
import json
import os
import pathlib
import struct
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
CAPTURES = {
    "tcp": ROOT / "pdu/io/tests/captures/nvme-tcp-6.12.pcap",
    "digest": ROOT / "pdu/io/tests/captures/nvme-tcp-digest-6.12.pcap",
    "roce": ROOT / "pcap/tests/captures/nvme-rdma-rxe-6.12.pcap",
    "iwarp": ROOT / "pcap/tests/captures/nvme-rdma-siw-6.12.pcap",
}
IP4, IP6, ETHERNET = 0x0800, 0x86dd, 0x6558
I, GROUP = 0x08, 0x88


# --- files ----------------------------------------------------------------------------------------

def frames(path):
    """Header and frame of each record."""
    whole, at = path.read_bytes(), 24
    while at < len(whole):
        n, = struct.unpack_from("<I", whole, at + 8)
        yield whole[at:at + 8], whole[at + 16:at + 16 + n]
        at += 16 + n


def write(path, records):
    """Of records (time, frame, bytes on the wire)."""
    out = bytearray(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, 1))
    for time, frame, whole in records:
        out += time + struct.pack("<II", len(frame), whole) + frame
    path.write_bytes(out)
    return path


def findings(path, *args):
    done = subprocess.run([NVMFSPEC, "pcap", "check", "--all", "-o", "json", path, *args],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode in (0, 1, 4), done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


# --- tunnels --------------------------------------------------------------------------------------

def ether(ethertype, payload, tag=b""):
    return bytes.fromhex("02000000000a02000000000b") + tag + struct.pack(">H", ethertype) + payload


def short(n):
    """A length that fits its field; 0: it was left to the network card."""
    return n if n < 65536 else 0


def ip4(protocol, payload):
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, short(20 + len(payload)), 0, 0x4000, 64, protocol, 0,
                       bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2])) + payload


def ip6(protocol, payload):
    return struct.pack(">IHBB", 6 << 28, short(len(payload)), protocol, 64) + \
        bytes.fromhex("20010db8" + "00" * 11 + "01" + "20010db8" + "00" * 11 + "02") + payload


def udp(port, payload):
    return struct.pack(">HHHH", 49152, port, short(8 + len(payload)), 0) + payload


def over_ip4(protocol, payload):
    return ether(IP4, ip4(protocol, payload))


def vxlan(frame, port=4789, flags=I, more=bytes(3)):
    return over_ip4(17, udp(port, bytes([flags]) + more + bytes([0, 0, 42, 0]) + frame))


def geneve(payload, protocol=ETHERNET, options=b"", flags=0):
    head = struct.pack(">BBHI", len(options) // 4, flags, protocol, 42 << 8)
    return over_ip4(17, udp(6081, head + options + payload))


def gre(protocol, payload, flags=0):
    fields = 4 * bin(flags & 0xb000).count("1")
    return over_ip4(47, struct.pack(">HH", flags, protocol) + bytes(fields) + payload)


def erspan2(frame):
    return gre(0x88be, struct.pack(">HHI", 1 << 12 | 100, 0, 7) + frame, 0x1000)


def erspan3(frame, subheader=b"", kind=0):
    return gre(0x22eb, struct.pack(">HHIHBB", 2 << 12 | 100, 0, 7, 0, kind << 2, bool(subheader)) +
               subheader + frame, 0x1000)


def mpls(payload, labels=(16, 17), ethertype=0x8847):
    stack = b"".join(struct.pack(">I", label << 12 | (k == len(labels) - 1) << 8 | 64)
                     for k, label in enumerate(labels))
    return ether(ethertype, stack + payload)


def pppoe(packet):
    return ether(0x8864, struct.pack(">BBHHH", 0x11, 0, 1, short(2 + len(packet)), 0x21) + packet)


def inner(frame):
    """The packet of a frame without tags."""
    return frame[14:]


def wrap(tunnel, capture):
    """The frames of a capture in a tunnel, but for those (ARP, IPv6) that not every tunnel can carry."""
    for time, frame in frames(capture):
        frame = tunnel(frame) if frame[12:14] == b"\x08\x00" else frame
        yield time, frame, len(frame)


TUNNELS = {
    "vxlan": vxlan,
    "vxlan-linux": lambda f: vxlan(f, port=8472),
    "vxlan-group": lambda f: vxlan(f, flags=GROUP, more=b"\x08\x12\x34"),
    "vxlan-ip6": lambda f: ether(IP6, ip6(17, udp(4789, bytes([I]) + bytes(7) + f))),
    "vxlan-tagged": lambda f: vxlan(f[:12] + bytes([0x81, 0, 0, 5]) + f[12:]),
    "geneve": geneve,
    "geneve-options": lambda f: geneve(f, options=bytes.fromhex("010280010000002a"), flags=0x40),
    "geneve-ip": lambda f: geneve(inner(f), IP4),
    "gre": lambda f: gre(IP4, inner(f)),
    "gre-all": lambda f: gre(IP4, inner(f), 0xb000),
    "gre-key": lambda f: gre(ETHERNET, f, 0x2000),
    "gre-ip6": lambda f: ether(IP6, ip6(47, struct.pack(">HH", 0, ETHERNET) + f)),
    "erspan1": lambda f: gre(0x88be, f),
    "erspan2": erspan2,
    "erspan3": erspan3,
    "erspan3-subheader": lambda f: erspan3(f, bytes(8)),
    "erspan3-ip": lambda f: erspan3(inner(f), kind=2),
    "ipip": lambda f: over_ip4(4, inner(f)),
    "4in6": lambda f: ether(IP6, ip6(4, inner(f))),
    "mpls": lambda f: mpls(inner(f)),
    "mpls-multicast": lambda f: mpls(inner(f), labels=(3,), ethertype=0x8848),
    "mpls-ethernet": lambda f: mpls(bytes(4) + f),
    "pppoe": lambda f: pppoe(inner(f)),
    "nested": lambda f: vxlan(gre(ETHERNET, over_ip4(4, inner(f)))),
}


@pytest.fixture(scope="module")
def plain():
    return {name: findings(path) for name, path in CAPTURES.items()}


@pytest.mark.parametrize("tunnel", TUNNELS)
@pytest.mark.parametrize("name", CAPTURES)
def test_the_verdict_is_the_same(name, tunnel, plain, tmp_path):
    path = write(tmp_path / "x.pcap", wrap(TUNNELS[tunnel], CAPTURES[name]))
    assert findings(path) == plain[name]


@pytest.mark.parametrize("name", CAPTURES)
def test_outside_and_in_the_tunnel(name, plain, tmp_path):
    """Each frame twice: the second one is repeated."""
    records = []
    for time, frame in frames(CAPTURES[name]):
        records += [(time, f, len(f)) for f in (frame, vxlan(frame))]
    once = [(f["rule"], f["bound"], f["connection"], f["frame"]) for f in plain[name][:-1]]
    twice = [(f["rule"], f["bound"], f["connection"], (f["frame"] + 1) // 2)
             for f in findings(write(tmp_path / "x.pcap", records))[:-1]]
    assert twice == once


@pytest.mark.parametrize("n", [70, 100, 128, 400])
@pytest.mark.parametrize("name", CAPTURES)
def test_a_mirror_that_truncates(name, n, tmp_path):
    """What the tunnel has no more of is missing, as where a snapshot length cut it off."""
    cut = write(tmp_path / "cut.pcap",
                [(time, frame[:n], len(frame)) for time, frame in frames(CAPTURES[name])])
    path = write(tmp_path / "sent.pcap", wrap(lambda f: erspan2(f[:n]), CAPTURES[name]))
    assert findings(path) == findings(cut)


# --- 6in4 -----------------------------------------------------------------------------------------

def in_ip6(frame):
    """TCP of a frame, between addresses of IPv6."""
    ip = inner(frame)
    length, = struct.unpack_from(">H", ip, 2)
    end = length or len(ip)
    addresses = b"".join(bytes.fromhex("fd") + bytes(11) + ip[at:at + 4] for at in (12, 16))
    payload = ip[20:end]
    return struct.pack(">IHBB", 6 << 28, short(len(payload)), ip[9], 64) + addresses + payload


@pytest.mark.parametrize("tunnel", [
    lambda p: over_ip4(41, p), lambda p: gre(IP6, p), lambda p: geneve(p, IP6), mpls],
    ids=["6in4", "gre", "geneve", "mpls"])
def test_ip6_inside(tunnel, plain, tmp_path):
    path = write(tmp_path / "x.pcap", wrap(lambda f: tunnel(in_ip6(f)), CAPTURES["tcp"]))
    assert findings(path) == plain["tcp"]


# --- what is none ---------------------------------------------------------------------------------

@pytest.mark.parametrize("change", [
    lambda f: vxlan(f, flags=0), lambda f: vxlan(f, more=b"\0\0\1"), lambda f: vxlan(f, port=4791),
    lambda f: geneve(f, flags=1), lambda f: geneve(f, 0x1234), lambda f: gre(IP4, inner(f), 1),
    lambda f: gre(0x88be, bytes(8) + f, 0x1000)],
    ids=["no-flag", "reserved", "roce-port", "geneve-reserved", "geneve-protocol", "gre-version",
         "erspan-version"])
def test_ports_and_numbers_are_no_proof(change, tmp_path):
    path = write(tmp_path / "x.pcap", wrap(change, CAPTURES["tcp"]))
    done = subprocess.run([NVMFSPEC, "pcap", "check", path], capture_output=True, text=True)
    assert done.returncode == 4
    assert "no NVMe connection among 775 frames" in done.stderr
