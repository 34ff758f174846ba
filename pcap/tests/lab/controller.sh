# SPDX-License-Identifier: BSD-3-Clause
# controller.sh CAPTURE NQN [rxe|siw]: a captured controller is served once more, to the kernel's own
# host; over TCP, or with whatever it was captured over, over RDMA.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../../..
. "$root/ci/lab.d/nvmet.sh"
capture=$1 nqn=$2 kind=${3-}
trtype=tcp addr=127.0.0.1
work=$(mktemp -d)
step() { echo "-- $*"; }

load nvme-tcp
if [ -n "$kind" ]; then
        . "$root/ci/lab.d/net.sh"
        trtype=rdma addr=10.0.0.2
        wire_up
        rdma_up "$kind"
        load nvme-rdma
fi
"$NVMFSPEC" pcap replay --role controller "$capture" -t "$trtype" -a "$addr" -s 4420 -v >"$work/log" 2>&1 &
pid=$!
for _ in $(seq 600); do
        grep -q listening "$work/log" && break
        sleep 0.1
done
grep -q listening "$work/log"
step discover
nvme discover -t "$trtype" -a "$addr" -s 4420 | tee "$work/disc"
grep -q "subnqn: *$nqn" "$work/disc"
grep -q "traddr: *$addr" "$work/disc"
step connect
nvme connect -t "$trtype" -a "$addr" -s 4420 -n "$nqn" -i 2 -Q 128 --keep-alive-tmo 30
dev=$(nvdev "$nqn")
step read
"$NVMFSPEC" pcap extract "$capture" --kind data --to "$work/image"
for at in 1 2; do # as the capture reads them: 128 KiB each
        dd if="$dev" of="$work/is" bs=128k count=1 skip=$at iflag=direct status=none
        dd if="$work/image" of="$work/was" bs=128k count=1 skip=$at status=none
        cmp "$work/is" "$work/was"
done
step disconnect
nvme disconnect -n "$nqn"
kill "$pid"
wait "$pid" || true
tail -1 "$work/log"
grep -q "Read nsid 1 slba 256 nlb 256 .*captured frame" "$work/log"
dmesg_clean
