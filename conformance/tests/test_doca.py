# SPDX-License-Identifier: BSD-3-Clause
"""Our target and our requester against the Python model of DOCA's storage protocol, which shares no code with them."""
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import threading

import doca_model as doca
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
VERSIONS = ["2.10", "3.0", "3.1", "3.2", "3.3"]


@pytest.fixture
def target():
    """Starts targets, which have to end well."""
    running = []

    def start(*args, version="3.2"):
        process = subprocess.Popen([NVMFSPEC, "target", "-t", "doca", "-s", "0", "--dialect", version, *args],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        running.append(process)
        line = process.stdout.readline()
        return int(re.match(r"listening on doca:127\.0\.0\.1:(\d+)", line)[1])

    yield start
    for process in running:
        process.terminate()
        assert process.wait(timeout=20) == 0
        process.stdout.close()
        process.stderr.close()


def init(channel, **fields):
    fields = {"transactions": 4, "cores": 1, "blob": b"a library's", **fields}
    if channel.version == "2.10":
        del fields["cores"]
        return channel.ask("configure_data_path", **fields)
    return channel.ask("init_storage_request", **fields)


# --- the target -----------------------------------------------------------------------------------

@pytest.mark.parametrize("version", VERSIONS[1:])
def test_query(target, version):
    channel = doca.Channel.to(target("--ns", "mem:3M,bs=4096", version=version), version)
    m = channel.ask("query_storage_request")
    assert (m["name"], m["total_size"], m["block_size"]) == ("query_storage_response", 3 << 20, 4096)


@pytest.mark.parametrize("version", VERSIONS)
def test_as_far_as_a_foreign_blob(target, version):
    """A real service: its memory is not known, its connections cannot be made, and it is told so."""
    channel = doca.Channel.to(target(version=version), version)
    if version != "2.10":
        channel.ask("query_storage_request")
    assert init(channel)["name"] == ("response" if version == "2.10" else "init_storage_response")
    m = channel.ask("create_rdma_connection_request", role=doca.IO_DATA, blob=b"opaque")
    assert m["name"] in ("response", "error_response") and m["result"] == doca.NOT_SUPPORTED
    assert b"not a verbs blob, version 1" in m["blob"]


def test_reference_stages(target):
    """What fails has used its stage up: with foreign blobs a client comes to the end, without data."""
    channel = doca.Channel.to(target("--reference"))
    channel.ask("query_storage_request")
    init(channel)
    for role in (doca.IO_DATA, doca.IO_CONTROL):
        assert channel.ask("create_rdma_connection_request", role=role, blob=b"x")["result"] == doca.NOT_SUPPORTED
    assert channel.ask("start_storage_request")["name"] == "error_response"
    assert channel.ask("stop_storage_request")["name"] == "stop_storage_response"
    assert channel.ask("shutdown_request")["name"] == "shutdown_response"
    assert channel.receive() is None


@pytest.mark.parametrize("args, expected", [((), "init_storage_response"), (("--reference",), "error_response")])
def test_init_tried_again(target, args, expected):
    channel = doca.Channel.to(target("--cores", "1", *args))
    channel.ask("query_storage_request")
    assert init(channel, cores=2)["result"] == doca.INVALID_VALUE
    assert init(channel)["name"] == expected


def test_same_line_as_the_reference(target):
    """Requests of any order: our target in reference mode and the model of the reference say the same."""
    ours, its = socket.socketpair()
    reference = doca.Reference(cores=1)
    thread = threading.Thread(target=reference.serve, args=(doca.Channel(its),), daemon=True)
    thread.start()
    model, channel = doca.Channel(ours), doca.Channel.to(target("--reference", "--cores", "1"))
    for name, fields in [("start_storage_request", {}), ("init_storage_request", {"transactions": 1, "cores": 5}),
                         ("query_storage_request", {}), ("stop_storage_request", {}), ("shutdown_request", {})]:
        a, b = model.ask(name, **fields), channel.ask(name, **fields)
        assert (a["name"], a.get("result")) == (b["name"], b.get("result")), name
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize("context, role", [(1, 0), (2, 0), (0xffffffff, 1), (0, 2)])
def test_connections_that_are_none(target, context, role):
    """Also the one beyond the last core, which the reference lets pass."""
    channel = doca.Channel.to(target())
    channel.ask("query_storage_request")
    init(channel)
    m = channel.ask("create_rdma_connection_request", context_idx=context, role=role, blob=b"x")
    assert m["result"] == doca.INVALID_VALUE


def test_blob_beyond_the_frame(target):
    port = target()
    channel = doca.Channel.to(port)
    channel.ask("query_storage_request")
    frame = doca.build("3.2", "init_storage_request", 7, 8, transactions=1, cores=1, blob=b"abcd")
    channel.raw(frame[:24] + b"\xff\xff\xff\xff" + frame[28:])
    m = channel.receive()
    assert (m["name"], m["result"], m["message_id"]) == ("error_response", doca.INVALID_VALUE, 7)
    assert init(channel)["name"] == "init_storage_response"


@pytest.mark.parametrize("kind", [0, 2, 12, 13, 0xffffffff])
def test_types_that_are_no_request(target, kind):
    channel = doca.Channel.to(target())
    channel.raw(doca.Framing3.pack(kind, 5, 6, b"" if kind != 0 else bytes(8)))
    m = channel.receive()
    assert (m["name"], m["result"], m["message_id"]) == ("error_response", doca.UNEXPECTED, 5)


@pytest.mark.parametrize("size", [0, 11, 0x7fffffff, 0xffffffff])
def test_sizes_that_are_none(target, size):
    port = target()
    channel = doca.Channel.to(port)
    channel.raw(size.to_bytes(4, "big") + bytes(12))
    assert channel.receive() is None
    assert doca.Channel.to(port).ask("query_storage_request")["block_size"] == 512


def test_byte_by_byte(target):
    channel = doca.Channel.to(target())
    channel.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in doca.build("3.2", "query_storage_request", 1, 2):
        channel.raw(bytes([byte]))
    assert channel.receive()["name"] == "query_storage_response"


def test_all_at_once(target):
    """Requests sent ahead are answered in order."""
    channel = doca.Channel.to(target())
    channel.raw(doca.build("3.2", "query_storage_request", 1, 1) +
                doca.build("3.2", "init_storage_request", 2, 2, transactions=1, cores=1, blob=bytes(40000)) +
                doca.build("3.2", "stop_storage_request", 3, 3))
    answers = [channel.receive() for _ in range(3)]
    assert [m["message_id"] for m in answers] == [1, 2, 3]
    assert answers[2]["result"] == doca.UNEXPECTED


def test_clients_in_turn_and_at_once(target):
    port = target()
    clients = [doca.Channel.to(port) for _ in range(5)]
    for client in reversed(clients):
        assert client.ask("query_storage_request")["block_size"] == 512
        client.close()
    assert doca.Channel.to(port).ask("query_storage_request")["block_size"] == 512


@pytest.mark.parametrize("rule, sees", [
    ("doca/answer/message-id", lambda m: m["message_id"] != 1),
    ("doca/answer/correlation-id", lambda m: m["correlation_id"] != 2),
    ("doca/query/size", lambda m: m["total_size"] % m["block_size"]),
    ("doca/frame/trailing-target", lambda m: m["trailing"])])
def test_violations(target, rule, sees):
    channel = doca.Channel.to(target("--violate", rule))
    channel.send("query_storage_request", message_id=1, correlation_id=2)
    assert sees(channel.receive())


@pytest.mark.parametrize("rule", ["doca/frame/payload-target", "doca/frame/type-target", "doca/frame/size-target"])
def test_violations_that_cannot_be_read(target, rule):
    channel = doca.Channel.to(target("--violate", rule))
    channel.send("query_storage_request")
    with pytest.raises(doca.Malformed):
        channel.receive()


def test_waived(target):
    channel = doca.Channel.to(target("--waive", "doca/order/stage"))
    assert channel.ask("stop_storage_request")["name"] == "stop_storage_response"


def test_recording(tmp_path):
    """What the target records of its control channels is read, and judged."""
    path = tmp_path / "doca.pcapng"
    process = subprocess.Popen([NVMFSPEC, "target", "-t", "doca", "-s", "0", "--pcap", str(path), "--violate", "doca/query/size"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    channel = doca.Channel.to(int(process.stdout.readline().split()[2].rsplit(":", 1)[1]))
    channel.ask("query_storage_request")
    init(channel)
    channel.close()
    process.terminate()
    assert process.wait(timeout=20) == 0
    process.stdout.close()
    shown = subprocess.run([NVMFSPEC, "pcap", "show", path], capture_output=True, text=True, timeout=60).stdout
    for name in ("query_storage_request", "query_storage_response", "init_storage_request", "init_storage_response"):
        assert name in shown, shown
    checked = subprocess.run([NVMFSPEC, "pcap", "check", path], capture_output=True, text=True, timeout=60).stdout
    assert "target must doca/query/size" in checked and "1 must and 0 should broken" in checked, checked


def test_options():
    def error(*args):
        done = subprocess.run([NVMFSPEC, "target", "-t", "doca", *args], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2
        return done.stderr

    assert "does/not/exist" in error("--violate", "does/not/exist")
    assert "doca/order/stage" in error("--violate", "doca/order/stage")  # it binds services
    assert "--dialect" in error("--dialect", "2.9")


# --- the requester --------------------------------------------------------------------------------

def served(reference, prepare=lambda channel: None):
    """The port of a model of the reference that takes one client."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run():
        sock, _ = listener.accept()
        channel = doca.Channel(sock, reference.version)
        prepare(channel)
        try:
            reference.serve(channel)
        except (ConnectionError, doca.Malformed):
            pass
        channel.close()

    threading.Thread(target=run, daemon=True).start()
    return listener.getsockname()[1]


def host(port, *args, code=0, sub="query"):
    done = subprocess.run([NVMFSPEC, "host", sub, "-t", "doca", "-a", "127.0.0.1", "-s", str(port), *args],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.parametrize("version", VERSIONS[1:])
def test_host_query(version):
    port = served(doca.Reference(version, total=5 << 20, block=4096))
    out = json.loads(host(port, "--dialect", version, "-o", "json"))
    assert (out["total_size"], out["block_size"], out["blocks"]) == (5 << 20, 4096, 1280)


@pytest.mark.parametrize("change, rule", [
    ({"message_id": 77}, "doca/answer/message-id"), ({"correlation_id": 77}, "doca/answer/correlation-id")])
def test_host_sees_wrong_ids(change, rule):
    def prepare(channel):
        send = channel.send
        channel.send = lambda name, **fields: send(name, **{**fields, **change})

    assert rule in host(served(doca.Reference(), prepare), code=3)


def test_host_sees_a_wrong_type():
    def prepare(channel):
        send = channel.send
        channel.send = lambda name, **fields: send("stop_storage_response", message_id=fields["message_id"],
                                                   correlation_id=fields["correlation_id"])

    assert "doca/answer/type" in host(served(doca.Reference(), prepare), code=3)


def test_host_sees_a_wrong_size():
    assert "doca/query/size" in host(served(doca.Reference(total=1000)), code=3)


def test_host_is_cut_off():
    port = served(doca.Reference())
    err = host(port, "--violate", "doca/frame/type-service", code=3)  # the model's parser gives up, as the reference's
    assert "query_storage_request: the target has closed the control channel" in err


def test_host_timeout():
    listener = socket.create_server(("127.0.0.1", 0))
    assert "no response within 300 ms" in host(listener.getsockname()[1], "--timeout", "300", code=3)


def test_host_no_target():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    assert host(port, code=3)
    assert "2.10 has no query" in host(served(doca.Reference()), "--dialect", "2.10", code=2)


def test_host_against_our_target(target):
    port = target("--ns", "mem:2M")
    assert json.loads(host(port, "-o", "json"))["total_size"] == 2 << 20


# --- the suite ------------------------------------------------------------------------------------

def conform(*args, code=0):
    done = subprocess.run([NVMFSPEC, "conform", "-t", "doca", *args], capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("role, cases", [("target", 93), ("host", 31)])
def test_suite_passes_on_ours(version, role, cases):
    """2.10 has no query_storage, stop_storage, contexts, ids of messages, and one place for memory and storage."""
    lacks = (24 if role == "target" else 5) if version == "2.10" else 1 if role == "target" else 0
    passed = cases + (role == "target") - lacks
    out = conform("--dialect", version, "--role", role, "--strict")
    assert f"PASS  {passed} passed{f', {lacks} skipped' if lacks else ''}\n" in out, out


@pytest.mark.parametrize("version", VERSIONS)
def test_suite_passes_on_the_reference_way(version):
    conform("--reference", "--dialect", version)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("role, tried", [("target", 30), ("host", 7)])
def test_power(version, role, tried):
    """Each rule that a case names, spoilt in the embedded target, is found out; what the dialect lacks is named, and not tried."""
    out = conform("--power", "--role", role, "--dialect", version)
    tried -= (5 if role == "target" else 2) if version == "2.10" else 0
    assert "SURVIVED" not in out and out.strip().splitlines()[-1] == f"power: {tried} of {tried}", out
    assert ("  not tried  doca/query/size " in out) == (version == "2.10")


def test_power_of_nothing():
    """Where nothing could be tried, nothing has passed."""
    assert conform("--power", "--dialect", "2.10", "doca/query/size", code=77).strip().endswith("power: 0 of 0")


def test_suite_over_tcp_alone(target):
    """A target elsewhere, on a machine without RDMA: the control channel is judged, and what needs data is skipped."""
    conform("-a", "127.0.0.1", "-s", str(target()), "doca/query", "doca/answer", "doca/frame", "doca/order")


@pytest.mark.parametrize("rule", ["doca/answer/message-id", "doca/query/size"])
def test_suite_fails_a_bad_target(target, rule):
    assert rule in conform("-a", "127.0.0.1", "-s", str(target("--violate", rule)), code=1)


@pytest.mark.parametrize("version", VERSIONS)
def test_suite_of_services_passes_our_requester(version):
    conform("--role", "host", "--dialect", version)


def test_suite_of_services_finds_what_they_break():
    assert "doca/io/type-service" in conform("--role", "host", "--violate", "doca/io/type-service",
                                             "doca/order/session", code=1)


def test_suite_of_services_advises_who_overlooks():
    out = conform("--role", "host", "--waive", "doca/answer/message-id", "doca/answer/message-id")
    assert "advice" in out or "advised" in out, out


@pytest.mark.parametrize("hook, code", [("exit 0", 0), ("exit 1", 1)])
def test_hooks(hook, code):
    conform("--role", "host", "--hook", f'test -n "$NVMF_TRSVCID" && {hook}', "doca/order/session", code=code)


def pcap(sub, path, *args, code=0):
    done = subprocess.run([NVMFSPEC, "pcap", sub, *args, path], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def counted(path):
    """Of each message of a capture, how often it is there."""
    return {name: int(n) for name, n in re.findall(r"^  (\S+(?: \S+)*) +(\d+)$", pcap("show", path, "--count"), re.M)}


@pytest.mark.parametrize("way", [[], ["--cm"]])
def test_suite_recording(tmp_path, way):
    """Control channels, once each, and I/O messages are there, and judged."""
    path = tmp_path / "doca.pcapng"
    conform("--pcap", str(path), *way, "doca/query/size", "doca/io/user-data", "doca/contexts/each")
    seen = counted(path)
    assert (seen["query_storage_request"], seen["stop_storage_request"]) == (3, 2), seen
    assert (seen["read"], seen["write"], seen["result"]) == (5, 4, 9), seen
    assert ": 0 must and 0 should broken" in pcap("check", path)
    conform("--pcap", str(path), *way, "doca/io/type-service")
    found = pcap("check", path, code=1)
    assert "service must doca/io/type-service: " in found and ", DOCA io_control of context 0)" in found, found


def test_suite_recording_of_a_bad_target(tmp_path):
    path = tmp_path / "doca.pcapng"
    conform("--pcap", str(path), "--violate", "doca/io/echo", "doca/io/last-block")
    assert "target advice doca/io/echo: " in pcap("check", path)


def test_suite_recording_says_nothing_against_a_good_target(tmp_path):
    """All cases at a time: no queue pair is taken for another."""
    path = tmp_path / "doca.pcapng"
    conform("--pcap", str(path))
    assert counted(path)["result"] > 100
    found = pcap("check", path, code=1)
    assert "service must doca/io/type-service: " in found and not re.search(r"^  target (must|should)", found, re.M), found


def test_suite_recording_of_services(tmp_path):
    """Our target's, which sees its READs and WRITEs."""
    path = tmp_path / "doca.pcapng"
    conform("--role", "host", "--pcap", str(path), "doca/order/session", "doca/io/user-data")
    seen = counted(path)
    assert seen["query_storage_request"] == 2 and seen["result"] >= 3, seen
    assert seen["RDMA READ"] >= 1 and seen["RDMA WRITE"] >= 1, seen
    assert "target must doca/io/user-data: " in pcap("check", path)  # its last message: who knows what a capture lacks


# --- I/O messages ---------------------------------------------------------------------------------

def roce(to_qpn, psn, payload):
    """A SEND ONLY over RoCEv2, over Ethernet and IPv4, between two hosts; a zero in place of checksums."""
    packet = struct.pack(">BBHII", 4, 0, 0xffff, to_qpn, psn) + payload + bytes(4)
    udp = struct.pack(">HHHH", 50000, 4791, 8 + len(packet), 0) + packet
    ends = [bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])]
    source, to = ends if to_qpn == 0x43 else ends[::-1]
    return bytes(12) + b"\x08\0" + struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0, source, to) + udp


def capture(path, frames):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 16, 1))
        for i, frame in enumerate(frames):
            f.write(struct.pack("<IIII", 1000, i, len(frame), len(frame)) + frame)


