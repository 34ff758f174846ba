# SPDX-License-Identifier: BSD-3-Clause
"""A running target driven by JSON-RPC: SPDK's methods with its parameters, results and errors; what partial,
pipelined and hostile requests do; changes under load; nvmfspec ctl."""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import resource
import select
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
UNDER_TEST = os.environ.get("NVMFSPEC_UNDER_TEST", NVMFSPEC)
CHANGES = int(os.environ.get("NVMFSPEC_RPC_CHANGES", "200"))
ATTACK = int(os.environ.get("NVMFSPEC_RPC_ATTACK", "4"))  # seconds
NQN = "nqn.2016-06.io.spdk:cnode1"
DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
HOST = "nqn.2014-08.org.example:host1"
KEY = "DHHC-1:00:1CHbpfXmr73jzc42DEC/OQ/Kto+ArN0KpzOyG0l8sA3I9aUY:"
OTHER_KEY = "DHHC-1:00:KqULR8kjQt3aHcy3dOUOSX11ljLbLDqLhrManXN/gVEEC5/I:"
PARSE, INVALID, NO_METHOD, PARAMS, INTERNAL = -32700, -32600, -32601, -32602, -32603


class Failed(Exception):
    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]


class Client:
    """One connection; answers are read whole."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(path))
        self.bytes = b""

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def receive(self):
        while b"\n" not in self.bytes:
            more = self.socket.recv(65536)
            if not more:
                return None
            self.bytes += more
        line, self.bytes = self.bytes.split(b"\n", 1)
        return json.loads(line)

    def ask(self, request):
        self.send(json.dumps(request))
        return self.receive()


class Target:
    def __init__(self, path, *options, program=NVMFSPEC):
        self.path = path
        self.process = subprocess.Popen([program, "target", "--rpc", str(path), *options],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.first = self.process.stdout.readline()
        assert self.first.startswith("listening on "), self.process.stderr.read()

    def call(self, method, **params):
        answer = Client(self.path).ask({"jsonrpc": "2.0", "id": 7, "method": method,
                                        "params": params})
        assert answer["id"] == 7 and answer["jsonrpc"] == "2.0"
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["result"]

    def refuses(self, code, method, **params):
        with pytest.raises(Failed) as failed:
            self.call(method, **params)
        assert failed.value.code == code, failed.value
        return str(failed.value)

    def serve(self, ns="Malloc0", nqn=NQN, **how):
        """What SPDK's guide does step by step; the port."""
        with contextlib.suppress(Failed):
            self.call("nvmf_create_transport", trtype="TCP")
        if ns == "Malloc0":
            assert self.call("bdev_malloc_create", name=ns, num_blocks=131072, block_size=512) == ns
        assert self.call("nvmf_create_subsystem", nqn=nqn, allow_any_host=True,
                         serial_number="SPDK00000000000001", **how) is True
        assert self.call("nvmf_subsystem_add_ns", nqn=nqn, namespace={"bdev_name": ns}) == 1
        assert self.call("nvmf_subsystem_add_listener", nqn=nqn, listen_address=place()) is True
        return self.call("nvmf_subsystem_get_listeners", nqn=nqn)[0]["address"]["trsvcid"]

    def host(self, command, port, *args, nqn=NQN):
        return subprocess.run([NVMFSPEC, "host", command, "-t", "tcp", "-a", "127.0.0.1", "-s",
                               str(port), "-n", nqn, *args], capture_output=True, timeout=60,
                              text=True)

    def discover(self, port):
        """The entries of the discovery log of that port."""
        out = subprocess.run([NVMFSPEC, "host", "discover", "-t", "tcp", "-a", "127.0.0.1", "-s",
                              str(port), "-o", "json"], capture_output=True, text=True, timeout=30)
        return json.loads(out.stdout)["records"]

    def load(self, port, seconds, *args):
        return subprocess.Popen([NVMFSPEC, "host", "verify", "-t", "tcp", "-a", "127.0.0.1", "-s",
                                 str(port), "-n", NQN, "-N", "1", "--range", "8M", "-i", "8",
                                 "--time", str(seconds), *args], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        out = self.process.communicate(timeout=30)[1]
        assert self.process.returncode == 0, out
        return out


def place(port="0", **more):
    return {"trtype": "TCP", "adrfam": "IPv4", "traddr": "127.0.0.1", "trsvcid": port, **more}


@pytest.fixture(name="target")
def running(tmp_path):
    t = Target(tmp_path / "rpc.sock", "--reactors", "2")
    yield t
    t.stop()


@pytest.fixture(name="options")
def with_options(tmp_path):
    """Targets with options of their own."""
    all_ = []

    def start(*options, name="rpc.sock"):
        all_.append(Target(tmp_path / name, *options))
        return all_[-1]

    yield start
    for t in all_:
        if t.process.poll() is None:
            t.stop()


def test_guide(target):
    """The steps of SPDK's guide, with the requests that its rpc.py sends, and their results."""
    assert "nvmfspec" in target.call("spdk_get_version")["version"]
    assert target.call("framework_wait_init") is True
    assert target.call(
        "nvmf_create_transport", trtype="TCP", io_unit_size=16384, max_io_qpairs_per_ctrlr=8,
        in_capsule_data_size=8192, zcopy=False, c2h_success=True, dif_insert_or_strip=False,
        no_srq=False, no_wr_batching=False, disable_mappable_bar0=False) is True
    port = target.serve(model_number="SPDK_Controller1")
    subsystems = target.call("nvmf_get_subsystems")
    assert [s["nqn"] for s in subsystems] == [DISCOVERY, NQN]
    shown = subsystems[1]
    assert shown["subtype"] == "NVMe" and shown["allow_any_host"] and shown["hosts"] == []
    assert shown["serial_number"] == "SPDK00000000000001"
    assert shown["model_number"] == "SPDK_Controller1"
    assert shown["listen_addresses"] == [place(port)]
    assert shown["namespaces"][0]["bdev_name"] == shown["namespaces"][0]["name"] == "Malloc0"
    assert target.call("nvmf_get_transports")[0]["in_capsule_data_size"] == 8192
    disk = target.call("bdev_get_bdevs", name="Malloc0")[0]
    assert disk["product_name"] == "Malloc disk" and disk["num_blocks"] == 131072
    assert disk["claimed"] and disk["aliases"] == [disk["uuid"]]
    assert shown["namespaces"][0]["uuid"] == disk["uuid"]
    assert shown["namespaces"][0]["nguid"] == disk["uuid"].replace("-", "").upper()
    verified = target.host("verify", port, "-N", "1", "--range", "4M", "--time", "1")
    assert verified.returncode == 0, verified.stderr
    stats = target.call("bdev_get_iostat", names=["Malloc0"])["bdevs"][0]
    assert stats["num_write_ops"] > 0 and stats["bytes_read"] > 0
    groups = target.call("nvmf_get_stats")["poll_groups"]
    assert [g["name"] for g in groups] == ["nvmf_tgt_poll_group_000", "nvmf_tgt_poll_group_001"]
    assert sum(g["io_qpairs"] for g in groups) > 0
    assert sum(g["completed_nvme_io"] for g in groups) >= stats["num_write_ops"]
    assert len(target.call("framework_get_reactors")["reactors"]) == 2


def test_controllers_and_queues(target):
    port = target.serve()
    load = target.load(port, 3)
    for _ in range(100):
        queues = target.call("nvmf_subsystem_get_qpairs", nqn=NQN)
        if len(queues) == 9:
            break
        time.sleep(0.05)
    controllers = target.call("nvmf_subsystem_get_controllers", nqn=NQN)
    assert controllers[0]["cntrltype"] == "io" and controllers[0]["num_io_qpairs"] == 8
    assert sorted(q["qid"] for q in queues) == list(range(9))
    assert {q["hostnqn"] for q in queues} == {controllers[0]["hostnqn"]}
    assert {q["state"] for q in queues} == {"enabled"}
    assert queues[0]["listen_address"] == place(port)
    assert queues[0]["peer_address"]["traddr"] == "127.0.0.1"
    assert load.wait(30) == 0, load.stdout.read()


def test_errors(target):
    """Codes and texts that SPDK's scripts look for."""
    target.serve()
    assert target.refuses(NO_METHOD, "bdev_lvol_create") == "Method not found"
    assert "not found" in target.refuses(PARAMS, "nvmf_delete_subsystem", nqn=NQN + "9")
    assert "Unable to find target foobar" in target.refuses(
        INTERNAL, "nvmf_create_subsystem", nqn=NQN + "2", tgt_name="foobar")
    for wrong in ({"serial_number": "S\x1f"}, {"model_number": "C\x1f"},
                  {"serial_number": "x" * 21}, {"model_number": "x" * 41}, {"nqn": 1},
                  {"allow_any_host": 1}, {"unknown": 1}, {"min_cntlid": -1},
                  {"serial_number": "a\0b"}):
        assert "Invalid parameters" in target.refuses(
            PARAMS, "nvmf_create_subsystem", **{"nqn": NQN + "2", **wrong})
    for low, high in ((0, 5), (65520, 65519), (1, 0), (1, 65520), (6, 5)):
        assert "Invalid cntlid range" in target.refuses(
            PARAMS, "nvmf_create_subsystem", nqn=NQN + "2", min_cntlid=low, max_cntlid=high)
    for nqn in (NQN, "nonsense", DISCOVERY, "nqn.2016-06.io.spdk:" + "x" * 300):
        assert "Unable to create subsystem" in target.refuses(
            INTERNAL, "nvmf_create_subsystem", nqn=nqn)
    assert "already exists" in target.refuses(INTERNAL, "nvmf_create_transport", trtype="tcp")
    target.refuses(PARAMS, "nvmf_create_transport", trtype="RDMA", max_io_size=12345)
    target.refuses(PARAMS, "nvmf_create_transport", trtype="FC")
    target.refuses(-19, "nvmf_get_transports", trtype="RDMA")
    target.refuses(PARAMS, "nvmf_subsystem_add_listener", nqn=NQN,
                   listen_address=place("4420", trtype="RDMA"))
    target.refuses(PARAMS, "nvmf_subsystem_add_listener", nqn=NQN, listen_address=place("x"))
    target.refuses(PARAMS, "nvmf_subsystem_add_listener", nqn=NQN,
                   listen_address=place("1", traddr="203.0.113.77"))
    target.refuses(PARAMS, "nvmf_subsystem_remove_listener", nqn=NQN, listen_address=place("1"))
    target.refuses(PARAMS, "nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "None0"})
    assert "in use" in target.refuses(PARAMS, "nvmf_subsystem_add_ns", nqn=NQN,
                                      namespace={"bdev_name": "Malloc0", "nsid": 2})
    target.refuses(PARAMS, "nvmf_subsystem_remove_ns", nqn=NQN, nsid=2)
    target.refuses(INTERNAL, "nvmf_subsystem_remove_host", nqn=NQN, host=HOST)
    target.refuses(-17, "bdev_malloc_create", name="Malloc0", num_blocks=8, block_size=512)
    target.refuses(-22, "bdev_malloc_create", num_blocks=8, block_size=520)
    target.refuses(-22, "bdev_malloc_create", num_blocks=0, block_size=512)
    target.refuses(PARAMS, "bdev_malloc_create", num_blocks=8)
    target.refuses(-19, "bdev_null_delete", name="Malloc0")
    target.refuses(-19, "bdev_get_bdevs", name="Malloc9")
    target.refuses(PARAMS, "framework_get_config", name="scsi")
    target.refuses(-1, "framework_start_init")
    # What would be seen by hosts and cannot be had is refused.
    for asked in ({"enable_nssr": True}, {"passthrough": True}, {"admin_label": "x"}):
        assert "not supported" in target.refuses(
            PARAMS, "nvmf_create_subsystem", nqn=NQN + "2", **asked)
    assert len(target.call("nvmf_get_subsystems")) == 2


def test_long_specification(target, tmp_path):
    """A specification is taken whole or not at all: cut, it would be another file, or one of another size."""
    folder = tmp_path.joinpath(*["f" * 200] * 3)
    folder.mkdir(parents=True)
    spec = f"file:{folder}/image,size=4M"
    target.serve(ns=spec)
    assert (folder / "image").stat().st_size == 4 << 20
    assert target.call("nvmf_get_subsystems", nqn=NQN)[0]["namespaces"][0]["bdev_name"] == spec
    assert spec in [c["params"].get("namespace", {}).get("bdev_name")
                    for c in target.call("framework_get_config", name="nvmf")]
    for name in ("mem:" + "0" * 4093 + "1M", "file:/" + "n" * 9000):
        assert "longer than 4096 bytes" in target.refuses(
            PARAMS, "nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": name})


def test_ana_transition(target):
    """A state that is set with transition_ms is there after so long in the change state; other changes leave that alone."""
    other = NQN + "-ana"
    port = target.serve()
    target.call("nvmf_create_subsystem", nqn=other, ana_reporting=True, allow_any_host=True)
    target.call("nvmf_subsystem_add_ns", nqn=other, namespace={"bdev_name": "mem:1M"})
    at = {"nqn": other, "listen_address": place(port)}
    target.call("nvmf_subsystem_add_listener", **at)
    change = lambda state, ms: target.call(
        "nvmf_subsystem_listener_set_ana_state", ana_state=state, transition_ms=ms, **at)

    def read():
        return target.host("read", port, "-N", "1", nqn=other).stderr

    assert read() == ""
    assert change("inaccessible", 10000) is True
    assert "Asymmetric Access Transition" in read()
    target.call("nvmf_subsystem_add_ns", nqn=other, namespace={"bdev_name": "mem:1M"})
    assert "Asymmetric Access Transition" in read()
    assert change("optimized", 0) is True
    assert read() == ""
    assert change("inaccessible", 200) is True
    until = time.monotonic() + 30
    while "Asymmetric Access Inaccessible" not in read():
        assert time.monotonic() < until
    target.refuses(PARAMS, "nvmf_subsystem_listener_set_ana_state", ana_state="optimized",
                   transition_ms=10001, **at)


def test_ana(target, tmp_path):
    """Groups of namespaces, states of listeners, as SPDK shows and saves them."""
    port = target.serve()
    other = NQN + "-ana"
    assert target.call("nvmf_create_subsystem", nqn=other, ana_reporting=True, allow_any_host=True)
    for group in (0, 3):
        target.call("nvmf_subsystem_add_ns", nqn=other,
                    namespace={"bdev_name": "mem:1M", "anagrpid": group})
    target.refuses(PARAMS, "nvmf_subsystem_add_ns", nqn=other,
                   namespace={"bdev_name": "mem:1M", "anagrpid": 1025})
    target.call("nvmf_subsystem_add_listener", nqn=other, listen_address=place(port))
    at = {"nqn": other, "listen_address": place(port)}
    assert target.call("nvmf_subsystem_listener_set_ana_state", ana_state="inaccessible", **at) is True
    target.call("nvmf_subsystem_listener_set_ana_state", ana_state="non_optimized", anagrpid=3, **at)
    states = target.call("nvmf_subsystem_get_listeners", nqn=other)[0]["ana_states"]
    assert states == [{"ana_group": 1, "ana_state": "inaccessible"},
                      {"ana_group": 2, "ana_state": "inaccessible"},
                      {"ana_group": 3, "ana_state": "non_optimized"}]
    assert "ana_states" not in target.call("nvmf_subsystem_get_listeners", nqn=NQN)[0]
    assert target.call("nvmf_subsystem_set_ns_ana_group", nqn=other, nsid=1, anagrpid=3) is True
    shown = target.call("nvmf_get_subsystems", nqn=other)[0]["namespaces"]
    assert [ns["anagrpid"] for ns in shown] == [3, 3]
    assert "ANA reporting is disabled" in target.refuses(
        PARAMS, "nvmf_subsystem_set_ns_ana_group", nqn=NQN, nsid=1, anagrpid=2)
    target.refuses(PARAMS, "nvmf_subsystem_set_ns_ana_group", nqn=other, nsid=7, anagrpid=2)
    target.refuses(PARAMS, "nvmf_subsystem_set_ns_ana_group", nqn=other, nsid=1, anagrpid=0)
    target.refuses(PARAMS, "nvmf_subsystem_listener_set_ana_state", ana_state="lost", **at)
    target.refuses(PARAMS, "nvmf_subsystem_listener_set_ana_state", ana_state="optimized",
                   nqn=other, listen_address=place("1"))
    target.call("nvmf_subsystem_remove_listener", **at)
    assert "ANA reporting is disabled" in target.refuses(
        PARAMS, "nvmf_subsystem_add_listener", nqn=NQN, listen_address=place(), ana_state="inaccessible")
    assert target.call("nvmf_subsystem_add_listener", ana_state="inaccessible", **at) is True
    states = target.call("nvmf_subsystem_get_listeners", nqn=other)[0]["ana_states"]
    assert {s["ana_state"] for s in states} == {"inaccessible"}
    target.call("nvmf_subsystem_listener_set_ana_state", ana_state="non_optimized", anagrpid=3, **at)
    saved = target.call("framework_get_config", name="nvmf")
    assert [c["params"]["ana_reporting"] for c in saved
            if c["method"] == "nvmf_create_subsystem" and c["params"]["nqn"] == other] == [True]
    assert [(c["params"]["anagrpid"], c["params"]["ana_state"]) for c in saved
            if c["method"] == "nvmf_subsystem_listener_set_ana_state"] == \
        [(1, "inaccessible"), (2, "inaccessible"), (3, "non_optimized")]


def namespaces(target, port, host):
    """The NSIDs that a host finds."""
    out = target.host("list", port, "-q", host, "-o", "json")
    assert out.returncode == 0, out.stderr
    return [ns["nsid"] for ns in json.loads(out.stdout)["namespaces"]]


def test_masking(options, tmp_path):
    """The RPC part of SPDK's ns_masking.sh, with what hosts see after each step."""
    target = options()
    port = target.serve()
    other = HOST[:-1] + "2"
    hidden = {"bdev_name": "mem:2M", "nsid": 2, "no_auto_visible": True}
    assert target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace=hidden) == 2
    assert namespaces(target, port, HOST) == [1]
    at = {"nqn": NQN, "nsid": 2}
    assert target.call("nvmf_ns_add_host", host=HOST, **at) is True
    assert target.call("nvmf_ns_add_host", host=HOST, **at) is True  # so already
    assert namespaces(target, port, HOST) == [1, 2] and namespaces(target, port, other) == [1]
    assert target.host("verify", port, "-q", other, "-N", "2", "--time", "1").returncode != 0
    assert target.call("nvmf_ns_add_host", host=other, tgt_name="nvmf_tgt", **at) is True
    assert namespaces(target, port, other) == [1, 2]
    assert target.call("nvmf_ns_remove_host", host=HOST, **at) is True
    assert target.call("nvmf_ns_remove_host", host=HOST, **at) is True
    assert namespaces(target, port, HOST) == [1] and namespaces(target, port, other) == [1, 2]
    for method in ("nvmf_ns_add_host", "nvmf_ns_remove_host"):
        assert "no_auto_visible" in target.refuses(PARAMS, method, nqn=NQN, nsid=1, host=HOST)
        for wrong in ({"nsid": 3}, {"nsid": 0}, {"nsid": 2**32 + 2}, {"nsid": "2"}, {"host": "x"},
                      {"host": ""}, {"nqn": NQN + "9"}, {"hosts": [HOST]}, {"tgt_name": "x"}):
            target.refuses(PARAMS, method, **{**at, "host": HOST, **wrong})
        target.refuses(PARAMS, method, **at)
    target.refuses(PARAMS, "nvmf_subsystem_add_ns", nqn=NQN, namespace={**hidden, "nsid": 3,
                                                                        "no_auto_visible": 1})
    shown = target.call("nvmf_get_subsystems", nqn=NQN)[0]["namespaces"]
    assert sorted(shown[1]) == ["bdev_name", "name", "nsid", "uuid"]  # as SPDK has it
    # What is saved makes the same again.
    saved = target.call("framework_get_config", name="nvmf")
    assert [c["params"]["namespace"]["no_auto_visible"] for c in saved
            if c["method"] == "nvmf_subsystem_add_ns"] == [False, True]
    assert [c["params"] for c in saved if c["method"] == "nvmf_ns_add_host"] == [
        {"nqn": NQN, "nsid": 2, "host": other}]
    file = tmp_path / "saved.json"
    for command in ("save_config", "load_config"):
        assert subprocess.run([NVMFSPEC, "ctl", "-s", target.path, command, file],
                              timeout=30).returncode == 0
        if command == "save_config":
            target.stop()
            target = options(name="second.sock")
    port = target.call("nvmf_subsystem_get_listeners", nqn=NQN)[0]["address"]["trsvcid"]
    assert namespaces(target, port, HOST) == [1] and namespaces(target, port, other) == [1, 2]
    # A namespace with the NSID of one that is gone begins again.
    target.call("nvmf_subsystem_remove_ns", **at)
    target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace=hidden)
    assert namespaces(target, port, other) == [1]


