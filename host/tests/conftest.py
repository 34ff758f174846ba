# SPDX-License-Identifier: BSD-3-Clause
import pytest

from hostlib import NQN, Target


@pytest.fixture
def start_target():
    """start_target(OPTION...) -> Target; all are stopped at the end, and must end well."""
    started = []

    def start(*args):
        started.append(Target(*args))
        return started[-1]

    yield start
    for target in started:
        target.stop()


@pytest.fixture(scope="module")
def host():
    target = Target("-n", NQN, "--ns", "mem:64M", "--ns", "mem:32M,bs=4096")
    yield target.host
    target.stop()
