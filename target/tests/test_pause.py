# SPDX-License-Identifier: BSD-3-Clause
"""A subsystem that is paused and resumed under I/O: what waits, what is served, and what becomes of both."""
import json
import re
import signal
import subprocess
import time
import urllib.request

import pytest
from test_rpc import INTERNAL, NQN, NVMFSPEC, PARAMS, Client, Target, place

QUEUES = 9  # eight, and the admin queue


@pytest.fixture(name="options")
def with_options(tmp_path):
    started = []

    def begin(*more):
        started.append(Target(tmp_path / f"{len(started)}.sock", "--reactors", "2", *more))
        return started[-1]

    yield begin
    for t in started:
        if t.process.poll() is None:
            t.stop()


@pytest.fixture(name="target")
def running(options):
    return options()


def until(what):
    end = time.monotonic() + 30
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)


def state(target, nqn=NQN):
    states = target.call("nvmfspec_get_states")
    assert states["target"] == "running"
    return next(s for s in states["subsystems"] if s["nqn"] == nqn)


def begun(target, load):
    """It has identified all, and writes."""
    until(lambda: answered(target) > 100 or load.poll() is not None)
    assert load.poll() is None, load.stdout.read()
    return load


def answered(target):
    """I/O commands so far, of all queues."""
    return sum(q["commands"] for q in target.call("nvmfspec_get_queues")["queues"] if q["qid"] > 0)


def executed(target):
    """What the namespace under load has done."""
    done = target.call("bdev_get_iostat", name="Malloc0")["bdevs"][0]
    return done["num_read_ops"], done["num_write_ops"]


def host(command, port, nsid=1, *more):
    return subprocess.Popen([NVMFSPEC, "host", command, "-t", "tcp", "-a", "127.0.0.1", "-s", port, "-n", NQN,
                             "-N", str(nsid), *more], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def page_of(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
        return answer.read().decode()


def test_states(options, free_port):
    metrics = free_port()
    target = options("--metrics", f"127.0.0.1:{metrics}")
    assert target.call("nvmfspec_get_states") == {"target": "running", "subsystems": []}
    target.serve()
    assert state(target) == {"nqn": NQN, "state": "active"}
    for _ in range(2):  # what is paused stays so
        assert target.call("nvmfspec_subsystem_pause", nqn=NQN, nsid=1) is True
        assert state(target) == {"nqn": NQN, "state": "paused", "nsid": 1, "working": 0, "waiting": 0}
    assert target.call("nvmfspec_subsystem_pause", nqn=NQN, nsid=2) is True
    assert state(target)["nsid"] == 1
    for _ in range(2):
        assert target.call("nvmfspec_subsystem_resume", nqn=NQN) is True
        assert state(target) == {"nqn": NQN, "state": "active"}
    for method in "nvmfspec_subsystem_pause", "nvmfspec_subsystem_resume":
        assert "not found" in target.refuses(PARAMS, method, nqn=NQN + "x")
        assert "not found" in target.refuses(PARAMS, method, nqn=NQN, tgt_name="other")
    target.call("nvmfspec_subsystem_pause", nqn=NQN)
    shown = subprocess.run([NVMFSPEC, "ctl", "-s", target.path, "nvmfspec_get_states"], capture_output=True,
                           text=True, timeout=30).stdout
    assert "running" in shown and "paused" in shown, shown
    page = page_of(metrics)
    for sample in ('target_state{state="running"} 1', 'subsystems{state="active"} 0', 'subsystems{state="pausing"} 0',
                   'subsystems{state="paused"} 1'):
        assert f"\nnvmfspec_{sample}\n" in page


def test_states_of_the_target_are_in_the_log(options):
    log = options("--log-level", "trace").stop()
    assert re.findall(r"target: (.*)", log) == [
        "create target", "create poll groups", "start subsystems", "running", "stop listen", "stop subsystems",
        "destroy subsystems", "destroy poll groups", "destroy target", "stopped"]
    failed = subprocess.run([NVMFSPEC, "target", "--log-level", "trace", "-a", "192.0.2.1", "-s", "1"],
                            capture_output=True, text=True, timeout=30)
    assert failed.returncode == 2 and "target: error\n" in failed.stderr


@pytest.mark.parametrize("data", ["capsule", "r2t"])
def test_what_comes_waits_and_nothing_expires(options, data):
    """For longer than the Keep Alive timeout and than a host may stall; none of it is executed before."""
    target = options("--limit", "stall_timeout=1000")
    port = target.serve()
    load = begun(target, target.load(port, 4, "-k", "2", *(["--command-buffers"] if data == "r2t" else [])))
    assert target.call("nvmfspec_subsystem_pause", nqn=NQN) is True
    before = answered(target)
    until(lambda: state(target)["waiting"] > 0)
    before_pause = executed(target)
    time.sleep(5)
    assert answered(target) == before and state(target)["working"] == 0
    assert executed(target) == before_pause
    assert len(target.call("nvmf_subsystem_get_qpairs", nqn=NQN)) == QUEUES
    assert target.call("nvmfspec_subsystem_resume", nqn=NQN) is True
    assert load.wait(60) == 0, load.stdout.read()
    assert "timed out" not in target.stop()


def test_hosts_connect_and_then_wait(target):
    """Fabrics commands are served, admin commands wait."""
    port = target.serve()
    target.call("nvmfspec_subsystem_pause", nqn=NQN, nsid=0)
    identify = host("identify", port)
    until(lambda: state(target)["waiting"] == 1)
    assert len(target.call("nvmf_subsystem_get_controllers", nqn=NQN)) == 1 and identify.poll() is None
    target.call("nvmfspec_subsystem_resume", nqn=NQN)
    assert identify.wait(30) == 0


def test_other_namespaces_are_served(target):
    port = target.serve()
    target.call("bdev_malloc_create", name="Malloc1", num_blocks=131072, block_size=512)
    target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "Malloc1", "nsid": 2})
    loads = [host("perf", port, nsid, "--rw", "randread", "--bs", "4k", "--time", "5", "-o", "json")
             for nsid in (1, 2)]

    def reads():
        return [target.call("bdev_get_iostat", name=n)["bdevs"][0]["num_read_ops"] for n in ("Malloc0", "Malloc1")]

    until(lambda: min(reads()) > 0)  # admin commands wait, too: both have identified all
    target.call("nvmfspec_subsystem_pause", nqn=NQN, nsid=1)
    until(lambda: state(target)["waiting"] > 0)
    first = reads()
    time.sleep(1)
    second = reads()
    assert first[0] == second[0] and second[1] > first[1] + 100
    target.call("nvmfspec_subsystem_resume", nqn=NQN)
    assert [load.wait(30) for load in loads] == [0, 0]


