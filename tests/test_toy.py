# SPDX-License-Identifier: BSD-3-Clause
"""A protocol that is not NVMe goes through all commands: tests/toy/toy.c, linked into a program of its own."""
import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
TOY = pathlib.Path(os.environ.get("NVMFSPEC", ROOT / "build/nvmfspec")).with_name("nvmfspec_toy")


def run(*args, status=0):
    r = subprocess.run([TOY, *map(str, args)], capture_output=True, text=True, timeout=120)
    assert r.returncode == status, r.stdout + r.stderr
    return r.stdout + r.stderr


@pytest.fixture
def toy(tmp_path):
    """Where a target of it listens; it records into toy.pcapng."""
    target = subprocess.Popen([TOY, "target", "-t", "toy", "-s", "0", "--pcap", tmp_path / "toy.pcapng"],
                              stdout=subprocess.PIPE, text=True)

    def stop():
        target.terminate()
        assert target.wait(30) == 0

    port = target.stdout.readline().strip().rsplit(":", 1)[1]
    yield ["-t", "toy", "-a", "127.0.0.1", "-s", port], stop
    stop()


def cannot_tools(tmp_path):
    """Of what a protocol has not the tools say so."""
    def refused(*args, status=0):
        return run("pcap", *args, tmp_path / "toy.pcapng", "--to", tmp_path / f"none-{args[-1]}", status=status)

    assert "connection 1 is of Toy, which cannot be anonymized, and is not written\n" in (said := refused("anonymize", status=3))
    assert "contains no NVMe or SRP connection to write" in said and not (tmp_path / "none-anonymize").exists()
    for kind, lacks in ("data", "blocks"), ("sequence", "commands"), ("seeds", "messages"):
        assert f"connection 1 is of Toy, which has no {lacks} that could be extracted" in refused("extract", "--kind", kind)


def test_host_and_capture(toy, tmp_path):
    where, stop = toy
    figures = json.loads(run("host", *where[:2], "perf", *where[2:], "--rw", "randrw", "--bs", "512", "--iodepth", "4", "--time", "0.3",
                             "-o", "json"))
    assert figures["read"]["ios"] > 0 and figures["write"]["ios"] > 0
    stop()
    lines = run("pcap", "show", tmp_path / "toy.pcapng").splitlines()
    assert "1 connections on a port of NVMe are of another protocol" in lines[-1]  # as which it records
    shown = lines[:-1]
    assert "connection 1: tcp" in shown[0] and "end of the connection" in shown[-1]
    questions, answers = ([line.split()[-1] for line in shown if f" {sign} " in line and line[-1] == "h"] for sign in "><")
    assert len(answers) > 10 and answers == questions[:len(answers)]
    objects = [json.loads(line) for line in run("pcap", "show", "-o", "json", tmp_path / "toy.pcapng").splitlines()[:-1]]
    assert len(objects) == len(shown) and {o["kind"] for o in objects} == {"opened", "pdu", "closed"}
    assert "is of Toy, which has no commands that could be measured" in run("pcap", "stat", tmp_path / "toy.pcapng")
    cannot_tools(tmp_path)
    checked = run("pcap", "check", tmp_path / "toy.pcapng")
    assert "1 connections" in checked and "0 must and 0 should broken" in checked


def test_cases_and_fuzzing(toy):
    where, _ = toy
    assert "2 passed" in run("conform", *where)
    assert "toy/answer/same" in run("conform", "-t", "toy", "--list")
    run("fuzz", "remote", *where, "--runs", "200", "--allow-write")


def test_every_rule_can_be_broken_and_is_found():
    assert "2 of 2" in run("conform", "-t", "toy", "--power")
    broken = run("conform", "-t", "toy", "--violate", "toy/answer/same", status=1)
    assert "byte 7" in broken


@pytest.mark.parametrize("command", ["target", "conform", "host perf", "fuzz remote"])
def test_transports_are_listed(command):
    all_of_them = re.compile(r"\btcp\|rdma\|(\w+\|)*toy\b")
    assert all_of_them.search(run(*command.split(), "-t", "none", status=2))
    assert all_of_them.search(run(*command.split(), "--help"))