def sends(path):
    """The payload of each SEND ONLY in a classic capture of Ethernet and IPv4."""
    data, at = path.read_bytes(), 24
    while at < len(data):
        size, = struct.unpack_from("<I", data, at + 8)
        frame, at = data[at + 16:at + 16 + size], at + 16 + size
        if frame[23] == 17 and frame[36:38] == (4791).to_bytes(2, "big") and frame[42] == 4:
            yield frame[54:-4]


@pytest.mark.parametrize("version", VERSIONS)
def test_io_messages_of_the_model_are_read(tmp_path, version):
    """What the model writes our decoder reads, field by field."""
    asked = {"type": doca.READ, "user_data": 0x1122334455667788, "io_size": 0x1000, "memory": 0x778899aabb000}
    asked |= {} if version == "2.10" else {"storage": 0xffee2000}
    answered = {**asked, "type": doca.RESULT, "result": doca.NOT_SUPPORTED}
    asked_too = {**asked, "type": doca.WRITE, "user_data": 7}
    path = tmp_path / "model.pcap"
    capture(path, [roce(to, psn, doca.io_build(version, **m))
                   for to, psn, m in [(0x43, 5, asked), (0x42, 9, answered), (0x43, 6, asked_too)]])
    place = "4096 bytes " + ("address" if version in ("2.10", "3.0") else "memory") + " 778899aabb000h"
    place += "" if version == "2.10" else " storage ffee2000h"
    shown = pcap("show", path, "--qp", f"0x42:0x43:{version}")
    assert f"> read user_data 1122334455667788h {place}\n" in shown, shown
    assert re.search(rf"< result user_data 1122334455667788h \S+ {place}\n", shown), shown
    assert f"> write user_data 7h {place}\n" in shown, shown
    assert "0 must and 0 should broken" in pcap("check", path, "--qp", f"0x42:0x43:{version}")


