#!/bin/sh
# usage: run.sh BUILD    (what "make test" runs, once BUILD, BUILD-san, the same
#                         with ASan and UBSan, and BUILD-tsan, those tests
#                         that run threads with TSan, are built)
# Runs every part of the tests, as many beside each other as there are cores,
# and tells of them in the order below. A part prints what failed and, last, a
# line "N passed, N failed" (", N skipped"); a part that does not counts as one
# failure. The last line of all is the sum.
build=$1
export build
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1

# A name and a command each. Long ones come first, so that none is left to run
# by itself when the others have ended.
beside() {
    cat <<'END'
unit, sanitized|sh tests/run-unit.sh "$build-san"
command line, sanitized|sh tests/run-cli.sh "$build-san"
cuda, emulated|sh tests/run-unit.sh "$build-san" cuda
unit|sh tests/run-unit.sh "$build"
unit, threads|sh tests/run-unit.sh "$build-tsan"
faults|sh tests/run-faults.sh "$build"
scenarios, sanitized|sh tests/run-scenarios.sh "$build-san" - template fallbacks
command line|sh tests/run-cli.sh "$build"
readme|sh tests/run-readme.sh "$build"
report|sh tests/run-report.sh "$build"
cuda, interpreted|sh tests/ptx/run.sh "$build/ptx90" "$NVCC"
cuda, tensor cores|sh tests/run-ptx.sh "$NVCC"
fuzz corpus, sanitized|sh tests/run-corpus.sh "$build-san"
fit, held to run|sh tests/fit-truth.sh "$build" 4
cuda, the program|sh tests/run-emu.sh "$build"
cuda, a wave counted|sh tests/wave/run.sh "$build"
html|sh tests/run-html.sh "$build"
lint|env BUILD="$build" sh tests/lint.sh
lists|sh tests/run-lists.sh
make|sh tests/run-make.sh "$build"
END
}

# These wait more than they compute, and some moments are theirs to choose: a
# stage out of time, a rank interrupted while it waits, a run killed within the
# time that it took before. When the others have ended two of them at a time
# are a machine's whole load.
after() {
    cat <<'END'
device, rehearsed|sh tests/run-device.sh "$build"
processes|sh tests/run-processes.sh "$build"
kills|sh tests/run-kills.sh "$build"
END
}

# Part N of both lists: what it says is in $out/N, how it ended in N.code.
if [ "${2:-}" = -part ]; then
    eval "$({ beside; after; } | sed -n "$3s/^[^|]*|//p")" </dev/null \
        >"$out/$3" 2>&1
    echo $? >"$out/$3.code"
    echo "$3"
    exit
fi

# show N: what part N said, if it failed, and its line.
show() {
    name=$({ beside; after; } | sed -n "$1s/|.*//p")
    said=$out/$1
    : >>"$said"
    code=$(cat "$said.code" 2>/dev/null)
    last=$(tail -n 1 "$said")
    counts='^\([0-9]*\) passed, \([0-9]*\) failed\(, \([0-9]*\) skipped\)*$'
    p=$(echo "$last" | sed -n "s/$counts/\1/p")
    f=$(echo "$last" | sed -n "s/$counts/\2/p")
    s=$(echo "$last" | sed -n "s/$counts/\4/p")
    if [ -z "$p" ] || { [ "$code" != 0 ] && [ "$f" -eq 0 ]; }; then
        p=${p:-0}
        f=1
        echo "part '$name' ended with exit code ${code:-unknown} and no count" \
            'of its own'
    elif [ "$((p + f + ${s:-0}))" -eq 0 ]; then
        f=1
        echo "part '$name' checked nothing"
    fi
    [ "$f" -eq 0 ] || cat "$said"
    grep 'not checked$\|^kills: \|^faults: ' "$said"
    printf '%-24s %s passed, %s failed%s\n' "$name" "$p" "$f" \
        "${s:+, $s skipped}"
    passed=$((passed + p))
    failed=$((failed + f))
    skipped=$((skipped + ${s:-0}))
}

out=$(mktemp -d)
export out
trap 'rm -rf "$out"' EXIT
many=$(beside | wc -l)
all=$({ beside; after; } | wc -l)
cores=$(nproc)
{
    seq "$many" | xargs -n 1 -P "$cores" sh "$0" "$build" -part
    seq $((many + 1)) "$all" |
        xargs -n 1 -P $((cores > 1 ? 2 : 1)) sh "$0" "$build" -part
} | {
    passed=0 failed=0 skipped=0 next=1
    while read -r _; do
        while [ -s "$out/$next.code" ]; do
            show $next
            next=$((next + 1))
        done
    done
    # Should one have been killed: it and what was not begun then.
    while [ $next -le "$all" ]; do
        show $next
        next=$((next + 1))
    done
    [ $skipped -gt 0 ] && skipped=", $skipped skipped" || skipped=
    echo "$passed passed, $failed failed$skipped"
    [ "$failed" -eq 0 ]
}
