#!/bin/sh
# usage: run-processes.sh BUILD
# "--device cuda" with a process a rank, and what becomes of the others when
# one fails. The module is that of tests/cuda/fake_module.c: the cpu device,
# and processes joined by shared memory. The last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
module=$build/fake/peakproof-cuda.so
[ -e "$module" ] || { echo "processes: make $module first"; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
port=$((20000 + $$ % 10000))
export PEAKPROOF_MODULE_PATH="$build/fake" MASTER_ADDR=127.0.0.1
unset RANK WORLD_SIZE LOCAL_RANK
case='ragged.cp2.ep2'

run() {
    timeout 60 "$build/peakproof" run "$@" tiny-cpu.lua
}

# together SIZE [OPTION...]: a process for each rank, in $scratch/0, 1, ...;
# what each said is in 0.said, its exit code in 0.code.
together() {
    size=$1
    shift
    port=$((port + 1))
    r=0
    while [ $r -lt "$size" ]; do
        (
            rm -rf "${scratch:?}/$r"
            RANK=$r LOCAL_RANK=$r WORLD_SIZE=$size MASTER_PORT=$port \
                run --device cuda --only "$case" --out "$scratch/$r" "$@" \
                >"$scratch/$r.out" 2>"$scratch/$r.said"
            echo $? >"$scratch/$r.code"
        ) &
        r=$((r + 1))
    done
    wait
}

# check NAME CONDITION...
check() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED processes: $name: $*"
        head -v "$scratch"/*.said "$scratch"/*.code
    fi
}

said() { grep -qF "$2" "$scratch/$1.said"; }
code() { [ "$(cat "$scratch/$1.code")" = "$2" ]; }
same() {
    for d in cpu 0; do      # checksums are of the device's name too
        sed 's/^cpu,/cuda,/; s/,[0-9a-f]\{16\},/,,/' "$scratch/$d/$1.csv" \
            >"$scratch/$d.same"
    done
    cmp -s "$scratch/cpu.same" "$scratch/0.same"
}

run --device cpu --only "$case" --out "$scratch/cpu" >/dev/null
together 2
check 'two ranks' code 0 0
check 'two ranks' code 1 0
for f in records peaks cases losses checks; do
    check "records of two ranks" same $f
done
check 'rank 1 writes nothing' [ ! -e "$scratch/1" ]
check 'rank 1 prints nothing' [ ! -s "$scratch/1.out" ]
check 'memory of rank 1' grep -q ',1,driver_highest,' "$scratch/0/device.csv"

# a case that fails on both, and one that goes well after it
export FAKE_FAIL=1:20
together 2
check 'a rank out of memory' code 0 6
check 'a rank out of memory' code 1 6
check 'is named' said 0 'rank 1: '
check 'with its reason' said 0 'no memory, as asked'
check 'is recorded' grep -q ',oom,' "$scratch/0/records.csv"
unset FAKE_FAIL

export FAKE_DIE=1:20
together 2
check 'a rank that dies' code 0 1
check 'is named' said 0 'rank 1 has ended'
export FAKE_DIE=0:20
together 2
check 'rank 0 dies' code 1 1
check 'and is named' said 1 'rank 0 has ended'
# with cases left: the run ends, once, in one line
case='*.cp2.ep2'
export FAKE_DIE=1:20
together 2
check 'a run that lost a rank' code 0 1
check 'ends in one line' [ "$(wc -l <"$scratch/0.said")" = 1 ]
check 'that says what is left' said 0 '; 2 more cases are not run'
case='ragged.cp2.ep2'
unset FAKE_DIE

# whoever is interrupted while it waits for the others
for r in 0 1; do
    RANK=$r LOCAL_RANK=$r WORLD_SIZE=2 MASTER_PORT=$((port + 5000)) \
        "$build/peakproof" run --device cuda --out "$scratch/$r" \
        tiny-cpu.lua 2>"$scratch/$r.said" &
    sleep 0.5
    kill -INT $!
    wait $!
    echo $? >"$scratch/$r.code"
    check 'SIGINT while ranks meet' code $r 130
    check 'is told' said $r 'interrupted while the ranks met'
done

# alone NAME RANK OF [VARIABLE=VALUE...]: that rank, which says NAME.said
alone() {
    who=$1 rank=$2 of=$3
    shift 3
    env RANK="$rank" LOCAL_RANK="$rank" WORLD_SIZE="$of" \
        MASTER_PORT=$((port + 6000)) "$@" timeout 60 "$build/peakproof" run \
        --device cuda --only "$case" --out "$scratch/$who" tiny-cpu.lua \
        >"$scratch/$who.out" 2>"$scratch/$who.said"
    echo $? >"$scratch/$who.code"
}

# what a launcher may get wrong, and who else comes to the port: rank 0 waits
# for its own all the while
alone 1 2 2
check 'a rank too many' code 1 2
alone 1 1 2 MASTER_ADDR=
check 'no MASTER_ADDR' code 1 2
check 'is named' said 1 'MASTER_ADDR is not set'
alone 1 0 2 MASTER_ADDR=192.0.2.1
check 'the address of another host' code 1 1
check 'is told' said 1 'MASTER_ADDR must name its own host'
alone 0 0 2 PEAKPROOF_TOKEN=ours &
host=$!
sleep 0.5
alone 1 0 2 PEAKPROOF_TOKEN=ours
check 'a second rank 0' code 1 1
check 'is told' said 1 'MASTER_PORT must be free'
alone 2 1 2 PEAKPROOF_TOKEN=theirs
check 'a rank of another job' code 2 1
check 'is told' said 2 'of another job it answers nobody'
alone 1 1 2 PEAKPROOF_TOKEN=ours
wait $host
check 'the rank that is meant' code 1 0
check 'is found all the same' code 0 0
check 'in silence' [ ! -s "$scratch/0.said" ]
alone 0 0 3 PEAKPROOF_TOKEN=ours &
host=$!
alone 1 1 2 PEAKPROOF_TOKEN=ours
wait $host
check 'ranks that count otherwise' code 0 1
check 'hear it' said 0 'calls itself rank 1 of 2, rank 0 counts 3 ranks'
check 'on both sides' said 1 'calls itself rank 1 of 2, rank 0 counts 3 ranks'

export FAKE_GPUS=1
together 2
check 'one GPU for two' code 0 5
check 'one GPU for two' code 1 5
check 'with a remedy' said 1 'start one process alone'
unset FAKE_GPUS

export FAKE_GPUS=3
together 3
unset FAKE_GPUS
check 'more processes than ranks' code 0 3
check 'are told' said 0 'the launcher started 3 processes'
together 2 --resume
check '--resume' code 0 2
together 2 --snapshot "$scratch/s"
check '--snapshot' code 1 2

# one process: two GPUs, then one for both ranks
for gpus in 2 1; do
    FAKE_GPUS=$gpus run --device cuda --only "$case" --out "$scratch/0" \
        >/dev/null
    echo $? >"$scratch/0.code"
    check "threads, $gpus GPUs" code 0 0
    check "threads, $gpus GPUs" same losses
done
FAKE_GPUS=0 run --device cuda --out "$scratch/0" 2>"$scratch/0.said"
echo $? >"$scratch/0.code"
check 'no GPU' code 0 5
check 'no GPU' said 0 'device cuda: no usable GPU'
run --device cuda -j 2 --out "$scratch/0" 2>"$scratch/0.said"
echo $? >"$scratch/0.code"
check '-j' code 0 2

# modules that are none
export PEAKPROOF_MODULE_PATH="$scratch/none"
run --device cuda 2>"$scratch/0.said"
echo $? >"$scratch/0.code"
check 'no module' code 0 5
check 'no module' said 0 'where PEAKPROOF_MODULE_PATH points'
echo text >"$scratch/peakproof-cuda.so"
export PEAKPROOF_MODULE_PATH="$scratch"
run --device cuda 2>"$scratch/0.said"
echo $? >"$scratch/0.code"
check 'no library' code 0 5
check 'no library' said 0 'would not load'
version=$("$build/peakproof" version | sed -n '1s/.*(\(.*\))$/\1/p')
other=$(echo "$version" | sed 's/^./x/')
LC_ALL=C sed "s/$version/$other/" "$build/fake/peakproof-cuda.so" \
    >"$scratch/peakproof-cuda.so"
run --device cuda 2>"$scratch/0.said"
echo $? >"$scratch/0.code"
check 'another version' code 0 5
check 'another version' said 0 "is version $other, the program is $version"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