@pytest.mark.calm(0.3)
def test_masking_under_load(target):
    """Whose namespace is taken away gets Invalid Field, again and again; others notice nothing."""
    port = target.serve()
    other = HOST[:-1] + "2"
    target.call("nvmf_subsystem_add_ns", nqn=NQN,
                namespace={"bdev_name": "mem:8M", "nsid": 2, "no_auto_visible": True})
    at = {"nqn": NQN, "nsid": 2}
    for host in (HOST, other):
        target.call("nvmf_ns_add_host", host=host, **at)
    keeps = target.load(port, 6, "-q", other, "-N", "2")
    mine = target.load(port, 6, "-q", HOST)
    while len(target.call("nvmf_subsystem_get_qpairs", nqn=NQN)) < 18 and keeps.poll() is None:
        time.sleep(0.02)
    lost = 0
    for _ in range(8):
        loses = subprocess.Popen(
            [NVMFSPEC, "host", "perf", "-a", "127.0.0.1", "-s", port, "-n", NQN, "-q", HOST, "-N", "2", "--rw",
             "randread", "--bs", "4k", "--iodepth", "32", "--time", "20"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        time.sleep(0.4)
        target.call("nvmf_ns_remove_host", host=HOST, **at)
        out = loses.communicate(timeout=30)[0]
        assert loses.returncode != 0, out
        lost += "Invalid Field" in out  # or it had not begun yet
        assert namespaces(target, port, HOST) == [1]
        target.call("nvmf_ns_add_host", host=HOST, **at)
        assert namespaces(target, port, HOST) == [1, 2]
    assert lost > 0
    assert keeps.wait(30) == 0, keeps.stdout.read()
    assert mine.wait(30) == 0, mine.stdout.read()


def test_hosts(target):
    port = target.serve()
    assert target.call("nvmf_subsystem_allow_any_host", nqn=NQN, allow_any_host=False) is True
    assert target.host("identify", port, "-q", HOST).returncode != 0
    assert target.call("nvmf_subsystem_add_host", nqn=NQN, host=HOST) is True
    target.refuses(INTERNAL, "nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    assert target.host("identify", port, "-q", HOST).returncode == 0
    assert target.call("nvmf_get_subsystems", nqn=NQN)[0]["hosts"] == [{"nqn": HOST}]
    assert target.call("nvmf_subsystem_remove_host", nqn=NQN, host=HOST) is True
    assert target.host("identify", port, "-q", HOST).returncode != 0


def test_keys(target, tmp_path):
    """Keys belong to a host of a subsystem; two subsystems may have others."""
    key = tmp_path / "host.key"
    key.write_text(KEY + "\n")
    key.chmod(0o644)
    target.refuses(-1, "keyring_file_add_key", name="key0", path=str(key))
    key.chmod(0o600)
    target.refuses(-1, "keyring_file_add_key", name="key0", path="host.key")
    target.refuses(-2, "keyring_file_add_key", name="key0", path=str(tmp_path / "none"))
    assert target.call("keyring_file_add_key", name="key0", path=str(key)) is True
    target.refuses(-17, "keyring_file_add_key", name="key0", path=str(key))
    assert target.call("keyring_get_keys")[0]["name"] == "key0"
    port = target.serve()
    target.call("nvmf_subsystem_allow_any_host", nqn=NQN, allow_any_host=False)
    target.refuses(PARAMS, "nvmf_subsystem_add_host", nqn=NQN, host=HOST, dhchap_key="key9")
    target.call("nvmf_subsystem_add_host", nqn=NQN, host=HOST, dhchap_key="key0")
    assert target.call("nvmf_get_subsystems", nqn=NQN)[0]["hosts"] == [
        {"nqn": HOST, "dhchap_key": "key0"}]
    assert target.host("identify", port, "-q", HOST).returncode != 0
    assert target.host("identify", port, "-q", HOST, "-S", f"@{key}").returncode == 0
    load = target.load(port, 2, "-q", HOST, "-S", f"@{key}")
    for _ in range(100):
        queues = target.call("nvmf_subsystem_get_qpairs", nqn=NQN)
        if len(queues) == 9 and {q["state"] for q in queues} == {"enabled"}:
            break
        time.sleep(0.05)
    assert [q["auth"]["state"] for q in queues] == ["completed"] * 9
    assert queues[0]["auth"]["digest"].startswith("sha") and "dhgroup" in queues[0]["auth"]
    # Other keys are for who comes: who is there stays.
    other = tmp_path / "other.key"
    other.write_text(OTHER_KEY + "\n")
    other.chmod(0o600)
    target.call("keyring_file_add_key", name="key1", path=str(other))
    target.refuses(-22, "nvmf_subsystem_set_keys", nqn=NQN, host=HOST + "2", dhchap_key="key1")
    assert target.call("nvmf_subsystem_set_keys", nqn=NQN, host=HOST, dhchap_key="key1") is True
    assert target.host("identify", port, "-q", HOST, "-S", f"@{key}").returncode != 0
    assert target.host("identify", port, "-q", HOST, "-S", f"@{other}").returncode == 0
    assert load.wait(30) == 0, load.stdout.read()
    assert target.call("nvmf_subsystem_set_keys", nqn=NQN, host=HOST) is True
    assert target.host("identify", port, "-q", HOST).returncode == 0
    assert target.call("keyring_file_remove_key", name="key0") is True
    target.refuses(-2, "keyring_file_remove_key", name="key0")


TLS_KEY = "NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:"


def add_key(target, name, file, text):
    file.write_text(text + "\n")
    file.chmod(0o600)
    target.call("keyring_file_add_key", name=name, path=str(file))
    return f"@{file}"


def test_secure_channel(target, tmp_path):
    """A listener without plain TCP, and hosts with a PSK of the keyring, as SPDK's guide sets them up."""
    psk = add_key(target, "psk0", tmp_path / "psk", TLS_KEY)
    dhchap = add_key(target, "key0", tmp_path / "dhchap", KEY)
    target.serve()
    target.call("nvmf_subsystem_allow_any_host", nqn=NQN, allow_any_host=False)
    assert target.call("nvmf_subsystem_add_listener", nqn=NQN, listen_address=place(), secure_channel=True) is True
    port = target.call("nvmf_subsystem_get_listeners", nqn=NQN)[-1]["address"]["trsvcid"]
    target.refuses(PARAMS, "nvmf_subsystem_add_host", nqn=NQN, host=HOST, psk="key0")  # a key of another form
    target.call("nvmf_subsystem_add_host", nqn=NQN, host=HOST, psk="psk0")
    assert target.host("identify", port, "-q", HOST).returncode != 0
    assert target.host("identify", port, "-q", HOST, "--tls-key", psk).returncode == 0
    assert target.host("identify", port, "-q", HOST + "2", "--tls-key", psk).returncode != 0
    assert target.call("nvmf_subsystem_set_keys", nqn=NQN, host=HOST, dhchap_key="key0") is True
    assert target.host("identify", port, "-q", HOST, "--tls-key", psk).returncode != 0
    assert target.host("identify", port, "-q", HOST, "--tls-key", psk, "-S", dhchap).returncode == 0
    assert target.refuses(PARAMS, "nvmf_subsystem_add_listener", nqn=DISCOVERY, listen_address=place(port))
    calls = target.call("framework_get_config", name="nvmf")
    assert {"nqn": NQN, "host": HOST, "psk": "psk0", "dhchap_key": "key0"} in \
        [c["params"] for c in calls if c["method"] == "nvmf_subsystem_add_host"]
    assert [c["params"]["secure_channel"] for c in calls if c["method"] == "nvmf_subsystem_add_listener"] == \
        [False, True]


def test_discovery_and_referrals(target):
    port = target.serve()
    assert target.call("nvmf_subsystem_add_listener", nqn=DISCOVERY, listen_address=place()) is True
    own = target.call("nvmf_subsystem_get_listeners", nqn=DISCOVERY)[0]["address"]["trsvcid"]
    assert own != port
    for ip in ("127.0.0.2", "127.0.0.3"):
        assert target.call("nvmf_discovery_add_referral", address=place("4430", traddr=ip)) is True
    assert target.call("nvmf_discovery_add_referral",
                       address=place("4430", traddr="127.0.0.3")) is True  # there already
    shown = target.call("nvmf_discovery_get_referrals")
    assert [r["address"]["traddr"] for r in shown] == ["127.0.0.2", "127.0.0.3"]
    assert shown[0]["subnqn"] == DISCOVERY and shown[0]["secure_channel"] is False
    found = subprocess.run([NVMFSPEC, "host", "discover", "-t", "tcp", "-a", "127.0.0.1", "-s", own],
                           capture_output=True, text=True, timeout=30).stdout
    assert "127.0.0.2" in found and "127.0.0.3" in found
    assert target.call("nvmf_discovery_remove_referral",
                       address=place("4430", traddr="127.0.0.2")) is True
    target.refuses(INTERNAL, "nvmf_discovery_remove_referral",
                   address=place("4430", traddr="127.0.0.2"))
    for nowhere in ({"trtype": "TCP", "traddr": "127.0.0.2"}, place("", traddr="127.0.0.2")):
        assert "Service ID is required" in target.refuses(
            INTERNAL, "nvmf_discovery_add_referral", address=nowhere)
    # One to a subsystem is another one than that to the discovery service of the same address.
    there = place("4430", traddr="127.0.0.3")
    target.refuses(INTERNAL, "nvmf_discovery_add_referral", address=there, subnqn="x")
    assert target.call("nvmf_discovery_add_referral", address=there, subnqn=HOST) is True
    assert target.call("nvmf_discovery_add_referral", address=there, subnqn=DISCOVERY) is True
    assert sorted(r["subnqn"] for r in target.call("nvmf_discovery_get_referrals")) == [
        HOST, DISCOVERY]
    assert [(e["subnqn"], e["subtype"]) for e in target.discover(own) if e["traddr"] == "127.0.0.3"
            ] == [(DISCOVERY, "discovery subsystem referral"), (HOST, "nvme subsystem")]
    assert target.call("nvmf_discovery_remove_referral", address=there) is True
    assert [r["subnqn"] for r in target.call("nvmf_discovery_get_referrals")] == [HOST]
    target.refuses(PARAMS, "nvmf_subsystem_remove_listener", nqn=DISCOVERY,
                   listen_address={"trtype": "TCP", "traddr": "127.0.0.1"})
    assert target.call("nvmf_subsystem_remove_listener", nqn=DISCOVERY,
                       listen_address=place(own)) is True
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", int(own)), 2).close()


def test_discovery_filters(options, tmp_path):
    """A target that is driven by calls lists what it has on all its ports, as far as it is told to."""
    t = options()
    port = t.serve()
    t.call("nvmf_subsystem_add_listener", nqn=DISCOVERY, listen_address=place())
    own = t.call("nvmf_subsystem_get_listeners", nqn=DISCOVERY)[0]["address"]["trsvcid"]

    def shown(target, at):
        return [e["trsvcid"] for e in target.discover(at) if e["subnqn"] == NQN]

    assert shown(t, own) == shown(t, port) == [port]
    t.call("nvmf_subsystem_add_listener", nqn=NQN, listen_address=place())
    assert len(shown(t, own)) == 2
    t.stop()
    for filters, seen in ((["transport", "address"], 1), (["svcid"], 0), (["match_any"], 1), ([], 1)):
        t = options("--wait-for-rpc")
        assert t.call("nvmf_set_config", discovery_filters=filters) is True
        t.call("framework_start_init")
        t.serve()
        t.call("nvmf_subsystem_add_listener", nqn=DISCOVERY, listen_address=place())
        own = t.call("nvmf_subsystem_get_listeners", nqn=DISCOVERY)[0]["address"]["trsvcid"]
        assert len(shown(t, own)) == seen, filters
        t.stop()
    t = options("--wait-for-rpc")
    for wrong in ({"discovery_filter": "transport,"}, {"discovery_filter": "match_any,svcid"},
                  {"discovery_filters": ["port"]}, {"discovery_filters": ["match_any", "svcid"]}):
        t.refuses(PARAMS, "nvmf_set_config", **wrong)
    assert t.call("nvmf_set_config", discovery_filter="transport,svcid") is True
    t.stop()
    # One that has its ports from elsewhere keeps them apart.
    t = options("-s", "0", "--listen", "127.0.0.1:0", "-n", NQN, "--ns", "mem:1M")
    ports = [a["address"]["trsvcid"] for a in t.call("nvmf_subsystem_get_listeners", nqn=NQN)]
    assert len(ports) == 2 and [shown(t, p) for p in ports] == [[p] for p in ports]


def test_targets(target):
    """Others than nvmf_tgt are names, as in SPDK's program, where nobody serves them."""
    assert target.call("nvmf_get_targets") == ["nvmf_tgt"]
    assert target.call("nvmf_create_target", name="nvmf_tgt_1", max_subsystems=32) == "nvmf_tgt_1"
    assert target.call("nvmf_create_target", name="nvmf_tgt_2") == "nvmf_tgt_2"
    assert target.call("nvmf_get_targets") == ["nvmf_tgt", "nvmf_tgt_1", "nvmf_tgt_2"]
    for name in ("nvmf_tgt", "nvmf_tgt_2"):
        assert "already exists" in target.refuses(PARAMS, "nvmf_create_target", name=name)
    target.refuses(INTERNAL, "nvmf_create_target", name="x" * 256)
    target.refuses(INTERNAL, "nvmf_create_subsystem", nqn=NQN, tgt_name="nvmf_tgt_1")
    assert target.call("nvmf_delete_target", name="nvmf_tgt_1") is True
    assert "doesn't exist" in target.refuses(PARAMS, "nvmf_delete_target", name="nvmf_tgt_1")
    target.refuses(PARAMS, "nvmf_delete_target", name="nvmf_tgt")
    assert target.call("nvmf_get_targets") == ["nvmf_tgt", "nvmf_tgt_2"]


def test_bdevs(target, tmp_path):
    """What is written stays when a namespace goes and comes back; layers delay and fail commands."""
    port = target.serve()
    data = ("-N", "1", "--blocks", "16", "--pattern", "0xa5")
    assert target.host("write", port, *data).returncode == 0
    target.call("nvmf_subsystem_remove_ns", nqn=NQN, nsid=1)
    assert target.host("compare", port, *data).returncode == 1
    assert target.call("bdev_delay_create", name="Delay0", base_bdev_name="Malloc0",
                       avg_read_latency=1000, p99_read_latency=1000, avg_write_latency=400000,
                       p99_write_latency=400000) == "Delay0"
    assert "in use" in target.refuses(PARAMS, "nvmf_subsystem_add_ns", nqn=NQN,
                                      namespace={"bdev_name": "Malloc0"})
    target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "Delay0"})
    assert target.host("compare", port, *data).returncode == 0
    perf = ("perf", port, "-N", "1", "--iodepth", "1", "--bs", "4k", "--time", "2", "-o", "json",
            "--rw")
    slow = json.loads(target.host(*perf, "randwrite").stdout)
    assert slow["write"]["latency_us"]["min"] >= 400000
    for which in ("avg_write", "p99_write"):
        target.call("bdev_delay_update_latency", delay_bdev_name="Delay0", latency_type=which,
                    latency_us=0)
    before = target.call("bdev_get_iostat", name="Delay0")["bdevs"][0]["num_write_ops"]
    target.host(*perf, "randwrite")
    assert target.call("bdev_get_iostat", name="Delay0")["bdevs"][0]["num_write_ops"] > before + 50
    for other in ("Malloc0", "None"):
        assert "does not exist" in target.refuses(
            PARAMS, "bdev_delay_update_latency", delay_bdev_name=other, latency_type="avg_read",
            latency_us=1)
    target.refuses(-22, "bdev_delay_create", name="Delay1", base_bdev_name="Delay0",
                   avg_read_latency=2, p99_read_latency=1, avg_write_latency=0, p99_write_latency=0)
    target.refuses(-19, "bdev_get_iostat", names=["Malloc0", "None"])
    assert [b["name"] for b in target.call("bdev_get_iostat", names=["Delay0", "Malloc0"])[
        "bdevs"]] == ["Delay0", "Malloc0"]
    shown = target.call("bdev_get_bdevs", name="Delay0")[0]["driver_specific"]["delay"]
    assert shown["base_bdev_name"] == "Malloc0" and shown["avg_write_latency"] == 0
    # Pulling the disk takes layers and namespaces along.
    assert target.call("bdev_malloc_delete", name="Malloc0") is True
    assert target.call("bdev_get_bdevs") == []
    assert target.call("nvmf_get_subsystems", nqn=NQN)[0]["namespaces"] == []

    disk = tmp_path / "disk"
    disk.write_bytes(bytes(4 << 20))
    assert target.call("bdev_aio_create", name="Aio0", filename=str(disk), block_size=4096) == "Aio0"
    target.refuses(-2, "bdev_aio_create", name="Aio1", filename=str(disk) + "x")
    assert target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "Aio0"}) == 1
    os.truncate(disk, 8 << 20)
    assert target.call("bdev_aio_rescan", name="Aio0") is True
    assert target.call("bdev_get_bdevs", name="Aio0")[0]["num_blocks"] == 2048
    assert target.call("bdev_null_create", name="Null0", num_blocks=2048, block_size=512) == "Null0"
    assert target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "Null0"}) == 2
    assert target.call("bdev_null_resize", name="Null0", new_size=2) is True
    assert target.call("bdev_get_bdevs", name="Null0")[0]["num_blocks"] == 4096
    assert json.loads(target.host("identify", port, "ns", "-N", "2", "-o", "json").stdout)["nsze"] == 4096


