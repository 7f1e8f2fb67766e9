#!/bin/sh
# usage: run-report.sh BUILD
# Makes the report anew and compares it with the committed one: tables, .dat
# and .gp by bytes, pictures by existence. Our own peaks of the published
# cases are held to the byte (tests/golden/pr-accuracy-peaks.csv). A second
# run, in one process, must give the same records. cpu.md is compared by its
# headings and cases. The last line is "N passed, N failed".
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
for f in accuracy.md errors.dat errors.gp tokens.dat tokens.gp \
    composition.dat composition.gp losses.gp; do
    same "reports/$f (make report, and commit what changed)" \
        "reports/$f" "$scratch/reports/$f"
done
# Losses differ from machine to machine; what stands where does not.
# shellcheck disable=SC2016  # the backquotes are sed's
parts() { sed -n '/^#/p; s/^\(| `[^`]*`\).*/\1/p' "$1"; }
parts reports/cpu.md >"$scratch/parts"
parts "$scratch/reports/cpu.md" >"$scratch/parts.got"
same 'headings and cases of reports/cpu.md' "$scratch/parts" \
    "$scratch/parts.got"

for f in errors.svg tokens.svg composition.svg losses.svg; do
    if [ -s "reports/$f" ] && [ -s "$scratch/reports/$f" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED reports/$f: no picture"
    fi
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
