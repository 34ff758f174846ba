# SPDX-License-Identifier: BSD-3-Clause
"""Captures made by hand: what one host and one controller say over NVMe/TCP or RoCEv2, byte by byte."""
import struct

HOSTNQN = "nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111"
SUBNQN = "nqn.2026-01.lab:crafted"
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
PORT = {"host": 50000, "controller": 4420}
CAP, VS, INTMS, CC, CSTS, AQA, NSSD, CRTO = 0, 8, 0x0c, 0x14, 0x1c, 0x24, 0x64, 0x68
CAP_FAIR = 127 | 1 << 16 | 2 << 24 | 1 << 37 | 1 << 59  # TO 1 s, CRMS
KEYED, TRANSPORT, IN_CAPSULE = 0x40, 0x5a, 0x01


def other(side):
    return "controller" if side == "host" else "host"


# --- a file --------------------------------------------------------------------------------------

class Capture:
    """Frames of Ethernet and IPv4 between 10.0.0.1 (host) and 10.0.0.2, a millisecond apart."""

    def __init__(self):
        self.out = bytearray(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, 1))
        self.ms = 1000

    def frame(self, sender, protocol, payload):
        address = {"host": bytes([10, 0, 0, 1]), "controller": bytes([10, 0, 0, 2])}
        ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0,
                         address[sender], address[other(sender)])
        frame = bytes(12) + b"\x08\x00" + ip + payload
        self.out += struct.pack("<IIII", self.ms // 1000, self.ms % 1000 * 1000, len(frame),
                                len(frame)) + frame
        self.ms += 1

    def write(self, path):
        path.write_bytes(self.out)
        return path


class Stream:
    """A TCP connection."""

    def __init__(self, capture, port, begun=True, **ports):
        """begun: with its handshake; else the capture begins in its middle."""
        self.capture, self.port = capture, {**PORT, "host": port, **ports}
        self.seq = {"host": 1000, "controller": 5000}
        if not begun:
            return
        self.segment("host", 0x02)
        self.segment("controller", 0x12)
        self.segment("host", 0x10)

    def segment(self, sender, flags, data=b""):
        head = struct.pack(">HHIIBBHHH", self.port[sender], self.port[other(sender)],
                           self.seq[sender], self.seq[other(sender)], 0x50, flags, 65535, 0, 0)
        self.capture.frame(sender, 6, head + data)
        self.seq[sender] += len(data) + (flags & 3 != 0)

    def lose(self, sender, n):
        """Bytes that were sent, and that the capture does not have."""
        self.seq[sender] += n

    def send(self, sender, data):
        for at in range(0, len(data), 1400):
            self.segment(sender, 0x18, data[at:at + 1400])

    def close(self):
        self.segment("host", 0x11)
        self.segment("controller", 0x11)


# --- PDUs and capsules ---------------------------------------------------------------------------

def pdu(kind, head, data=b"", flags=0):
    """head: behind the common header; data right behind."""
    hlen = 8 + len(head)
    pdo = hlen if data and kind not in (2, 3) else 0
    return struct.pack("<BBBBI", kind, flags, hlen, pdo, hlen + len(data)) + head + data


def icreq(**k):
    return pdu(0, struct.pack("<HBBI", 0, 0, 0, k.get("maxr2t", 0)) +
               k.get("reserved", bytes(112)))


def icresp(reserved=bytes(112)):
    return pdu(1, struct.pack("<HBBI", 0, 0, 0, 131072) + reserved)


def sgl(kind, length, addr=0, key=0):
    if kind == KEYED:
        return struct.pack("<Q", addr) + length.to_bytes(3, "little") + \
            struct.pack("<IB", key, kind)
    return struct.pack("<QI3xB", addr, length, kind)


def sqe(opc, cid, nsid=0, flags=0x40, dptr=bytes(16), cdw=(), tail=None):
    words = list(cdw) + [0] * (6 - len(cdw))
    return struct.pack("<BBHI", opc, flags, cid, nsid) + bytes(16) + dptr + \
        (tail if tail is not None else struct.pack("<6I", *words))


def fabrics(fctype, cid, tail, dptr=bytes(16), flags=0x40):
    return struct.pack("<BBHB19x", 0x7f, flags, cid, fctype) + dptr + tail.ljust(24, b"\0")


def cqe(cid, status=0, result=0, sqhd=0):
    return struct.pack("<QHHHH", result, sqhd, 0, cid, status << 1)


def connect_data(subnqn=SUBNQN, cntlid=0xffff, hostnqn=HOSTNQN, hostid=b"h" * 16):
    return hostid + struct.pack("<H", cntlid) + bytes(238) + \
        subnqn.encode().ljust(256, b"\0") + hostnqn.encode().ljust(256, b"\0") + bytes(256)


