# SPDX-License-Identifier: BSD-3-Clause
# nvmet.sh [CONFORM OPTION...]: the suite against the kernel's nvmet-tcp. What is known of it stands in
# conformance/baseline/nvmet-tcp.txt (or in BASELINE); anything else that fails fails the run. For the lab's guest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/nvmet.sh"
nqn=nqn.2026-01.lab:kernel

nvmet_up tcp 127.0.0.1 "$nqn" /dev/ram0
"$NVMFSPEC" conform -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" --allow-write 1 --brief --timeout-scale "${NVMFSPEC_SPEED:-1}" \
        --change "bash $root/conformance/tests/lab/nvmet_change.sh $nqn" \
        --baseline "${BASELINE:-$root/conformance/baseline/nvmet-tcp.txt}" "$@"
nvmet_down
dmesg_clean
