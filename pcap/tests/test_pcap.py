# SPDX-License-Identifier: BSD-3-Clause
"""`nvmfspec pcap` as a user types it: beside tshark, on captures of broken rules, on bad input."""
import collections
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import uuid

import pytest

from test_record import frames, invariant_crc

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
TCP = ROOT / "pdu/io/tests/captures"
CAPTURES = {
    "tcp": TCP / "nvme-tcp-6.12.pcap",
    "tcp-digest": TCP / "nvme-tcp-digest-6.12.pcap",
    "rxe": HERE / "captures/nvme-rdma-rxe-6.12.pcap",
    "siw": HERE / "captures/nvme-rdma-siw-6.12.pcap",
}


def run(*args, code=0, **kwargs):
    done = subprocess.run([NVMFSPEC, "pcap", *map(str, args)], capture_output=True, timeout=120,
                          **kwargs)
    assert code is None or done.returncode == code, done.stderr.decode() + done.stdout.decode()
    return done


def text(*args, **kwargs):
    return run(*args, **kwargs).stdout.decode()


def objects(*args, **kwargs):
    lines = [json.loads(line) for line in text(*args, "-o", "json", **kwargs).splitlines()]
    assert all(o["schema"] == 1 for o in lines)
    return lines


def commands(records):
    """(frame, opcode, FCTYPE of Fabrics commands) of each command."""
    for r in records:
        sqe = r["fields"].get("sqe", {}) if r["kind"] in ("pdu", "command") else {}
        if "opc" in sqe:
            yield r["frame"], sqe["opc"], sqe.get("fctype") if sqe["opc"] == 0x7f else None


def statuses(records):
    for r in records:
        cqe = r["fields"].get("cqe", {}) if r["kind"] in ("pdu", "response") else {}
        if "status" in cqe:
            yield cqe["status"]


# --- beside tshark -------------------------------------------------------------------------------

def tshark(path, *fields):
    """Each frame's values of these fields; of several PDUs in a frame several values."""
    args = ["tshark", "-r", str(path), "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,",
            "-o", "nvme-tcp.subsystem_ports:4420"]
    for field in fields:
        args += ["-e", field]
    out = subprocess.run(args, check=True, capture_output=True, text=True).stdout
    for line in out.splitlines():
        yield [[int(v, 0) for v in column.split(",") if v] for column in line.split("\t")]


def tshark_opcodes(path):
    counts = collections.Counter()
    for opcodes, types in tshark(path, "nvme.cmd.opc", "nvme.fabrics.cmd.fctype"):
        counts.update(opcodes)
        counts.update((0x7f, t) for t in types)
    return counts


def our_opcodes(path):
    counts = collections.Counter()
    for _, opcode, fctype in commands(objects("show", path)):
        counts[opcode if fctype is None else (0x7f, fctype)] += 1
    return counts


@pytest.mark.needs("tshark")
@pytest.mark.parametrize("name", ["tcp", "tcp-digest", "rxe"])
def test_opcodes_are_those_that_tshark_counts(name):
    ours, theirs = our_opcodes(CAPTURES[name]), tshark_opcodes(CAPTURES[name])
    if name == "rxe":
        # tshark 4.0 misses the capsules that span several packets: 4 Writes with 4 KiB in them, and
        # the Connects of I/O queues with their 1024 bytes where the path MTU is 1024.
        assert ours[1] == 8 and theirs[1] == 4
        for opcode in (1, (0x7f, 1)):
            assert ours.pop(opcode) >= theirs.pop(opcode, 0)
    assert ours == theirs


