# SPDX-License-Identifier: BSD-3-Clause
# Shared by the scripts in ci/: say what is done, build a preset. Source it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=$(nproc)
python=/usr/bin/python3 # the distribution's, which has pytest from its packages

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# build PRESET [PROGRAM...]: configures once, then only what changed; quiet unless it fails. Whoever
# else wants the same preset waits.
build() {
        local dir=build lock target=${2:+--target}
        [ "$1" = release ] || dir=build-$1
        say "building ($1) in $dir/"
        mkdir -p out
        exec {lock}>"out/$dir.lock"
        flock "$lock"
        [ -f "$dir/build.ninja" ] || cmake --preset "$1" >"out/$dir.log" 2>&1 ||
                { cat "out/$dir.log"; die "configuring $1 failed"; }
        cmake --build --preset "$1" -j "$jobs" $target "${@:2}" {lock}>&-
        exec {lock}>&-
}