def test_errors_on_request(target):
    target.serve()
    target.call("nvmf_subsystem_remove_ns", nqn=NQN, nsid=1)
    assert target.call("bdev_error_create", base_name="Malloc0") is True
    target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "EE_Malloc0"})
    port = target.call("nvmf_subsystem_get_listeners", nqn=NQN)[0]["address"]["trsvcid"]
    verify = ("verify", port, "-N", "1", "--range", "1M", "--time", "1")
    assert target.host(*verify).returncode == 0
    target.refuses(-22, "bdev_error_inject_error", name="EE_Malloc0", io_type="read",
                   error_type="nvme_failure")
    target.refuses(-22, "bdev_error_inject_error", name="EE_Malloc0", io_type="read",
                   error_type="failure", nvme_sct=2)
    assert target.call("bdev_error_inject_error", name="EE_Malloc0", io_type="read",
                       error_type="nvme_failure", nvme_sct=2, nvme_sc=0x81, num=1) is True
    failed = target.host(*verify)
    assert failed.returncode != 0 and re.search(r"2/81h|Unrecovered", failed.stderr + failed.stdout)
    assert target.host(*verify).returncode == 0
    target.call("bdev_error_inject_error", name="EE_Malloc0", io_type="write",
                error_type="corrupt_data", num=2, corrupt_offset=5, corrupt_value=0xa5)
    assert target.host(*verify).returncode != 0
    target.call("bdev_error_inject_error", name="EE_Malloc0", io_type="all", error_type="failure",
                num=1000000)
    assert target.host(*verify).returncode != 0
    target.call("bdev_error_inject_error", name="EE_Malloc0", io_type="clear", error_type="failure")
    assert target.host(*verify).returncode == 0


