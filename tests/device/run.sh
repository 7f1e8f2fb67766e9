#!/bin/sh
# usage: tests/device/run.sh [--dry] [OUT]
#
# Everything that needs a real GPU, in under 8 minutes on one H200. Run it in
# the source tree. BUILD (default: build) may hold what was built before: the
# program, the CUDA module and, by "make device-tests", bench-device and the
# programs in device/. What is missing is built here for CUDA_ARCH (default:
# 90). OUT (default: out/device) gets a file for each step and summary.md,
# which is copied to reports/device/summary-GPU.md. --dry tells the steps and
# runs none.
#
# Each step has a limit in seconds; one that fails or runs out of time does
# not stop the others. What could not be tried is told as skipped and counts
# neither way. The last line is "N passed, N failed".
set -u
dry=""
only=""
case ${1:-} in
--dry) dry=1; shift ;;
--step) only=$2; shift 2 ;;     # how a step runs below its time limit
esac
OUT=${1:-out/device}
BUILD=${BUILD:-build}
export BUILD CUDA_ARCH="${CUDA_ARCH:-90}" PAIR_SHOW=1
program=$BUILD/peakproof

# ---- steps ------------------------------------------------------------------

run_case() {
    folder=$1
    shift
    "$program" run --out "$OUT/$folder" "$@"
}

# Losses of the same cases in two folders, within a relative limit.
same_losses() {
    awk -F, -v limit="$3" '
    FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { key = $(at["case"]) " wave " $(at["wave"]); loss = $(at["loss"]) }
    NR == FNR { want[key] = loss; next }
    {
        n++
        far = loss - want[key]
        if (far < 0) far = -far
        size = want[key] < 0 ? -want[key] : want[key]
        wrong = !(key in want) || !(far <= limit * size)
        print key ": " loss ", cpu " want[key] (wrong ? ": differs" : "")
        bad = bad || wrong
    }
    END { exit bad || n == 0 }' "$OUT/$1/losses.csv" "$OUT/$2/losses.csv"
}

step_build() {
    [ -x "$program" ] || make || return
    [ -e "$BUILD/peakproof-cuda.so" ] || make -j 8 cuda || return
    [ -x "$BUILD/bench-device" ] || make -j 8 device-tests
}

step_doctor() {
    "$program" doctor | tee "$OUT/doctor"
    grep -q '^cuda  *ok' "$OUT/doctor"
}

# Every operator against the cpu device: the tests of the emulated threads,
# on the GPU's.
step_operators() {
    n=0
    for t in "$BUILD"/device/test_cuda_*; do
        [ -x "$t" ] || continue
        CUDA_LAUNCH_BLOCKING=1 "$t" || return
        n=$((n + 1))
    done
    [ $n -gt 0 ]
}

step_tiny() {
    run_case tiny-cpu --device cpu tiny-cpu.lua &&
        run_case tiny-cuda --device cuda tiny-cpu.lua &&
        same_losses tiny-cpu tiny-cuda 1e-4
}

# A run ends with 7 when its events or peaks differ from dry's by a byte. Out
# of memory (6) is a record, and no failure of ours.
wave() {
    run_case "$1" --device cuda --only "$1" tests/device/waves.lua
    code=$?
    [ $code -ne 6 ] || echo 'does not fit this GPU: the record says so'
    [ $code -eq 0 ] || [ $code -eq 6 ]
}
step_wave_8() { wave layers-8; }
step_wave_40() { wave layers-40; }

step_kernels() {
    "$BUILD/bench-device" >"$OUT/kernels.csv" && cat "$OUT/kernels.csv"
}

step_sanitizer() {
    compute-sanitizer --error-exitcode 9 "$program" run --device cuda \
        --out "$OUT/sanitized" --only ragged.cp2.ep2 tiny-cpu.lua
}

# One process, a GPU a rank; then a process a rank.
step_nccl() {
    run_case nccl --device cuda --only '*.cp2.*' tiny-cpu.lua &&
        same_losses tiny-cpu nccl 1e-4
}

