#!/bin/sh
# usage: run.sh FOLDER [NVCC]     (FOLDER: build/ptx90, where the programs are)
# Runs the operators' tests on the PTX interpreter, prints what each kernel
# cost, and checks that every kernel of the module was executed and that no
# ldmatrix met a bank conflict. Then runs FOLDER/costs and holds what it counts
# against costs.tsv, which is of one nvcc and sm_90 alone; ACCEPT=1 writes that
# file instead (make ptx-accept). Without nvcc all is told as skipped. The last
# line is "N passed, N failed".
folder=$1
if [ -z "$2" ]; then
    echo 'no nvcc: programs on the PTX interpreter'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
passed=0 failed=0
logs=$folder/log
rm -rf "$logs"
mkdir -p "$logs"
# shellcheck disable=SC2016
for t in "$folder"/tests/test_*; do
    case $t in *.d) ;; *) echo "$t" ;; esac
done | xargs -P "$(nproc)" -I '{}' sh -c '
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
rm -f "$logs/test_finds.counts"     # those are no kernels of ours
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

# What kernels cost at the widths of a full model.
kept=tests/ptx/costs.tsv
version="$(basename "$folder"), nvcc $("$2" --version |
    sed -n 's/.*release .*, V//p')"
rm -f "$logs/costs.counts"
PTX_TIME=1 PTX_COUNTS=$logs/costs.counts "$folder/costs" >"$logs/costs" 2>&1 ||
    { cat "$logs/costs"; failed=$((failed + 1)); }
# (ptxas takes a minute for what it says of registers)
if [ -n "$ACCEPT" ]; then
    sh tests/ptx/registers.sh "$2" "$(basename "$folder" | sed 's/ptx//')"
else
    grep -v '^#' "$kept"
fi >"$logs/registers"
{
    echo "# $version: counts of costs.c; accept others by 'make ptx-accept'"
    printf 'kernel\tinstructions\tmma\tread sectors\twritten sectors'
    printf '\tshared turns\tbarriers\tblocks\tslots\tcycles\tthreads'
    printf '\tshared bytes\tregisters\n'
    awk -F '\t' -v OFS='\t' 'NR == FNR { n[$1] = $NF; next } $2 > 0 {
        print $1, $4, $5, $8, $11, $12 + $13 + 4 * $14 + $15, $16, $3, $17,
            $18, $19, $20, n[$1] + 0 }' "$logs/registers" \
        "$logs/costs.counts" | LC_ALL=C sort
} >"$logs/costs.tsv"
if [ -n "$ACCEPT" ]; then
    cp "$logs/costs.tsv" "$kept"
    echo "ptx: $kept is written"
elif [ "$(sed -n '1s/^# \(.*\): .*/\1/p' "$kept")" != "$version" ]; then
    echo "ptx: $kept is not of $version: costs not checked"
else
    awk -F '\t' 'FNR < 3 { split($0, title, "\t"); next }
        NR == FNR { was[$1] = $0; next }
        !($1 in was) { print $1 " is new"; next }
        {
            split(was[$1], old, "\t")
            for (i = 2; i <= 7; i++)
                if ($i > old[i])
                    print $1 ": " title[i] ": " $i ", was " old[i]
        }' "$kept" "$logs/costs.tsv" >"$logs/found"
    [ ! -s "$logs/found" ] ||
        echo "  ('make ptx-accept' if it is worth that)" >>"$logs/found"
    result 'no kernel is dearer than in tests/ptx/costs.tsv'
    cmp -s "$kept" "$logs/costs.tsv" ||
        echo "ptx: costs differ from $kept: 'make ptx-accept' keeps them"
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
