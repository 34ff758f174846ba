# SPDX-License-Identifier: BSD-3-Clause
"""The gate itself (ci/stages.sh): what fails is red and named, what flips is told, what a sanitizer has seen
is never lost, and a lab that does not boot is no success."""
import os
import pathlib
import re
import subprocess
import textwrap
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.fast  # nothing of ours runs in it

PASSES = "def test_good():\n    pass\n"
FAILS = "def test_bad():\n    assert 1 + 1 == 3\n"
FLIPS = """
    import pathlib
    def test_unsteady():
        times = pathlib.Path("times")
        with times.open("a") as f:
            f.write("x")
        assert len(times.read_text()) != 1, "the first time"
"""
EVERY_OTHER = FLIPS.replace("!= 1", "% 2 == 0")


@pytest.fixture
def gate(tmp_path):
    """Runs stages, given as shell functions, as ci/test does, over tests of their own."""
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (tmp_path / "ci").mkdir()
    (tmp_path / "ci/gate.txt").write_text("")
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 60\n")

    def run(stages, tests="", once="", **env):
        (tmp_path / "test_planted.py").write_text(textwrap.dedent(tests))
        names = " ".join(re.findall(r"stage_(\w+)\(\)", stages))
        script = f". {ROOT}/ci/lib.sh; . {ROOT}/ci/stages.sh; cd {tmp_path}; once='{once}'\n{stages}\n" \
            f"run_lanes '{names}'\n"
        return subprocess.run(["bash", "-c", script, "test"], capture_output=True, text=True, timeout=200,
                              env={**os.environ, "NVMFSPEC_CI_OUT": str(tmp_path / "out"),
                                   "TMPDIR": str(tmp_path), **env})
    return run


def last(run, n=6):
    return "\n".join(run.stdout.strip().split("\n")[-n:])


PYTEST = "stage_tests() { run_pytest test_planted.py; }"


def test_what_passes_is_green(gate):
    run = gate(PYTEST, PASSES)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "all stages passed: tests" in last(run) and "FLIPPED" not in run.stdout


def test_what_fails_each_time_is_red_and_named_last(gate):
    run = gate(PYTEST, PASSES + FAILS)
    assert run.returncode == 1, run.stdout + run.stderr
    assert re.search(r"FAILED:\n  tests .*\n    test_planted.py::test_bad: assert \(1 \+ 1\) == 3\n", last(run) + "\n")


def test_what_fails_only_the_first_time_has_flipped_and_is_named(gate):
    run = gate(PYTEST, PASSES + textwrap.dedent(FLIPS))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "tests" in run.stdout and "passed, 1 FLIPPED" in run.stdout
    assert "test_planted.py::test_unsteady: AssertionError: the first time" in last(run)


def test_the_second_look_has_the_build_of_the_first(gate):
    """A test that only another build has is not left out of it, which would be no pass."""
    build = "import os\nimport pytest\n\nif not os.environ.get('NVMFSPEC_TSAN'):\n    pytest.skip('no build', allow_module_level=True)\n"
    run = gate(PYTEST.replace("run_pytest", "NVMFSPEC_TSAN=/somewhere run_pytest"), build + textwrap.dedent(FLIPS))
    assert run.returncode == 0, run.stdout + run.stderr
    assert "passed, 1 FLIPPED" in run.stdout


def test_what_fails_every_other_time_flips_and_is_red(gate):
    """It fails, passes, and fails again: once of three is no success, and it is said that it flips."""
    run = gate(PYTEST, EVERY_OTHER)
    assert run.returncode == 1 and "test_unsteady" in last(run, 2)
    assert re.search(r"FLIPPED, and not let pass.*:\n    test_planted.py::test_unsteady: ", run.stdout)


def test_there_is_no_second_look_with_once(gate):
    run = gate(PYTEST, FLIPS, once="yes")
    assert run.returncode == 1 and "test_unsteady" in last(run)


def test_more_than_three_are_red_at_once(gate):
    four = "".join(textwrap.dedent(FLIPS).replace("unsteady", f"unsteady_{i}").replace('"times"', f'"times{i}"')
                   for i in range(4))
    run = gate(PYTEST, four)
    assert run.returncode == 1 and "more than 3 tests failed" in run.stdout
    assert all(f"test_unsteady_{i}" in last(run, 8) for i in range(4))


