# SPDX-License-Identifier: BSD-3-Clause
"""`conform --role host`, TLS record by record: the reference host passes, hosts that overlook what is wrong are found
out, and those that end for it in another way than ours are not accused."""
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "target/tests"))
from test_tls import needs_gnutls  # pylint: disable=wrong-import-position

NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
TLS = "tcp/tls/host-*"
# The reference host as another program.
OURS = (f"{shlex.quote(NVMFSPEC)} host verify -a $NVMF_TRADDR -s $NVMF_TRSVCID -n $NVMF_SUBNQN "
        "${NVMF_TLS_KEY:+--tls-key $NVMF_TLS_KEY} -i 2 --range 1M --timeout 3000 2>&1")
# It offers PSK alone, too.
UNASKED = {"tcp/tls/host-share-missing"}


def conform(*args, code=0, timeout=200):
    done = subprocess.run([NVMFSPEC, "conform", "--role", "host", *map(str, args), "--timeout-scale", "4"],
                          capture_output=True, text=True, timeout=timeout)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def results(*args, **kwargs):
    report = json.loads(conform(*args, "--json", "-", **kwargs).stdout)
    return {r["id"]: r for r in report["results"]}


def judge(*args, **kwargs):
    case, = (arg for arg in args if arg.startswith("tcp/tls/"))
    return results(*args, **kwargs)[case]


def spoilt(flaw):
    return OURS.replace(" 2>&1", f" --violate semantic/host-tls-{flaw} 2>&1")


def test_the_reference_host_passes_strictly():
    seen = {name: r["verdict"] for name, r in results(TLS, "--strict").items()}
    assert {name for name, verdict in seen.items() if verdict != "pass"} == UNASKED
    assert len(seen) > 50


@pytest.mark.fast
def test_detection_power():
    out = conform("--power", "semantic/host-tls-*", "--brief", timeout=280).stdout
    caught, tried = re.search(r"^power: (\d+) of (\d+)$", out, re.M).groups()
    assert caught == tried and int(caught) > 60, out


@pytest.mark.parametrize("flaw, case, says", [
    ("session", "hello-session", "the host continued on it"),
    ("unproven", "psk-missing", "the host continued on it"),
    ("downgrade", "downgrade", "the host continued on it"),
    ("retries", "retry-twice", "the host continued on it"),
    ("finished", "finished", "the host continued on it"),
    ("tag", "record-tag", "the host continued on it"),
    ("alerts", "alert-warning", "the host continued on it"),
    ("cookieless", "cookie", "has not the cookie"),
    ("retry-changed", "retry-same", "differs in what may not change"),
    ("key-update-answer", "key-update-answer", "data before the KeyUpdate"),
    ("ticket", "ticket", "it failed with"),
    ("closes", "close-notify", "the end without it"),
])
def test_a_host_that_breaks_a_rule_is_found_out(flaw, case, says):
    seen = judge("--violate", f"semantic/host-tls-{flaw}", f"tcp/tls/host-{case}", code=1)
    assert seen["verdict"] == "fail" and says in seen["seen"], seen


def test_what_breaks_one_rule_breaks_no_other():
    """Its client ends without an alert for all else, which is lenient."""
    seen = results("--violate", "semantic/host-tls-tag", TLS, code=1)
    assert [name for name, r in seen.items() if r["verdict"] == "fail"] == ["tcp/tls/host-record-tag"]


@pytest.mark.parametrize("args, code, verdict", [((), 0, "lenient"), (("--strict",), 1, "fail")])
def test_an_end_without_an_alert_is_lenient(args, code, verdict):
    seen = judge("--hook", spoilt("retry-changed"), "tcp/tls/host-record-tag", *args, code=code)
    assert seen["verdict"] == verdict and "without any" in seen["seen"]


@pytest.mark.parametrize("case", [
    "retry", "retry-same", "cookie", "message-pieces", "change-cipher", "record-padding",
    "record-empty", "key-update", "key-update-answer", "ticket", "close-notify",
])
def test_what_is_lawful_accuses_nobody(case):
    """Nor does it a host whose TLS is another one: by hand, and right in this. Its shares are always the same."""
    for hook, wrong in (OURS, set()), (spoilt("tag"), {"tcp/tls/host-share-fresh"}):
        seen = judge("--hook", hook, f"tcp/tls/host-{case}")
        assert seen["verdict"] == "pass" and {n["rule"] for n in seen.get("noticed", [])} <= wrong, seen


