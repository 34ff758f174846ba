# SPDX-License-Identifier: BSD-3-Clause
"""Every subcommand of `nvmfspec host` against the reference target."""
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from hostlib import NQN, NVMFSPEC, ROOT, Target

DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"


# --- what there is ------------------------------------------------------------------------------

def test_list_goes_on(start_target):
    """A namespace whose data are refused is listed without a size."""
    host = start_target("-n", NQN, "--ns", "mem:1M", "--ns", "mem:2M", "--ns", "mem:3M",
                        "--fault", "status=0/82h cmd=identify nsid=2 nth=1",
                        "--fault", "status=0/82h cmd=identify nsid=2 nth=3").host
    lines = host.text("list").splitlines()
    assert len(lines) == 4 and lines[2].split()[:4] == ["2", "-", "-", "-"]
    rows = host.json("list")["namespaces"]
    assert [r["nsid"] for r in rows] == [1, 2, 3]
    assert [r.get("bytes") for r in rows] == [1 << 20, None, 3 << 20]
    assert rows[1]["id"]
    assert len(host.json("list")["namespaces"][1]) == 5


def test_list_ends_at_nn(start_target):
    """NSIDs that the controller says it can't have are not believed: there could be four billions."""
    host = start_target("-n", NQN, "--ns", "mem:1M", "--violate", "semantic/nn-zero").host
    for output in ("text", "json"):
        assert "NSID 1, which is above NN, 0" in host.error("list", "-o", output, code=1)


def test_discover_text(host):
    out = host.text("discover")
    assert "Discovery Log Number of Records" in out
    assert re.search(rf"^subnqn: +{re.escape(NQN)}$", out, re.M)
    assert re.search(rf"^trsvcid: +{host.port}$", out, re.M)


def test_discover_json(host):
    log = host.json("discover")
    (entry,) = [r for r in log["records"] if r["subnqn"] == NQN]
    assert (entry["trtype"], entry["adrfam"], entry["traddr"]) == ("tcp", "ipv4", "127.0.0.1")
    assert entry["trsvcid"] == str(host.port)
    assert entry["subtype"] == "nvme subsystem"


def test_identify_controller(host):
    out = host.json("identify")
    assert out["subnqn"] == NQN
    assert out["cntlid"] > 0
    assert NQN in host.text("identify", "ctrl")


@pytest.mark.parametrize("nsid, blocks, lbads", [(1, 131072, 9), (2, 8192, 12)])
def test_identify_namespace(host, nsid, blocks, lbads):
    out = host.json("identify", "ns", "-N", nsid)
    assert out["nsze"] == blocks
    assert any(f["lbads"] == lbads for f in out["lbaf"])


def test_identify_lists(host):
    assert [n["nsid"] for n in host.json("identify", "ns-list")["namespace"]] == [1, 2]
    assert host.json("identify", "ns-descs", "-N", 1)["descriptor"]


def test_list(host):
    rows = host.json("list")["namespaces"]
    assert [(r["nsid"], r["bytes"], r["block_size"]) for r in rows] == \
        [(1, 64 << 20, 512), (2, 32 << 20, 4096)]
    assert len(host.text("list").splitlines()) == 3


def test_address_in_one_word(host):
    done = subprocess.run([NVMFSPEC, "host", "list", f"nvme+tcp://127.0.0.1:{host.port}/{NQN}"],
                          capture_output=True, timeout=30)
    assert done.returncode == 0
    assert b"64.0 MiB" in done.stdout


# --- logs and features --------------------------------------------------------------------------

@pytest.mark.parametrize("log", ["error", "smart", "fw-slot", "changed-ns", "effects", "0x02"])
def test_get_log(host, log):
    host.json("get-log", log)
    host.run("get-log", log)


def test_get_log_of_a_discovery_controller(host):
    out = host.json("get-log", "discovery", nqn=DISCOVERY)
    assert out["numrec"] >= 1


def test_get_log_that_is_not_there(host):
    assert "Invalid" in host.error("get-log", "0xc5", code=1)


@pytest.mark.parametrize("feature", ["arbitration", "write-cache", "queues", "events", "timestamp",
                                     "kato", "hostid", "0x0f"])
