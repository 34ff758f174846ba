# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced by ci/lab. The User-Mode Linux engine: a kernel that is an
# ordinary process, so it needs neither root nor hardware support.

UML_SOURCE=linux-source-6.12
# What the kernel's host and target are known to do (baselines, what takes them down) is known of this
# version. Where the archive no longer has it, its newest is taken instead, which is told.
UML_VERSION=6.12.117-1~deb12u1
# --newer: the newest of this release instead, whatever that is.
UML_NEWER=forky
UML_TOOLS='gcc make flex bison bc xz tar dpkg-deb apt-get apt-cache'

# Everything that decides what the kernel is like, comments and the version left out:
# a cached kernel stays good until someone deletes it.
uml_key() {
    # shellcheck source=/dev/null
    (. /etc/os-release && echo "$ID $VERSION_ID $(uname -m) ${newer:-$UML_SOURCE}" &&
        { uml_config && cat "$lab_d/uml-patch"; } | grep -v '^#') | sha256sum | cut -c1-12
}

uml_config() {
    cat "$lab_d/uml.config" || return
    [ -z "$instrumented" ] || cat "$lab_d/uml-instrumented.config"
}

# The directory of the cached kernel, of our version or built in its place (--newer: any); fails when there is none.
uml_cached() {
    local dir name
    name=$cache/uml$newer$instrumented-$(uml_key)
    for dir in "$name-$UML_VERSION" "$name"-*; do
        [ -x "$dir/linux" ] || continue
        [ -n "$newer" ] || [ "$dir" = "$name-$UML_VERSION" ] || [ "$(cat "$dir/in-place-of" 2>/dev/null)" = "$UML_VERSION" ] || continue
        echo "$dir"
        return
    done
    return 1
}

# Why a kernel can't be built here; silent when it can.
uml_obstacle() {
    local tool
    [ "$(uname -m)" = x86_64 ] || { echo "no User-Mode Linux for $(uname -m)"; return; }
    for tool in $UML_TOOLS; do
        command -v "$tool" >/dev/null || { echo "$tool is missing: run ci/setup"; return; }
    done
    [ -e /usr/include/libelf.h ] || echo 'libelf-dev is missing: run ci/setup'
}

# uml_fetch DIR: the package of the source.
uml_fetch() {
    fetch_package $UML_SOURCE=$UML_VERSION "$1" && return
    fetch_package $UML_SOURCE "$1" || { say "no package $UML_SOURCE"; return 1; }
    say "$UML_SOURCE $UML_VERSION is not to be had: the newest instead"
    echo $UML_VERSION >"$1/in-place-of"
}

uml_fetch_newer() {
    local package
    fetch_release $UML_NEWER && package=$(fetch_depends linux-source) && [ -n "$package" ] &&
        fetch_download "$package" "$1" && return
    say "out of reach: linux-source of $UML_NEWER"
    return 1
}

# uml_build DIR: builds in DIR, prints the version.
uml_build() {
    local tree=$1/tree obj=$1/obj version
    "uml_fetch${newer//-/_}" "$1" || return
    version=$(dpkg-deb -f "$1"/*.deb Version) || return
    mkdir "$tree" "$obj"
    dpkg-deb --fsys-tarfile "$1"/*.deb |
        tar -x -O -f - "./usr/src/$(dpkg-deb -f "$1"/*.deb Package).tar.xz" |
        tar -x -J -C "$tree" --strip-components=1 || return
    rm "$1"/*.deb
    [ -n "$newer" ] || "$lab_d/uml-patch" "$tree" || return
    uml_config >"$1/config" || return
    uml_make KCONFIG_ALLCONFIG="$1/config" allnoconfig || return
    uml_check_config "$1/config" "$obj/.config" || return
    # The warnings are Debian's business; leaving them out saves a tenth.
    uml_make -j"$(nproc)" KCFLAGS=-w linux || return
    mv "$obj/linux" "$obj/.config" "$1/" || return
    rm -rf "$tree" "$obj"
    echo "$version"
}

# No ccache: whatever changes the configuration changes every file, and filling it
# makes the one build that counts a third slower.
uml_make() { make -s -C "$tree" ARCH=um O="$obj" "$@" >&2; }

# kconfig drops silently what it does not know or what lacks a dependency.
uml_check_config() {
    local lost
    lost=$(grep '^CONFIG_' "$1" | grep -vxFf "$2") || return 0
    say "the kernel does not have: ${lost//$'\n'/ }"
    [ -n "$newer" ] # where names come and go
}

# Sets guest to the command line of the guest. Its memory is a file in TMPDIR.
uml_command() {
    # shellcheck disable=SC2054,SC2206 # commas belong to con0, $append is words
    guest=("$kernel_dir/linux" "mem=${mem}M" root=/dev/root rootfstype=hostfs rootflags=/ ro
        init="$run/uml-init" lab="$run" uml_dir="$run/uml"
        con=null con0=null,fd:1 panic=-1 oops=panic ${instrumented:+kasan_multi_shot} $append)
}
