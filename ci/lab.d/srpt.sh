# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced in the guest, after net.sh: the kernel's SRP target.

# srpt_up PORT DEVICE [MB]: ib_srpt with a disk in memory as LUN 0 (32 MB), through RDMA CM on that port. Initiators on
# either end of the wire may log in: it knows those of its own machine by its own address.
srpt_up() {
    local lio=/sys/kernel/config/target tpg initiator
    load ib_srpt target_core_mod
    mkdir -p $lio/core/rd_mcp_1/disk $lio/srpt
    echo rd_pages=$((${3:-32} * 256)) >$lio/core/rd_mcp_1/disk/control
    echo 1 >$lio/core/rd_mcp_1/disk/enable
    tpg=$(srpt_tpg "$2")
    mkdir -p "$tpg/lun/lun_0"
    ln -s $lio/core/rd_mcp_1/disk "$tpg/lun/lun_0/disk"
    for initiator in 10.0.0.1 10.0.0.2; do
        mkdir -p "$tpg/acls/$initiator/lun_0"
        ln -s "$tpg/lun/lun_0" "$tpg/acls/$initiator/lun_0/disk"
    done
    echo "$1" >$lio/srpt/discovery_auth/rdma_cm_port
    echo 1 >"$tpg/enable"
}

# srpt_slow DEVICE MS: once it is up, a disk of 8 MB as LUN 1, whose READs take so long.
srpt_slow() {
    local tpg store=/sys/kernel/config/target/core/iblock_1/slow acl
    tpg=$(srpt_tpg "$1")
    load brd dm-delay target_core_iblock
    DM_DISABLE_UDEV=1 dmsetup create slow --table "0 16384 delay /dev/ram1 0 $2 /dev/ram1 0 0"
    mkdir -p $store "$tpg/lun/lun_1"
    echo "udev_path=/dev/$(dmsetup info -c --noheadings -o blkdevname slow)" >$store/control
    echo 1 >$store/enable
    ln -s $store "$tpg/lun/lun_1/disk"
    for acl in "$tpg"/acls/*; do
        mkdir -p "$acl/lun_1"
        ln -s "$tpg/lun/lun_1" "$acl/lun_1/disk"
    done
}

# srpt_srq DEVICE 0|1: whether its channels share receives; all are logged out. By default each has its own, and only then is
# immediate data granted. What is flushed as a channel with its own ends may complete when that is gone: where many come
# and go, share (conformance/baseline/ib_srpt-deadly.txt).
srpt_srq() { echo "$2" >"$(srpt_tpg "$1")/attrib/use_srq"; }

srpt_tpg() { # DEVICE: its target port group
    local guid
    guid=$(cat "/sys/class/infiniband/$1/node_guid")
    echo "/sys/kernel/config/target/srpt/$guid/$guid"
}

# srpt_guid: each half of its target port identifier, 16 hexadecimal digits.
srpt_guid() { printf %016x $(($(cat /sys/module/ib_srpt/parameters/srpt_service_guid))); }
