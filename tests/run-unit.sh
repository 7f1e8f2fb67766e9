#!/bin/sh
# Runs every unit test program given; prints the failures and one closing
# line "N passed, N failed" (programs, each a cmocka group).
passed=0 failed=0
for t in "$@"; do
    if out=$("$t" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s\n%s\n' "FAILED $t" "$out"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
