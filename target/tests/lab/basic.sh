# SPDX-License-Identifier: BSD-3-Clause
# basic.sh [CONNECT OPTION...]: discover, connect, identify, verified I/O, a file system, disconnect.
. "$(dirname "$0")/lib.sh"

target_up -n "$nqn" --ns mem:64M --ns mem:32M,bs=4096
step discover
nvme discover -t "$trtype" -a "$addr" -s 4420 | tee "$work/disc"
grep -q "subnqn: *$nqn" "$work/disc"
step "connect $*"
dev=$(connect "$@")
second=$(nvdev "$nqn" 2) # the kernel scans side by side: not always ...n2
ctrl=${dev%n[0-9]*}
step identify
nvme id-ctrl "$ctrl" | grep -E '^(sn|mn|mdts|ioccsz|sgls|kas|maxcmd)'
nvme id-ns "$dev" | grep -E '^nsze|in use'
nvme smart-log "$ctrl" >/dev/null
nvme error-log "$ctrl" >/dev/null
nvme fw-log "$ctrl" >/dev/null
nvme effects-log "$ctrl" >/dev/null
nvme ns-descs "$dev" >/dev/null
nvme list-ns "$ctrl"
[ "$(blockdev --getsize64 "$dev")" = $((64 << 20)) ]
[ "$(blockdev --getss "$second")" = 4096 ]
step "verified I/O"
verify_io "$dev"
verify_io "$second"
step "file system"
filesystem_io "$dev"
step "flush, zeroes, deallocate, compare"
nvme flush "$dev" -n 1
dd if=/dev/urandom of="$work/pat" bs=4k count=1 status=none
dd if="$work/pat" of="$dev" bs=4k count=1 conv=nocreat oflag=direct status=none
nvme compare "$dev" -s 0 -c 7 -z 4096 -d "$work/pat"
nvme write-zeroes "$dev" -s 0 -c 7
nvme dsm "$dev" -s 0 -b 8 -d
if nvme compare "$dev" -s 0 -c 7 -z 4096 -d "$work/pat"; then
        echo "compare of zeroes with a pattern succeeded" >&2
        exit 1
fi
step disconnect
disconnect
target_down
dmesg_clean
