# SPDX-License-Identifier: BSD-3-Clause
"""Memory that cannot be had and disks that fail, at each place of the programs that asks for them: first
there alone, then everywhere after it. Nothing crashes, nothing hangs, and what reports success has
succeeded. NVMFSPEC_FAULTS says how many places of each run (4; all: ci/nightly)."""
import base64
import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import subprocess
import time
import zlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
FAULTS = pathlib.Path(NVMFSPEC).parent / "faults.so"
PLACES = os.environ.get("NVMFSPEC_FAULTS", "4")
AT_ONCE = 4 * os.cpu_count() if PLACES == "all" else 1  # runs mostly wait
NQN = "nqn.2026-01.io.nvmfspec:target"
SECONDS = 120  # longer than a busy machine takes for what does not hang
CRASHES = {-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS, -signal.SIGFPE, -signal.SIGILL, -signal.SIGPIPE}

pytestmark = [pytest.mark.fast, pytest.mark.slow, pytest.mark.timeout(7200 if PLACES == "all" else 300)]


class Run:
    """What a scenario was like, with or without faults."""

    def __init__(self, folder, faults=None, at=None, after=False):
        self.folder, self.said = folder, {}
        self.faults = dict(os.environ)
        if faults:
            self.faults.update(LD_PRELOAD=str(FAULTS), FAULTS=faults)
            self.faults.update({"FAULTS_AT": at} if at else {"FAULTS_LIST": str(folder / "places")})
            if after:
                self.faults["FAULTS_AFTER"] = "1"

    def start(self, *args, faults=True, **kw):
        return subprocess.Popen([NVMFSPEC, *map(str, args)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, env=self.faults if faults else None, **kw)

    def end(self, process, name):
        """Its status and output, by which it is judged."""
        try:
            out, err = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            pytest.fail(f"{name} hangs: {err.decode()[-500:]}")
        assert process.returncode not in CRASHES, f"{name} crashes: {err.decode()[-500:]}"
        self.said[name] = process.returncode, out
        return process.returncode == 0

    def command(self, *args, faults=True):
        return self.end(self.start(*args, faults=faults), " ".join(map(str, args[:2])))


def listening(target):
    found = re.match(rb"listening on (\S+):(\d+)", read_line(target.stdout, b"\n", SECONDS))
    return int(found[2]) if found else None


def read_line(file, word, seconds):
    """Until a line has the word; what there is by then, if none has: a log may be short of memory, too."""
    end, got = time.monotonic() + seconds, b""
    while word not in got and select.select([file], [], [], max(0, end - time.monotonic()))[0]:
        more = os.read(file.fileno(), 4096)
        if not more:
            break
        got += more
    return got


def stop(run, target):
    target.send_signal(signal.SIGTERM)
    return run.end(target, "target")


def use(run, port, faults, image, pattern, *who):
    """Writes, flushes, reads; what was written and flushed with success is in the file. who: options of the
    host."""
    data = run.folder / "data"
    data.write_bytes(bytes([pattern]) * 65536)
    where = ["-t", "tcp", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--timeout", 5000, *who]
    wrote = run.command("host", "write", *where, "--file", data, faults=faults)
    flushed = run.command("host", "flush", *where, faults=faults)
    if wrote and flushed:
        assert image.read_bytes()[:65536] == data.read_bytes(), "what was written is not there"
    if run.command("host", "read", *where, "--blocks", 128, "--file", "-", faults=faults) and wrote:
        assert run.said["host read"][1] == data.read_bytes(), "what was read is not what is there"


def anonymize(run):
    source, to = run.folder / "source.pcap", run.folder / "to.pcap"
    shutil.copy(ROOT / "pdu/io/tests/captures/nvme-tcp-6.12.pcap", source)
    to.unlink(missing_ok=True)
    if run.command("pcap", "anonymize", source, "--to", to, "--seed", 1):
        run.said["output"] = 0, to.read_bytes()
    assert len(list(run.folder.glob("*.pcap"))) == 1 + to.exists(), "a temporary file is left"


def judged(run):
    """What a capture is judged to be, and shown as."""
    source = ROOT / "pdu/io/tests/captures/nvme-tcp-6.12.pcap"
    run.command("pcap", "check", source)
    run.command("pcap", "show", "-v", source)


def conform(run, *cases):
    """A few cases, the target within the same program. Who passes has a report of all of them. (A target
    that is short of memory may do what is tolerated.)"""
    report = run.folder / "report.json"
    report.unlink(missing_ok=True)
    passed = run.command("conform", "-j", 2, "--json", report, *(cases or ["tcp/h2cdata/ttag*"]))
    run.said["conform"] = run.said["conform -j"][0], b""  # how long it took is part of what it prints
    del run.said["conform -j"]
    if passed:
        summary = json.loads(report.read_text())["summary"]
        run.said["conform"] = 0, b"%d cases" % sum(summary.values())


def conform_rdma(run):
    conform(run, "-t", "rdma", "rdma/key/w*", "rdma/response/*")


def host(run):
    """Its target has all it needs."""
    image = run.folder / "image"
    target = run.start("target", "-s", 0, "-n", NQN, "--ns", f"file:{image},size=1M", faults=False)
    try:
        use(run, listening(target), True, image, 1)
        stop(run, target)
    finally:
        target.kill()


def config(run, *spec, key=None):
    """key: of the only host that may connect; None: any may."""
    path = run.folder / "config.json"
    host, named = ({"nqn": HOST, "attr": {"dhchap_key": key}}, [HOST]) if key else ({"nqn": HOST}, [])
    path.write_text(json.dumps({
        "hosts": [host],
        "ports": [{"portid": 1, "subsystems": [NQN], "addr": {
            "trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "0"}}],
        "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "0" if key else "1"}, "allowed_hosts": named,
                        "namespaces": [{"nsid": i + 1, "enable": 1, "device": {"path": s}}
                                       for i, s in enumerate(spec)]}]}))
    path.chmod(0o600)
    return path


def start_target(run, *options):
    """It, and its port; None: it has ended with the status for that."""
    t = run.start("target", *options)
    port = listening(t)
    if port is None:
        run.end(t, "target")
        assert t.returncode == 2
    return t, port


def reread(t):
    """Whether it says that it has another configuration now."""
    t.send_signal(signal.SIGHUP)
    return b"configuration read again" in read_line(t.stderr, b"configuration", 3)


def target(run):
    """Start, I/O, another configuration, I/O, end."""
    image = run.folder / "image"
    for old in run.folder.glob("image*"):
        old.unlink()
    t, port = start_target(run, "--config", config(run, f"file:{image},size=1M"))
    try:
        if port is None:
            return
        use(run, port, False, image, 2)
        config(run, f"file:{image},size=2M", f"file:{image}2,size=1M", "mem:1M")
        if reread(t):
            assert image.stat().st_size == 2 << 20
            assert (run.folder / "image2").stat().st_size == 1 << 20
        use(run, port, False, image, 3)
        stop(run, t)
    finally:
        t.kill()


def key_of(seed):
    """A secret as hosts and targets are given it (Base 2.2 8.3.4.5.8): 32 bytes and their CRC-32."""
    secret = bytes([seed]) * 32
    return "DHHC-1:00:" + base64.b64encode(secret + zlib.crc32(secret).to_bytes(4, "little")).decode() + ":"


HOST = "nqn.2026-01.io.nvmfspec:other"
KEYS = [key_of(seed) for seed in (1, 2, 3)]


def stays_out(run, port, image, *key):
    """A host that has not the right key gets nothing: no success, on whichever queue, and no byte is written."""
    data, before = run.folder / "forged", image.read_bytes()
    data.write_bytes(b"\xee" * 4096)
    where = ["-t", "tcp", "-a", "127.0.0.1", "-s", port, "-n", NQN, "--timeout", 2000, "-q", HOST, *key]
    for command in ["identify"], ["write", "--file", data]:
        p = run.start("host", command[0], *where, *command[1:], faults=False)
        got_in = run.end(p, "forged")
        del run.said["forged"]
        assert not got_in, f"a host with {key[1:] or 'no key'} got in: {command[0]}"
    assert image.read_bytes() == before, f"a host with {key[1:] or 'no key'} has written"


def target_keyed(run):
    """The same with a host that has to authenticate itself, and whose key is changed. Whatever fails: who has not
    the key that counts never gets in. Where nothing fails, who has it does: `use` is judged as ever."""
    image = run.folder / "image"
    image.write_bytes(bytes(1 << 20))
    t, port = start_target(run, "--config", config(run, f"file:{image}", key=KEYS[0]))
    try:
        if port is None:
            return
        stays_out(run, port, image)
        stays_out(run, port, image, "-S", KEYS[2])
        use(run, port, False, image, 2, "-q", HOST, "-S", KEYS[0])
        config(run, f"file:{image}", key=KEYS[1])
        changed = reread(t)
        stays_out(run, port, image, "-S", KEYS[0] if changed else KEYS[2])
        use(run, port, False, image, 3, "-q", HOST, "-S", KEYS[1] if changed else KEYS[0])
        stop(run, t)
    finally:
        t.kill()


OWN_CHECK = ("target", "host read")
EXPECTED = {"pcap check": 1}  # the kernel's host breaks rules in that capture

SCENARIOS = [anonymize, judged, conform, conform_rdma, host, target, target_keyed]


@pytest.mark.parametrize("kind", ["memory", "disk"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
def test_no_fault_is_worse_than_a_failure(scenario, kind, tmp_path):
    def folder(name):
        path = tmp_path / name
        path.mkdir()
        return path
    whole = Run(folder("whole"), kind)
    scenario(whole)
    assert all(status == EXPECTED.get(name, 0) for name, (status, _) in whole.said.items()), whole.said
    listed = whole.folder / "places"
    places = sorted(set(listed.read_text().split())) if listed.exists() else []
    assert places, f"no place is known: is {FAULTS} built?"
    chosen = places if PLACES == "all" else random.Random(1).sample(places, min(len(places), int(PLACES)))

    def wrong_at(place, after):
        run = Run(folder(f"{place}-{after}"), kind, place, after)
        try:
            scenario(run)
            for name, (status, out) in run.said.items():
                if status == EXPECTED.get(name, 0) and name in whole.said and name not in OWN_CHECK:
                    assert out == whole.said[name][1], f"{name}: other output: {out[-300:]}"
        except (AssertionError, pytest.fail.Exception) as e:
            return f"{place}{' and after' if after else ''}: {e}"
        finally:
            shutil.rmtree(run.folder)
        return None

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        wrong = [why for why in pool.map(wrong_at, *zip(*itertools.product(chosen, (False, True)))) if why]
    print(f"{len(chosen)} of {len(places)} places")
    assert not wrong, "\n".join(wrong)
