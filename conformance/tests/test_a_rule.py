# SPDX-License-Identifier: BSD-3-Clause
"""A new rule is a row, a checker, a violator and a case; all else follows by itself. CONTRIBUTING.md
tells of the example in a_rule/, which is applied to a copy of the sources here, built and run."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
PATCH = pathlib.Path(__file__).parent / "a_rule/ofcs.patch"
RULE, SYMBOL = "base/identify/ofcs", "ID_OFCS"
TESTS = ["pdu_nvme_machine_tests_test_spoil", "pdu_nvme_wire_tests_test_rules"]


def run(*args, code=0, **k):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True, **k)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return done.stdout


def copy(to):
    skip = shutil.ignore_patterns("build", "corpus", "captures", "__pycache__")
    for name in ("pdu", "host", "target", "pcap", "conformance", "fuzz", "ci", "bench", "tests"):
        shutil.copytree(ROOT / name, to / name, ignore=skip)
    for path in (ROOT / "CMakeLists.txt", *ROOT.glob("*.[ch]")):
        shutil.copy(path, to)


ENV = {**os.environ, "CCACHE_BASEDIR": "/", "CCACHE_NOHASHDIR": "1"}


@pytest.fixture(scope="module")
def configured(tmp_path_factory):
    """A copy of the sources with the rule."""
    tree = tmp_path_factory.mktemp("a_rule")
    copy(tree)
    run("patch", "-p1", "-i", PATCH, cwd=tree)
    run("cmake", "-S", tree, "-B", tree / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
        "-DCMAKE_C_FLAGS=-O0 -Werror", env=ENV)
    return tree / "build"


@pytest.fixture(scope="module")
def built(configured):
    """The program with the rule. Its objects are the same wherever it is built: ccache may know them."""
    run("cmake", "--build", configured, "--target", "nvmfspec", *TESTS, env=ENV)
    return configured


def figures(program):
    return run(program, "conform", "--rules", "--count")


def test_it_touches_four_files():
    touched = re.findall(r"^\+\+\+ b/(.*)$", PATCH.read_text(), re.M)
    assert len(touched) == len(set(touched)) <= 4
    assert "pdu/nvme/wire/rules.def" in touched and not any("tests" in f for f in touched)


@pytest.mark.xdist_group("a-rule-built")
def test_it_applies_and_the_sources_are_whole(configured):
    assert (configured / "build.ninja").exists()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.xdist_group("a-rule-built")
class TestBuilt:
    def test_the_rulebook_has_it(self, built):
        rules = json.loads(run(built / "nvmfspec", "conform", "--rules", "--json", "-"))["rules"]
        rule = next(rule for rule in rules if rule["id"] == RULE)
        assert rule["symbol"] == SYMBOL and rule["cases"] == rule["host_cases"] == [RULE]
        assert f"\n{RULE}\n  Reserved bits of OFCS" in run(built / "nvmfspec", "conform", "--rules")
        run(ROOT / "ci/rules", built / "nvmfspec", built.parent)
        for test in TESTS:
            run(built / test)

    def test_the_power_check_catches_it(self, built):
        out = run(built / "nvmfspec", "conform", "--power", RULE)
        assert re.search(rf"caught +violated +{RULE} +by {RULE}", out) and "power: 1 of 1" in out
        run(built / "nvmfspec", "conform", RULE)

    def test_captures_show_it(self, built, tmp_path):
        path = tmp_path / "broken.pcapng"
        run(built / "nvmfspec", "conform", RULE, "--violate", RULE, "--strict", "--pcap", path,
            code=1)
        out = run(built / "nvmfspec", "pcap", "check", "--all", "--strict", "-o", "json", path,
                  code=1)
        assert RULE in {json.loads(line).get("rule") for line in out.splitlines()}

    def test_hosts_meet_it(self, built):
        out = run(built / "nvmfspec", "conform", "--role", "host", RULE)
        assert "the host survives it" in out and "1 passed" in out

    def test_the_figures_count_it(self, built):
        def numbers(text):
            return [int(n) for n in re.findall(r"\d+", text)]

        before, after = figures(NVMFSPEC), figures(built / "nvmfspec")
        line = {name: (numbers(b), numbers(a)) for b, a in
                zip(before.splitlines(), after.splitlines())
                for name in ("rules:", "cases", "captures", "request", "power") if name in b}
        for name, (b, a) in line.items():
            assert a[0] == b[0] + 1, name
        assert line["power"][1][:2] == [n + 1 for n in line["power"][0][:2]]  # TCP and RDMA


# --- a row that lacks something ------------------------------------------------------------------

GROUPS = {
    "whole": lambda row: row,
    "no duty": lambda row: re.sub(r"DUTY\(.*\),\n", "\n", row),
    "no reaction": lambda row: row.replace("NO_REACTION, ", ""),
    "no checker": lambda row: re.sub(r'CHECKED\("[^"]*"\), ', "", row),
    "no violator": lambda row: row.replace("BROKEN(V_CQE), ", ""),
    "not seen": lambda row: row.replace(", SEEN(LIVE | CAPTURE)", ""),
    "no source": lambda row: re.sub(r', SOURCE\("[^"]*"\)', "", row),
    "two sources": lambda row: row.replace("NO_REACTION", 'SOURCE("B2.2 1")'),
}


@pytest.mark.parametrize("what", GROUPS)
def test_a_row_that_lacks_something_does_not_compile(what, tmp_path):
    for folder in ("pdu/core", "pdu/nvme/wire"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("tests"))
    patch = next(p for p in PATCH.read_text().split("+++ b/") if p.startswith("pdu/nvme/wire/"))
    added = "".join(re.findall(r"^\+((?:RULE\(| ).*\n)", patch, re.M))
    rows = (ROOT / "pdu/nvme/wire/rules.def").read_text() + GROUPS[what](added)
    (tmp_path / "pdu/nvme/wire/rules.def").write_text(rows)
    done = subprocess.run(["cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                           f"-I{tmp_path}", tmp_path / "pdu/nvme/wire/rules.c"],
                          capture_output=True, text=True)
    assert (done.returncode == 0) == (what == "whole"), done.stderr