def test_get_feature(host, feature):
    assert "value" in host.json("get-feature", feature)
    assert "fid" in host.text("get-feature", feature)


def test_keep_alive_timeout_is_what_was_asked_for(host):
    assert host.json("get-feature", "kato", "-k", 25)["value"] == 25000


def test_hostid_is_what_was_sent(host):
    uuid = "00112233-4455-6677-8899-aabbccddeeff"
    assert host.json("get-feature", "hostid", "-I", uuid)["data"] == uuid.replace("-", "")


def test_set_feature(host):
    host.run("set-feature", "events", "--value", "0x100")
    assert host.error("set-feature", "0xd3", "--value", 1, code=1).startswith(
        "nvmfspec host set-feature: Set Features: ")


def test_features_of_namespaces(host):
    """-N names the namespace; of namespaces' features it is the first one, of others none."""
    assert "value" in host.json("get-feature", "error-recovery")
    host.run("set-feature", "0x84", "--value", 1, "-N", 2)
    try:
        assert host.json("get-feature", "0x84", "-N", 2)["value"] == 1
        assert host.json("get-feature", "0x84")["value"] == 0
        assert "Write Protected" in host.error("zeroes", "-N", 2, code=1)
    finally:
        host.run("set-feature", "0x84", "--value", 0, "-N", 2)
    assert "Get Features: " in host.error("get-feature", "error-recovery", "-N", 0, code=1)
    assert "Set Features: " in host.error("set-feature", "write-cache", "--value", 1, "-N", 2,
                                               code=1)


# --- data ---------------------------------------------------------------------------------------

def random_file(path, size):
    path.write_bytes(os.urandom(size))
    return path


@pytest.mark.parametrize("nsid, bs", [(1, 512), (2, 4096)])
@pytest.mark.parametrize("blocks", [1, 7, 600])
def test_write_and_read_back(host, tmp_path, nsid, bs, blocks):
    out = random_file(tmp_path / "out", blocks * bs)
    back = tmp_path / "back"
    host.run("write", "-N", nsid, "--slba", 3, "--file", out)
    host.run("read", "-N", nsid, "--slba", 3, "--blocks", blocks, "--file", back)
    assert back.read_bytes() == out.read_bytes()
    host.run("compare", "-N", nsid, "--slba", 3, "--file", out)


def test_a_backup_is_kept_where_nothing_is_read(host, tmp_path):
    backup = random_file(tmp_path / "backup", 4096)
    kept = backup.read_bytes()
    for wrong in (["-N", 7], ["--slba", 1 << 40]):
        host.error("read", *wrong, "--file", backup, code=1)
        assert backup.read_bytes() == kept
    host.run("read", "--file", backup)
    assert len(backup.read_bytes()) == 512
    host.run("read", "--file", os.devnull)


def test_pipes(host):
    data = os.urandom(4096)
    host.run("write", "--slba", 64, input=data)
    assert host.run("read", "--slba", 64, "--blocks", 8).stdout == data
    about = host.json("read", "--slba", 64, "--blocks", 8)
    assert (about["bytes"], about["slba"]) == (4096, 64)


def test_closed_standard_streams_are_no_sockets(host):
    """Where descriptor 1 was free, the data that was read went back to the target as PDUs."""
    def close_all():
        for fd in (0, 1, 2):
            os.close(fd)
    where = [*host.where, "-n", NQN]
    for sub in (["read", "--blocks", "8"], ["identify"], ["write", "--pattern", "0"]):
        done = subprocess.run([NVMFSPEC, "host", *sub, *where], preexec_fn=close_all, timeout=30)
        assert done.returncode == (0 if sub[0] == "write" else 2 if sub[0] == "read" else 3)
    done = subprocess.run([NVMFSPEC, "host", "read", "--blocks", "8", *where], timeout=30,
                          stderr=subprocess.PIPE, text=True, preexec_fn=lambda: os.close(1))
    assert done.returncode == 2 and "Bad file descriptor" in done.stderr


