# SPDX-License-Identifier: BSD-3-Clause
# srp.sh shared|own [CONFORM OPTION...]: the suite against the kernel's SRP target (ib_srpt, LIO) over rxe, whose channels
# share receives or have their own. What is known of it stands in conformance/baseline/ib_srpt.txt (or in BASELINE);
# anything else that fails fails the run. Cases that take the guest down are left out, unless DEADLY is set. For the lab's
# guest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/net.sh"
. "$root/ci/lab.d/nvmet.sh"
. "$root/ci/lab.d/srpt.sh"
port=5555 receives=$1
shift
options=(--allow-write --brief --jobs 4 --timeout-scale "${NVMFSPEC_SPEED:-1}" --slow-lun 1
        --baseline "${BASELINE:-$root/conformance/baseline/ib_srpt.txt}")
[ -n "${DEADLY:-}" ] || while read -r id _ where _; do
        case $where in "#" | "$receives") options+=(--exclude "$id") ;; esac
done < <(grep '^[a-z]' "$root/conformance/baseline/ib_srpt-deadly.txt")

wire_up
rdma_up rxe
srpt_up $port rxe1
srpt_slow rxe1 500
[ "$receives" = own ] || srpt_srq rxe1 1
status=0
"$NVMFSPEC" conform -t srp -a 10.0.0.2 -s $port --target-id "$(srpt_guid)$(srpt_guid)" "${options[@]}" "$@" || status=$?
dmesg_clean
exit $status
