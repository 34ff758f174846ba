# SPDX-License-Identifier: BSD-3-Clause
# nvmet_concat.sh [CONFORM OPTION...]: the suite against the kernel's nvmet-tcp where hosts concatenate a secure channel
# (Linux 6.15 and later). For the lab's guest.
set -Eeuo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/nvmet.sh"
. "$root/ci/lab.d/tls.sh"
nqn=nqn.2026-01.lab:kernel host=nqn.2026-01.lab:host
work=$(mktemp -d)

trap 'tls_tell "$work"' ERR
tlshd_up "$work"
key=$(tool nvme gen-dhchap-key -m 1 -n "$host")
ctrl_key=$(tool nvme gen-dhchap-key -m 1 -n "$nqn")
nvmet_tls 127.0.0.1 "$nqn" /dev/ram0 'not required'
nvmet_host "$nqn" "$host" "$key" "$ctrl_key" 'hmac(sha256)' ffdhe2048
"$NVMFSPEC" conform -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" -q "$host" -S "$key" -C "$ctrl_key" \
        --allow-write 1 --brief --timeout-scale $((3 * ${NVMFSPEC_SPEED:-1})) --baseline "${BASELINE:-$root/conformance/baseline/nvmet-2.1.txt}" "$@"
nvmet_down
dmesg_clean
