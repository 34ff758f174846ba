# SPDX-License-Identifier: BSD-3-Clause
# concat.sh: the kernel's host concatenates a secure channel to our target (Linux 6.15 and later): it authenticates
# itself, by each hash function that has a TLS suite, and comes back over TLS with the PSK of it; then it replaces that.
# Who does not, or has another key, is refused.
. "$(dirname "$0")/lib.sh"
. "$here/../../../ci/lab.d/tls.sh"
host=nqn.2026-01.lab:host

attach() { tool nvme connect -t tcp -a "$addr" -s 4420 -n "$nqn" -q $host "$@" >&2; }

refused() { # refused PATTERN OPTION...: and the kernel, or our log, says so
        step "refused: $1"
        dmesg --clear
        if attach "${@:2}" 2>"$work/said"; then
                echo 'connected' >&2
                return 1
        fi
        cat <(dmesg) "$work/target.log" | grep -E "$1"
}

# replaced: the host authenticates itself again over its secure channel, and resets itself onto the new PSK.
replaced() {
        local ctrl psk
        ctrl=$(dirname /sys/class/nvme/nvme*/tls_mode)
        psk=$(cat "$ctrl/tls_key")
        echo 0 >"$ctrl/tls_configured_key"
        wait_for 20 is_another "$ctrl" "$psk"
}
is_another() { # CONTROLLER PSK
        [ "$(cat "$1/state")" = live ] && [ "$(cat "$1/tls_key")" != "$2" ]
}

set -E
trap 'tls_tell "$work"; tail -n 30 "$work/target.log" >&2' ERR
tlshd_up "$work"
for set in 1:sha256:ffdhe2048:AES-128-GCM 2:sha384:ffdhe3072:AES-256-GCM; do
        IFS=: read -r m hash group cipher <<<"$set"
        key=$(tool nvme gen-dhchap-key -m "$m" -n $host)
        ctrl=$(tool nvme gen-dhchap-key -m "$m" -n "$nqn")
        target_up -n "$nqn" --ns mem:16M --dhchap-key "$key" --dhchap-ctrl-key "$ctrl" --dhchap-hash "$hash" \
                --dhchap-dhgroup "$group" --concat required
        for ways in one both; do
                step "$hash $group, $ways way(s)"
                both=()
                [ $ways = one ] || both=(-C "$ctrl")
                attach -i 2 -S "$key" "${both[@]}" --concat
                dev=$(nvdev "$nqn")
                [ "$(cat /sys/class/nvme/nvme*/tls_mode)" = concat ]
                tail -n 30 "$work/tlshd.log" | grep -c "Session description: (TLS1.3).*($cipher)"
                verify_io "$dev"
                step "another PSK in its place"
                replaced
                verify_io "$dev"
                disconnect >/dev/null
        done
        refused 'secure concatenation is not supported' -S "$key"
        refused 'authentication failed' -S "$ctrl" --concat
        target_down
done
step "without a need for it"
target_up -n "$nqn" --ns mem:16M --dhchap-key "$key" --concat permitted
attach -S "$key"
[ ! -e /sys/class/nvme/nvme*/tls_mode ] # of a host that has no secure channel
nvdev "$nqn"
disconnect >/dev/null
target_down
dmesg_clean