@pytest.mark.needs("tshark")
@pytest.mark.parametrize("name", ["tcp", "tcp-digest", "rxe"])
def test_responses_are_those_that_tshark_counts(name):
    theirs = collections.Counter()
    for scs, scts in tshark(CAPTURES[name], "nvme.cqe.status.sc", "nvme.cqe.status.sct"):
        theirs.update(sct << 8 | sc for sc, sct in zip(scs, scts))
    ours = collections.Counter(statuses(objects("show", CAPTURES[name])))
    if name == "rxe":  # it shows none for commands it has missed
        assert ours[0] - theirs[0] in range(4, 10)
        ours[0] = theirs[0]
    assert ours == theirs


def test_rdma_says_the_same_as_tcp():
    """The same actions: the same I/O commands, whatever they went over."""
    io = {name: collections.Counter(
        r["fields"]["sqe"]["opc"] for r in objects("show", path)
        if r["qid"] > 0 and r["kind"] in ("pdu", "command") and r["sender"] == "host"
        and "sqe" in r["fields"])
        for name, path in CAPTURES.items()}
    assert io["tcp"] == io["tcp-digest"] == io["rxe"] == io["siw"]
    assert io["siw"][1] == 8 and io["siw"][2] == 12 and io["siw"][0x7f] == 2


@pytest.mark.needs("tshark")
def test_iwarp_segments_are_those_that_tshark_counts():
    out = subprocess.run(["tshark", "-r", CAPTURES["siw"], "-o", "tcp.try_heuristic_first:TRUE",
                          "-T", "fields", "-E", "occurrence=a", "-E", "aggregator=,",
                          "-e", "iwarp_rdma.opcode", "-e", "iwarp_ddp.last_flag"],
                         check=True, capture_output=True, text=True).stdout
    theirs = collections.Counter()
    for line in out.splitlines():
        opcodes, lasts = line.split("\t")
        theirs.update(int(o, 0) for o, last in zip(opcodes.split(","), lasts.split(","))
                      if o and last in ("1", "True"))
    ours = collections.Counter(r["kind"] for r in objects("show", CAPTURES["siw"]))
    sends = sum(theirs[o] for o in (3, 4, 5, 6))
    assert (ours["rdma_write"], ours["rdma_read"], ours["rdma_read_end"]) == \
        (theirs[0], theirs[1], theirs[2])
    assert ours["command"] + ours["response"] == sends


# --- rules, one broken in each capture -----------------------------------------------------------

# The suite breaks a rule of hosts against a target that does not check it, or the target breaks
# its own: the case fails, and its transcript is a capture of just that.
BROKEN = {
    "waive": [
        "tcp/header/plen-h2c", "tcp/header/hlen-h2c", "tcp/alignment/pdo-h2c", "tcp/header/direction-h2c",
        "tcp/setup/icreq-once", "tcp/icreq/hpda", "tcp/digest/hdgst-h2c", "tcp/digest/ddgst-h2c",
        "tcp/capsule/in-capsule-length", "tcp/h2cdata/ttag", "tcp/h2cdata/cccid",
        "tcp/h2cdata/datao", "tcp/h2cdata/range", "tcp/h2cdata/maxh2cdata",
        "tcp/h2cdata/last-early", "tcp/h2cdata/last-missing", "fab/connect/first",
        "fab/ready/enabled", "fab/connect/recfmt", "fab/connect/once",
        "fab/property/size", "fab/discovery/prohibited",
    ],
    "violate": [
        "tcp/header/plen-c2h", "tcp/header/hlen-c2h", "tcp/alignment/pdo-c2h", "tcp/setup/icresp-once",
        "tcp/digest/hdgst-c2h", "tcp/digest/ddgst-c2h", "tcp/capsule/response-cid",
        "tcp/c2hdata/cccid", "tcp/c2hdata/datao", "tcp/c2hdata/range", "tcp/r2t/offset",
        "tcp/r2t/limit", "fab/queue/sqhd", "fab/queue/sqhd-ffffh-unasked",
        "fab/property/cap", "base/identify/cntlid", "base/identify/ioccsz", "base/identify/kas",
        "fab/discovery/log-entry",
    ],
}