MEETS = {"back": None, "gone": "Invalid Field", "inaccessible": "Asymmetric Access Inaccessible",
         "shorter": "LBA Out of Range"}


def test_what_waits_meets_what_there_is_then(target):
    """A namespace that has come back with its data serves it; one that is gone, shorter, or may not be used by this
    path, does not."""
    port = target.serve(ana_reporting=True)
    for change in MEETS:
        load = begun(target, target.load(port, 30))
        target.call("nvmfspec_subsystem_pause", nqn=NQN)
        until(lambda: state(target)["waiting"] > 0)
        if change == "inaccessible":
            target.call("nvmf_subsystem_listener_set_ana_state", nqn=NQN, listen_address=place(port),
                        ana_state="inaccessible")
        else:
            target.call("nvmf_subsystem_remove_ns", nqn=NQN, nsid=1)
        if change in ("back", "shorter"):
            target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={
                "bdev_name": "Malloc0" if change == "back" else "mem:4K", "nsid": 1})
        before, done = answered(target), executed(target)
        target.call("nvmfspec_subsystem_resume", nqn=NQN)
        if change == "back":
            until(lambda: answered(target) > before + 1000)
            assert load.poll() is None
            load.terminate()
            load.wait(30)
        else:
            assert load.wait(30) != 0
            assert MEETS[change] in load.stdout.read() and executed(target) == done
        until(lambda: not target.call("nvmf_subsystem_get_controllers", nqn=NQN))
        if change == "inaccessible":
            target.call("nvmf_subsystem_listener_set_ana_state", nqn=NQN, listen_address=place(port),
                        ana_state="optimized")
        if change == "gone":
            target.call("nvmf_subsystem_add_ns", nqn=NQN, namespace={"bdev_name": "Malloc0", "nsid": 1})


def ask(target, method, **params):
    """A request whose answer is read later."""
    c = Client(target.path)
    c.send(json.dumps({"id": 1, "method": method, "params": {"nqn": NQN, **params}}))
    return c


