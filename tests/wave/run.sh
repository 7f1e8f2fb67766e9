#!/bin/sh
# usage: run.sh BUILD [-v kernels=1]
# Counts a wave of full size and prints what the model (model.md) makes of it;
# then holds the counts to what they may be. The last line is
# "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
shift
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

# check NAME COMMAND...
check() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED wave: $name"
    fi
}

# The second of two waves: what two have less what one has.
for waves in 1 2; do
    PEAKPROOF_MODULE_PATH="$build/wave" WAVE_COUNTS="$dir/$waves" \
        "$build/peakproof" run --device cuda --out "$dir/out" \
        tests/wave/wave.lua -- waves=$waves >"$dir/said" 2>&1
    check "$waves waves are counted, their requests are dry's" [ $? -eq 0 ]
done
[ -s "$dir/2" ] || cat "$dir/said"
awk -F '\t' -v OFS='\t' '
    NR == FNR { once[$1, $2] = $0; next }
    {
        split(once[$1, $2], less, "\t")
        for (i = 3; i <= NF; i++) $i -= less[i]
    }
    $3 > 0' "$dir/1" "$dir/2" | LC_ALL=C sort >"$dir/wave"
WAVE_COUNTS="$dir/calls" "$build/wave/costs" || failed=$((failed + 1))
for device in reports/device/summary-*H200.md /dev/null; do
    [ ! -e "$device" ] || break
done
awk "$@" -f tests/wave/model.awk file=1 tests/ptx/costs.tsv \
    file=2 "$dir/calls" file=3 tests/wave/field.tsv file=4 "$device" \
    file=5 "$dir/wave" | tee "$dir/model"

# holds WORDS MOST: the number behind the words is no higher.
holds() {
    awk -v words="$1" -v most="$2" '
        at = index($0, words) {
            n = substr($0, at + length(words)) + 0
            seen++
        }
        END { exit !(seen && n > 0 && n <= most) }' "$dir/model"
}
check 'kernels launched' holds 'kernels ' 14740
check 'library calls' holds 'library calls ' 8320
check 'copies' holds 'copies ' 9908
check 'waits' holds 'waits ' 194
check 'traffic beside the least' holds 'written once: ' 1.3
check 'modelled seconds' holds 'wave ' 7
check 'every kernel has costs' [ -z "$(sed -n '/^no costs/p' "$dir/model")" ]
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
