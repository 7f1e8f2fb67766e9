#!/bin/sh
# usage: run-scenarios.sh BUILD [NAME...]
# Runs the shipped scenarios (all, or those named) with a sanitized build, one
# process a scenario so that leaks are looked for, each on the device that it
# is for; then all that can be made of its records and cases: reports in every
# format, explain, compare, price of miss reports, fit, list, snapshots
# replayed and imported. A command counts as one check: it ends with an exit
# code that it documents and no sanitizer speaks. The last line is "N passed,
# N failed".
build=$1
shift
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:exitcode=99
export UBSAN_OPTIONS=print_stacktrace=1:exitcode=99
export LSAN_OPTIONS=exitcode=99

# check WORD...: a peakproof command
check() {
    "$build/peakproof" "$@" >"$out/stdout" 2>"$out/stderr"
    code=$?
    case $code in
    0 | 2 | 3 | 4 | 6 | 7) ;;
    *)
        echo "FAILED exit code $code: peakproof $*"
        tail -n 40 "$out/stderr"
        return
        ;;
    esac
    if grep -q 'Sanitizer\|runtime error' "$out/stderr"; then
        echo "FAILED peakproof $*"
        cat "$out/stderr"
    else
        echo "ok"
    fi
}

# What a snapshot of the scenario's first case gives.
snapshots() {
    check run --device "$device" --only "$first" --out "$out/first" \
        --snapshot "$out/snapshots" "$file"
    for f in "$out"/snapshots/*; do
        [ -e "$f" ] || continue
        check replay "$f"
        check replay --json "$f"
        check replay --by category --at end "$f"
        check compare "$f" "$f"
        check import "$out/first" "$f" --case "$first" --rank 0
        return
    done
    echo "FAILED $file: no snapshot of $first"
}

one() {
    file=lua/scenarios/$1.lua device=dry
    case $1 in tiny-*) device=cpu ;; esac
    out=$(mktemp -d)
    check list "$file"
    check list --json "$file"
    check run --device "$device" --misses 5 --out "$out/run" "$file"
    check run --device "$device" --resume --misses 5 --out "$out/run" "$file"
    for f in md csv json html; do
        check report --format "$f" "$out/run"
    done
    first=$(sed -n '2s/^[^,]*,[^,]*,\([^,]*\),.*/\1/p' "$out/run/cases.csv")
    last=$(sed -n '$s/^[^,]*,[^,]*,\([^,]*\),.*/\1/p' "$out/run/cases.csv")
    [ -n "$first" ] || echo "FAILED $file: no case in its records"
    for c in "$first" "$last"; do
        check explain "$out/run" "$c"
        check explain --json "$out/run" "$c"
        check fit --memory 80G "$file" --only "$c"
        check fit --json --memory 140G "$file" --only "$c"
    done
    check compare "$out/run" "$out/run"
    check compare --json "$out/run" "$out/run"
    n=0
    for f in "$out"/run/misses/*.json; do
        [ ! -e "$f" ] || [ $n -ge 5 ] && break
        n=$((n + 1))
        check price "$f"
    done
    snapshots
    rm -rf "$out"
}

# Without a scenario.
plain() {
    out=$(mktemp -d)
    for o in '--lengths 20000,9000,64k --ep 2' \
        '--lengths 512 --model Qwen3-8B --tp 2 --cp 1' \
        '--tree lua/data/tau-airline-prefix-tree.csv --cp 4' \
        '--sequences lua/data/tau-airline-sequences.csv --select 0-9'; do
        # shellcheck disable=SC2086  # words
        check plan $o
        # shellcheck disable=SC2086
        check plan --facts $o
        cp "$out/stdout" "$out/facts.json"
        check price "$out/facts.json"
        check fit --memory 80G "$out/facts.json"
    done
    check run --lengths 8k,16k --cp 2 --ep 1,2 --out "$out/run" --totals
    check report "$out/run"
    check doctor
    check help
    check version
    rm -rf "$out"
}

if [ "${1:-}" = -one ]; then
    if [ "$2" = - ]; then plain; else one "$2"; fi
    exit
fi
said=$(mktemp)
trap 'rm -f "$said"' EXIT
{
    if [ $# -gt 0 ]; then
        printf '%s\n' "$@"
    else
        echo -
        for f in lua/scenarios/*.lua; do basename "$f" .lua; done
    fi
} | xargs -n 1 -P "$(nproc)" sh "$0" "$build" -one >"$said"
sed '/^ok$/d' "$said"
passed=$(grep -c '^ok$' "$said")
failed=$(grep -c '^FAILED ' "$said")
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
