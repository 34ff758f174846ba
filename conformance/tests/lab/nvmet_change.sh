# SPDX-License-Identifier: BSD-3-Clause
# nvmet_change.sh SUBNQN namespaces|discovery|ana|ana-group: conform's --change for the kernel's target: namespace
# 2 of the subsystem, or another subsystem on port 1, comes or goes; ANA group 1 of port 1 is optimized or not;
# namespace 1 is in ANA group 2 or 1. For the lab's guest.
set -euo pipefail
nvmet=/sys/kernel/config/nvmet
namespace=$nvmet/subsystems/$1/namespaces/2
guest=$1.guest

change_namespaces() {
        if [ ! -d "$namespace" ]; then
                mkdir "$namespace"
                echo -n /dev/ram1 >"$namespace/device_path"
        fi
        echo $((1 - $(cat "$namespace/enable"))) >"$namespace/enable"
}

change_discovery() {
        local place=$nvmet/ports/1/subsystems/$guest
        if [ ! -d "$nvmet/subsystems/$guest" ]; then
                mkdir "$nvmet/subsystems/$guest"
                echo 1 >"$nvmet/subsystems/$guest/attr_allow_any_host"
        fi
        if [ -e "$place" ]; then rm "$place"; else ln -s "$nvmet/subsystems/$guest" "$place"; fi
}

other() { # other FILE ONE ANOTHER
        if [ "$(cat "$1")" = "$2" ]; then echo -n "$3" >"$1"; else echo -n "$2" >"$1"; fi
}

change_ana() { other "$nvmet/ports/1/ana_groups/1/ana_state" optimized non-optimized; }

change_ana-group() {
        [ -d "$nvmet/ports/1/ana_groups/2" ] || mkdir "$nvmet/ports/1/ana_groups/2"
        other "$nvmet/subsystems/$1/namespaces/1/ana_grpid" 1 2
}

"change_$2" "$1"
