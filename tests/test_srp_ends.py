# SPDX-License-Identifier: BSD-3-Clause
"""SRP: the initiator's subcommands against the target, in one process and over verbs in memory (tests/srp); and what both
commands say to wrong options and configurations. Over devices: target/tests/test_kernel_host.py, -m lab."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
NVMFSPEC = pathlib.Path(os.environ.get("NVMFSPEC", ROOT / "build/nvmfspec"))
PAIR = NVMFSPEC.with_name("srp_in_memory")


def run(program, *args, status=0, **more):
    r = subprocess.run([program, *map(str, args)], capture_output=True, text=True, timeout=120, **more)
    assert r.returncode == status, r.stdout + r.stderr
    return r.stdout + r.stderr


def host(*args, target=(), status=0):
    return run(PAIR, *target, "--", *args, status=status)


def test_login():
    channels = json.loads(host("login", "-i", 3, "-o", "json"))["channel"]
    assert [c["rsp_flags"] & 3 for c in channels] == [0, 2, 2]
    assert all(c["req_lim_delta"] == 64 and c["max_it_iu_len"] == 8260 for c in channels)
    assert all(c["rsp_flags"] & 0x80 for c in channels)
    channel, = json.loads(host("login", "-i", 1, "--no-immediate", "-o", "json", target=["limit=7"]))["channel"]
    assert channel["req_lim_delta"] == 7 and not channel["rsp_flags"] & 0x80
    assert "SRP_LOGIN_RSP" in host("login")


def test_logins_that_are_rejected():
    assert "login rejected: IU length too large (00010002h)" in host("login", "--it-iu", 9000, status=3)
    assert "login rejected: channel limit reached (00010006h)" in host("login", "-i", 9, status=3)
    assert "a request limit of 1 leaves no command" not in host("login", target=["limit=2"])


LUNS = ["lun=mem:8M", "lun=mem:4M,bs=4096", "lun=null:1G"]


def test_units():
    luns = json.loads(host("luns", "-o", "json", target=LUNS))["lun"]
    assert [(u["number"], u["blocks"], u["block_size"]) for u in luns] == [
        (0, 16384, 512), (1, 1024, 4096), (2, 2097152, 512)]
    found = json.loads(host("inquiry", "--lun", 1, "-o", "json", target=LUNS))
    assert (found["vendor"], found["product"], found["type"]) == ("NVMFSPEC", "virtual disk", 0)
    assert found["page_00"].endswith("008083b0b1b2") and len(found["page_b0"]) == 128
    assert json.loads(host("inquiry", "--lun", 9, "-o", "json"))["qualifier"] == 3
    host("reset", "--lun", 1, target=LUNS)
    assert "response code 5" in host("reset", "--lun", 9, status=1)
    assert "ILLEGAL REQUEST 25h/00h" in host("read", "--lun", 9, status=1)


FORMS = [["direct"], ["indirect"], ["indirect", "--pieces", 9], ["external", "--pieces", 5], ["immediate"]]


@pytest.mark.parametrize("form", FORMS, ids=lambda f: " ".join(map(str, f)))
@pytest.mark.parametrize("lun", [0, 1])
def test_verify(form, lun):
    said = json.loads(host("verify", "--lun", lun, "--form", *form, "--range", "2M", "--iodepth", 16, "--passes", 2,
                           "-i", 3, "-o", "json", target=[*LUNS, "reactors=2"]))
    assert said["ok"] and said["passes"] == 2 and said["writes"] > 10 and said["reconnects"] == 0


def test_verify_within_a_small_limit():
    host("verify", "--range", "1M", "--iodepth", 64, target=["limit=3"])


def test_relogin():
    """Who logs in again ends the channels that it had: the older ones say so, or are made again."""
    target = [*LUNS, "relogin=300"]
    said = host("verify", "--time", 5, "--range", "1M", target=target, status=3)
    assert re.search(r"channel \d: target (has logged out \(reason 4\)|closed the connection)", said)
    said = json.loads(host("verify", "--time", 2, "--range", "1M", "--reconnect", 10, "-i", 3, "-o", "json", target=target))
    assert said["ok"] and said["reconnects"] >= 1 and said["passes"] > 1


def test_perf():
    said = json.loads(host("perf", "--rw", "randrw", "--bs", "8k", "--iodepth", 8, "--time", "0.3", "-o", "json", target=LUNS))
    assert said["read"]["ios"] > 0 and said["write"]["ios"] > 0


def test_files(tmp_path):
    """A file-backed unit: what one process writes the next one reads."""
    disk, data, back = tmp_path / "disk.img", tmp_path / "data", tmp_path / "back"
    data.write_bytes(os.urandom(3 << 20))
    blocks = (3 << 20) // 512
    unit = [f"lun=file:{disk},size=8M"]
    host("write", "--file", data, "--blocks", blocks, "--slba", 5, "--form", "indirect", target=unit)
    host("read", "--file", back, "--blocks", blocks, "--slba", 5, "--form", "external", target=unit)
    assert back.read_bytes() == data.read_bytes() == disk.read_bytes()[5 * 512:5 * 512 + (3 << 20)]
    host("write", "--pattern", 7, "--blocks", 2, target=unit)
    assert disk.read_bytes()[:1024] == b"\7" * 1024
    assert json.loads(host("read", "-o", "json", target=unit))["block_size"] == 512
    assert "exclude each other" in host("write", "--pattern", 7, "--file", data, status=2)
    assert "logical block address out of range" in host("read", "--slba", 16384, target=unit, status=1)


@pytest.mark.parametrize("rule, says", [
    ("srp/tag/response", "target broke srp/tag/response"),
    ("srp/login/answer", "target broke srp/login/answer"),
    ("srp/iu/type-target", "target broke srp/iu/type-target"),
    ("srp/iu/length-target", "target broke srp/iu/length-target"),
    ("srp/login/tag", "target broke srp/login/tag"),
    ("srp/reject/reason", ""),
])
def test_targets_that_break_a_rule(rule, says):
    said = host("read", target=[f"violate={rule}"], status=3 if says else 0)
    assert says in said


@pytest.mark.parametrize("rule", ["srp/command/descriptors", "srp/iu/type-initiator", "srp/command/format",
                                  "srp/iu/length-initiator", "srp/command/additional-cdb"])
def test_initiators_that_break_a_rule(rule):
    said = host("read", "--violate", rule, status=3)
    assert re.search("target (has logged out|closed the connection)", said)


# --- options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args, says", [
    (["--lun", "x"], "x"),
    (["--lun", "300=mem:1M"], "LUNs are from 0 to 255"),
    (["--target-id", "12"], "'12' is not 32 hexadecimal digits"),
    (["--violate", "srp/iu/type-initiator"], "srp/iu/type-initiator"),
    (["--violate", "srp/iu/longest-target"], "this target sends nothing that can break 'srp/iu/longest-target'"),
    (["--waive", "srp/tag/response"], "srp/tag/response"),
    (["--waive", "no/rule"], "no/rule"),
    (["--request-limit", "1"], "request-limit"),
    (["--pcap", "x.pcapng"], "option --pcap: the SRP target cannot record yet"),
    (["--metrics", ":1"], "option --metrics: SRP counts nothing"),
    (["--lun", "mem:1M,ms=8"], "metadata, which is not supported"),
])
def test_target_options(args, says):
    assert says in run(NVMFSPEC, "target", "-t", "srp", *args, status=2)


@pytest.mark.parametrize("text, says", [
    ('{"srp": {"luns": [{"lun": 300, "path": "mem:1M"}]}}', "srp.luns[0].lun: 300 is not from 0 to 255"),
    ('{"srp": {"luns": [{"lun": 1}]}}', "srp.luns[0]: path is missing"),
    ('{"srp": {"luns": [{"path": "mem:1M"}, {"path": "mem:1M"}]}}', "srp.luns[1]: LUN 0 is there twice"),
    ('{"srp": {"target_id": "xyz"}}', "srp.target_id: 'xyz' is not 32 hexadecimal digits"),
    ('{"srp": {"listen": [{"trsvcid": 5555}]}}', "srp.listen[0]: traddr is missing"),
    ('{"srp": {"more": 1}}', "srp.more: unknown key"),
    ('{"subsystems": [], "srp": {"request_limit": 0}}', "srp.request_limit: 0 is not from 1"),
    ('{"subsystems": []}', 'there is no section "srp"'),
    ('{"srp": []}', "srp: an object is expected"),
    ('{', "c.json"),
])
def test_configuration(text, says, tmp_path):
    (tmp_path / "c.json").write_text(text)
    said = run(NVMFSPEC, "target", "-t", "srp", "--config", "c.json", status=2, cwd=tmp_path)
    assert says in said and len(said.splitlines()) == 1


def test_one_file_for_both_families(tmp_path):
    """NVMe's target leaves the other section alone."""
    (tmp_path / "c.json").write_text('{"srp": {"more": 1}, "subsystems": [{"nqn": "nqn.x", "more": 1}]}')
    said = run(NVMFSPEC, "target", "--config", "c.json", status=2, cwd=tmp_path)
    assert "subsystems[0].more: unknown key" in said


def test_help_and_usage():
    said = run(NVMFSPEC, "target", "-t", "srp", "--help")
    assert "SCSI disks over SRP" in said and "--request-limit" in said and "--nqn" not in said
    assert "listen on (5555);" in said and "(4420)" not in said
    assert "listen on (4420);" in run(NVMFSPEC, "target", "--help")
    said = run(NVMFSPEC, "host", "-t", "srp", "verify", "--help")
    assert "--form" in said and "--iodepth" in said
    assert "no address: use -a" in run(NVMFSPEC, "host", "-t", "srp", "luns", status=2)
    assert "no subcommand 'identify'" in run(NVMFSPEC, "host", "-t", "srp", "identify", status=2)
