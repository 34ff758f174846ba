# SPDX-License-Identifier: BSD-3-Clause
"""What fuzz remote makes of trouble that does not come each time, comes late, or not again: a relay in
front of our own target makes it, of sessions with an Abort."""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from test_remote import RELAY, fake, target

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

pytestmark = pytest.mark.calm(0.1)  # what stands still is late, and that is a finding

ABORT = re.compile(rb"\x04.\x48.{5}\x08", re.S)  # a CapsuleCmd
PLAIN = "sequence host\nicreq\nconnect\n{}\nidentify\n"
SUSPECT = "sequence host\nicreq\nconnect\nabort\nidentify\n"


@contextlib.contextmanager
def relay(bad, dead=None):
    """Its port. bad(bytes): all that a host has sent, when it has sent its end; True: stays open, a number: so
    many seconds. dead: an event, after which nobody is answered."""
    held = []

    def pump(source, sink, judge):
        said = b""
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                said += data
                sink.sendall(data)
        verdict = judge and bad(said)
        if verdict and not isinstance(verdict, float):
            held.append((source, sink))
            return
        time.sleep(verdict or 0.0)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    with target() as (_, port):
        def serve(host):
            if dead and dead.is_set():
                held.append(host)
                return
            controller = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=pump, args=(controller, host, False), daemon=True).start()
            pump(host, controller, True)

        with fake(serve) as front:
            yield front


def find(port, folder, texts, *options):
    """The finding of a campaign that plays these sequences once each, and its sequences."""
    seeds = folder / "seeds"
    seeds.mkdir()
    for i, text in enumerate(texts):
        (seeds / f"{i:03}.seq").write_text(text)
    run = subprocess.run([NVMFSPEC, "fuzz", "remote", "-a", "127.0.0.1", "-s", str(port),
                          "--runs", str(len(texts)), "--jobs", "1", "--hang", "1000", "--minimise",
                          "120", "--look", "60000", "-o", folder, *map(str, options), seeds],
                         capture_output=True, text=True, timeout=280)
    assert run.returncode == 1, run.stdout + run.stderr
    (found,) = [f for f in map(json.loads, run.stdout.splitlines()) if "finding" in f]
    kept = pathlib.Path(found["file"]).read_text()
    return found, ["sequence" + s for s in re.split(r"(?m)^sequence", kept)[1:]]


def test_a_hang_that_comes_now_and_then(tmp_path):
    """Each third session that has an Abort: once is not enough to say that it does not come again."""
    count = [0]

    def bad(said):
        count[0] += 1 if ABORT.search(said) else 0
        return ABORT.search(said) and count[0] % 3 == 1

    with relay(bad) as port:
        found, (kept,) = find(port, tmp_path, [SUSPECT])
    assert found["finding"] == "hang" and found["reproduced"], found
    assert 0 < found["again"] < found["played"], found
    assert "abort" in kept and len(kept.splitlines()) <= 4, kept


def test_a_hang_that_what_comes_behind_hides(tmp_path):
    """What follows the Abort came too late once: the sequence without it does it each time."""
    once = []

    def bad(said):
        last = ABORT.match(said[-72:])
        if ABORT.search(said) and not last and not once:
            once.append(said)
            return True
        return last

    with relay(bad) as port:
        found, (kept,) = find(port, tmp_path, [SUSPECT])
    assert found["finding"] == "hang" and found["reproduced"], found
    assert found["again"] == found["played"] > 0, found
    assert kept.splitlines()[-1].startswith("abort"), kept


LONG = ["sequence host", "icreq", "connect", *["get_smart", "keep_alive", "identify"] * 4, "abort sqe.cdw3=7",
        *["get_features", "identify sqe.cdw2=9"] * 3]


def test_a_hang_is_made_small_in_time(tmp_path):
    """4 s for each trial that does hang would be enough for seven of them."""
    with relay(lambda said: bool(ABORT.search(said))) as port:
        found, (kept,) = find(port, tmp_path, ["\n".join(LONG) + "\n"], "--hang", 4000,
                              "--minimise", 30)
    assert found["finding"] == "hang" and found["reproduced"], found
    assert found["again"] == found["played"] > 0, found
    assert kept.splitlines() == ["sequence host", "icreq", "connect", "abort"], kept


def test_an_end_that_comes_late_is_no_hang(tmp_path):
    """It is one for the trials, which are in a hurry: then what hangs in earnest is kept as it was."""
    def bad(said):
        return True if ABORT.search(said) else 0.6 if b"\x04\x00\x48" in said else False

    with relay(bad) as port:
        found, (kept,) = find(port, tmp_path, [SUSPECT], "--hang", 2000)
    assert found["finding"] == "hang" and found["reproduced"], found
    assert "abort" in kept, kept