def test_states(options):
    """--wait-for-rpc: what waits is answered once it has begun; some methods are for before, some after."""
    t = options("--wait-for-rpc")
    t.refuses(-1, "nvmf_get_subsystems")
    assert "nvmf_set_max_subsystems" in t.call("rpc_get_methods", current=True)
    assert "nvmf_get_subsystems" not in t.call("rpc_get_methods", current=True)
    assert "nvmf_get_subsystems" in t.call("rpc_get_methods")
    assert t.call("nvmf_set_max_subsystems", max_subsystems=1) is True
    assert t.call("nvmf_set_config", dhchap_digests=["sha384"], dhchap_dhgroups=["null"]) is True
    assert "not supported" in t.refuses(PARAMS, "nvmf_set_config",
                                        dup_host_policy="restrict_per_listener")
    assert "not supported" in t.refuses(PARAMS, "nvmf_set_crdt", crdt1=0, crdt2=5)
    waiting = Client(t.path)
    waiting.send('{"id": 1, "method": "framework_wait_init"}{"id": 2, "method": "spdk_get_version"}')
    time.sleep(0.3)
    assert t.call("framework_start_init") is True
    assert waiting.receive() == {"jsonrpc": "2.0", "id": 1, "result": True}
    assert waiting.receive()["id"] == 2
    t.refuses(-1, "nvmf_set_max_subsystems", max_subsystems=2)
    saved = {c["method"]: c["params"] for c in t.call("framework_get_config", name="nvmf")}
    assert saved["nvmf_set_max_subsystems"] == {"max_subsystems": 1}
    assert saved["nvmf_set_config"] == {"discovery_filters": [], "dhchap_digests": ["sha384"],
                                        "dhchap_dhgroups": ["null"]}
    assert t.call("nvmf_create_subsystem", nqn=NQN) is True
    t.refuses(INTERNAL, "nvmf_create_subsystem", nqn=NQN + "2")


