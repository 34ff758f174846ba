# SPDX-License-Identifier: BSD-3-Clause
# srp_host.sh [CONFORM OPTION...]: the suite of initiators against the kernel's (ib_srp), over rxe. For the lab's guest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/net.sh"
. "$root/ci/lab.d/nvmet.sh"

wire_up
rdma_up rxe
load ib_srp
status=0
SRP_DEVICE=rxe0-1 "$NVMFSPEC" conform -t srp --role host -a 10.0.0.2 -s 5555 --brief \
        --hook "bash $root/conformance/hooks/ib_srp.sh" "$@" || status=$?
dmesg_clean
exit $status
