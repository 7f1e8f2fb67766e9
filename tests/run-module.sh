#!/bin/sh
# usage: run-module.sh BUILD
# The CUDA module on a machine that has nvcc but no GPU: it loads, says what
# it is, and refuses to run with the reason; the program itself links no CUDA.
# Where a GPU is, tests/device/run.sh is the one to run, and only loading is
# checked here. The last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
module=$build/peakproof-cuda.so
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
unset PEAKPROOF_MODULE_PATH

# check NAME COMMAND...
check() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED cuda module: $name"
        cat "$scratch/doctor"
    fi
}
found() { grep -q "$1" "$scratch/doctor"; }

"$build/peakproof" doctor >"$scratch/doctor" 2>&1
check 'doctor asks the module' found '^libs .*runtime [1-9].*cuBLAS [1-9]'
check 'doctor tells of NCCL' found '^nccl '
ldd "$build/peakproof" >"$scratch/links"
check 'the program links no CUDA' \
    sh -c "! grep -qiE 'cuda|cublas|nccl' '$scratch/links'"
# Without cuBLAS and NCCL, asked for under names that nothing has, it loads.
LC_ALL=C sed 's/libcublas\.so\./libnoblas.so./g; s/libnccl\.so/libnocl.so/g' \
    "$module" >"$scratch/bare.so"
PEAKPROOF_MODULE_PATH="$scratch/bare.so" "$build/peakproof" doctor \
    >"$scratch/doctor" 2>&1
check 'it loads without cuBLAS' found '^libs .*cuBLAS none'
check 'and without NCCL' found '^nccl  *- .*no libnccl'
rm -f "$scratch/bare.so"
"$build/peakproof" doctor >"$scratch/doctor" 2>&1
if command -v cuobjdump >/dev/null; then
    cuobjdump --list-elf "$module" >"$scratch/code" 2>&1
    cuobjdump --list-ptx "$module" >>"$scratch/code" 2>&1
    check 'code for sm_80' grep -q 'sm_80.*cubin' "$scratch/code"
    check 'code for sm_90' grep -q 'sm_90.*cubin' "$scratch/code"
    check 'PTX for later ones' grep -q 'ptx' "$scratch/code"
else
    echo 'cuda module: no cuobjdump: architectures not checked'
fi
if ! found '^cuda  *ok'; then
    check 'doctor says what is missing' found '^cuda  *- .*no usable GPU'
    "$build/peakproof" run --device cuda --out "$scratch/out" tiny-cpu.lua \
        >"$scratch/said" 2>&1
    check 'a run without a GPU ends with 5' [ $? -eq 5 ]
    check 'and says why' grep -q 'no usable GPU' "$scratch/said"
    check 'and writes nothing' [ ! -e "$scratch/out" ]
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