def test_an_oracle_does_not_hide_a_hang(tmp_path):
    """It complains of each hang, too: what it says is told with it."""
    trace = tmp_path / "trace"

    def bad(said):
        if ABORT.search(said):
            trace.touch()
            return True

    with relay(bad) as port:
        found, (kept,) = find(port, tmp_path, [SUSPECT], "--oracle",
                              f"test ! -e {trace} || {{ rm {trace}; echo unwell; false; }}")
    assert found["finding"] == "hang" and found["reproduced"], found
    assert found["says"] == "unwell"
    assert "abort" in kept and "identify" not in kept, kept


@pytest.mark.parametrize("restart", [True, False])
def test_an_oracle_that_is_late(tmp_path, restart):
    """It complains long after the last session; then the one that did it is found."""
    trace = tmp_path / "trace"

    def bad(said):
        if ABORT.search(said):
            threading.Timer(0.3, trace.touch).start()

    texts = [PLAIN.format("keep_alive" if i % 2 else "get_features") for i in range(3)]
    texts[1] = SUSPECT
    again = ["--restart", f"rm -f {trace}"] if restart else []
    oracle = f"! test -e {trace}" if restart else f"test ! -e {trace} || {{ rm {trace}; false; }}"
    with relay(bad) as port:
        found, (kept,) = find(port, tmp_path, texts, "--late", 1500, "--oracle", oracle, *again)
    assert found["finding"] == "oracle" and found["reproduced"], found
    assert "abort" in kept and "identify" not in kept, kept


@pytest.mark.parametrize("line", ["echo task blocked", ":"])
def test_what_the_oracle_knows_of_a_loss(tmp_path, line):
    """Nobody answers any more; the oracle complains after that, as a kernel of a task that hangs, and may have no words."""
    trace, dead = tmp_path / "trace", threading.Event()

    def bad(said):
        if ABORT.search(said):
            dead.set()
            threading.Timer(1.5, trace.touch).start()

    with relay(bad, dead) as port:
        found, _ = find(port, tmp_path, [SUSPECT], "--timeout", 500, "--late", 3000, "--oracle",
                        f"test ! -e {trace} || {{ rm {trace}; {line}; false; }}")
    assert found["finding"] == "lost", found
    assert found["says"] == ("task blocked" if "blocked" in line else "queue 0: no ICResp within 500 ms"), found


def test_a_complaint_of_an_earlier_session_is_not_a_trials(tmp_path):
    """Each session with an Abort is complained of twice, late: what comes during the next trial is old."""
    trace = tmp_path / "trace"

    def bad(said):
        if ABORT.search(said):
            for seconds in 0.2, 0.8:
                threading.Timer(seconds, trace.touch).start()

    texts = [PLAIN.format("keep_alive"), SUSPECT, PLAIN.format("get_features")]
    with relay(bad) as port:
        found, (kept,) = find(port, tmp_path, texts, "--late", 2400, "--oracle",
                              f"test ! -e {trace} || {{ rm {trace}; echo $$ unwell; false; }}")
    assert found["finding"] == "oracle" and found["reproduced"], found
    assert found["again"] == found["played"] > 0, found
    assert "abort" in kept, kept


def test_what_does_not_come_again_is_kept_with_what_was_before(tmp_path):
    once = []

    def bad(said):
        if ABORT.search(said) and not once:
            once.append(said)
            return True

    with relay(bad) as port:
        found, kept = find(port, tmp_path, [PLAIN.format("get_smart"), PLAIN.format("keep_alive"),
                                            SUSPECT])
    assert found["finding"] == "hang" and not found["reproduced"], found
    assert "played" not in found
    assert [re.search("get_smart|keep_alive|abort", k)[0] for k in kept] == \
        ["get_smart", "keep_alive", "abort"]


