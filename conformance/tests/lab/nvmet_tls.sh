# SPDX-License-Identifier: BSD-3-Clause
# nvmet_tls.sh [CONFORM OPTION...]: the suite against the kernel's nvmet-tcp over TLS, in which two hosts have PSKs
# of their own. What is known of it stands in conformance/baseline/nvmet-tcp.txt and nvmet-tls.txt. tlshd needs a
# process and a tenth of a second for each connection, so storms of them do not end in time. For the lab's guest.
set -Eeuo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../.." && pwd)
. "$root/ci/lab.d/nvmet.sh"
. "$root/ci/lab.d/tls.sh"
nqn=nqn.2026-01.lab:kernel host=nqn.2026-01.lab:host
work=$(mktemp -d)

give() { # FILE HOSTNQN: a PSK
        local key
        key=$(tls_key 1)
        (umask 077 && echo "$key" >"$1")
        tls_insert "$key" "$2" "$nqn" 0
        tls_insert "$key" "$2" nqn.2014-08.org.nvmexpress.discovery 0
}

trap 'tls_tell "$work"' ERR
tlshd_up "$work"
give "$work/key" "$host"
give "$work/other" "$host-2"
nvmet_tls 127.0.0.1 "$nqn" /dev/ram0 required
cat "$root"/conformance/baseline/nvmet-{tcp,tls}.txt >"$work/baseline"
"$NVMFSPEC" conform -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" -q "$host" --tls-key "@$work/key" \
        --tls-host "$host-2=@$work/other" --allow-write 1 --brief -j 2 --timeout-scale $((3 * ${NVMFSPEC_SPEED:-1})) \
        --change "bash $root/conformance/tests/lab/nvmet_change.sh $nqn" \
        --exclude tcp/setup/close-storm --exclude tcp/setup/reset-storm --exclude tcp/setup/refusal-storm \
        --exclude tcp/h2cdata/reset-midway \
        --baseline "$work/baseline" "$@"
nvmet_down
dmesg_clean