def test_requests(target):
    """Requests in pieces, one after the other and several at once; ids; notifications."""
    c = Client(target.path)
    version = '{"jsonrpc": "2.0", "id": %s, "method": "spdk_get_version"}'
    for piece in version % 1:
        c.send(piece)
    assert c.receive()["id"] == 1
    c.send("\n".join(version % i for i in range(200)))
    assert [c.receive()["id"] for _ in range(200)] == list(range(200))
    for id_ in ('"text"', "-3", "1.5"):
        c.send(version % id_)
        assert json.dumps(c.receive()["id"]) == id_
    c.send('{"method": "spdk_get_version"}{"method": "nothing"}' + version % 9)
    answer = c.receive()
    assert answer["id"] is None and answer["error"]["code"] == NO_METHOD
    assert c.receive()["id"] == 9
    c.send("[%s, 5, %s, {\"method\": \"spdk_get_version\"}]" % (version % 1, version % 2))
    answers = c.receive()
    assert [a["id"] for a in answers] == [1, None, 2] and answers[1]["error"]["code"] == INVALID
    for wrong in ("[]", '{"id": 1}', '{"id": 1, "method": 2}', '{"id": {}, "method": "x"}',
                  '{"id": 1, "method": "spdk_get_version", "params": 1}',
                  '{"jsonrpc": "1.0", "id": 1, "method": "spdk_get_version"}',
                  '{"id": 1, "method": "spdk_get_version", "more": 1}'):
        c.send(wrong)
        assert c.receive()["error"]["code"] == INVALID, wrong
    c.send('{"id": 1, "method": "nvmf_get_subsystems", "params": []}')
    assert c.receive()["error"]["code"] == PARAMS
    c.send('{"id": 1, "method": "nvmf_get_subsystems", "params": null}')
    assert "result" in c.receive()


HOSTILE = {
    "not JSON": b"hello\n", "binary": bytes(range(256)), "single quotes": b"{'id': 1}",
    "unfinished": b'{"id": 1, "method": ', "deep": b"[" * 100000, "deep objects": b'{"a":' * 5000,
    "long string": b'{"method": "' + b"x" * (1 << 20), "spaces": b'{"a": ' + b" " * (1 << 19),
    "bad UTF-8": b'{"method": "\xff\xfe"}', "number": b"12345678", "comma": b'{"id": 1,}',
    "batch too long": b"[" + b",".join([b"1"] * 5000) + b"]",
    "NaN": b'{"id": NaN, "method": "x"}', "comment": b'/* */{"id": 1}',
    "huge number": b'{"id": ' + b"9" * 400 + b', "method": "x"}',
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile(target, what):
    """Whoever sends this is answered or closed; others, and hosts, notice nothing."""
    port = target.serve()
    load = target.load(port, 1)
    bad = Client(target.path)
    with contextlib.suppress(OSError):
        bad.send(HOSTILE[what])
        bad.socket.shutdown(socket.SHUT_WR)
        while bad.socket.recv(65536):
            pass
    assert target.call("spdk_get_version")
    assert load.wait(30) == 0, load.stdout.read()


ELSE = "nqn.2016-06.io.spdk:else"
CALLS = [json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() for method, params in (
    ("rpc_get_methods", {}), ("nvmf_get_subsystems", {}), ("bdev_get_bdevs", {}), ("nvmfspec_get_queues", {}),
    ("framework_get_config", {"name": "nvmf"}), ("nvmf_create_subsystem", {"nqn": ELSE, "serial_number": "1"}),
    ("nvmf_subsystem_add_host", {"nqn": ELSE, "host": HOST}), ("nvmf_delete_subsystem", {"nqn": ELSE}),
    ("bdev_null_create", {"name": "Else", "num_blocks": 2048, "block_size": 512}),
    ("nvmf_subsystem_add_ns", {"nqn": ELSE, "namespace": {"bdev_name": "Else", "nsid": 1}}),
    ("bdev_null_delete", {"name": "Else"}), ("nvmf_discovery_get_referrals", {}))]


def malformed(r, _):
    """Calls of which some bytes are others, more or fewer, several in a row."""
    text = bytearray(b"".join(r.choices(CALLS, k=r.randrange(1, 6))))
    for _ in range(r.randrange(1, 9)):
        at = r.randrange(len(text))
        text[at:at + r.randrange(2)] = bytes(r.choices(b'{}[]",:\\u0x9e-+.\0\xff\n tfn', k=r.randrange(3)))
    return bytes(text)


def partial(r, kept):
    """The beginning of a call; its connection stays for a while, with some others."""
    kept.append(kept[-1])
    return r.choice(CALLS)[:r.randrange(1, 40)]


def pipelined(r, _):
    """Many calls and batches, of which no answer is read."""
    batch = b"[" + b",".join(r.choices(CALLS, k=50)) + b"]"
    return b"".join(r.choices([*CALLS, batch], k=300))


def hostile(r, _):
    return r.choice(list(HOSTILE.values()))


def attack(path, seed, ends):
    """A client after the other, until it ends; how many there were."""
    r, n, kept = random.Random(seed), 0, []
    while not ends.is_set():
        n += 1
        kept = kept[-4:]
        with contextlib.suppress(OSError):
            c = Client(path)
            c.socket.settimeout(1)
            kept.append(c)
            what = r.choice([malformed, malformed, partial, pipelined, hostile])(r, kept)
            for at in range(0, len(what), step := r.choice([1, 7, 65536]) if len(what) < 2000 else 65536):
                c.send(what[at:at + step])
            if r.randrange(2):
                c.socket.recv(65536)
        if r.randrange(4):
            kept[-1:] = []
    return n


@pytest.mark.timeout(120 + 2 * ATTACK)
def test_nothing_sent_there_stops_the_data_path(tmp_path):
    """Malformed, partial, pipelined and hostile requests from all sides while eight queues verify what they write: the
    count of their writes goes on all the time, and who speaks properly is answered."""
    target = Target(tmp_path / "rpc.sock", "--reactors", "2", program=UNDER_TEST)
    port = target.serve()
    watch, ends = Client(target.path), threading.Event()

    def written():
        answer = watch.ask({"id": 1, "method": "bdev_get_iostat", "params": {"name": "Malloc0"}})
        return answer["result"]["bdevs"][0]["num_write_ops"]

    load = target.load(port, ATTACK)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(attack, target.path, seed, ends) for seed in range(4)]
        try:
            while load.poll() is None:
                before, until = written(), time.monotonic() + 20
                while load.poll() is None and written() == before:
                    assert time.monotonic() < until, "no write in 20 s"
                    time.sleep(0.01)
        finally:
            ends.set()
        assert load.wait(60) == 0, load.stdout.read()
        assert sum(c.result(60) for c in clients) > 20
    assert watch.ask({"id": 2, "method": "spdk_get_version"})["id"] == 2
    assert not re.search("Sanitizer|runtime error", target.stop())