step_processes() {
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29517
    RANK=1 LOCAL_RANK=1 run_case processes-1 --device cuda \
        --only '*.cp2.*' tiny-cpu.lua &
    RANK=0 LOCAL_RANK=0 run_case processes --device cuda \
        --only '*.cp2.*' tiny-cpu.lua && wait $! &&
        same_losses tiny-cpu processes 1e-4
}

if [ -n "$only" ]; then
    "step_$only"
    exit
fi

# ---- running them -----------------------------------------------------------

passed=0 failed=0 skipped=0
rm -rf "$OUT"
mkdir -p "$OUT" || exit 1

note() {
    printf '| %s | %s | %s |\n' "$1" "$2" "$3" >>"$OUT/steps"
    printf '%-12s %s (%s s)\n' "$1" "$2" "$3"
}

skip() {
    skipped=$((skipped + 1))
    note "$1" "skipped: $2" 0
}

# step NAME LIMIT [VARIABLE=VALUE]
step() {
    if [ -n "$dry" ]; then
        printf '%-12s at most %s s %s\n' "$1" "$2" "${3:-}"
        return
    fi
    from=$(date +%s)
    env ${3:+"$3"} timeout "$2" sh "$0" --step "$1" "$OUT" \
        >"$OUT/$1.txt" 2>&1 </dev/null
    code=$?
    took=$(($(date +%s) - from))
    if [ $code -eq 0 ]; then
        passed=$((passed + 1))
        note "$1" passed $took
    else
        failed=$((failed + 1))
        note "$1" "failed, exit code $code" $took
        tail -n 5 "$OUT/$1.txt"
    fi
}

gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null |
    head -n 1 | tr -c 'A-Za-z0-9\n' - | sed 's/-*$//')

step build 240
step doctor 20 CUDA_VISIBLE_DEVICES=0
step operators 60 CUDA_VISIBLE_DEVICES=0
step tiny 60 CUDA_VISIBLE_DEVICES=0
step wave_8 60 CUDA_VISIBLE_DEVICES=0
step wave_40 120 CUDA_VISIBLE_DEVICES=0
step kernels 40 CUDA_VISIBLE_DEVICES=0
if [ -n "$dry" ] || command -v compute-sanitizer >/dev/null; then
    step sanitizer 60 CUDA_VISIBLE_DEVICES=0
else
    skip sanitizer 'compute-sanitizer is not in PATH'
fi
if [ -n "$dry" ] || [ "$gpus" -gt 1 ]; then
    step nccl 60
    step processes 60
else
    skip nccl "needs two GPUs, here are $gpus"
    skip processes "needs two GPUs, here are $gpus"
fi

# ---- the summary ------------------------------------------------------------

# A file as a block of code.
block() {
    [ -s "$OUT/$1" ] || return
    printf '\n## %s\n\n```\n' "$2"
    cat "$OUT/$1"
    printf '```\n'
}

peaks() {
    for c in layers-8 layers-40; do
        [ -s "$OUT/$c/peaks.csv" ] || continue
        printf '\n## %s\n\n```\n' "$c"
        cut -d, -f3-9 "$OUT/$c/peaks.csv"
        cut -d, -f3- "$OUT/$c/timings.csv" | grep ',step,'
        cut -d, -f3- "$OUT/$c/device.csv"
        cut -d, -f3- "$OUT/$c/losses.csv"
        printf '```\n'
    done
}

{
    printf '# %s\n\n' "${gpu:-no GPU}"
    "$program" version 2>/dev/null | head -n 1
    printf '\n| step | result | seconds |\n|---|---|---:|\n'
    cat "$OUT/steps" 2>/dev/null
    block doctor 'What was there'
    block kernels.csv 'Kernels beside the copy rate and the cuBLAS rate'
    peaks
} >"$OUT/summary.md"
if [ -n "$gpu" ] && [ -z "$dry" ]; then
    mkdir -p reports/device
    cp "$OUT/summary.md" "reports/device/summary-$gpu.md"
fi
[ $skipped -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
