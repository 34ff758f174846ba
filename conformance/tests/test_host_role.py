# SPDX-License-Identifier: BSD-3-Clause
"""`nvmfspec conform --role host`: hosts are judged, and bad ones found out."""
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
WORKS = "fab/connect/works"
# The reference host as another program.
OURS = (f"{shlex.quote(NVMFSPEC)} host verify -t $NVMF_TRTYPE -a $NVMF_TRADDR -s $NVMF_TRSVCID "
        "-n $NVMF_SUBNQN $([ $NVMF_HDGST = 0 ] || echo -g) $([ $NVMF_DDGST = 0 ] || echo -G) "
        "${NVMF_DHCHAP_SECRET:+-S $NVMF_DHCHAP_SECRET} "
        "${NVMF_DHCHAP_CTRL_SECRET:+-C $NVMF_DHCHAP_CTRL_SECRET} "
        "-i 2 --range 1M --command-buffers --timeout 2000 2>&1")


def conform(*args, code=0, timeout=120):
    done = subprocess.run([NVMFSPEC, "conform", "--role", "host", *map(str, args)],
                          capture_output=True, text=True, timeout=timeout)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def results(*args, **kwargs):
    report = json.loads(conform(*args, "--json", "-", **kwargs).stdout)
    return {r["id"]: r for r in report["results"]}


def verdicts(*args, **kwargs):
    return {name: r["verdict"] for name, r in results(*args, **kwargs).items()}


# What its work gives no occasion for.
UNASKED = {
    "tcp/discovery/port-8009", "fab/discovery/entry-reserved", "fab/discovery/log-fields",
    "tcp/discovery/trsvcid", "tcp/discovery/tsas", "tcp/discovery/tsas-reserved", "tcp/c2hdata/last",
    "fab/connect/not-invalid-field", "rdma/discovery/tsas-reserved",
    "fab/discovery/log-entry", "fab/property/crto", "fab/keep-alive/round-up", "fab/sgl/long",
    "base/abort/unknown-cid", "base/identify/namespace-descriptors", "base/feature/value-kept",
    "rdma/discovery/trsvcid", "rdma/discovery/tsas", "rdma/accept/length", "rdma/reject/format",
    "rdma/reject/status", "rdma/key/invalidate-early", "rdma/key/invalidate-key", "fab/auth/not-asked",
    "base/identify/discovery-names", "base/identify/namespace-independent", "nvm/identify/controller",
    "nvm/identify/protection", "base/identify/answers", "base/feature/answers", "base/event/log-page",
    "tcp/tls/host-share-missing",
}
UNASKED_TOPICS = ("base/ana/", "base/log/", "base/command/")


def is_unasked(name):
    return name in UNASKED or name.startswith(UNASKED_TOPICS)


@pytest.mark.parametrize("transport, least", [("tcp", 150), ("rdma", 62)])
def test_the_reference_host_passes_strictly(transport, least):
    seen = verdicts("-t", transport, "--strict", "--timeout-scale", 8)
    assert set(seen.values()) <= {"pass", "skip", "info"}
    assert [name for name, verdict in seen.items() if verdict == "skip" and not is_unasked(name)] == []
    assert list(seen.values()).count("pass") >= least
    assert seen[WORKS] == "pass"


@pytest.mark.fast
@pytest.mark.parametrize("transport, least", [("tcp", 30), ("rdma", 2)])
def test_detection_power(transport, least):
    out = conform("-t", transport, "--power", "--timeout-scale", 4, timeout=280).stdout
    caught, tried = re.search(r"^power: (\d+) of (\d+)$", out, re.M).groups()
    assert caught == tried and int(caught) >= least
    assert "SURVIVED" not in out and "useless" not in out


# By the host's own doing, while nobody gives it cause.
@pytest.mark.parametrize("rule", """
    tcp/header/type-h2c tcp/header/hlen-h2c tcp/header/plen-h2c tcp/alignment/pdo-h2c
    tcp/setup/icreq-first tcp/setup/icreq-once tcp/icreq/pfv tcp/icreq/hpda
    tcp/digest/flags-h2c tcp/capsule/in-capsule-length tcp/capsule/command-cid
    tcp/h2cdata/ttag tcp/h2cdata/unsolicited tcp/h2cdata/datao tcp/h2cdata/last-early
    tcp/h2cdata/last-missing tcp/h2cdata/datal-plen
""".split())
def test_a_host_that_breaks_a_rule_is_found_out(rule):
    seen = results("--violate", rule, "--strict", WORKS, code=1)
    assert f"noticed/{rule}" in seen or seen[WORKS]["verdict"] == "fail"
    assert f"noticed/{rule}" in seen or rule in json.dumps(seen)


