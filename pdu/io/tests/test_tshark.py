# SPDX-License-Identifier: BSD-3-Clause
"""Our decoding of real NVMe/TCP traffic laid beside tshark's, field by field, PDU by PDU."""
import collections
import functools
import json
import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILD = Path(os.environ.get("NVMFSPEC", ROOT / "build" / "nvmfspec")).parent
CAPTURES = sorted((HERE / "captures").glob("*.pcap"))

pytestmark = pytest.mark.needs("tshark")


def swapped(value):
    return int.from_bytes(value.to_bytes(4, "big"), "little")


def read(pdu, path):
    """The value at 'a.b' of our JSON; 'a[].b' for one from each element. None if there is none."""
    for name in path.split("."):
        if isinstance(pdu, list):
            pdu = [element[name] for element in pdu]
        elif name.rstrip("[]") not in pdu:
            return None
        else:
            pdu = pdu[name.rstrip("[]")]
    return pdu


def at(path, change=lambda value: value):
    return lambda pdu: None if read(pdu, path) is None else change(read(pdu, path))


def result(pdu):
    """The eight bytes of a Property Get completion, or of a Property Set command."""
    if "cqe" in pdu["pdu"]:
        return pdu["pdu"]["cqe"]["dw0"] | pdu["pdu"]["cqe"]["dw1"] << 32
    return pdu["pdu"]["sqe"]["value"]


def effects(pdu):
    """What the effects log says of each opcode: 256 admin ones, then those of the NVM command set
    from 1 on, for tshark leaves out the entry of Flush."""
    if not (admin := read(pdu, "log.admin")):
        return None
    said = {c["opc"]: c["effects"] for c in admin}
    said.update({255 + c["opc"]: c["effects"] for c in pdu["log"].get("io", []) if c["opc"] > 0})
    return [said.get(opcode, 0) for opcode in range(511)]


def namespaces(pdu):
    groups = read(pdu, "log.group")
    return groups and [n["nsid"] for group in groups for n in group.get("namespace", [])]


def treqs(pdu):
    records = read(pdu, "log.record")
    return records and [r["treq"] | r["sqfc"] << 2 | r["zhids"] << 3 for r in records]


