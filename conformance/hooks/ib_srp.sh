#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# For `nvmfspec conform -t srp --role host --hook conformance/hooks/ib_srp.sh`, as root: the SRP initiator of this machine's
# kernel (ib_srp), over the RDMA device and port that SRP_DEVICE names (mlx5_0-1). Logs out of whatever it was logged in to.
set -euo pipefail
class=/sys/class/infiniband_srp/srp-${SRP_DEVICE:?the RDMA device and its port, say mlx5_0-1}
work=$(mktemp -d)

leave() { # with the first line of what went wrong
        local rc=$? port
        for port in /sys/class/srp_remote_ports/*/delete; do
                [ ! -e "$port" ] || echo 1 >"$port" || :
        done
        [ $rc = 0 ] || grep -m1 . "$work/said" || :
        rm -rf "$work"
}
trap leave EXIT
exec 2>"$work/said"

of_30() { echo $((NVMF_SECONDS * $1 / 30)); } # N: so many of the 30 s that it has in all

within() { # SECONDS COMMAND...: whatever waits for the disk ends when leave() logs out
        local until=$((SECONDS + $1)) pid
        shift
        "$@" >/dev/null &
        pid=$!
        while kill -0 $pid 2>/dev/null; do
                [ $SECONDS -lt $until ] || { echo "no end of it: $*" >&2 && return 1; }
                sleep 0.05
        done
        wait $pid
}

login() { # again, while the kernel still knows the last one; scans, too
        for _ in $(seq $((NVMF_SECONDS * 2))); do
                { echo "id_ext=${NVMF_TARGET_ID:0:16},ioc_guid=${NVMF_TARGET_ID:16},dest=$NVMF_TRADDR:$NVMF_TRSVCID" \
                        >"$class/add_target"; } 2>"$work/login" && return
                grep -q "File exists" "$work/login" || break
                sleep 0.1
        done
        cat "$work/login" >&2
        return 1
}

disk() { # ours, once the kernel has found it; commands that are not answered are waited for 2 s
        local d
        for _ in $(seq "$(of_30 50)"); do
                for d in /sys/block/sd*; do
                        [ -e "$d" ] || continue
                        grep -q NVMFSPEC "$d/device/vendor" && [ "$(cat "$d/size")" -gt 0 ] || continue
                        echo 2 >"$d/device/timeout"
                        echo "/dev/${d##*/}"
                        return
                done
                sleep 0.1
        done
        echo "no disk was found" >&2
        return 1
}

copy() { dd "$@" status=none; }

within "$(of_30 9)" login
dev=$(disk)
head -c 1M /dev/urandom >"$work/pattern"
within "$(of_30 4)" copy if="$work/pattern" of="$dev" bs=4k conv=nocreat count=16 oflag=direct
within "$(of_30 4)" copy if="$work/pattern" of="$dev" bs=128k conv=fsync,nocreat oflag=direct
within "$(of_30 4)" copy if="$dev" of="$work/back" bs=128k count=8 iflag=direct
cmp "$work/pattern" "$work/back" >&2
