# SPDX-License-Identifier: BSD-3-Clause
# tls.sh NVMFSPEC ROUNDS SECONDS: 4 KiB random reads by the kernel's host, at the kernel's target (kTLS) and at
# ours, over TLS and plain, by turns in one guest: prints "ours|theirs plain|tls|ktls QUEUE_DEPTH IOPS"
# lines.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../../ci/lab.d/nvmet.sh"
. "$here/../../ci/lab.d/tls.sh"
nvmfspec=$1 rounds=$2 seconds=$3
nqn=nqn.2026-01.io.nvmfspec:bench host=nqn.2026-01.lab:host
work=$(mktemp -d)
declare -A device

connect() { # WHOSE HOW PORT [OPTION...]
        tool nvme connect -t tcp -a 127.0.0.1 -s "$3" -n "$nqn-$1-$2" -q "$host" -i 1 "${@:4}" >&2
        device[$1-$2]=$(nvdev "$nqn-$1-$2")
        # no page is touched for the first time later
        dd if=/dev/zero of="${device[$1-$2]}" bs=1M count=16 oflag=direct status=none
}

ours() { # HOW PORT [OPTION...]
        "$nvmfspec" target -a 127.0.0.1 -s "$2" -n "$nqn-ours-$1" --ns mem:64M "${@:3}" >/dev/null &
}

iops() { # WHOSE HOW QUEUE_DEPTH
        fio --name=bench --filename="${device[$1-$2]}" --rw=randread --bs=4k --direct=1 --size=16M \
                --ioengine=libaio --iodepth="$3" --time_based --runtime="$seconds" \
                --output-format=terse | cut -d';' -f8
}

tlshd_up "$work"
key=$(tls_key 1)
(umask 077 && echo "$key" >"$work/key")
for name in ours-tls ours-ktls theirs-tls; do
        tls_insert "$key" "$host" "$nqn-$name" 0
done
nvmet_tls 127.0.0.1 "$nqn-theirs-tls" /dev/ram0 required
nvmet_up tcp 127.0.0.1 "$nqn-theirs-plain" /dev/ram1 4421 2
ours tls 4422 --tls-key "@$work/key" --tls-required
ours plain 4423
ours ktls 4424 --tls-key "@$work/key" --tls-required --ktls
sleep 1
connect theirs tls 4420 --tls
connect theirs plain 4421
connect ours tls 4422 --tls
connect ours plain 4423
connect ours ktls 4424 --tls
for _ in $(seq "$rounds"); do
        for depth in 1 32; do
                for pair in "theirs plain" "ours plain" "theirs tls" "ours tls" "ours ktls"; do
                        # shellcheck disable=SC2086
                        echo "$pair $depth $(iops $pair $depth)"
                done
        done
done
