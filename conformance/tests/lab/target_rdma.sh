# SPDX-License-Identifier: BSD-3-Clause
# target_rdma.sh rxe|siw [CONFORM OPTION...]: the suite against the reference target over soft RDMA. TARGET
# has more options for it. For the lab's guest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/net.sh"
. "$root/ci/lab.d/nvmet.sh"
device=$1
shift

wire_up
rdma_up "$device"
# the first address resolution takes its time
timeout 5 bash -c 'echo >/dev/tcp/10.0.0.2/9' 2>/dev/null || true
log=$(mktemp)
# shellcheck disable=SC2086
"$NVMFSPEC" target --profile strict -t rdma -a 10.0.0.2 --quiet ${TARGET:-} >"$log" &
target=$!
for _ in $(seq 600); do grep -q listening "$log" && break; sleep 0.1; done
grep -q listening "$log" || { cat "$log" >&2; exit 1; }
baseline=()
[ "$device" != siw ] || baseline=(--baseline "$root/conformance/baseline/siw.txt")
status=0
"$NVMFSPEC" conform -t rdma -a 10.0.0.2 --allow-write 1 --brief --jobs 4 --timeout-scale "${NVMFSPEC_SPEED:-1}" \
        "${baseline[@]}" "$@" || status=$?
kill $target
wait $target || status=$?
exit $status
