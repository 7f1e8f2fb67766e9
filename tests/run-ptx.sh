#!/bin/sh
# usage: run-ptx.sh [NVCC]
# Compiles the matrix kernels of cuda/ for sm_90 and reads what comes out: the
# bf16 kernels hold the tensor-core instruction, and none of them, f32 ones
# included, spills a register. Without nvcc every check is skipped.
# The last line is "N passed, N failed".
nvcc=$1
kernels='attention_forward attention_dq attention_dkv delta_prepare
         delta_states delta_output delta_walk delta_gradients'
files='attention attention_bwd delta delta_bwd delta_grad'
if [ -z "$nvcc" ]; then
    # shellcheck disable=SC2086
    set -- $kernels $files
    echo "0 passed, 0 failed, $# skipped"
    exit 0
fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck disable=SC2016,SC2086
printf '%s\n' $files | xargs -P "$(nproc)" -I '{}' sh -c '
    mkdir "$1/$2"
    "$0" -std=c++17 -O3 -arch=sm_90 -I. -Isrc -Icuda -cubin -Xptxas -v \
        -keep -keep-dir "$1/$2" -o "$1/$2.cubin" "cuda/$2.cu" \
        >"$1/$2.log" 2>&1 || rm -f "$1/$2.cubin"' "$nvcc" "$dir" '{}'
passed=0 failed=0

# result NAME: passes when nothing was written to $dir/found.
result() {
    if [ -s "$dir/found" ]; then
        echo "ptx: $1:"
        sed 's/^/  /' "$dir/found"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

for f in $files; do
    if [ ! -s "$dir/$f.cubin" ]; then
        echo "cuda/$f.cu does not compile"
        cat "$dir/$f.log"
    else
        awk '/Compiling entry function/ { name = $6; seen++ }
             /bytes stack frame/ && !/^ *0 bytes stack frame, 0 bytes spill/ {
                 print name ": " $0
             }
             END { if (seen == 0) print "no kernel was compiled" }' \
            "$dir/$f.log"
    fi >"$dir/found"
    result "cuda/$f.cu spills nothing"
done
for k in $kernels; do
    cat "$dir"/*/*.ptx 2>/dev/null | awk -v kernel="$k" '
        /\.entry/ {
            name = $0
            sub(/.*\.entry */, "", name)
            sub(/\(.*/, "", name)
            mine = index(name, kernel "I13__nv_bfloat16") > 0
            products = 0
            seen += mine
        }
        /mma\.sync\.aligned\.m16n8k16/ { products++ }
        /^}/ {
            if (mine && products == 0) print name " has no mma.sync"
            mine = 0
        }
        END { if (seen == 0) print "there is no bf16 kernel " kernel }' \
        >"$dir/found"
    result "$k multiplies on tensor cores"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
