# SPDX-License-Identifier: BSD-3-Clause
"""A second reading of DOCA's storage protocol: control channel and I/O message, both ends, for tests.

It shares no line and no table with pdu/doca. What a release says differently is in DIALECTS; what NVIDIA's reference
target does, oddities included, is class Reference.
"""
import socket
import struct

# --- numbers ----------------------------------------------------------------------------------

SUCCESS, UNKNOWN, NOT_SUPPORTED, INVALID_VALUE, IO_FAILED, BAD_STATE, UNEXPECTED = 0, 1, 4, 6, 17, 18, 22
IO_DATA, IO_CONTROL = 0, 1

NAMES_3 = """error_response query_storage_request query_storage_response init_storage_request
init_storage_response create_rdma_connection_request create_rdma_connection_response start_storage_request
start_storage_response stop_storage_request stop_storage_response shutdown_request shutdown_response""".split()
NAMES_2_10 = """response configure_data_path create_rdma_connection_request create_rdma_connection_response
start_data_path_connections start_storage destroy_objects""".split()

# A payload is a list of (name, struct letter); "blob" has a length of four bytes before it.
CREATE = [("context_idx", "I"), ("role", "I"), ("blob", None)]
ERROR = [("result", "I"), ("blob", None)]
COMMON_3 = {"error_response": ERROR, "query_storage_response": [("total_size", "Q"), ("block_size", "I")],
            "create_rdma_connection_request": CREATE, "create_rdma_connection_response": CREATE}
CREATE_2_10 = [("role", "B"), ("blob", None)]


class Dialect:
    def __init__(self, names, payloads, io):
        self.names, self.payloads, self.io = names, payloads, io
        self.framing = Framing2 if names is NAMES_2_10 else Framing3


class Framing3:
    """u32 bytes that follow, u32 type, u32 message id, u32 correlation id."""
    header = 16

    @staticmethod
    def length(data):
        return 4 + struct.unpack_from(">I", data)[0] if len(data) >= 4 else None

    @staticmethod
    def pack(kind, message_id, correlation_id, payload):
        return struct.pack(">IIII", 12 + len(payload), kind, message_id, correlation_id) + payload

    @staticmethod
    def unpack(frame):
        return struct.unpack_from(">III", frame, 4)


class Framing2:
    """u16 bytes in all, u16 type, u32 correlation id."""
    header = 8

    @staticmethod
    def length(data):
        return struct.unpack_from(">H", data)[0] if len(data) >= 2 else None

    @staticmethod
    def pack(kind, message_id, correlation_id, payload):
        return struct.pack(">HHI", 8 + len(payload), kind, correlation_id) + payload

    @staticmethod
    def unpack(frame):
        kind, correlation_id = struct.unpack_from(">HI", frame, 2)
        return kind, 0, correlation_id


def _init(*counts):
    return [(count, "I") for count in counts] + [("blob", None)]


# An I/O message: struct format of its 64 bytes, and the names of what is in it.
IO_3_2 = (">I4xQIIQQ24x", "type user_data result io_size memory storage".split())
IO_3_1 = (">IIQIIQQ24x", "type correlation_id user_data result io_size memory storage".split())
IO_3_0 = (">IIQIIQI28x", "type correlation_id user_data result io_size memory storage".split())
IO_2_10 = (">IIQIIQ32x", "type correlation_id user_data result io_size memory".split())
RESULT, READ, WRITE, STOP = 0, 1, 2, 3

DIALECTS = {
    "3.2": Dialect(NAMES_3, {**COMMON_3, "init_storage_request": _init("transactions", "cores")}, IO_3_2),
    "3.1": Dialect(NAMES_3, {**COMMON_3, "init_storage_request": _init("transactions", "cores")}, IO_3_1),
    "3.0": Dialect(NAMES_3, {**COMMON_3, "init_storage_request": _init("transactions", "batch", "cores")}, IO_3_0),
    "2.10": Dialect(NAMES_2_10, {"response": ERROR, "create_rdma_connection_request": CREATE_2_10,
                                 "create_rdma_connection_response": CREATE_2_10,
                                 "configure_data_path": _init("transactions", "buffer_size", "batch")}, IO_2_10),
}
DIALECTS["3.3"] = DIALECTS["3.2"]


# --- bytes ------------------------------------------------------------------------------------

class Malformed(Exception):
    """A message that says more than its frame has, or has a type that nobody knows."""


def build(version, name, message_id=0, correlation_id=0, **fields):
    d = DIALECTS[version]
    payload = b""
    for field, letter in d.payloads.get(name, []):
        value = fields.pop(field, b"" if letter is None else 0)
        payload += struct.pack(">I", len(value)) + value if letter is None else struct.pack(">" + letter, value)
    assert not fields, f"{name} has no {', '.join(fields)}"
    return d.framing.pack(d.names.index(name), message_id, correlation_id, payload)


