#!/bin/sh
# usage: run-kills.sh BUILD [KILLS [SEED]]
# Runs killed (SIGKILL) at random moments, in turn: dry, dry with two workers,
# cpu, import. Foreign files and links stand in and around their folder. Done
# again, a run must give the bytes of one that was never killed, and no foreign
# byte may have changed. "make test" takes 8 kills and prints the seed. The
# last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
kills=${2:-8}
seed=${3:-$(date +%s)}
program=$build/peakproof
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
passed=0 failed=0
echo "kills: $kills, seed $seed"

# become KIND [OPTION...]: this (sub)shell becomes a kind's command.
become() {
    kind=$1
    shift
    case $kind in
    dry) set -- "$@" --misses 0 --only 'ragged*' tiny.lua ;;
    dry2) set -- "$@" --misses 0 -j 2 tiny.lua ;;
    cpu) set -- "$@" --device cpu --histograms --only 'ragged.cp*' \
        tiny-cpu.lua ;;
    import) exec "$program" import out --peaks peaks.csv \
        --case dry/tiny/ragged.cp2.ep2 ;;
    esac
    exec "$program" run --out out "$@"
}

# Foreign files, and links out of the folder to them.
plant() {
    rm -rf out around
    mkdir out around around/deep
    echo foreign >around/records.csv
    echo foreign >around/deep/tiny.ragged.cp2.ep2.wave0.json
    echo foreign >out/notes.txt
    ln -s ../around/records.csv out/records.csv.tmp
    ln -s ../around/records.csv out/run.json.tmp
    ln -s ../around out/link
    case $1 in
    cpu) other=misses mine=histograms ;;
    *) other=histograms mine=misses ;;
    esac
    ln -s ../around/deep "out/$other"
    mkdir "out/$mine"
    echo foreign >"out/$mine/other.json"
    echo foreign >"out/$mine/other.csv"
    if [ "$1" = import ]; then
        cp base/*.csv base/run.json out
    fi
    foreign >planted
}
# Names, kinds and bytes of all that was planted.
foreign() {
    find around out/notes.txt out/records.csv.tmp out/run.json.tmp out/link \
        "out/$other" "out/$mine/other.json" "out/$mine/other.csv" \
        -printf '%p %y %l\n' | LC_ALL=C sort
    cat around/records.csv around/deep/* out/notes.txt "out/$mine"/other.*
}

# What two runs have in common: records, and the files beside them.
result() {
    for f in records peaks cases checks inventory; do
        echo "$f"
        cat "out/$f.csv"
    done
    [ "$kind" != cpu ] || cat out/losses.csv
    find "out/$mine" -type f -name 'tiny*' | LC_ALL=C sort | while read -r f; do
        echo "$f"
        cat "$f"
    done
    grep -c '"finished": true' out/run.json
}

# A moment of the time that the run takes, in seconds.
moment() {
    awk -v seed="$seed" -v i="$1" -v ms="$2" 'BEGIN {
        srand(seed * 1000 + i)
        printf "%.3f", rand() * ms * 1.1 / 1000
    }'
}

check() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED kill $i of seed $seed, $kind, after $pause s: $name"
        tail -n 3 said
    fi
}

sed 's/name = "tiny-cpu"/name = "tiny"/; s/dtype = "f32"/dtype = "bf16"/' \
    "$OLDPWD/lua/scenarios/tiny-cpu.lua" >tiny.lua
printf 'rank,allocated_bytes,requested_bytes,reserved_bytes\n' >peaks.csv
printf '0,400000000,300000000,500000000\n' >>peaks.csv
printf '1,410000000,300000000,500000000\n' >>peaks.csv
mkdir base
$program run --out base --only 'ragged*' tiny.lua >/dev/null || exit 1

for kind in dry dry2 cpu import; do
    plant $kind
    start=$(date +%s%3N)
    (become $kind) >said 2>&1 || { cat said; echo "$kind does not run"; exit 1; }
    echo $(($(date +%s%3N) - start)) >"$kind.ms"
    result >"$kind.want"
done

i=0
while [ $i -lt "$kills" ]; do
    for kind in dry dry2 cpu import; do
        [ $i -lt "$kills" ] || break
        i=$((i + 1))
        plant $kind
        pause=$(moment $i "$(cat $kind.ms)")
        (become $kind) >said 2>&1 &
        pid=$!
        sleep "$pause"
        kill -9 $pid 2>/dev/null
        wait $pid 2>/dev/null
        # an import that was committed says that it is there already
        (become $kind --resume) >said 2>&1
        code=$?
        [ $kind = import ] && grep -q 'there already' said && code=0
        result >got
        foreign >seen
        check 'goes on' [ $code -eq 0 ]
        check 'gives the same' cmp -s $kind.want got
        check 'leaves foreign files' cmp -s planted seen
    done
done
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