@pytest.mark.parametrize("args", [
    ["--version"], ["--help"], ["conform", "--list"], ["host", "discover"], ["host", "identify"],
    ["pcap", "show", "pcap/tests/captures/nvme-tcp-auth-6.12.pcap"], ["fuzz", "--help"],
], ids=" ".join)
def test_output_that_does_not_arrive_is_exit_3(host, args):
    where = [*host.where, *(["-n", NQN] if "identify" in args else [])] if "host" in args else []
    with open("/dev/full", "w") as full:
        done = subprocess.run([NVMFSPEC, *args, *where], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=30, cwd=ROOT)
    assert done.returncode == 3
    assert done.stderr == "nvmfspec: standard output could not be written completely\n"


def test_compare_finds_a_difference(host, tmp_path):
    host.run("write", "--slba", 80, "--blocks", 8, "--pattern", 0x55)
    host.run("compare", "--slba", 80, "--blocks", 8, "--pattern", 0x55)
    assert "Compare Failure" in host.error("compare", "--slba", 80, "--blocks", 8, "--pattern", 0x56,
                                           code=1)


def test_flush_zeroes_and_deallocate(host):
    host.run("write", "--slba", 96, "--blocks", 16, "--pattern", 0xff, "--fua")
    host.run("flush")
    host.run("zeroes", "--slba", 96, "--blocks", 8)
    assert host.run("read", "--slba", 96, "--blocks", 16).stdout == bytes(4096) + b"\xff" * 4096
    host.run("dsm", "104+4", "108+4")
    host.run("dsm", "--slba", 96, "--blocks", 8)


def test_blocks_that_are_not_there(host):
    assert "LBA Out of Range" in host.error("read", "--slba", 1 << 40, code=1)
    assert "Read" in host.error("read", "--slba", 131070, "--blocks", 4, code=1)
    host.error("read", "-N", 7, code=1)


@pytest.mark.parametrize("sub", ["write", "compare"])
def test_input_that_is_empty(host, sub):
    assert "the input is empty" in host.error(sub, "--file", "/dev/null", code=2)


def test_input_that_does_not_fit(host, tmp_path):
    short = random_file(tmp_path / "short", 700)
    assert "within a block" in host.error("write", "--file", short, code=2)
    assert "before the last block" in host.error("write", "--file", short, "--blocks", 4, code=2)
    assert "No such file" in host.error("write", "--file", tmp_path / "none", code=2)
    assert "the input is empty" in host.error("write", "--file", os.devnull, code=2)
    assert "the input is empty" in host.error("compare", code=2)  # else equal to anything
    assert "exclude each other" in host.error("compare", "--pattern", 0, "--file", short, code=2)
    assert "Is a directory" in host.error("raw", f"@{tmp_path}", code=2)


# --- every format of the wire -------------------------------------------------------------------

@pytest.mark.parametrize("hpda", [0, 15, 31])
@pytest.mark.parametrize("digests", [[], ["-g"], ["-G"], ["-g", "-G"]],
                         ids=lambda d: "".join(d) or "plain")
def test_verify_on_every_format(host, digests, hpda):
    out = host.json("verify", *digests, "--hpda", hpda, "--range", "2M", "-i", 2, "--seed", hpda)
    assert out["ok"] and out["passes"] == 1 and out["writes"] > 0


@pytest.mark.parametrize("cpda, success", itertools.product([0, 17, 31], [True, False]))
def test_verify_on_every_format_of_the_target(start_target, cpda, success):
    target = start_target("-n", NQN, "--ns", "mem:8M", "--cpda", str(cpda),
                          *([] if success else ["--no-success"]))
    out = target.host.json("verify", "-g", "-G", "--hpda", 5, "--range", "1M", "--maxr2t", 4, "--command-buffers",
                           "--no-sqfc")
    assert out["ok"]


def test_verify_says_what_it_did(host):
    out = host.text("verify", "-N", 2, "--range", "1M", "--size", "16k", "--passes", 2)
    assert re.match(r"verified: \d+ writes .*, 4 queues, 2 passes", out)


@pytest.mark.calm(0.05)
@pytest.mark.parametrize("rw", ["read", "write", "randread", "randwrite", "rw", "randrw"])
def test_perf(host, rw):
    out = host.json("perf", "--rw", rw, "--time", "0.2", "--iodepth", 8)
    reads, writes = out["read"]["iops"], out["write"]["iops"]
    assert (reads > 0) == ("read" in rw or "rw" in rw)
    assert (writes > 0) == ("write" in rw or "rw" in rw)
    side = out["read"] if reads else out["write"]
    latency = side["latency_us"]
    assert latency["min"] <= latency["p50"] <= latency["p99"] <= latency["p99.9"] <= latency["max"]