@pytest.mark.slow
@pytest.mark.parametrize("how, rule", [(how, r) for how, rules in BROKEN.items() for r in rules])
def test_a_broken_rule_is_flagged(how, rule, tmp_path):
    subprocess.run([NVMFSPEC, "conform", "--rule", rule, f"--{how}", rule, "--brief",
                    "--transcript", tmp_path], capture_output=True, timeout=100)
    captures = sorted(tmp_path.rglob("*.pcap"))
    assert captures, "no case has failed"
    flagged = {}
    for capture in captures:
        done = subprocess.run([NVMFSPEC, "pcap", "check", "--all", "-o", "json", capture],
                              capture_output=True, text=True, timeout=60)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        hits = [f for f in found if f.get("rule") == rule]
        if hits:
            flagged[capture] = hits
            assert done.returncode == 1 or hits[0]["grade"] != "must"
            assert {h["bound"] for h in hits} == {"host" if how == "waive" else "controller"}
            shown = [o for o in objects("show", capture, "--violations")
                     if any(b["rule"] == rule for b in o["broken"])]
            assert [o["frame"] for o in shown] == [h["frame"] for h in hits]
    assert flagged


# --- as a user types it --------------------------------------------------------------------------

def test_filters():
    path = CAPTURES["tcp"]
    everything = objects("show", path)
    assert {o["qid"] for o in objects("show", path, "-q", 1)} == {1}
    assert {o["connection"] for o in objects("show", path, "-c", 2)} == {2}
    reads = objects("show", path, "--opcode", "read")
    assert reads == objects("show", path, "--opcode", "0x02", "-q", 1) + \
        objects("show", path, "--opcode", "0x02", "-q", 2) or len(reads) > 12
    failed = objects("show", path, "--status", "0/0F")
    assert [o["fields"]["cqe"]["status"] for o in failed] == [15]
    assert len(objects("show", path, "--status", "error")) == 4
    assert len(objects("show", path, "--violations")) == 31  # two of them break two
    assert 0 < len(objects("show", path, "--cid", 0)) < len(everything)


def test_all_writes_of_the_rxe_capture():
    lines = text("show", CAPTURES["rxe"], "--opcode", "write").splitlines()
    written = [line for line in lines if " CapsuleCmd " in line]
    assert len(written) == 8
    assert sum("sgl 01h 4096" in line for line in written) == 4


def test_counts():
    out = text("show", "--count", CAPTURES["rxe"])
    assert "75 commands" in out and "73 responses" in out and "RDMA WRITE" in out


def test_all_fields_and_structures():
    out = text("show", "-v", CAPTURES["siw"])
    for word in ("hostnqn", "ioccsz", "subnqn", "critical", "hsqsize"):
        assert word.lower() in out.lower()


# What nvmet does: SQID filled in where it is reserved (B2.2 3.3.3), CAP.CQR 0 (3.1.4.1), and WCTEMP and
# CCTEMP 0 (5.1.13.2.1).
RESERVED, CAP = "tcp/capsule/cqe-reserved", "fab/property/cap"
FIELDS = "base/identify/controller-fields"


def test_check_says_what_and_where():
    out = text("check", CAPTURES["tcp"], code=1)
    assert RESERVED in out and CAP in out and "6 must and 25 should broken" in out
    assert out.count("frame ") == 4  # the first of each connection
    assert "6 must and 25" in text("check", CAPTURES["tcp"], "--all", code=1)
    waived = ["--waive", CAP, "--waive", FIELDS]
    assert "0 must and 25 should" in text("check", CAPTURES["tcp"], *waived)
    run("check", CAPTURES["tcp"], *waived, "--strict", code=1)
    assert "0 must and 0 should" in text("check", CAPTURES["tcp"], *waived, "--waive", RESERVED,
                                         "--strict")


