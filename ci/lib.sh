# SPDX-License-Identifier: BSD-3-Clause
# Shared by the scripts in ci/: say what is done, build a preset. Source it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=$(nproc)
python=/usr/bin/python3 # the distribution's, which has pytest from its packages
# What one checkout has compiled serves the next one, too.
export CCACHE_BASEDIR=$root CCACHE_NOHASHDIR=1
# Nor does each of pytest's workers rewrite all asserts: that is three quarters of what it takes to find the tests.
export PYTHONPYCACHEPREFIX=$root/out/pycache
unset PYTHONDONTWRITEBYTECODE

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# build PRESET [PROGRAM...]: configures once, and again when presets have changed, then builds what has
# changed; quiet unless it fails. Whoever else wants the same preset waits.
build() {
        local dir=build lock target=${2:+--target}
        [ "$1" = release ] || dir=build-$1
        say "building ($1) in $dir/"
        mkdir -p out
        exec {lock}>"out/$dir.lock"
        flock "$lock"
        if ! [ -f "$dir/build.ninja" ] || ! cmp -s CMakePresets.json "$dir/presets"; then
                cmake --preset "$1" >"out/$dir.log" 2>&1 || { cat "out/$dir.log"; die "configuring $1 failed"; }
                cp CMakePresets.json "$dir/presets"
        fi
        cmake --build --preset "$1" -j "$jobs" $target "${@:2}" {lock}>&-
        exec {lock}>&-
}
