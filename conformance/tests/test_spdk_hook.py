# SPDX-License-Identifier: BSD-3-Clause
"""conformance/hooks/spdk.sh configures bdevperf as a case asks for, and ends as it ends: with our own host in the place of
SPDK's, which reads the same file."""
import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
HOOK = ROOT / "conformance/hooks/spdk.sh"
BDEVPERF = """#!/usr/bin/python3
import json, subprocess, sys
subsystems = json.load(open(sys.argv[sys.argv.index("--json") + 1]))["subsystems"]
keys = {call["params"]["name"]: call["params"]["path"] for call in subsystems[0]["config"]}
at = {call["method"]: call["params"] for call in subsystems[1]["config"]}["bdev_nvme_attach_controller"]
command = [PROGRAM, "host", "verify", "-t", at["trtype"].lower(), "-a", at["traddr"], "-s", at["trsvcid"],
           "-n", at["subnqn"], "--range", "1M", "--command-buffers", "--timeout", "2000"]
command += ["-g"] * at["hdgst"] + ["-G"] * at["ddgst"]
for option, key in ("-S", "dhchap_key"), ("-C", "dhchap_ctrlr_key"):
    command += [option, open(keys[at[key]]).read()] if key in at else []
command += ["--tls-key", "@" + keys[at["psk"]]] if "psk" in at else []
sys.exit(subprocess.run(command).returncode and 255)
"""


@pytest.fixture
def spdk(tmp_path):
    program = tmp_path / "build/examples/bdevperf"
    program.parent.mkdir(parents=True)
    program.write_text(BDEVPERF.replace("PROGRAM", repr(NVMFSPEC)))
    program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("case", ["fab/connect/works", "tcp/digest/ddgst-c2h", "tcp/digest/hdgst-c2h", "fab/auth/mutual",
                                  "fab/auth/other-key", "tcp/tls/works", "tcp/icresp/pfv"])
def test_passes_with_our_host(spdk, case):
    ran = subprocess.run([NVMFSPEC, "conform", "--role", "host", "--hook", HOOK, case, "--timeout-scale", "4", "--json", "-"],
                         capture_output=True, text=True, timeout=300, env={**os.environ, "SPDK": str(spdk)})
    verdicts = {result["id"]: result["verdict"] for result in json.loads(ran.stdout)["results"]}
    assert ran.returncode == 0 and verdicts[case] == "pass", ran.stdout + ran.stderr


def test_what_bdevperf_cannot_is_skipped(spdk):
    ran = subprocess.run([HOOK], capture_output=True, text=True, env={**os.environ, "SPDK": str(spdk), "NVMF_TRTYPE": "rdma"})
    assert ran.returncode == 77 and ran.stdout == "over TCP only\n"