@pytest.mark.parametrize("version", VERSIONS)
def test_our_io_messages_are_read_by_the_model(tmp_path, version):
    path = tmp_path / "ours.pcap"
    conform("--dialect", version, "--pcap", str(path), "doca/contexts/each")
    asked, types = {}, []
    for payload in sends(path):
        m = doca.io_parse(version, payload)
        types.append(m["type"])
        if m["type"] != doca.RESULT:
            asked[m["user_data"]] = m
            continue
        assert m.pop("result") == 0
        request = asked.pop(m["user_data"])
        assert {**m, "type": request["type"], "result": 0} == request
        assert m["io_size"] == 512 and m.get("storage", 0) < 4 << 20 and m["memory"] % 512 == 0
    assert not asked and sorted(types) == 8 * [doca.RESULT] + 4 * [doca.READ] + 4 * [doca.WRITE]


def test_cases():
    """As many as were promised: cases of targets, and of services."""
    assert int(re.search(r"(\d+) cases$", conform("--list").strip())[1]) >= 90
    assert int(re.search(r"(\d+) cases$", conform("--role", "host", "--list").strip())[1]) >= 30


@pytest.mark.parametrize("fault", ["refuse@init", "close@start", "refuse@nothing", "read", "close@read"])
def test_faults(target, fault):
    """Lawful trouble on request; of what is none it is said so."""
    if fault in ("refuse@nothing", "read", "close@read"):
        done = subprocess.run([NVMFSPEC, "target", "-t", "doca", "--fault", fault], capture_output=True, text=True, timeout=20)
        assert done.returncode == 2 and fault in done.stderr
        return
    channel = doca.Channel.to(target("--fault", fault, "--reference"))
    channel.ask("query_storage_request")
    assert init(channel)["name"] == ("error_response" if fault == "refuse@init" else "init_storage_response")


# --- the fuzzer -----------------------------------------------------------------------------------

def fuzz(port, *args):
    return subprocess.run([NVMFSPEC, "fuzz", "remote", "-t", "doca", "-a", "127.0.0.1", "-s", str(port), *args],
                          capture_output=True, text=True, timeout=200)


def test_fuzzing_a_target(target, tmp_path):
    """Sessions in any disorder: ours answers, closes, and serves on."""
    port = target()
    run = fuzz(port, "--runs", "2000", "--out", str(tmp_path))
    assert run.returncode == 0, run.stdout + run.stderr
    assert doca.Channel.to(port).ask("query_storage_request")["block_size"] == 512


def test_fuzzing_finds_what_is_broken(target, tmp_path):
    run = fuzz(target("--violate", "doca/answer/correlation-id"), "--runs", "500", "--findings", "1", "--minimise", "5", "--out",
               str(tmp_path))
    found = json.loads(run.stdout.splitlines()[0])
    assert run.returncode == 1 and found["rule"] == "doca/answer/correlation-id"


def test_fuzzing_nobody(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert fuzz(port, "--runs", "1", "--out", str(tmp_path)).returncode == 3
