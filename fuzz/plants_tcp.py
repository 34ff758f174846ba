# SPDX-License-Identifier: BSD-3-Clause
"""Planted bugs from outside: `fuzz remote` plays to a target over TCP that has one of them, minimises
what harms it, and what that comes to is replayed. Part of fuzz/plants."""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLANTED = ROOT / "build-plant/nvmfspec"
FUZZER = ROOT / "build/nvmfspec"
NQN = "nqn.2026-01.io.nvmfspec:target"
END = 10       # seconds that a target has to end
TAKE = 1       # seconds that it has to take a configuration
LOOK = 5       # seconds between two looks whether it has lost memory, for which it ends
MINIMISE = 120  # seconds
SEEDS = 1000   # that the first look at a bug may use up
TRIES = 3      # a delay that was made as short as it gets harms nearly each time
KEY = "DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:"
OTHER_KEY = "DHHC-1:00:CzBVep/E6Q4zWH2ix+wRNluApcrvFDleg6jN8hc8YYYVgfSp:"
HOST = "nqn.2026-01.io.nvmfspec:fuzz"
KEYS = {"auth-lists", "auth-room", "auth-hl", "auth-late", "auth-deadline", "keys-kept"}  # of hosts with a key
STRANGERS = {"auth-hl"}  # ... with another key than the target has
REVOKES = {"keys-kept"}  # ... whose key a reload changes
SLOW = {"kato-ref", "kato-aer", "shutdown-abrupt", "auth-deadline", "keys-kept"}  # take time: many sessions wait
#                                                                               together, and looks are rarer
FEW = {"kato-aer", "auth-deadline", "keys-kept", "shutdown-abrupt"}  # sessions to begin with will do
PROOF = 500    # milliseconds that a host has to prove itself, where that is to be outlasted
PATIENCE = {"kato-aer": 1900, "auth-deadline": 1900, "keys-kept": 1900}  # ms; delays take 3000 at most
FRESH = {"kato-ref"}  # what a session leaves behind is what kills, some time
STEADY = {"ctrl-kept"}  # without reloads: those of one session make others do it, which does not come again
TRACES = r"SUMMARY: \w+: (.*)", r"runtime error: (.*)", r"(not true: .*)", r"(Assertion .*) failed"


def seeds(target="target"):
    return subprocess.run([ROOT / "fuzz/seeds", target], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


def sessions(name):
    """What a campaign begins with: those of the corpus that have what it is about, or the few of the fuzzer's own."""
    if name in FEW:
        return []
    files = sorted(pathlib.Path(seeds()).iterdir())
    if name in STRANGERS:
        return [f for f in files if f.name == "auth-stranger"]
    word = "auth_send" if name in KEYS else "delay" if name in SLOW else ""
    return [f for f in files if word in f.read_text(errors="replace")] if word else [seeds()]


KEPT = []


def free_port():
    """At which nobody listens, kept: no program is given it that asks for any port; a target that names it listens."""
    KEPT.append(socket.socket())
    KEPT[-1].setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    KEPT[-1].bind(("127.0.0.1", 0))
    return KEPT[-1].getsockname()[1]


def configurations(name, port):
    """As it is at first; of hosts with a key, with another one; of others, without namespace 2, with namespace 1 half as
    large, on another port, with another namespace 2."""
    def namespace(nsid, path):
        return {"nsid": nsid, "enable": 1, "device": {"path": path}}

    def configuration(one="mem:64K", two="null:1G,bs=4096", trsvcid=port, key=None):
        hosts = [HOST] if key else []
        return {"hosts": [{"nqn": host, "attr": {"dhchap_key": key}} for host in hosts], "ports": [{
            "portid": 1, "subsystems": [NQN], "referrals": [],
            "addr": {"trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": str(trsvcid)}}],
            "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "0" if key else "1"}, "allowed_hosts": hosts,
                            "namespaces": [namespace(1, one)] + ([namespace(2, two)] if two else [])}]}

    if name in KEYS:
        return [configuration(key=key) for key in (KEY, OTHER_KEY)]
    return [configuration(), configuration(two=None), configuration(one="mem:32K"),
            configuration(trsvcid=free_port()), configuration(two="null:1G")]