@pytest.mark.parametrize("name", ["tcp", "tcp-digest"])
def test_frames_that_were_caught_out_of_order(name, tmp_path):
    """Some places too early or late, as where either direction has a queue of its own: an answer may
    be there before its command. It says the same, and nothing is missing. (Not around SYN, FIN, RST.)"""
    data = CAPTURES[name].read_bytes()
    at, caught = 24, []
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at + 8:at + 12], "little")
        caught.append(data[at:end])
        at = end
    wanted = our_opcodes(CAPTURES[name])
    verdict = text("check", CAPTURES[name], code=1).splitlines()[-1]
    assert " 0 gaps" in verdict
    shuffled = tmp_path / "shuffled.pcap"
    for seed in range(15):
        order = random.Random(seed)
        ends = [len(frame) > 63 and frame[39] == 6 and frame[63] & 7 for frame in caught]
        place = sorted(range(len(caught)),
                       key=lambda i: i + (0 if any(ends[max(0, i - 8):i + 9]) else order.randrange(8)))
        shuffled.write_bytes(data[:24] + b"".join(caught[i] for i in place))
        assert our_opcodes(shuffled) == wanted, seed
        assert text("check", shuffled, code=1).splitlines()[-1] == verdict, seed


def test_standard_input():
    data = CAPTURES["siw"].read_bytes()
    assert text("show", "--count", "-", input=data) == text("show", "--count", CAPTURES["siw"])


@pytest.mark.needs("editcap")
def test_pcapng_and_other_links(tmp_path):
    for kind in ("pcapng", "nsecpcap"):
        copy = tmp_path / f"copy.{kind}"
        subprocess.run(["editcap", "-F", kind, CAPTURES["rxe"], copy], check=True)
        assert text("check", copy, code=1) == text("check", CAPTURES["rxe"], code=1)


def block(kind, body):
    """Of a pcapng file."""
    body += bytes(-len(body) % 4)
    size = (len(body) + 12).to_bytes(4, "little")
    return kind.to_bytes(4, "little") + size + body + size


def interface(link, snapshot):
    nanoseconds = struct.pack("<HHB3xI", 9, 1, 9, 0)
    return block(1, struct.pack("<HHI", link, 0, snapshot) + nanoseconds)


def merged(path, links):
    """A pcapng of the frames of a pcap, by turns of interfaces (link type, snapshot length, header
    in place of Ethernet's)."""
    data = path.read_bytes()
    out = block(0x0a0d0d0a, struct.pack("<IHHq", 0x1a2b3c4d, 1, 0, -1))
    out += b"".join(interface(link, snapshot) for link, snapshot, _ in links)
    at, n = 24, 0
    scale = 1 if data[:4] == b"\x4d\x3c\xb2\xa1" else 1000
    while at < len(data):
        seconds, part, captured, whole = struct.unpack_from("<IIII", data, at)
        frame = links[n % len(links)][2] + data[at + 16 + 14:at + 16 + captured]
        time = seconds * 10**9 + part * scale
        out += block(6, struct.pack("<IIIII", n % len(links), time >> 32, time & 0xffffffff,
                                    len(frame), whole - captured + len(frame)) + frame)
        at += 16 + captured
        n += 1
    return out


ETHERNET, COOKED, RAW, PPP = 1, 113, 101, 9
MERGED = [(ETHERNET, 262144, bytes(12) + b"\x08\x00"), (RAW, 65535, b""),
          (COOKED, 0, bytes(14) + b"\x08\x00")]


@pytest.mark.parametrize("name", CAPTURES)
def test_interfaces_of_several_link_types_and_snapshot_lengths(name, tmp_path):
    """As mergecap makes of the host's and the target's captures."""
    wanted = run("check", CAPTURES[name], "-o", "json", code=None)
    copy = tmp_path / "merged.pcapng"
    copy.write_bytes(merged(CAPTURES[name], MERGED))
    for args, kwargs in (([copy], {}), (["-"], {"input": copy.read_bytes()})):
        seen = run("check", *args, "-o", "json", code=wanted.returncode, **kwargs)
        assert seen.stdout == wanted.stdout


