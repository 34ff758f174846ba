# SPDX-License-Identifier: BSD-3-Clause
# nvmet_rdma.sh rxe|siw [CONFORM OPTION...]: the suite against the kernel's nvmet-rdma over soft RDMA. What
# is known of it stands in conformance/baseline/nvmet-rdma.txt (or in BASELINE); anything else that fails
# fails the run. Cases that take the guest down are left out, unless DEADLY is set. For the lab's guest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/net.sh"
. "$root/ci/lab.d/nvmet.sh"
nqn=nqn.2026-01.lab:kernel
device=$1
shift
options=(--allow-write 1 --brief --jobs 4 --timeout-scale "${NVMFSPEC_SPEED:-1}" --baseline
        "${BASELINE:-$root/conformance/baseline/nvmet-rdma.txt}")
# what soft iWARP's own errors end is not on its list
[ "$device" != siw ] || options+=(--baseline-lax)
[ -n "${DEADLY:-}" ] || while read -r id _ where _; do
        case $where in "#" | "$device") options+=(--exclude "$id") ;; esac
done < <(grep '^[a-z]' "$root/conformance/baseline/nvmet-rdma-deadly.txt")

wire_up
rdma_up "$device"
# the first address resolution takes its time
timeout 5 bash -c 'echo >/dev/tcp/10.0.0.2/9' 2>/dev/null || true
nvmet_up rdma 10.0.0.2 "$nqn" /dev/ram0
status=0
"$NVMFSPEC" conform -t rdma -a 10.0.0.2 -s 4420 -n "$nqn" \
        --change "bash $root/conformance/tests/lab/nvmet_change.sh $nqn" "${options[@]}" "$@" || status=$?
nvmet_down
dmesg_clean
exit $status