def parse(version, frame):
    """The message of one whole frame, as a dict."""
    d = DIALECTS[version]
    kind, message_id, correlation_id = d.framing.unpack(frame)
    if kind >= len(d.names):
        raise Malformed(f"type {kind}")
    m = {"name": d.names[kind], "message_id": message_id, "correlation_id": correlation_id}
    at = d.framing.header
    try:
        for field, letter in d.payloads.get(m["name"], []):
            if letter is None:
                size, = struct.unpack_from(">I", frame, at)
                m[field] = frame[at + 4:at + 4 + size]
                at += 4 + size
                if len(m[field]) < size:
                    raise Malformed(f"{field} of {m['name']} ends beyond the frame")
            else:
                m[field], = struct.unpack_from(">" + letter, frame, at)
                at += struct.calcsize(">" + letter)
    except struct.error as e:
        raise Malformed(f"{m['name']} ends early") from e
    m["trailing"] = len(frame) - at
    return m


def frames(version, data):
    """The whole frames at the beginning of data, and what is left."""
    found = []
    while True:
        n = DIALECTS[version].framing.length(data)
        if n is None or len(data) < n:
            return found, data
        if n < DIALECTS[version].framing.header:
            raise Malformed(f"a frame of {n} bytes")
        found.append(data[:n])
        data = data[n:]


def io_build(version, **fields):
    form, names = DIALECTS[version].io
    return struct.pack(form, *(fields.get(name, 0) for name in names))


def io_parse(version, data):
    form, names = DIALECTS[version].io
    assert len(data) == struct.calcsize(form) == 64
    return dict(zip(names, struct.unpack(form, data)))


# --- ends -------------------------------------------------------------------------------------

class Channel:
    """A control channel over a socket."""

    def __init__(self, sock, version="3.2"):
        self.sock, self.version, self.data, self.ready = sock, version, b"", []
        self.next_id = 1

    @classmethod
    def to(cls, port, version="3.2", addr="127.0.0.1", timeout=10):
        return cls(socket.create_connection((addr, port), timeout), version)

    def raw(self, data):
        self.sock.sendall(data)

    def send(self, name, **fields):
        self.raw(build(self.version, name, **fields))

    def receive(self):
        """The next message; None: the peer has closed the connection."""
        while not self.ready:
            try:
                piece = self.sock.recv(256)
            except ConnectionResetError:
                return None
            if not piece:
                return None
            self.ready, self.data = frames(self.version, self.data + piece)
        return parse(self.version, self.ready.pop(0))

    def ask(self, name, **fields):
        """A request with ids of its own, and its response, whose ids are checked."""
        ids = {"message_id": self.next_id, "correlation_id": 0x1000 + self.next_id}
        self.next_id += 1
        self.send(name, **ids, **fields)
        m = self.receive()
        assert m is not None, f"the connection ended after {name}"
        assert m["correlation_id"] == ids["correlation_id"], m
        assert self.version == "2.10" or m["message_id"] == ids["message_id"], m
        return m

    def close(self):
        self.sock.close()


class Reference:
    """NVIDIA's reference target of 3.0 and later, as far as control messages go: a straight line, in which each request
    uses up its stage, whatever comes of it. serve() is one client's life; what it has seen is in .seen."""

    def __init__(self, version="3.2", total=1 << 20, block=512, cores=2, blob=b"opaque to everybody"):
        self.version, self.total, self.block, self.most, self.blob = version, total, block, cores, blob
        self.cores, self.seen = 0, []

    def serve(self, channel):
        self.channel = channel
        assert self.version != "2.10", "2.10 is another line"
        self._stage("query_storage_request", self._query)
        self._stage("init_storage_request", self._init)
        for _ in range(2 * self.cores):
            self._stage("create_rdma_connection_request", self._create)
        for name in ("start_storage", "stop_storage", "shutdown"):
            self._stage(name + "_request", lambda m, name=name: (name + "_response", {}))

    def _stage(self, expected, process):
        m = self.channel.receive()
        if m is None:
            raise ConnectionError("the reference polls forever here")
        self.seen.append(m)
        if m["name"] == expected:
            name, fields = process(m)
        else:
            text = f"Unexpected {m['name']} while expecting a {expected}"
            name, fields = "error_response", {"result": UNEXPECTED, "blob": text.encode()}
        self.channel.send(name, message_id=m["message_id"], correlation_id=m["correlation_id"], **fields)

    def _query(self, _):
        return "query_storage_response", {"total_size": self.total, "block_size": self.block}

    def _init(self, m):
        if m["cores"] > self.most:
            text = f"Requested storage to use {m['cores']} cores but only {self.most} are configured"
            return "error_response", {"result": INVALID_VALUE, "blob": text.encode()}
        self.cores = m["cores"]
        return "init_storage_response", {}

    def _create(self, m):
        if m["context_idx"] > self.cores:  # one too many, as the reference has it
            return "error_response", {"result": INVALID_VALUE, "blob": b"invalid context idx"}
        return "create_rdma_connection_response", {"context_idx": m["context_idx"], "role": m["role"],
                                                   "blob": self.blob}