@pytest.mark.calm(0.05)
def test_perf_text(host):
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:2]))
    out = host.text("perf", "--time", "0.2", "-i", 2, "--bs", "64k", "--no-busy-poll", "--cpu", cpus)
    assert re.search(r"^read +\d+", out, re.M)


@pytest.mark.calm(0.05)
def test_queue_depth_beyond_the_queue(host):
    out = host.json("perf", "--time", "0.2", "--iodepth", 300)
    assert out["read"]["ios"] > 0 and out["iodepth"] == 300


@pytest.mark.calm(0.05)
def test_a_queue_is_as_small_as_asked_and_figures_say_so(host):
    out = host.json("perf", "--time", "0.2", "-Q", 4)
    assert out["read"]["ios"] > 0 and out["iodepth"] == 3
    assert "depth 3," in host.text("perf", "--time", "0.2", "-Q", 4, "--iodepth", 8)
    assert "I/O queues of 2 entries" in host.run("verify", "-Q", 2, "--range", "1M", "-v").stderr.decode()


# --- discovery that stays -----------------------------------------------------------------------

def config(subsystems, port):
    return {
        "hosts": [],
        "ports": [{"portid": 1, "referrals": [], "subsystems": subsystems,
                   "addr": {"trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1",
                            "trsvcid": str(port)}}],
        "subsystems": [{"nqn": nqn, "attr": {"allow_any_host": "1"}, "allowed_hosts": [],
                        "namespaces": [{"nsid": 1, "enable": 1, "device": {"path": "mem:1M"}}]}
                       for nqn in subsystems],
    }


def lines_until(stream, pattern):
    seen = ""
    for line in stream:
        seen += line
        if re.search(pattern, line):
            return seen
    pytest.fail(f"no {pattern!r} in {seen!r}")


@pytest.mark.calm(0.5)
def test_persistent_discovery_tells_changes(tmp_path, free_port, request):
    port, path = free_port(), tmp_path / "target.json"
    path.write_text(json.dumps(config([NQN], port)))
    target = subprocess.Popen([NVMFSPEC, "target", "--config", path], stdout=subprocess.PIPE, text=True)
    request.addfinalizer(target.kill)
    lines_until(target.stdout, "listening")
    watch = subprocess.Popen([NVMFSPEC, "host", "discover", "-a", "127.0.0.1", "-s", str(port),
                              "--persistent", "-k", "2"], stdout=subprocess.PIPE, text=True)
    request.addfinalizer(watch.kill)
    lines_until(watch.stdout, f"subnqn: +{NQN}")
    time.sleep(3)  # beyond KATO: it has to be kept alive
    path.write_text(json.dumps(config([NQN, NQN + "-second"], port)))
    target.send_signal(signal.SIGHUP)
    assert "Entry added" in lines_until(watch.stdout, f"subnqn: +{NQN}-second")
    path.write_text(json.dumps(config([NQN], port)))
    target.send_signal(signal.SIGHUP)
    assert "Entry removed" in lines_until(watch.stdout, f"subnqn: +{NQN}-second")
    watch.terminate()
    assert watch.wait(timeout=10) == 0
    target.terminate()
    assert target.wait(timeout=20) == 0


# --- raw ----------------------------------------------------------------------------------------

@pytest.mark.calm(0.5)
def test_raw_exchanges_ics_and_decodes(host):
    out = host.text("raw", "--ic", "--wait", 1000)
    assert "ICResp" in out and "still connected" in out


def test_raw_is_told_what_it_did_wrong(host):
    out = host.text("raw", "ff", "00:80:00 # a type that is not assigned", "80000000", "--wait", 1000)
    assert "C2HTermReq" in out
    out = host.text("raw", "--ic", "ff00 0800 08000000", "--split", 1, "--delay", 1, "--wait", 1000)
    assert "ICResp" in out and "C2HTermReq" in out


