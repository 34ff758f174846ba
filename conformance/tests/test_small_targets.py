# SPDX-License-Identifier: BSD-3-Clause
"""Targets with less of everything are as right as others: no case may fail on them."""
import os
import re
import subprocess
from pathlib import Path

import pytest

NVMFSPEC = os.environ.get(
    "NVMFSPEC", str(Path(__file__).resolve().parents[2] / "build" / "nvmfspec"))


@pytest.fixture
def small_target(request):
    target = subprocess.Popen([NVMFSPEC, "target", "-s", "0", "--profile", "strict", "--limit",
                               request.param],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    listening = re.compile(r"listening on \S+:(\d+) ")
    line = target.stdout.readline()
    yield listening.search(line).group(1)
    target.terminate()
    target.communicate()


@pytest.mark.parametrize("small_target", [
    "queue_entries=16", "queue_entries=4", "queue_entries=2", "queues=1", "queues=2", "maxh2cdata=4096", "max_transfer=8192",
    "in_capsule=8192", "buffers=4M"], indirect=True)
def test_small(small_target):
    ran = subprocess.run([NVMFSPEC, "conform", "-a", "127.0.0.1", "-s", small_target, "--strict",
                          "--brief", "--allow-write", "1"],
                         capture_output=True, text=True, timeout=120, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("limit", [
    "queue_entries=16", "queue_entries=4", "queue_entries=2", "queues=1", "max_transfer=8192",
    "rdma_in_capsule=512"])
def test_small_over_rdma(limit):
    ran = subprocess.run([NVMFSPEC, "conform", "-t", "rdma", "--limit", limit, "--strict", "--brief"],
                         capture_output=True, text=True, timeout=120, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_few_controllers():
    """Those of the case before may be on their way out still."""
    ran = subprocess.run([NVMFSPEC, "conform", "-t", "rdma", "--limit", "controllers=8", "--jobs", "1",
                          "--strict", "--brief", "rdma/request", "rdma/accept", "rdma/reject",
                          "rdma/capsule", "rdma/in-capsule", "rdma/sgl", "rdma/key", "rdma/transfer",
                          "rdma/response", "rdma/flow", "rdma/identify"],
                         capture_output=True, text=True, timeout=120, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("small_target", ["queues=1"], indirect=True)
def test_discovery_alone(small_target):
    """What I/O controllers need not be asked of others (Base 2.2 figures 28, 31, 32)."""
    ran = subprocess.run([NVMFSPEC, "conform", "-a", "127.0.0.1", "-s", small_target, "--strict",
                          "-n", "nqn.2014-08.org.nvmexpress.discovery", "--brief"],
                         capture_output=True, text=True, timeout=120, check=False)

    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "this case is about I/O controllers" in ran.stdout
