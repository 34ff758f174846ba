#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# For `nvmfspec conform --role host --hook conformance/hooks/nvme-cli.sh`, as root: the kernel's host of
# this machine, through nvme-cli. Destroys nothing but the namespace of the target that it is told.
set -euo pipefail
at=(-t "$NVMF_TRTYPE" -a "$NVMF_TRADDR" -s "$NVMF_TRSVCID")
options=()
[ "$NVMF_HDGST" = 0 ] || options+=(--hdr-digest)
[ "$NVMF_DDGST" = 0 ] || options+=(--data-digest)
[ "$NVMF_KATO" = 0 ] || options+=(--keep-alive-tmo="$NVMF_KATO")
[ -z "$NVMF_DHCHAP_SECRET" ] || options+=(--dhchap-secret="$NVMF_DHCHAP_SECRET")
[ -z "$NVMF_DHCHAP_CTRL_SECRET" ] || options+=(--dhchap-ctrl-secret="$NVMF_DHCHAP_CTRL_SECRET")
if [ -n "$NVMF_DHCHAP_SECRET" ] && ! grep -q dhchap_secret /dev/nvme-fabrics; then
        echo "this kernel does not authenticate itself" && exit 77
fi
work=$(mktemp -d)
said=$work/said

leave() { # with the first line of what went wrong
        local rc=$?
        nvme disconnect -n "$NVMF_SUBNQN" >/dev/null 2>&1 || :
        [ $rc = 0 ] || grep -m1 . "$said" || :
        rm -rf "$work"
}
trap leave EXIT
exec 2>"$said"

# N: so many of the 30 s that it has in all, but for being idle, or as much more as --timeout-scale says.
of_30() { echo $(((NVMF_SECONDS - NVMF_IDLE) * $1 / 30)); }

device() { # the first namespace, once the kernel has found it
        for _ in $(seq "$(of_30 50)"); do
                for name in /sys/class/nvme-subsystem/*/; do
                        [ "$(cat "$name/subsysnqn" || :)" = "$NVMF_SUBNQN" ] || continue
                        for ns in "$name"nvme*n1; do
                                [ ! -b "/dev/${ns##*/}" ] || { echo "/dev/${ns##*/}" && return; }
                        done
                done
                sleep 0.1
        done
        echo "no namespace was found" >&2
        return 1
}

within() { # SECONDS COMMAND...: whatever waits for the device ends when leave() disconnects it
        local until=$((SECONDS + $1)) pid
        shift
        "$@" &
        pid=$!
        while kill -0 $pid 2>/dev/null; do
                [ $SECONDS -lt $until ] || { echo "no end of it: $*" >&2 && return 1; }
                sleep 0.05
        done
        wait $pid
}

copy() { dd "$@" status=none; }

nvme discover "${at[@]}" >/dev/null
within "$(of_30 8)" nvme connect "${at[@]}" -n "$NVMF_SUBNQN" -i 2 -D --ctrl-loss-tmo=1 --reconnect-delay=1 \
        "${options[@]}" >/dev/null
dev=$(device)
head -c 4M /dev/urandom >"$work/pattern"
within "$(of_30 10)" copy if="$work/pattern" of="$dev" bs=64k conv=fsync,nocreat # many at once
within "$(of_30 10)" copy if="$work/pattern" of="$dev" bs=256k conv=nocreat count=4 oflag=direct
within "$(of_30 10)" copy if="$work/pattern" of="$dev" bs=4k conv=nocreat count=16 oflag=direct
sleep "$NVMF_IDLE"
within "$(of_30 10)" copy if="$dev" of="$work/back" bs=256k count=16 iflag=direct
cmp "$work/pattern" "$work/back" >&2
