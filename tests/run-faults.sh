#!/bin/sh
# usage: run-faults.sh BUILD [STRIDE [SEED [COMMAND...]]]
#        (COMMAND: a name of "become" below)
# What becomes of each command when one call of malloc, open, write, rename,
# fork, pthread_create, fsync, mkdir, pipe, socketpair or ftruncate fails, once:
# the n-th, for every n (STRIDE 1) or every 37th ("make test"), the first drawn
# with a SEED that is printed. tests/faults/shim.c makes it fail. Asked is
#   an end   in time, by no signal, with a documented exit code; exit 0 only
#            with the output of a run without fault, or with a warning;
#   a word   of what failed, on standard error;
#   no harm  no temporary file is left, and files in the folder are those
#            from before or those of a run without fault;
#   no loss  done again (run --resume) it gives the bytes of such a run.
# gnuplot is a stand-in, which fails too. The last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
stride=${2:-37}
seed=${3:-$(date +%s)}
TOP=$(pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
if [ $# -le 3 ]; then       # all, in two processes
    echo "faults: every $stride, seed $seed"
    sh "$0" "$1" "$stride" "$seed" dry dry2 cpu load dump totals list cases \
        explain price miss plan tree facts fit fitcase >"$scratch/1" 2>&1 &
    sh "$0" "$1" "$stride" "$seed" files report html fitplot replay timeline \
        set import peaks table merge compare differ doctor weights help \
        version >"$scratch/2" 2>&1
    wait
    cat "$scratch/1" "$scratch/2" | grep -v '^[0-9]* passed'
    for f in 1 2; do        # a half without a count has failed
        tail -n 1 "$scratch/$f" | grep '^[0-9]* passed' ||
            echo '0 passed, 1 failed'
    done >"$scratch/sums"
    awk '{ p += $1; f += $3 } END {
        print p " passed, " f " failed"; exit f > 0 }' "$scratch/sums"
    exit
fi
shift 3
program=$build/peakproof
LC_ALL=C PATH=$scratch/bin:$PATH GNUPLOT_AT=0
export TOP LC_ALL PATH GNUPLOT_AT
unset PEAKPROOF_DATA PEAKPROOF_MODULE_PATH NO_COLOR
commands=$*
kinds='malloc open write rename fork pthread_create fsync mkdir pipe socketpair
    ftruncate child.malloc child.open child.write'

# become NAME [OPTION...]: this subshell becomes the command. It reads from in
# and works in out.
become() {
    name=$1
    shift
    case $name in
    dry) set -- run "$@" in/one.lua ;;
    dry2) set -- run -j 2 "$@" in/two.lua ;;
    cpu) set -- run --device cpu "$@" in/f32.lua ;;
    load) set -- run --device cpu "$@" in/load.lua ;;
    files) set -- run --device cpu --misses 0 --histograms --snapshot out/shots \
        --estimator "$TOP/lua/estimators/busiest-rank.lua" "$@" in/one.lua ;;
    dump) set -- run --device cpu --dump out/dump --save-adapters out/adapters \
        "$@" in/f32.lua ;;
    totals) set -- run --totals "$@" in/two.lua ;;
    report) set -- report ;;
    html) set -- report --format html ;;
    list) set -- list; PEAKPROOF_DATA=in/data; export PEAKPROOF_DATA ;;
    cases) set -- list in/two.lua ;;
    explain) set -- explain out a ;;
    price) set -- price in/facts.json ;;
    miss) set -- price in/miss.json ;;
    plan) set -- plan --lengths 3 --model tiny ;;
    tree) set -- plan --tree in/tree.csv --model tiny ;;
    facts) set -- plan --lengths 3 --model tiny --facts ;;
    fit) set -- fit --memory 100M --lengths 3 --model tiny ;;
    fitcase) set -- fit --memory 100M in/one.lua --only a ;;
    fitplot) set -- fit --memory 100M --lengths 3 --model tiny --plot out ;;
    replay) set -- replay in/shot.pickle ;;
    timeline) set -- replay --timeline out/t.svg --folded out/f.txt \
        --perfetto out/p.json in/shot.pickle ;;
    set) set -- replay --set expandable_segments=True in/shot.pickle ;;
    import) set -- import out in/shot.pickle in/shot1.pickle --case dry/s/a ;;
    peaks) set -- import out --peaks in/peaks.csv --case dry/s/a ;;
    table) set -- import out --table in/table.csv ;;
    merge) set -- merge out in/s1 in/s2 ;;
    compare) set -- compare in/two in/s1 ;;
    differ) set -- compare in/shot.pickle in/shot1.pickle ;;
    doctor) set -- doctor ;;
    weights) set -- doctor --weights in/weights ;;
    help) set -- help run ;;
    version) set -- version ;;
    esac
    exec "$program" "$@"
}

