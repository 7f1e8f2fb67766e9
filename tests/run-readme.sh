#!/bin/sh
# usage: run-readme.sh BUILD
# Runs every command and block of README.md and lua/README.md and every example
# of the help, in folders that have the program, the scenarios and what the
# commands name; files that a page shows are saved under the name in their
# first line. All must end with 0, and what they print must be what
# tests/golden/readme.txt holds: the first lines of each, and a checksum of
# all. (GOLDEN_ACCEPT=1 takes what came; what differs from machine to machine
# is masked.) make and what it needs are run by CI: here each target must
# exist. What needs more than one machine is run as the first of its tasks.
# The last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
top=$(pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
PATH=$build:$PATH LC_ALL=C
export PATH LC_ALL
unset NO_COLOR PEAKPROOF_DATA
golden=tests/golden/readme.txt
said=$scratch/said
: >"$said"

# ---- what the commands name -------------------------------------------------

# Folders of weights, tokens and labels as large models have them: a small one
# of the same family stands in.
weights() {
    cp -R "$top/tests/golden/hf/folders/qwen3_moe" Qwen3-30B-A3B
    sed -i 's/\("max_position_embeddings": \)[0-9]*/\14096/' \
        Qwen3-30B-A3B/config.json
}
people() {
    weights
    for n in 900 700; do
        awk -v n=$n 'BEGIN { printf "{\"tokens\": ["
            for (i = 0; i < n; i++) printf "%s%d", i ? ", " : "", i % 7
            print "]}" }'
    done >batch.jsonl
    sed -n '/^-- mine.lua/,/^}/p' "$top/README.md" |
        sed 's/layers = 4/layers = 2/; /adapters = /d' >first.lua
    peakproof run --device cpu --out first --save-adapters my-adapter \
        first.lua >said
}

# A folder with the program and the scenarios.
fresh() {
    rm -rf "$scratch/work"
    mkdir "$scratch/work"
    cd "$scratch/work" || exit 1
    ln -s "$build" build
    ln -s "$top/lua" lua
    ln -s "$top/reports" reports
}
blocks() {
    awk -v dir="$scratch/work" '
    /^```/ { kind = kind == "" ? substr($0, 4) : ""; name = ""; next }
    kind == "lua" && name == "" && /^-- / { name = dir "/" substr($0, 4) }
    kind == "lua" && name != "" { print >name }' "$1"
}

# What examples of the help read: runs, snapshots, tables of measured peaks.
files() {
    peakproof run --out out pr-accuracy routing
    peakproof run --out old --only real-40 pr-accuracy
    cp -R old new
    peakproof run --out s --snapshot s --only real-40 pr-accuracy
    for n in snapshot rank0 today; do
        cp s/pr-accuracy.real-40.wave0.rank0.pickle $n.pickle
    done
    for n in rank1 yesterday; do
        cp s/pr-accuracy.real-40.wave0.rank1.pickle $n.pickle
    done
    peakproof plan --lengths 20000,9000 --ep 2 --facts >facts.json
    peakproof run --totals --shard 2/2 --out s2 sweep.lua
    cp lua/scenarios/template.lua my.lua
    sed -i 's/rows = {/tokens = {/; s/opt.rows/opt.tokens/' my.lua
    peakproof run --out out/mine my.lua
    weights
} >"$scratch/made" 2>&1

# mine.csv is one thing in one example and another in the next, and of a run
# that failed there is a snapshot for replay.
table() {
    case $1 in
    *replay*)
        cp "$top/tests/fuzz/corpus/snapshot/oom-recorded.pickle" rank0.pickle
        return ;;
    *--peaks*)
        echo 'wave,rank,allocated_bytes,requested_bytes,reserved_bytes'
        echo '0,0,24000000000,23900000000,70000000000'
        echo '0,1,24040000000,23940000000,70000000000' ;;
    *) head -n 3 "$top/reports/published/measured-memory.csv" ;;
    esac >mine.csv
}

# ---- running ----------------------------------------------------------------

# Digits that a BLAS, a clock or a machine decides.
masked() {
    case $1 in
    *doctor* | *version*) sed 's/.*/(the machine says)/' | uniq ;;
    *'help'*) sed -n 1p ;;
    *'compare '*) sed "/^| run /,/^\$/d; s|$scratch/work/||g" ;;
    *'--device cpu'*) sed -E 's/ [0-9]+\.[0-9]{6}/   a-loss/' ;;
    *) sed -E "s/(_ms\": )[0-9.e+-]+/\1N/; s|$scratch/work/||g; s|$top/||g" ;;
    esac
}

# try COMMAND: here, and into the transcript.
try() {
    out=$(eval "$1" 2>&1 </dev/null)
    code=$?
    if [ $code -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED %s (exit code %s)\n%s\n' "$1" "$code" "$out"
    fi
    printf '%s\n' "$out" | masked "$1" >"$scratch/one"
    {
        printf '$ %s\n' "$1"
        sed -n 1,10p "$scratch/one"
        echo "($(wc -l <"$scratch/one") lines, $(cksum <"$scratch/one"))"
    } >>"$said"
}

# page FILE: its shell blocks in order; then what its plain blocks say is done
# on other machines, by the first of them.
page() {
    fresh
    people
    blocks "$top/$1"
    sed -i 's/layers = 4,/layers = 2,/' mine.lua 2>/dev/null
    awk '/^```/ { kind = kind == "" ? substr($0, 4) "." : ""; next }
         kind == "sh." || kind == "." { print }' "$top/$1" >"$scratch/lines"
    while IFS= read -r command <&3; do
        case $command in
        make*)
            # shellcheck disable=SC2086  # the targets, one by one
            if (cd "$top" && make -n ${command#make}) >"$scratch/one" 2>&1
            then passed=$((passed + 1))
            else
                failed=$((failed + 1))
                echo "FAILED $1: $command"
                cat "$scratch/one"
            fi ;;
        parallel*)
            one=${command#parallel }
            try "$(echo "${one% ::: *}" | sed 's/{}/2/g')" ;;
        *SLURM*) export SLURM_ARRAY_TASK_ID=1
            try "$command"
            unset SLURM_ARRAY_TASK_ID ;;
        *OMPI*) export OMPI_COMM_WORLD_RANK=2
            try "$command"
            unset OMPI_COMM_WORLD_RANK ;;
        *) try "$command" ;;
        esac
    done 3<"$scratch/lines"
    cd "$top" || exit 1
}

