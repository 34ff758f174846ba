# SPDX-License-Identifier: BSD-3-Clause
"""What rpc.py of SPDK v26.09-pre-166-g3230130e6a sends in SPDK's guide to nvmf_tgt and in its own test scripts (in
"steps", which rpc.py of SPDK 26.05 sends alike, and in "26.05" alone), recorded request by request
(spdk/requests.jsonl: those of a script go to one target, in their order), and what results have to look like: the
members and types of the examples in SPDK's manual (spdk/shapes.json, by method)."""
import json
import pathlib

import pytest

from test_rpc import Client, Target

HERE = pathlib.Path(__file__).parent / "spdk"
SHAPES = json.loads((HERE / "shapes.json").read_text())

# Members that we do not have, by method: no bdev measures times, nor how full a queue of its own is; statistics of
# RDMA's alone; SPDK's threads; older names (of trtype and ana_states), and what tunes SPDK's insides.
LACKS = {
    "bdev_get_iostat": {"read_latency_ticks", "write_latency_ticks", "unmap_latency_ticks", "queue_depth", "io_time",
                        "queue_depth_polling_period", "weighted_io_time"},
    "framework_get_reactors": {"tid", "busy", "idle", "cpumask", "elapsed"},
    "nvmf_subsystem_get_listeners": {"ana_state"},
    "nvmf_get_stats": {"devices", "pending_data_buffer"},
    "nvmf_get_transports": {"type", "io_unit_size", "abort_timeout_sec"},
}


def scripts():
    by_name = {}
    for line in (HERE / "requests.jsonl").read_text().splitlines():
        row = json.loads(line)
        by_name.setdefault(row["script"], []).append(row)
    return by_name


SCRIPTS = scripts()


class Ports:
    """A free port for each that the script names, so that tests run side by side."""

    def __init__(self, free_port):
        self.of, self.free_port = {}, free_port

    def port(self, name):
        if name not in self.of:
            self.of[name] = str(self.free_port())
        return self.of[name]

    def replace(self, value):
        if isinstance(value, list):
            return [self.replace(v) for v in value]
        if not isinstance(value, dict):
            return value
        return {k: self.port(v) if k == "trsvcid" else self.replace(v)
                for k, v in value.items()}


def kind(value):
    return {bool: "bool", int: "number", float: "number", str: "string"}.get(type(value), "null")


def differences(want, got, lacks, at=""):
    """Where a result has not what the example has; more is welcome, an empty list has any kind of items."""
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return [f"{at}: no object"]
        found = [f"{at}.{k} is missing" for k in want if k not in got and k not in lacks]
        return found + [d for k in want if k in got for d in differences(want[k], got[k], lacks, f"{at}.{k}")]
    if isinstance(want, list):
        if not isinstance(got, list):
            return [f"{at}: no array"]
        return [d for g in got if want for d in differences(want[0], g, lacks, f"{at}[]")]
    return [] if kind(got) == want else [f"{at}: {got!r} is no {want}"]


@pytest.mark.parametrize("script", SCRIPTS)
def test_script(script, tmp_path, free_port):
    target = Target(tmp_path / "rpc.sock", "--reactors", "1")
    ports = Ports(free_port)
    for n, row in enumerate(SCRIPTS[script]):
        answer = Client(target.path).ask({"jsonrpc": "2.0", "id": 1, "method": row["method"],
                                          "params": ports.replace(row.get("params", {}))})
        at = f"request {n}, {row['method']}"
        assert answer.get("error", {}).get("code") == row.get("error"), f"{at}: {answer}"
        if "result" in answer and row["method"] in SHAPES:
            found = differences(SHAPES[row["method"]], answer["result"], LACKS.get(row["method"], ()))
            assert not found, f"{at}: {found}"
    target.stop()


def test_a_difference_is_found():
    want = {"a": [{"b": "number"}], "c": "string"}
    assert differences(want, {"a": [], "c": "x", "d": 1}, ()) == []
    assert differences(want, {"a": [{"b": True}]}, ()) == [".c is missing", ".a[].b: True is no number"]
    assert differences(want, {"a": [{}], "c": ""}, {"b"}) == []
