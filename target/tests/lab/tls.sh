# SPDX-License-Identifier: BSD-3-Clause
# tls.sh: the kernel's host connects to our target over TLS by each suite and each version of the identity, with
# keys that libnvme derives; where keys differ it is refused, and our log says how they do.
. "$(dirname "$0")/lib.sh"
. "$here/../../../ci/lab.d/tls.sh"
host=nqn.2026-01.lab:host
streams=0 # that the kernel has sent by TLS

attach() { tool nvme connect -t tcp -a "$addr" -s 4420 -n "$nqn" -q $host "$@" >&2; }

# served CIPHER KEY VERSION [-C]: the host connects with this key and verifies what it writes.
served() {
        local cipher=$1 dev
        shift
        step "$cipher, identity of version $2 ${3-}"
        tls_forget
        tls_insert "$1" $host "$nqn" "${@:2}"
        attach --tls
        dev=$(nvdev "$nqn")
        tail -n 9 "$work/tlshd.log" | grep -c "Session description: (TLS1.3).*($cipher)"
        fio --name=verify --filename="$dev" --allow_file_create=0 --rw=randwrite --bsrange=4k-128k --size=1M --direct=1 \
                --ioengine=libaio --iodepth=8 --verify=crc32c --do_verify=1 --verify_fatal=1 \
                --randseed=7 --output-format=terse >/dev/null
        before=$streams
        streams=$(awk '$1 == "TlsTxSw" { print $2 }' /proc/net/tls_stat)
        disconnect >/dev/null
}

# refused PATTERN [KEY VERSION [-C]]: without a key it connects without TLS.
refused() {
        step "refused: $1"
        tls_forget
        [ $# = 1 ] || tls_insert "$2" $host "$nqn" "${@:3}"
        if attach ${2+--tls} 2>"$work/said"; then
                echo 'connected' >&2
                return 1
        fi
        # A log line may come after the end of the connection.
        wait_for 20 grep -E "qid 0\): TLS: $1" "$work/target.log" || { cat "$work/target.log"; return 1; }
}

# offer KEY OPTION...: our target has it.
offer() {
        echo "$1" >"$work/key"
        chmod 600 "$work/key"
        target_up -n "$nqn" --ns mem:16M --tls-key "@$work/key" --tls-required "${@:2}"
}

set -E
trap 'tls_tell "$work"' ERR
tlshd_up "$work"
short=$(tls_key 1) long=$(tls_key 2)
offer "$short"
served AES-128-GCM "$short" 0
served AES-128-GCM "$short" 1
served AES-128-GCM "$short" 1 -C
served AES-128-GCM "$short" 0
one_end=$((streams - before))
other=$(tls_key 1)
refused "binder does not verify: the host's key of NVMe0R01 $host $nqn is not ours, derived either way" "$other" 0
refused 'binder does not verify: .* derived the old way, ours as RFC 8446 prints it' "$short" 0 -C
refused "no key for the identity NVMe1R01 $host $nqn .*: its digest is not of our key" "$other" 1
refused 'the peer does not begin with TLS'
target_down
offer "$long"
served AES-256-GCM "$long" 0
served AES-256-GCM "$long" 1
served AES-256-GCM "$long" 1 -C
other=$(tls_key 2)
refused "binder does not verify: the host's key of NVMe0R02 $host $nqn is not ours, derived either way" "$other" 0
refused 'binder does not verify: .* derived the old way, ours as RFC 8446 prints it' "$long" 0 -C
target_down
offer "$long" --ktls
served AES-256-GCM "$long" 0
target_down
offer "$short" --ktls
served AES-128-GCM "$short" 0
target_down
step "the kernel has both ends: $one_end streams with one, $((streams - before)) with two"
[ $((streams - before)) = $((2 * one_end)) ]
offer "$long" --tls-derivation old
served AES-256-GCM "$long" 0 -C
refused 'binder does not verify: .* derived as RFC 8446 prints it, ours the old way' "$long" 0
target_down
dmesg_clean
