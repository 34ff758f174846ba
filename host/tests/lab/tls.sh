# SPDX-License-Identifier: BSD-3-Clause
# tls.sh: our host against the kernel's target over TLS, by each suite and each version of the identity, with keys
# that libnvme derives for the target; where keys differ our host says what it has offered.
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
key_file() { # FILE KEY
        echo "$2" >"$1"
        chmod 600 "$1"
}

# served CIPHER KEY VERSION [-C]: what is written is read back, and is on the target's disk.
served() {
        local cipher=$1 how=printed
        shift
        [ -z "${3-}" ] || how=old
        step "$cipher: identity of version $2, $how"
        tls_forget
        tls_insert "$1" $host "$nqn" "${@:2}"
        key_file "$work/key" "$1"
        set -- --tls-key "@$work/key" --tls-identity "$2" --tls-derivation $how
        head -c 32768 /dev/urandom >"$work/pattern"
        ours write -N 1 --slba 0 --blocks 64 --file "$work/pattern" "$@"
        grep 'Session description' "$work/tlshd.log" | tail -n 1 | grep -q "(TLS1.3).*($cipher)"
        dd if=/dev/ram0 bs=32k count=1 iflag=direct status=none | cmp - "$work/pattern"
        ours verify -N 1 --range 1M --passes 1 -i 1 -g -G "$@"
        ours verify -N 1 --range 1M --passes 1 -i 1 --ktls "$@"
}

# refused PATTERN KEY [OPTION...]: one line says so.
refused() {
        local words=$1 said status=0
        step "refused: $words"
        key_file "$work/other" "$2"
        said=$(ours list --tls-key "@$work/other" "${@:3}" 2>&1) || status=$?
        [ $status = 3 ] && grep -E "$words" <<<"$said" && [ "$(wc -l <<<"$said")" = 1 ] && return
        echo "status $status: $said" >&2
        return 1
}

trap 'tls_tell "$work"' ERR
tlshd_up "$work"
short=$(tls_key 1) long=$(tls_key 2)
nvmet_tls 127.0.0.1 "$nqn" /dev/ram0 required
served AES-128-GCM "$short" 1 -C
served AES-128-GCM "$short" 0 -C
served AES-128-GCM "$short" 1
served AES-128-GCM "$short" 0
refused "we offered NVMe0R01 $host $nqn, derived as RFC 8446 prints it" "$(tls_key 1)"
refused "we offered NVMe0R01 $host $nqn, derived the old way" "$short" --tls-derivation old
refused "we offered NVMe1R01 $host $nqn .*, derived as RFC 8446 prints it" "$short" --tls-identity 1
if ours list >"$work/said" 2>&1; then
        echo "served without TLS" >&2
        exit 1
fi
served AES-256-GCM "$long" 0 -C
served AES-256-GCM "$long" 1 -C
served AES-256-GCM "$long" 1
served AES-256-GCM "$long" 0
refused "we offered NVMe0R02 $host $nqn, derived as RFC 8446 prints it" "$(tls_key 2)"
refused "we offered NVMe0R02 $host $nqn, derived the old way" "$long" --tls-derivation old
nvmet_down
dmesg_clean
