#!/bin/sh
# usage: run-emu.sh BUILD
# The program on the CUDA module whose sources run on tests/emu: a tiny case
# at CP2 and EP2 with a GPU for each rank (NCCL) and with both ranks on one,
# against the cpu device. A run ends with 7 where a rank's allocations or
# peaks are not dry's. The last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
export PEAKPROOF_MODULE_PATH="$build/emu"

run() {
    folder=$1
    shift
    timeout 200 "$build/peakproof" run --out "$scratch/$folder" \
        --only "$case" "$@" tiny-cpu.lua >"$scratch/$folder.said" 2>&1
}

# check NAME COMMAND...
check() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED on the emulator: $name"
        tail -n 3 "$scratch"/*.said
    fi
}

# Losses within 1e-5 of the cpu device's, every wave.
losses() {
    awk -F, '
    FNR == 1 { next }
    NR == FNR { want[$3 "," $4] = $6; next }
    { n++; d = $6 / want[$3 "," $4] - 1; if (!(d * d < 1e-10)) bad = 1 }
    END { exit bad || n != 2 }' "$scratch/cpu/losses.csv" \
        "$scratch/$1/losses.csv"
}
same() {
    sed 's/^cpu,/cuda,/' "$scratch/cpu/$2.csv" |
        cmp -s - "$scratch/$1/$2.csv"
}

case=ragged.cp2.ep2
check 'cpu' run cpu --device cpu
for gpus in 2 1; do
    # streams that take their time, in the order of this seed
    export EMU_GPUS=$gpus EMU_SEED=$gpus
    check "$gpus GPUs" run gpus-$gpus --device cuda
    check "$gpus GPUs, losses" losses gpus-$gpus
    check "$gpus GPUs, peaks" same gpus-$gpus peaks
    check "$gpus GPUs, records" same gpus-$gpus records
    check "$gpus GPUs, the driver's view" \
        grep -q ',1,driver_highest,[1-9]' "$scratch/gpus-$gpus/device.csv"
done

# small NAME KEYS: a case of one rank with these keys as well.
small() {
    echo "return {cases = {{name = 'a', model = 'tiny', $2,
        batch = batch.lengths{40}}}}" >"$scratch/$1.lua"
    "$build/peakproof" run --device cuda --out "$scratch/$1" \
        "$scratch/$1.lua" >"$scratch/$1.said" 2>&1
}
small f64 "dtype = 'f64'"
check 'f64 is refused' [ $? -eq 2 ]
check 'with what to do' grep -q 'f64 runs on --device cpu' \
    "$scratch/f64.said"
small full "dtype = 'f32', device_bytes = 1000000"
check 'out of memory' [ $? -eq 6 ]
check 'is a record' grep -q ',oom,' "$scratch/full/records.csv"
small bf16 "dtype = 'bf16'"
check 'bf16' [ $? -eq 0 ]

EMU_GPUS=0 run none --device cuda
check 'no GPU' [ $? -eq 5 ]
check 'no GPU is told' grep -q 'no usable GPU' "$scratch/none.said"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