def test_a_host_that_breaks_a_rule_is_told(host):
    line = host.error("write", "--blocks", 256, "--pattern", 1, "--violate", "tcp/h2cdata/ttag", code=3)
    assert "C2HTermReq: Invalid PDU Header Field (FES 01h, FEI 10)" in line


def test_a_controller_that_breaks_a_rule_is_caught(start_target):
    target = start_target("-n", NQN, "--ns", "mem:8M", "--violate", "tcp/digest/hdgst-c2h")
    write = ["write", "-g", "--pattern", 1]
    assert "controller broke tcp/digest/hdgst-c2h" in target.host.error(*write, code=3)
    target.host.run(*write, "--waive", "tcp/digest/hdgst-c2h")


@pytest.mark.calm(0.5)
def test_raw_from_a_file(host, tmp_path):
    path = tmp_path / "bytes"
    path.write_text("# ICReq\n00 00 80 00  80 00 00 00\n" + "00" * 120 + "\n")
    assert "ICResp" in host.text("raw", f"@{path}", "--wait", 1000)


# --- mistakes -----------------------------------------------------------------------------------

@pytest.mark.parametrize("args, says", [
    (["read", "--nonsense"], "unknown option '--nonsense'"),
    (["read", "-Z"], "unknown option '-Z'"),
    (["read", "-a"], "requires a value"),
    (["read"], "no address given"),
    (["read", "-a", "127.0.0.1"], "no subsystem given"),
    (["read", "extra", "-a", "127.0.0.1"], "'extra' is not an option"),
    (["read", "-a", "127.0.0.1", "-n", "x", "-s", "port"], "not a TCP port"),
    (["read", "--bs", "4k"], "unknown option"),
    (["perf", "--bs", "4q"], "not a size"),
    (["perf", "--rw", "sideways"], "not one of"),
    (["perf", "--mix", "101"], "number from 0 to 100"),
    (["perf", "-a", "127.0.0.1", "-n", "x", "--cpu", "1-"], "--cpu"),
    (["perf", "-a", "127.0.0.1", "-n", "x", "--cpu", "0-1023"], "may not be used by this process"),
    (["identify", "everything", "-a", "127.0.0.1", "-n", "x"], "not one of"),
    (["get-log", "-a", "127.0.0.1", "-n", "x"], "no log page given"),
    (["get-log", "nope", "-a", "127.0.0.1", "-n", "x"], "no log page"),
    (["get-feature", "nope", "-a", "127.0.0.1", "-n", "x"], "no feature"),
    (["set-feature", "kato", "-a", "127.0.0.1", "-n", "x"], "no value given"),
    (["dsm", "5", "-a", "127.0.0.1", "-n", "x"], "SLBA+BLOCKS"),
    (["raw", "xyz", "-a", "127.0.0.1"], "not a hex digit"),
    (["raw", "abc", "-a", "127.0.0.1"], "odd number"),
    (["list", "-a", ""], "option -a: the value is empty"),
    (["list", "-a", "127.0.0.1", "-n", ""], "option -n: the value is empty"),
    (["write", "--file="], "option --file: the value is empty"),
    (["list", "-t", "fc"], "not one of tcp"),
    (["list", "nvme+fc://host"], "not an address"),
    (["list", "nvme+tcp://"], "must be of the form nvme+tcp"),
    (["list", "nvme+rdma://"], "must be of the form nvme+rdma"),
    (["list", "nvme+rdma://127.0.0.1/x", "-g"], "no digests"),
    (["raw", "00", "-t", "rdma", "-a", "127.0.0.1"], "TCP only"),
    (["list", "-I", "12", "-a", "127.0.0.1", "-n", "x"], "not a UUID"),
    (["list", "--hpda", "32"], "number from 0 to 31"),
    (["nothing"], "no subcommand"),
    ([], "no subcommand given"),
])
def test_bad_options_are_one_line_and_exit_2(args, says):
    done = subprocess.run([NVMFSPEC, "host", *args], capture_output=True, text=True, timeout=30,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and says in done.stderr
    assert done.stdout == ""


def test_help_everywhere():
    out = subprocess.run([NVMFSPEC, "host", "--help"], capture_output=True, text=True, timeout=30)
    assert out.returncode == 0
    subs = re.findall(r"^  ([a-z-]+) ", out.stdout, re.M)
    assert len(subs) == 15
    for sub in subs:
        out = subprocess.run([NVMFSPEC, "host", sub, "--help"], capture_output=True, text=True, timeout=30)
        assert out.returncode == 0 and "--traddr" in out.stdout


def test_nobody_there_is_exit_3(free_port):
    done = subprocess.run([NVMFSPEC, "host", "identify", "-a", "127.0.0.1", "-s", str(free_port()),
                           "-n", NQN], capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    assert "refused" in done.stderr and done.stderr.count("\n") == 1


def test_somebody_silent_is_exit_3():
    with socket.create_server(("127.0.0.1", 0)) as s:
        done = subprocess.run([NVMFSPEC, "host", "identify", "-a", "127.0.0.1", "-s",
                               str(s.getsockname()[1]), "-n", NQN, "--timeout", "300"],
                              capture_output=True, text=True, timeout=30)
    assert done.returncode == 3
    assert "no ICResp within 300 ms" in done.stderr


def test_refusals_are_in_words(host):
    line = host.error("identify", code=1, nqn=NQN + "-unknown")
    assert "Connect Invalid Parameters (status 182h, do not retry), SUBNQN (data offset 256)" in line


@pytest.mark.parametrize("option, refuse", [("-g", "--no-hdgst"), ("-G", "--no-ddgst")])
def test_a_digest_that_is_refused(start_target, option, refuse):
    target = start_target("-n", NQN, "--ns", "mem:8M", refuse)
    assert "refused a digest" in target.host.error("identify", option, code=3)
    target.host.run("identify")


@pytest.mark.calm(0.3)
@pytest.mark.parametrize("poll", [[], ["--no-busy-poll"]])
def test_a_target_that_stops_answering(start_target, poll, connected):
    target = start_target("-n", NQN, "--ns", "mem:8M")
    load = subprocess.Popen([NVMFSPEC, "host", "perf", *target.host.where, "-n", NQN, "--time", "5",
                             "--timeout", "500", *poll],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    connected(target.host.port, 2)
    time.sleep(0.5)
    target.process.send_signal(signal.SIGSTOP)
    try:
        assert load.wait(timeout=10) == 3
    finally:
        target.process.send_signal(signal.SIGCONT)
    assert "not answered within 500 ms" in load.stderr.read()


@pytest.mark.calm(0.3)
def test_a_target_that_dies(start_target, connected):
    target = start_target("-n", NQN, "--ns", "mem:8M")
    load = subprocess.Popen([NVMFSPEC, "host", "perf", *target.host.where, "-n", NQN, "--time", "30"],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    connected(target.host.port, 2)
    time.sleep(0.5)
    target.stop()
    target.stop = lambda: None
    assert load.wait(timeout=10) == 3
    assert "queue 1" in load.stderr.read()


def verify_with_loss(target, *args):
    return subprocess.Popen([NVMFSPEC, "host", "verify", *target.host.where, "-n", NQN, "--time", "3",
                             "-k", "1",
                             "--ctrl-loss-tmo", "20", "--reconnect-delay", "1", *args],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.calm(0.3)
def test_verify_outlives_its_target(tmp_path):
    disk = tmp_path / "disk"
    disk.write_bytes(bytes(8 << 20))
    first = Target("-n", NQN, "--ns", f"file:{disk}")
    load = verify_with_loss(first, "-o", "json")
    time.sleep(1)
    first.process.kill()
    first.process.wait()
    second = Target("-s", str(first.host.port), "-n", NQN, "--ns", f"file:{disk}")
    out, err = load.communicate(timeout=60)
    second.stop()
    assert load.returncode == 0, err
    assert json.loads(out)["reconnects"] == 1


@pytest.mark.calm(0.3)
def test_verify_gives_up_at_last(start_target):
    target = start_target("-n", NQN, "--ns", "mem:8M")
    load = verify_with_loss(target, "--ctrl-loss-tmo", "2")
    time.sleep(1)
    target.stop()
    target.stop = lambda: None
    assert load.wait(timeout=20) == 3
    assert re.search("controller lost, not reconnected within 2 s: .*refused", load.stderr.read())
