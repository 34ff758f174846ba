# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced by ci/lab. Programs of a newer release for the guest, with libraries of their own (tls.sh runs
# them): tlshd, which shakes hands of TLS for the kernel, and the nvme and keyctl that give it keys. Releases
# before this one have no tlshd, or one that knows no SHA-384.

TOOLS_RELEASE=forky
TOOLS_PACKAGES='ktls-utils nvme-cli keyutils'

tools_key() {
    { echo "$TOOLS_RELEASE $TOOLS_PACKAGES" && cat "$lab_d/tlshd_shim.c"; } | sha256sum | cut -c1-12
}

tools_cached() {
    local program
    for program in "$cache/tools-$(tools_key)"-*/bin/tlshd; do
        [ -x "$program" ] && (cd "${program%/*}/.." && pwd) && return
    done
    return 1
}

# Sets tools_dir; gets them when there are none in the cache.
tools_prepare() {
    local lock
    tools_dir=$(tools_cached) && return
    mkdir -p "$cache" || exit 126
    exec {lock}>"$cache/tools.lock"
    flock "$lock"
    tools_dir=$(tools_cached) || tools_build || die "no tools, see $cache/tools.log: $(tail -n 1 "$cache/tools.log")"
    exec {lock}>&-
}

tools_build() {
    local new=$cache/tools.new version
    rm -rf "$new"
    mkdir "$new" || return
    FETCH_DIR=$new
    say "getting $TOOLS_PACKAGES of $TOOLS_RELEASE for the guest, once per machine"
    version=$(tools_get "$new" 2>"$cache/tools.log" {lock}>&-) || { rm -rf "$new"; return 1; }
    tools_dir=$cache/tools-$(tools_key)-${version//[^A-Za-z0-9.~+-]/_}
    rm -rf "$tools_dir"
    mv "$new" "$tools_dir"
}

# tools_get DIR: leaves bin, lib and the shim in it; prints the version of ktls-utils.
tools_get() {
    local root=$1/root program
    # shellcheck disable=SC2086 # a list of names
    fetch_foreign $TOOLS_RELEASE $TOOLS_PACKAGES || { say "out of reach: packages of $TOOLS_RELEASE"; return 1; }
    mkdir "$1/bin" "$1/lib"
    for program in tlshd nvme keyctl; do
        mv "$(find "$root" -name $program -type f -path '*bin/*')" "$1/bin/" || return
    done
    mv "$root/usr/lib/$(uname -m)-linux-gnu"/*.so* "$1/lib/" || return
    cc -D_GNU_SOURCE -shared -fPIC -O2 -o "$1/tlshd_shim.so" "$lab_d/tlshd_shim.c" >&2 || return
    rm -rf "$root" "$1/apt"
}