def test_a_command_set_that_is_not_offered_is_named():
    """The target, which has it fail, does not say why."""
    seen = results("--violate", "semantic/host-cc-css", WORKS, code=1)
    assert "fab/property/cc-values" in json.dumps(seen)


def test_a_host_that_overlooks_a_fault():
    seen = results("--waive", "tcp/digest/hdgst-c2h", "tcp/digest/hdgst-c2h",
                   code=1)["tcp/digest/hdgst-c2h"]
    assert seen["verdict"] == "fail" and "continued without an error" in seen["seen"]
    assert any("CapsuleCmd" in line for line in seen["exchange"])


def test_a_host_that_closes_without_a_word_is_graded():
    """It goes away in the middle of things, whatever its target has done."""
    case = "tcp/digest/hdgst-c2h"
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else timeout 5 {shlex.quote(NVMFSPEC)} host perf " \
        f"--rw randwrite --time 20 -i 1 -a $NVMF_TRADDR -s $NVMF_TRSVCID -n $NVMF_SUBNQN -g --waive {case}; fi"
    assert verdicts("--hook", hook, case, "--timeout-scale", 4)[case] == "lenient"
    assert verdicts("--hook", hook, case, "--timeout-scale", 4, "--strict", code=1)[case] == "fail"


def test_what_a_host_need_not_notice_is_advice():
    """FLAGS that do not fit the digests: no reaction is printed."""
    rule = "tcp/digest/flags-c2h"
    seen = results("--waive", rule, rule, "--strict")[rule]
    assert seen["verdict"] == "advice" and "continued without an error" in seen["seen"]


# --- another program ------------------------------------------------------------------------------

def test_a_hook():
    cases = ("tcp/digest", "tcp/alignment", "tcp/capsule", "tcp/c2hdata", WORKS, "fab/connect/refused", "fab/auth", "nvm")
    seen = verdicts("--hook", OURS, *cases, "--timeout-scale", 4, "--strict")
    assert {name for name, verdict in seen.items() if verdict != "pass" and not is_unasked(name)} <= \
        {"tcp/c2hdata/success", "tcp/c2hdata/success-or-response",  # flow control stays on
         "fab/auth/success"}  # it fails, and no reaction is printed that would say whether that is why
    assert len(seen) > 40


def test_a_hook_on_a_port_of_its_own(free_port):
    port = free_port()
    hook = f"[ $NVMF_TRSVCID = {port} ] && [ $NVMF_TRADDR = 127.0.0.1 ] && {OURS}"
    assert verdicts("--hook", hook, "-s", port, WORKS, "tcp/alignment/cpda-3")[WORKS] == "pass"


@pytest.mark.parametrize("fault, verdict, says", [
    ("kill -ABRT $$", "fail", "signal 6 ended it: I break off"),
    ("kill -SEGV $$", "fail", "signal 11 ended it: I break off"),
    ("exit 127", "error", "the hook can't be run (127): I break off"),
])
def test_a_hook_that_fails_for_another_reason_is_no_pass(fault, verdict, says):
    """The case expects a host that fails: but not of itself."""
    case = "tcp/digest/hdgst-c2h"
    breaks_off = f"{{ {OURS}; }} >/dev/null; echo first >&2; echo I break off >&2; {fault}"
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else {breaks_off}; fi"
    seen = results("--hook", hook, case, "--timeout-scale", 4, code={"fail": 1, "error": 3}[verdict])[case]
    assert seen["verdict"] == verdict and says in seen["seen"]
    assert [line.split(" -- ")[1] for line in seen["exchange"][-2:]] == ["stderr: first", "stderr: I break off"]


def test_a_host_that_dies_of_nothing_has_broken_no_rule_of_the_case():
    """It ends before it reads the log whose fields are wrong in this case."""
    case = "base/log/error-fields"
    hook = f"{OURS}; [ $NVMF_CASE = {WORKS} ] || kill -ABRT $$"
    seen = results("--hook", hook, case, "--timeout-scale", 4, code=1)[case]
    assert seen["verdict"] == "fail" and "rule" not in seen, seen
    assert "signal 6 ended it, though the target broke no rule" in seen["seen"]


