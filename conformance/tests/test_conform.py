# SPDX-License-Identifier: BSD-3-Clause
"""`nvmfspec conform` from outside: exit codes, reports, selection, and that it finds out."""
import base64
import hashlib
import html.parser
import json
import os
import pathlib
import random
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
import zlib
import xml.etree.ElementTree as xml

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
NQN = "nqn.2026-01.io.nvmfspec:target"
HOST = "nqn.2026-01.io.nvmfspec:judge"
TTAG = "tcp/h2cdata/ttag-unknown"


def unexpected(out):
    """Of what power prints, that which nobody hoped for."""
    return "\n".join(line for line in out.splitlines() if not line.lstrip().startswith("caught "))


def conform(*args, code=0, timeout=200):
    done = subprocess.run([NVMFSPEC, "conform", *map(str, args)], capture_output=True, text=True,
                          timeout=timeout)
    assert done.returncode == code, unexpected(done.stdout) + done.stderr
    return done


def results(*args, code=0, **kwargs):
    """By id, and the whole report."""
    report = json.loads(conform(*args, "--json", "-", code=code, **kwargs).stdout)
    assert report["schema"] == 1
    return {r["id"]: r for r in report["results"]}, report


@pytest.fixture(scope="module")
def cases():
    report = json.loads(conform("--list", "--json", "-").stdout)
    return {c["id"]: c for c in report["cases"]}


# --- outputs --------------------------------------------------------------------------------------

@pytest.mark.parametrize("args", [["--json", "-"], ["--junit", "-"], ["--tap", "-"], ["--html", "-"],
                                  ["--pcap", "-"], [], ["--list"], ["--list", "--json", "-"],
                                  ["--json", "/dev/full"]])
