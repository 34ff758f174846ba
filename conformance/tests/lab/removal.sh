# SPDX-License-Identifier: BSD-3-Clause
# removal.sh rxe|siw [ROUNDS]: the target's device goes away under its feet, with connections that are idle, that work,
# and that were only asked for; it comes back, and the target serves over it as though nothing had
# happened. The life cycle's family (e), which no single case can play. For a guest whose connection manager
# is told of the removal before user verbs, which wait for it: QEMU's, not User-Mode Linux.
#
# One round, unless said otherwise: in about every other run the second one ends in librdmacm (Debian 12's
# 44.0), whose rdma_create_id() calls itself with its own lock held when the target listens again.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/net.sh"
. "$root/ci/lab.d/nvmet.sh"
device=$1
conform() { "$NVMFSPEC" conform -t rdma -a 10.0.0.2 --allow-write 1 --brief --jobs 4 --timeout-scale "${NVMFSPEC_SPEED:-1}" "$@"; }

wire_up
rdma_up "$device"
timeout 5 bash -c 'echo >/dev/tcp/10.0.0.2/9' 2>/dev/null || true
log=$(mktemp)
"$NVMFSPEC" target -t rdma -a 10.0.0.2 >"$log" 2>&1 &
target=$!
for _ in $(seq 600); do grep -q listening "$log" && break; sleep 0.1; done
grep -q listening "$log" || { cat "$log" >&2; exit 1; }
conform base/identify rdma/accept/answer

for round in $(seq "${2:-1}"); do
        # cases that are cut off fail, or are broken: what counts is what comes after
        conform rdma/in-capsule rdma/sgl rdma/key rdma/transfer rdma/teardown fab/connect >/dev/null 2>&1 &
        running=$!
        sleep "0.$((round * 3))"
        rdma link del "${device}1"
        wait $running || true
        kill -0 $target
        rdma link add "${device}1" type "$device" netdev v1
        rdma_active "${device}1"
        for i in $(seq 20); do
                conform rdma/accept/answer >/dev/null 2>&1 && break
                [ "$i" != 20 ] || { tail -5 "$log"; echo "no service in round $round"; exit 1; }
                sleep 0.5
        done
        conform nvm base/identify rdma/accept/answer rdma/transfer/whole-read
done
kill $target
wait $target
dmesg_clean
