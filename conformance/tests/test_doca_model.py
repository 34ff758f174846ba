# SPDX-License-Identifier: BSD-3-Clause
"""The Python model of DOCA's storage protocol, by itself: bytes by hand, and the reference's straight line."""
import socket
import threading

import doca_model as doca
import pytest


def test_bytes_of_a_query():
    assert doca.build("3.2", "query_storage_request", 0x11121314, 0x21222324) == bytes.fromhex(
        "0000000c 00000001 11121314 21222324")


def test_bytes_of_an_error():
    frame = bytes.fromhex("00000017 00000000 00000001 00000002 00000016 00000003") + b"bad"
    assert doca.parse("3.2", frame) == {"name": "error_response", "message_id": 1, "correlation_id": 2,
                                        "result": doca.UNEXPECTED, "blob": b"bad", "trailing": 0}


@pytest.mark.parametrize("version, payload", [
    ("3.2", "00000040 00000002 00000002 abcd"), ("3.1", "00000040 00000002 00000002 abcd"),
    ("3.0", "00000040 00000004 00000002 00000002 abcd")])
def test_bytes_of_an_init(version, payload):
    fields = {"transactions": 64, "cores": 2, "blob": b"\xab\xcd"}
    if version == "3.0":
        fields["batch"] = 4
    assert doca.build(version, "init_storage_request", 1, 2, **fields)[16:] == bytes.fromhex(payload)


def test_bytes_of_2_10():
    assert doca.build("2.10", "create_rdma_connection_request", 9, 2, role=1, blob=b"\xab") == bytes.fromhex(
        "000e 0002 00000002 01 00000001 ab")


@pytest.mark.parametrize("version, size", [("3.2", 16), ("2.10", 8)])
def test_frames_in_pieces(version, size):
    name = "start_storage_request" if version == "3.2" else "start_storage"
    data = doca.build(version, name) * 2
    for cut in range(2 * size + 1):
        found, left = doca.frames(version, data[:cut])
        assert len(found) == cut // size and len(left) == cut % size


def test_blob_beyond_the_frame():
    frame = doca.build("3.2", "create_rdma_connection_request", blob=b"abcd")
    with pytest.raises(doca.Malformed):
        doca.parse("3.2", frame[:24] + b"\xff\xff\xff\xff" + frame[28:])


@pytest.mark.parametrize("version", ["2.10", "3.0", "3.1", "3.2"])
def test_io(version):
    fields = {"type": doca.WRITE, "user_data": 5, "io_size": 4096, "memory": 0x1000}
    assert {k: v for k, v in doca.io_parse(version, doca.io_build(version, **fields)).items() if v} == fields


def served(reference):
    """A service's channel to the model of the reference."""
    ours, its = socket.socketpair()
    thread = threading.Thread(target=reference.serve, args=(doca.Channel(its, reference.version),), daemon=True)
    thread.start()
    ours.settimeout(10)
    return doca.Channel(ours, reference.version), thread


@pytest.mark.parametrize("version", ["3.0", "3.1", "3.2"])
def test_reference_line(version):
    channel, thread = served(doca.Reference(version))
    assert channel.ask("query_storage_request")["total_size"] == 1 << 20
    assert channel.ask("init_storage_request", transactions=4, cores=1)["name"] == "init_storage_response"
    for role in (doca.IO_DATA, doca.IO_CONTROL):
        assert channel.ask("create_rdma_connection_request", role=role)["role"] == role
    for name in ("start_storage", "stop_storage", "shutdown"):
        assert channel.ask(name + "_request")["name"] == name + "_response"
    thread.join(10)
    assert not thread.is_alive()


def test_reference_uses_up_the_stage():
    channel, thread = served(doca.Reference(cores=1))
    channel.ask("query_storage_request")
    assert channel.ask("init_storage_request", transactions=4, cores=2)["result"] == doca.INVALID_VALUE
    assert channel.ask("init_storage_request", transactions=4, cores=1)["result"] == doca.UNEXPECTED
    assert channel.ask("stop_storage_request")["name"] == "stop_storage_response"
    assert channel.ask("shutdown_request")["name"] == "shutdown_response"
    thread.join(10)
    assert not thread.is_alive()