def identify(cntlid=1, **k):
    """Identify Controller of an I/O controller as it should be."""
    d = bytearray(4096)
    put = lambda at, fmt, v: struct.pack_into(fmt, d, at, v)
    d[4:72] = b" " * 68
    put(78, "<H", cntlid)
    put(80, "<I", k.get("ver", 0x20000))
    put(88, "<I", k.get("rtd3e", 0))
    put(92, "<I", k.get("oaes", 0))
    put(386, "<H", k.get("cqt", 0))
    if "anacap" in k:
        put(76, "<B", 1 << 3 | 1 << 1)
        struct.pack_into("<BBII", d, 342, 10, k["anacap"], 1024, 1024)
        put(540, "<I", 1)
    put(111, "<B", k.get("cntrltype", 1))
    put(258, "<B", 3)
    put(259, "<B", k.get("aerl", 3))
    put(102, "<B", 1)
    put(128, "<H", k.get("crdt", 0))
    put(1804, "<H", k.get("ofcs", 0))
    put(260, "<B", k.get("frmw", 2))
    put(261, "<B", k.get("lpa", 0))
    struct.pack_into("<HH", d, 266, *k.get("temperatures", (343, 353)))
    put(320, "<H", k.get("kas", 10))
    put(512, "<H", k.get("entry_sizes", 0x4466))
    put(514, "<H", 128)
    put(516, "<I", k.get("nn", 1))
    put(525, "<B", 4)
    put(536, "<I", k.get("sgls", 0x300001))
    d[768:768 + len(SUBNQN)] = SUBNQN.encode()
    struct.pack_into("<IIHBB", d, 1792, k.get("ioccsz", 260), 1, 0, 0, 1)
    return bytes(d)


def disc_log(genctr, *entries, flags=0, tdlpl=0):
    return struct.pack("<QQHBxI", genctr, len(entries), 0, flags, tdlpl).ljust(1024, b"\0") + b"".join(entries)


def disc_entry(subnqn, portid=1, cntlid=0xffff, trsvcid=b"4420", traddr=b"10.0.0.2", treq=0):
    return (struct.pack("<BBBBHHHH", 3, 1, 2, treq, portid, cntlid, 128, 0) + bytes(20) +
            trsvcid.ljust(32, b" ") + bytes(192) + subnqn.encode().ljust(256, b"\0") +
            traddr.ljust(256, b" ") + bytes(256))


# --- TLS -----------------------------------------------------------------------------------------

PSK_OF = f"NVMe0R01 {HOSTNQN} {SUBNQN}"


def client_hello(*identities, version=0x304, suites=(0x1301,), share=b"s" * 32, early=False, random=b"r"):
    """The record of a ClientHello; its binders are none."""
    def ext(kind, data):
        return struct.pack(">HH", kind, len(data)) + data

    def counted(data, fmt=">H"):
        return struct.pack(fmt, len(data)) + data

    extensions = b""
    if version == 0x304:
        extensions += ext(43, b"\2\3\4") + ext(45, b"\2\0\1") + ext(51, counted(struct.pack(">H", 29) + counted(share)))
        extensions += ext(42, b"") if early else b""
        if identities:
            extensions += ext(41, counted(b"".join(counted(i.encode()) + bytes(4) for i in identities)) +
                              counted(b"".join(b"\x20" + bytes(32) for _ in identities)))
    body = struct.pack(">H", min(version, 0x303)) + random.ljust(32, b"\0") + b"\0" + \
        counted(b"".join(struct.pack(">H", s) for s in suites)) + b"\1\0" + counted(extensions)
    return b"\x16\3\1" + counted(b"\1" + len(body).to_bytes(3, "big") + body)


def tls(capture, *identities, psk=True, **k):
    """A connection of which nothing but its ClientHello can be read."""
    Queue.ports += 1
    stream = Stream(capture, Queue.ports)
    stream.send("host", client_hello(*(identities or (PSK_OF,) if psk else ()), **k))
    stream.send("controller", b"\x17\3\3" + struct.pack(">H", 64) + bytes(64))
    stream.close()


# --- a queue -------------------------------------------------------------------------------------

