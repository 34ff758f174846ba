# SPDX-License-Identifier: BSD-3-Clause
# authentication.sh: the kernel's host authenticates itself to our target, and asks the same of it, by
# each hash function, over a small and a large DH group.
. "$(dirname "$0")/lib.sh"
host=nqn.2026-01.lab:host

refused() { # refused OPTION...
        if nvme connect -t "$trtype" -a "$addr" -s 4420 -n "$nqn" -q $host "$@" 2>"$work/said"; then
                echo "connected with: $*" >&2
                return 1
        fi
        cat "$work/said"
}

for pair in sha256:null sha256:ffdhe2048 sha384:null sha512:ffdhe8192; do
        hash=${pair%:*} group=${pair#*:}
        step "$hash $group"
        case $hash in sha256) m=1 ;; sha384) m=2 ;; *) m=3 ;; esac
        key=$(nvme gen-dhchap-key -m $m -n $host)
        ctrl=$(nvme gen-dhchap-key -m $m -n $nqn)
        target_up -n "$nqn" --ns mem:16M --dhchap-key "$key" --dhchap-ctrl-key "$ctrl" \
                --dhchap-hash $hash --dhchap-dhgroup "$group"
        dev=$(connect -q $host -i 2 -S "$key" -C "$ctrl")
        dmesg | tail -n 20 | grep "qid 0: authenticated with hash hmac($hash) dhgroup $group" >/dev/null
        dmesg | tail -n 20 | grep "qid 0: controller authenticated" >/dev/null
        [ "$group" = null ] || verify_io "$dev"
        disconnect >/dev/null
        if [ $hash = sha384 ]; then
                refused -S "$ctrl"
                refused -S "$key" -C "$key"
                refused
        fi
        target_down
done
dmesg_clean
