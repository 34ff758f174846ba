# SPDX-License-Identifier: BSD-3-Clause
"""The host's command, and a reference target on a port of its own to run it against."""
import json
import os
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVMFSPEC = os.environ.get("NVMFSPEC", str(ROOT / "build/nvmfspec"))
NQN = "nqn.2026-01.io.nvmfspec:host-test"


class Host:
    """Runs `nvmfspec host ...` against one target."""

    def __init__(self, port):
        self.port = port
        self.where = ["-t", "tcp", "-a", "127.0.0.1", "-s", str(port)]

    def run(self, sub, *args, code=0, nqn=NQN, **kwargs):
        """The completed process; its exit code has to be `code`."""
        who = ["-n", nqn] if nqn and sub not in ("discover", "raw") else []
        done = subprocess.run([NVMFSPEC, "host", sub, *self.where, *who, *map(str, args)],
                              capture_output=True, timeout=60, stdin=kwargs.pop("stdin", subprocess.DEVNULL)
                              if "input" not in kwargs else None, **kwargs)
        assert done.returncode == code, done.stderr.decode() or done.stdout.decode()
        return done

    def text(self, sub, *args, **kwargs):
        return self.run(sub, *args, **kwargs).stdout.decode()

    def json(self, sub, *args, **kwargs):
        out = json.loads(self.run(sub, *args, "-o", "json", **kwargs).stdout)
        assert out["schema"] == 1
        return out

    def error(self, sub, *args, code, **kwargs):
        """The one line on standard error."""
        err = self.run(sub, *args, code=code, **kwargs).stderr.decode()
        assert err.count("\n") == 1 and err.startswith("nvmfspec host"), err
        return err


class Target:
    def __init__(self, *args):
        self.process = subprocess.Popen(
            [NVMFSPEC, "target", "-a", "127.0.0.1", "-s", "0", *args],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        found = re.match(r"listening on 127\.0\.0\.1:(\d+)", line)
        assert found, f"target said {line!r}"
        self.host = Host(int(found[1]))

    def stop(self):
        self.process.terminate()
        assert self.process.wait(timeout=20) == 0