class Queue:
    """An NVMe/TCP queue without SQ flow control, so that SQHD is always 0."""

    ports = 50000

    def __init__(self, capture, qid=0, kato=0, sqsize=31, maxr2t=0, **data):
        Queue.ports += 1
        self.capture, self.qid, self.cid = capture, qid, 0
        self.stream = Stream(capture, Queue.ports)
        self.host(icreq(maxr2t=maxr2t))
        self.controller(icresp())
        if sqsize:
            self.connect(kato, sqsize, **data)

    def host(self, data):
        self.stream.send("host", data)

    def controller(self, data):
        self.stream.send("controller", data)

    def next_cid(self):
        self.cid += 1
        return self.cid

    def connect(self, kato=0, sqsize=31, status=0, result=None, nvmsetid=0, **data):
        data.setdefault("cntlid", 0xffff if self.qid == 0 else 1)
        tail = struct.pack("<HHHBBIH", 0, self.qid, sqsize, 4, 0, kato, nvmsetid)
        cid = self.next_cid()
        self.host(pdu(4, fabrics(1, cid, tail, sgl(IN_CAPSULE, 1024)), connect_data(**data)))
        self.controller(pdu(5, cqe(cid, status, 1 if result is None else result,
                                   0 if status else 0xffff)))

    def send(self, command, data=b""):
        self.host(pdu(4, command, data))

    def answer(self, cid, status=0, result=0):
        self.controller(pdu(5, cqe(cid, status, result)))

    def run(self, opc, status=0, result=0, data=b"", h2c=b"", kind=TRANSPORT, **k):
        """A command and its answer: data is what it returns, h2c what it has in its capsule."""
        cid = self.next_cid()
        length = len(h2c) or k.pop("length", len(data))
        dptr = sgl(IN_CAPSULE if h2c else kind, length) if length else bytes(16)
        self.send(sqe(opc, cid, dptr=k.pop("dptr", dptr), **k), h2c)
        if data:
            self.controller(pdu(7, struct.pack("<HHII4x", cid, 0, 0, len(data)), data, flags=4))
        self.answer(cid, status, result)
        return cid

    def authenticate(self, fctype, message):
        """Authentication Send (5) or Receive (6) of this message."""
        cid = self.next_cid()
        tail = struct.pack("<BBBBI", 0, 1, 1, 0xe9, len(message))
        send = fctype == 5
        self.send(fabrics(fctype, cid, tail, sgl(IN_CAPSULE if send else TRANSPORT, len(message))),
                  message if send else b"")
        if not send:
            self.controller(pdu(7, struct.pack("<HHII4x", cid, 0, 0, len(message)), message,
                                flags=4))
        self.answer(cid)

    def get(self, ofst, value=0, status=0):
        cid = self.next_cid()
        self.send(fabrics(4, cid, struct.pack("<B3xI", ofst == CAP, ofst)))
        self.answer(cid, status, value)

    def set(self, value, ofst=CC):
        cid = self.next_cid()
        self.send(fabrics(0, cid, struct.pack("<B3xIQ", 0, ofst, value)))
        self.answer(cid)

    def enable(self, cap=CAP_FAIR, vs=0x20000):
        self.get(CAP, cap)
        self.get(VS, vs)
        self.set(0x460001)
        self.get(CSTS, 1)

    def identify(self, **k):
        self.run(0x06, data=identify(**k), cdw=[1])

    def log(self, lid, data=b"", offset=0, rae=0, status=0, ot=0, length=None, lsp=0):
        numd = (length or len(data)) // 4 - 1
        self.run(0x02, status=status, data=data, length=length or len(data),
                 nsid=0xffffffff if lid == 2 else 0,
                 cdw=[lid | lsp << 8 | rae << 15 | (numd & 0xffff) << 16, numd >> 16, offset & 0xffffffff,
                      offset >> 32, ot << 23])


def admin(capture, enabled=True, **k):
    q = Queue(capture, **k)
    if enabled:
        q.enable()
    return q


def discovery(capture, **k):
    q = Queue(capture, subnqn=DISCOVERY, **k)
    q.get(CAP, CAP_FAIR & ~(1 << 59))
    q.set(0x460001)
    q.get(CSTS, 1)
    return q


def io(capture, **k):
    k.setdefault("qid", 1)
    return Queue(capture, **k)


# --- RoCEv2 --------------------------------------------------------------------------------------