# What we call a field of tshark's.
SAME = {
    "nvme-tcp.type": at("pdu.type"),
    "nvme-tcp.flags": at("pdu.flags"),
    "nvme-tcp.flags.pdu.hdgst": at("pdu.flags", lambda f: f & 1),
    "nvme-tcp.flags.pdu.ddgst": at("pdu.flags", lambda f: f >> 1 & 1),
    "nvme-tcp.flags.pdu.data_last": at("pdu.flags", lambda f: f >> 2 & 1),
    "nvme-tcp.flags.pdu.data_success": at("pdu.flags", lambda f: f >> 3 & 1),
    "nvme-tcp.hlen": at("pdu.hlen"),
    "nvme-tcp.pdo": at("pdu.pdo"),
    "nvme-tcp.plen": at("pdu.plen"),
    "nvme-tcp.icreq.pfv": at("pdu.pfv"),
    "nvme-tcp.icreq.hpda": at("pdu.hpda"),
    "nvme-tcp.icreq.digest": at("pdu.dgst"),
    "nvme-tcp.icreq.maxr2t": at("pdu.maxr2t"),
    "nvme-tcp.icresp.pfv": at("pdu.pfv"),
    "nvme-tcp.icresp.cpda": at("pdu.cpda"),
    "nvme-tcp.icresp.digest": at("pdu.dgst"),
    "nvme-tcp.icresp.maxdata": at("pdu.maxh2cdata"),
    "nvme-tcp.hdgst": at("hdgst", swapped),  # tshark shows the bytes in the order of the wire
    "nvme-tcp.hdgst.status": at("hdgst", lambda _: 1),  # a bad one ends our stream
    "nvme-tcp.ddgst.status": at("ddgst_bad", lambda bad: 1 - bad),
    "nvme-tcp.cmd.qid": at("qid"),
    "nvme-tcp.cmd.cid": at("pdu.cccid"),
    "nvme-tcp.ttag": at("pdu.ttag"),
    "nvme-tcp.data.offset": at("pdu.datao"),
    "nvme-tcp.data.length": at("pdu.datal"),
    "nvme-tcp.r2t.offset": at("pdu.r2to"),
    "nvme-tcp.r2t.length": at("pdu.r2tl"),
    "nvme.cmd.opc": at("pdu.sqe.opc"),
    "nvme.cmd.fuse_op": at("pdu.sqe.flags", lambda f: f & 3),
    "nvme.cmd.psdt": at("pdu.sqe.flags", lambda f: f >> 6),
    "nvme.cmd.cid": at("pdu.sqe.cid"),
    "nvme.cmd.nsid": at("pdu.sqe.nsid"),
    "nvme.cmd.mptr": at("pdu.sqe.mptr"),
    "nvme.cmd.sgl.type": at("pdu.sqe.sgl.id", lambda i: i >> 4),
    "nvme.cmd.sgl.subtype": at("pdu.sqe.sgl.id", lambda i: i & 15),
    "nvme.cmd.sgl1.addr": at("pdu.sqe.sgl.addr"),
    "nvme.cmd.sgl1.len": at("pdu.sqe.sgl.len"),
    "nvme.cmd.slba": at("pdu.sqe.slba"),
    "nvme.cmd.nlb": at("pdu.sqe.nlb", lambda nlb: nlb + 1),
    "nvme.cmd.prinfo": at("pdu.sqe.prinfo"),
    "nvme.cmd.fua": at("pdu.sqe.fua"),
    "nvme.cmd.lr": at("pdu.sqe.lr"),
    "nvme.cmd.identify.dword10.cns": at("pdu.sqe.cns"),
    "nvme.cmd.identify.dword10.cntid": at("pdu.sqe.cntid"),
    "nvme.cmd.get_logpage.dword10.id": at("pdu.sqe.lid"),
    "nvme.cmd.get_logpage.dword10.lsp": at("pdu.sqe.lsp"),
    "nvme.cmd.get_logpage.dword10.rae": at("pdu.sqe.rae"),
    "nvme.cmd.get_logpage.dword10.numdl": at("pdu.sqe.numdl"),
    "nvme.cmd.get_logpage.dword11.numdu": at("pdu.sqe.numdu"),
    "nvme.cmd.get_logpage.dword11.lsi": at("pdu.sqe.lsi"),
    "nvme.cmd.get_logpage.lpo": at("pdu.sqe.lpo"),
    "nvme.cmd.set_features.dword10.fid": at("pdu.sqe.fid"),
    "nvme.cmd.set_features.dword10.sv": at("pdu.sqe.sv"),
    "nvme.cmd.set_features.dword11.aec": at("pdu.sqe.cdw11"),
    "nvme.cmd.set_features.dword11.nq": at("pdu.sqe.cdw11"),
    "nvme.cmd.get_features.dword10.fid": at("pdu.sqe.fid"),
    "nvme.cqe.dword0": at("pdu.cqe.dw0"),
    "nvme.cqe.dword1": at("pdu.cqe.dw1"),
    "nvme.cqe.sqhd": at("pdu.cqe.sqhd"),
    "nvme.cqe.sqid": at("pdu.cqe.sqid"),
    "nvme.cqe.cid": at("pdu.cqe.cid"),
    "nvme.cqe.status.p": at("pdu.cqe.p"),
    "nvme.cqe.status.sc": at("pdu.cqe.status", lambda s: s & 255),
    "nvme.cqe.status.sct": at("pdu.cqe.status", lambda s: s >> 8),
    "nvme.cqe.status.crd": at("pdu.cqe.crd"),
    "nvme.cqe.status.m": at("pdu.cqe.m"),
    "nvme.cqe.status.dnr": at("pdu.cqe.dnr"),
    "nvme.fabrics.cmd.opc": at("pdu.sqe.opc"),
    "nvme.fabrics.cmd.rsvd": at("pdu.sqe.flags"),
    "nvme.fabrics.cmd.cid": at("pdu.sqe.cid"),
    "nvme.fabrics.cmd.fctype": at("pdu.sqe.fctype"),
    "nvme.fabrics.cmd.connect.recfmt": at("pdu.sqe.recfmt"),
    "nvme.fabrics.cmd.connect.qid": at("pdu.sqe.qid"),
    "nvme.fabrics.cmd.connect.sqsize": at("pdu.sqe.sqsize"),
    "nvme.fabrics.cmd.connect.cattr": at("pdu.sqe.cattr"),
    "nvme.fabrics.cmd.connect.kato": at("pdu.sqe.kato"),
    "nvme.fabrics.cmd.connect.data.hostid": at("pdu.connect.hostid"),
    "nvme.fabrics.cmd.connect.data.cntrlid": at("pdu.connect.cntlid"),
    "nvme.fabrics.cmd.connect.data.subnqn": at("pdu.connect.subnqn"),
    "nvme.fabrics.cmd.connect.data.hostnqn": at("pdu.connect.hostnqn"),
    "nvme.fabrics.cmd.prop_get_set.attrib.size": at("pdu.sqe.attrib"),
    "nvme.fabrics.cmd.prop_get_set.offset": at("pdu.sqe.ofst"),
    "nvme.fabrics.prop_get_set.cc": result,
    "nvme.fabrics.prop_get_set.csts": result,
    "nvme.fabrics.prop_get.ccap": result,
    "nvme.fabrics.prop_get.vs": result,
    "nvme.fabrics.cqe.connect.cntrlid": at("pdu.cqe.dw0", lambda dw0: dw0 & 0xffff),
    "nvme.fabrics.cqe.connect.authreq": at("pdu.cqe.dw0", lambda dw0: dw0 >> 16),
    "nvme.cmd.identify.ctrl.lpa": at("identify.lpa", lambda lpa: int(lpa != 0)),  # taken for a flag
    "nvme.cmd.identify.ctrl.nvscc": at("identify.icsvscc"),
    "nvme.cmd.identify.ctrl.hmmminds": at("identify.hmminds"),
    "nvme.cmd.identify.ns.lbaf": at(
        "identify.lbaf", lambda fs: [f["ms"] | f["lbads"] << 16 | f["rp"] << 24 for f in fs]),
    "nvme.cmd.identify.nslist.nsid": at("identify.namespace[].nsid"),
    "nvme.cmd.get_logpage.identify.genctr": at("log.genctr"),
    "nvme.cmd.get_logpage.identify.numrec": at("log.numrec"),
    "nvme.cmd.get_logpage.identify.recfmt": at("log.recfmt"),
    "nvme.cmd.get_logpage.identify.rcrd.treq": treqs,
    "nvme.cmd.get_logpage.identify.rcrd.tsas.tcp_sectype": at("log.record[].sectype"),
    "nvme.cmd.get_logpage.ana.chcnt": at("log.chgcnt"),
    "nvme.cmd.get_logpage.ana.ngd": at("log.ngrps"),
    "nvme.cmd.get_logpage.ana.grp.id": at("log.group[].grpid"),
    "nvme.cmd.get_logpage.ana.grp.nns": at("log.group[].nnsids"),
    "nvme.cmd.get_logpage.ana.grp.chcnt": at("log.group[].chgcnt"),
    "nvme.cmd.get_logpage.ana.grp.anas.state": at("log.group[].state"),
    "nvme.cmd.get_logpage.ana.grp.nsid": namespaces,
    "nvme.cmd.get_logpage.cmd_and_eff.cseds": effects,
    "nvme.cmd.identify.ctrl.psds.psd.actp": at("identify.psd[].actp"),
    "nvme.cmd.identify.ctrl.psds.psd.enlat": at("identify.psd[].enlat"),
    "nvme.cmd.identify.ctrl.psds.psd.exlat": at("identify.psd[].exlat"),
    "nvme.cmd.identify.ctrl.psds.psd.idlp": at("identify.psd[].idlp"),
    "nvme.cmd.identify.ctrl.psds.psd.mp": at("identify.psd[].mp"),
}
SMART = {"cw": "critical", "ct": "temp", "asc": "spare", "ast": "spare_threshold", "lae": "used",
         "egcws": "egcw", "dur": "data_read", "duw": "data_written", "hrc": "reads",
         "hwc": "writes", "cbt": "busy", "pc": "power_cycles", "poh": "power_on_hours",
         "us": "unsafe_shutdowns", "mie": "media_errors", "ele": "error_entries"}