@pytest.mark.parametrize("end", ["exit 255", "exit 234", "kill -KILL $$", "kill -TERM $$"])
def test_a_host_that_fails_as_it_ought_to_may_say_so_as_it_likes(end):
    """Many programs exit with -1 or a negative errno; a script of the user's may end them."""
    case = "tcp/digest/hdgst-c2h"
    assert verdicts("--hook", f"{OURS} || {end}", case, "--timeout-scale", 4)[case] == "pass"


@pytest.mark.parametrize("waived, verdict", [("", "pass"), (" --waive tcp/icresp/pfv", "fail")])
def test_a_hook_that_always_says_yes_is_judged_by_what_it_does(waived, verdict):
    """Some programs end with 0 although they could not connect: that they moved no data, as they did before, shows it."""
    case = "tcp/icresp/pfv"
    hook = f"{OURS}{waived} || true" if waived else f"{OURS} || true"
    seen = results("--hook", hook.replace(f" 2>&1{waived}", f"{waived} 2>&1"), case, "--timeout-scale", 4,
                   code=verdict == "fail")[case]
    assert seen["verdict"] == verdict, seen


def test_what_a_host_may_do_may_have_another_reason():
    """Nothing obliges it to notice a TTAG that is used twice."""
    case = "tcp/r2t/ttag-unique"
    hook = f"{OURS}; [ $NVMF_CASE = {WORKS} ] || exit 9"
    seen = results("--hook", hook, case, "--timeout-scale", 4, code=77)[case]
    assert "the host failed with 9" in seen["note"]


def test_what_a_host_is_known_to_break_can_be_waived():
    rule = "tcp/capsule/in-capsule-length"
    breaks = OURS.replace(" 2>&1", f" --violate {rule} 2>&1")
    assert f"noticed/{rule}" in results("--hook", breaks, WORKS, "--timeout-scale", 4, code=1)
    report = json.loads(conform("--hook", breaks, "--waive", rule, WORKS, "--timeout-scale", 4, "--json", "-").stdout)
    assert {r["id"]: r["verdict"] for r in report["results"]} == {WORKS: "pass"}
    assert f"{rule} is not judged" in report["abilities"]


@pytest.mark.parametrize("hook, code, verdict, says", [
    ("echo no digests here; exit 77", 77, "skip", "no digests here"),
    (OURS + "; exit 5", 1, "fail", "failed with 5"),
])
def test_what_a_hook_may_come_to(hook, code, verdict, says):
    seen = results("--hook", hook, WORKS, code=code)[WORKS]
    assert seen["verdict"] == verdict
    assert says in seen.get("seen", "") + seen.get("note", "")


def test_what_a_hook_says_spoils_no_report(tmp_path):
    """Neither bytes that are no text nor a character cut in two where the report has no more room."""
    hook = OURS + " >/dev/null; printf '\\344\\033[1m\\001 %0300d\\n' 0 | sed s/0/ä/g; exit 5"
    says = conform("--hook", hook, WORKS, "--json", tmp_path / "r.json",
                   "--tap", tmp_path / "r.tap", "--junit", tmp_path / "r.xml", code=1).stdout
    seen = json.loads((tmp_path / "r.json").read_text())["results"][0]["seen"]
    assert "failed with 5: ??[1m? ääää" in seen and "failed with 5: ??[1m? ääää" in says
    assert "??[1m? ääää" in (tmp_path / "r.tap").read_text()
    assert "??[1m? ääää" in (tmp_path / "r.xml").read_text()


AUTHLESS = "unset NVMF_DHCHAP_SECRET NVMF_DHCHAP_CTRL_SECRET; "


HOSTS = [
    ("fab/auth/mutual", "unset NVMF_DHCHAP_CTRL_SECRET; " + OURS, "fail", "did not ask for the controller's"),
    ("fab/auth/one-way", AUTHLESS + OURS, "skip", "did not begin to authenticate itself"),
    ("fab/auth/no-key", OURS + "; true", "fail", "continued without an error"),
    ("fab/auth/other-key", AUTHLESS + OURS + "; true", "skip", "did not begin"),
    ("fab/auth/other-key", OURS + "; true", "fail", "continued without an error"),
    ("fab/auth/response-of-controller", "unset NVMF_DHCHAP_CTRL_SECRET; " + OURS, "skip", "did not do what this case needs"),
    ("nvm/host/any-order", OURS.replace(" 2>&1", " --iodepth 1 2>&1"), "skip", "never had two commands"),
    ("fab/keep-alive/keep-alive", OURS, "skip", "was idle for"),
]


