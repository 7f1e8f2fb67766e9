#!/bin/sh
# usage: run-corpus.sh BUILD
# Feeds every file of tests/fuzz/corpus/NAME to BUILD/fuzz/fuzz_NAME, one
# check a file; the last line is "N passed, N failed".
passed=0 failed=0
for program in "$1"/fuzz/fuzz_*; do
    [ -x "$program" ] || continue
    name=${program##*/fuzz_}
    for f in tests/fuzz/corpus/"$name"/*; do
        if [ -e "$f" ] && out=$("$program" "$f" 2>&1); then
            passed=$((passed + 1))
        else
            failed=$((failed + 1))
            printf 'FAILED %s %s\n%s\n' "$program" "$f" "$out"
        fi
    done
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
