# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced by ci/lab. The QEMU engine: the distribution's own kernel binary and
# modules, several processors, a full address space (sanitizers work), but emulated
# wherever KVM does not really work.

QEMU_SERIES=6.12
QEMU_TOOLS='qemu-system-x86_64 busybox cpio depmod modprobe xz zstd dpkg-deb apt-get apt-cache'
# What the initramfs needs to reach the host's files.
QEMU_MODULES='virtio_pci 9pnet_virtio 9p overlay'
# Beside the module's source, all that compiling it for exactly this kernel takes.
QEMU_SIW_SOURCE=drivers/infiniband/sw/siw

qemu_key() {
    {
        echo "$QEMU_SERIES $QEMU_MODULES"
        declare -f qemu_build qemu_siw qemu_vmlinux qemu_initrd
        cat "$lab_d/qemu-init"
    } | sha256sum | cut -c1-12
}

qemu_cached() {
    local kernel
    for kernel in "$cache/qemu-$(qemu_key)"-*/vmlinux; do
        [ -e "$kernel" ] && dirname "$kernel" && return
    done
    return 1
}

qemu_obstacle() {
    local tool
    [ "$(uname -m)" = x86_64 ] || { echo "no packaged kernel for $(uname -m) known"; return; }
    for tool in $QEMU_TOOLS; do
        PATH=$PATH:/usr/sbin:/sbin command -v "$tool" >/dev/null ||
            { echo "$tool is missing: run ci/setup"; return; }
    done
}

# --- the guest's kernel -----------------------------------------------------------

# qemu_build DIR: prints the version; leaves vmlinux, initrd and modules in DIR.
qemu_build() {
    local image=$1/image package release PATH=$PATH:/usr/sbin:/sbin
    package=$(qemu_package) || { fetch_private_lists && package=$(qemu_package); } ||
        { say "no package linux-image-$QEMU_SERIES*-amd64"; return 1; }
    release=${package#linux-image-}
    qemu_unpack "$package" "$image" || return
    # Older packages have /lib, newer ones /usr/lib; depmod looks below /lib.
    [ -e "$image/lib" ] || ln -s usr/lib "$image/lib"
    qemu_siw "$1" "$release" || say 'siw could not be built: rxe only'
    depmod -b "$image" "$release" || return
    qemu_vmlinux "$image/boot/vmlinuz-$release" >"$1/vmlinux" || return
    qemu_initrd "$1" "$image" "$release" || return
    rm -rf "$image/boot"
    echo "$release"
}

# The newest kernel of the series, by its own name: depending on the release it is in
# the archive proper, in its updates, or in the backports. Prints the package.
qemu_package() {
    apt-cache "${FETCH_OPTS[@]}" pkgnames "linux-image-$QEMU_SERIES." |
        grep -E -- '^linux-image-[^-]*-amd64$' | sort -rV |
        while read -r package; do
            [ -z "$(fetch_candidate "$package")" ] || { echo "$package"; break; }
        done | grep .
}

qemu_unpack() { # PACKAGE DIR
    mkdir -p "$2" && fetch_package "$1" "$2" && dpkg-deb -x "$2"/*.deb "$2" && rm "$2"/*.deb
}

# The distribution leaves siw out; it is compiled out of the tree, from the source of
# the same version, against the headers of the same version.
qemu_siw() { # DIR RELEASE
    local tree=$1/siw headers=$1/siw/usr/src/linux-headers-$2 package module
    for package in "linux-source-$QEMU_SERIES" "linux-headers-$2" \
        "linux-headers-${2%-*}-common" "linux-kbuild-${2%-*}" linux-compiler-gcc-12-x86; do
        [ -z "$(fetch_candidate "$package")" ] || qemu_unpack "$package" "$tree" || return
    done
    tar -xJf "$tree/usr/src/linux-source-$QEMU_SERIES.tar.xz" -C "$tree" --strip-components=1 \
        "linux-source-$QEMU_SERIES/$QEMU_SIW_SOURCE" || return
    # The headers' makefiles name each other by the place they would be installed in.
    find "$tree/usr/src" -name Makefile -path '*linux-headers*' -maxdepth 2 \
        -exec sed -i "s|/usr/src/|$tree/usr/src/|g" {} +
    ln -sfn "$tree/usr/lib/linux-kbuild-${2%-*}/scripts" "$headers/scripts"
    ln -sfn "$tree/usr/lib/linux-kbuild-${2%-*}/tools" "$headers/tools"
    make -s -C "$headers" M="$tree/$QEMU_SIW_SOURCE" CONFIG_RDMA_SIW=m \
        CONFIG_DEBUG_INFO_BTF_MODULES= modules >&2 || return
    module=$image/lib/modules/$2/updates/siw.ko
    install -D "$tree/$QEMU_SIW_SOURCE/siw.ko" "$module" && strip -g "$module"
    rm -rf "$tree"
}

# The compressed kernel inside a bzImage, unpacked: it starts at once (through PVH)
# instead of decompressing itself under emulation. The boot header says where it is.
qemu_vmlinux() { # BZIMAGE
    local begin length
    begin=$((($(qemu_number 497 1 "$1") + 1) * 512 + $(qemu_number 584 4 "$1")))
    length=$(qemu_number 588 4 "$1")
    tail -c +$((begin + 1)) "$1" | head -c "$length" >"$1.payload"
    # Four bytes with the size follow the stream: complaints about them are expected.
    case $(head -c 2 "$1.payload" | od -An -tx1) in
    ' fd 37') xz -dcq --single-stream "$1.payload" ;;
    ' 28 b5') zstd -dcq "$1.payload" 2>/dev/null ;;
    ' 1f 8b') gzip -dcq "$1.payload" 2>/dev/null ;;
    *) say "$1: unknown compression"; return 1 ;;
    esac
    return 0
}

qemu_number() { od -An -j "$1" -N "$2" -t "u$2" "$3" | tr -d ' '; } # OFFSET SIZE FILE

# busybox, the modules in the order of their dependencies, and the script.
qemu_initrd() { # DIR IMAGE RELEASE
    local tree=$1/initramfs module name
    mkdir -p "$tree"/{bin,dev,proc,sys,lower,upper,new,modules}
    cp "$(command -v busybox)" "$tree/bin/busybox" && cp "$lab_d/qemu-init" "$tree/init" || return
    for module in $QEMU_MODULES; do
        modprobe -d "$2" -S "$3" --show-depends "$module" || return
    done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' >"$1/insmod"
    while read -r module; do
        name=${module##*/}
        name=${name%%.ko*}.ko
        case $module in
        *.xz) xz -dc "$module" ;;
        *.zst) zstd -dcq "$module" ;;
        *) cat "$module" ;;
        esac >"$tree/modules/$name"
        echo "$name" >>"$tree/modules/order"
    done <"$1/insmod"
    (cd "$tree" && find . | cpio --quiet -o -H newc -R 0:0) >"$1/initrd"
    rm -rf "$tree" "$1/insmod"
}