@pytest.mark.parametrize("case, hook, verdict, says", HOSTS, ids=[f"{h[0]}-{h[2]}" for h in HOSTS])
def test_what_a_host_makes_of_it(case, hook, verdict, says):
    seen = results("--hook", hook, case, "--timeout-scale", 4, code={"fail": 1, "skip": 77}[verdict])[case]
    assert seen["verdict"] == verdict
    assert says in seen.get("seen", "") + seen.get("note", "")


def test_a_host_that_moves_no_data_has_shown_nothing_about_data():
    least = f"{shlex.quote(NVMFSPEC)} host identify -a $NVMF_TRADDR -s $NVMF_TRSVCID -n $NVMF_SUBNQN 2>&1"
    cases = (WORKS, "tcp/alignment/cpda-3", "tcp/capsule/small-capsules", "base/identify/mdts", "nvm/host/large-blocks")
    seen = results("--hook", least, *cases, code=77)
    assert {name: r["verdict"] for name, r in seen.items()} == dict.fromkeys(cases, "skip")
    assert "wrote 0 KiB and read 0 KiB" in seen[WORKS]["note"]
    asked = "base/identify/cntlid"
    assert verdicts("--hook", least, asked)[asked] == "pass"  # and the host still counts as alive


DISCOVERS = f"{shlex.quote(NVMFSPEC)} host discover -a $NVMF_TRADDR -s $NVMF_TRSVCID 2>&1"


def test_a_host_that_only_discovers_is_none():
    assert "sent the subsystem no command" in conform("--hook", DISCOVERS, WORKS, code=3).stderr


def test_a_host_that_was_refused_nothing():
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else {DISCOVERS} | grep $NVMF_SUBNQN; fi"
    seen = results("--hook", hook, "fab/connect/refused", code=77)["fab/connect/refused"]
    assert seen["verdict"] == "skip" and "did not do what this case needs" in seen["note"]


# ICReq, and then it waits forever.
WAITS = """bash -c 'exec 3<>/dev/tcp/$NVMF_TRADDR/$NVMF_TRSVCID; printf "\\0\\0\\200\\0\\200\\0\\0\\0" >&3
head -c 120 /dev/zero >&3; sleep 60'"""


@pytest.mark.parametrize("case", ["tcp/digest/ddgst-c2h", "fab/connect/refused"])
def test_a_host_that_hangs_has_neither_failed_nor_gone(case):
    """It goes on as though there were no fault, or waits, until it is ended: that is not its doing."""
    goes_on = f"{shlex.quote(NVMFSPEC)} host perf --rw randrw --time 60 -i 1 -a $NVMF_TRADDR " \
        f"-s $NVMF_TRSVCID -n $NVMF_SUBNQN $([ $NVMF_DDGST = 0 ] || echo -G) --waive {case}"
    hangs = {"tcp/digest/ddgst-c2h": goes_on, "fab/connect/refused": f"{OURS}; sleep 60"}[case]
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else {hangs}; fi"
    seen = results("--hook", hook, case, "--timeout-scale", 0.3, code=1)[case]
    assert seen["verdict"] == "fail" and "timed out after 9 s" in seen["seen"]


def test_how_long_a_host_waits_for_icresp_is_its_affair():
    hook, case = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else {WAITS}; fi", "tcp/setup/ic-timeout"
    seen = results("--hook", hook, case, "--timeout-scale", 0.3)[case]
    assert seen["verdict"] == "lenient" and "how long it may is not printed" in seen["seen"]


def test_a_host_that_hangs_once_is_asked_again(tmp_path):
    case, before = "tcp/alignment/cpda-3", tmp_path / "before"
    hangs = f"[ -e {before} ] || {{ touch {before}; sleep 60; }}"
    hook = f"[ $NVMF_CASE = {WORKS} ] || {hangs}; {OURS}"
    seen = results("--hook", hook, case, "--timeout-scale", 0.3)[case]
    assert seen["verdict"] == "pass" and "it hung at first; run again, it did not" in seen["note"]


