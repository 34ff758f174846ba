# SPDX-License-Identifier: BSD-3-Clause
"""Targets with less of everything are as right as others: no case may fail on them."""
import contextlib
import functools
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build" / "nvmfspec"))
NQN = "nqn.2026-01.io.nvmfspec:target"


def profiles():
    """What --help says of each, by name."""
    if not os.path.exists(NVMFSPEC):
        return {}
    text = subprocess.run([NVMFSPEC, "target", "--help"], capture_output=True, text=True, check=True).stdout
    return dict(re.findall(r"^  (\S+) +(.*)$", text.split("\n--profile ", 1)[1], re.M))


PROFILES = profiles()
SHAPES = [name for name in PROFILES if name not in ("tolerant", "strict")]
OVER_TCP = [name for name in SHAPES if not PROFILES[name].startswith("RDMA: ")]
OVER_RDMA = [name for name in SHAPES if not PROFILES[name].startswith("TCP: ")]


def options(name):
    """Those that set what this profile sets."""
    return PROFILES[name].rsplit(": ", 1)[1].split()


@contextlib.contextmanager
def target(*args):
    """Its port."""
    process = subprocess.Popen([NVMFSPEC, "target", "-s", "0", *args], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    try:
        yield re.search(r"listening on \S+:(\d+) ", process.stdout.readline()).group(1)
    finally:
        process.terminate()
        process.communicate()


def judge(port, *args):
    return subprocess.run([NVMFSPEC, "conform", "-a", "127.0.0.1", "-s", port, "--strict", "--brief",
                           "--timeout-scale", "3", *args],
                          capture_output=True, text=True, timeout=120, check=False)


def judge_over_rdma(*args):
    """The target in the suite's own process, over RDMA in memory."""
    return subprocess.run([NVMFSPEC, "conform", "-t", "rdma", "--strict", "--brief",
                           "--timeout-scale", "3", *args],
                          capture_output=True, text=True, timeout=120, check=False)


# --- each profile -----------------------------------------------------------------------------------

@pytest.mark.parametrize("name", OVER_TCP)
def test_profile(name):
    with target("--profile", f"strict,{name}") as port:
        ran = judge(port, "--allow-write", "1")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("name", OVER_RDMA)
def test_profile_over_rdma(name):
    ran = judge_over_rdma("--profile", name)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    if name not in OVER_TCP:  # as in "ICDOFF 2"
        option, value = options(name)
        assert f"{option[2:].upper()} {value}," in ran.stdout.splitlines()[1]


@functools.cache
def seen(*args):
    """What a host sees of such a target."""
    with target(*args) as port:
        ran = judge(port, "tcp/setup/icreq-live")
        queues = subprocess.run([NVMFSPEC, "host", "get-feature", "queues", "-a", "127.0.0.1", "-s", port, "-n", NQN],
                                capture_output=True, text=True, timeout=60, check=True).stdout
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()[1], queues


@pytest.mark.parametrize("name", OVER_TCP)
def test_a_profile_is_the_options_that_it_names(name):
    assert seen("--profile", name) == seen(*options(name)) != seen()


@pytest.mark.parametrize("args, says", [
    (["--limit", "queue_entries=64", "--profile", "small-queues"], "queues of 64,"),
    (["--profile", "small-queues", "--limit", "queue_entries=64"], "queues of 64,"),
    (["--cpda", "0", "--profile", "padding"], "CPDA 0,"),
    (["--profile", "no-in-capsule", "--limit", "in_capsule=512"], "in-capsule 512 bytes,"),
    (["--ns", "mem:1M", "--profile", "large-blocks"], "2048 x 512 bytes"),
    (["--profile", "one-command", "--profile", "small-queues,padding"], "queues of 16,"),
], ids=lambda v: v if isinstance(v, str) else " ".join(v))
def test_options_win_over_a_profile(args, says):
    assert says in seen(*args)[0]


def test_each_profile_is_documented():
    document = (ROOT / "doc/target.md").read_text()
    assert set(re.findall(r"^\| `([a-z0-9-]+)` \| (?:TCP|RDMA|both) \|", document, re.M)) == set(PROFILES)


# --- what no profile has ----------------------------------------------------------------------------

@pytest.mark.parametrize("limits", [["queue_entries=4"], ["queues=2"], ["in_capsule=8192", "buffers=4M"]], ids=" ".join)
def test_small(limits):
    with target("--profile", "strict", *(arg for limit in limits for arg in ("--limit", limit))) as port:
        ran = judge(port, "--allow-write", "1")
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("limit", ["queue_entries=4", "rdma_in_capsule=512"])
def test_small_over_rdma(limit):
    ran = judge_over_rdma("--limit", limit)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("datal", [128, 340])
def test_small_c2hdata(datal):
    """T1.0 3.3.2.1 sets no least DATAL, and many PDUs are no flood."""
    with target("--limit", f"c2hdata={datal}") as port:
        ran = judge(port, "fab/queue/large-reads", "base/identify/mdts")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_few_controllers():
    """Those of the case before may be on their way out still."""
    ran = judge_over_rdma("--limit", "controllers=8", "--jobs", "1", "rdma/request", "rdma/accept", "rdma/reject",
                          "rdma/capsule", "rdma/in-capsule", "rdma/sgl", "rdma/key", "rdma/transfer",
                          "rdma/response", "rdma/flow", "rdma/identify")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_discovery_alone():
    """What I/O controllers need not be asked of others (Base 2.2 figures 28, 31, 32)."""
    with target("--profile", "strict,one-queue") as port:
        ran = judge(port, "-n", "nqn.2014-08.org.nvmexpress.discovery")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "this case is about I/O controllers" in ran.stdout


# --- the default ------------------------------------------------------------------------------------

# Cases that fail on a tolerant target, and what it bears with there. What else it bears with, associations that have
# lost an I/O queue, no case asks for.
BORNE = {
    "fab/connect/hostnqn-empty": "SPDK's programs have no name",
    "fab/connect/hostnqn-syntax": "where any host is allowed, any name is",
}


def test_the_default_target_bears_with_hosts_and_is_right_besides():
    with target() as port:
        ran = judge(port, "--allow-write", "1", "--json", "-")
    assert ran.returncode == 1, ran.stderr
    rules = json.loads(subprocess.run([NVMFSPEC, "conform", "--rules", "--json", "-"], capture_output=True, text=True,
                                      check=True).stdout)["rules"]
    bound = {rule["id"]: rule["bound"] for rule in rules}
    failed = {r["id"]: r for r in json.loads(ran.stdout)["results"] if r["verdict"] not in ("pass", "info", "skip")}
    assert set(failed) == set(BORNE), [(r["id"], r["verdict"], r["seen"]) for r in failed.values()]
    assert all(r["verdict"] == "fail" and bound[r["rule"]] == "host" for r in failed.values())