def test_interfaces_of_unknown_link_types(tmp_path):
    copy = tmp_path / "merged.pcapng"
    copy.write_bytes(merged(CAPTURES["tcp"], [MERGED[0], (PPP, 0, b"")]))
    err = run("show", copy, "--count").stderr.decode()
    assert re.search(r"merged.pcapng: \d+ frames skipped, of interfaces with link types", err)
    copy.write_bytes(merged(CAPTURES["tcp"], [(PPP, 0, b"")]))
    done = run("show", copy, code=3)
    assert "link type 9 is not supported" in done.stderr.decode()
    assert "after frame" not in done.stderr.decode() and not done.stdout


@pytest.mark.parametrize("args, word", [
    ([], "no subcommand given"),
    (["shw"], "no subcommand"),
    (["show"], "no file given"),
    (["show", "a", "b"], "one file"),
    (["show", "--status", "9/999", "x"], "not a status"),
    (["show", "--port", "1", "x"], "unknown option"),
    (["show", "--opcode", "reed", "x"], "name of a command"),
    (["show", "--opcode", "256", "x"], "name of a command"),
    (["check", "-c", "99", CAPTURES["tcp"]], "nothing is selected"),
    (["show", "-q", "7", CAPTURES["tcp"]], "nothing is selected"),
    (["check", "-s", "0", "x"], "not a port"),
    (["check", "--waive", "tcp/none", "x"], "no rule"),
])
def test_usage(args, word):
    done = run(*args, code=2)
    assert word in done.stderr.decode()
    assert not done.stdout or args[1:2] == ["-c"]  # a summary


def test_unreadable_files(tmp_path):
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"no capture at all, and long enough")
    for path in (bad, tmp_path / "none"):
        err = run("check", path, code=3).stderr.decode()
        assert str(path) in err
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(CAPTURES["tcp"].read_bytes()[:100000])
    done = run("show", cut, code=3)
    assert "ICReq" in done.stdout.decode() and "cut.pcap" in done.stderr.decode()
    assert "after frame" in done.stderr.decode()


def test_nothing_in_it(tmp_path):
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(CAPTURES["tcp"].read_bytes()[:24])
    assert "no NVMe connection" in run("check", empty, code=4).stderr.decode()
    for command in ("show", "stat"):
        assert "no NVMe connection" in run(command, empty).stderr.decode()


# --- stat ----------------------------------------------------------------------------------------

def stat(name, *args):
    return json.loads(text("stat", CAPTURES[name], "-o", "json", *args))


