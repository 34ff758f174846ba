# SPDX-License-Identifier: BSD-3-Clause
"""What goes well a hundred times, and has to the hundred-thousandth time: hosts that come and go, and
configurations. NVMFSPEC_CHURN says how many connections (10,000), NVMFSPEC_RELOADS how many configurations
(20), NVMFSPEC_UNDER_TEST which target reads them; ci/nightly has more of each, and sanitizers."""
import json
import os
import re
import signal
import socket
import struct
import time

import pytest

from test_target import KEY, NQN, NVMFSPEC, Queue, Target, target

CHURN = int(os.environ.get("NVMFSPEC_CHURN", "10000"))
RELOADS = int(os.environ.get("NVMFSPEC_RELOADS", "20"))
UNDER_TEST = os.environ.get("NVMFSPEC_UNDER_TEST", NVMFSPEC)
HOST = "nqn.2026-01.org.example:host"


# --- connections ----------------------------------------------------------------------------------

def come_and_go(port, number):
    """One of the ways to do so; how many connections it took. Few of them end with FIN first, whose ports
    are not to be had for a minute."""
    source, way = f"127.0.{1 + number // 10000}.1", number % 8
    if way < 2:
        s = socket.create_connection(("127.0.0.1", port), source_address=(source, 0))
        if way == 1:
            s.sendall(bytes([0, 0, 127, 0, 128, 0, 0, 0]) + bytes(120))  # not an ICReq
            s.recv(1)
        queues = [s]
    else:
        q = Queue(port, connect=way > 2, source=source)
        queues = [q.socket]
        if way == 3:
            q.enable()
            queues.append(Queue(port, 1, q.cntlid, source=source).socket)
        elif way == 4:
            q.socket.sendall(b"\4\0\x48")  # and not the rest of the capsule
    for s in queues:
        if number % 10:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    return len(queues)


def settle(t, files):
    end = time.monotonic() + 60
    while t.files() > files and time.monotonic() < end:
        time.sleep(0.05)
    return t.files(), t.rss()


@pytest.mark.fast
@pytest.mark.timeout(120 + CHURN // 100)
def test_who_has_gone_leaves_nothing():
    with target("--reactors", "2") as t:
        files, made, number, early = t.files(), 0, 0, None
        began = time.monotonic()
        while made < CHURN:
            made += come_and_go(t.port, number)
            number += 1
            if early is None and made >= CHURN // 4:
                early = settle(t, files)
        late = settle(t, files)
        print(f"{made} connections in {time.monotonic() - began:.0f} s: descriptors {files}, {early[0]}, {late[0]}; "
              f"memory {early[1] >> 10}, {late[1] >> 10} KiB")
        assert (early[0], late[0]) == (files, files)
        assert late[1] <= early[1] + (1 << 20)
        assert t.host("identify", "-n", NQN).returncode == 0


# --- configurations -------------------------------------------------------------------------------

def configuration(path, folder, number):
    """Namespaces that come, go and change their size; hosts with other keys; subsystems and ports."""
    namespaces = [{"nsid": 1, "enable": 1, "device": {"path": "mem:8M"}},
                  {"nsid": 2, "enable": 1, "device": {"path": f"mem:{8 + number % 3}M"}},
                  {"nsid": 3, "enable": number % 2, "device": {"path": f"file:{folder}/image,size={1 + number % 2}M"}}]
    names = [NQN] + [f"{NQN}:more"] * (number % 3 == 0)
    subsystems = [{"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": namespaces}]
    if len(names) == 2:
        subsystems.append({"nqn": names[1], "attr": {"allow_any_host": "0"}, "allowed_hosts": [HOST],
                           "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "null:1G"}}]})
    ports = [{"portid": n + 1, "subsystems": names, "addr": {
        "trtype": "tcp", "adrfam": "ipv4", "traddr": f"127.0.0.{n + 1}", "trsvcid": "0"}}
        for n in range(1 + number % 2)]
    text = json.dumps({"hosts": [{"nqn": HOST, "attr": {"dhchap_key": KEY} if number % 4 == 0 else {}}],
                       "subsystems": subsystems, "ports": ports})
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


@pytest.mark.timeout(120 + 4 * RELOADS)
def test_configurations_change_under_load(tmp_path):
    path, log = tmp_path / "config.json", tmp_path / "log"
    configuration(path, tmp_path, 0)
    with open(log, "w", encoding="ascii") as err:
        t = Target("--config", str(path), "--reactors", "3", program=UNDER_TEST, stderr=err)
    load = []
    try:
        load = [t.start("perf", "-n", NQN, "-N", nsid, "--rw", rw, "-i", "2", "--bs", bs, "--time", "100000", *more)
                for nsid, rw, bs, more in [("1", "randrw", "4k", []), ("1", "randread", "64k", ["-g", "-G"])]]
        time.sleep(0.5)
        for number in range(1, RELOADS + 1):
            configuration(path, tmp_path, number)
            t.process.send_signal(signal.SIGHUP)
            end = time.monotonic() + 60
            while log.read_text().count("configuration read again") < number and time.monotonic() < end:
                time.sleep(0.005)
            assert log.read_text().count("configuration read again") == number, log.read_text()[-1000:]
            if number % 5 == 0:
                other = t.start("perf", "-n", NQN, "-N", "2", "--time", "0.3")  # its namespace changes
                assert t.host("identify", "-n", NQN).returncode == 0
                other.wait(60)
        assert [p.poll() for p in load] == [None, None], "a host whose namespace stayed was ended"
    finally:
        for p in load:
            p.kill()
            p.wait()
        t.process.terminate()
        status = t.process.wait(60)
    assert not re.search("Sanitizer|runtime error", log.read_text()), log.read_text()[-4000:]
    assert status == 0
    print(f"{RELOADS} configurations")
