# SPDX-License-Identifier: BSD-3-Clause
# nvmet_auth.sh HASH DHGROUP [CONFORM OPTION...]: the suite against the kernel's nvmet-tcp, which demands
# authentication, mutual. HASH as hmac(sha256), DHGROUP as null or ffdhe2048. For the lab's guest.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/nvmet.sh"
nqn=nqn.2026-01.lab:kernel host=nqn.2026-01.lab:host
key=$(nvme gen-dhchap-key -m 1 -n "$host")
ctrl_key=$(nvme gen-dhchap-key -m 0 -n "$nqn")

nvmet_up tcp 127.0.0.1 "$nqn" /dev/ram0
nvmet_host "$nqn" "$host" "$key" "$ctrl_key" "$1" "$2"
shift 2
status=0
"$NVMFSPEC" conform -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" -q "$host" -S "$key" -C "$ctrl_key" \
        --allow-write 1 --brief --timeout-scale "${NVMFSPEC_SPEED:-1}" \
        --baseline "${BASELINE:-$root/conformance/baseline/nvmet-tcp.txt}" "$@" || status=$?
nvmet_down
dmesg_clean
exit $status
