#!/bin/sh
# usage: run-cli.sh BUILD [tests/cli/NAME.t...]
# Runs command-line transcripts, each in an empty folder of its own, where
# "peakproof" is the program of BUILD and $TOP the source tree:
#
#   # text        a comment; empty lines are free too
#   + FILE        writes FILE from the lines that follow
#   | text        a line of it
#   $ command     runs a shell line; what is expected of it follows:
#   $* command    the same, but not of a sanitized program: it takes seconds,
#                 and what it executes shorter ones of the file execute too
#   > text        a line of standard output
#   >* pattern    the same, as a shell pattern
#   >...          any further lines
#   ! text        a line of standard error; also !* and !...
#   = N           the exit code; 0 when not given
#
# A command counts as one check. The last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
shift
TOP=$(pwd)
[ $# -gt 0 ] || set -- tests/cli/*.t
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 sanitized=
PATH=$build:$PATH LC_ALL=C
export TOP PATH LC_ALL
unset PEAKPROOF_DATA PEAKPROOF_MODULE_PATH NO_COLOR POSIXLY_CORRECT

# same EXPECTED GOT: does what came fit what was expected, line by line?
same() {
    exec 3<"$1" 4<"$2"
    while IFS= read -r want <&3; do
        [ "$want" != '.' ] || return 0
        IFS= read -r got <&4 || return 1
        # shellcheck disable=SC2254  # a pattern is meant
        case $want in
        =*) [ "$got" = "${want#=}" ] || return 1 ;;
        \**) case $got in ${want#\*}) ;; *) return 1 ;; esac ;;
        esac
    done
    ! IFS= read -r got <&4 && [ -z "$got" ]
}

! grep -q __asan_init "$build/peakproof" || sanitized=1

# Compares what the last command gave with what the file said.
finish() {
    [ -n "$command" ] || return 0
    if [ "$code" = "$got_code" ] && same "$scratch/want1" "$scratch/out" &&
        same "$scratch/want2" "$scratch/err"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $file:$at: \$ $command"
        echo "  exit code $got_code, expected $code"
        head -n 40 "$scratch/out" | sed 's/^/  > /'
        head -n 40 "$scratch/err" | sed 's/^/  ! /'
    fi
    command=
}

# expect STREAM TEXT: one expected line, what follows > or !.
expect() {
    case $2 in
    ...) echo . ;;
    '* '*) echo "*${2#??}" ;;
    ' '*) echo "=${2# }" ;;
    '') echo '=' ;;
    *) echo "$file:$line: not understood" >&2; exit 2 ;;
    esac >>"$scratch/want$1"
}

for file; do
    rm -rf "$scratch/work"
    mkdir "$scratch/work"
    command='' line=0
    while IFS= read -r text || [ -n "$text" ]; do
        line=$((line + 1))
        case $text in
        '' | '#'*) ;;
        '+ '*)
            finish
            name=$scratch/work/${text#??}
            mkdir -p "$(dirname "$name")"
            : >"$name" ;;
        '|'*)
            text=${text#?}
            printf '%s\n' "${text# }" >>"$name" ;;
        '$ '* | '$* '*)
            finish
            code=0
            : >"$scratch/want1"
            : >"$scratch/want2"
            case $text in '$* '*) [ -z "$sanitized" ] || continue ;; esac
            command=${text#* } at=$line
            (cd "$scratch/work" && eval "$command") </dev/null \
                >"$scratch/out" 2>"$scratch/err"
            got_code=$? ;;
        '>'*) expect 1 "${text#?}" ;;
        '!'*) expect 2 "${text#?}" ;;
        '= '*) code=${text#??} ;;
        *) echo "$file:$line: not understood: $text" >&2; exit 2 ;;
        esac
    done <"$file"
    finish
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
