# SPDX-License-Identifier: BSD-3-Clause
# kernel_host.sh [CONFORM OPTION...]: the suite of hosts against the kernel's nvme-tcp, or over KIND rxe or
# siw its nvme-rdma. What is known of it stands in conformance/baseline/; anything else that fails fails the
# run. For the lab's guest.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/target/tests/lab/lib.sh"
load nvme-"$trtype"
for which in io admin; do
        echo $((2 * ${NVMFSPEC_SPEED:-1})) >/sys/module/nvme_core/parameters/${which}_timeout # seconds; what is overlooked is waited for
done
"$NVMFSPEC" conform --role host -t "$trtype" -a "$addr" --hook "$root/conformance/hooks/nvme-cli.sh" --brief --timeout-scale "${NVMFSPEC_SPEED:-1}" \
        --baseline "${BASELINE:-$root/conformance/baseline/linux-host-$trtype.txt}" "$@"
dmesg_clean
