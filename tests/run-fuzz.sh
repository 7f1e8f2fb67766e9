#!/bin/sh
# usage: run-fuzz.sh BUILD SECONDS [JOBS]
# Fuzzes each target for SECONDS, starting from its corpus, JOBS at a time
# (default: as many as there are cores). What it finds new stays in
# BUILD/corpus; an input that breaks it in BUILD/crash, to be added to
# tests/fuzz/corpus with its fix. The last line is "N passed, N failed".
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1

# one BUILD SECONDS NAME
one() {
    mkdir -p "$1/corpus/$3" "$1/crash"
    "$1/fuzz/fuzz_$3" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$1/crash/$3-" -print_final_stats=1 \
        "$1/corpus/$3" "tests/fuzz/corpus/$3" >"$1/fuzz-$3.log" 2>&1
    code=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$1/fuzz-$3.log")
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$1/fuzz-$3.log" |
        tail -n 1)
    if [ "$code" -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
        echo "fuzz: $3: $runs runs, $edges edges"
    else
        echo "FAILED $3: exit code $code"
        tail -n 30 "$1/fuzz-$3.log"
    fi
}

if [ "$1" = -one ]; then
    shift
    one "$@"
    exit
fi
out=$(mktemp)
trap 'rm -f "$out"' EXIT
for program in "$1"/fuzz/fuzz_*; do
    [ -x "$program" ] && echo "${program##*/fuzz_}"
done | xargs -n 1 -P "${3:-$(nproc)}" sh "$0" -one "$1" "$2" | tee "$out"
passed=$(grep -c '^fuzz: ' "$out")
failed=$(grep -c '^FAILED ' "$out")
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
