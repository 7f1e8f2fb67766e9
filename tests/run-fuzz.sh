#!/bin/sh
# usage: run-fuzz.sh BUILD SECONDS
# Fuzzes each target for SECONDS, starting from its corpus. What it finds new
# stays in BUILD/corpus; an input that breaks it in BUILD/crash, to be added
# to tests/fuzz/corpus with its fix.
status=0
for program in "$1"/fuzz/fuzz_*; do
    [ -x "$program" ] || continue
    name=${program##*/fuzz_}
    mkdir -p "$1/corpus/$name" "$1/crash"
    echo "fuzz: $name, $2 s"
    "$program" -max_total_time="$2" -timeout=10 -rss_limit_mb=2048 \
        -artifact_prefix="$1/crash/$name-" -print_final_stats=1 \
        "$1/corpus/$name" "tests/fuzz/corpus/$name" >"$1/fuzz-$name.log" 2>&1
    code=$?
    sed -n 's/^stat::number_of_executed_units: */  runs: /p' \
        "$1/fuzz-$name.log"
    if [ "$code" -ne 0 ]; then
        status=1
        tail -n 30 "$1/fuzz-$name.log"
    fi
done
exit $status
