# SPDX-License-Identifier: BSD-3-Clause
"""Memory of idle I/O connections: holds many queue pairs of depth 128 open and asks /proc.

idle.py PID PORT NQN COUNT: PID is the target that listens on 127.0.0.1:PORT. Prints JSON. It speaks
the few PDUs that it needs by itself, so that it measures the target and nothing else.
"""
import json
import os
import resource
import socket
import struct
import sys

QUEUES = 32  # I/O queues per controller
DEPTH = 128


def receive(s, n):
    data = b""
    while len(data) < n:
        more = s.recv(n - len(data))
        if not more:
            raise ConnectionError("the target closed the connection")
        data += more
    return data


def response(s):
    """The CQE of the next CapsuleResp: (dw0, status)."""
    ch = receive(s, 8)
    body = receive(s, struct.unpack_from("<I", ch, 4)[0] - 8)
    if ch[0] != 5:
        raise ConnectionError(f"PDU type {ch[0]:02x}h instead of a response")
    return struct.unpack_from("<I", body)[0], struct.unpack_from("<H", body, 14)[0] >> 1


def command(s, sqe, data=b""):
    plen = 72 + len(data)
    s.sendall(struct.pack("<BBBBI", 4, 0, 72, 72 if data else 0, plen) + sqe + data)
    dw0, status = response(s)
    if status & 0x7FF:
        raise ConnectionError(f"status {status & 0x7FF:03x}h")
    return dw0


def fabrics(fctype, cid, sgl_len=0, tail=b""):
    sgl = struct.pack("<QI3xB", 0, sgl_len, 0x01 if sgl_len else 0)
    return (struct.pack("<BBHB19x", 0x7F, 0x40, cid, fctype) + sgl + tail).ljust(64, b"\0")


def connect(port, nqn, hostid, cntlid, qid, depth):
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(struct.pack("<BBBBIHBBI", 0, 0, 128, 0, 128, 0, 0, 0, 0).ljust(128, b"\0"))
    receive(s, 128)
    host = f"nqn.2014-08.org.nvmexpress:uuid:{hostid.hex()[:8]}-0000-4000-8000-{hostid.hex()[:12]}"
    data = hostid + struct.pack("<H", cntlid)
    data = data.ljust(256, b"\0") + nqn.encode().ljust(256, b"\0") + host.encode().ljust(256, b"\0")
    tail = struct.pack("<HHHBxI", 0, qid, depth - 1, 0, 0 if qid else 120000)
    return s, command(s, fabrics(1, 1, 1024, tail), data.ljust(1024, b"\0")) & 0xFFFF


def controller(port, nqn, number, queues):
    hostid = struct.pack(">QQ", number + 1, 7)
    admin, cntlid = connect(port, nqn, hostid, 0xFFFF, 0, 32)
    tail = struct.pack("<B3xIQ", 0, 0x14, 0x460001)
    command(admin, fabrics(0, 2, 0, tail))  # CC.EN = 1
    granted = struct.pack("<BBHI32xII", 0x09, 0x40, 3, 0, 7, (queues - 1) | (queues - 1) << 16)
    command(admin, granted.ljust(64, b"\0"))
    return [admin] + [connect(port, nqn, hostid, cntlid, q, DEPTH)[0] for q in range(1, queues + 1)]


def resident(pid):
    with open(f"/proc/{pid}/smaps_rollup") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("Rss:"))


def main(pid, port, nqn, count):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = controller(port, nqn, 0, QUEUES)  # what the first ones cost is not what each costs
    before = resident(pid)
    number = 1
    opened = 0
    while opened < count:
        held += controller(port, nqn, number, QUEUES)
        opened += QUEUES
        number += 1
    after = resident(pid)
    print(json.dumps({"io_connections": opened, "admin_connections": number - 1,
                      "bytes_per_connection": (after - before) // (opened + number - 1),
                      "resident": after, "descriptors": len(os.listdir(f"/proc/{pid}/fd"))}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