@pytest.mark.parametrize("name", CAPTURES)
def test_latencies_are_the_times_between_frames(name):
    started, took = {}, collections.defaultdict(list)
    for r in objects("show", CAPTURES[name]):
        fields = r["fields"].get("sqe") or r["fields"].get("cqe") or {}
        if "cid" not in fields or r["kind"] not in ("pdu", "command", "response"):
            continue
        key = r["connection"], fields["cid"]
        if "opc" in fields:
            started[key] = fields["opc_text"], r["qid"] > 0, r["time_ns"]
        elif key in started:
            what, io, at = started.pop(key)
            took[what, io].append(r["time_ns"] - at)
    kinds = {(k["command"], k["io"]): k for k in stat(name)["kinds"]}
    took.pop(("Asynchronous Event Request", False), None)
    assert set(took) == set(kinds)
    for kind, latencies in took.items():
        whole = kinds[kind]["whole_ns"]
        assert whole["count"] == len(latencies)
        assert (whole["min"], whole["max"]) == (min(latencies), max(latencies))
        assert whole["mean"] == pytest.approx(sum(latencies) / len(latencies))
        middle = sorted(latencies)[(len(latencies) - 1) // 2]
        assert middle * 0.98 <= whole["p50"] <= middle * 1.02


@pytest.mark.parametrize("name", CAPTURES)
def test_the_timeline_adds_up(name):
    out = stat(name)
    bins = out["timeline"]
    assert sum(b["completed"] for b in bins) == out["completed"] > 70
    assert max(b["depth_max"] for b in bins) == out["depth_max"]
    assert len(bins) == int(out["seconds"] * 1e9 // out["interval_ns"]) + 1
    assert sum(b["h2c_bytes"] for b in bins) == sum(k["h2c_bytes"] for k in out["kinds"]) > 4 << 17
    assert sum(q["count"] for q in out["queues"]) == out["completed"]
    assert [q["qid"] for q in out["queues"]] == [0, 0, 1, 2]
    assert len(stat(name, "-c", 3)["queues"]) == 1
    coarse = stat(name, "--interval", 1000)
    assert coarse["interval_ns"] == 10**9 and len(coarse["timeline"]) <= 12
    for part in ("to_data_ns", "data_ns", "to_response_ns"):
        writes, = [k for k in out["kinds"] if k["command"] == "Write"]
        assert writes[part]["count"] == 4  # those of 128 KiB; the others are in their capsules


def test_the_page_stands_alone(tmp_path):
    page = tmp_path / "page.html"
    text("stat", CAPTURES["rxe"], "--html", page)
    html = page.read_text()
    assert html.count("<svg") == html.count("</svg>") == 5 and "polyline" in html
    assert "http" not in html and "<script" not in html and "src=" not in html
    assert "nan" not in html and "inf," not in html
    run("stat", CAPTURES["rxe"], "--html", tmp_path / "no" / "page.html", code=3)


# --- extract -------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", CAPTURES)
def test_blocks_of_the_namespace(name, tmp_path):
    """The image is what the commands moved, the last one last; and what is read is what was written."""
    image = tmp_path / "image"
    err = run("extract", CAPTURES[name], "--to", image).stderr.decode()
    assert "of 512 bytes" in err and "skipped" not in err
    data = image.read_bytes()
    assert len(data) >= 4 * 131072
    part = tmp_path / "part"
    run("extract", CAPTURES[name], "--to", part, "--slba", 8, "--blocks", 16)
    assert part.read_bytes() == data[8 * 512:24 * 512]
    blocks, compared = {}, 0
    for r in map(json.loads, sequence(name, tmp_path)):
        moved = r.get("sent_data" if r["command"] == "Write" else "got_data", "")
        if r["command"] not in ("Read", "Write") or r["status"] != 0:
            continue
        slba = int.from_bytes(bytes.fromhex(r["sqe"])[40:48], "little")
        for i, block in enumerate(moved[at:at + 1024] for at in range(0, len(moved), 1024)):
            if r["command"] == "Read" and slba + i in blocks:
                assert block == blocks[slba + i]
                compared += 1
            blocks[slba + i] = block
    assert compared >= 4 * 256
    assert all(data[b * 512:b * 512 + 512].hex() == block for b, block in blocks.items())


def sequence(name, tmp_path):
    path = tmp_path / f"{name}.jsonl"
    run("extract", CAPTURES[name], "--kind", "sequence", "--to", path)
    return path.read_text().splitlines()


def test_the_sequence_is_the_same_over_all_transports(tmp_path):
    io = {}
    for name in CAPTURES:
        lines = [json.loads(line) for line in sequence(name, tmp_path)]
        assert all(len(line["sqe"]) == 128 for line in lines)
        io[name] = sorted((line["command"], line["sqe"][80:104], line["status"]) for line in lines
                          if line["qid"] > 0 and line["command"] != "Connect")
    assert io["tcp"] == io["tcp-digest"] == io["rxe"] == io["siw"]


def test_seeds(tmp_path):
    run("extract", CAPTURES["tcp-digest"], "--kind", "seeds", "--to", tmp_path / "tcp")
    seeds = {p.name: p.read_bytes() for p in (tmp_path / "tcp").iterdir()}
    assert len(seeds["tcp-ICReq-01"]) == 128 and len(seeds) > 40
    for name, data in seeds.items():
        assert int.from_bytes(data[4:8], "little") == len(data), name
    raw = CAPTURES["tcp-digest"].read_bytes()
    assert all(seeds[s] in raw for s in seeds if len(seeds[s]) < 1200)  # whole in one segment
    run("extract", CAPTURES["rxe"], "--kind", "seeds", "--to", tmp_path / "rdma")
    assert len((tmp_path / "rdma" / "rdma-command-01").read_bytes()) == 64
    assert run("extract", CAPTURES["rxe"], code=2)
    run("extract", CAPTURES["rxe"], "--to", tmp_path / "no" / "x", code=3)


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("tool, option, code", [
    ("extract", "--to", 3), ("extract --kind sequence", "--to", 3), ("anonymize", "--to", 3),
    ("stat", "--html", 3), ("replay -t tcp -a 127.0.0.1", "--pcap", 2)])
def test_no_tool_destroys_what_it_reads(tool, option, code, link, tmp_path):
    source, to = tmp_path / "source.pcap", tmp_path / "other.pcap"
    source.write_bytes(CAPTURES["tcp"].read_bytes())
    if link:
        os.link(source, to)
    name, *options = tool.split()
    err = run(name, source, *options, option, to if link else source, code=code).stderr.decode()
    assert "is the file that is read" in err
    assert source.read_bytes() == CAPTURES["tcp"].read_bytes()
    assert len(list(tmp_path.iterdir())) == 1 + link


@pytest.mark.parametrize("tool", ["extract", "anonymize"])
def test_what_fails_leaves_the_earlier_output_as_it_was(tool, tmp_path):
    source, to, link = tmp_path / "source.pcap", tmp_path / "to.pcap", tmp_path / "link.pcap"
    source.write_bytes(CAPTURES["tcp"].read_bytes()[:20])
    to.write_text("earlier")
    link.symlink_to(to)
    run(tool, source, "--to", link, code=3)
    assert to.read_text() == "earlier" and len(list(tmp_path.iterdir())) == 3
    run(tool, CAPTURES["tcp"], "--to", link)
    assert link.is_symlink() and to.stat().st_size > 1000
    assert len(list(tmp_path.iterdir())) == 3
    assert to.stat().st_mode == source.stat().st_mode
    if tool == "anonymize":
        assert len(run(tool, CAPTURES["tcp"], "--to", "/dev/stdout").stdout) > 1000


# --- anonymize -----------------------------------------------------------------------------------

def said(path):
    """What PDUs say, names and addresses apart."""
    hidden = {"subnqn", "hostnqn", "hostid", "sn", "mn", "fr", "nguid", "eui64", "traddr", "hdgst", "vs",
              "nid", "uuid", "fguid"}

    def strip(value):
        if isinstance(value, dict):
            return {k: strip(v) for k, v in value.items() if k.split("_text")[0] not in hidden}
        return [strip(v) for v in value] if isinstance(value, list) else value

    return [(o["kind"], o["sender"], o["qid"], strip(o["fields"]))
            for o in objects("show", path) if o["kind"] not in ("opened", "closed")]


ADDRESSES = {bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])}


