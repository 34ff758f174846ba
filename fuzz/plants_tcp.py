# SPDX-License-Identifier: BSD-3-Clause
"""Planted bugs from outside: `fuzz remote` plays to a target over TCP that has one of them, minimises
what harms it, and what that comes to is replayed. Part of fuzz/plants."""
import json
import os
import pathlib
import re
import shutil
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
LOOK = 5       # seconds between two looks whether it has lost memory, for which it ends
MINIMISE = 120  # seconds
TRACES = r"SUMMARY: \w+: (.*)", r"runtime error: (.*)", r"(not true: .*)", r"(Assertion .*) failed"


def seeds():
    return subprocess.run([ROOT / "fuzz/seeds", "target"], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


class Target:
    """A target that shell commands end and start afresh: `restart`, and `oracle`, which complains
    if it did not end well. They ask, and are told what it died of, through two FIFOs."""

    def __init__(self, folder, plant):
        self.folder, self.plant, self.port = pathlib.Path(folder), plant, free_port()
        self.log = self.folder / "target.log"
        self.ask, self.told = self.folder / "ask", self.folder / "told"
        self.restart = f"echo restart >{self.ask}; read line <{self.told}; echo \"$line\""
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
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [PLANTED, "target", *(["--plant", self.plant] if self.plant else []), "-s",
                 str(self.port), "-n", NQN, "--ns", "mem:1M", "--limit", "queue_entries=64", "--limit",
                 "buffers=16M"], stdout=subprocess.PIPE, stderr=log, text=True)
        self.process.stdout.readline()

    def end(self, gently):
        """What was wrong with it, or "": that it did not end by itself is only wrong if it should."""
        lived = self.process.poll() is None
        if lived:
            self.process.terminate() if gently else self.process.kill()
        try:
            status = self.process.wait(END)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.process.stdout.close()
        if status == 0 or (lived and not gently):
            return ""
        log = self.log.read_text(errors="replace")
        found = [match[1] for match in (re.search(trace, log) for trace in TRACES) if match]
        return found[0].replace(f"{ROOT}/", "") if found else f"status {status}"

    def serve(self):
        while (word := self.ask.read_text().strip()) != "over":
            says = self.end(gently=word == "oracle")
            self.start()
            self.told.write_text(f"{says}\n")

    def options(self):
        return ["-a", "127.0.0.1", "-s", str(self.port), "-n", NQN, "--allow-write", "--restart",
                self.restart, "--oracle", self.oracle, "--hang", "3000", "--timeout", "3000"]


def call(*args, log):
    run = subprocess.run([FUZZER, "fuzz", *map(str, args)], capture_output=True, text=True)
    log.write(run.stdout + run.stderr)
    log.flush()
    return run


def campaign(name, folder, seconds, seed, log):
    """A finding as `fuzz remote` tells it, or None."""
    with Target(folder, name) as target:
        run = call("remote", *target.options(), "--time", max(1, int(seconds)), "--seed", seed, "--look",
                   1000 * LOOK, "--findings", 1, "--minimise", MINIMISE, "-o", folder / "finds", seeds(),
                   log=log)
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"finding')]
    return found[0] if found and found[0]["reproduced"] else None


def harms(file, plant, folder, log):
    with Target(folder, plant) as target:
        return call("repro", *target.options(), file, log=log).returncode == 1


def is_bug(file, name, folder, log):
    return harms(file, name, folder, log) and not harms(file, None, folder, log)


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
    for ending in ".seq", ".pcap":
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


def find_all(names, limit, seed, out):
    out.mkdir(parents=True, exist_ok=True)
    print(f"{'bug':18}{'wall s':>8}  reproducer over TCP; what saw it")
    times, good = [], 0
    for name in names:
        says, seconds, ok = find(name, limit, seed, out)
        good += ok
        if not says.startswith("NOT"):
            times.append(seconds)
        print(f"{name:18}{seconds:8.1f}  {says}", flush=True)
    print(f"found {len(times)} of {len(names)} over TCP, {good} with a sequence and a capture that replay" +
          (f"; seconds: median {statistics.median(times):.1f}, longest {max(times):.1f}" if times else ""))
    return 0 if good == len(names) else 1
