# SPDX-License-Identifier: BSD-3-Clause
"""A file as the kernel's nvmetcli writes it drives this target, too."""
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))

SAVED = {
    "hosts": [{"nqn": "hostnqn"}],
    "ports": [{
        "addr": {"adrfam": "ipv4", "traddr": "127.0.0.1", "treq": "not specified", "trsvcid": "0",
                 "trtype": "tcp", "tsas": "none"},
        "ana_groups": [{"ana": {"state": "optimized"}, "grpid": 1}],
        "param": {"inline_data_size": "16384", "pi_enable": "0"},
        "portid": 1, "referrals": [], "subsystems": ["testnqn"]}],
    "subsystems": [{
        "allowed_hosts": ["hostnqn"],
        "attr": {"allow_any_host": "0", "cntlid_max": "65519", "cntlid_min": "1",
                 "ieee_oui": "0x000000", "model": "Linux", "pi_enable": "0", "qid_max": "128",
                 "serial": "abc", "version": "1.3"},
        "namespaces": [{
            "ana": {"grpid": "1"}, "ana_grpid": 1, "enable": 1, "nsid": 1,
            "device": {"nguid": "00000000-0000-0000-0000-000000000000", "path": "mem:16M",
                       "uuid": "b53dcdb9-5c8b-41ef-ac4a-e5d5a56ea0f2"}}],
        "nqn": "testnqn"}],
}


def test_saved_configuration(tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps(SAVED))
    target = subprocess.Popen([NVMFSPEC, "target", "--config", config, "--quiet"],
                              stdout=subprocess.PIPE, text=True)
    try:
        port = re.search(r":(\d+)", target.stdout.readline())[1]

        def host(command, *options):
            return subprocess.run([NVMFSPEC, "host", command, "-a", "127.0.0.1", "-s", port, *options],
                                  capture_output=True, text=True, timeout=60)

        assert "testnqn" in host("discover", "-q", "hostnqn").stdout
        listed = host("list", "-n", "testnqn", "-q", "hostnqn").stdout
        assert "b53dcdb9-5c8b-41ef-ac4a-e5d5a56ea0f2" in listed
        identified = host("identify", "-n", "testnqn", "-q", "hostnqn").stdout
        assert "several controllers, ANA" in identified
        denied = host("list", "-n", "testnqn")
        assert denied.returncode == 1 and "Connect Invalid Host" in denied.stderr
    finally:
        target.terminate()
        assert target.wait(30) == 0


def test_ana_groups(tmp_path):
    """States of groups by port; one that is none is refused with its place."""
    saved = json.loads(json.dumps(SAVED))
    saved["subsystems"][0]["attr"]["allow_any_host"] = "1"
    saved["subsystems"][0]["namespaces"][0].update(ana={"grpid": "2"}, ana_grpid=2)
    groups = saved["ports"][0]["ana_groups"]
    groups.append({"ana": {"state": "inaccessible"}, "grpid": 2})
    config = tmp_path / "config.json"
    config.write_text(json.dumps(saved))
    target = subprocess.Popen([NVMFSPEC, "target", "--config", config, "--quiet"],
                              stdout=subprocess.PIPE, text=True)
    try:
        port = re.search(r":(\d+)", target.stdout.readline())[1]
        read = subprocess.run([NVMFSPEC, "host", "read", "-a", "127.0.0.1", "-s", port, "-n", "testnqn",
                               "-N", "1"], capture_output=True, text=True, timeout=60)
        assert "Asymmetric Access Inaccessible" in read.stderr
    finally:
        target.terminate()
        assert target.wait(30) == 0
    for wrong in ({"ana": {"state": "lost"}, "grpid": 1}, {"ana": {"state": "change"}, "grpid": 1025},
                  {"ana": {"state": "change"}}):
        groups[1] = wrong
        config.write_text(json.dumps(saved))
        done = subprocess.run([NVMFSPEC, "target", "--config", config], capture_output=True, text=True,
                              timeout=60)
        assert done.returncode != 0 and "ports[0].ana_groups[1]" in done.stderr


def test_what_is_not_supported_is_told(tmp_path):
    """Key by key, with its place; not where the value asks for nothing."""
    saved = json.loads(json.dumps(SAVED))
    saved["ports"][0]["param"] = {"inline_data_size": "4096", "pi_enable": "0", "mdts": "0"}
    subsystem = saved["subsystems"][0]
    subsystem["attr"]["ieee_oui"] = "0x002538"
    subsystem["passthru"] = {"admin_timeout": "0", "clear_ids": "0", "device_path": "/dev/nvme0", "enable": 1}
    subsystem["namespaces"][0].update(buffered_io=0, resv_enable=0)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(saved))
    with subprocess.Popen([NVMFSPEC, "target", "--config", config], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as target:
        target.stdout.readline()
        target.terminate()
        said = re.findall(r"config.json: (\S+): not supported, and ignored", target.communicate(timeout=30)[1])
    assert sorted(said) == [
        "ports[0].param.inline_data_size", "subsystems[0].attr.ieee_oui", "subsystems[0].attr.version",
        "subsystems[0].namespaces[0].resv_enable", "subsystems[0].passthru.enable"]