def addresses(path):
    """Of its IPv4 headers and ARP: anywhere else a checksum may look like one."""
    places = {b"\x08\x00": (26, 30), b"\x08\x06": (28, 38)}
    return {frame[at:at + 4] for frame in frames(path) for at in places.get(frame[12:14], ())}


def secrets(path):
    """Byte strings that an anonymous capture must not hold: names, identifiers, GIDs."""
    found = {b"\xff\xff" + a for a in ADDRESSES} if "rxe" in path.name else set()
    for o in objects("show", path):
        fields = o.get("fields", {})
        for field in ("subnqn", "hostnqn", "sn", "mn", "fr"):
            for values in (fields.get("connect", {}), fields):
                if field in values and not values[field].endswith("discovery"):
                    found.add(values[field].encode())
        if "connect" in fields:
            found.add(uuid.UUID(fields["connect"]["hostid"]).bytes)
    return found


@pytest.mark.parametrize("name", CAPTURES)
def test_an_anonymous_capture_says_the_same_of_nobody(name, tmp_path):
    source, out = CAPTURES[name], tmp_path / "out.pcap"
    run("anonymize", source, "--to", out)
    key = lambda item: json.dumps(item, sort_keys=True)
    assert sorted(map(key, said(out))) == sorted(map(key, said(source)))
    found = [(o["rule"], o["sender"]) for o in objects("check", out, "--all", code=1) if "rule" in o]
    assert found == [(o["rule"], o["sender"])
                     for o in objects("check", source, "--all", code=1) if "rule" in o]
    data, was = out.read_bytes(), source.read_bytes()
    hidden = secrets(source)
    assert len(hidden) >= 3 and all(s in was for s in hidden)
    assert not any(s in data for s in hidden)
    assert addresses(source) >= ADDRESSES and not addresses(out) & ADDRESSES
    image, secret = tmp_path / "image", tmp_path / "secret"
    run("extract", source, "--to", image)
    run("extract", out, "--to", secret)
    blocks = [image.read_bytes()[i:i + 512] for i in range(0, 65536, 512)]
    parts = {block[i:i + 64] for block in blocks for i in range(0, 512, 64)}
    assert len(parts) > 1000 and not any(part in data for part in parts if any(part))
    hidden = [secret.read_bytes()[i:i + 512] for i in range(0, 65536, 512)]
    assert len(set(hidden)) == len(set(blocks))  # the same ones stay the same
    assert b"CRC" not in run("show", out).stderr  # of iWARP
    if name == "rxe":
        assert all(f[-4:] == invariant_crc(f) for f in frames(out))