def test_clients(target):
    """More clients than there may be, clients that read nothing, clients that leave: the rest is served."""
    deaf = Client(target.path)
    deaf.socket.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            deaf.send('{"id": 1, "method": "rpc_get_methods"}' * 100)
    crowd = [Client(target.path) for _ in range(29)]
    assert target.call("spdk_get_version")
    for _ in range(50):
        c = Client(target.path)
        c.send('{"id": 1, "method": "rpc_get_methods"}')
        c.socket.close()
    more = [Client(target.path) for _ in range(8)]
    more[-1].send('{"id": 1, "method": "rpc_get_methods"}')
    assert "too many clients" in more[-1].receive()["error"]["message"]
    assert more[-1].receive() is None
    for c in crowd + more:
        c.socket.close()
    deaf.socket.close()
    for _ in range(400):  # until it has seen them go
        with contextlib.suppress(OSError, AssertionError, ValueError):
            if target.call("spdk_get_version"):
                break
        time.sleep(0.05)
    assert target.call("spdk_get_version")


def test_socket(target, tmp_path):
    assert stat.S_IMODE(target.path.stat().st_mode) == 0o600
    second = subprocess.run([NVMFSPEC, "target", "--rpc", str(target.path)], capture_output=True,
                            text=True, timeout=20)
    assert second.returncode == 2 and "Address already in use" in second.stderr
    assert target.call("spdk_get_version")  # still the first one's
    stale = tmp_path / "stale.sock"
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
        s.bind(str(stale))
    t = Target(stale)
    assert t.call("spdk_get_version")
    t.stop()
    assert not stale.exists()
    plain = tmp_path / "file"
    plain.write_text("kept")
    refused = subprocess.run([NVMFSPEC, "target", "--rpc", str(plain)], capture_output=True,
                             timeout=20)
    assert refused.returncode == 2 and plain.read_text() == "kept"


def test_tcp_with_token(options, tmp_path, free_port):
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    port = free_port()
    options("--rpc-listen", f"127.0.0.1:{port}", "--rpc-token", f"@{token}")

    def say(*requests):
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), 10)) as s:
            for r in requests:
                s.sendall(json.dumps(r).encode())
            got = b""
            while got.count(b"\n") < len(requests):
                more = s.recv(65536)
                if not more:
                    break
                got += more
            return [json.loads(line) for line in got.splitlines()]

    login = {"id": 1, "method": "nvmfspec_login", "params": {"token": "0123456789abcdef"}}
    version = {"id": 2, "method": "spdk_get_version"}
    assert "result" in say(login, version)[1]
    for wrong in (version, {**login, "params": {"token": "0123456789abcdeg"}},
                  {**login, "params": {"token": ""}}, {**login, "params": {}},
                  {**login, "params": {"token": 5}}, [login]):
        answers = say(wrong, version)
        assert len(answers) == 1 and answers[0]["error"]["code"] == INVALID
    ctl = [NVMFSPEC, "ctl", "--connect", f"127.0.0.1:{port}"]
    assert subprocess.run([*ctl, "--token", f"@{token}", "spdk_get_version"], timeout=20,
                          stdout=subprocess.DEVNULL).returncode == 0
    token.write_text("another-token-0123\n")
    assert subprocess.run([*ctl, "--token", f"@{token}", "spdk_get_version"], timeout=20,
                          stderr=subprocess.DEVNULL).returncode == 1
    assert subprocess.run([NVMFSPEC, "target", "--rpc-listen", "127.0.0.1:0"],
                          stderr=subprocess.DEVNULL, timeout=20).returncode == 2


