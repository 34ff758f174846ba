# SPDX-License-Identifier: BSD-3-Clause
# device.sh: a block device that is mounted, or that another target has, is refused; later it is served.
. "$(dirname "$0")/lib.sh"

refused() { # DEVICE SAYS
        if timeout 10 "$NVMFSPEC" target -s 0 --ns "$1" >"$work/refused" 2>&1; then exit 1; fi
        cat "$work/refused"
        grep -q "$2" "$work/refused"
}

mkfs.ext4 -q -F /dev/ram1
mkdir -p "$work/mnt"
mount /dev/ram1 "$work/mnt"
step "mounted"
refused /dev/ram1 'the device is mounted or in use'
umount "$work/mnt"
step "free"
target_up -n "$nqn" --ns /dev/ram1
step "of another target"
refused /dev/ram1 'in use'
dev=$(connect)
verify_io "$dev"
disconnect
target_down
dmesg_clean
