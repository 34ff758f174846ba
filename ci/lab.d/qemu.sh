# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced by ci/lab. The QEMU engine.

qemu_key() { echo none; }
qemu_cached() { return 1; }
qemu_obstacle() { echo 'the QEMU engine is not there yet'; }