# The least host: a controller that it asks a KATO for, and enables; then it is silent.
SILENT = """
import os, socket, struct, sys, time
s = socket.create_connection((os.environ["NVMF_TRADDR"], int(os.environ["NVMF_TRSVCID"])))
s.sendall(struct.pack("<BBBBI", 0, 0, 128, 0, 128) + bytes(120))
s.recv(128, socket.MSG_WAITALL)
sgl = struct.pack("<QI3xB", 0, 1024, 1)
sqe = struct.pack("<BBHB19x16sHHHBBI12x", 0x7f, 0x40, 1, 1, sgl, 0, 0, 31, 0, 0, 2000)
data = bytes(15) + b"1" + struct.pack("<H", 0xffff) + bytes(238) + \
    os.environ["NVMF_SUBNQN"].encode().ljust(256, b"\\0") + b"nqn.2026-01.io.nvmfspec:silent".ljust(512, b"\\0")
s.sendall(struct.pack("<BBBBI", 4, 0, 72, 72, 72 + 1024) + sqe + data)
assert s.recv(24, socket.MSG_WAITALL)[22:24] == bytes(2)
capsule = struct.pack("<BBBBI", 4, 0, 72, 0, 72)
s.sendall(capsule + struct.pack("<BBHB35xB3xIQ8x", 0x7f, 0x40, 2, 0, 0, 0x14, 0x460001))
assert s.recv(24, socket.MSG_WAITALL)[22:24] == bytes(2)
time.sleep(int(os.environ["NVMF_IDLE"]))
s.sendall(capsule + struct.pack("<BBHB35xB3xI16x", 0x7f, 0x40, 3, 4, 0, 0x1c))
print("the connection ended")
sys.exit(s.recv(24, socket.MSG_WAITALL) == b"")
"""


def test_a_host_that_sends_no_keep_alive(tmp_path):
    script = tmp_path / "silent.py"
    script.write_text(SILENT)
    case = "fab/keep-alive/keep-alive"
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else /usr/bin/python3 {script}; fi"
    seen = results("--hook", hook, case)[case]
    assert seen["verdict"] == "lenient" and "the connection ended" in seen["seen"]


@pytest.mark.parametrize("case, last", [
    ("tcp/termreq/host-closes-setup", "s.recv(128, socket.MSG_WAITALL)"),
    ("tcp/termreq/host-closes-connect", "assert s.recv(24"),
])
def test_a_host_that_waits_on_after_a_termreq(case, last, tmp_path):
    script = tmp_path / "stays.py"
    script.write_text(SILENT.partition(last)[0] + "time.sleep(60)")
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else exec /usr/bin/python3 {script}; fi"
    seen = results("--hook", hook, "--timeout-scale", 0.3, case, code=1)[case]
    assert seen["verdict"] == "fail" and "neither failed nor disconnected" in seen["seen"], seen
    assert verdicts("--hook", OURS, case) == {case: "pass"}


def test_a_host_that_comes_back_to_a_target_that_is_gone(free_port):
    """Of the last play, at the same port: nothing is wrong with that, nor is it what was asked."""
    back = f"{shlex.quote(NVMFSPEC)} host identify -a $NVMF_TRADDR -s $NVMF_TRSVCID -n nqn.2026-01.io.nvmfspec:play-1-1 2>&1"
    port = free_port()
    seen = verdicts("--hook", f"{back}; {OURS}", "-s", port, WORKS)
    assert seen == {WORKS: "pass"}
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else {back}; fi"
    assert verdicts("--hook", hook, "-s", port, "fab/connect/refused", code=77) == {"fab/connect/refused": "skip"}


SLEEP = 'time.sleep(int(os.environ["NVMF_IDLE"]))'
KEEPING = SILENT.replace(SLEEP, """
for i in range(int(os.environ["NVMF_IDLE"])):
    time.sleep(1)
    s.sendall(capsule + struct.pack("<BBHB35xB23x", 0x18, 0x40, 4, 0, 0))
    s.recv(24, socket.MSG_WAITALL)
""")
# Its last command has the CID of an Asynchronous Event Request that is outstanding.
FORGETFUL = SILENT.replace(SLEEP, 's.sendall(capsule + struct.pack("<BBHB35xB23x", 0x0c, 0x40, 3, 0, 0))')
# An association of its own for each half of the work.
ANEW = SILENT.replace(SLEEP, "s.close(); " + SLEEP + """
exec(compile(open(__file__).read().partition("s.close()")[0], "again", "exec"))
""")


