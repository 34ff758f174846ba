# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced in the guest. One wire with two ends in one network namespace:
# v0 is 10.0.0.1 (for the host side), v1 is 10.0.0.2 (for the target side).
#
# One namespace, because the kernel's RDMA host lives in the initial one only. A
# wire, because soft RDMA does not work on lo, and because between two addresses
# of one machine frames would be short-cut: no capture would see them and netem
# would not touch them. So the routing below sends what is for 10.0.0.2 out of v0
# and lets only what arrived on a wire be local.
. "$(dirname "${BASH_SOURCE[0]}")/modules.sh"

# wire_up [MTU]
wire_up() {
    load veth
    ip link add v0 type veth peer name v1
    ipv4_setting all rp_filter 0
    ipv4_setting default rp_filter 0
    ipv4_setting all arp_ignore 1
    wire_end v0 10.0.0.1 "${1:-1500}"
    wire_end v1 10.0.0.2 "${1:-1500}"
    ip rule add pref 1 iif v0 lookup local
    ip rule add pref 1 iif v1 lookup local
    ip rule add pref 2 to 10.0.0.0/24 lookup 100
    ip rule add pref 3 lookup local
    ip rule del pref 0
    wire_routes
    [ -z "${CAPTURE-}" ] || capture_wire "$CAPTURE"
}

wire_routes() {
    ip route replace 10.0.0.2/32 dev v0 src 10.0.0.1 table 100
    ip route replace 10.0.0.1/32 dev v1 src 10.0.0.2 table 100
}

# wire_cut DEVICE SECONDS: the link of that end is down for so long; the other end has no carrier.
wire_cut() {
    ip link set "$1" down
    sleep "$2"
    ip link set "$1" up
    wire_routes # the kernel has dropped those of this end
}

# capture_wire FILE [DEVICE]: every frame on the wire from here on. By itself with CAPTURE=FILE in the
# environment; to be kept, FILE lies below a folder of ci/lab --out.
capture_wire() {
    local i said
    said=$(mktemp)
    tcpdump -i "${2:-v0}" -s 0 -B 65536 -U -Z root -w "$1" 2>"$said" &
    for i in $(seq 300); do
        grep -q 'listening on' "$said" && return
        sleep 0.1
    done
    cat "$said" >&2
    return 1
}

# capture_end PID FILE: ends tcpdump when it has written all that went by: a guest may leave it seconds behind.
capture_end() {
    local size=0 before=-1
    while [ "$size" != "$before" ]; do
        before=$size
        sleep 2
        size=$(stat -c %s "$2")
    done
    kill "$1"
    wait "$1" || true
}

wire_end() { # DEVICE ADDRESS MTU
    ipv4_setting "$1" rp_filter 0
    ipv4_setting "$1" accept_local 1
    ip addr add "$2/24" dev "$1"
    ip link set "$1" up mtu "$3"
}

ipv4_setting() { echo "$3" >"/proc/sys/net/ipv4/conf/$1/$2"; }

wire_down() {
    ip rule add pref 0 lookup local
    for pref in 1 1 2 3; do ip rule del pref $pref; done
    ip link del v0
}

# rdma_up rxe|siw: RDMA devices ${1}0 and ${1}1 on the two ends. With rxe, GID
# index 1 is the RoCEv2 one for IPv4.
rdma_up() {
    case $1 in
    rxe) load rdma_rxe ib_uverbs rdma_ucm ;;
    siw) load siw ib_uverbs rdma_ucm ;;
    *) echo "rdma_up: rxe or siw, not '$1'" >&2; return 1 ;;
    esac
    rdma link add "${1}0" type "$1" netdev v0 && rdma_active "${1}0" &&
        rdma link add "${1}1" type "$1" netdev v1 && rdma_active "${1}1"
}

rdma_active() { # DEVICE
    local i
    for i in $(seq 600); do
        rdma link show "$1/1" | grep -w 'state ACTIVE' >/dev/null && return
        sleep 0.1
    done
    echo "rdma_up: $1 did not become active" >&2
    return 1
}

rdma_down() { # rxe|siw
    rdma link del "${1}0"
    rdma link del "${1}1"
}

# resources: what the RDMA devices hold, by kind; one line. The kernel's targets keep completion queues in a pool: not
# those of the device at v1.
resources() { rdma resource show | sed -E 's/^[0-9]+: //; /^[a-z]+1:/s/ cq [0-9]+//' | tr '\n' ';'; }

# steady COMMAND...: prints what the command prints once that has been the same for three seconds, or after a minute.
steady() {
    local last='' now same=0
    for _ in $(seq 60); do
        now=$("$@")
        if [ "$now" = "$last" ]; then same=$((same + 1)); else same=0; fi
        [ "$same" -lt 3 ] || break
        last=$now
        sleep 1
    done
    echo "$now"
}

# resources_back_to RESOURCES: within a minute. The kernel's targets let go of a queue pair a little after its host has.
resources_back_to() {
    local i
    for i in $(seq 600); do
        [ "$(resources)" = "$1" ] && return
        sleep 0.1
    done
    echo "resources: now $(resources)" >&2
    echo "       before $1" >&2
    return 1
}
