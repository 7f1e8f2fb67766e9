#!/bin/sh
# usage: run.sh BUILD    (what "make test" runs, once BUILD, BUILD-san, the same
#                         with ASan and UBSan, and BUILD-tsan, those tests
#                         that run threads with TSan, are built)
# Runs every part of the tests. A part prints what failed and, last, a line
# "N passed, N failed" (", N skipped"); a part that does not counts as one
# failure. The last line of all is the sum.
build=$1
out=$(mktemp)
trap 'rm -f "$out"' EXIT
passed=0 failed=0 skipped=0
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1

# part NAME COMMAND...
part() {
    name=$1
    shift
    "$@" </dev/null >"$out" 2>&1
    code=$?
    last=$(tail -n 1 "$out")
    counts='^\([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)*$'
    p=$(echo "$last" | sed -n "s/$counts/\1/p")
    f=$(echo "$last" | sed -n "s/$counts/\2/p")
    s=$(echo "$last" | sed -n "s/$counts/\4/p")
    if [ -z "$p" ] || { [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; }; then
        p=${p:-0}
        f=1
        echo "part '$name' ended with exit code $code and no count of its own"
    fi
    [ "$f" -eq 0 ] || cat "$out"
    grep 'not checked$\|^kills: \|^faults: ' "$out"
    printf '%-24s %s passed, %s failed%s\n' "$name" "$p" "$f" \
        "${s:+, $s skipped}"
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + ${s:-0}))
}

part 'lint' env BUILD="$build" sh tests/lint.sh
part 'lists' sh tests/run-lists.sh
part 'make' sh tests/run-make.sh "$build"
part 'unit' sh tests/run-unit.sh "$build"
part 'unit, sanitized' sh tests/run-unit.sh "$build-san"
part 'cuda, emulated' sh tests/run-unit.sh "$build-san" cuda
part 'cuda, tensor cores' sh tests/run-ptx.sh "$NVCC"
part 'cuda, interpreted' sh tests/ptx/run.sh "$build/ptx90" "$NVCC"
part 'unit, threads' sh tests/run-unit.sh "$build-tsan"
part 'fuzz corpus, sanitized' sh tests/run-corpus.sh "$build-san"
part 'command line' sh tests/run-cli.sh "$build"
part 'command line, sanitized' sh tests/run-cli.sh "$build-san"
part 'scenarios, sanitized' sh tests/run-scenarios.sh "$build-san" - template \
    fallbacks
part 'cuda, the program' sh tests/run-emu.sh "$build"
part 'cuda, a wave counted' sh tests/wave/run.sh "$build"
part 'device, rehearsed' sh tests/run-device.sh "$build"
part 'processes' sh tests/run-processes.sh "$build"
part 'kills' sh tests/run-kills.sh "$build"
part 'faults' sh tests/run-faults.sh "$build"
part 'html' sh tests/run-html.sh "$build"
part 'fit, held to run' sh tests/fit-truth.sh "$build" 4
part 'readme' sh tests/run-readme.sh "$build"
part 'report' sh tests/run-report.sh "$build"
[ $skipped -gt 0 ] && skipped=", $skipped skipped" || skipped=
echo "$passed passed, $failed failed$skipped"
[ "$failed" -eq 0 ]