def test_a_host_that_leaves_its_event_requests_can_be_judged(tmp_path):
    """It breaks a rule, and the rest of what it does can be judged all the same."""
    script, rule, case = tmp_path / "forgetful.py", "tcp/capsule/command-cid", "tcp/digest/hdgst-c2h"
    script.write_text(FORGETFUL)
    hook = f"{OURS} && /usr/bin/python3 {script}"
    assert f"noticed/{rule}" in results("--hook", hook, WORKS, "--timeout-scale", 4, code=1)
    seen = verdicts("--hook", hook, "--waive", rule, WORKS, case, "--timeout-scale", 4)
    assert seen[WORKS] == seen[case] == "pass" and f"noticed/{rule}" not in seen


# It sends Keep Alive, and fails all the same.
FAILING = KEEPING.replace("sys.exit(", "sys.exit(5 or ")
# It leaves its connection open meanwhile, until the controller has waited for its KATO.
LEAVING = FAILING.replace("print(", "os.fork() or time.sleep(9) or os._exit(0); print(")


@pytest.mark.parametrize("before, idle, verdict, says", [
    ("identify", KEEPING, "pass", ""),  # several associations are a host's own affair
    (None, ANEW, "lenient", "a new association"),  # that it sends Keep Alive is a should
    (None, FAILING, "fail", "it failed with 5"),
    (None, LEAVING, "fail", "it failed with 5"),
])
def test_a_host_that_is_idle(before, idle, verdict, says, tmp_path):
    script = tmp_path / "idle.py"
    script.write_text(idle)
    case = "fab/keep-alive/keep-alive"
    first = f"{shlex.quote(NVMFSPEC)} host {before} -a $NVMF_TRADDR -s $NVMF_TRSVCID -n $NVMF_SUBNQN >/dev/null; " \
        if before else ""
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else {first} /usr/bin/python3 {script} 2>&1; fi"
    seen = results("--hook", hook, case, code=verdict == "fail")[case]
    assert seen["verdict"] == verdict, seen
    assert says in seen.get("seen", "")


@pytest.mark.parametrize("hook, says", [
    ("true", "no host connected"),
    ("echo it is broken; exit 5", "ended with 5: it is broken"),
    ("sleep 60", "timed out after 3 s"),
    ("echo it has $NVMF_SECONDS s; exit 5", "ended with 5: it has 3 s"),
])
def test_a_hook_that_brings_no_host(hook, says):
    assert says in conform("--hook", hook, "--timeout-scale", 0.1, code=3).stderr


def test_a_host_that_always_fails_is_judged_by_what_it_says():
    """It was never well: no case is the death of it, and that it fails is an answer to none."""
    cases = (WORKS, "tcp/alignment/cpda-3", "tcp/c2hdata/datao", "base/identify/cntlid", "fab/connect/refused")
    seen = results("--hook", OURS + "; echo no; exit 5", *cases, code=1)
    assert [seen[name]["verdict"] for name in cases] == ["fail", "fail", "pass", "skip", "skip"]
    assert seen[WORKS]["seen"].startswith("it failed with 5: ")
    assert "fails even with a correct target" in seen["base/identify/cntlid"]["note"]


def test_a_host_that_dies_is_told():
    """It works until it has met the fault; from then on it does not even start."""
    hook = f"[ ! -e $DEAD ] && {OURS} || {{ touch $DEAD; exit 1; }}"
    case = "tcp/digest/hdgst-c2h"
    os.environ["DEAD"] = dead = f"/tmp/nvmfspec-dead-{os.getpid()}"
    try:
        seen = results("--hook", hook, case, WORKS, code=1)
    finally:
        os.unlink(dead)
        del os.environ["DEAD"]
    assert "no longer answers" in seen[case]["seen"]
    assert "not run" in seen[WORKS]["seen"]


def test_who_is_stopped_ends_the_hook(tmp_path):
    hook = f"if [ $NVMF_CASE = {WORKS} ]; then {OURS}; else echo $$ >{tmp_path}/pid; exec sleep 60; fi"
    captures = tmp_path / "captures"
    captures.mkdir()
    run = subprocess.Popen([NVMFSPEC, "conform", "--role", "host", "--hook", hook, "tcp/alignment"], text=True,
                           env={**os.environ, "TMPDIR": str(captures)}, stderr=subprocess.PIPE,
                           stdout=subprocess.DEVNULL)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    assert "interrupted" in run.communicate(timeout=20)[1] and run.returncode == 3
    assert not os.path.exists("/proc/" + (tmp_path / "pid").read_text().strip())
    assert list(captures.iterdir()) == []


