# SPDX-License-Identifier: BSD-3-Clause
"""The suite and the host against a correct target whose bytes are spoilt on their way, from each place on:
the connection closes, is reset or stalls there, garbage follows, lengths are huge, all comes in single
bytes. Whatever happens, the end comes soon, says why, and is no crash.

NVMFSPEC_PLACES says in how many places (4; all: each of the first 160, and some up to 512, ci/nightly)."""
import concurrent.futures
import contextlib
import os
import pathlib
import random
import re
import resource
import socket
import struct
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
NQN = "nqn.2026-01.io.nvmfspec:target"
PLACES = os.environ.get("NVMFSPEC_PLACES", "4")
SECONDS = 20

pytestmark = pytest.mark.fast


class Proxy:
    """Passes everything on; what the target sends goes through spoil(connection, bytes), which returns
    pieces to be sent, and None where nothing more is to come."""

    def __init__(self, port, spoil):
        self.port_of_target, self.spoil, self.sent, self.open = port, spoil, 0, True
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.listener.accept()
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                target = socket.create_connection(("127.0.0.1", self.port_of_target))
                threading.Thread(target=self.up, args=(peer, target), daemon=True).start()
                threading.Thread(target=self.down, args=(target, peer), daemon=True).start()

    def up(self, peer, target):
        with contextlib.suppress(OSError):
            while data := peer.recv(65536):
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)

    def down(self, target, peer):
        how, at = self.spoil, 0
        with contextlib.suppress(OSError):
            while data := target.recv(65536):
                self.sent += len(data)
                how(peer, data, at)
                at += len(data)
        target.close()
        with contextlib.suppress(OSError):
            peer.shutdown(socket.SHUT_RD)  # up() waits there, and as long as it does nothing is closed
        peer.close()

    def close(self):
        self.listener.close()


def passed(peer, data, at):
    peer.sendall(data)


def closed(place):
    def how(peer, data, at):
        peer.sendall(data[:max(0, place - at)])
        if at + len(data) >= place:
            raise OSError
    return how


def reset(place):
    def how(peer, data, at):
        peer.sendall(data[:max(0, place - at)])
        if at + len(data) >= place:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raise OSError
    return how


def stalled(place):
    def how(peer, data, at):
        peer.sendall(data[:max(0, place - at)])
    return how


def garbage(place):
    rng = random.Random(place)

    def how(peer, data, at):
        peer.sendall(data[:max(0, place - at)])
        if at + len(data) >= place:
            for _ in range(64):
                peer.sendall(rng.randbytes(65536))
            raise OSError
    return how


def lengths(place):
    """Of the PDU that begins there or next after it, as far as they come in one piece."""
    value = (0xffffffff, 0x7fffffff, 0x00ffffff, 0, 7, 129)[place % 6]

    def how(peer, data, at):
        out, i = bytearray(data), 0
        while i + 8 <= len(out):
            plen = struct.unpack_from("<I", out, i + 4)[0]
            if at + i >= place:
                struct.pack_into("<I", out, i + 4, value)
                break
            i += max(plen, 8)
        peer.sendall(out)
    return how


def single_bytes(place):
    def how(peer, data, at):
        for i in range(len(data)):
            peer.sendall(data[i:i + 1])
            if at + i > place:
                time.sleep(0.0002)
    return how


SPOILT = [closed, reset, stalled, garbage, lengths, single_bytes]


@pytest.fixture(scope="module")
def target():
    process = subprocess.Popen([NVMFSPEC, "target", "-s", "0"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    yield int(re.match(r"listening on \S+:(\d+)", process.stdout.readline())[1])
    process.kill()
    process.wait()


def run(proxy, *args):
    def bound():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    where = ["-a", "127.0.0.1", "-s", proxy.port, "-n", NQN]
    done = subprocess.run([NVMFSPEC, *map(str, args), *map(str, where)], capture_output=True, text=True,
                          errors="replace", timeout=SECONDS, preexec_fn=bound)
    assert done.returncode in (0, 1, 3), (done.returncode, done.stderr)
    return done


def places(target, how, *args):
    """Bytes that a connection sends when all goes well: each of the first two PDUs and some of the others,
    where the place says much; a few otherwise."""
    proxy = Proxy(target, passed)
    assert run(proxy, *args).returncode == 0
    proxy.close()
    most = min(proxy.sent, 512)
    chosen = [*range(160), *range(160, most, 7)] if how not in (stalled, single_bytes) else range(0, most, 16)
    return chosen if PLACES == "all" else random.Random(most).sample(chosen, int(PLACES))


def at_each(target, how, chosen, *args):
    """What becomes of it there, some at a time: they wait more than they compute."""
    def at(place):
        proxy = Proxy(target, how(place))
        done = run(proxy, *args)
        proxy.close()
        return place, done
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        return list(pool.map(at, chosen))


def may_pass(how, place):
    """Where nothing is left out that a host waits for. ICResp has 128 bytes."""
    return how in (single_bytes, lengths) or place >= 128


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", SPOILT, ids=lambda h: h.__name__)
@pytest.mark.parametrize("sub", [["identify"], ["read", "--blocks", 8, "--file", "/dev/null"]],
                         ids=lambda s: s[0])
def test_a_host_ends_soon_and_says_why(target, how, sub):
    chosen = places(target, how, "host", *sub)
    for place, done in at_each(target, how, chosen, "host", *sub, "--timeout", 300):
        assert done.returncode == 0 or re.fullmatch(r"nvmfspec host .+\n", done.stderr), (place, done.stderr)
        assert done.returncode != 0 or may_pass(how, place), place


CASES = ["tcp/h2cdata/ttag-unknown", "fab/property/cap", "--brief", "--timeout-scale", 0.1,
         "--allow-write", 1]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", SPOILT, ids=lambda h: h.__name__)
def test_the_suite_ends_soon_and_says_why(target, how):
    chosen = random.Random(1).sample(range(700), 24 if PLACES == "all" else 2)
    for place, done in at_each(target, how, chosen, "conform", *CASES):
        assert done.returncode != 3 or "nvmfspec conform: " in done.stderr, (place, done.stderr)
        assert done.returncode != 0 or may_pass(how, place), (place, done.stdout)
