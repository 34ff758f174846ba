# SPDX-License-Identifier: BSD-3-Clause
# tls.sh NVMFSPEC ROUNDS SECONDS: 4 KiB random reads by the kernel's host and by ours, at the kernel's target (kTLS) and
# at ours, plain and over TLS by each suite, by turns in one guest. ktls: our ends leave the records to the kernel, too.
# Prints "LOAD TARGET HOW QUEUE_DEPTH IOPS" lines: kernel|ours kernel|ours plain|aes128|aes256|ktls.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../ci/lab.d/nvmet.sh"
. "$here/../../ci/lab.d/tls.sh"
nvmfspec=$1 rounds=$2 seconds=$3
nqn=nqn.2026-01.io.nvmfspec:bench host=nqn.2026-01.lab:host id=6d2f3c52-93f8-4a63-8f2b-1d1c6a1e7a10
work=$(mktemp -d)
declare -A device port=([kernel-plain]=4421 [kernel-aes128]=4420 [kernel-aes256]=4420
        [ours-plain]=4423 [ours-aes128]=4424 [ours-aes256]=4425 [ours-ktls]=4426)

key() { # HASH FILE SUBSYSTEM...: one PSK for them
        local hash=$1 file=$2 key name
        shift 2
        key=$(tls_key "$hash")
        (umask 077 && echo "$key" >"$work/$file")
        for name; do
                tls_insert "$key" "$host" "$nqn-$name" 0
        done
}

target() { # HOW [OPTION...]
        "$nvmfspec" target -a 127.0.0.1 -s "${port[ours-$1]}" -n "$nqn-ours-$1" --ns mem:64M "${@:2}" >/dev/null &
}

connect() { # TARGET-HOW [OPTION...]
        tool nvme connect -t tcp -a 127.0.0.1 -s "${port[$1]}" -n "$nqn-$1" -q "$host" -I "$id" -i 1 "${@:2}" >&2
        device[$1]=$(nvdev "$nqn-$1")
        # no page is touched for the first time later
        dd if=/dev/zero of="${device[$1]}" bs=1M count=16 oflag=direct status=none
}

by_kernel() { # TARGET-HOW QUEUE_DEPTH HOW
        fio --name=bench --filename="${device[$1]}" --rw=randread --bs=4k --direct=1 --size=16M \
                --ioengine=libaio --iodepth="$2" --time_based --runtime="$seconds" \
                --output-format=terse | cut -d';' -f8
}

by_ours() { # TARGET-HOW QUEUE_DEPTH HOW; there is one processor, which is not to be taken from the target
        local tls=()
        case $3 in
        plain) ;;
        ktls) tls=(--tls-key "@$work/aes128" --ktls) ;;
        *) tls=(--tls-key "@$work/$3") ;;
        esac
        "$nvmfspec" host perf -a 127.0.0.1 -s "${port[$1]}" -n "$nqn-$1" -q "$host" -I "$id" -i 1 --rw randread \
                --bs 4k --iodepth "$2" --range 16M --time "$seconds" --no-busy-poll -o json ${tls[@]+"${tls[@]}"} |
                sed -n '/"iops"/{s/.*: *\([0-9]*\).*/\1/p;q}'
}

# one LOAD TARGET HOW QUEUE_DEPTH: the kernel's target always leaves the records to the kernel.
one() {
        local name=$2-$3
        [ "$name" != kernel-ktls ] || name=kernel-aes128
        echo "$* $("by_$1" "$name" "$4" "$3")"
}

tlshd_up "$work"
key 1 aes128 kernel-aes128 ours-aes128 ours-ktls
key 2 aes256 kernel-aes256 ours-aes256
nvmet_tls 127.0.0.1 "$nqn-kernel-aes128" /dev/ram0 required
nvmet_up tcp 127.0.0.1 "$nqn-kernel-aes256" /dev/ram1
nvmet_up tcp 127.0.0.1 "$nqn-kernel-plain" /dev/ram2 4421 2
target plain
target aes128 --tls-key "@$work/aes128" --tls-required
target aes256 --tls-key "@$work/aes256" --tls-required
target ktls --tls-key "@$work/aes128" --tls-required --ktls
sleep 1
connect kernel-plain
connect ours-plain
for name in kernel-aes128 kernel-aes256 ours-aes128 ours-aes256 ours-ktls; do
        connect $name --tls
done
for _ in $(seq "$rounds"); do
        for depth in 1 32; do
                for how in plain aes128 aes256 ktls; do
                        for load in kernel ours; do
                                one $load kernel $how $depth
                                one $load ours $how $depth
                        done
                done
        done
done
