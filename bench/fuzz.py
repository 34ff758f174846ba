# SPDX-License-Identifier: BSD-3-Clause
"""fuzz remote: sessions a second against the reference target, each on a processor of its own, four
connections; mutants of a session of eight PDUs, and of what they led to."""
import json
import os
import pathlib
import re
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
NVMFSPEC = ROOT / "build/nvmfspec"
WANTED = 5000
EIGHT = """sequence host
icreq
connect
enable
property_get ofst=28
identify
identify_list
keep_alive
get_features
"""


def pinned(cpu):
    cpus = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {cpus[cpu % len(cpus)]})


def ticks(pid):
    """Seconds of processor time."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(seed, seconds):
    target = subprocess.Popen([NVMFSPEC, "target", "-s", "0", "--quiet"], stdout=subprocess.PIPE,
                              text=True, preexec_fn=pinned(0))
    port = re.search(r":(\d+)", target.stdout.readline())[1]
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".seq") as file:
            file.write(EIGHT)
            file.flush()
            fuzz = subprocess.Popen([NVMFSPEC, "fuzz", "remote", "-a", "127.0.0.1", "-s", port,
                                     "--allow-write", "--jobs", "4", "--seed", str(seed), "--time",
                                     str(seconds), file.name], stdout=subprocess.PIPE, text=True,
                                    preexec_fn=pinned(1))
            lines = fuzz.stdout.read().splitlines()
            used = os.wait4(fuzz.pid, 0)[2]
        total = json.loads(lines[-1])
        runs = total["runs"]
        return (total["sessions_per_s"], (used.ru_utime + used.ru_stime) / runs * 1e6,
                ticks(target.pid) / runs * 1e6)
    finally:
        target.kill()
        target.wait()


def fuzz(runs, seconds):
    figures = [measure(seed, max(seconds, 3)) for seed in range(1, runs + 1)]
    rate, ours, theirs = (statistics.median(f) for f in zip(*figures))
    print(f"fuzz remote, 4 connections      {rate:8.0f} sessions/s (wanted: {WANTED}); processor time"
          f" of one: {ours:.0f} us, of the target {theirs:.0f} us")


if __name__ == "__main__":
    fuzz(3, 10)
