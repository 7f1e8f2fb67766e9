#!/bin/sh
# usage: fit-truth.sh BUILD [WAVES [SEED]]
# Is what "fit" says true? Random waves (model, layers, lengths, CP, EP,
# routing, 40 to 192 GB). Where fit says that a wave fits, the run with its
# device_bytes ends with 0, else with 6; what it grants runs, and so do 20
# smaller batches of the same shape within the hundredth below; the first
# failure that it names does not. Prints what it found and, of what is not so,
# the command line; fails where something but a smaller batch is. Last line: "N
# passed, N failed".
set -u
build=$(cd "$1" && pwd)
waves=${2:-200}
seed=${3:-1}
PATH=$build:$PATH
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT INT TERM
cd "$dir" || exit 1

# Shape n of a seed: "model layers cp ep routing memory lengths".
draw() {
    awk -v seed="$1" -v n="$2" '
    function below(k) { x = x * 48271 % 2147483647; return x % k }
    function pick(list,  a, k) { k = split(list, a, " "); return a[below(k) + 1] }
    BEGIN {
        x = (seed * 65537 + n * 257) % 2147483646 + 1
        for (i = 0; i < 5; i++) below(2)
        model = pick("Qwen3.6-35B-A3B Qwen3.6-35B-A3B Qwen3-30B-A3B " \
                     "Qwen3.5-9B Qwen3-Next-80B-A3B")
        layers = 4 + below(37)
        if (model == "Qwen3.5-9B" && layers > 32) layers = 32
        cp = pick("1 2 2 4 8")
        ep = model == "Qwen3.5-9B" ? 1 : pick("1 " cp)
        routing = pick("balanced balanced cv=0.5,seed=" below(99) \
                       " cv=1.0,seed=" below(99))
        if (ep > 1 && below(5) == 0) routing = "share=1.2"
        lengths = 500 + below(60000)
        for (i = below(5); i > 0; i--) lengths = lengths "," 500 + below(60000)
        print model, layers, cp, ep, routing, 40 + below(153) "G", lengths
    }'
}

value() { sed -n "/\"simulated\"/,/}/s/.*\"$1\": \([a-z0-9]*\).*/\1/p" fit.json; }

# The case with its lengths scaled to each of the tokens, as fit scales them.
scenario() {
    device=$(sed -n 's/.*"device_bytes": \([0-9]*\).*/\1/p' fit.json)
    awk -v lengths="$lengths" -v tokens="$1" -v routing="$routing" \
        -v head="model = '$model', layers = $layers, cp = $cp, ep = $ep,
        waves = 3, learning_rate = 1e-3, device_bytes = '$device'" '
    BEGIN {
        n = split(lengths, len, ",")
        for (i = 1; i <= n; i++) all += len[i]
        r = "\"balanced\""
        if (split(routing, a, "[=,]") > 1)
            r = a[1] == "cv" ? "{cv = " a[2] ", seed = " a[4] "}" \
                             : "{share = " a[2] ", rank = 0}"
        print "return {cases = {"
        for (k = split(tokens, t, " "); k > 0; k--) {
            for (i = 1; i <= n; i++) {
                l = int(len[i] * t[k] / all)
                list = (i > 1 ? list ", " : "") (l < 1 ? 1 : l)
            }
            print "{name = \"n" k "\", " head ", routing = " r \
                  ", batch = batch.lengths{" list "}},"
        }
        print "}}"
    }' >case.lua
}

runs() {
    scenario "$1"
    peakproof run --totals --out o case.lua >out 2>&1
}

# expect CODE WHAT: how the last run ended.
expect() {
    if [ $rc -eq "$1" ]; then
        good=$((good + 1))
    else
        wrong "$2, and ends with $rc"
    fi
}
wrong() {
    bad=$((bad + 1))
    echo "WRONG: $*: fit --memory $memory --model $model --layers $layers" \
         "--cp $cp --ep $ep --routing $routing --lengths $lengths"
}

good=0 bad=0 fits=0 granted=0 smaller=0 holes=0 i=0
echo "fit-truth: $waves waves, seed $seed"
while [ $i -lt "$waves" ]; do
    i=$((i + 1))
    read -r model layers cp ep routing memory lengths <<END
$(draw "$seed" $i)
END
    peakproof fit --json --memory "$memory" --model "$model" \
        --layers "$layers" --cp "$cp" --ep "$ep" --routing "$routing" \
        --lengths "$lengths" >fit.json 2>err || { wrong "$(cat err)"; continue; }
    all=$(sed -n 's/.*"tokens": \([0-9]*\).*/\1/p' fit.json)
    n=$(value budget_tokens)
    runs "$all"; rc=$?
    if [ "$(value fits)" = true ]; then
        fits=$((fits + 1))
        expect 0 "fits"
    else
        expect 6 "does not fit"
    fi
    [ "$n" -gt 0 ] || continue
    granted=$((granted + 1))
    less=$(awk -v s=$((seed * 1000 + i)) -v n="$n" 'BEGIN {
        x = s % 2147483646 + 1
        for (k = 0; k < 25; k++) {
            x = x * 48271 % 2147483647
            if (k > 4) print n - x % int(n / 100 + 1)
        } }')
    runs "$n"; rc=$?
    expect 0 "is granted $n tokens"
    runs "$less"; rc=$?
    [ $rc -eq 0 ] || [ $rc -eq 6 ] || wrong "20 batches below $n end with $rc"
    h=$(sed -n 's/^[0-9]* cases: \([0-9]*\) out of memory.*/\1/p' out)
    smaller=$((smaller + 20)) holes=$((holes + ${h:=0}))
    [ "$h" -eq 0 ] || echo "hole: $h of 20 below $n of $memory $model" \
        "$layers layers, cp $cp, ep $ep, $routing, $lengths"
    f=$(value first_failure_tokens)
    [ "$f" = null ] && continue
    runs "$f"; rc=$?
    expect 6 "fails first with $f tokens"
done
echo "fit-truth: $waves waves, $fits fit, $granted granted a budget; of" \
     "$smaller smaller batches $holes do not fit"
echo "$good passed, $bad failed"
[ $bad -eq 0 ]
