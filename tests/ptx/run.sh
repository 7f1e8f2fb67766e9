#!/bin/sh
# usage: run.sh FOLDER [NVCC]     (FOLDER: build/ptx90, where the programs are)
# Runs the operators' tests on the PTX interpreter, prints what each kernel
# cost, and checks that every kernel of the module was executed and that no
# ldmatrix met a bank conflict. Without nvcc all is told as skipped. The last
# line is "N passed, N failed".
folder=$1
if [ -z "$2" ]; then
    echo 'no nvcc: 4 programs on the PTX interpreter skipped'
    echo '0 passed, 0 failed'
    exit 0
fi
passed=0 failed=0
logs=$folder/log
rm -rf "$logs"
mkdir -p "$logs"
# shellcheck disable=SC2016
for t in "$folder"/tests/test_*; do
    case $t in *.d) ;; *) echo "$t" ;; esac
done | xargs -P 2 -I '{}' sh -c '
    log=$0/$(basename "$1")
    PTX_COUNTS=$log.counts "$1" >"$log" 2>&1 || echo $? >"$log.code"' \
    "$logs" '{}'

for log in "$logs"/test_*; do
    case $log in *.code | *.counts) continue ;; esac
    p=$(sed -n 's/^\[  PASSED  \] \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    f=$(sed -n 's/^\[  FAILED  \] \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    if [ -e "$log.code" ]; then
        printf 'FAILED on the PTX interpreter: %s (exit %s)\n' "${log##*/}" \
            "$(cat "$log.code")"
        cat "$log"
        [ "${f:-0}" -gt 0 ] || f=1
    fi
    passed=$((passed + ${p:-0}))
    failed=$((failed + ${f:-0}))
done

# result NAME: passes when nothing was written to $logs/found.
result() {
    if [ -s "$logs/found" ]; then
        echo "ptx: $1:"
        sed 's/^/  /' "$logs/found"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

# Sums over the programs. Columns of a program's counts: count.cpp.
cat "$logs"/*.counts 2>/dev/null | awk -F '\t' '
    { for (i = 2; i <= NF; i++) sum[$1, i] += $i; name[$1] = 1; n = NF }
    END {
        for (k in name) {
            printf "%s", k
            for (i = 2; i <= n; i++) printf "\t%.0f", sum[k, i]
            print ""
        }
    }' | LC_ALL=C sort >"$logs/sum"
{
    printf 'kernel\tlaunches\tblocks\tinstructions\tmma\tread B\tsectors'
    printf '\twritten B\tsectors\tshared\tconflicts\tldmatrix\tconflicts\n'
    cut -f 1-5,7,8,10- "$logs/sum" | cut -f 1-13
} | awk -F '\t' '{
    printf "%-29s", $1
    for (i = 2; i <= 13; i++) printf " %*s", i < 4 ? 8 : 11, $i
    print ""
}'

awk -F '\t' 'NF < 16 { print "counts of " $1 " are cut off" }
    $2 == 0 { print $1 " was not executed" }
    END { if (NR == 0) print "no counts" }' "$logs/sum" >"$logs/found"
result 'every kernel of the module is executed'
awk -F '\t' '$15 > 0 { print $1 ": " $15 " conflicts" }' "$logs/sum" \
    >"$logs/found"
result 'ldmatrix meets no bank conflict'
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
