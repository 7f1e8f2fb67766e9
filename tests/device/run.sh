#!/bin/sh
# usage: tests/device/run.sh [--dry] [--seconds N] [--archive FILE] OUT [STAGE...]
#        tests/device/run.sh --summary OUT
#
# Everything that needs a real GPU, in stages (default: all) that each fit nine
# minutes. Run it in the source tree, or where tests/device/pack.sh has put
# what it needs: then no package and no compiler is needed beside a driver,
# cuBLAS and NCCL, which may be those of Python wheels.
#
# OUT gets a line of JSON and a log for each stage, and summary.md. The summary
# and the archive (default: OUT.tgz) are made anew behind each stage, so that
# whatever ends the script, what was found is kept. --seconds (default: 540)
# is the time for all: a stage that would begin behind it is left, and the
# next call with the same OUT begins there, since a stage with a result is not
# run again. --summary makes the summary alone, from what OUT holds (notes.md
# too, if there), and copies it to reports/device/summary-GPU.md.
#
# --dry rehearses: the module whose threads are emulated (build/emu) in place
# of the GPU, tiny cases in place of full waves, the same stages and files.
#
# A stage that fails or runs out of time does not stop the others. What could
# not be tried is told as skipped and counts neither way. The last line is
# "N passed, N failed".
set -u
self=$0
seconds=540 archive='' dry=${DEVICE_DRY:-} only='' summary=''
while :; do
    case ${1:-} in
    --dry) dry=1; shift ;;
    --seconds) seconds=$2; shift 2 ;;
    --archive) archive=$2; shift 2 ;;
    --summary) summary=1; shift ;;
    --stage) only=$2; shift 2 ;;    # how a stage runs below its time limit
    *) break ;;
    esac
done
case ${1:-} in
''|-*) sed -n 's/^# usage: /usage: /p; s/^#        t/       t/p' "$0"; exit 2 ;;
esac
OUT=$1
shift
archive=${archive:-$OUT.tgz}
BUILD=${BUILD:-build}
program=$BUILD/peakproof
export BUILD DEVICE_DRY="$dry" PAIR_SHOW=1

# ---- stages: name, limit in seconds, how many GPUs --------------------------

stages='
smoke 60 1
operators 120 1
tiny 90 1
layers-8 120 1
layers-40 240 1
profile 120 1
kernels 120 1
memcheck 240 1
racecheck 240 1
synccheck 120 1
program-memcheck 120 1
torch 150 1
two-gpus 120 2
processes 120 2
'
scenario=tests/device/waves.lua tests=$BUILD/device
if [ -n "$dry" ]; then
    export PEAKPROOF_MODULE_PATH="$BUILD/emu" EMU_GPUS=2
    scenario=tests/device/rehearsal.lua tests=${DEVICE_TESTS:-$BUILD/cuda}
fi

# Libraries that Python wheels brought, for a machine that has no others; the
# toolkit's tools, where they are not in PATH.
wheels() {
    python3 - <<'END' 2>/dev/null
import glob, os, sys
found = [d for p in sys.path for d in glob.glob(p + "/nvidia/*/lib")]
print(":".join(os.path.abspath(d) for d in found))
END
}

if [ -z "$only" ]; then
    LD_LIBRARY_PATH=${LD_LIBRARY_PATH:-}:$BUILD/lib:/usr/local/cuda/lib64
    LD_LIBRARY_PATH=$LD_LIBRARY_PATH:$(wheels)
    PATH=$PATH:/usr/local/cuda/bin
    export LD_LIBRARY_PATH PATH
fi