# What GnuTLS overlooks (RFC 8446 4.1.3, 5.1, 4.2.8): it is found out, and accused of nothing else.
GNUTLS_OVERLOOKS = {"tcp/tls/host-hello-session", "tcp/tls/host-message-aligned", "tcp/tls/host-retry-shared"}


@pytest.mark.fast
@needs_gnutls
@pytest.mark.parametrize("each", [24, 1])
def test_gnutls_is_accused_of_nothing_else(each):
    """By each 24th case, and by all: a client of its own for each connection is dear."""
    cases = re.findall(r"tcp/tls/host-\S+", conform("--list", TLS).stdout)
    assert len(cases) > 50
    hook = shlex.join([sys.executable, str(ROOT / "conformance/tests/peers/gnutls_host"), NVMFSPEC])
    done = subprocess.run([NVMFSPEC, "conform", "--role", "host", "--hook", hook, *cases[::each], *GNUTLS_OVERLOOKS,
                           "--timeout-scale", "4", "--json", "-"], capture_output=True, text=True, timeout=280)
    seen = {r["id"]: r["verdict"] for r in json.loads(done.stdout)["results"] if r["verdict"] != "skip"}
    assert len(seen) > 50 / each, done.stdout
    assert {name for name, verdict in seen.items() if verdict == "fail"} <= GNUTLS_OVERLOOKS, done.stdout


# Passes the ClientHello on, and then nothing: neither what its host says nor that it ends.
DEAF = """
import os, socket, subprocess, sys, time
inner = socket.create_server(("127.0.0.1", 0))
host = subprocess.Popen(sys.argv[1:] + ["-s", str(inner.getsockname()[1])], stdout=subprocess.DEVNULL)
peer, target = inner.accept()[0], socket.create_connection((os.environ["NVMF_TRADDR"], int(os.environ["NVMF_TRSVCID"])))
target.sendall(peer.recv(65536))
time.sleep(60)
"""


def test_a_host_that_leaves_it_open(tmp_path):
    """Until its hook is ended: that is not its doing."""
    script, case = tmp_path / "deaf.py", "tcp/tls/host-finished"
    script.write_text(DEAF)
    deaf = OURS.replace(shlex.quote(NVMFSPEC), f"/usr/bin/python3 {script} {shlex.quote(NVMFSPEC)}", 1) \
        .replace("-s $NVMF_TRSVCID ", "")
    again = f"[ -e {tmp_path}/met ] || {{ touch {tmp_path}/met; exec {OURS}; }}; {deaf}"
    hook = f"if [ $NVMF_CASE = {case} ]; then {again}; else {OURS}; fi"
    report = subprocess.run([NVMFSPEC, "conform", "--role", "host", "--hook", hook, case, "--timeout-scale", "0.3",
                             "--json", "-"], capture_output=True, text=True, timeout=100).stdout
    seen, = json.loads(report)["results"]
    assert seen["verdict"] == "fail" and "neither failed nor disconnected" in seen["seen"], seen


def test_a_host_that_offers_no_psk_alone():
    """The one case that ours skips."""
    case = "tcp/tls/host-share-missing"
    seen = judge("--hook", OURS.replace(" 2>&1", " --tls-dhe-only 2>&1"), case, "--strict")
    assert seen["verdict"] == "pass"


@pytest.mark.parametrize("hook, says", [
    (OURS.replace("${NVMF_TLS_KEY:+--tls-key $NVMF_TLS_KEY}", ""), "does not work over TLS"),
    (OURS.replace(" 2>&1", " --tls-groups ffdhe3072 --tls-dhe-only 2>&1"), "this cannot be done"),
])
def test_a_host_that_cannot_be_judged(hook, says):
    seen = judge("--hook", hook, "tcp/tls/host-record-tag", code=77)
    assert seen["verdict"] == "skip" and says in seen["note"]