# The word for "again": what ended early goes on, or is done once more.
again() {
    case $1 in
    dry | dry2 | cpu | load | files | dump | totals) (become "$1" --resume) ;;
    *) (become "$1") ;;
    esac
}

# ---- what they read ---------------------------------------------------------

mkdir "$scratch/bin" "$scratch/in" && cd "$scratch" || exit 1
# scenario FILE DTYPE CASES
scenario() {
    cat >"in/$1.lua" <<END
local function case(name)
  return {
    name = name, model = "tiny", layers = 2, dtype = "$2", seed = 1,
    cp = 2, ep = 2, lora_rank = 4, learning_rate = 0.01, batch = batch.lengths{1, 2},
    waves = 1,
  }
end
return {name = "s", cases = {$3}}
END
}
scenario one bf16 'case("a")'
scenario two bf16 'case("a"), case("b")'
scenario f32 f32 'case("a")'
cat >in/load.lua <<END
local folder = "$TOP/tests/golden/hf/folders/qwen3_5_moe"
return {name = "s", cases = {{
  name = "a", model = folder .. "/config.json", weights = folder,
  dtype = "f32", cp = 1, ep = 1, lora_rank = 2, waves = 1,
  labels = "l.jsonl", loss = "sum", batch = batch.lengths{3},
}}}
END
echo '{"tokens":[1,2,3]}' >in/l.jsonl
cat >bin/gnuplot <<'END'
#!/bin/sh
# Draws an empty picture; the call that is number $GNUPLOT_AT goes as
# $GNUPLOT_HOW says.
echo >>"$GNUPLOT_CALLS"
if [ "$(wc -l <"$GNUPLOT_CALLS")" -eq "$GNUPLOT_AT" ]; then
    case $GNUPLOT_HOW in
    fails) echo 'gnuplot: no memory' >&2; exit 1 ;;
    dies) kill -9 $$ ;;
    nothing) exit 0 ;;
    hangs) exec sleep 1000 ;;
    esac
fi
for f; do
    echo picture >"${f%.gp}.svg"
    echo picture >"${f%.gp}.png"