def test_output_that_is_lost_is_told(args):
    with open("/dev/full", "w") as full:
        done = subprocess.run([NVMFSPEC, "conform", "fab/property", *args], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3
    assert re.search("No space left|could (not )?be written|Input/output error", done.stderr)


def test_a_capture_has_stdout_for_itself(tmp_path):
    done = subprocess.run([NVMFSPEC, "conform", "fab/property", "--pcap", "-"], capture_output=True, timeout=60)
    (tmp_path / "x.pcap").write_bytes(done.stdout)
    assert b"PASS" in done.stderr
    subprocess.run([NVMFSPEC, "pcap", "show", tmp_path / "x.pcap"], check=True, capture_output=True)


@pytest.mark.parametrize("args, says", [
    (["--json", "-", "--tap", "-"], "--json and --tap both go to '-'"),
    (["--html", "x", "--junit", "x"], "--junit and --html both go to 'x'"),
    (["--pcap", "-", "--json", "-"], "--json and --pcap both go to '-'"),
])
def test_an_output_for_each(args, says):
    assert says in conform("fab/property", *args, code=2).stderr


# --- stopped on the way ---------------------------------------------------------------------------

@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_who_is_stopped_still_reports(number, tmp_path, cases):
    run = subprocess.Popen([NVMFSPEC, "conform", "fab/property", "-j", "1", "--repeat", "300",
                            "--junit", tmp_path / "r.xml", "--json", tmp_path / "r.json"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while " pass " not in run.stdout.readline():
        pass
    run.send_signal(number)
    _, says = run.communicate(timeout=20)
    assert run.returncode == 3 and "interrupted" in says
    seen = json.loads((tmp_path / "r.json").read_text())["results"]
    assert {r["id"] for r in seen} == {name for name in cases if name.startswith("fab/property/")}
    assert {r["verdict"] for r in seen} == {"pass", "error"}
    assert all(r["seen"] == "not run: interrupted" for r in seen if r["verdict"] == "error")
    suite = xml.parse(tmp_path / "r.xml").getroot()[0]
    assert int(suite.get("errors")) == sum(r["verdict"] == "error" for r in seen)


# --- a whole run, in every format -----------------------------------------------------------------

one_run = pytest.mark.xdist_group("whole-run")  # made once, not by each worker


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The default suite against the embedded target, with all reports."""
    out = tmp_path_factory.mktemp("whole")
    done = conform("--strict", "--json", out / "r.json", "--junit", out / "r.xml", "--tap",
                   out / "r.tap", "--html", out / "r.html", "--transcript", out / "transcripts",
                   "--show-rules")
    return out, done.stdout


# What the reference target does not have.
ABSENT = {"fab/property/crime",  # it has CAP.CRMS 11b
          "base/ana/fixed-group",  # groups may change
          "base/reservation/nameless-host",  # it accepts no Host Identifier 0
          "base/reservation/unsupported"}
PLAIN = {"tcp/tls/required",  # where hosts without TLS are served, too
         "fab/auth/retained-first"}  # no concatenation for hosts that have a PSK
GENERATED = {f"fab/auth/{name}" for name in ("generated-psk", "generated-psk-mutual", "replaced-psk", "sc-c-null", "sc-c-tls", "psk-lifetime")}


@one_run
def test_reference_target_passes_strictly(whole, cases):
    report = json.loads((whole[0] / "r.json").read_text())
    assert {r["id"] for r in report["results"]} == set(cases)
    assert {r["id"] for r in report["results"] if r["verdict"] == "skip"} == ABSENT | PLAIN
    assert {r["verdict"] for r in report["results"]} <= {"pass", "info", "skip"}


@one_run
def test_json(whole):
    report = json.loads((whole[0] / "r.json").read_text())
    assert report["schema"] == 1 and report["strict"] is True
    assert sum(report["summary"][v] for v in ("pass", "advice", "lenient", "info", "skip", "fail", "error")) \
        == len(report["results"])
    covered, rest = report["rules"]["covered"], report["rules"]["not_covered"]
    assert not set(covered) & set(rest) and len(covered) > 150
    assert all(r["ms"] >= 0 and r["requirement"] for r in report["results"])


@one_run
def test_junit(whole):
    suite = xml.parse(whole[0] / "r.xml").getroot().find("testsuite")
    tests = suite.findall("testcase")
    assert int(suite.get("tests")) == len(tests)
    assert suite.get("failures") == suite.get("errors") == "0"
    assert all(t.get("name").startswith(t.get("classname") + "/") for t in tests)


@one_run
def test_tap(whole, cases):
    lines = (whole[0] / "r.tap").read_text().splitlines()
    assert lines[0] == "TAP version 13" and lines[1] == f"1..{len(cases)}"
    oks = [line for line in lines if re.match(r"(not )?ok \d+ - ", line)]
    assert [int(line.split()[1]) for line in oks] == list(range(1, len(cases) + 1))


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links = [], set(), []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.add(attrs.get("id"))
        self.links += [v for k, v in attrs.items() if k in ("src", "href")]
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@one_run
def test_html_is_one_page(whole, cases):
    page = Page()
    page.feed((whole[0] / "r.html").read_text())
    assert page.open == [] and page.links == []
    assert set(cases) <= page.ids


@one_run
def test_nothing_written_for_passes(whole):
    assert not any((whole[0] / "transcripts").iterdir())


@one_run
def test_rules_are_shown(whole):
    assert re.search(r"^rules covered: \d+ of \d+$", whole[1], re.M)
    assert re.search(r"^  covered  tcp/h2cdata/ttag ", whole[1], re.M)


# --- what it says without running --------------------------------------------------------------

def test_list_shows_every_case(cases):
    out = conform("--list").stdout
    assert all(f" {case} " in out for case in cases)
    assert out.rstrip().endswith(f"{len(cases)} cases")


def test_explain_a_case():
    out = conform("--explain", TTAG).stdout
    assert "tcp/h2cdata/ttag (T1.0 3.3.2.2, binds the host)" in out
    assert "if broken: TermReq: Invalid PDU Header Field (01h) FEI 10" in out
    assert "send_h2c(q, r, .ttag = r.ttag + 1);" in out, "the case itself"


def test_explain_every_case(cases):
    rdma = json.loads(conform("--list", "-t", "rdma", "--json", "-").stdout)["cases"]
    every = set(cases) | {c["id"] for c in rdma}
    out = conform("--explain", "*").stdout
    assert out.count("\n    CASE(") == len(every)
    assert out.count("\n    }") >= len(every)


def test_explain_a_rule():
    assert "binds the host, must" in conform("--explain", "tcp/h2cdata/ttag").stdout


def test_rulebook():
    out = conform("--rules").stdout
    assert "tcp/h2cdata/ttag\n" in out
    assert re.search(r"^\d+ rules, \d+ of them with cases$", out, re.M)


def test_dry_run_selects_and_runs_nothing():
    out = conform("--dry-run", "-a", "192.0.2.1", "tcp/setup").stdout
    assert "tcp/setup/icreq" in out and "tcp/alignment" not in out


def test_help_names_every_option():
    out = conform("--help").stdout
    for option in ("--strict", "--junit", "--baseline", "--power", "--allow-write", "--explain"):
        assert option in out


# --- exit codes -------------------------------------------------------------------------------------

@pytest.mark.parametrize("args, says", [
    (["--no-such-option"], "--no-such-option"),
    (["no/such/case"], "no/such/case"),
    (["tcp/setup", "--exclude", "tcp/setup/icrek"], "tcp/setup/icrek"),
    (["tcp/setup/icreq", "--exclude", "tcp"], "is selected"),
    (["--rule", "tcp/h2cdata/tag"], "tcp/h2cdata/tag"),
    (["--violate", "no/rule"], "no/rule"),
    (["--hpda", "32"], "--hpda"),
    (["--jobs", "0"], "-j"),
    (["--timeout-scale", "nan"], "--timeout-scale"),
    (["--allow-write", "1:0"], "--allow-write"),
    (["-n", "n" * 224, "-a", "127.0.0.1"], "-n"),
    (["-n", "", "-a", "127.0.0.1"], "-n"),
    (["-a", "127.0.0.1", "-s", "0"], "-s"),
    (["-a", "127.0.0.1", "--waive", "tcp/h2cdata/ttag"], "embedded"),
    (["--explain", "nothing"], "nothing"),
    (["--baseline", "/no/such/file", "tcp/setup/icreq"], "/no/such/file"),
    (["--ns", "tape:64M", "tcp/setup/icreq"], "tape"),
])
def test_wrong_usage_is_one_line(args, says):
    code = 3 if "--ns" in args else 2
    done = conform(*args, code=code)
    assert done.stderr.count("\n") == 1 and says in done.stderr
    assert done.stdout == ""


def test_nobody_there():
    done = conform("-a", "127.0.0.1", "-s", "1", "-n", NQN, code=3)
    assert "refused" in done.stderr


def test_waits_for_a_target_that_starts(free_port):
    port = str(free_port())
    waiting = subprocess.Popen([NVMFSPEC, "conform", "-a", "127.0.0.1", "-s", port, "--wait", "20",
                                "tcp/setup/icreq"])
    time.sleep(0.5)
    assert waiting.poll() is None
    with subprocess.Popen([NVMFSPEC, "target", "-s", port, "--quiet"],
                          stdout=subprocess.DEVNULL) as target:
        assert waiting.wait(timeout=30) == 0
        target.terminate()
    conform("-a", "127.0.0.1", "-s", port, "-n", NQN, "--wait", "1", code=3)


def test_a_failure_is_one():
    conform("--waive", "tcp/h2cdata/ttag", TTAG, code=1)


def test_unwritable_report_is_three(tmp_path):
    """It is known before the run, which may take long."""
    (tmp_path / "file").write_text("")
    for option, where, says in (("--json", "no/r", "No such file or directory"), ("--junit", "", "Is a directory"),
                                ("--html", "file/r", "Not a directory"),
                                ("--transcript", "a/b", "No such file or directory"),
                                ("--transcript", "file", "Not a directory")):
        done = conform("tcp/setup/icreq", option, tmp_path / where, code=3)
        assert done.stderr == f"nvmfspec conform: {tmp_path / where}: {says}\n"
        assert done.stdout == ""


# --- a real target at an address ------------------------------------------------------------------

class Target:
    def __init__(self, *args):
        self.process = subprocess.Popen(
            [NVMFSPEC, "target", "--profile", "strict",
             *([] if "--config" in args else ["-a", "127.0.0.1", "-s", "0"]),
             *map(str, args)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.port = re.match(r"listening on 127\.0\.0\.1:(\d+)", self.process.stdout.readline())[1]
        self.where = ["-t", "tcp", "-a", "127.0.0.1", "-s", self.port]

    def __enter__(self):
        return self

    def __exit__(self, *what):
        self.process.terminate()
        self.process.wait(timeout=20)


def dhchap(hash, key):
    """A key as people hand it on."""
    text = base64.b64encode(key + zlib.crc32(key).to_bytes(4, "little")).decode()
    return f"DHHC-1:{hash:02}:{text}:"


def digest(path, begin=0, end=None):
    return hashlib.sha256(path.read_bytes()[begin:end]).hexdigest()


def test_writes_nothing_without_leave(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(b"\xa5" * (16 << 20))
    before = digest(disk)
    with Target("--ns", f"file:{disk}") as target:
        found, _ = results(*target.where, "tcp/alignment", "tcp/h2cdata/pieces", "nvm")
        assert found["tcp/h2cdata/pieces"]["verdict"] == "skip"
        assert "--allow-write" in found["tcp/h2cdata/pieces"]["note"]
    assert digest(disk) == before


def test_writes_only_where_it_may(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(b"\xa5" * (16 << 20))
    begin, end = 4096 * 512, (4096 + 2048) * 512
    outside = digest(disk, 0, begin), digest(disk, end)
    with Target("--ns", f"file:{disk}") as target:
        found, _ = results(*target.where, "--allow-write", "1:4096+2048")
        assert {r["verdict"] for r in found.values()} <= {"pass", "info", "skip", "lenient"}
        assert found["tcp/h2cdata/pieces"]["verdict"] == "pass"
    assert digest(disk, begin, end) != hashlib.sha256(b"\xa5" * (end - begin)).hexdigest()
    assert (digest(disk, 0, begin), digest(disk, end)) == outside


def test_too_small_a_range_is_skipped(tmp_path):
    with Target() as target:
        done = conform(*target.where, "--allow-write", "1:0+16", TTAG, code=77)
        assert "too small" in done.stdout


@pytest.mark.parametrize("where", ["1:131000+1000", "1:131073+1", "1:0+131073", "2:0+16"])
def test_a_range_that_is_not_there_is_refused(where):
    with Target() as target:
        done = conform(*target.where, "--allow-write", where, TTAG, code=3)
        assert re.search(rf"NSID {where[0]}.* --allow-write", done.stderr)


def test_a_subsystem_that_is_not_there_is_named():
    with Target() as target:
        done = conform(*target.where, "-n", "nqn.2026-01.org.example:none", TTAG, code=3)
        assert "the controller of nqn.2026-01.org.example:none" in done.stderr


@pytest.mark.parametrize("size", ["64M", "4M"])
def test_cases_that_read_meet_no_unreadable_block(size):
    """Seed 0: cases that write begin with the first range, where those that only read would read."""
    with Target("--ns", f"mem:{size}") as target:
        conform(*target.where, "--allow-write", "1", "--strict", "--seed", "0", "-j", "4", "--repeat", "200",
                "nvm/write-uncorrectable/written", "tcp/c2hdata/whole")


def test_finds_the_subsystem_by_discovery():
    with Target("-n", "nqn.2026-01.org.example:found") as target:
        done = conform(*target.where, "tcp/setup/icreq")
        assert "nqn.2026-01.org.example:found" in done.stdout


def test_denied_subsystem():
    with Target("-n", NQN, "-n", "nqn.2026-01.org.example:no", "--host",
                "nqn.2026-01.org.example:other") as target:
        found, _ = results(*target.where, "-n", NQN, "fab/connect/host-denied", "--denied-nqn",
                           "nqn.2026-01.org.example:no")
        assert found["fab/connect/host-denied"]["verdict"] == "pass"


def test_a_static_subsystem_is_judged_like_others(tmp_path):
    """Connect asks it for CNTLID FFFEh, as FFFFh is refused (Base 6.3)."""
    config = json.loads(config_with())
    config["subsystems"][0]["attr"]["static_controllers"] = True
    (tmp_path / "config.json").write_text(json.dumps(config))
    with Target("--config", tmp_path / "config.json") as target:
        found, _ = results(*target.where, "-n", "nqn.2026-01.org.example:changing", "fab/connect",
                           "fab/ready", "fab/discovery")
    static = {f"fab/connect/static-{name}" for name in ("ffffh", "same", "taken")}
    dynamic = {"fab/connect/cntlid-dynamic", "fab/connect/cntlid-static"}
    assert {i for i in static | {"fab/discovery/entry-cntlid", "fab/ready/ready"}
            if found[i]["verdict"] != "pass"} == set()
    assert {found[i]["verdict"] for i in dynamic} == {"skip"}
    assert {r["verdict"] for r in found.values()} <= {"pass", "skip"}


@pytest.mark.parametrize("masked", [(), (HOST + "-other",), (HOST,)])
def test_masked_namespaces_are_judged_like_others(masked, tmp_path):
    """A namespace of the subsystem is attached to nobody, to another host, or to this one alone."""
    config = json.loads(config_with(True))
    config["subsystems"][0]["namespaces"][1].update(no_auto_visible=True, hosts=list(masked))
    config["subsystems"][0]["namespaces"][0]["device"]["path"] = "mem:16M"
    (tmp_path / "config.json").write_text(json.dumps(config))
    with Target("--config", tmp_path / "config.json") as target:
        found, _ = results(*target.where, "-n", "nqn.2026-01.org.example:changing", "--strict",
                           *(["-q", HOST] if masked else []), "--allow-write", "1")
    assert {r["verdict"] for r in found.values()} <= {"pass", "info", "skip"}
    assert sum(r["verdict"] == "pass" for r in found.values()) > 500


MASKED = ["base/namespace/masked-list", "base/namespace/masked-data", "base/namespace/masked-descriptors",
          "base/namespace/masked-io"]


@pytest.mark.parametrize("flaw, fails", [
    (None, set()), ("masked-listed", {"masked-list"}), ("masked-io", {"masked-io"})])
def test_a_masked_namespace_is_not_shown(flaw, fails, tmp_path):
    """--masked-nsid names one of the tested subsystem; who can change it decides whether its event is judged."""
    config = json.loads(config_with(True))
    config["subsystems"][0]["namespaces"][1].update(no_auto_visible=True, hosts=[HOST + "-other"])
    (tmp_path / "config.json").write_text(json.dumps(config))
    wrong = ["--violate", f"semantic/{flaw}"] if flaw else []
    with Target("--config", tmp_path / "config.json", *wrong) as target:
        where = [*target.where, "-n", "nqn.2026-01.org.example:changing", "base/namespace/masked"]
        found, _ = results(*where, "--masked-nsid", 7, code=int(bool(fails)))
        unknown, _ = results(*where, code=77)
        absent, _ = results(*where, "--masked-nsid", 9, code=77)
    failed = {f"base/namespace/{name}" for name in fails}
    assert {i: found[i]["verdict"] for i in MASKED} == {i: "fail" if i in failed else "pass" for i in MASKED}
    assert found["base/namespace/masked-event"]["verdict"] == "skip"
    assert {r["verdict"] for r in [*unknown.values(), *absent.values()]} == {"skip"}


def test_a_masked_subsystem_needs_an_nsid():
    assert "--masked-nsid" in conform("-a", "127.0.0.1", "--masked-nqn", HOST, code=2).stderr


def test_authentication():
    nqn = "nqn.2026-01.org.example:keys"
    keys = [dhchap(1, bytes(range(32))), dhchap(0, bytes(range(48)))]
    with Target("-n", nqn, "--ns", "mem:16M", "--dhchap-key", keys[0],
                "--dhchap-ctrl-key", keys[1], "--concat", "permitted") as target:
        where = [*target.where, "-n", nqn]
        found, _ = results(*where, "--strict", "-S", keys[0], "-C", keys[1], "--allow-write", "1")
        assert not [r["id"] for r in found.values() if r["verdict"] in ("fail", "error")]
        assert not [r["id"] for r in found.values()
                    if r["id"].startswith("fab/auth/") and r["verdict"] != "pass"
                    and r["id"] not in {"fab/auth/not-asked",  # here it is
                                        "fab/auth/psk-lifetime", "fab/auth/retained-first"}]  # they need options
        done = conform(*where, "tcp/setup", code=3)
        assert "--dhchap-secret" in done.stderr
        done = conform(*where, "tcp/setup", "-S", keys[1], code=3)
        assert "authentication failed" in done.stderr
        done = conform(*where, "tcp/setup", "-S", keys[0], "-C", keys[0], code=3)
        assert "the response of the controller is wrong" in done.stderr
        done = conform(*where, "tcp/setup", "-S", "DHHC-1:00:abc:", code=2)
        assert "DHHC-1:00:abc:" not in done.stderr


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_every_case_authenticates_itself(transport):
    """The embedded target demands the keys that are given."""
    found, _ = results("-t", transport, "--strict", "--timeout-scale", 3, "-S", dhchap(1, bytes(range(32))), "-C",
                       dhchap(0, bytes(range(48))), timeout=280)
    assert {r["id"] for r in found.values() if r["verdict"] == "skip"} == \
        {"fab/auth/not-asked", *ABSENT, *(PLAIN | GENERATED if transport == "tcp" else ())}
    assert found["fab/auth/mutual"]["verdict"] == "pass"


@pytest.mark.parametrize("key", ["NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:",
                                 "NVMeTLSkey-1:02:11LCxR+6DimqGQVwqdQlPkQHegWNMpf6OlYw1b0BJiL5fCisrtMTtcg7uZDKp9qFhClnuQ==:"],
                         ids=["32", "48"])
def test_all_of_it_over_tls(key):
    """Every case, on a target that serves nobody without TLS."""
    found, _ = results("--strict", "--timeout-scale", 3, "--tls-key", key, timeout=280)
    assert {r["id"] for r in found.values() if r["verdict"] != "pass"} == \
        ABSENT | GENERATED - {"fab/auth/sc-c-tls"} | {
            "fab/auth/sc-c-replace", "fab/auth/demand", "fab/auth/retained-first"}
    assert found["tcp/tls/required"]["verdict"] == "pass"


def test_detection_power_over_tls():
    """What needs a host without TLS, or one that authenticates itself, is named, and not counted."""
    out = conform("--tls", "--power", "tcp/tls", "fab/auth").stdout
    of = re.search(r"^power: (\d+) of (\d+)$", out, re.M)
    assert of.group(1) == of.group(2) and int(of.group(2)) >= 60, out
    assert re.search(r"^  not tried  fab/auth/demand +the run is over TLS$", out, re.M)


@pytest.mark.parametrize("args, says", [
    (["--tls", "-a", "127.0.0.1"], "--tls-key"), (["--tls", "-t", "rdma"], "-t tcp"),
    (["--tls", "--role", "host"], "--role host")])
def test_tls_is_for_the_embedded_target_over_tcp(args, says):
    assert says in conform(*args, code=2).stderr


def test_tls_by_itself():
    """A PSK is made for the embedded target."""
    found, _ = results("--strict", "--tls", "tcp/tls", "tcp/icreq")
    assert {r["verdict"] for r in found.values()} == {"pass"} and "tcp/tls/required" in found


def test_a_psk_is_judged_with_its_own_suite():
    """A key of 32 bytes may be bound to SHA-256, and nobody is blamed for not having it with the other suite."""
    key = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"
    with Target("--tls-key", key, "--tls-suite", "aes128") as target:
        found, _ = results(*target.where, "--tls-key", key, "tcp/tls")
        assert {i for i, r in found.items() if r["verdict"] != "pass"} == {
            "tcp/tls/aes-256", "tcp/tls/required", "tcp/tls/each-suite",
            "tcp/tls/psk-as-is", "tcp/tls/psk-checksum", "tcp/tls/psk-per-host"}
        found, _ = results(*target.where, "tcp/tls", code=77)
        assert {r["verdict"] for r in found.values()} == {"skip"}
    with Target("--tls-key", key, "--tls-groups", "X25519", "--tls-dhe-only") as target:
        found, _ = results(*target.where, "--tls-key", key, "tcp/tls", code=1)
        assert {i for i, r in found.items() if r["verdict"] == "fail"} == \
            {"tcp/tls/psk-alone", "tcp/tls/ffdhe3072"}
        assert found["tcp/tls/binder"]["verdict"] == "pass"


def test_target_without_abilities():
    with Target("--no-hdgst", "--no-ddgst", "--no-sqfc-disable") as target:
        found, _ = results(*target.where, "--allow-write", "1")
        assert found["tcp/digest/header"]["verdict"] == "skip"
        assert "digest" in found["tcp/digest/header"]["note"]
        assert not [r["id"] for r in found.values() if r["verdict"] in ("fail", "error")]


def cases_have_begun(run):
    """Waits for the heading of the group tcp/termreq."""
    while not run.stdout.readline().startswith("tcp/termreq"):
        assert run.poll() is None


def test_dying_target_is_named():
    with Target() as target:
        run = subprocess.Popen(
            [NVMFSPEC, "conform", *target.where, "-j", "1", "--repeat", "1000", "tcp/termreq"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cases_have_begun(run)
        time.sleep(0.2)
        target.process.send_signal(signal.SIGKILL)
        out, _ = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "it no longer answers" in out and "not run" in out


def test_slow_target_is_waited_for():
    """What one stall costs is the cases that ran then, not all that come after."""
    with Target() as target:
        run = subprocess.Popen(
            [NVMFSPEC, "conform", *target.where, "-j", "1", "--repeat", "60", "--timeout-scale",
             "0.3", "tcp/termreq"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cases_have_begun(run)
        time.sleep(0.2)
        target.process.send_signal(signal.SIGSTOP)
        time.sleep(3.5)
        assert run.poll() is None
        target.process.send_signal(signal.SIGCONT)
        out, _ = run.communicate(timeout=60)
    assert "no longer answers" not in out and "not run" not in out


def test_what_goes_wrong_while_the_machine_stands_still_is_tried_again():
    run = subprocess.Popen([NVMFSPEC, "conform", "fab/keep-alive/alive"], stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True)
    time.sleep(1)
    run.send_signal(signal.SIGSTOP)  # for longer than KATO
    time.sleep(2.5)
    run.send_signal(signal.SIGCONT)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0, out


# --- peers that are no target -----------------------------------------------------------------------

class Odd(socketserver.ThreadingTCPServer):
    """Does what `behave(connection)` does to every connection."""

    daemon_threads = allow_reuse_address = True

    def __init__(self, behave):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                try:
                    behave(self.request)
                except OSError:
                    pass
        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *what):
        self.shutdown()
        super().__exit__(*what)


def closes(connection):
    connection.close()


def is_silent(connection):
    while connection.recv(4096):
        pass


def echoes(connection):
    while data := connection.recv(4096):
        connection.sendall(data)


def babbles(connection):
    noise = random.Random(1)
    while True:
        connection.sendall(noise.randbytes(4096))


def promises_much(connection):
    """C2HData of 4 GiB."""
    connection.recv(4096)
    connection.sendall(bytes([7, 0, 24, 24]) + b"\xff" * 4 + bytes(16) + bytes(1 << 20))
    is_silent(connection)


@pytest.mark.parametrize("behave", [closes, is_silent, echoes, babbles, promises_much])
def test_peers_that_are_no_target(behave):
    with Odd(behave) as peer:
        done = conform("-a", "127.0.0.1", "-s", peer.server_address[1], "-n", NQN,
                       "--timeout-scale", "0.2", code=3)
        assert done.stderr.startswith("nvmfspec conform: the ICs: ") and done.stderr.count("\n") == 1


def flip_bits(source, sink, noise):
    try:
        while data := bytearray(source.recv(65536)):
            for _ in range(len(data) // 500):
                data[noise.randrange(len(data))] ^= 1 << noise.randrange(8)
            sink.sendall(data)
    except OSError:
        pass
    sink.close()


@pytest.mark.parametrize("seed, cases, least", [(0, ["tcp"], 100), (0, [], 250), (1, [], 250), (2, [], 250)])
def test_a_target_behind_a_bad_wire(seed, cases, least):
    """Whatever comes back, the run ends, and its report is whole."""
    with Target() as target:
        def relay(connection):
            with socket.create_connection(("127.0.0.1", int(target.port))) as there:
                threading.Thread(target=flip_bits, args=(there, connection, random.Random(seed)),
                                 daemon=True).start()
                while data := connection.recv(65536):
                    there.sendall(data)

        with Odd(relay) as peer:
            run = subprocess.run([NVMFSPEC, "conform", "-a", "127.0.0.1", "-s",
                                  str(peer.server_address[1]), "-n", NQN, "--allow-write", "1",
                                  "--timeout-scale", "0.3", "--json", "-", *cases],
                                 capture_output=True, text=True, timeout=240)
    assert run.returncode in (1, 3), run.stderr
    if run.stdout:  # the probe got through
        assert len(json.loads(run.stdout)["results"]) > least


# --- it finds out -----------------------------------------------------------------------------------

@pytest.mark.calm(0.5)
@pytest.mark.parametrize("how, rule", [
    ("--waive", "tcp/h2cdata/ttag"),
    ("--waive", "tcp/digest/hdgst-h2c"),
    ("--waive", "tcp/termreq/length-h2c"),
    ("--waive", "fab/connect/recfmt"),
    ("--waive", "fab/connect/io-hostnqn"),
    ("--violate", "tcp/capsule/cqe-reserved"),
    ("--violate", "tcp/icresp/cpda"),
    ("--violate", "tcp/c2hdata/last"),
    ("--violate", "tcp/termreq/copy-c2h"),
    ("--violate", "fab/keep-alive/expiry"),
    ("--violate", "base/identify/kas"),
    ("--violate", "fab/discovery/log-header"),
])
def test_a_spoilt_target_fails_there_and_only_there(how, rule, cases):
    found, _ = results(how, rule, "--strict", "--timeout-scale", 3, code=1)
    failed = [r for r in found.values() if r["verdict"] in ("fail", "error")]
    assert failed
    for r in failed:
        assert rule in cases[r["id"]]["rules"], f"{r['id']}: {r['seen']}"


def test_own_reading_is_advice_even_in_a_strict_run(cases, tmp_path):
    rule, files = "tcp/r2t/ttag-unique", {k: tmp_path / k for k in ("junit", "tap", "html")}
    paths = [arg for k, path in files.items() for arg in (f"--{k}", path)]
    found, report = results("--violate", rule, "--strict", "tcp/r2t", *paths)
    advice = {r["id"] for r in found.values() if r["verdict"] == "advice"}
    assert advice and all(rule in cases[i]["rules"] for i in advice)
    assert report["summary"]["advice"] == len(advice)
    assert "<system-out>advice: " in files["junit"].read_text()
    assert "# verdict: advice\n" in files["tap"].read_text()
    assert f'<span class="advice"><b>{len(advice)}</b>advice</span>' in files["html"].read_text()


@pytest.mark.parametrize("fault, case, verdict", [
    ("status=0/02h cmd=read nsid=1000-4294967295", "fab/nsid/invalid", "lenient"),  # for which there is one status, 0/0Bh
    ("status=0/02h cmd=read nth=2", "fab/sgl/short-read", "lenient"),  # 0/0Fh
    ("close on=command cmd=read", "rdma/key/address-max", "lenient"),  # 0/0Fh, and the connection stays
])
def test_another_status_than_the_one_that_is_printed(fault, case, verdict):
    found, _ = results("-t", "rdma" if case.startswith("rdma") else "tcp", "--fault", fault, case)
    assert found[case]["verdict"] == verdict, found


@pytest.mark.parametrize("refuses, verdict", [(True, "pass"), (False, "lenient")])
def test_the_queues_of_an_association_that_has_ended_may_refuse(refuses, verdict):
    """... in place of ending: Base 2.2 3.1.2 does not say which. By Keep Alive they end at last."""
    case, fault = "rdma/teardown/admin-ends", ["--fault", "status=0/0Ch cmd=flush"] * refuses
    found, _ = results("-t", "rdma", "--violate", "rdma/teardown/association-ends", *fault, case,
                       "--exclude", f"{case}-*")
    assert found[case]["verdict"] == verdict


def test_an_admin_queue_that_outlives_an_error_keeps_its_association():
    """R1.0 3.5.1: such an error may end a queue pair."""
    case = "rdma/teardown/admin-error"
    found, _ = results("-t", "rdma", "--violate", "rdma/teardown/error-ends-queue", case)
    assert found[case]["verdict"] in ("lenient", "advice")


def test_a_host_without_receives_is_owed_no_response():
    """The I/O Connects before it are the probe's."""
    case = "rdma/request/hrqsize-0-io"
    found, _ = results("-t", "rdma", "-j", "1", "--waive", "rdma/request/hrqsize", "--fault",
                       "drop cmd=connect qid=1 nth=3", "--strict", case)
    assert found[case]["verdict"] == "advice" and "Connect is not answered" in found[case]["seen"]


def test_what_follows_a_c2htermreq_is_advice():
    """T1.0 3.5 forbids to process anything after it, not to send."""
    rule = "tcp/termreq/quiet-after-fault"
    found, _ = results("--violate", rule, "--strict", rule)
    assert found[rule]["verdict"] == "advice"


def test_an_icreq_that_is_answered_was_not_refused():
    """The target ends the connection later, because nothing came behind it."""
    found, _ = results("--waive", "tcp/icreq/hpda", "tcp/icreq", "tcp/setup/refusal-storm", code=1)
    for name in ("tcp/icreq/hpda-32", "tcp/icreq/hpda-255", "tcp/setup/refusal-storm"):
        assert found[name]["verdict"] == "fail" and "ICResp" in found[name]["seen"]
    assert found["tcp/icreq/pfv-1"]["verdict"] == "pass"


def test_a_queue_that_never_fills_is_no_finding():
    found, _ = results("--waive", "fab/queue/overrun", "fab/queue/overrun")
    assert found["fab/queue/overrun"]["verdict"] == "info"


def test_what_no_case_names_is_noticed():
    """The rule is broken, and no case that runs looks for it."""
    found, report = results("--violate", "tcp/c2hdata/datal-plen", "tcp/capsule/response-cid",
                            code=1)
    noticed = found["noticed/tcp/c2hdata/datal-plen"]
    assert noticed["verdict"] == "fail" and "tcp/capsule/response-cid" in noticed["note"]
    assert found["tcp/capsule/response-cid"]["noticed"][0]["rule"] == "tcp/c2hdata/datal-plen"


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
@pytest.mark.parametrize("role, least", [("target", 70), ("host", 20)])
def test_power_over_faults_of_products(transport, role, least):
    """At the default grade, each by one of the cases that its row names."""
    out = conform("-t", transport, "--role", role, "--power", "semantic", "--timeout-scale", 3,
                  timeout=280).stdout
    caught, tried = re.search(r"^power: (\d+) of (\d+)$", out, re.M).groups()
    assert caught == tried and int(tried) >= least, out


def test_a_fault_has_a_name_and_an_explanation():
    assert "base/abort" in conform("--explain", "semantic/abort-lies").stdout
    found, _ = results("--violate", "semantic/abort-lies", "base/abort/not-outstanding", code=1)
    assert found["base/abort/not-outstanding"]["verdict"] == "fail"


def test_a_mandatory_feature_that_fails_skips_nothing():
    """Internal Error does not say that it is not supported (Base 2.2 figure 32)."""
    asked = ("base/feature/read-twice", "base/feature/power-state", "base/feature/reset-threshold",
             "base/feature/reset-events", "base/feature/thresholds", "base/feature/no-data", "base/feature/namespace-scope")
    found, _ = results("--fault", "status=0/06h cmd=get-features", *asked, code=1)
    assert {name: found[name]["verdict"] for name in asked} == dict.fromkeys(asked, "fail")
    found, _ = results("--fault", "status=0/02h cmd=get-features", *asked, code=77)
    assert {name: found[name]["verdict"] for name in asked} == dict.fromkeys(asked, "skip")


def test_an_nn_that_active_namespaces_exceed_skips_nothing():
    asked = ("base/identify/list-complete", "base/identify/descriptors-inactive", "base/identify/inactive-namespace")
    found, _ = results("--violate", "semantic/nn-zero", *asked, code=1)
    for name in asked:
        assert found[name]["verdict"] == "fail" and found[name]["rule"] == "base/identify/list", found[name]
        assert "and NN 0" in found[name]["seen"]


def test_detection_power():
    out = conform("--power", timeout=280).stdout
    of = re.search(r"^power: (\d+) of (\d+)$", out, re.M)
    assert of[1] == of[2] and int(of[1]) > 150
    assert "SURVIVED" not in out


def test_what_fails_on_the_correct_target_is_told_last():
    """It is why power ends with an error although all are caught."""
    out = conform("--power", "--fault", "status=0/06h cmd=flush", "fab/queue/answered", "fab/connect/cntlid", code=1).stdout
    *_, case, why = out.splitlines()
    assert case.split()[:3] == ["no", "use", "fab/queue/answered"] and why.startswith("power: these prove nothing"), out


def test_grades():
    """A close in place of C2HTermReq: the spoilt target says nothing that the rule asks for."""
    args = ["--violate", "tcp/capsule/cqe-reserved", "tcp/header/reserved-in-headers"]
    assert results(*args)[0]["tcp/header/reserved-in-headers"]["verdict"] == "lenient"
    assert results(*args, "--strict", code=1)[0]["tcp/header/reserved-in-headers"]["verdict"] == "fail"


def test_failure_report():
    out = conform("--waive", "tcp/h2cdata/ttag", TTAG, code=1).stdout
    assert "\nfail  tcp/h2cdata/ttag-unknown\n" in out
    assert re.search(r"^  expected  C2HTermReq Invalid PDU Header Field \(01h\) FEI 10", out, re.M)
    assert re.search(r"^  seen      ", out, re.M)
    assert re.search(r"^  rule      tcp/h2cdata/ttag \(T1.0 [0-9., ]+; must; the reaction: printed\)$", out, re.M)
    assert re.search(r"^ +[\d.]+ ms  #2 -> H2CData cccid \d+ ttag 1 ", out, re.M)


def test_verbose_narrates_each_pdu():
    err = conform("-v", "tcp/setup/icreq").stderr
    assert re.search(r"^tcp/setup/icreq +[\d.]+ ms  #1 -> ICReq pfv 0 ", err, re.M)
    assert re.search(r"^tcp/setup/icreq +[\d.]+ ms  #1 <- ICResp pfv 0 ", err, re.M)


def test_brief_shows_what_did_not_pass():
    assert "icreq" not in conform("--brief", "tcp/setup/icreq").stdout
    assert TTAG in conform("--brief", "--waive", "tcp/h2cdata/ttag", TTAG, code=1).stdout


def test_repeat_takes_the_worst():
    found, _ = results("--repeat", "5", "--jobs", "1", "--seed", "7", "tcp/setup/icreq")
    assert found["tcp/setup/icreq"]["runs"] == 5


@pytest.mark.parametrize("args", [["-g"], ["-G"], ["-g", "-G", "--hpda", "31", "--cpda", "31"],
                                  ["--hpda", "2", "--cpda", "16"], ["--cpda", "17", "-g"], ["--jobs", "1"],
                                  ["--ns", "mem:64M,bs=4096"], ["-t", "rdma", "--jobs", "1"]], ids=" ".join)
def test_passes_in_every_set_up(args):
    conform("--strict", "--brief", "--timeout-scale", "3", *args)


# --- a target that changes --------------------------------------------------------------------------

EVENTS = ("base/event/", "base/log/rae", "base/log/changed-namespaces", "base/event/asked",
          "fab/discovery/event-reported", "fab/discovery/genctr-step")


def config_with(namespace=False, guest=False, masked=False):
    """Without `namespace` it is not there, or (masked) attached to no host."""
    nqn = "nqn.2026-01.org.example:changing"

    def subsystem(name, *nsids):
        return {"nqn": name, "attr": {"allow_any_host": "1"}, "namespaces": [
            {"nsid": n, "enable": 1, "device": {"path": "mem:1M"},
             "no_auto_visible": n == 7 and not namespace} for n in nsids]}

    return json.dumps({
        "hosts": [],
        "ports": [{"portid": 1, "addr": {"trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1",
                                         "trsvcid": "0"},
                   "subsystems": [nqn] + ([nqn + "-guest"] if guest else [])}],
        "subsystems": [subsystem(nqn, 1, *([7] if namespace or masked else [])), subsystem(nqn + "-guest", 1)]})


@pytest.mark.parametrize("masked", [False, True])
def test_events_of_a_target_that_is_changed(masked, tmp_path):
    """By a command that turns configurations round and has the target read them again."""
    for n in range(4):
        (tmp_path / f"{n}.json").write_text(config_with(n & 1, n & 2, masked))
    config, state = tmp_path / "config.json", tmp_path / "state"
    config.write_text(config_with(masked=masked))
    state.write_text("0")
    with Target("--config", config) as target:
        change = tmp_path / "change"
        change.write_text(f"""cd {tmp_path}
        case $1 in namespaces) bit=1 ;; discovery) bit=2 ;; *) exit 1 ;; esac
        n=$(($(cat state) ^ bit)) && echo $n >state && cp $n.json config.json &&
        kill -HUP {target.process.pid}""")
        found, _ = results(*target.where, "--strict", "--change", f"sh {change}", *EVENTS)
    assert {r["verdict"] for r in found.values()} == {"pass"} and len(found) == 17


def test_without_a_command_nothing_is_changed():
    with Target() as target:
        found, _ = results(*target.where, *EVENTS)
    skipped = {r["id"]: r["note"] for r in found.values() if r["verdict"] == "skip"}
    assert len(skipped) == 14 and all("--change" in why for why in skipped.values())


@pytest.mark.parametrize("command, code, says", [
    ("echo it is nailed down; exit 77; :", 77, "it is nailed down"),
    ("exit 77;", 77, "the target does not support this change"),
    ("echo no such file; false", 3, "--change: no such file"),
    ("exit 5;", 3, "--change: 'exit 5; namespaces' ended with 5"),
    ("x" * 5000, 3, "longer than 4095 bytes"),
])
def test_a_command_that_does_not_change_it(command, code, says):
    with Target() as target:
        done = conform(*target.where, "--change", command, "base/event/reported", code=code)
        assert says in done.stdout


# --- baseline ---------------------------------------------------------------------------------------

def test_known_failures(tmp_path):
    known = tmp_path / "known.txt"
    known.write_text("tcp/h2cdata/ttag-*  fail  # an old acquaintance\n")
    args = ["--waive", "tcp/h2cdata/ttag", "tcp/h2cdata", "--baseline", known]
    found, report = results(*args)
    assert found[TTAG]["baseline"] == "listed"
    assert found[TTAG]["baseline_reason"] == "an old acquaintance"
    assert report["summary"]["fail"] == 0 and report["summary"]["known"] >= 1
    out = conform(*args).stdout
    assert re.search(r"^  known +ttag-unknown ", out, re.M) and "known failures" in out


def test_a_known_failure_that_passes(tmp_path):
    known = tmp_path / "known.txt"
    known.write_text(f"{TTAG} fail\n")
    out = conform(TTAG, "--baseline", known, code=1).stdout
    assert "is in the baseline, but it does not fail" in out
    conform(TTAG, "--baseline", known, "--baseline-lax")


def test_a_known_failure_that_is_there_by_chance(tmp_path):
    known = tmp_path / "known.txt"
    known.write_text(f"{TTAG} fail sometimes # a race\n")
    assert "in the baseline" not in conform(TTAG, "--baseline", known).stdout
    found, _ = results("--waive", "tcp/h2cdata/ttag", TTAG, "--baseline", known)
    assert found[TTAG]["baseline"] == "listed" and found[TTAG]["baseline_reason"] == "a race"
    for wrong in "fail always", "fail sometimes or not":
        known.write_text(f"{TTAG} {wrong}\n")
        assert "known.txt:1: unexpected text" in conform(TTAG, "--baseline", known, code=2).stderr


def test_a_baseline_lists_what_exists(tmp_path):
    known = tmp_path / "known.txt"
    known.write_text(f"noticed/tcp/h2cdata/ttag fail\nprobe/identify fail\nrdma/* fail\n{TTAG}s fail\n")
    assert f"known.txt:4: no case or rule is called '{TTAG}s'" in conform(TTAG, "--baseline", known, code=2).stderr
    assert "Is a directory" in conform(TTAG, "--baseline", tmp_path, code=2).stderr


def test_a_bad_baseline_names_the_line(tmp_path):
    known = tmp_path / "known.txt"
    known.write_text(f"# comment\n{TTAG} xfail\n")
    assert "known.txt:2:" in conform(TTAG, "--baseline", known, code=2).stderr


# --- RDMA, over memory ------------------------------------------------------------------------------

RDMA = ("-t", "rdma")


def test_reference_target_passes_strictly_over_rdma():
    seen, report = results(*RDMA, "--strict", "--timeout-scale", 3, timeout=280)
    listed = json.loads(conform(*RDMA, "--list", "--json", "-").stdout)["cases"]
    assert set(seen) == {c["id"] for c in listed} and len(seen) > 350
    assert sum(case.startswith("rdma/") for case in seen) > 200
    assert not any(case.startswith("tcp/") for case in seen)
    assert {i for i, r in seen.items() if r["verdict"] != "pass"} == ABSENT
    assert report["target"].startswith("rdma:") and "MSDBD 16" in report["abilities"]


@pytest.mark.parametrize("cases, rules", [(["rdma", "fab/sgl"], 50), ([], 400)], ids=["rdma", "all"])
def test_detection_power_over_rdma(cases, rules):
    out = conform(*RDMA, "--power", "--timeout-scale", 3, *cases, timeout=280).stdout
    of = re.search(r"^power: (\d+) of (\d+)$", out, re.M)
    assert of.group(1) == of.group(2) and int(of.group(2)) > rules
    assert len(re.findall("^  not tried  ", out, re.M)) < 12


def test_cases_know_their_transport(cases):
    rdma = json.loads(conform(*RDMA, "--list", "--json", "-").stdout)["cases"]
    assert all("rdma" in c["transports"] for c in rdma)
    assert all("tcp" in c["transports"] for c in cases.values())
    assert {c["id"] for c in rdma if "tcp" in c["transports"]} == \
        {i for i, c in cases.items() if "rdma" in c["transports"]}
    assert "is selected" in conform("rdma/request", code=2).stderr
    assert "is selected" in conform(*RDMA, "tcp/alignment", code=2).stderr


@pytest.mark.parametrize("rule, case, says", [
    ("rdma/response/length", "rdma/response/length", "a response capsule has 16 bytes"),
    ("rdma/transfer/whole-transfer", "rdma/transfer/whole-read", "delivered all of its data"),
    ("rdma/transfer/write-range", "rdma/transfer/write-range", "only within what"),
    ("rdma/accept/crqsize", "rdma/accept/crqsize", "CRQSIZE"),
    ("rdma/disconnect/answered", "rdma/disconnect/dreq", "reports the end of the connection"),
])
def test_a_target_that_breaks_a_rule_of_rdma_fails(rule, case, says):
    found, _ = results(*RDMA, "--violate", rule, case, code=1)
    assert found[case]["rule"] == rule
    assert says.lower() in found[case]["expected"].lower()


def test_a_rejection_is_judged_by_its_status():
    found, _ = results(*RDMA, "--waive", "rdma/request/recfmt", "rdma/request/recfmt-1", code=1)
    assert "STS 2 (invalid RECFMT)" in found["rdma/request/recfmt-1"]["expected"]
    assert found["rdma/request/recfmt-1"]["seen"] == "the connect request is accepted"
    assert any("connect request: RECFMT 1" in line for line in
               found["rdma/request/recfmt-1"]["exchange"])


def test_messages_of_authentication_go_by_key_over_rdma():
    """Capsules of Fabrics commands have 64 bytes, also on I/O queues (NVMe/RDMA 3.3)."""
    err = conform(*RDMA, "-v", "fab/auth/io-queue").stderr
    sends = re.findall(r"Authentication Send .* sgl (\w\w)h", err)
    assert len(sends) == 6 and set(sends) == {"40"}


def test_cids_in_use_need_not_be_looked_for():
    found, _ = results(*RDMA, "--waive", "rdma/capsule/cid", "rdma/capsule/cid")
    assert found["rdma/capsule/cid"]["verdict"] == "info"


def test_a_capsule_that_is_too_long_may_be_taken():
    found, _ = results(*RDMA, "--waive", "rdma/capsule/size", "rdma/capsule/65-bytes")
    assert found["rdma/capsule/65-bytes"]["verdict"] == "advice"


def test_transcript_over_rdma(tmp_path):
    conform(*RDMA, "--violate", "rdma/response/cid", "--transcript", tmp_path,
            "rdma/response/cid", code=1)
    text = (tmp_path / "rdma_response_cid.txt").read_text()
    assert "-> connect request: RECFMT 0 QID 0 HRQSIZE 32 HSQSIZE 31" in text
    assert "<- accepted: RECFMT 0 CRQSIZE 32" in text
    assert re.search(r"-> CapsuleCmd cid \d+ Write .* key ", text)
    assert "hlen" not in text, "a capsule over RDMA has no PDU header"
    assert not list(tmp_path.glob("*.pcap"))


# --- transcripts ------------------------------------------------------------------------------------

def tshark(*args):
    done = subprocess.run(["tshark", *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_transcripts(tmp_path):
    """Of a failure: the text has every PDU with its fields, and tshark reads the capture."""
    conform("--violate", "tcp/c2hdata/datao", "tcp/c2hdata/whole", "--transcript", tmp_path,
            code=1)
    text = (tmp_path / "tcp_c2hdata_whole.txt").read_text()
    assert "rule      tcp/c2hdata/datao" in text
    assert re.search(r"#2 <- C2HData cccid 2 datao 4 .*\n +type +: 7 \(C2HData\)", text)
    pcap = tmp_path / "tcp_c2hdata_whole.pcap"
    assert tshark("-r", pcap, "-Y", "_ws.malformed") == ""
    types = tshark("-r", pcap, "-Y", "nvme-tcp", "-T", "fields", "-e", "nvme-tcp.type").split()
    types = [int(t, 0) for line in types for t in line.split(",")]
    lines = re.findall(r"#\d (?:->|<-) (\w+)", text)
    number = {"ICReq": 0, "ICResp": 1, "CapsuleCmd": 4, "CapsuleResp": 5, "C2HData": 7}
    assert sorted(types) == sorted(number[line] for line in lines)


def test_transcripts_of_many(tmp_path):
    """What the suite sends is legal but for what it means to break: tshark finds nothing else."""
    conform("--violate", "fab/queue/sqhd", "--transcript", tmp_path, "tcp/digest/none",
            "tcp/c2hdata/whole", "tcp/c2hdata/last", "tcp/h2cdata/pieces", "tcp/header/headers", "fab/connect/admin",
            "fab/connect/recfmt", "fab/connect/four-queues", code=1)
    captures = list(tmp_path.glob("*.pcap"))
    assert len(captures) > 5
    for pcap in captures:
        assert tshark("-r", pcap, "-Y", "_ws.malformed") == "", pcap.name