def test_the_call_answers_when_what_has_begun_has_ended(target):
    """A second pause and a resume that come in the meantime are answered after it, in SPDK's order."""
    port = target.serve()
    target.call("nvmfspec_fault_add", fault="delay=2s cmd=read times=1")
    read = host("read", port, 1, "--blocks", "1")
    until(lambda: target.call("nvmfspec_fault_list")[0]["fired"] == 1)
    first = time.monotonic()
    clients = [ask(target, m) for m in ("nvmfspec_subsystem_pause", "nvmfspec_subsystem_pause",
                                        "nvmfspec_subsystem_resume")]
    assert state(target)["state"] == "pausing" and state(target)["working"] == 1
    assert [c.receive()["result"] for c in clients] == [True] * 3
    assert time.monotonic() - first > 0.5 and read.wait(30) == 0
    assert state(target)["state"] == "active"
    assert target.host("read", port, "-N", "1", "--blocks", "1").returncode == 0


def test_the_client_goes_away(target):
    """Its pause comes to its end and stays, until somebody resumes."""
    port = target.serve()
    target.call("nvmfspec_fault_add", fault="delay=1s cmd=read times=1")
    read = host("read", port, 1, "--blocks", "1")
    until(lambda: target.call("nvmfspec_fault_list")[0]["fired"] == 1)
    ask(target, "nvmfspec_subsystem_pause").socket.close()
    until(lambda: state(target)["state"] == "paused")
    late = host("read", port, 1, "--blocks", "1")
    until(lambda: state(target)["waiting"] > 0)
    assert late.poll() is None
    target.call("nvmfspec_subsystem_resume", nqn=NQN)
    assert late.wait(30) == 0 and read.wait(30) == 0


@pytest.mark.parametrize("how", ["SIGTERM", "delete", "host"])
def test_ends_while_it_is_paused(target, how):
    """The target stops, the subsystem is deleted, the host leaves: at once, and nothing stays behind."""
    port = target.serve()
    load = begun(target, target.load(port, 30))
    target.call("nvmfspec_subsystem_pause", nqn=NQN)
    until(lambda: state(target)["waiting"] > 0)
    if how == "SIGTERM":
        start = time.monotonic()
        target.stop()
        assert time.monotonic() - start < 10
    elif how == "delete":
        target.call("nvmf_delete_subsystem", nqn=NQN)
        target.call("bdev_malloc_delete", name="Malloc0")
        port = target.serve()
        assert state(target)["state"] == "active"
        assert target.host("read", port, "-N", "1", "--blocks", "1").returncode == 0
    else:
        load.send_signal(signal.SIGKILL)
        until(lambda: not target.call("nvmf_subsystem_get_controllers", nqn=NQN))
        assert state(target)["waiting"] == 0
    assert load.wait(30) != 0


def test_a_pause_outlasts_a_reload(options, tmp_path):
    """What waits is executed with what the file names then."""
    file = tmp_path / "target.json"

    def write(*sizes):
        file.write_text(json.dumps({
            "hosts": [], "ports": [{"portid": 1, "addr": place(trtype="tcp", adrfam="ipv4"), "subsystems": [NQN]}],
            "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": [
                {"nsid": n, "enable": 1, "device": {"path": f"mem:{size}"}} for n, size in enumerate(sizes, 1)]}]}))

    write("16M")
    target = options("--config", str(file))
    port = target.call("nvmf_subsystem_get_listeners", nqn=NQN)[0]["address"]["trsvcid"]
    load = begun(target, target.load(port, 3))
    target.call("nvmfspec_subsystem_pause", nqn=NQN)
    until(lambda: state(target)["waiting"] > 0)
    write("16M", "1M")
    target.process.send_signal(signal.SIGHUP)
    until(lambda: len(target.call("nvmf_get_subsystems", nqn=NQN)[0]["namespaces"]) == 2)
    assert state(target)["state"] == "paused" and load.poll() is None
    target.call("nvmfspec_subsystem_resume", nqn=NQN)
    assert load.wait(30) == 0, load.stdout.read()


def test_a_batch_does_not_wait(target):
    port = target.serve()
    target.call("nvmfspec_fault_add", fault="delay=1s cmd=read times=1")
    read = host("read", port, 1, "--blocks", "1")
    until(lambda: target.call("nvmfspec_fault_list")[0]["fired"] == 1)
    pause = {"id": 1, "method": "nvmfspec_subsystem_pause", "params": {"nqn": NQN}}
    assert Client(target.path).ask([pause])[0]["error"]["code"] == INTERNAL
    until(lambda: state(target)["state"] == "paused")
    assert read.wait(30) == 0 and Client(target.path).ask([pause])[0]["result"] is True