done
END
chmod +x bin/gnuplot
GNUPLOT_CALLS=$scratch/calls
export GNUPLOT_CALLS
mkdir -p in/data/models in/data/scenarios
cp in/one.lua in/data/scenarios
cp "$TOP/lua/models/tiny.json" in/data/models
quiet() { "$@" >/dev/null 2>said || { cat said; echo "does not run: $*"; exit 1; }; }
cp -r "$TOP/tests/golden/hf/folders/qwen3_5_moe" in/weights
quiet "$program" run --out in/run --misses 0 --snapshot in/shots in/one.lua
cp in/run/misses/*.json in/miss.json
set -- in/shots/*
cp "$1" in/shot.pickle
cp "$2" in/shot1.pickle
for i in 1 2; do
    quiet "$program" run --out in/s$i --shard $i/2 in/two.lua
done
quiet "$program" run --out in/two in/two.lua
"$program" plan --lengths 3 --model tiny --facts >in/facts.json
printf 'segment,parent,tokens\n0,-1,2\n1,0,1\n2,0,3\n' >in/tree.csv
printf 'rank,allocated_bytes,requested_bytes,reserved_bytes\n' >in/peaks.csv
printf '0,400000000,300000000,500000000\n' >>in/peaks.csv
printf '1,410000000,300000000,500000000\n' >>in/peaks.csv
printf 'id,model,tp,cp,recompute,lengths,packed_rows,forward_peak\n' \
    >in/table.csv
printf 'a,tiny,1,1,full,3,3,177251840\n' >>in/table.csv

# The folder before a command: that of an earlier run.
plant() {
    rm -rf out
    case $1 in
    table | merge | fitplot | timeline) mkdir out ;;
    *) cp -r in/run out ;;
    esac
}
writes() {
    case $1 in
    dry | dry2 | cpu | load | files | dump | totals) return 0 ;;
    report | html | fitplot | timeline | import | peaks | table | merge) ;;
    *) return 1 ;;
    esac
}
runs() {
    case $1 in
    dry | dry2 | cpu | load | files | dump | totals) ;;
    *) return 1 ;;
    esac
}

# What two runs of a command have in common.
result() {
    find out -type f ! -name run.json ! -name timings.csv ! -name 'timing.*' \
        ! -name 'device.*' ! -name '*.pickle' | LC_ALL=C sort |
        xargs tail -v -n +1
    find out -name '*.pickle' | LC_ALL=C sort
    ! runs "$1" || grep -c '"finished": true' out/run.json
}

# ---- one fault --------------------------------------------------------------

failed=0 passed=0
wrong() {
    echo "FAILED $*"
    sed 's/^/  ! /' said | head -n 4
    sed -n 's/^  \(.*\)/    \1/p' log | grep -v 'shim.so' | head -n 12
    bad=1
}

# one NAME KIND N: that call fails.
one() {
    at="$1 $2:$3"
    bad=0
    writes "$1" && plant "$1"
    rm -f log calls
    (PEAKPROOF_FAULT=$2:$3 PEAKPROOF_FAULT_LOG=log LD_PRELOAD=$shim
    export PEAKPROOF_FAULT PEAKPROOF_FAULT_LOG LD_PRELOAD
    become "$1") >got 2>said
    code=$?
    read -r word <log || word=none
    [ "$word" = fired ] || return 0         # fewer calls this time, or excluded
    case $code in
    0)
        # what doctor finds is its output
        if ! cmp -s got "$1.got" && ! grep -q 'warning: ' said &&
            ! { [ "$1" = doctor ] && grep -q "$causes" got; }; then
            wrong "$at: exit 0, other output"
        fi ;;
    1) ;;
    *) wrong "$at: exit code $code" ;;
    esac
    [ "$code" = 0 ] || grep -q "$words" said || wrong "$at: no word of it"
    if writes "$1"; then look "$@"; fi
    [ $bad = 0 ] && passed=$((passed + 1)) || failed=$((failed + 1))
}
causes='host memory\|annot allocate\|annot create shared\|No space left\|'\
'Too many open files\|temporarily unavailable\|Input/output error'
words="^peakproof: .*\($causes\)"

# What of the folder, and after it was done again.
look() {
    [ -z "$(find out -name '.peakproof-*')" ] || wrong "$at: a temporary file"
    if [ "$code" = 0 ] && grep -q 'warning: ' said; then
        return              # a page without its picture, say
    elif [ "$1" = merge ] || [ "$1" = table ]; then
        :                   # new records, as of a run, in an empty folder
    elif runs "$1"; then
        cmp -s out/run.json in/run/run.json && ! diff -r out in/run >differs &&
            wrong "$at: changed before it began"
    else
        old_or_new "$1"
    fi
    if [ "$code" = 0 ]; then
        result "$1" >got
        cmp -s got "$1.want" || wrong "$at: exit 0, other files"
        return
    fi
    if runs "$1" && cmp -s out/run.json in/run/run.json; then
        (become "$1") >got 2>heard
    else
        again "$1" >got 2>heard
    fi
    code=$?
    case $1 in import | peaks) grep -q 'there already' heard && code=0 ;; esac
    [ $code = 0 ] || { cat heard >>said; wrong "$at: again: exit $code"; }
    result "$1" >got
    cmp -s got "$1.want" || wrong "$at: again: other files"
}

# Every file that is there is one from before, or a whole new one.
old_or_new() {
    find out -type f ! -name 'timing*' ! -name device.md ! -name run.json \
        >files
    while read -r f; do
        cmp -s "$f" "in/run/${f#out/}" || cmp -s "$f" "new-$1/${f#out/}" ||
            wrong "$at: $f is neither old nor new"
    done <files
}

# ---- all of them ------------------------------------------------------------

shim=$build/faults/shim.so
[ -e "$shim" ] || { echo "faults: make $shim first"; exit 1; }
for name in $commands; do
    rm -rf log calls
    plant "$name"
    (PEAKPROOF_FAULT=count PEAKPROOF_FAULT_LOG=log LD_PRELOAD=$shim
    export PEAKPROOF_FAULT PEAKPROOF_FAULT_LOG LD_PRELOAD
    become "$name") >"$name.got" 2>said || { cat said; echo "$name fails"; exit 1; }
    result "$name" >"$name.want"
    rm -rf "new-$name"
    cp -r out "new-$name"
    for kind in $kinds; do
        n=$(sed -n "s/^$kind //p" log | tail -n 1)
        echo "$kind ${n:-0}"
    done >"$name.counts"
    before=$((passed + failed))
    while read -r kind n <&3; do
        i=$(awk -v s="$seed$name$kind" -v k="$stride" 'BEGIN {
            for (c = 1; c <= length(s); c++)
                h = (h * 31 + index("0123456789abcdefghijklmnopqrstuvwxyz",
                                    substr(s, c, 1))) % 1000003
            print h % k + 1 }')
        while [ "$i" -le "$n" ]; do
            one "$name" "$kind" "$i"
            i=$((i + stride))
        done
    done 3<"$name.counts"
    [ "$stride" != 1 ] || echo "faults: $name: $((passed + failed - before))"
done

# ---- gnuplot ----------------------------------------------------------------

# draw WORD COMMAND: a warning that has the word, exit 0, and no link to a
# picture that is not there.
draw() {
    at="gnuplot $GNUPLOT_HOW at $GNUPLOT_AT, $2"
    bad=0
    plant "$2"
    rm -f calls log
    : >log
    (become "$2") >got 2>said
    code=$?
    [ $code = 0 ] || wrong "$at: exit code $code"
    grep -q "^peakproof: warning: .*$1" said || wrong "$at: no word of it"
    sed -n 's/.*\(src="\|](\)\([a-z]*\.svg\).*/\2/p' out/*.md out/*.html \
        2>/dev/null >links
    while read -r f; do
        [ -s "out/$f" ] || wrong "$at: a link to $f, which is not there"
    done <links
    [ $bad = 0 ] && passed=$((passed + 1)) || failed=$((failed + 1))
}
case " $commands " in *' report '*)
    export PEAKPROOF_GNUPLOT_SECONDS=1 GNUPLOT_HOW
    for GNUPLOT_AT in 1 2 3; do
        for word in fails:memory dies:signal nothing:'drew no'; do
            GNUPLOT_HOW=${word%:*}
            draw "${word#*:}" report
            draw "${word#*:}" html
        done
    done
    GNUPLOT_AT=2 GNUPLOT_HOW=hangs
    draw longer report ;;
esac
echo "$passed passed, $failed failed"
[ $failed -eq 0 ]
