# SPDX-License-Identifier: BSD-3-Clause
# tls.sh DIR [concat]: TLS between the kernel's host and our target (DIR/target.pcap), our host and the kernel's target
# (host.pcap) and between both of the kernel's (kernel.pcap), each with a key log (target.keys ...) of one end; by a PSK
# that is configured, or one that authentication generates, and the kernel's host then replaces.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/../../../ci/lab.d/nvmet.sh"
. "$here/../../../ci/lab.d/tls.sh"
nqn=nqn.2026-01.lab:kernel host=nqn.2026-01.lab:host
where=(-t tcp -a 127.0.0.1 -s 4420 -n "$nqn" -q "$host")
dir=$1 how=${2-}
step() { echo "-- $*"; }

capture() { # NAME
        local i
        tcpdump -i lo -s 0 -B 65536 -U -Z root -w "$dir/$1.pcap" port 4420 2>"$dir/said" &
        dump=$!
        for i in $(seq 600); do
                grep -q 'listening on' "$dir/said" && return
                sleep 0.1
        done
        return 1
}
captured() {
        sleep 1
        kill "$dump"
        wait "$dump" || true
}

kernel_host() { # it connects, writes, reads back
        local dev state
        tool nvme connect "${where[@]}" "${kernels[@]}"
        dev=$(nvdev "$nqn")
        if [ "$how" = concat ]; then
                echo 0 >/sys/class/nvme/nvme0/tls_configured_key
                until state=$(cat /sys/class/nvme/nvme0/state) && [ "$state" = live ]; do sleep 0.1; done
        fi
        dd if=/dev/urandom of="$dev" bs=64k count=4 conv=nocreat oflag=direct status=none
        dd if="$dev" of=/dev/null bs=64k count=4 iflag=direct status=none
        nvme disconnect -n "$nqn"
}

tlshd_up "$dir" "$dir/kernel.keys"
case $how in
concat) key=$(tool nvme gen-dhchap-key -m 1 -n "$host") ;;
*) key=$(tls_key 2) ;;
esac
(umask 077 && echo "$key" >"$dir/key")
case $how in
concat)
        kernels=(-S "$key" --concat) ours=(-S "@$dir/key" --concat) targets=(--dhchap-key "@$dir/key" --concat required)
        ;;
*)
        kernels=(--tls) ours=(--tls-key "@$dir/key" --tls-identity 1) targets=(--tls-key "@$dir/key" --tls-required)
        tls_insert "$key" "$host" "$nqn" 1
        ;;
esac

step "the kernel's host, our target"
"$NVMFSPEC" target -a 127.0.0.1 -n "$nqn" --ns mem:16M "${targets[@]}" --tls-keylog "$dir/target.keys" >"$dir/log" 2>&1 &
target=$!
for _ in $(seq 600); do
        grep -q listening "$dir/log" && break
        sleep 0.1
done
grep -q listening "$dir/log"
capture target
kernel_host
captured
kill "$target"
wait "$target"

step "our host, the kernel's target"
case $how in
concat)
        nvmet_tls 127.0.0.1 "$nqn" /dev/ram0 'not required'
        nvmet_host "$nqn" "$host" "$key" '' 'hmac(sha256)' ffdhe2048
        ;;
*) nvmet_tls 127.0.0.1 "$nqn" /dev/ram0 required ;;
esac
capture host
"$NVMFSPEC" host verify "${where[@]}" -N 1 --range 1M --passes 1 -i 2 -g -G "${ours[@]}" --tls-keylog "$dir/host.keys"
captured

step "both of the kernel's"
capture kernel
kernel_host
captured
nvmet_down
dmesg_clean
