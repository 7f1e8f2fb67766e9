#!/bin/sh
# usage: run-bench.sh BUILD
# Runs every program of BUILD/bench, then times the whole program. Prints
# rates and ratios; nothing passes or fails by time.
set -e
build=$1
for program in "$build"/bench/*; do
    if [ -x "$program" ] && [ -e "tests/bench/${program##*/}.c" ]; then
        echo "== ${program##*/}"
        "$program"
    fi
done
echo '== a wave on one H200, modelled (tests/wave/model.md)'
sh tests/wave/run.sh "$build"
for script in tests/bench/*.sh; do
    [ -e "$script" ] || continue
    echo "== ${script##*/}"
    sh "$script" "$build"
done
