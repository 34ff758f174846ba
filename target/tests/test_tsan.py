# SPDX-License-Identifier: BSD-3-Clause
"""The target under load, built with the thread sanitizer: several reactors, hosts that come and go, a
configuration that changes meanwhile, where the hosts are the optimised build; and the suite with its own target."""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import time

import pytest

NVMFSPEC = os.environ.get("NVMFSPEC", "build/nvmfspec")
NVMFSPEC_TSAN = os.environ.get("NVMFSPEC_TSAN")
NQN = "nqn.2026-01.io.nvmfspec:tsan"

pytestmark = [pytest.mark.tsan, pytest.mark.timeout(300),
              pytest.mark.skipif(not NVMFSPEC_TSAN, reason="NVMFSPEC_TSAN names no build (ci/test tsan)")]


def write_config(path, second):
    namespaces = [{"nsid": 1, "enable": 1, "device": {"path": "mem:32M"}}]
    if second:
        namespaces.append({"nsid": 2, "enable": 1, "device": {"path": "mem:8M"}})
    path.write_text(json.dumps({
        "ports": [{"portid": 1, "subsystems": [NQN],
                   "addr": {"trtype": "tcp", "adrfam": "ipv4", "traddr": "127.0.0.1", "trsvcid": "0"}}],
        "subsystems": [{"nqn": NQN, "attr": {"allow_any_host": "1"}, "namespaces": namespaces}]}))


def host(port, *words):
    run = subprocess.run([NVMFSPEC, "host", *words, "-a", "127.0.0.1", "-s", port, "-n", NQN],
                         capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, f"{words}: {run.stderr}"


def verify(port, number):
    options = ["-g", "-G"] if number % 2 else []
    host(port, "verify", "-N", "1", "--slba", str(number * 16384), "--range", "4M", "--passes", "2",
         "-i", "4", *options)


def come_and_go(port, count):
    for _ in range(count):
        host(port, "identify")


def test_target_under_load(tmp_path):
    config = tmp_path / "target.json"
    log = tmp_path / "log"
    write_config(config, False)
    with open(log, "w") as stderr:
        target = subprocess.Popen([NVMFSPEC_TSAN, "target", "--config", config, "--reactors", "3"],
                                  stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        port = re.search(r":(\d+)", target.stdout.readline()).group(1)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            work = [pool.submit(verify, port, n) for n in range(4)]
            work += [pool.submit(come_and_go, port, 10) for _ in range(2)]
            work.append(pool.submit(host, port, "perf", "-N", "1", "--rw", "randread", "--bs", "4096",
                                    "--iodepth", "16", "-i", "2", "--time", "2"))
            for second in (True, False, True):
                time.sleep(0.7)
                write_config(config, second)
                target.send_signal(signal.SIGHUP)
            for w in work:
                w.result()
    finally:
        target.terminate()
        status = target.wait(60)
    text = log.read_text()
    assert "ThreadSanitizer" not in text, text
    assert status == 0, text


def judge(program, *options):
    """Verdicts are no matter here: what waits for a processor is late in it."""
    run = subprocess.run([program, "conform", "--timeout-scale", "4", *options],
                         capture_output=True, text=True, timeout=280)
    assert run.returncode in (0, 1) and "rules covered" in run.stdout, run.stdout[-2000:] + run.stderr
    assert "ThreadSanitizer" not in run.stderr, run.stderr


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_the_suite_and_its_target(transport):
    """All that cases do at once, and changes of the target under them: also locks that are taken in another order
    elsewhere, which need not meet for that."""
    judge(NVMFSPEC_TSAN, "-t", transport)


def test_the_suite_on_several_reactors(tmp_path):
    log = tmp_path / "log"
    with open(log, "w") as stderr:
        target = subprocess.Popen([NVMFSPEC_TSAN, "target", "-s", "0", "--reactors", "3", "--ns", "mem:64M",
                                   "--ns", "mem:16M,bs=4096"], stdout=subprocess.PIPE, stderr=stderr, text=True)
    try:
        port = re.search(r":(\d+)", target.stdout.readline()).group(1)
        judge(NVMFSPEC, "-a", "127.0.0.1", "-s", port, "--allow-write", "1")
    finally:
        target.terminate()
        status = target.wait(60)
    text = log.read_text()
    assert "ThreadSanitizer" not in text, text
    assert status == 0, text
