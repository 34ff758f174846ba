# SPDX-License-Identifier: BSD-3-Clause
# authentication.sh: replays to the kernel's nvmet-tcp, which asks for authentication; one of the
# captures has authentication with other keys in it, the other none.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$here/../../..
. "$root/ci/lab.d/nvmet.sh"
nqn=nqn.2026-01.lab:kernel host=nqn.2026-01.lab:host
key=$(nvme gen-dhchap-key -m 1 -n $host)
ctrl_key=$(nvme gen-dhchap-key -m 2 -n $nqn)
where=(-t tcp -a 127.0.0.1 -n "$nqn" -q "$host" -v --allow-write)
auth=$here/../captures/nvme-tcp-auth-6.12.pcap
step() { echo "-- $*"; }

replay() { # replay CAPTURE [OPTION...]
        local out
        out=$("$NVMFSPEC" pcap replay "${where[@]}" "$@") || { echo "$out"; return 1; }
        grep -E ' 0 DIFFERENT, 0 skipped$' <<<"$out" || { echo "$out"; return 1; }
}
different() { # different PATTERN CAPTURE [OPTION...]: exit code 1, and a line says so
        local out pattern=$1 code=0
        shift
        out=$("$NVMFSPEC" pcap replay "${where[@]}" "$@") || code=$?
        [ $code = 1 ] && grep -E "^DIFFERENT .* Connect .*$pattern" <<<"$out" || { echo "$code: $out"; return 1; }
}

nvmet_up tcp 127.0.0.1 "$nqn" /dev/ram0
nvmet_host "$nqn" "$host" "$key" "$ctrl_key" 'hmac(sha384)' ffdhe2048
step "a capture with authentication"
replay "$auth" -S "$key" -C "$ctrl_key"
replay "$auth" -S "$key"
step "a capture without"
replay "$root/pdu/io/tests/captures/nvme-tcp-6.12.pcap" -S "$key" -C "$ctrl_key"
step "no key, and wrong ones"
different 'no key is given' "$auth"
different 'refused by the controller: authentication failed' "$auth" -S "$ctrl_key"
different 'the response of the controller is wrong' "$auth" -S "$key" -C "$key"
nvmet_down
dmesg_clean