def test_a_controller_that_never_stops_talking(tmp_path):
    """An Abort makes it say nonsense for good, and it does not close: the session ends nevertheless."""
    def serve(host):
        controller = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=pump, args=(controller, host), daemon=True).start()
        said = b""
        with contextlib.suppress(OSError):
            while not ABORT.search(said) and (data := host.recv(65536)):
                said += data
                controller.sendall(data)
            while ABORT.search(said):
                host.sendall(bytes(64))
                time.sleep(0.002)
            controller.shutdown(socket.SHUT_WR)

    def pump(source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    sequence = tmp_path / "talk.seq"
    sequence.write_text(SUSPECT)
    with target() as (_, port), fake(serve) as front:
        run = subprocess.run([NVMFSPEC, "fuzz", "repro", sequence, "-a", "127.0.0.1", "-s", str(front),
                              "--settle", "50", "--hang", "300"],
                             capture_output=True, text=True, timeout=20)
    assert run.returncode == 1 and "hang after" in run.stdout, run.stdout + run.stderr


def test_a_slow_oracle_makes_no_hang(tmp_path):
    """While it is asked, ends come that nobody reads: they are no lateness of the target."""
    with target() as (_, port):
        run = subprocess.run([NVMFSPEC, "fuzz", "remote", "-a", "127.0.0.1", "-s", str(port), "--time", "4",
                              "--look", "50", "--hang", "300", "--oracle", "sleep 0.4"],
                             capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("late", [[], ["--late", "300"]])
def test_an_oracle_that_stays_unwell_proves_nothing(tmp_path, late):
    """What it says after a trial it would have said without one."""
    sick = tmp_path / "sick"

    def bad(said):
        if ABORT.search(said):
            sick.touch()

    with relay(bad) as port:
        run = subprocess.run([NVMFSPEC, "fuzz", "remote", "-a", "127.0.0.1", "-s", str(port), "--runs", "200",
                              "--time", "60", "--findings", "1", "--look", "100", "--oracle",
                              f"! test -e {sick}", *late], capture_output=True, text=True, timeout=120)
    (found,) = [f for f in map(json.loads, run.stdout.splitlines()) if "finding" in f]
    assert found["finding"] == "oracle" and not found["reproduced"], found
    assert found["sessions"] > 1 and found["trials"] == 0, found
    assert "--restart" in run.stderr


@contextlib.contextmanager
def mortal(folder, front, *options, of=""):
    """A relay at a port that dies of an Abort, or "mute": of who says nothing, before a target: the command that
    starts it again."""
    (folder / "relay.py").write_text(RELAY)
    pids = folder / "pids"
    with target(*options) as (_, port):
        try:
            yield (f"/usr/bin/python3 {folder}/relay.py {front} {port} {of} 2>/dev/null & "
                          f"echo $! >>{pids}; echo it died of an abort")
        finally:
            for pid in pids.read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)


def test_a_session_that_breaks_a_rule_and_kills(tmp_path, free_port):
    """That it is lost is studied first; the rule is a finding of its own where it shows again."""
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    for i, text in enumerate(["get_smart\ndelay 200\nabort", "keep_alive", "get_features"]):
        (seeds / f"{i}.seq").write_text(PLAIN.format(text))
    port = free_port()
    with mortal(tmp_path, port, "--violate", "fab/queue/sqhd") as restart:
        run = subprocess.run([NVMFSPEC, "fuzz", "remote", "-a", "127.0.0.1", "-s", str(port), "--runs", "3",
                              "--jobs", "1", "--settle", "200", "--max-delay", "200",
                              "--minimise", "60", "--restart", restart, "-o", tmp_path, seeds],
                             capture_output=True, text=True, timeout=60)
    found = [f for f in map(json.loads, run.stdout.splitlines()) if "finding" in f]
    assert [f["finding"] for f in found] == ["lost", "rule"], run.stdout + run.stderr
    assert all(f["reproduced"] for f in found), found
    assert found[0]["says"] == "it died of an abort" and found[1]["rule"] == "fab/queue/sqhd"
    assert "abort" in pathlib.Path(found[0]["file"]).read_text()


def test_a_connection_without_a_word_has_a_capture(tmp_path, free_port):
    """What kills is that a host connects and goes: the capture has that, and plays again."""
    seeds = tmp_path / "seeds"
    seeds.mkdir()
    (seeds / "0.seq").write_text("sequence host queues=2\nraw\nclose\nicreq on=1\n")
    port = free_port()
    with mortal(tmp_path, port, of="mute") as restart:
        options = "-a", "127.0.0.1", "-s", str(port), "--restart", restart
        run = subprocess.run([NVMFSPEC, "fuzz", "remote", *options, "--runs", "1", "--jobs", "1", "--minimise", "60",
                              "-o", tmp_path, seeds], capture_output=True, text=True, timeout=60)
        (found,) = [f for f in map(json.loads, run.stdout.splitlines()) if "finding" in f]
        again = [subprocess.run([NVMFSPEC, "fuzz", "repro", *options,
                                 pathlib.Path(found["file"]).with_suffix(ending)], capture_output=True, text=True)
                 for ending in (".seq", ".pcap")]
    assert found["finding"] == "lost" and found["reproduced"], found
    assert pathlib.Path(found["file"]).read_text().splitlines()[2:] in (["close"], ["raw "]), found
    assert [a.returncode for a in again] == [1, 1], again
    assert all("lost: " in a.stdout for a in again), again


def test_ends_that_come_late_keep_nobody_waiting():
    """Three seconds pass after each session until the target closes: others are played meanwhile."""
    with relay(lambda said: 3.0) as port:
        begun = time.monotonic()
        run = subprocess.run([NVMFSPEC, "fuzz", "remote", "-a", "127.0.0.1", "-s", str(port), "--runs", "60",
                              "--jobs", "4", "--look", "1000"], capture_output=True, text=True, timeout=90)
        took = time.monotonic() - begun
    assert run.returncode == 0, run.stdout + run.stderr
    assert took < 20, "60 sessions, four at a time, would take 45 s"