def test_what_flips_excuses_no_other_failure(gate):
    run = gate(PYTEST + "\nstage_build() { run_pytest test_planted.py; check false; }", FLIPS)
    assert run.returncode == 1 and "ci: FAILED false" in last(run)
    run = gate(PYTEST, textwrap.dedent(FLIPS) + FAILS)
    assert run.returncode == 1 and "test_bad" in last(run) and "test_unsteady" not in last(run, 3)


def test_tests_that_are_not_there_are_red(gate):
    assert gate("stage_tests() { run_pytest test_missing.py; }").returncode == 1
    run = gate(PYTEST, "import nothing_of_that_name\n")
    assert run.returncode == 1 and "ERROR test_planted.py" in last(run)


def test_a_stage_that_ends_early_is_red(gate):
    assert "tests" in last(gate("stage_tests() { exit 4; }"))
    assert gate("stage_tests() { exit 4; }").returncode == 1


def test_too_few_tests_are_red(gate):
    """Whatever it was that emptied a list of them."""
    run = gate(PYTEST + "\nfloor[tests]=2", PASSES)
    assert run.returncode == 1 and "1 passed, of at least 2" in last(run)
    assert gate(PYTEST + "\nfloor[tests]=1", PASSES).returncode == 0


def test_a_worker_names_what_failed_in_it(gate):
    run = gate("stage_tests() { run_workers 1 test_planted.py; }",
               "import pytest\n@pytest.mark.xdist_group('together')\n" + FAILS)
    assert run.returncode == 1
    assert "    test_planted.py::test_bad: " in last(run)


def test_each_line_of_what_is_left_out_names_a_test():
    lines = [line.split(None, 1) for line in (ROOT / "ci/gate.txt").read_text().splitlines() if line[:1] not in ("", "#")]
    listed = subprocess.run(["/usr/bin/python3", "-m", "pytest", "-p", "no:cacheprovider", "--collect-only", "-q"],
                            cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {mark for mark, _ in lines} == {"first", "nightly", "again", "sanitized"}
    assert not [begins for _, begins in lines if not any(name.startswith(begins) for name in listed)]


SLOW = "import time\ndef test_slow():\n    time.sleep(100)\n"


def test_a_stage_over_its_budget_says_in_which_test(gate):
    began = time.monotonic()
    run = gate("stage_more() { :; }\n" + PYTEST + "\nbudget[tests]=3", SLOW)
    assert run.returncode == 3 and time.monotonic() - began < 60, run.stdout + run.stderr
    assert re.search(r"tests .*NO TIME: in test_planted.py::test_slow \(for \d+ s\)", last(run, 9))
    run = gate("stage_tests() { run_workers 1 test_planted.py; }; stage_bad() { check false; }\nbudget[tests]=5", SLOW)
    assert run.returncode == 1 and "NO TIME: in test_planted.py::test_slow" in run.stdout and "ci: FAILED false" in last(run)


OVERFLOW = r"""
#include <stdlib.h>
int main(int argc, char **argv) { char *p = malloc(8); p[8 * argc] = 1; int r = p[0] + !argv; free(p); return r & 0; }
"""


def test_an_overflow_in_a_program_whose_end_nobody_reads_is_red(gate, tmp_path):
    (tmp_path / "program.c").write_text(OVERFLOW)
    subprocess.run(["cc", "-g", "-fsanitize=address", "-o", "program", "program.c"], cwd=tmp_path, check=True)
    run = gate("stage_asan() { sanitized run_pytest test_planted.py; }",
               "import subprocess\ndef test_it():\n    subprocess.run(['./program'], stderr=subprocess.DEVNULL)\n")
    assert run.returncode == 1, run.stdout
    assert "heap-buffer-overflow" in run.stdout and "a sanitizer has reported" in last(run)


def test_a_guest_that_does_not_boot_is_red(gate, tmp_path):
    key = subprocess.run(["bash", "-c", f"lab_d={ROOT}/ci/lab.d instrumented=; . $lab_d/uml.sh; echo $(uml_key)-$UML_VERSION"],
                         capture_output=True, text=True, check=True).stdout.strip()
    kernel = tmp_path / f"cache/nvmfspec/lab/uml-{key}/linux"
    kernel.parent.mkdir(parents=True)
    kernel.write_text("#!/bin/sh\necho no such machine\nexit 1\n")
    kernel.chmod(0o755)
    stage = f"stage_lab() {{ cd {ROOT}; has_lab || return 0; }}"
    cache = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = gate(stage, **cache)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "does not boot here" in run.stdout and "ci: FAILED no lab" in last(run)
    assert gate(stage, **cache, NVMFSPEC_LAB="no").returncode == 0