SAME.update({f"nvme.cmd.get_logpage.smart.{theirs}": at(f"log.{ours}")
             for theirs, ours in SMART.items()})

# Structures whose fields have our names.
NAMESAKES = re.compile(r"nvme\.cmd\.(?:identify\.ctrl\.(?:nvmeof\.)?|identify\.ns\.)(\w+)$")
RECORDS = re.compile(r"nvme\.cmd\.get_logpage\.identify\.rcrd\.(\w+)$")


def ours_for(name, pdu):
    if name in SAME:
        return SAME[name](pdu)
    if match := NAMESAKES.match(name):
        return read(pdu, f"identify.{match[1]}") if "identify" in pdu else None
    if match := RECORDS.match(name):
        records = read(pdu, "log.record")
        return records and match[1] in records[0] and [r[match[1]] for r in records] or None
    return None


def bare(text):
    return text.replace("-", "").replace(":", "").lower()


def agree(ours, field):
    """Whether tshark shows the same value, be it a number, text or bytes."""
    show = field.get("show")
    if isinstance(ours, int):
        raw = bytes.fromhex(bare(show)) if re.fullmatch(r"\w\w(:\w\w)*", show) else None
        if raw is not None and ours == int.from_bytes(raw, "little"):
            return True
        return re.fullmatch(r"0x[0-9a-f]+|-?\d+", show) is not None and ours == int(show, 0)
    if re.fullmatch(r"\w\w(:\w\w)+", show):
        return bare(show) in (bare(ours), ours.encode().hex())
    return ours == show.rstrip(" ")


