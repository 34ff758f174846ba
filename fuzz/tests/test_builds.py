# SPDX-License-Identifier: BSD-3-Clause
"""The ways to build fuzz targets that no preset of the other tests has: OSS-Fuzz's, AFL++'s."""
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*argv, **env):
    return subprocess.run([str(a) for a in argv], cwd=ROOT, env={**os.environ, **env}, text=True,
                          capture_output=True, timeout=280)


@pytest.mark.slow
@pytest.mark.fast
@pytest.mark.needs("clang")
def test_oss_fuzz(tmp_path):
    """Fuzzer, corpus, dictionary and options of each target; the fuzzer takes them and runs."""
    done = run("fuzz/oss-fuzz/build.sh", "rules", "rdma_life", OUT=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    for target in "rules", "rdma_life":
        with zipfile.ZipFile(tmp_path / f"fuzz_{target}_seed_corpus.zip") as seeds:
            assert len(seeds.namelist()) >= len(list((ROOT / "fuzz/corpus" / target).iterdir()))
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
    assert run("fuzz/soak", "--help").returncode == 2


def test_soak_tells_how_far_it_is(tmp_path):
    """Seconds by target and commit; what was before a finding counts no more."""
    log = tmp_path / "soak.log"
    log.write_text("pdu 40.5 100 aaa clean\npdu 30 50 bbb+ clean\nrules 70 9 aaa clean\n"
                   "rules 5 1 aaa found\nrules 61 7 bbb clean\n")
    done = run("fuzz/soak", "--report", "65", SOAK_LOG=str(log)).stdout.splitlines()
    lines = {line.split()[0]: line.split() for line in done}
    targets = run("fuzz/run", "--list").stdout.split()
    assert set(targets) <= set(lines)
    assert " ".join(lines["pdu"]) == "pdu 70 CPU s 150 runs aaa: 40 bbb+: 30"
    assert " ".join(lines["rules"]) == "rules 61 CPU s 7 runs aaa: found bbb: 61"
    assert done[-1].startswith(f"1 of {len(targets)} targets have had 65 CPU seconds; the least has ")


def test_every_target_has_a_corpus_and_a_dictionary():
    """Texts of sequences have a mutator that knows all the words: no dictionary but one."""
    targets = run("fuzz/run", "--list").stdout.split()
    assert len(targets) > 20
    for target in targets:
        assert any((ROOT / "fuzz/corpus" / target).iterdir()), target
        source = (ROOT / f"fuzz/targets/{target}.c").read_text()
        assert "seq_mutate_text" in source or (ROOT / f"fuzz/dict/{target}.dict").exists(), target


def test_corpus_stays_small():
    files = [f for f in (ROOT / "fuzz/corpus").rglob("*") if f.is_file()]
    assert sum(f.stat().st_size for f in files) < 5 << 20


def test_coverage_tells_what_is_missing(tmp_path):
    """The report on figures that are known: a line and a cell are missing, and below the bars."""
    lines = [{"line_number": 1, "count": 0, "branches": []},
             {"line_number": 2, "count": 1, "branches": [{"count": 1}, {"count": 0}]}]
    (tmp_path / "cov.json").write_text(
        '{"files": [{"file": "pdu/wire/le.h", "lines": %s}]}' % str(lines).replace("'", '"'))
    (tmp_path / "cells").write_text("m s a legal 3\nm s b legal 0\nm s a illegal 1\nm s b legal 0\n")
    done = run("fuzz/coverage.py", tmp_path / "cov.json", tmp_path / "cells", "--all")
    assert done.returncode == 1
    assert "never: m s b legal" in done.stdout
    assert "lines              1 of     2   50.0 %" in done.stdout
    assert "branches           1 of     2   50.0 %" in done.stdout
    assert "legal cells        1 of     2   50.0 %" in done.stdout