# --- one run ------------------------------------------------------------------------

qemu_command() {
    local accel cpu i
    accel=$(qemu_accelerator)
    # TCG: five-level paging only costs.
    cpu=max,la57=off
    [ "$accel" = kvm ] && cpu=host || accel=tcg,thread=multi
    guest=(qemu-system-x86_64 -machine q35 -accel "$accel" -cpu "$cpu" -smp "$smp" -m "$mem"
        -nodefaults -no-user-config -display none -nic none -no-reboot
        -kernel "$kernel_dir/vmlinux" -initrd "$kernel_dir/initrd"
        -append "$(qemu_append) $append" -serial stdio)
    qemu_share root / readonly=on
    qemu_share lab "$run"
    for i in "${!outs[@]}"; do qemu_share "out$i" "${outs[$i]}"; done
}

qemu_share() { # TAG DIR [OPTION]
    guest+=(-fsdev "local,id=$1,path=${2//,/,,},security_model=none,multidevs=remap${3:+,$3}"
        -device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}

# oops=panic ends the guest at the first oops; brd is as in User-Mode Linux; the rest is for speed
# under emulation.
qemu_append() {
    echo "console=ttyS0 panic=-1 oops=panic lab_modules=$kernel_dir/image/lib/modules" \
        "brd.rd_nr=4 brd.rd_size=65536" \
        "quiet loglevel=5 nokaslr mitigations=off audit=0 apparmor=0 nowatchdog" \
        "no_timer_check tsc=reliable random.trust_cpu=on rcupdate.rcu_expedited=1" \
        "8250.nr_uarts=1"
}

# A /dev/kvm may be there and still not run this kernel (nested and para-virtual
# hosts): one short boot decides, and is remembered for this machine.
qemu_accelerator() {
    local verdict
    [ -w /dev/kvm ] || { echo tcg; return; }
    verdict=$kernel_dir/accelerator-$(cat /proc/version /proc/cpuinfo | grep -v MHz |
        sha256sum | cut -c1-12)
    [ -s "$verdict" ] || if qemu_kvm_works; then echo kvm; else echo tcg; fi >"$verdict"
    cat "$verdict"
}

qemu_kvm_works() {
    timeout -k 1 15 qemu-system-x86_64 -machine q35 -accel kvm -cpu host -m 512 \
        -nodefaults -no-user-config -display none -nic none -no-reboot \
        -kernel "$kernel_dir/vmlinux" -initrd "$kernel_dir/initrd" -serial stdio \
        -append 'console=ttyS0 panic=-1 quiet lab_probe=1' </dev/null 2>&1 |
        grep -q 'lab: this guest runs'
}