page README.md

# lua/README.md: a list of cases, labels, an estimator.
fresh
{
    echo 'local ours = batch.lengths{900, 700}'
    sed -n '/^return {/,/^}/p' "$top/lua/README.md" | sed '/^```/,$d' |
        sed 's/{name = "a", ...}, .../{name = "a", model = "tiny", batch = ours}/'
} >list.lua
# shellcheck disable=SC2016  # the backquotes are the page's
sed -n '/^```json/,/^```/p' "$top/lua/README.md" | grep -v '^```' >labels.jsonl
echo 'return {cases = {{name = "l", model = "tiny", dtype = "f32",
    labels = "labels.jsonl", batch = batch.lengths{4, 3}}}}' >labels.lua
sed -n '/^estimator{/,/^}/p' "$top/lua/README.md" >mine-too.lua
try 'peakproof run --estimator mine-too.lua --out a list.lua -- rows=2000'
try 'peakproof run --device cpu --out b labels.lua'
cd "$top" || exit 1

# Every example of the help, of each command in a folder of its own.
fresh
files
mv "$scratch/work" "$scratch/base"
for command in $(peakproof help --json |
    sed -n 's/^      "name": "\(.*\)",/\1/p'); do
    rm -rf "$scratch/work"
    cp -R "$scratch/base" "$scratch/work"
    cd "$scratch/work" || exit 1
    peakproof help "$command" | sed -n '/^Examples:/,$s/^  //p' \
        >"$scratch/lines"
    while IFS= read -r line <&3; do
        rm -rf out
        cp -R "$scratch/base/out" out
        table "$line"
        try "$line"
    done 3<"$scratch/lines"
done
cd "$top" || exit 1

if [ -n "$GOLDEN_ACCEPT" ]; then
    cp "$said" "$golden"
fi
if diff "$golden" "$said" >"$scratch/diff"; then
    passed=$((passed + 1))
else
    failed=$((failed + 1))
    echo "FAILED what the commands print ($golden; GOLDEN_ACCEPT=1 takes it):"
    head -n 40 "$scratch/diff"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
