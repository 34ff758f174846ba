# SPDX-License-Identifier: BSD-3-Clause
#
# To be sourced. Gets packages from the distribution's archive without installing
# them and without changing the machine's package sources.

# fetch_candidate PACKAGE[=VERSION]: the version apt would take; empty when it knows none.
fetch_candidate() {
    LC_ALL=C apt-cache "${FETCH_OPTS[@]}" --no-all-versions show "$1" 2>/dev/null |
        sed -n 's/^Version: *//p'
}

# fetch_package PACKAGE[=VERSION] DIR: puts the .deb of that or the newest version into DIR. The
# machine's own lists first; failing that (release too old for the package, or
# lists never fetched or stale) private ones that include the backports.
FETCH_OPTS=()
fetch_package() {
    if [ -n "$(fetch_candidate "$1")" ] && fetch_download "$1" "$2"; then
        return 0
    fi
    fetch_private_lists || return
    fetch_download "$1" "$2"
}

fetch_download() {
    # Root's apt would hand the download to a user who may not write to DIR.
    (cd "$2" && apt-get -qq "${FETCH_OPTS[@]}" -o APT::Sandbox::User=root \
        download "$1" >&2)
}

# fetch_private_lists: FETCH_OPTS that make apt use lists of our own. The mirrors
# are those of the machine's configuration, so nothing names a host here.
fetch_private_lists() {
    fetch_lists < <(fetch_suites "$(fetch_release_name)" | sort -u)
}

fetch_release_name() {
    # shellcheck source=/dev/null
    (. /etc/os-release && echo "${VERSION_CODENAME-}")
}

# fetch_lists: the same of the "MIRROR SUITE" lines on stdin.
fetch_lists() {
    local dir=$FETCH_DIR/apt keyring='' k
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial"
    for k in /usr/share/keyrings/{debian,ubuntu}-archive-keyring.gpg; do
        [ ! -e "$k" ] || keyring=" signed-by=$k"
    done
    sed "s|^|deb [arch=$(dpkg --print-architecture)$keyring] |; s|$| main|" >"$dir/sources"
    FETCH_OPTS=(-o Dir::Etc::SourceList="$dir/sources" -o Dir::Etc::SourceParts=/dev/null
        -o Dir::State::Lists="$dir/lists" -o Dir::Cache="$dir/cache")
    apt-get -qq "${FETCH_OPTS[@]}" -o APT::Sandbox::User=root update >&2
}

# fetch_release RELEASE: the lists of another release of the distribution.
fetch_release() {
    fetch_lists < <(fetch_suites "$(fetch_release_name)" |
        sed -n "s/ $(fetch_release_name)$/ $1/p" | sort -u)
}

# fetch_depends PACKAGE: the first package that it depends on.
fetch_depends() {
    LC_ALL=C apt-cache "${FETCH_OPTS[@]}" depends "$1" 2>/dev/null | sed -n 's/^ *Depends: //p' | head -n 1
}

# fetch_foreign RELEASE PACKAGE...: unpacks packages of another release of the distribution, with all that
# they depend on down to the C library, below $FETCH_DIR/root. Prints the first one's version.
fetch_foreign() {
    local dir=$FETCH_DIR/apt package
    fetch_release "$1" || return
    shift
    # As if nothing were installed.
    FETCH_OPTS+=(-o Dir::State::status=/dev/null -o APT::Sandbox::User=root)
    apt-get -qq -y "${FETCH_OPTS[@]}" --no-install-recommends --download-only install "$@" >&2 || return
    mkdir -p "$FETCH_DIR/root"
    for package in "$dir"/cache/archives/*.deb; do
        dpkg -x "$package" "$FETCH_DIR/root" || return
    done
    fetch_candidate "$1"
}

# "MIRROR SUITE" of the release, its security updates and its backports.
fetch_suites() {
    local uri suite
    apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Created-By: Packages' |
        while read -r uri suite; do
            case $suite in
            "$1") printf '%s\n' "$uri $1" "$uri $1-backports" ;;
            "$1-security" | "$1-updates") echo "$uri $suite" ;;
            esac
        done
}
