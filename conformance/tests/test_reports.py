# SPDX-License-Identifier: BSD-3-Clause
"""What all reports say alike: causes before effects, the sentence that decides, and how a run ended early."""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import xml.etree.ElementTree as xml

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
KINDS = ("json", "junit", "tap", "html")


def asked_for(folder):
    return [arg for kind in KINDS for arg in (f"--{kind}", folder / kind)]


def conform(folder, *args, code=0):
    done = subprocess.run([NVMFSPEC, "conform", *map(str, args), *map(str, asked_for(folder))],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def texts(folder):
    return {kind: (folder / kind).read_text() for kind in KINDS}


CAUSE = "tcp/c2hdata/datao"


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """A target that breaks one rule of data transfer, and so fails many cases."""
    folder = tmp_path_factory.mktemp("broken")
    done = conform(folder, "--violate", CAUSE, "--brief", "--timeout-scale", "3", "tcp", "fab/queue", "nvm", code=1)
    return done.stdout, texts(folder), json.loads((folder / "json").read_text())


def test_the_cause_comes_before_its_effects(broken):
    out, reports, report = broken
    failures = [r for r in report["results"] if r["verdict"] in ("fail", "error") and "requirement" in r]
    caused = [r for r in failures if r["cause"] == CAUSE]
    says = f"{len(caused)} of {len(failures)} failures: the target broke {CAUSE} (T1.0 "
    assert len(caused) > 10 and len(caused) >= 0.9 * len(failures)
    assert report["causes"][0]["rule"] == CAUSE and report["causes"][0]["says"].startswith(says)
    assert out.index(f"\ncause  {says}") < out.index("\nfail  ")
    assert reports["html"].index(f'<p class="cause">{says}') < reports["html"].index("<table>")
    assert f"# cause: {says}" in reports["tap"][:reports["tap"].index("ok 1 ")]
    properties = xml.fromstring(reports["junit"]).findall("testsuite/properties/property")
    assert [p.get("value") for p in properties if p.get("name") == "cause"][0].startswith(says)


def test_a_command_that_the_target_lacks_is_what_fails(tmp_path):
    """Not the rule of each case that needs it."""
    cases = ("tcp/setup/maxr2t-max", "tcp/header/headers")
    conform(tmp_path, "--violate", "base/command/mandatory", "--timeout-scale", "3", *cases, code=1)
    report = json.loads((tmp_path / "json").read_text())
    failed = {r["id"]: r["rule"] for r in report["results"] if r["verdict"] == "fail"}
    assert [failed[case] for case in cases] == ["base/command/mandatory"] * 2


def test_each_failure_quotes_its_rule(broken):
    out, reports, report = broken
    for r in (r for r in report["results"] if r["verdict"] == "fail" and "rule" in r):
        assert r["source"] and r["gist"] and r["expected"] and r["seen"]
        assert r["basis"] in ("printed", "general rule") or r.get("harm")
        line = f"{r['rule']} ({r['source']}; "
        for text in (out, reports["junit"], reports["tap"], reports["html"]):
            assert line in text and r["gist"].split("'")[0].split("<")[0] in text


def test_data_that_differs_is_told_in_words(broken):
    seen = {r["seen"] for r in broken[2]["results"] if r["verdict"] == "fail" and r.get("harm")}
    assert any(re.fullmatch(r"..h in place of ..h at byte \d+; \d+ of \d+ bytes differ", s) for s in seen)


def test_a_known_bug_is_named_where_it_did_harm_only(tmp_path):
    """A target that does not refuse H2CData without R2T is not therefore the one of CVE-2023-6535."""
    conform(tmp_path, "--waive", "tcp/h2cdata/unsolicited", "tcp/h2cdata", code=1)
    assert "CVE-" not in "".join(texts(tmp_path).values())
    explained = subprocess.run([NVMFSPEC, "conform", "--explain", "tcp/h2cdata"], capture_output=True, text=True,
                               timeout=60)
    assert "related: CVE-2023-6535" in explained.stdout


# --- runs that end early --------------------------------------------------------------------------

def ended_early(folder, error):
    report = json.loads((folder / "json").read_text())
    assert error in report["error"] and report["summary"]["error"] >= 1
    suite = xml.fromstring((folder / "junit").read_text()).find("testsuite")
    assert int(suite.get("errors")) >= 1 and int(suite.get("tests")) == len(suite.findall("testcase"))
    assert error in (folder / "html").read_text() and error in (folder / "tap").read_text()
    return report


@pytest.mark.parametrize("args, error, code", [
    (["-a", "127.0.0.1", "-s", "1", "-n", "nqn.2026-01.com.example:s1"], "refused", 3),
    (["-a", "127.0.0.1", "-s", "1"], "refused", 3),
    (["--ns", "tape:64M"], "tape", 3),
    (["--baseline", "/no/such/file"], "/no/such/file", 2),
    (["--pcap", "/no/such/file"], "/no/such/file", 3),
], ids=["connect", "discovery", "start", "baseline", "pcap"])
def test_a_run_without_cases_has_its_reports(tmp_path, args, error, code):
    for kind in KINDS:
        (tmp_path / kind).write_text("of the run before")
    conform(tmp_path, "tcp/setup/icreq", *args, code=code)
    assert ended_early(tmp_path, error)["results"] == []
    assert "Bail out! " in (tmp_path / "tap").read_text()


def run(folder, *args):
    """When the first line of it shows: at once, though no case has ended."""
    process = subprocess.Popen([NVMFSPEC, "conform", "fab/property", "-j", "1", "--repeat", "10000", *args,
                             *map(str, asked_for(folder))], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline()
    threading.Thread(target=process.stdout.read, daemon=True).start()
    return process


def test_a_signal_ends_it_with_reports(tmp_path):
    with run(tmp_path) as process:
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 3
    ended_early(tmp_path, "interrupted before all cases were run")


def test_no_report_of_an_earlier_run_survives(tmp_path):
    for kind in KINDS:
        (tmp_path / kind).write_text("of the run before")
    with run(tmp_path) as process:
        time.sleep(1)
        process.kill()
        process.wait(timeout=60)
    assert not any(tmp_path.iterdir())


def test_a_report_stays_what_it_is_if_it_is_no_file(tmp_path):
    """A pipe is written to, a link is followed; neither is replaced."""
    (tmp_path / "real.json").write_text("{}")
    (tmp_path / "json").symlink_to("real.json")
    os.mkfifo(tmp_path / "tap")
    with subprocess.Popen([NVMFSPEC, "conform", "tcp/setup/icreq", "--json", tmp_path / "json", "--tap",
                           tmp_path / "tap"], stdout=subprocess.DEVNULL) as process:
        assert (tmp_path / "tap").read_text().startswith("TAP version 13")
        assert process.wait(timeout=60) == 0
    assert (tmp_path / "json").is_symlink() and (tmp_path / "tap").is_fifo()
    assert json.loads((tmp_path / "real.json").read_text())["summary"]["pass"] > 0
    assert len(list(tmp_path.iterdir())) == 3


def test_a_name_need_not_be_an_nqn(tmp_path):
    """Those of nvmetcli and blktests are none."""
    done = conform(tmp_path, "-a", "127.0.0.1", "-s", "1", "-n", "blktests-subsystem-1", code=3)
    assert "refused" in done.stderr
    target = ended_early(tmp_path, "refused")["target"]
    assert target == "127.0.0.1:1  blktests-subsystem-1 (not an NQN: B2.2 4.7)"