def test_strangers(options, tmp_path, free_port):
    """Who connects over TCP and has no token takes no place of those who may call: neither of the Unix socket's clients,
    nor of the next one with the token."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    port = free_port()
    t = options("--rpc-listen", f"127.0.0.1:{port}", "--rpc-token", f"@{token}")
    with contextlib.ExitStack() as crowd:
        strangers = [crowd.enter_context(socket.create_connection(("127.0.0.1", port), 10))
                     for _ in range(40)]
        assert t.call("spdk_get_version")
        with_token = subprocess.run([NVMFSPEC, "ctl", "--connect", f"127.0.0.1:{port}", "--token",
                                     f"@{token}", "spdk_get_version"], timeout=20,
                                    capture_output=True, text=True)
        assert with_token.returncode == 0, with_token.stderr
        assert strangers[0].recv(1) == b""  # the oldest made room
        # Those who may call are as many as before, and one more is told why it may not.
        for _ in range(32):
            local = Client(t.path)
            crowd.enter_context(local.socket)
            assert "result" in local.ask({"id": 1, "method": "spdk_get_version"})
        full = subprocess.run([NVMFSPEC, "ctl", "--connect", f"127.0.0.1:{port}", "--token",
                               f"@{token}", "spdk_get_version"], timeout=20, capture_output=True,
                              text=True)
        assert full.returncode == 1 and "has too many clients" in full.stderr


def test_out_of_descriptors(options, tmp_path, free_port):
    """Who waits to be accepted while there is no descriptor keeps no thread busy, and is served once there is one."""
    def busy():  # seconds of processor time
        return sum(map(int, pathlib.Path(f"/proc/{t.process.pid}/stat").read_text().split()[13:15])) / 100

    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    rpc, metrics = free_port(), free_port()
    t = options("--rpc-listen", f"127.0.0.1:{rpc}", "--rpc-token", f"@{token}", "--metrics", f":{metrics}")
    soft, hard = resource.prlimit(t.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(t.process.pid, resource.RLIMIT_NOFILE, (3, hard))  # what is open stays so
    with socket.create_connection(("127.0.0.1", metrics), 10) as page, Client(t.path).socket as local:
        before = busy()
        time.sleep(1)
        assert busy() - before < 0.5
        resource.prlimit(t.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
        page.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        local.sendall(b'{"id": 1, "method": "spdk_get_version"}')
        assert page.recv(16).startswith(b"HTTP/1.1 200") and b"nvmfspec" in local.recv(65536)


def test_last_words_are_not_overtaken(options, tmp_path, free_port):
    """Who is turned away and goes on sending is not reset before it has read why."""
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    port = free_port()
    options("--rpc-listen", f"127.0.0.1:{port}", "--rpc-token", f"@{token}")
    for wrong in b'{"id": 1, "method": "spdk_get_version"}', b"{]":
        with contextlib.closing(socket.create_connection(("127.0.0.1", port), 10)) as s:
            s.sendall(wrong)
            select.select([s], [], [], 10)
            time.sleep(0.2)
            for _ in range(3):
                s.sendall(b'{"id": 2, "method": "spdk_get_version"}')
                time.sleep(0.05)
            assert b"error" in s.recv(65536) and s.recv(1) == b""


def test_rules_live(target):
    """A rule that is violated from now on shows on the connection that is there, and ends when told to."""
    port = target.serve()
    rule = "tcp/c2hdata/datao"
    target.refuses(PARAMS, "nvmfspec_violate", rule="tcp/none")
    target.refuses(PARAMS, "nvmfspec_violate", rule="tcp/none", on=False)
    load = target.load(port, 20)
    time.sleep(1)
    assert load.poll() is None
    assert target.call("nvmfspec_violate", rule=rule) is True
    assert target.call("nvmfspec_get_policy") == {"waived": [], "violated": [rule]}
    assert load.wait(15) != 0
    assert target.call("nvmfspec_violate", rule=rule, on=False) is True
    assert target.call("nvmfspec_get_policy") == {"waived": [], "violated": []}
    again = target.host("verify", port, "-N", "1", "--range", "1M", "--time", "1")
    assert again.returncode == 0, again.stderr
    assert target.call("nvmfspec_waive", rule="tcp/digest/hdgst-h2c") is True
    assert target.call("nvmfspec_get_policy")["waived"] == ["tcp/digest/hdgst-h2c"]


def controllers_with(target, *queues):
    """When there is one for each number, and has so many I/O queues."""
    end = time.monotonic() + 60
    while True:
        controllers = target.call("nvmf_subsystem_get_controllers", nqn=NQN)
        if [c["num_io_qpairs"] for c in controllers] == list(queues):
            return controllers
        assert time.monotonic() < end, controllers
        time.sleep(0.05)


@pytest.mark.calm(0.3)
def test_disturb(target):
    port = target.serve()
    target.refuses(-2, "nvmfspec_kill", cntlid=77)
    target.refuses(-2, "nvmfspec_drop", cntlid=77, qid=0)
    for method, params in (("nvmfspec_kill", {"nqn": NQN}), ("nvmfspec_drop", {"qid": 1}),
                           ("nvmfspec_drop", {"qid": 1, "reset": True})):
        load = target.load(port, 20)
        controllers = controllers_with(target, 8)
        if "qid" in params:
            params = {**params, "cntlid": controllers[0]["cntlid"]}
        assert target.call(method, **params) in (1, True)
        assert load.wait(15) != 0
        controllers_with(target)  # none is left
    load = target.load(port, 3)
    cntlid = controllers_with(target, 8)[0]["cntlid"]
    assert target.call("nvmfspec_stall", cntlid=cntlid, qid=1, ms=700) is True
    assert target.call("nvmfspec_delay", cntlid=cntlid, qid=2, ms=300) is True
    assert target.call("nvmfspec_delay", cntlid=cntlid, qid=3, ms=300) is True
    assert target.call("nvmfspec_delay", cntlid=cntlid, qid=3, ms=0) is True
    assert load.wait(20) == 0, load.stdout.read()  # it waits, and works on
    controllers_with(target)
    perf = subprocess.Popen([NVMFSPEC, "host", "perf", "-t", "tcp", "-a", "127.0.0.1", "-s", port,
                             "-n", NQN, "-N", "1", "--rw", "randread", "--bs", "4k", "--iodepth",
                             "1", "--time", "3", "-o", "json"], stdout=subprocess.PIPE, text=True)
    cntlid = controllers_with(target, 1)[0]["cntlid"]
    assert target.call("nvmfspec_delay", cntlid=cntlid, qid=1, ms=200) is True
    assert json.loads(perf.communicate(timeout=30)[0])["read"]["latency_us"]["max"] >= 200000


def test_save_and_load(options, tmp_path):
    """What is saved makes another target the same; entries that are not known are reported one by one."""
    target = options()
    target.serve()
    target.call("bdev_null_create", name="Null0", num_blocks=2048, block_size=4096)
    target.call("bdev_delay_create", name="Delay0", base_bdev_name="Null0", avg_read_latency=1,
                p99_read_latency=2, avg_write_latency=3, p99_write_latency=4)
    target.call("bdev_error_create", base_name="Delay0")
    target.call("nvmf_subsystem_add_ns", nqn=NQN,
                namespace={"bdev_name": "EE_Delay0", "nsid": 7, "nguid": "0123456789ABCDEF" * 2})
    target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "mem:1M", "nsid": 9})
    target.call("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    target.call("nvmf_discovery_add_referral", address=place("8009", traddr="192.0.2.1"))
    file = tmp_path / "saved.json"
    assert subprocess.run([NVMFSPEC, "ctl", "-s", target.path, "save_config", file],
                          timeout=30).returncode == 0
    saved = json.loads(file.read_text())
    for part in target.call("framework_get_subsystems"):
        config = target.call("framework_get_config", name=part["subsystem"])
        assert {"subsystem": part["subsystem"], "config": config} in saved["subsystems"]
    target.stop()
    second = options(name="second.sock")
    load = [NVMFSPEC, "ctl", "-s", second.path, "load_config", file]
    done = subprocess.run(load, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    subprocess.run([NVMFSPEC, "ctl", "-s", second.path, "save_config", tmp_path / "again.json"],
                   check=True, timeout=30)
    assert json.loads((tmp_path / "again.json").read_text()) == saved
    second.stop()

    saved["subsystems"][0]["config"][:0] = [
        {"method": "sock_set_default_impl", "params": {"impl_name": "posix"}},
        [{"method": "iobuf_set_options", "params": {}}], {"params": {}}, 5]
    file.write_text(json.dumps(saved))
    third = options(name="third.sock")
    load[3] = third.path
    done = subprocess.run(load, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and done.stdout.endswith(", 4 failed\n")
    for name in ("sock_set_default_impl", "iobuf_set_options"):
        assert f"{name}: Method not found (-32601)" in done.stderr
    assert done.stderr.count("an entry has no method") == 2
    assert len(third.call("nvmf_get_subsystems")) == 2


def test_configuration_file(options, tmp_path):
    """SIGHUP reads the file in place of what the RPC has changed."""
    file = tmp_path / "target.json"

    def write(serial):
        file.write_text(json.dumps({
            "hosts": [], "ports": [{"portid": 1, "addr": place(trtype="tcp", adrfam="ipv4"),
                                    "subsystems": [NQN]}],
            "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1", "serial": serial},
                            "namespaces": [{"nsid": 1, "enable": 1,
                                            "device": {"path": "mem:1M"}}]}]}))

    write("one")
    t = options("--config", str(file))
    assert t.call("nvmf_get_subsystems", nqn=NQN)[0]["namespaces"][0]["bdev_name"] == "mem:1M"
    t.call("nvmf_create_subsystem", nqn=NQN + "2")
    assert t.call("nvmf_get_subsystems", nqn=NQN)[0]["serial_number"] == "one"
    write("two")
    t.process.send_signal(signal.SIGHUP)
    for _ in range(100):
        if t.call("nvmf_get_subsystems", nqn=NQN)[0]["serial_number"] == "two":
            break
        time.sleep(0.05)
    assert [s["nqn"] for s in t.call("nvmf_get_subsystems")] == [DISCOVERY, NQN]


def test_log_level(target):
    assert target.call("log_get_level") == "INFO"
    for level in ("ERROR", "WARNING", "NOTICE", "DEBUG"):
        assert target.call("log_set_print_level", level=level) is True
        assert target.call("log_get_level") == target.call("log_get_print_level") == level
    target.refuses(PARAMS, "log_set_level", level="LOUD")


def goes_on(target, load):
    """Until the namespace under load has been written to once more, or nobody does."""
    def writes():
        return target.call("bdev_get_iostat", name="Malloc0")["bdevs"][0]["num_write_ops"]

    before = writes()
    while writes() == before and load.poll() is None:
        time.sleep(0.002)


def churn_while_paused(target, load, i):
    """Namespaces come, change and go while their subsystem is paused, the one under load among them: how many
    changes, and how many commands waited."""
    def waiting():
        return next(s["waiting"] for s in target.call("nvmfspec_get_states")["subsystems"] if s["nqn"] == NQN)

    whole, also_this = i % 3 == 0, i % 3 < 2
    target.call("nvmfspec_subsystem_pause", nqn=NQN, **({} if whole else {"nsid": 1 if also_this else 0}))
    waited = 0
    while also_this and waited == 0 and load.poll() is None:
        time.sleep(0.002)
        waited = waiting()
    target.call("bdev_null_resize", name="Churn", new_size=1 + i % 3)
    if also_this:
        target.call("nvmf_subsystem_remove_ns", nqn=NQN, nsid=1)
        target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "Malloc0", "nsid": 1})
    target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "mem:1M", "nsid": 6})
    target.call("nvmf_subsystem_remove_ns", nqn=NQN, nsid=6)
    target.call("nvmfspec_subsystem_resume", nqn=NQN)
    return 5 + 2 * also_this, waited


def churn(target, load, i):
    """Changes of every kind, as churn_while_paused()."""
    other, there = NQN + "-other", place(traddr="127.0.0.2")
    late = target.call("nvmfspec_fault_add", fault="delay=1ms every=20 qid=1-8")
    target.call("nvmf_subsystem_add_ns", nqn=NQN,
                namespace={"bdev_name": "Churn", "nsid": 5, "no_auto_visible": i % 3 == 0})
    for method in ("nvmf_ns_add_host", "nvmf_ns_remove_host") if i % 3 == 0 else ():
        target.call(method, nqn=NQN, nsid=5, host=HOST)
    target.call("nvmf_subsystem_add_host", nqn=NQN, host=HOST)
    target.call("nvmf_create_subsystem", nqn=other, allow_any_host=i % 2 == 0)
    target.call("nvmf_subsystem_add_listener", nqn=other, listen_address=place())
    target.call("nvmf_subsystem_add_listener", nqn=NQN, listen_address=there)
    target.call("nvmf_discovery_add_referral", address=place("8009", traddr="127.0.0.9"))
    paused, waited = churn_while_paused(target, load, i)
    there["trsvcid"] = [a["address"]["trsvcid"] for a in target.call(
        "nvmf_subsystem_get_listeners", nqn=NQN) if a["address"]["traddr"] == "127.0.0.2"][0]
    target.call("nvmf_subsystem_remove_listener", nqn=NQN, listen_address=there)
    target.call("nvmf_subsystem_remove_ns", nqn=NQN, nsid=5)
    target.call("nvmf_subsystem_remove_host", nqn=NQN, host=HOST)
    target.call("nvmf_discovery_remove_referral", address=place("8009", traddr="127.0.0.9"))
    target.call("nvmf_delete_subsystem", nqn=other)
    target.call("nvmfspec_fault_list")
    target.call("nvmfspec_fault_remove", id=late)
    return 13 + paused, waited


def churn_under_load(target, port, count):
    """That many changes, each of them while eight queues verify what they write; none of these fails."""
    target.call("bdev_null_create", name="Churn", num_blocks=2048, block_size=512)
    done = rounds = waited = 0
    while done < count:
        load = target.load(port, 6)
        while len(target.call("nvmf_subsystem_get_qpairs", nqn=NQN)) < 9 and load.poll() is None:
            time.sleep(0.02)
        while done < count and load.poll() is None:
            goes_on(target, load)
            changes, late = churn(target, load, rounds)
            done, waited, rounds = done + changes, waited + late, rounds + 1
        assert load.wait(60) == 0, load.stdout.read()
    assert waited > 0
    return done


@pytest.mark.timeout(120 + CHANGES)
def test_changes_under_load(tmp_path):
    """Changes while eight queues verify what they write: no host sees an error, and nothing stays behind."""
    target = Target(tmp_path / "rpc.sock", "--reactors", "2", program=UNDER_TEST)
    port = target.serve()

    def files():
        return len(os.listdir(f"/proc/{target.process.pid}/fd"))

    before = files()
    print(f"{churn_under_load(target, port, CHANGES)} changes")
    end = time.monotonic() + 10
    while files() > before and time.monotonic() < end:
        time.sleep(0.05)
    assert files() <= before
    assert target.call("nvmf_subsystem_get_controllers", nqn=NQN) == []
    assert not re.search("Sanitizer|runtime error", target.stop())


@pytest.mark.tsan
@pytest.mark.timeout(300)
@pytest.mark.skipif(not os.environ.get("NVMFSPEC_TSAN"), reason="NVMFSPEC_TSAN names no build")
def test_changes_with_thread_sanitizer(tmp_path):
    """The same, and rules, levels, stalls and ends of associations, with the thread sanitizer."""
    target = Target(tmp_path / "rpc.sock", "--reactors", "3", program=os.environ["NVMFSPEC_TSAN"])
    port = target.serve()
    churn_under_load(target, port, 80)
    load = target.load(port, 8)
    while len(target.call("nvmf_subsystem_get_qpairs", nqn=NQN)) < 9:
        time.sleep(0.02)
    for level in ("ERROR", "INFO"):
        target.call("log_set_level", level=level)
    for on in (True, False):
        target.call("nvmfspec_waive", rule="tcp/digest/hdgst-h2c", on=on)
    cntlid = target.call("nvmf_subsystem_get_controllers", nqn=NQN)[0]["cntlid"]
    for method in ("nvmfspec_stall", "nvmfspec_delay"):
        target.call(method, cntlid=cntlid, qid=1, ms=100)
    target.call("nvmf_subsystem_get_qpairs", nqn=NQN)
    target.call("nvmf_get_stats")
    target.call("nvmfspec_delay", cntlid=cntlid, qid=1, ms=0)
    assert load.wait(60) == 0, load.stdout.read()
    load = target.load(port, 20)
    while not target.call("nvmf_subsystem_get_controllers", nqn=NQN):
        time.sleep(0.1)
    target.call("nvmfspec_violate", rule="tcp/c2hdata/datao")
    assert load.wait(60) != 0
    target.call("nvmfspec_violate", rule="tcp/c2hdata/datao", on=False)
    target.call("bdev_malloc_delete", name="Malloc0")
    assert "ThreadSanitizer" not in target.stop()


def test_limits_of_a_transport(options):
    """Buffers are made when the target starts, and a host that is connected was told the limits."""
    target = options("--reactors", "2", "--limit", "buffers=16M")
    assert "more than the buffers" in target.refuses(
        PARAMS, "nvmf_create_transport", trtype="TCP", max_io_size=4 << 20)
    target.call("nvmf_create_transport", trtype="TCP", max_io_size=2 << 20)
    port = target.serve()
    load = target.load(port, 2)
    for _ in range(100):
        if target.call("nvmf_subsystem_get_qpairs", nqn=NQN):
            break
        time.sleep(0.05)
    assert "hosts are connected" in target.refuses(
        PARAMS, "nvmf_create_transport", trtype="RDMA", max_io_size=65536)
    target.call("nvmf_create_transport", trtype="RDMA")
    assert load.wait(30) == 0, load.stdout.read()


def ctl(target, *args):
    return subprocess.run([NVMFSPEC, "ctl", "-s", target.path, *args], capture_output=True, text=True,
                          timeout=30)


def test_ctl(target, tmp_path):
    """Values are of the kind that the method asks for; tables for people, JSON for programs."""
    assert ctl(target, "nvmf_create_transport", "trtype=tcp", "in_capsule_data_size=8K").returncode == 0
    assert ctl(target, "bdev_malloc_create", "name=M0", "num_blocks=2K",
               "block_size=512").stdout == "M0\n"
    assert ctl(target, "nvmf_create_subsystem", f"nqn={NQN}", "serial_number=123",
               "allow_any_host=true").returncode == 0
    assert ctl(target, "nvmf_subsystem_add_ns", f"nqn={NQN}", "bdev_name=M0",
               "namespace.nsid=3").stdout == "3\n"
    assert ctl(target, "nvmf_subsystem_add_listener", f"nqn={NQN}", "trtype=tcp",
               "traddr=127.0.0.1", "listen_address.trsvcid=0").returncode == 0
    shown = json.loads(ctl(target, "--json", "nvmf_get_subsystems", f"nqn={NQN}").stdout)
    assert shown[0]["serial_number"] == "123" and shown[0]["namespaces"][0]["nsid"] == 3
    table = ctl(target, "bdev_get_bdevs").stdout.splitlines()
    assert table[0].split()[:2] == ["name", "aliases"] and table[1].startswith("M0 ")
    refused = ctl(target, "nvmf_delete_subsystem", "nqn=nqn.2016-06.io.spdk:none")
    assert refused.returncode == 1 and "not found (-32602)" in refused.stderr
    assert ctl(target, "nvmf_delete_subsystem", "nqn").returncode == 2
    assert ctl(target, "bdev_malloc_create", "num_blocks=many", "block_size=512").returncode == 2
    assert ctl(target, "no_such_method", "a=1").returncode == 1
    methods = ctl(target, "--methods").stdout.split()
    assert methods == target.call("rpc_get_methods")
    params = ctl(target, "--params", "nvmf_subsystem_add_listener").stdout
    assert "listen_address.traddr" in params and "changes nothing here" in params
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/nvmfspec").symlink_to(NVMFSPEC)
    bash = subprocess.run(["bash", "-c", 'PATH=%s:$PATH; source <(nvmfspec ctl --completion)\n'
                           'COMP_WORDS=(nvmfspec ctl bdev_null_r); COMP_CWORD=2; _nvmfspec nvmfspec; '
                           'echo "${COMPREPLY[@]}"' % (tmp_path / "bin")],
                          capture_output=True, text=True, timeout=30).stdout
    assert bash.split() == ["bdev_null_resize"]
    port = target.call("nvmf_subsystem_get_listeners", nqn=NQN)[0]["address"]["trsvcid"]
    load = subprocess.Popen([NVMFSPEC, "host", "perf", "-t", "tcp", "-a", "127.0.0.1", "-s", port, "-n",
                             NQN, "-N", "3", "--rw", "randread", "--bs", "4k", "--time", "4"],
                            stdout=subprocess.DEVNULL)
    time.sleep(1)
    top = ctl(target, "top", "1", "2").stdout.splitlines()
    load.wait(30)
    assert any(re.match(r"M0 +[1-9]\d* +\d+ +0 +0$", line) for line in top), top
    assert sum(NQN in line and "cntlid 1" in line and "1 I/O queues" in line for line in top) == 2, top
    # Of the host and of its queue 1: reads per second, KiB/s, ..., us of a command, depth.
    rows = [line.split()[-6:] for line in top if re.match(r"nqn\S+ +\d|    queue 1 ", line)]
    assert len(rows) == 4, top
    for reads, rate, writes, written, us, depth in (map(float, row) for row in rows):
        assert reads > 0 and abs(rate / reads - 4) < 0.5 and writes == written == 0
        assert 0 < us < 1e6 and 0 <= depth < 200
    queues = target.call("nvmfspec_get_queues")
    assert queues["ns"] > 0 and isinstance(queues["queues"], list)
    assert ctl(target, "top", "x").returncode == 2
    nobody = subprocess.run([NVMFSPEC, "ctl", "-s", str(target.path) + "x", "spdk_get_version"],
                            capture_output=True, text=True, timeout=30)
    assert nobody.returncode == 1 and "No such file" in nobody.stderr


@contextlib.contextmanager
def server(path, results):
    """An RPC server of another program: what it answers to each method, else an error."""
    def serve():
        with contextlib.suppress(OSError):
            while True:
                with listener.accept()[0] as s:
                    request = json.loads(s.recv(65536))
                    method = request["method"]
                    answer = {"result": results[method]} if method in results else \
                        {"error": {"code": PARAMS, "message": results["error"]}}
                    s.sendall(json.dumps({"jsonrpc": "2.0", "id": request["id"], **answer}).encode() + b"\n")

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.parametrize("words", ["nvmfspec_get_queues", "bdev_get_bdevs", "rpc_get_methods", "spdk_get_version",
                                   "no_such_method", "top 0.1 1"])
def test_ctl_gives_no_orders_to_a_terminal(tmp_path, words):
    """A host may call itself anything, and so may whoever names a bdev."""
    name = "nqn.2026-01.org.example:\x1b]0;x\x07\x7f\u009b2J\r"
    queue = {"hostnqn": name, "nqn": name, "peer": name, "cntlid": 1, "qid": 1, "connection": 1}
    results = {"nvmfspec_get_queues": {"ns": 1, "queues": [queue]}, "bdev_get_bdevs": [{"name": name}],
               "rpc_get_methods": [name], "spdk_get_version": name, "error": name,
               "bdev_get_iostat": {"ticks": 1, "bdevs": [{"name": name}]}}
    with server(tmp_path / "rpc.sock", results):
        shown = subprocess.run([NVMFSPEC, "ctl", "-s", str(tmp_path / "rpc.sock"), *words.split()],
                               capture_output=True, timeout=30)
        told = subprocess.run([NVMFSPEC, "ctl", "-s", str(tmp_path / "rpc.sock"), "--json", "rpc_get_methods"],
                              capture_output=True, timeout=30)
    said = shown.stdout + shown.stderr
    assert b"nqn.2026-01.org.example:\\x1b]0;x" in said, said
    assert not re.search(rb"[^\n\x20-\x7e]", said), said
    assert json.loads(told.stdout) == [name]  # to a program as it is
