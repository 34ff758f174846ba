# SPDX-License-Identifier: BSD-3-Clause
"""TLS servers that are right and unlike ours: the suite accuses none of them. They are ours behind a relay that
answers as others do."""
import json
import pathlib
import socket
import struct
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "target/tests"))
from test_hostile_stream import Proxy
from test_tls import HOST, KEY, NVMFSPEC, SUBSYS, Target  # pylint: disable=wrong-import-position

HANDSHAKE, HEADER = 22, 5


def judge(tmp_path, relay, case, *args):
    """The verdict of the case, and what was noticed beside it."""
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    with Target(tmp_path / "log", "--tls-key", f"@{key}", "--tls-required") as target:
        between = relay(int(target.port))
        subprocess.run([NVMFSPEC, "conform", "-a", "127.0.0.1", "-s", str(between.port), "-n", SUBSYS, "-q", HOST,
                        "--tls-key", f"@{key}", "--json", tmp_path / "report.json", case, *args],
                       capture_output=True, text=True, timeout=100)
        between.close()
    report = json.loads((tmp_path / "report.json").read_text())
    result, = (r for r in report["results"] if r["id"] == case)
    return result["verdict"], result.get("noticed", [])


def in_pieces(peer, data, at):
    """The ServerHello, and all else when it has been read."""
    size = HEADER + struct.unpack_from(">H", data, 3)[0] if at == 0 and data[0] == HANDSHAKE else len(data)
    peer.sendall(data[:size])
    if data[size:]:
        time.sleep(0.003)
        peer.sendall(data[size:])


def test_a_flight_that_comes_in_pieces(tmp_path):
    """What follows the ServerHello is no PDU."""
    assert judge(tmp_path, lambda port: Proxy(port, in_pieces), "tcp/tls/binder") == ("pass", [])


def server_hello(hello):
    """TLS 1.3, TLS_AES_128_GCM_SHA256, no PSK, a share of x25519; hello: the record of the ClientHello."""
    session = hello[44:44 + hello[43]]
    extensions = struct.pack(">HHH", 43, 2, 0x304) + struct.pack(">HHHH", 51, 36, 29, 32) + bytes(range(32))
    body = b"\3\3" + bytes(range(32)) + bytes([len(session)]) + session + b"\x13\1\0" + \
        struct.pack(">H", len(extensions)) + extensions
    return b"\x16\3\3" + struct.pack(">HB", len(body) + 4, 2) + len(body).to_bytes(3, "big") + body


class WithoutPsk(Proxy):
    """Answers a ClientHello that offers no PSK as GnuTLS does, which then finds that it has no certificate."""

    def __init__(self, port, stays):
        self.stays, self.kept = stays, []
        super().__init__(port, lambda peer, data, at: peer.sendall(data))

    def up(self, peer, target):
        hello = peer.recv(65536)
        if hello[:1] == bytes([HANDSHAKE]) and b"NVMe0R" not in hello:
            peer.sendall(server_hello(hello))
            self.kept.append(peer)
            if not self.stays:
                peer.shutdown(socket.SHUT_RDWR)
            return
        target.sendall(hello)
        super().up(peer, target)


@pytest.mark.parametrize("stays, verdict", [(False, "pass"), (True, "fail")], ids=["ends", "stays"])
def test_a_server_hello_without_a_psk(tmp_path, stays, verdict):
    """Nothing is taken by it where the connection then ends."""
    assert judge(tmp_path, lambda port: WithoutPsk(port, stays), "tcp/tls/psk-needed")[0] == verdict


def late(peer, data, at):
    time.sleep(0.1)
    peer.sendall(data)


def test_handshakes_that_take_longer_than_the_case(tmp_path):
    """Nobody can tell whether the target reads what has not been sent."""
    assert judge(tmp_path, lambda port: Proxy(port, late), "tcp/alignment/hpda", "--timeout-scale", "0.2")[0] == "error"