def test_transcripts(tmp_path):
    rule = "tcp/digest/hdgst-c2h"
    conform("--waive", rule, rule, "--transcript", tmp_path / "t", code=1)
    stem = tmp_path / "t" / rule.replace("/", "_")
    assert "expected  the host ends the connection" in stem.with_name(stem.name + ".txt").read_text()
    checked = subprocess.run([NVMFSPEC, "pcap", "check", stem.with_name(stem.name + ".pcap")],
                             capture_output=True, text=True, timeout=60)
    assert rule in checked.stdout


def test_nothing_is_left_behind(tmp_path):
    twice = "tcp/tls/untold"  # two plays in one case
    subprocess.run([NVMFSPEC, "conform", "--role", "host", WORKS, twice], check=True, timeout=60,
                   capture_output=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


# --- the command line -----------------------------------------------------------------------------

def test_list_and_explain():
    listed = json.loads(conform("--list", "--json", "-").stdout)["cases"]
    assert len(listed) > 80 and WORKS in {c["id"] for c in listed}
    told = conform("--explain", "tcp/r2t/range").stdout
    assert "if not, the host ends the connection" in told and "tested by" in told


@pytest.mark.parametrize("args, says", [
    (["-a", "127.0.0.1"], "-a and -s require --hook"),
    (["--hook", "x" * 3001], "--hook is longer than 3000 bytes"),
    (["--hook", "true", "--waive", "tcp/c2hdata/datao"], "'tcp/c2hdata/datao' is a rule for the controller itself"),
    (["--hook", "true", "--violate", "tcp/h2cdata/ttag"], "are for the reference host"),
    (["--pcap", "x.pcap"], "--transcript to record"),
    (["--ns", "mem:1M"], "--role host accepts only -t, -a, -s and --hook"),
    (["-q", "nqn.2026-01.x:y"], "--role host accepts only -t, -a, -s and --hook"),
    (["tcp/h2cdata/ttag-unknown"], "no case is called"),
    (["--waive", "tcp/h2cdata/ttag"], "'tcp/h2cdata/ttag' is a rule for the host itself"),
    (["--violate", "tcp/c2hdata/datao"], "'tcp/c2hdata/datao' is a rule for the controller"),
    (["--violate", "fab/auth/t-id"], "the host sends nothing that can break 'fab/auth/t-id'"),
])
def test_usage(args, says):
    assert says in conform(*args, code=2).stderr


def test_hook_is_for_hosts():
    done = subprocess.run([NVMFSPEC, "conform", "--hook", "true"], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 2 and "--hook is for --role host" in done.stderr


# --- the kernel's host ----------------------------------------------------------------------------

# All of them take the kernel five minutes: whatever it overlooks it waits for.
QUICK = {
    "tcp": ["tcp/setup/digest-unasked", "tcp/alignment/cpda-3", "tcp/alignment/pdo-c2h", "tcp/digest/both-digests",
            "tcp/c2hdata/datao", "tcp/icresp/small-maxh2cdata", "nvm/host/any-order", "fab/keep-alive/keep-alive",
            "fab/auth/mutual"],
    "rxe": ["rdma/accept/recfmt", "rdma/in-capsule/none", "fab/connect/small-queues", "nvm/host/any-order"],
    "siw": ["rdma/accept/recfmt"],
}


@pytest.mark.lab
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", QUICK)
def test_the_kernel_fails_only_where_it_is_known_to(kind, tmp_path):
    run = subprocess.run(
        [ROOT / "ci/lab", "--timeout", "300", "--out", tmp_path, "--", "env",
         f"NVMFSPEC={NVMFSPEC}", f"KIND={kind}", "bash",
         ROOT / "conformance/tests/lab/kernel_host.sh", "--json", tmp_path / "report.json",
         WORKS, "fab/connect/refused", *QUICK[kind]],
        capture_output=True, text=True, cwd=ROOT, timeout=360)
    assert run.returncode == 0, run.stdout + run.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    seen = {r["id"]: r["verdict"] for r in report["results"]}
    assert seen[WORKS] == "pass" and "error" not in seen.values()