class Roce:
    """A queue pair without connection management's niceties: REQ, REP, RTU, and packets."""

    numbers = 16

    def __init__(self, capture, qid=0, ird=4, crqsize=32, hsqsize=31, rejected=None, private=None,
                 port=4420, cntlid=1, service=0, retries=7, accept=None):
        Roce.numbers += 1
        self.capture, self.qid = capture, qid
        self.qpn = {"host": Roce.numbers, "controller": Roce.numbers + 1000}
        self.psn = {"host": 100, "controller": 200}
        self.cid = 0
        req = bytearray(92)
        req[0:4] = bytes([0x40, 4, 0xc3, 0x50])
        struct.pack_into("<HHHHH", req, 36, 0, qid, 32, hsqsize, cntlid if qid else 0)
        if private:
            req[36:36 + len(private)] = private
        body = bytearray(140)
        struct.pack_into(">I", body, 0, Roce.numbers)
        struct.pack_into(">Q", body, 8, 0x0106 << 16 | port)
        body[32:36] = self.qpn["host"].to_bytes(3, "big") + bytes([ird])
        body[36:40] = bytes(3) + bytes([0])
        body[44:48] = (200).to_bytes(3, "big") + b"\0"
        body[43] = service << 1
        body[50] = 0x30 | retries  # path MTU 1024
        self.mad("host", 0x10, bytes(body) + bytes(req))
        self.number = Roce.numbers
        if rejected is not None:
            self.reject(rejected)
            return
        body = bytearray(36)
        struct.pack_into(">II", body, 0, Roce.numbers + 5000, Roce.numbers)
        body[12:16] = self.qpn["controller"].to_bytes(3, "big") + b"\0"
        body[20:24] = (100).to_bytes(3, "big") + b"\0"
        body[25] = ird
        self.mad("controller", 0x13,
                 bytes(body) + (accept or struct.pack("<HH", 0, crqsize)).ljust(196, b"\0"))
        self.mad("host", 0x14, struct.pack(">II", Roce.numbers, Roce.numbers + 5000))

    def udp(self, sender, payload):
        self.capture.frame(sender, 17, struct.pack(">HHHH", 50000, 4791, 8 + len(payload), 0) +
                           payload)

    def mad(self, sender, attribute, body):
        mad = struct.pack(">BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 0, attribute, 0, 0) + body
        self.udp(sender, struct.pack(">BBHII", 0x64, 0, 0xffff, 1, 0) + bytes(8) +
                 mad.ljust(256, b"\0") + bytes(4))

    def reject(self, sts):
        body = struct.pack(">IIBBH", self.number + 5000, self.number, 0, 0, 28) + bytes(72)
        self.mad("controller", 0x12, body + struct.pack("<HH", 0, sts).ljust(148, b"\0"))

    def disconnect(self, sender="host"):
        ids = (self.number, self.number + 5000)
        body = struct.pack(">II", *(ids if sender == "host" else ids[::-1]))
        self.mad(sender, 0x15, body)
        self.mad(other(sender), 0x16, struct.pack(">II", *(ids[::-1] if sender == "host" else ids)))

    def packet(self, sender, opcode, payload=b"", psn=None):
        own = psn is None
        psn = self.psn[sender] if own else psn
        bth = struct.pack(">BBHII", opcode, 0, 0xffff, self.qpn[other(sender)], psn)
        self.udp(sender, bth + payload + bytes(4))
        if own:
            self.psn[sender] += 1

    def ack(self, sender, syndrome=0):
        """Of all that the other side has sent; as a NAK of the last of it."""
        self.packet(sender, 17, struct.pack(">I", syndrome << 24), self.psn[other(sender)] - 1)

    def send(self, sender, capsule, key=None):
        ieth = b"" if key is None else struct.pack(">I", key)
        self.packet(sender, 4 if key is None else 23, ieth + capsule)
        self.ack(other(sender))

    def command(self, capsule):
        self.send("host", capsule)

    def answer(self, cid, status=0, result=0, key=None, sqhd=0):
        self.send("controller", cqe(cid, status, result, sqhd), key)

    def connect(self, cntlid=0xffff, cattr=4):
        """In the capsule where that may be; else READ from the host."""
        self.cid += 1
        tail = struct.pack("<HHHBBI", 0, self.qid, 31, cattr, 0, 0)
        data = connect_data(cntlid=cntlid)
        self.command(fabrics(1, self.cid, tail, sgl(KEYED, 1024, 0x1000, 0x77)))
        self.read(0x1000, 0x77, data)
        self.answer(self.cid, 0, 1, sqhd=0xffff)

    def set(self, value, ofst=CC):
        self.cid += 1
        self.command(fabrics(0, self.cid, struct.pack("<B3xIQ", 0, ofst, value)))
        self.answer(self.cid)

    def flush(self):
        """A command more: it shows that none before it is missing."""
        self.cid += 1
        self.command(sqe(0x00, self.cid, nsid=1))
        self.answer(self.cid)

    def ask(self, addr, key, length):
        psn = self.psn["controller"]
        self.packet("controller", 12, struct.pack(">QII", addr, key, length))
        self.psn["controller"] = psn + max(1, -(-length // 1024))
        return psn

    def reply(self, psn, data):
        self.packet("host", 16, struct.pack(">I", 0) + data, psn)

    def read(self, addr, key, data):
        self.reply(self.ask(addr, key, len(data)), data)

    def write(self, addr, key, data):
        self.packet("controller", 10, struct.pack(">QII", addr, key, len(data)) + data)