run_case() {
    folder=$OUT/$1
    shift
    "$program" run --device cuda --out "$folder" "$@"
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

cases=tiny-cpu.lua
[ -z "$dry" ] || cases=tests/device/rehearsal.lua

# The cpu device's losses: once.
on_cpu() {
    [ -s "$OUT/cpu/losses.csv" ] ||
        "$program" run --device cpu --out "$OUT/cpu" "$cases"
}

# The smallest that shows a mistake: the driver, then each kernel once.
stage_smoke() {
    "$program" doctor | tee "$OUT/doctor.txt"
    grep -q '^cuda  *ok' "$OUT/doctor.txt" || return
    [ -n "$dry" ] || CUDA_LAUNCH_BLOCKING=1 "$BUILD/bench-device" 64
}

# under COMMAND... : the operators' tests, each against the cpu device; all
# are run, whatever one of them finds.
under() {
    n=0 bad=0
    for t in "$tests"/test_cuda_attention "$tests"/test_cuda_delta \
             "$tests"/test_cuda_moe "$tests"/test_cuda_plain; do
        [ -x "$t" ] || continue
        echo "== $(basename "$t")"
        # a launch that waits: results are there when a call returns
        CUDA_LAUNCH_BLOCKING=1 "$@" "$t" || bad=$((bad + 1))
        n=$((n + 1))
    done
    echo "$bad of $n programs failed"
    [ $n -gt 0 ] && [ $bad -eq 0 ]
}
stage_operators() { under env; }

sanitizer() { compute-sanitizer --error-exitcode 9 --print-limit 20 "$@"; }
stage_memcheck() { PAIR_SHOW='' under sanitizer --tool memcheck; }
stage_racecheck() { PAIR_SHOW='' under sanitizer --tool racecheck; }
stage_synccheck() { PAIR_SHOW='' under sanitizer --tool synccheck; }
stage_program_memcheck() {
    sanitizer --tool memcheck "$program" run --device cuda \
        --out "$OUT/sanitized" --only 'ragged.cp2.ep2' "$cases"
}

stage_tiny() {
    on_cpu && run_case tiny "$cases" && same_losses cpu tiny 1e-4
}

# A run ends with 7 when its events or peaks differ from dry's by a byte. Out
# of memory (6) is a record, and no failure of ours. With random weights every
# token is as likely as any other: the loss is near ln(vocabulary).
wave() {
    run_case "$1" --only "$1" $scenario
    code=$?
    [ $code -ne 6 ] || echo 'does not fit this GPU: the record says so'
    [ $code -eq 0 ] || return $code
    awk -F, -v dry="$dry" '
    FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    {
        loss = $(at["loss"])
        print "loss " loss ", ln(248320) = " log(248320)
        n++
        if (dry == "" && !(loss > 11.9 && loss < 13)) bad = 1
    }
    END { exit bad || n == 0 }' "$OUT/$1/losses.csv"
}
stage_layers_8() { wave layers-8; }
stage_layers_40() { wave layers-40; }

# Where a wave's time goes: each operator waited for, both ranks' together.
stage_profile() {
    rm -f "$OUT/times"
    PEAKPROOF_CUDA_TIMES=$OUT/times run_case profile --only layers-8 \
        $scenario || return
    {
        echo 'operator,calls,seconds'
        awk -F, '{ n[$2] += $3; s[$2] += $4 }
            END { for (o in n) printf "%s,%d,%.4f\n", o, n[o], s[o] }' \
            "$OUT/times" | sort -t, -k3 -gr
    } >"$OUT/profile.csv"
    cat "$OUT/profile.csv"
}

stage_kernels() {
    [ -z "$dry" ] || { echo 'nothing to time on emulated threads'; return; }
    "$BUILD/bench-device" >"$OUT/kernels.csv" && cat "$OUT/kernels.csv"
}

# What PyTorch does with the same shapes and the same memory.
stage_torch() {
    mkdir -p "$OUT/torch"
    python3 tests/device/torch_facts.py "$OUT/torch"
}

# One process, a GPU a rank; then a process a rank.
stage_two_gpus() {
    on_cpu && run_case two-gpus --only '*.cp2.*' "$cases" &&
        same_losses cpu two-gpus 1e-4
}

stage_processes() {
    on_cpu || return
    # NCCL between processes is not emulated
    [ -z "$dry" ] || export PEAKPROOF_MODULE_PATH="$BUILD/fake"
    export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29517
    RANK=1 LOCAL_RANK=1 run_case processes-1 --only '*.cp2.*' "$cases" &
    RANK=0 LOCAL_RANK=0 run_case processes --only '*.cp2.*' "$cases" &&
        wait $! && same_losses cpu processes 1e-4
}

if [ -n "$only" ]; then
    "stage_$(echo "$only" | tr - _)"
    exit
fi

# ---- the summary ------------------------------------------------------------

# A file as a block of code.
block() {
    [ -s "$OUT/$1" ] || return
    printf '\n## %s\n\n```\n' "$2"
    cat "$OUT/$1"
    printf '```\n'
}

# Milliseconds of both on the same shapes, ours over PyTorch's.
beside_torch() {
    [ -s "$OUT/kernels.csv" ] && [ -s "$OUT/torch/times.csv" ] || return
    printf '\n## Kernels beside PyTorch\n\n'
    printf '| kernel | ms | PyTorch ms | ratio |\n|---|---:|---:|---:|\n'
    # (its copy and square product are larger)
    awk -F, '
    FNR == 1 || /^#/ || $1 == "copy" || $1 ~ /square/ { next }
    NR == FNR { ms[$1] = $2; next }
    $1 in ms { printf "| %s | %.3f | %.3f | %.2f |\n", $1, $2, ms[$1],
        $2 / ms[$1] }' "$OUT/torch/times.csv" "$OUT/kernels.csv"
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

value() { sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$2"; }

write_summary() {
    gpu=$(cat "$OUT/gpu" 2>/dev/null)
    {
        printf '# %s\n\n' "${gpu:-no GPU}"
        cat "$OUT/version" 2>/dev/null
        printf '\n| stage | result | seconds |\n|---|---|---:|\n'
        echo "$stages" | while read -r name _; do
            f=$OUT/$name.json
            [ -n "$name" ] || continue
            [ -s "$f" ] || continue
            printf '| %s | %s | %s |\n' "$name" "$(value result "$f")" \
                "$(value seconds "$f")"
        done
        if [ -s "$OUT/notes.md" ]; then
            echo
            cat "$OUT/notes.md"
        fi
        block doctor.txt 'What was there'
        block kernels.csv 'Kernels beside the copy rate and the cuBLAS rate'
        block profile.csv 'Operators of two waves at 8 layers, both ranks'
        beside_torch
        block torch/times.csv 'PyTorch alone'
        block torch/workspaces.csv "What cuBLAS keeps of PyTorch's memory"
        peaks
    } >"$OUT/summary.new"
    mv "$OUT/summary.new" "$OUT/summary.md"
}

pack_up() {
    tar czf "$archive.new" -C "$(dirname "$OUT")" "$(basename "$OUT")" &&
        mv "$archive.new" "$archive"
}

if [ -n "$summary" ]; then
    write_summary
    mkdir -p reports/device
    cp "$OUT/summary.md" "reports/device/summary-$(cat "$OUT/gpu").md"
    exit
fi

# ---- running them -----------------------------------------------------------

passed=0 failed=0 skipped=0 left=0
began=$(date +%s)
mkdir -p "$OUT" || exit 1
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')
if [ -n "$dry" ]; then
    gpus=2
    echo emulated >"$OUT/gpu"
else
    nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null |
        head -n 1 | tr -c 'A-Za-z0-9\n' - | sed 's/-*$//' >"$OUT/gpu"
    nvidia-smi >"$OUT/nvidia-smi.txt" 2>&1
fi
"$program" version 2>/dev/null | head -n 1 >"$OUT/version"

# note STAGE RESULT CODE SECONDS LIMIT WHY
note() {
    printf '{"stage":"%s","result":"%s","code":%s,"seconds":%s,"limit":%s%s}\n' \
        "$1" "$2" "$3" "$4" "$5" "${6:+,\"why\":\"$6\"}" >"$OUT/$1.json"
    printf '%-17s %s%s (%s s)\n' "$1" "$2" "${6:+: $6}" "$4"
}

skip() {
    skipped=$((skipped + 1))
    note "$1" skipped 0 0 "$2" "$3"
}

# stage NAME LIMIT GPUS
stage() {
    case $1 in
    *check)
        if ! command -v compute-sanitizer >/dev/null; then
            skip "$1" "$2" 'compute-sanitizer is not in PATH'
            return
        fi ;;
    torch)
        if ! python3 -c 'import torch' 2>/dev/null; then
            skip "$1" "$2" 'python3 has no torch'
            return
        fi ;;
    esac
    if [ "$gpus" -lt "$3" ]; then
        skip "$1" "$2" "needs $3 GPUs, here are $gpus"
        return
    fi
    [ "$3" -gt 1 ] || [ -n "$dry" ] || export CUDA_VISIBLE_DEVICES=0
    [ "$3" -eq 1 ] || unset CUDA_VISIBLE_DEVICES
    from=$(date +%s)
    rest=$((seconds - (from - began)))
    limit=$2
    [ "$rest" -ge "$limit" ] || limit=$rest
    timeout -k 5 "$limit" sh "$self" --stage "$1" "$OUT" \
        >"$OUT/$1.log" 2>&1 </dev/null
    code=$?
    took=$(($(date +%s) - from))
    if [ $code -eq 0 ]; then
        passed=$((passed + 1))
        note "$1" passed 0 $took "$limit"
        return
    fi
    failed=$((failed + 1))
    note "$1" failed $code $took "$limit" \
        "$([ $code -ne 124 ] || echo 'out of time')"
    tail -n 5 "$OUT/$1.log"
}

plan=$OUT/plan
echo "$stages" | while read -r name limit need; do
    [ -n "$name" ] || continue
    [ $# -eq 0 ] || case " $* " in *" $name "*) ;; *) continue ;; esac
    echo "$name $limit $need"
done >"$plan"
while read -r name limit need <&3; do
    [ ! -s "$OUT/$name.json" ] || continue
    if [ $((seconds - ($(date +%s) - began))) -lt 15 ]; then
        left=$((left + 1))
        echo "$name: left for the next call"
        continue
    fi
    stage "$name" "$limit" "$need"
    write_summary
    pack_up
done 3<"$plan"
[ $skipped -eq 0 ] || echo "$skipped skipped"
[ $left -eq 0 ] || echo "$left left"
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
