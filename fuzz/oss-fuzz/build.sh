#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Builds the fuzz targets as OSS-Fuzz and ClusterFuzzLite ask for them: with $CC, $CFLAGS and
# $LIB_FUZZING_ENGINE of the environment, into $OUT, with corpus, dictionary and options beside each.
#
# usage: fuzz/oss-fuzz/build.sh [TARGET...]     all of them unless named
#
# Without that environment: clang, ASan and libFuzzer, into out/oss-fuzz.
set -euo pipefail
cd "$(dirname "$0")/../.."
: "${CC:=clang}" "${CFLAGS:=-O1 -gline-tables-only -fsanitize=address,fuzzer-no-link}"
: "${LIB_FUZZING_ENGINE:=-fsanitize=fuzzer}" "${OUT:=$PWD/out/oss-fuzz}" "${WORK:=$PWD/build-oss-fuzz}"
export CC CFLAGS
[ $# -gt 0 ] || mapfile -t all < <(fuzz/run --list)
targets=("$@" "${all[@]}")

mkdir -p out
exec {lock}> out/oss-fuzz.lock # whoever else builds here waits
flock "$lock"
cmake -S . -B "$WORK" -G Ninja -DCMAKE_BUILD_TYPE=None "-DNVMF_FUZZ_ENGINE=$LIB_FUZZING_ENGINE" > /dev/null {lock}>&-
cmake --build "$WORK" -j "${JOBS:-$(nproc)}" --target "${targets[@]/#/fuzz_}" {lock}>&-
exec {lock}>&-

mkdir -p "$OUT"
for t in "${targets[@]}"; do
        cp "$WORK/fuzz_$t" "$OUT/"
        fuzz/seeds "$t" > /dev/null
        { find "out/corpus/$t" "fuzz/regressions/$t" -type f 2> /dev/null || true; } | sort |
                python3 -c 'import sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED) as z:
    for path in sys.stdin.read().split():
        z.write(path, path.replace("/", "-"))' "$OUT/fuzz_${t}_seed_corpus.zip"
        {
                echo "[libfuzzer]"
                echo "max_len = $(fuzz/run --longest "$t")"
                [ ! -e "fuzz/dict/$t.dict" ] || echo "dict = fuzz_$t.dict"
        } > "$OUT/fuzz_$t.options"
        [ ! -e "fuzz/dict/$t.dict" ] || cp "fuzz/dict/$t.dict" "$OUT/fuzz_$t.dict"
done