def tshark(path, *options):
    return subprocess.run(["tshark", "-r", str(path), *options], check=True, capture_output=True,
                          text=True).stdout


@functools.lru_cache
def theirs(path):
    """The PDUs that tshark sees, in order: (frame, [field...])."""
    xml = tshark(path, "-T", "pdml", "-Y", "nvme-tcp", "-o", "nvme-tcp.check_hdgst:TRUE",
                 "-o", "nvme-tcp.check_ddgst:TRUE", "-o", "nvme-tcp.subsystem_ports:4420")
    pdus = []
    for packet in ElementTree.fromstring(xml):
        frame = int(packet.find("proto[@name='geninfo']/field[@name='num']").get("show"))
        for proto in packet:
            if proto.get("name") == "nvme-tcp":
                pdus.append((frame, []))
            if proto.get("name") in ("nvme-tcp", "nvme", "fake-field-wrapper") and pdus:
                pdus[-1][1].extend(proto.iter("field"))
    return pdus


def ours(path, *copy):
    program = BUILD / "capture_pdus"
    if not program.exists():
        pytest.skip(f"{program} is not built")
    out = subprocess.run([program, path, *copy], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in out.splitlines()]


def differences(pdu, frame, fields, compared):
    """Each field of tshark's that we know and that is not as we say."""
    nth = collections.Counter()
    if read(pdu, "pdu.datao"):  # tshark takes every C2HData for the start of the structure
        fields = [f for f in fields if f.get("name").startswith("nvme-tcp.")]
    for field in fields:
        name = field.get("name")
        value = ours_for(name, pdu)
        if isinstance(value, list):
            i, nth[name] = nth[name], nth[name] + 1
            value = value[i] if i < len(value) else None
        if value is None:
            continue
        compared[name] += 1
        if not agree(value, field):
            yield f"frame {frame}: {name} is {field.get('show')} to tshark, {value} to us"


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_every_field_is_what_tshark_shows(capture):
    mine, yours = ours(capture), theirs(capture)
    compared = collections.Counter()
    assert [pdu["frame"] for pdu in mine] == [frame for frame, _ in yours]
    found = [line for pdu, (frame, fields) in zip(mine, yours)
             for line in differences(pdu, frame, fields, compared)]
    assert not found, "\n".join(found)
    assert sum(compared.values()) > 4000, compared  # that they agree on nothing is no agreement
    assert len(compared) > 150, sorted(compared)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_the_linux_peers_break_no_other_rule(capture):
    broken = collections.Counter(rule for pdu in ours(capture) for rule in pdu["broken"])
    assert set(broken) <= {"tcp/capsule/cqe-reserved"}
    sqid = [f.get("show") for _, fields in theirs(capture) for f in fields
            if f.get("name") == "nvme.cqe.sqid"]
    assert broken["tcp/capsule/cqe-reserved"] == sum(int(s, 0) != 0 for s in sqid)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.stem)
def test_wireshark_reads_what_we_write(capture, tmp_path):
    copy = tmp_path / "copy.pcap"
    original = ours(capture, copy)
    again = ours(copy)
    strip = ("frame", "connection")
    assert [{k: v for k, v in pdu.items() if k not in strip} for pdu in original] == \
        [{k: v for k, v in pdu.items() if k not in strip} for pdu in again]
    assert [pdu["frame"] for pdu in again] == [frame for frame, _ in theirs(copy)]
    complaints = tshark(copy, "-Y", "_ws.malformed || tcp.analysis.flags || ip.checksum.status == 0"
                        " || tcp.checksum.status == 0", "-o", "ip.check_checksum:TRUE",
                        "-o", "tcp.check_checksum:TRUE")
    assert complaints == ""
