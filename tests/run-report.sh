#!/bin/sh
# usage: run-report.sh BUILD
# Makes the report anew and compares it with the committed one: tables, .dat
# and .gp by bytes, pictures by existence. Our own peaks of the published
# cases are held to the byte (tests/golden/pr-accuracy-peaks.csv). A second
# run, in one process, must give the same records. Of cpu.md, whose losses
# differ in their last digits from machine to machine, the cases and what is
# said of them are checked. The last line is "N passed, N failed".
build=$1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# same WHAT A B
same() {
    if cmp -s "$2" "$3"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $1:"
        diff "$2" "$3" | head -n 20
    fi
}

# drawn DIR: every script there has its picture.
drawn() {
    for gp in "$1"/*.gp; do
        [ ! -e "$gp" ] || [ -s "${gp%.gp}.svg" ] || return 1
    done
}

mkdir "$scratch/reports"
sh tests/make-report.sh "$build" "$scratch/records" "$scratch/reports" || {
    echo '0 passed, 1 failed'
    exit 1
}
# pass NAME COMMAND...
pass() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name"
    fi
}
# What varies with the machine or the day git ignores; all else is kept, and
# the same here.
for f in "$scratch"/reports/*.md "$scratch"/reports/*.dat \
    "$scratch"/reports/*.gp; do
    f=${f##*/}
    case $f in
    cpu.md | timing.md)
        pass "git keeps $f" grep -qxF "/reports/$f" .gitignore ;;
    losses.*) pass "git keeps $f" grep -qxF '/reports/losses.*' .gitignore ;;
    *) same "reports/$f (make report, and commit what changed)" \
        "reports/$f" "$scratch/reports/$f" ;;
    esac
done
cpu=$scratch/reports/cpu.md
awk -F, 'NR > 1 { print $2 "/" $3 }' "$scratch/records-cpu/cases.csv" |
    LC_ALL=C sort >"$scratch/cases"
# shellcheck disable=SC2016  # the backquotes are sed's
sed -n '/^## Losses/,/^## Held/s/^| `\([^`]*\)`.*/\1/p' "$cpu" |
    LC_ALL=C sort >"$scratch/cases.got"
same 'cases of cpu.md' "$scratch/cases" "$scratch/cases.got"
cases=$(wc -l <"$scratch/cases")
pass "cpu.md: all $cases cases are held beside dry" sh -c \
    "tr '\n' ' ' <'$cpu' | grep -q 'saw: in $cases of $cases such cases'"
# Two ranks learn as one does, in every wave, by any BLAS kernel: in f64, where
# sums in another order turn no route.
# shellcheck disable=SC2016  # awk's
pass 'losses of tiny-train at CP1 and CP2' awk -F, '
    $2 == "tiny-train" { loss[$3, $4] = $6; waves += $3 ~ /cp1/ }
    END {
        for (w = 0; w < waves; w++) {
            a = loss["train.cp1.ep1", w]
            d = loss["train.cp2.ep2", w] / a - 1
            if (!(a > 0 && d * d < 1e-20)) exit 1
        }
        exit waves != 20 || !(a < 1.6)
    }' "$scratch/records-cpu/losses.csv"

for f in errors.svg tokens.svg composition.svg measured.svg losses.svg; do
    pass "reports/$f: no picture" [ -s "$scratch/reports/$f" ]
    [ $f = losses.svg ] ||
        pass "reports/$f: no picture is committed" [ -s "reports/$f" ]
done

sed -n '1p; /^dry,pr-accuracy,/p' "$scratch/records/peaks.csv" \
    >"$scratch/peaks.csv"
golden=tests/golden/pr-accuracy-peaks.csv
same "peaks of the published cases (mv $golden.got $golden if right)" \
    "$golden" "$scratch/peaks.csv"
cmp -s "$golden" "$scratch/peaks.csv" || cp "$scratch/peaks.csv" "$golden.got"

"$build/peakproof" run --out "$scratch/again" \
    lua/scenarios/pr-accuracy.lua >"$scratch/table"
for f in records peaks cases; do
    sed -n '1p; /^dry,pr-accuracy,/p' "$scratch/records/$f.csv" \
        >"$scratch/$f.csv"
    same "$f.csv of a second run" "$scratch/$f.csv" "$scratch/again/$f.csv"
done
# Every shipped scenario, one rank alone, an estimator that never applies:
# report ends well, warns of nothing, draws every picture, also of cases that
# did not end well.
cat >"$scratch/one-rank.lua" <<'END'
local list = {}
for tokens = 2000, 6000, 2000 do
  list[#list + 1] = {name = "t" .. tokens, model = "Qwen3.6-35B-A3B",
                     layers = 4, cp = 1, batch = batch.lengths{tokens}}
end
return {cases = list}
END
cat >"$scratch/never.lua" <<'END'
estimator{name = "never", price = function()
  return nil, "prices nothing"
end}
return {
  cases = {{name = "a", model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
            batch = batch.lengths{3000, 2000}}},
}
END
for s in lua/scenarios/*.lua "$scratch"/*.lua; do
    out=$scratch/of-$(basename "$s" .lua)
    "$build/peakproof" run -j 2 --out "$out" "$s" >"$scratch/table" 2>&1
    if "$build/peakproof" report "$out" >"$scratch/files" 2>"$scratch/said" &&
        [ ! -s "$scratch/said" ] &&
        drawn "$out"
    then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED report of $s:"
        tail -n 5 "$scratch/table" "$scratch/said"
    fi
    rm -rf "$out"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
