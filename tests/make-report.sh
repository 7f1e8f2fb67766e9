#!/bin/sh
# usage: make-report.sh BUILD RECORDS REPORTS
# Runs the accuracy scenarios on the dry device into RECORDS, and small models
# that compute on the cpu device into RECORDS-cpu, writes the reports there,
# and copies what is worth keeping to REPORTS. timing.md differs from run to
# run, cpu.md and its losses from one BLAS kernel to another: git ignores them.
set -e
program=$1/peakproof records=$2 reports=$3
scenarios='pr-accuracy pr-accuracy-ep1 routing random-weights random real-waves
    full-stack sensitivity fallbacks measured'
list=
for s in $scenarios; do list="$list lua/scenarios/$s.lua"; done

mkdir -p "$(dirname "$records")"
# The build's own folders: an older version's may have other columns.
rm -rf "$records" "$records-cpu"
# shellcheck disable=SC2086  # a list of files without blanks
"$program" run --check -j 2 --out "$records" $list >"$records.txt" \
    2>"$records.err"
# Drawn waves, beside them: shapes.md.
"$program" run --totals -j 2 --out "$records/sweep" lua/scenarios/sweep.lua \
    lua/scenarios/drift.lua -- seed=1 >>"$records.txt" 2>>"$records.err"
"$program" report "$records" >/dev/null
mkdir -p "$reports"
cp "$records"/*.md "$records"/*.gp "$records"/*.dat "$reports"
for picture in "$records"/*.svg; do
    [ ! -e "$picture" ] || cp "$picture" "$reports"
done

"$program" run --device cpu -j 2 --out "$records-cpu" \
    lua/scenarios/tiny-cpu.lua lua/scenarios/tiny-train.lua \
    >"$records-cpu.txt"
"$program" report "$records-cpu" >/dev/null
for f in cpu.md losses.gp losses.dat losses.svg; do
    [ ! -e "$records-cpu/$f" ] || cp "$records-cpu/$f" "$reports"
done
echo "report: $reports/accuracy.md, from the records in $records"
