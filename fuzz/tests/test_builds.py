# SPDX-License-Identifier: BSD-3-Clause
"""The ways to build fuzz targets that no preset of the other tests has: OSS-Fuzz's, AFL++'s."""
import lzma
import os
import shutil
import signal
import subprocess
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*argv, **env):
    return subprocess.run([str(a) for a in argv], cwd=ROOT, env={**os.environ, **env}, text=True,
                          capture_output=True, timeout=280)


def corpus(target):
    return list(Path(run("fuzz/seeds", target).stdout.strip()).iterdir())


@pytest.mark.slow
@pytest.mark.fast
@pytest.mark.needs("clang")
def test_oss_fuzz(tmp_path):
    """Fuzzer, corpus, dictionary and options of each target; the fuzzer takes them and runs."""
    done = run("fuzz/oss-fuzz/build.sh", "rules", "rdma_life", OUT=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for target in "rules", "rdma_life":
        with zipfile.ZipFile(tmp_path / f"fuzz_{target}_seed_corpus.zip") as seeds:
            assert len(seeds.namelist()) >= len(corpus(target))
            seeds.extractall(tmp_path / "seeds" / target)
        options = (tmp_path / f"fuzz_{target}.options").read_text()
        assert f"dict = fuzz_{target}.dict" in options and "max_len = " in options
        found = run(tmp_path / f"fuzz_{target}", "-runs=3000", tmp_path / "seeds" / target,
                    f"-dict={tmp_path}/fuzz_{target}.dict")
        assert found.returncode == 0, found.stderr
        assert "Done 3000 runs" in found.stderr


def test_names_what_it_does_not_know():
    assert "no target 'nothing'" in run("fuzz/run", "nothing", "1").stderr
    assert run("fuzz/run").returncode == 2
    assert run("fuzz/afl", "nothing").returncode == 2
    assert "no target 'nothing'" in run("fuzz/soak", "nothing").stderr


def soak(tmp_path, *argv):
    return run("fuzz/soak", *argv, SOAK_LOG=str(tmp_path / "log"), SOAK_RECORD=str(tmp_path / "record"))


def test_soak_tells_how_far_it_is(tmp_path):
    """Seconds by target and commit, of record and log; what was before a finding counts no more."""
    (tmp_path / "record").write_text("# head\npdu 40.5 100 aaa clean\nrules 70 9 aaa clean\n")
    (tmp_path / "log").write_text("pdu 30 50 bbb+ clean\nrules 5 1 aaa found\nrules 60 7 bbb clean\n"
                                  "rules 1 1 bbb clean\n")
    targets = run("fuzz/run", "--list").stdout.split()
    for how in "--report", "--record", "--report":
        done = soak(tmp_path, how, "--seconds", "65").stdout.splitlines()
        lines = {line.split()[0]: line.split() for line in done}
        assert set(targets) <= set(lines)
        assert " ".join(lines["pdu"]) == "pdu 70 CPU s 150 runs aaa: 40 bbb+: 30"
        assert " ".join(lines["rules"]) == "rules 61 CPU s 8 runs aaa: found bbb: 61"
        assert done[-1].startswith(f"1 of {len(targets)} targets have had 65 CPU seconds; the least has ")
    assert (tmp_path / "log").read_text() == ""
    (tmp_path / "log").write_text("pdu 30 50 bbb+ clean\nwhat is this\n")
    assert "log:2: not a turn" in soak(tmp_path, "--report").stderr


@pytest.mark.slow
@pytest.mark.fast
@pytest.mark.needs("clang")
def test_soak_goes_on_where_it_was_stopped(tmp_path):
    """Stopped in its second turn, it writes down what that one came to, and the next one does the rest, no more."""
    log = tmp_path / "log"
    env = {**os.environ, "SOAK_LOG": str(log), "SOAK_RECORD": "/dev/null"}
    assert run("fuzz/run", "--build", "rules").returncode == 0
    with subprocess.Popen(["fuzz/soak", "--turn", "2", "rules"], cwd=ROOT, env=env, stdout=subprocess.PIPE,
                          text=True) as first:
        while not log.exists() or not log.read_text():
            time.sleep(0.1)
        time.sleep(0.5)
        first.send_signal(signal.SIGINT)
        assert "0 of 1 targets" in first.communicate(timeout=60)[0]
        assert first.returncode == 0
    stopped = [line.split() for line in log.read_text().splitlines()]
    assert len(stopped) >= 2 and all(turn[0::4] == ["rules", "clean"] for turn in stopped), stopped
    goal = int(sum(float(turn[1]) for turn in stopped)) + 1
    done = run("fuzz/soak", "--turn", "60", "--seconds", goal, "rules", **env)
    assert done.returncode == 0 and "1 of 1 targets" in done.stdout
    whole = [float(line.split()[1]) for line in log.read_text().splitlines()]
    more = whole[len(stopped):]
    assert more and goal <= sum(whole) and sum(more) < 15, whole  # reading the corpus counts, and is no turn of 60 s


CHOICES = {"srp_life", "srp_watch"}  # a byte for each choice: there are no words


def test_every_target_has_a_corpus_and_a_dictionary():
    """Texts of sequences have a mutator that knows all the words: no dictionary but one."""
    targets = run("fuzz/run", "--list").stdout.split()
    assert len(targets) > 20
    for target in targets:
        assert corpus(target), target
        source = (ROOT / f"fuzz/targets/{target}.c").read_text()
        words = "LLVMFuzzerCustomMutator_OF_SEQUENCES" in source or "seq_mutate_text" in source
        assert words or target in CHOICES or (ROOT / f"fuzz/dict/{target}.dict").exists(), target


def test_corpus_stays_small():
    """Unpacked, and in a clone, where it is a file for each target."""
    targets = run("fuzz/run", "--list").stdout.split()
    assert sum(f.stat().st_size for target in targets for f in corpus(target)) < 5 << 20
    archives = list((ROOT / "fuzz/corpus").iterdir())
    assert sorted(a.name for a in archives) == sorted(f"{target}.tar.xz" for target in targets)
    assert sum(a.stat().st_size for a in archives) < 1 << 20


def test_a_corpus_is_packed_the_same_again(tmp_path):
    """By itself from what was unpacked, without a trace of when, where and by whom; and changes are taken."""
    (tmp_path / "fuzz").mkdir()
    shutil.copy(ROOT / "fuzz/seeds", tmp_path / "fuzz/seeds")

    def seeds(*argv):
        done = subprocess.run([tmp_path / "fuzz/seeds", *argv], capture_output=True, text=True, check=True)
        return Path(done.stdout.strip())

    first = seeds("--pack", "auth", *{f.parent for f in corpus("auth")})
    packed = tmp_path / "fuzz/corpus/auth.tar.xz"
    with lzma.open(packed) as mine, lzma.open(ROOT / "fuzz/corpus/auth.tar.xz") as trees:
        assert mine.read() == trees.read()
    assert {f.name: f.read_bytes() for f in first.iterdir()} == {f.name: f.read_bytes() for f in corpus("auth")}
    before = packed.read_bytes()
    (first / "one more").write_text("input")
    assert seeds("--pack", "auth", first) == first and packed.read_bytes() != before
    shutil.rmtree(first)
    assert (seeds("auth") / "one more").read_text() == "input"
    packed.write_bytes(before)
    assert not (seeds("auth") / "one more").exists()
    assert list(seeds("nothing").iterdir()) == []


def test_coverage_tells_what_is_missing(tmp_path):
    """The report on figures that are known: a line and a cell are missing, and below the bars."""
    lines = [{"line_number": 1, "count": 0, "branches": []},
             {"line_number": 2, "count": 1, "branches": [{"count": 1}, {"count": 0}]}]
    (tmp_path / "cov.json").write_text(
        '{"files": [{"file": "pdu/core/le.h", "lines": %s}]}' % str(lines).replace("'", '"'))
    (tmp_path / "cells").write_text("m s a legal 3\nm s b legal 0\nm s a illegal 1\nm s b legal 0\n")
    done = run("fuzz/coverage.py", tmp_path / "cov.json", tmp_path / "cells", "--all")
    assert done.returncode == 1
    assert "never: m s b legal" in done.stdout
    assert "lines              1 of     2   50.0 %" in done.stdout
    assert "branches           1 of     2   50.0 %" in done.stdout
    assert "legal cells        1 of     2   50.0 %" in done.stdout
