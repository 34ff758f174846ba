# SPDX-License-Identifier: BSD-3-Clause
# srp_host.sh [CONFORM OPTION...]: the suite of initiators against the kernel's (ib_srp), over rxe. What is known of it stands
# in conformance/baseline/linux-host-srp.txt (or in BASELINE); anything else that fails fails the run. Cases that take the
# guest down are left out, unless DEADLY is set. For the lab's guest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/net.sh"
. "$root/ci/lab.d/nvmet.sh"
options=(--brief --timeout-scale "${NVMFSPEC_SPEED:-1}" --baseline "${BASELINE:-$root/conformance/baseline/linux-host-srp.txt}")
[ -n "${DEADLY:-}" ] || while read -r id _; do
        options+=(--exclude "$id")
done < <(grep '^[a-z]' "$root/conformance/baseline/linux-host-srp-deadly.txt")

wire_up
rdma_up rxe
load ib_srp
# Seconds; what is overlooked is waited for.
echo 1 >/sys/module/ib_srp/parameters/fast_io_fail_tmo
echo 1 >/sys/module/scsi_mod/parameters/inq_timeout
status=0
SRP_DEVICE=rxe0-1 "$NVMFSPEC" conform -t srp --role host -a 10.0.0.2 -s 5555 \
        --hook "bash $root/conformance/hooks/ib_srp.sh" "${options[@]}" "$@" || status=$?
dmesg_clean
exit $status
