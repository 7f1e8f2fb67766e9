#!/bin/sh
# usage: run-corpus.sh BUILD
# Feeds every file of tests/fuzz/corpus/NAME to BUILD/fuzz/fuzz_NAME, one
# check a file, for every tests/fuzz/fuzz_NAME.c; the last line is "N passed,
# N failed".
passed=0 failed=0
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    program=$1/fuzz/$name
    name=${name#fuzz_}
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
