# SPDX-License-Identifier: BSD-3-Clause
"""Does the lab keep its promises? Run with /usr/bin/python3 -m pytest.

The tests need a guest kernel (ci/lab --build) and are skipped where the machine
can't have one. -m "not qemu" leaves out what downloads another kernel.
"""
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.lab # the stage that builds the guest's kernel first

LAB_D = Path(__file__).resolve().parent
LAB = str(LAB_D.parent / "lab")


def lab(*command, options=(), text=True, **kwargs):
    return subprocess.run(
        [LAB, "--timeout", "120", "--mem", "512", *options, "--", *map(str, command)],
        capture_output=True, text=text, **kwargs)


def guest_script(script, *arguments, options=(), **kwargs):
    prelude = f"set -eu; . {LAB_D}/net.sh; . {LAB_D}/nvmet.sh\n"
    return lab("bash", "-c", prelude + script, "script", *arguments,
               options=options, **kwargs)


def passed(run):
    assert run.returncode == 0, run.stdout + run.stderr
    return run


@pytest.fixture(scope="module", autouse=True)
def kernel():
    probe = subprocess.run([LAB, "--probe"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(probe.stdout)
    subprocess.run([LAB, "--build"], check=True, stdout=subprocess.DEVNULL)


# --- what a command sees, and what comes back ---------------------------------------


@pytest.mark.parametrize("status", [0, 1, 42, 255])
def test_exit_status_is_the_commands(status):
    assert lab("sh", "-c", f"exit {status}").returncode == status


def test_unknown_command_is_127_as_in_a_shell():
    assert lab("no-such-command").returncode == 127


def test_stdout_and_stderr_stay_apart():
    run = lab("sh", "-c", "echo out; echo err >&2")
    assert (run.stdout, run.stderr) == ("out\n", "err\n")


def test_output_is_not_changed():
    run = lab("printf", r"a\nb\r\n\tc\0\377", text=False)
    assert (run.stdout, run.stderr) == (b"a\nb\r\n\tc\0\xff", b"")


def test_arguments_arrive_as_given():
    run = passed(lab("printf", "%s|", "a b", "", "'\"$x", "new\nline"))
    assert run.stdout == "a b||'\"$x|new\nline|"


def test_root_same_directory_same_path(tmp_path):
    run = passed(lab("sh", "-c", 'id -u; pwd; echo "$PATH"', cwd=tmp_path))
    assert run.stdout == f"0\n{tmp_path}\n{os.environ['PATH']}\n"


def test_stdin_is_empty():
    assert passed(lab("cat", input="x")).stdout == ""


def test_much_output_is_complete():
    numbers = passed(lab("seq", "500000")).stdout.split()
    assert len(numbers) == 500000 and numbers[-1] == "500000"


def test_output_comes_while_the_command_runs():
    process = subprocess.Popen([LAB, "--", "sh", "-c", "echo early; sleep 30"],
                               stdout=subprocess.PIPE, text=True)
    begun = time.monotonic()
    assert process.stdout.readline() == "early\n"
    assert time.monotonic() - begun < 25
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 143


# --- the ends of a guest ----------------------------------------------------------------


def cut_short(script):
    """A guest whose time is up after it has said something: more time, where it took all of it to boot."""
    for limit in (3, 9, 27):
        run = lab("sh", "-c", f"{script}; sleep 900", options=["--timeout", str(limit)])
        if run.stdout:
            break
    return run


def test_timeout_is_124_and_keeps_the_output():
    run = cut_short("echo early")
    assert (run.returncode, run.stdout) == (124, "early\n")


def test_dead_guest_is_125_and_shows_its_console():
    run = lab("sh", "-c", "echo early; echo c > /proc/sysrq-trigger; sleep 9")
    assert (run.returncode, run.stdout) == (125, "early\n")
    assert "Kernel panic" in run.stderr


@pytest.mark.parametrize("options", [
    ["--bogus"], ["--engine", "bochs"], ["--timeout", "soon"], ["--out", "/no/such"],
    ["--smp", "2"]])
def test_bad_usage_is_126(options):
    run = lab("true", options=options)
    assert run.returncode == 126
    assert run.stderr.startswith("ci/lab: ")


def test_no_command_is_126():
    assert subprocess.run([LAB], stderr=subprocess.DEVNULL).returncode == 126


def test_nothing_is_left_behind():
    # The run directory, and with it the guest's memory, is named on its command line.
    run = cut_short("tr ' ' '\\n' </proc/cmdline | sed -n s/^lab=//p")
    assert run.returncode == 124
    directory = Path(run.stdout.strip())
    assert directory.name.startswith("nvmfspec-lab.")
    assert not directory.exists()


def descendants(pid):
    listed = subprocess.run(["ps", "-e", "-o", "pid=,ppid=,comm="], capture_output=True, text=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    found = [(int(child), name) for child, parent, name in rows if int(parent) == pid]
    return found + [row for child, _ in found for row in descendants(child)]


def lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("killed", ["lab", "timeout"])
@pytest.mark.parametrize("engine", ["uml", pytest.param("qemu", marks=pytest.mark.qemu)])
def test_no_guest_lives_on_when_its_watch_is_killed(engine, killed):
    """Neither without ci/lab nor, called dead, without the process that watches its time."""
    with subprocess.Popen([LAB, "--engine", engine, "--", "sh", "-c", "echo up; sleep 60"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stdout.readline() == "up\n"
        family = descendants(watch.pid)
        guests = [pid for pid, name in family if name.startswith(("linux", "qemu"))]
        assert guests, family
        os.kill({"lab": watch.pid}.get(killed) or
                next(pid for pid, name in family if name == killed), signal.SIGKILL)
        for _ in range(100):
            if not any(map(lives, guests)):
                break
            time.sleep(0.1)
        left = [os.kill(pid, signal.SIGKILL) or pid for pid in guests if lives(pid)]
        assert not left
        assert watch.wait(10) == (-signal.SIGKILL if killed == "lab" else 125)


def test_help():
    run = subprocess.run([LAB, "--help"], capture_output=True, text=True)
    assert run.returncode == 0 and run.stderr == ""
    options = re.findall(r"^ +(--?[a-z]+)", run.stdout, re.M)
    assert {"--engine", "--instrumented", "--timeout", "--out", "--mem", "--smp", "--append",
            "--console", "-v"} <= set(options)
    assert "--build" in run.stdout and "--probe" in run.stdout and "Exit status" in run.stdout


def test_console_is_kept(tmp_path):
    console = tmp_path / "console"
    passed(lab("sh", "-c", "echo from-the-guest > /dev/kmsg",
               options=["--console", console]))
    assert "from-the-guest" in console.read_text()


# --- files ----------------------------------------------------------------------------------


def test_writes_do_not_leak(tmp_path):
    there = tmp_path / "there"
    there.write_text("host")
    passed(lab("sh", "-c", "echo guest > there; echo guest > new; touch /etc/leak",
               cwd=tmp_path))
    assert there.read_text() == "host"
    assert os.listdir(tmp_path) == ["there"]
    assert not os.path.exists("/etc/leak")


def test_out_writes_through(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two words"
    one.mkdir()
    two.mkdir()
    passed(lab("sh", "-c", 'echo 1 > one/f; echo 2 > "two words/f"; mkdir one/d; touch no',
               options=["--out", one, "--out", two], cwd=tmp_path))
    assert (one / "f").read_text() == "1\n"
    assert (two / "f").read_text() == "2\n"
    assert (one / "d").is_dir()
    assert not (tmp_path / "no").exists()


def test_out_survives_a_dead_guest(tmp_path):
    lab("sh", "-c", "echo kept > f; sleep 10; echo c > /proc/sysrq-trigger; sleep 9",
        options=["--out", tmp_path], cwd=tmp_path)
    assert (tmp_path / "f").read_text() == "kept\n"


def test_guests_run_side_by_side():
    command = [LAB, "--timeout", "60", "--", "sh", "-c",
               "ip link add only0 type dummy && sleep 2"]
    guests = [subprocess.Popen(command) for _ in range(4)]
    assert [guest.wait() for guest in guests] == [0] * 4


# --- the kernel's NVMe peers ------------------------------------------------------------------

READ_BACK = """
nvme connect -t $1 -a $2 -s 4420 -n $nqn
device=$(nvdev $nqn)
head -c 4M /dev/urandom >/tmp/pattern
dd if=/tmp/pattern of=$device bs=4k count=16 oflag=direct status=none
dd if=/tmp/pattern of=$device bs=128k oflag=direct status=none
dd if=$device of=/tmp/back bs=64k count=64 iflag=direct status=none
cmp /tmp/pattern /tmp/back
nvme disconnect -n $nqn
"""


def test_kernel_to_kernel_tcp_on_lo():
    passed(guest_script("""
        nqn=nqn.2026-01.lab:tcp
        nvmet_up $1 $2 $nqn /dev/ram0
    """ + READ_BACK + "nvmet_down; dmesg_clean", "tcp", "127.0.0.1"))


@pytest.mark.parametrize("device", ["rxe", "siw"])
def test_kernel_to_kernel_rdma(device):
    passed(guest_script(f"""
        nqn=nqn.2026-01.lab:{device}
        wire_up; rdma_up {device}
        nvmet_up $1 $2 $nqn /dev/ram0
    """ + READ_BACK + f"nvmet_down; rdma_down {device}; wire_down; dmesg_clean",
        "rdma", "10.0.0.2"))


def test_kernel_to_kernel_tcp_with_digests_and_authentication():
    passed(guest_script("""
        nqn=nqn.2026-01.lab:auth host=nqn.2026-01.lab:host
        key=$(nvme gen-dhchap-key -m 1 -n $host)
        nvmet_up tcp ::1 $nqn /dev/ram0
        mkdir $nvmet/hosts/$host
        echo $key >$nvmet/hosts/$host/dhchap_key
        echo 0 >$nvmet/subsystems/$nqn/attr_allow_any_host
        ln -s $nvmet/hosts/$host $nvmet/subsystems/$nqn/allowed_hosts/
        connect="nvme connect -t tcp -a ::1 -s 4420 -n $nqn -q $host -g -G"
        if $connect; then exit 1; fi
        $connect --dhchap-secret=$key
        nvdev $nqn
        nvme disconnect -n $nqn
        nvmet_down
        dmesg_clean
    """))


def test_dmesg_clean_sees_a_warning():
    run = guest_script("echo 'WARNING: CPU: 0 PID: 1' >/dev/kmsg; dmesg_clean")
    assert run.returncode == 1
    assert "WARNING: CPU: 0" in run.stderr


OWN_REPORT = """
say() { printf '%s\n' "$@" | while read -r line; do echo "$line" >/dev/kmsg; done; }
scan='workqueue: WQ_MEM_RECLAIM nvme-wq:nvme_scan_work is flushing !WQ_MEM_RECLAIM events:'
cut='------------[ cut here ]------------' end='---[ end trace 0000000000000000 ]---'
report() { say "$cut" 'WARNING: CPU: 0 PID: 1 at kernel/workqueue.c:3767' "$1" 'Call Trace:' "$end"; }
"""


def test_dmesg_clean_knows_what_the_host_says_of_itself():
    passed(guest_script(OWN_REPORT + 'report "${scan}srcu_drive_gp"; dmesg_clean'))


@pytest.mark.parametrize("script", [
    'report "${scan}something_else"',
    'report "${scan}srcu_drive_gp"; report other',
    'report "${scan}srcu_drive_gp"; say "WARNING: after it"',
    'say "$cut" "WARNING: cut short"; report "${scan}srcu_drive_gp"'])
def test_dmesg_clean_sees_what_is_beside_that(script):
    assert guest_script(OWN_REPORT + script + "; dmesg_clean").returncode == 1


CONFIG = {
    "hosts": [{"nqn": "nqn.2026-01.lab:host"}],
    "ports": [{
        "portid": 3,
        "addr": {"adrfam": "ipv4", "traddr": "127.0.0.1", "treq": "not specified",
                 "trsvcid": "4421", "trtype": "tcp"},
        "param": {"inline_data_size": "8192"},
        "ana_groups": [{"ana": {"state": "optimized"}, "grpid": 1},
                       {"ana": {"state": "non-optimized"}, "grpid": 7}],
        "referrals": [{"name": "elsewhere", "enable": True, "portid": 9,
                       "addr": {"adrfam": "ipv4", "traddr": "10.0.0.9",
                                "trsvcid": "4420", "trtype": "tcp"}}],
        "subsystems": ["nqn.2026-01.lab:two"],
    }],
    "subsystems": [{
        "nqn": "nqn.2026-01.lab:two",
        "allowed_hosts": ["nqn.2026-01.lab:host"],
        "attr": {"allow_any_host": "0", "serial": "feedc0de", "model": "two disks"},
        "namespaces": [
            {"device": {"path": "/dev/ram0", "nguid": "",
                        "uuid": "01234567-89ab-cdef-0123-456789abcdef"},
             "enable": 1, "nsid": 1},
            {"ana": {"grpid": "7"}, "device": {"path": "/dev/ram1"}, "enable": 1, "nsid": 5}],
    }],
}


def check_nvmet_config(tmp_path, *options):
    file = tmp_path / "target.json"
    file.write_text(json.dumps(CONFIG))
    run = passed(guest_script(f"""
        {LAB_D}/nvmet-config $1
        load nvme-tcp
        connect="nvme connect -t tcp -a 127.0.0.1 -s 4421 -n nqn.2026-01.lab:two"
        if $connect -q nqn.2026-01.lab:stranger; then exit 1; fi
        $connect -q nqn.2026-01.lab:host
        nvdev nqn.2026-01.lab:two 1
        nvdev nqn.2026-01.lab:two 5
        nvme id-ctrl /dev/nvme0 | grep -E '^(sn|mn)'
        nvme discover -t tcp -a 127.0.0.1 -s 4421 -q nqn.2026-01.lab:host | grep traddr
        nvme disconnect-all
        {LAB_D}/nvmet-config $1 down
        cd $nvmet; echo left: $(ls hosts) $(ls ports) $(ls subsystems)
        dmesg_clean
    """, file, options=options))
    for expected in ("/dev/nvme0n1", "/dev/nvme0n2", "feedc0de", "two disks",
                     "10.0.0.9", "left:\n"):
        assert expected in run.stdout


def test_nvmet_config(tmp_path):
    check_nvmet_config(tmp_path)


# --- the other engine ---------------------------------------------------------------------------


@pytest.fixture
def qemu():
    probe = subprocess.run([LAB, "--engine", "qemu", "--probe"], capture_output=True, text=True)
    if probe.returncode != 0:
        pytest.skip(probe.stdout)
    subprocess.run([LAB, "--engine", "qemu", "--build"], check=True, stdout=subprocess.DEVNULL)
    return "--engine", "qemu"


@pytest.mark.qemu
@pytest.mark.parametrize("device", ["tcp", "rxe", "siw"])
def test_qemu(device, qemu, tmp_path):
    run = guest_script("""
        nqn=nqn.2026-01.lab:qemu
        wire_up
        [ $3 = tcp ] || rdma_up $3
        nvmet_up $1 $2 $nqn /dev/ram0
    """ + READ_BACK + """
        nvmet_down
        dmesg_clean
        nproc >processors
        echo error >&2
        exit 9
    """, "tcp" if device == "tcp" else "rdma", "10.0.0.2", device,
        options=[*qemu, "--smp", "2", "--out", tmp_path], cwd=tmp_path)
    assert run.returncode == 9, run.stderr
    assert run.stderr == "error\n"
    assert (tmp_path / "processors").read_text() == "2\n"


@pytest.mark.qemu
def test_qemu_has_the_same_block_devices(qemu):
    """Four of 64 MiB that nvmet_up brings, over the loop transport as well."""
    run = passed(guest_script("""
        nqn=nqn.2026-01.lab:qemu
        nvmet_up loop - $nqn /dev/ram3
        nvme connect -t loop -n $nqn
        blockdev --getsize64 $(nvdev $nqn)
        nvme disconnect -n $nqn
        nvmet_down
        dmesg_clean
    """, options=qemu))
    assert str(64 << 20) in run.stdout.splitlines()


@pytest.mark.qemu
def test_qemu_nvmet_config(qemu, tmp_path):
    check_nvmet_config(tmp_path, *qemu)


@pytest.mark.qemu
def test_qemu_dead_guest(qemu):
    run = lab("sh", "-c", "echo early; echo c > /proc/sysrq-trigger; sleep 9", options=qemu)
    assert (run.returncode, run.stdout) == (125, "early\n")
    assert "Kernel panic" in run.stderr
