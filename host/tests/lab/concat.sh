# SPDX-License-Identifier: BSD-3-Clause
# concat.sh: our host concatenates a secure channel to the kernel's target (Linux 6.15 and later), by each hash function
# that has a TLS suite; keys that differ are refused.
set -Eeuo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/nvmet.sh"
. "$lab/tls.sh"
nqn=nqn.2026-01.lab:kernel host=nqn.2026-01.lab:host
work=$(mktemp -d)
step() { echo "-- $*"; }
ours() { # ours SUBCOMMAND [OPTION...]
        "$NVMFSPEC" host "$1" -t tcp -a 127.0.0.1 -s 4420 -n "$nqn" -q $host "${@:2}"
}
refused() { # refused PATTERN [OPTION...]
        local said status=0
        step "refused: $1"
        said=$(ours list --concat "${@:2}" 2>&1) || status=$?
        [ $status != 0 ] && grep -E "$1" <<<"$said" && return
        echo "status $status: $said" >&2
        return 1
}

trap 'tls_tell "$work"' ERR
tlshd_up "$work"
nvmet_tls 127.0.0.1 "$nqn" /dev/ram0 'not required'
tool nvme gen-dhchap-key -m 1 -n $host >"$work/key"
nvmet_host "$nqn" $host "$(cat "$work/key")"
for set in 1:sha256:ffdhe2048:AES-128-GCM 2:sha384:ffdhe3072:AES-256-GCM; do
        IFS=: read -r m hash group cipher <<<"$set"
        tool nvme gen-dhchap-key -m "$m" -n $host >"$work/key"
        tool nvme gen-dhchap-key -m "$m" -n $nqn >"$work/ctrl"
        chmod 600 "$work/key" "$work/ctrl"
        cat "$work/key" >"$nvmet/hosts/$host/dhchap_key"
        cat "$work/ctrl" >"$nvmet/hosts/$host/dhchap_ctrl_key"
        echo "hmac($hash)" >"$nvmet/hosts/$host/dhchap_hash"
        echo "$group" >"$nvmet/hosts/$host/dhchap_dhgroup"
        step "$hash $group"
        ours verify -N 1 --range 4M --passes 1 -i 3 -S "@$work/key" --concat
        tail -n 30 "$work/tlshd.log" | grep -c "Session description: (TLS1.3).*($cipher)"
        step "$hash $group, both ways"
        if ! ours list -S "@$work/key" -C "@$work/ctrl" --concat; then
                # By AUTH_Success2 nvmet has freed the challenges that the PSK is made of (seen with 7.2).
                dmesg | grep 'nvmet_auth_insert_psk: .* failed to generate PSK, error -22'
        fi
        refused 'refused by the controller|may not accept this key' -S "@$work/ctrl"
        refused 'the response of the controller is wrong' -S "@$work/key" -C "@$work/key"
done
nvmet_down
dmesg_clean
