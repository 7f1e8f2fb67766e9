#!/bin/sh
# usage: run-unit.sh BUILD [FOLDER]
# Runs every test program in BUILD/FOLDER (unit), on all cores; prints what the
# failed ones say and one closing line "N passed, N failed" (cmocka tests; a
# program that dies counts as one more failure), ", N skipped" where some are.
folder=${2:-unit}
logs=$1/$folder-log
rm -rf "$logs"
mkdir -p "$logs"
# shellcheck disable=SC2016
for t in "$1/$folder"/test_*; do
    [ -x "$t" ] && [ -e "tests/$folder/${t##*/}.c" ] && echo "$t"
done | xargs -P "$(nproc)" -I '{}' sh -c '
    log=$0/$(basename "$1")
    "$1" >"$log" 2>&1 || echo $? >"$log.code"' "$logs" '{}'

passed=0 failed=0 skipped=0
for log in "$logs"/test_*; do
    case $log in *.code) continue ;; esac
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    s=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    if [ -e "$log.code" ]; then
        printf 'FAILED %s (exit %s)\n' "${log##*/}" "$(cat "$log.code")"
        cat "$log"
        [ "${f:-0}" -gt 0 ] || f=1
    elif [ "${p:-0}${s:-0}" = 00 ]; then
        echo "FAILED ${log##*/}: ran no test"
        f=1
    fi
    passed=$((passed + ${p:-0}))
    failed=$((failed + ${f:-0}))
    skipped=$((skipped + ${s:-0}))
done
[ "$skipped" -gt 0 ] && skipped=", $skipped skipped" || skipped=
echo "$passed passed, $failed failed$skipped"
[ "$failed" -eq 0 ]