@pytest.mark.needs("tshark")
@pytest.mark.parametrize("name", CAPTURES)
def test_tshark_finds_no_fault_in_an_anonymous_capture(name, tmp_path):
    source, out = CAPTURES[name], tmp_path / "out.pcap"
    run("anonymize", source, "--to", out)
    bad = subprocess.run(["tshark", "-r", out, "-o", "tcp.check_checksum:TRUE", "-o",
                          "udp.check_checksum:TRUE", "-Y",
                          "_ws.malformed || tcp.checksum.status == 0 || tcp.analysis.flags || "
                          "udp.checksum.status == 0"],
                         capture_output=True, text=True, check=True).stdout
    assert bad == ""
    if name == "rxe":  # in its larger packets tshark finds more of them than in the source
        assert tshark_opcodes(out) - tshark_opcodes(source) == {(0x7f, 1): 2}
        assert not tshark_opcodes(source) - tshark_opcodes(out)


def test_keys_of_anonymity(tmp_path):
    one, two, three = (tmp_path / n for n in "abc")
    run("anonymize", CAPTURES["tcp"], "--to", one, "--seed", 5)
    run("anonymize", CAPTURES["tcp"], "--to", two, "--seed", 5)
    run("anonymize", CAPTURES["tcp"], "--to", three)
    assert one.read_bytes() == two.read_bytes() != three.read_bytes()
    kept = tmp_path / "kept"
    run("anonymize", CAPTURES["tcp"], "--to", kept, "--keep-data")
    for name, path in (("a", CAPTURES["tcp"]), ("b", kept)):
        run("extract", path, "--to", tmp_path / f"image-{name}")
    assert (tmp_path / "image-a").read_bytes() == (tmp_path / "image-b").read_bytes()
    run("anonymize", CAPTURES["tcp"], code=2)
