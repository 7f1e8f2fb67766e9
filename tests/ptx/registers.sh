#!/bin/sh
# usage: registers.sh NVCC ARCH       (from the top of the tree)
# Prints the registers of a thread, as ptxas gives them, by kernel: a name as
# tests/ptx/count.cpp writes it, a tab, the number.
nvcc=$1 arch=$2
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck disable=SC2016
for f in cuda/*.cu; do
    case $f in */nccl* | */module.cu | */device.cu) ;; *) echo "$f" ;; esac
done | xargs -P 2 -I '{}' sh -c '
    "$0" -std=c++17 -O3 -arch="sm_$1" -I. -Isrc -Icuda -cubin -Xptxas -v \
        -diag-suppress 20012 -o "$2/$(basename "$3").cubin" "$3" \
        2>"$2/$(basename "$3").said"' "$nvcc" "$arch" "$dir" '{}'
cat "$dir"/*.said | awk '/Compiling entry function/ { split($0, q, "\047")
        name = q[2] }
    / Used [0-9]* registers/ { sub(/.* Used /, ""); print name, $1 }' |
    c++filt | sed 's/^void //; s/(anonymous namespace):://g
        s/(int)//g; s/(bool)0/false/g; s/(bool)1/true/g
        s/__nv_bfloat16/bf16/g' |
    awk '{ n = $NF; s = $0; sub(/ [0-9]*$/, "", s)
        deep = 0
        for (i = 1; i <= length(s); i++) {
            x = substr(s, i, 1)
            if (x == "<") deep++
            if (x == ">") deep--
            if (x == "(" && deep == 0) { s = substr(s, 1, i - 1); break }
        }
        gsub(/ /, "", s)
        print s "\t" n }' | LC_ALL=C sort