class Target:
    """A target that shell commands end and start again: `restart`, and `oracle`, which complains
    if it did not end well, or holds more descriptors than at its start; `reload N` gives it a
    configuration. They ask, and are told what it died of, through two FIFOs."""

    def __init__(self, folder, name, planted=True):
        self.folder, self.name, self.port = pathlib.Path(folder), name, free_port()
        self.plant = name if planted else None
        self.log = self.folder / "target.log"
        self.ask, self.told = self.folder / "ask", self.folder / "told"
        self.restart = f"echo restart >{self.ask}; read line <{self.told}; echo \"$line\""
        self.configurations = configurations(name, self.port)
        self.config = self.folder / "config.json"
        self.reload = f"sh {self.folder}/reload"
        (self.folder / "reload").write_text(f"echo reload $1 >{self.ask}; read line <{self.told}\n")
        self.oracle = f"echo oracle >{self.ask}; read line <{self.told}; echo \"$line\"; test -z \"$line\""

    def __enter__(self):
        for fifo in self.ask, self.told:
            os.mkfifo(fifo)
        self.start()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ask.write_text("over\n")
        self.thread.join()
        self.end(gently=False)
        for fifo in self.ask, self.told:
            fifo.unlink()

    def start(self):
        self.config.write_text(json.dumps(self.configurations[0]))
        in_time = ["--limit", f"auth_timeout={PROOF}"] if self.name == "auth-deadline" else []
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [PLANTED, "target", *(["--plant", self.plant] if self.plant else []), "--config", self.config, *in_time,
                 "--limit", "queue_entries=64", "--limit", "buffers=16M", "--limit", "connections=64", "--limit",
                 "controllers=64"], stdout=subprocess.PIPE, stderr=log, text=True)
        self.process.stdout.readline()
        self.first = self.descriptors()

    def descriptors(self):
        try:
            return len(os.listdir(f"/proc/{self.process.pid}/fd"))
        except OSError:
            return 0

    def connected(self):
        """Connections that nobody has ended: sessions go on while it is looked at."""
        lines = [line.split() for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(line[1].endswith(f":{self.port:04X}") and line[3] == "01" for line in lines)

    def kept(self):
        """Descriptors of connections that are over, three seconds later; 0: none."""
        end = time.monotonic() + 3  # the list of all connections of a machine may be long
        while (kept := self.descriptors() - self.first) > 0:
            kept -= self.connected()
            if kept <= 0 or time.monotonic() > end:
                break
            time.sleep(0.1)
        return max(0, kept)

    def end(self, gently):
        """What was wrong with it, or "": that it did not end by itself is only wrong if it should."""
        lived = self.process.poll() is None
        kept = self.kept() if lived and gently and self.name not in SLOW else 0
        if lived:
            self.process.terminate() if gently else self.process.kill()
        try:
            status = self.process.wait(END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        if kept and status == 0:
            return "descriptors are kept"
        if status == 0 or (lived and not gently):
            return ""
        log = self.log.read_text(errors="replace")
        found = [match[1] for match in (re.search(trace, log) for trace in TRACES) if match]
        return found[0].replace(f"{ROOT}/", "") if found else f"status {status}"

    def serve(self):
        while (words := self.ask.read_text().split()) != ["over"]:
            says = ""
            if words[0] == "reload":
                self.give(int(words[1]))
            else:
                says = self.end(gently=words[0] == "oracle")
                self.start()
            self.told.write_text(f"{says}\n")

    def give(self, which):
        """One of its configurations, at once, and time to take it: it says when it has."""
        before, end = self.taken(), time.monotonic() + TAKE
        self.config.write_text(json.dumps(self.configurations[which % len(self.configurations)]))
        self.process.send_signal(signal.SIGHUP)
        while self.taken() == before and self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)

    def taken(self):
        log = self.log.read_text(errors="replace")
        return sum(map(log.count, ("configuration read again", "(nothing was changed)", "(all else was changed)")))

    def options(self):
        reloads = self.name in REVOKES or (self.name not in KEYS and self.name not in STEADY)
        return ["-a", "127.0.0.1", "-s", str(self.port), "-n", NQN, "-q", HOST, "--allow-write", "--restart",
                self.restart, "--oracle", self.oracle, "--hang", str(PATIENCE.get(self.name, 3000)), "--timeout", "10000",
                *(["--dhchap-secret", KEY, "--settle", "1500"] if self.name in KEYS else []),  # it computes for a while
                *(["--reload", self.reload, "--reloads", str(len(self.configurations))] if reloads else []),
                *(["--revokes", "1"] if self.name in REVOKES else []),
                *(["--stranger"] if self.name in STRANGERS else []),
                *(["--prove-within", str(PROOF)] if self.name == "auth-deadline" else []),
                *(["--max-delay", "3000"] if self.name in SLOW else [])]


def call(*args, log):
    run = subprocess.run([FUZZER, "fuzz", *map(str, args)], capture_output=True, text=True)
    log.write(run.stdout + run.stderr)
    log.flush()
    return run


def campaign(name, folder, seconds, seed, log):
    """A finding as `fuzz remote` tells it, or None."""
    with Target(folder, name) as target:
        run = call("remote", *target.options(), "--time", max(1, int(seconds)), "--seed", seed, "--look",
                   1000 * LOOK * (3 if name in SLOW else 1), *(["--jobs", 16] if name in SLOW | STRANGERS else []),
                   *(["--fresh"] if name in FRESH else []), "--findings", 1,
                   "--minimise", MINIMISE, "-o", folder / "finds", *sessions(name), log=log)
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"finding')]
    return found[0] if found and found[0]["reproduced"] else None


def harms(file, name, planted, folder, log):
    with Target(folder, name, planted) as target:
        return call("repro", *target.options(), file, log=log).returncode == 1


def is_bug(file, name, folder, log):
    tries = TRIES if name in SLOW else 1
    return (any(harms(file, name, True, folder, log) for _ in range(tries)) and
            not harms(file, name, False, folder, log))


def hunt(name, limit, seed, folder, log):
    """The finding and the seconds until the campaign that made it was over; None: there is none."""
    begin = time.monotonic()
    while (left := limit - (time.monotonic() - begin)) > 0:
        found = campaign(name, folder, left, seed, log)
        if found and is_bug(found["file"], name, folder, log):
            return found, time.monotonic() - begin
        seed += 1
    return None, limit


def keep(name, found, folder, out, log):
    """Copies of both; in a few words, what they are."""
    says = [f"{sum(1 for line in open(found['file']) if not line.startswith('#')) - 1} steps",
            f"{found['trials']} trials"]
    # a capture has no reloads and no waits, does not tell how a host left, and answers a challenge that was another one
    unseen = r"(?ms)^(reload|reset|close|delay)|^auth_receive.*^auth_send"
    seen = not re.search(unseen, pathlib.Path(found["file"]).read_text())
    for ending in [".seq", ".pcap"] if seen else [".seq"]:
        kept = out / f"{name}{ending}"
        shutil.copy(pathlib.Path(found["file"]).with_suffix(ending), kept)
        if ending == ".pcap":
            says.append("pcap " + ("replays" if is_bug(kept, name, folder, log) else "DOES NOT REPLAY"))
    return ", ".join(says)


def find(name, limit, seed, out):
    """What became of it, in a few words; seconds; whether all is as it should be."""
    with tempfile.TemporaryDirectory() as room, open(out / f"{name}.log", "w") as log:
        folder = pathlib.Path(room)
        found, seconds = hunt(name, limit, seed, folder, log)
        if not found:
            return "NOT FOUND", seconds, False
        kept = keep(name, found, folder, out, log)
        return f"{kept}; {found['finding']}: {found['says'] or found.get('rule', '')}", seconds, "NOT" not in kept


def find_all(names, limit, seed, out, jobs):
    """Each by itself, JOBS at a time: a campaign waits more than it computes. Those that were not found are looked for
    once more, alone and by another seed: the others had most of the processors."""
    out.mkdir(parents=True, exist_ok=True)
    print(f"{'bug':18}{'wall s':>8}  reproducer over TCP; what saw it")
    times = {}

    def look(names, seed, jobs):
        with concurrent.futures.ThreadPoolExecutor(jobs) as at_once:
            each = at_once.map(lambda name: find(name, limit, seed, out), names)
            for name, (says, seconds, ok) in zip(names, each):
                times.update({name: seconds} if not says.startswith("NOT") else {})
                print(f"{name:18}{seconds:8.1f}  {says}", flush=True)
                yield name, ok

    lost = [name for name, ok in look(names, seed, jobs) if not ok]
    if lost and jobs > 1:
        print("once more, one at a time:")
        lost = [name for name, ok in look(lost, seed + SEEDS, 1) if not ok]
    print(f"found {len(times)} of {len(names)} over TCP, {len(names) - len(lost)} with a sequence and a capture that replay" +
          (f"; seconds: median {statistics.median(times.values()):.1f}, longest {max(times.values()):.1f}" if times else ""))
    return 1 if lost else 0
