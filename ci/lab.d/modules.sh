# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced in the guest.

# load MODULE...: User-Mode Linux has everything built in, QEMU's kernel does not.
load() {
    [ ! -d "/lib/modules/$(uname -r)" ] || modprobe -a "$@"
}
