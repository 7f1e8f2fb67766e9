#!/bin/sh
# usage: run-device.sh BUILD
# tests/device/run.sh rehearsed on the emulated module: every stage leaves a
# line of JSON and a log, whatever ends it; what is left over is done by the
# next call; summary and archive hold what there is. The operators' tests are
# those of BUILD-san; compute-sanitizer is a script that runs its operand. The
# last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# check NAME COMMAND...
check() {
    name=$1
    shift
    if "$@" >/dev/null; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED in the rehearsal: $name"
        tail -n 4 "$scratch/said"
    fi
}

mkdir "$scratch/bin" "$scratch/tests"
for t in moe plain; do
    ln -s "$build-san/cuda/test_cuda_$t" "$scratch/tests/test_cuda_$t"
done
cat >"$scratch/bin/compute-sanitizer" <<'END'
#!/bin/sh
while :; do
    case $1 in --tool) echo "$2"; shift 2 ;; -*) shift 2 ;; *) break ;; esac
done
[ -n "$STAGE_SLEEPS" ] && sleep 30
case $1 in */test_cuda_moe) exit 9 ;; esac
case $1 in */test_cuda_*) exit 0 ;; esac
exec "$@"
END
chmod +x "$scratch/bin/compute-sanitizer"
PATH=$scratch/bin:$PATH
export PATH BUILD="$build" DEVICE_TESTS="$scratch/tests" STAGE_SLEEPS=''

says() { grep -q "$2" "$out/$1"; }
passes() {
    grep -q '"result":"passed","code":0,' "$out/$1.json" && [ -e "$out/$1.log" ]
}

# All stages; a sanitizer that reports errors fails its own stage alone.
out=$scratch/all
sh tests/device/run.sh --dry --archive "$scratch/kept.tgz" "$out" \
    >"$scratch/said" 2>&1
check 'errors end it with 1' [ $? -eq 1 ]
for s in smoke operators tiny layers-8 layers-40 profile kernels \
         program-memcheck two-gpus processes; do
    check "$s" passes $s
done
for s in memcheck racecheck synccheck; do
    check "$s fails" says $s.json '"result":"failed","code":1,'
    check "$s goes on" says $s.log '^1 of 2 programs failed'
    check "$s is asked for" says $s.log "^$s\$"
done
check 'the sum' grep -q '^[0-9]* passed, 3 failed$' "$scratch/said"
check 'the summary' says summary.md '^| racecheck | failed | [0-9]* |$'
check 'its peaks' says summary.md '^layers-40,1,warm,1,[0-9]'
check 'the operators' says summary.md '^attention,[1-9][0-9]*,[0-9.]*$'
check 'the losses' says two-gpus.log 'wave 1: [0-9.]*, cpu [0-9.]*$'
tar tzf "$scratch/kept.tgz" >"$scratch/list"
check 'the archive' grep -q 'all/two-gpus.json' "$scratch/list"

# A stage out of time leaves its line; the rest is left, and done next.
out=$scratch/short
export STAGE_SLEEPS=1
sh tests/device/run.sh --dry --seconds 17 "$out" memcheck smoke \
    >"$scratch/said" 2>&1
export STAGE_SLEEPS=''
check 'a stage before it' passes smoke
check 'out of time' says memcheck.json '"failed","code":124,.*out of time'
check 'the archive in time' tar tzf "$out.tgz"
echo '{"stage":"tiny","result":"failed"}' >"$out/tiny.json"
sh tests/device/run.sh --dry "$out" smoke tiny kernels >"$scratch/said" 2>&1
check 'what is done stays' says tiny.json '"failed"}$'
check 'what is left is done' passes kernels
check 'usage' [ "$(sh tests/device/run.sh 2>&1 | grep -c '^usage')" -eq 1 ]
# What all stages may take fits the time of calls of nine minutes.
awk '/^stages=/ { on = 1; next } on && NF < 3 { exit }
    on { n++; if ($2 > 540) print } END { if (n < 10) print n }' \
    tests/device/run.sh >"$scratch/long"
check 'no stage over nine minutes' [ ! -s "$scratch/long" ]
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
