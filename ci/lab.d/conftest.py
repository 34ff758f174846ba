# SPDX-License-Identifier: BSD-3-Clause


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: takes minutes or downloads a kernel")
