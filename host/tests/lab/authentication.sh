# SPDX-License-Identifier: BSD-3-Clause
# authentication.sh tcp|rdma: our host authenticates itself to the kernel's target, and asks the same
# of it, by each hash function and over small and large DH groups.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lab=$here/../../../ci/lab.d
. "$lab/net.sh"
. "$lab/nvmet.sh"
transport=$1 nqn=nqn.2026-01.lab:kernel host=nqn.2026-01.lab:host
work=$(mktemp -d)
where=(-t "$transport" -a 10.0.0.2 -n "$nqn" -q "$host")
ours() { # ours SUBCOMMAND [OPTION...]
        local sub=$1
        shift
        "$NVMFSPEC" host "$sub" "${where[@]}" "$@"
}
step() { echo "-- $*"; }
refused() { # refused PATTERN OPTION...: one line on stderr has it
        local words=$1 status=0 said
        shift
        said=$(ours list "$@" 2>&1) || status=$?
        said=$(grep -vE "a key on the command line|has keys, and others" <<<"$said" || true)
        case $status:$said in
        3:*"closed the connection instead of a response: the controller may not accept this key")
                [ "$transport" = rdma ] && return ;; # which may overtake the message
        esac
        [ $status = 1 ] && grep -q "authentication.*$words" <<<"$said" &&
                [ "$(wc -l <<<"$said")" = 1 ] && return
        echo "status $status, not 1 with '$words': $said" >&2
        return 1
}

wire_up
[ "$transport" = tcp ] || rdma_up rxe
nvmet_up "$transport" 10.0.0.2 "$nqn" /dev/ram0
key=$(nvme gen-dhchap-key -m 0 -n $host)
nvmet_host "$nqn" "$host" "$key"
hosts=$nvmet/hosts/$host
step one way
ours list -S "$key"
step no key, a wrong one, one who does not prove himself
refused 'no key is given'
refused 'refused by the controller' -S "$(nvme gen-dhchap-key -m 0 -n $host)"
refused 'the controller' -S "$key" -C "$key"
for pair in sha256:null sha256:ffdhe2048 sha384:null sha512:ffdhe8192; do
        hash=${pair%:*} group=${pair#*:}
        step "$hash $group, both ways"
        case $hash in sha256) m=1 ;; sha384) m=2 ;; *) m=3 ;; esac
        nvme gen-dhchap-key -m $m -n $host >"$work/key"
        nvme gen-dhchap-key -m $m -n $nqn >"$work/ctrl"
        cat "$work/key" >"$hosts/dhchap_key"
        cat "$work/ctrl" >"$hosts/dhchap_ctrl_key"
        echo "hmac($hash)" >"$hosts/dhchap_hash"
        echo "$group" >"$hosts/dhchap_dhgroup"
        ours list -S "@$work/key" -C "@$work/ctrl"
        refused 'refused by the controller' -S "@$work/ctrl"
        refused 'the response of the controller is wrong' -S "@$work/key" -C "@$work/key"
done
step I/O queues
ours verify -N 1 --range 4M --passes 1 -i 3 -S "@$work/key" -C "@$work/ctrl"
if [ "$transport" = tcp ]; then
        step a secure channel, which kernels before 6.15 do not know
        refused 'secure channel concatenation mismatch' -S "@$work/key" -C "@$work/ctrl" --concat
fi
dmesg | grep 'with DH-HMAC-CHAP' >/dev/null
nvmet_down
dmesg_clean
