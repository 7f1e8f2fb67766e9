#!/bin/sh
# usage: run.sh [COUNT [SEED]]        (what "make mutants" runs: 80, and the
#                                      commit as seed)
# Plants small bugs in copies of the tree, one at a time, and asks whether a
# test notices: the unit tests of the room that the file is in, for survivors
# the other unit tests, for those that still live the transcripts, and then the
# room's unit tests and a few transcripts with sanitizers. A bug that does not
# compile, or compiles to the same code, is not counted. Prints every bug with
# what found it; the last line is "N of M found", and 90 % are to be.
count=${1:-80}
seed=${2:-$(git rev-parse --short=7 HEAD)}
work=$(pwd)/build-mutants
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
jobs=$(nproc 2>/dev/null || echo 1)
rm -rf "$work"
mkdir -p "$work/tree0"

# Sites in an order that the seed gives; numbers, which are half of them,
# count a quarter.
pick() {
    git ls-files 'src/*.c' 'src/dev/cpu/*.h' 'bench/*.c' |
        xargs awk -f tests/mutants/sites.awk |
        awk -F '\t' -v seed="$((0x$seed % 2147483647))" '
            function draw() {
                state = (state * 48271) % 2147483647
                return state / 2147483647
            }
            BEGIN { state = seed + 1; draw(); draw() }
            { x = draw(); at = draw() }
            $5 !~ /^[0-9]+$/ || x < 0.25 { printf "%.9f\t%s\n", at, $0 }' |
        sort -n | cut -f 2-
}

# unit_of FILE: the unit tests of its room.
unit_of() {
    case $1 in
    bench/*) room=bench ;;
    *) room=$(echo "$1" | cut -d / -f 2) ;;
    esac
    for t in tests/unit/test_"$room"_*.c; do
        [ ! -e "$t" ] || echo "build/unit/$(basename "$t" .c)"
    done
}

# likely FILE: the transcripts, those first that say most of the words of its
# path. They take minutes, and a survivor of the unit tests has to see them all;
# another is mostly found by the first or second.
likely() {
    words=$(echo "${1%.*}" | tr / _ | tr _ '\n' |
        grep -vx 'src\|bench\|cmd\|dev\|run' | paste -s -d '|')
    for t in tests/cli/*.t; do
        n=$(grep -cE "${words:-run}" "$t")
        ! basename "$t" .t | grep -qE "^(${words:-run})" || n=$((n + 1000))
        echo "$n $t"
    done | sort -rn | cut -d ' ' -f 2
}

# passes PROGRAM...: a bug may never end.
passes() {
    for t in "$@"; do
        timeout "$patience" "$t" >/dev/null 2>&1 || return 1
    done
}

# sanitized FILE: do its unit tests and the three likeliest transcripts pass
# under ASan and UBSan? "make test" runs all of both so. A read past an end or a
# leak may change no result.
sanitized() {
    own=$(unit_of "$1" | sed 's,build/,build-san/,')
    # shellcheck disable=SC2086  # a list
    make -s BUILD=build-san SAN=address,undefined all $own >>make.log 2>&1
    # shellcheck disable=SC2086
    passes $own || return 1
    for t in $(likely "$1" | head -n 3); do
        timeout 600 sh tests/run-cli.sh build-san "$t" >cli.log 2>&1 ||
            return 1
    done
}

# verdict FILE: what finds the bug that it now holds.
verdict() {
    patience=120
    make -s all >make.log 2>&1 || { echo 'no C'; return; }
    strip -g -o object.now "$object"
    ! cmp -s object.was object.now || { echo 'same code'; return; }
    own=$(unit_of "$1")
    # shellcheck disable=SC2086  # a list
    [ -z "$own" ] || { make -s $own >>make.log 2>&1 && passes $own; } ||
        { echo 'its unit tests'; return; }
    make -s unit-programs >>make.log 2>&1
    passes build/unit/test_* || { echo 'unit tests elsewhere'; return; }
    for t in $(likely "$1"); do
        timeout 600 sh tests/run-cli.sh build "$t" >cli.log 2>&1 ||
            { echo 'transcripts'; return; }
    done
    patience=900
    if ! sanitized "$1"; then
        cp "$1" bug
        cat original >"$1"          # do they pass without it?
        sanitized "$1" && found=sanitizers || found=SURVIVES
        cat bug >"$1"
        echo "$found"
        return
    fi
    echo SURVIVES
}

# work_on K: takes its share of the sites until it has tried its share.
work_on() {
    cd "$work/tree$1" || exit 1
    want=$(((count + jobs - 1 - $1) / jobs))
    awk -v k="$1" -v n="$jobs" 'NR % n == k' "$work/sites" >sites
    while [ "$want" -gt 0 ] && IFS='	' read -r file line at len with; do
        object=build/${file%.*}.o
        case $file in *.h) object=build/src/dev/cpu/f32.o ;; esac
        make -s all >make.log 2>&1
        strip -g -o object.was "$object"
        cp "$file" original
        awk -v n="$line" -v at="$at" -v len="$len" -v with="$with" '
            NR == n { $0 = substr($0, 1, at - 1) with substr($0, at + len) }
            { print }' original >"$file"
        found=$(verdict "$file" </dev/null)
        case $found in
        'no C' | 'same code') ;;
        *)
            want=$((want - 1))
            printf '%-20s %s:%s\n    - %s\n    + %s\n' "$found" "$file" \
                "$line" "$(sed -n "${line}p" original)" \
                "$(sed -n "${line}p" "$file")" | tee -a "$work/found$1"
            ;;
        esac
        cat original >"$file"
    done <sites
}

pick >"$work/sites"
echo "mutants: $count of $(wc -l <"$work/sites") sites, seed $seed"
git ls-files -z | tar --null -cf - -T - | (cd "$work/tree0" && tar xf -)
(cd "$work/tree0" && make -s -j"$jobs" all unit-programs \
    build/fake/peakproof-cuda.so && sh tests/run-unit.sh build &&
    make -s -j"$jobs" BUILD=build-san SAN=address,undefined \
        all unit-programs) \
    >"$work/log" 2>&1 || {
    echo 'mutants: without a bug:'
    tail "$work/log"
    exit 1
}
k=1
while [ "$k" -lt "$jobs" ]; do
    cp -a "$work/tree0" "$work/tree$k"
    k=$((k + 1))
done
k=0
while [ "$k" -lt "$jobs" ]; do
    work_on "$k" &
    k=$((k + 1))
done
wait
cat "$work"/found* >"$work/all"
lives=$(grep -c '^SURVIVES' "$work/all")
tried=$(grep -c '^[A-Za-z]' "$work/all")
grep '^[a-z]' "$work/all" | sed 's/  .*//; s/ [a-z]*\/.*//' | sort | uniq -c
echo "$((tried - lives)) of $tried found"
[ $((10 * (tried - lives))) -ge $((9 * tried)) ]
