# SPDX-License-Identifier: BSD-3-Clause
# Shared by the scripts in ci/: say what is done, build a preset, keep the time. Source it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
jobs=$(nproc)
python=/usr/bin/python3 # the distribution's, which has pytest from its packages
lane_started=$SECONDS

say() { printf '\n== %s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
took() { printf '== %s: %d s\n' "$1" $((SECONDS - lane_started)); lane_started=$SECONDS; }

# build PRESET: configure once, then only what changed; quiet unless it fails.
build() {
        local dir=build
        [ "$1" = release ] || dir=build-$1
        say "building ($1) in $dir/"
        [ -f "$dir/build.ninja" ] || cmake --preset "$1" >"$root/.cmake-$1.log" 2>&1 ||
                { cat "$root/.cmake-$1.log"; die "configuring $1 failed"; }
        rm -f "$root/.cmake-$1.log"
        cmake --build --preset "$1" -j "$jobs"
}
