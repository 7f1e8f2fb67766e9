#!/bin/sh
# usage: run-readme.sh BUILD
# Runs every command of README.md in a fresh folder that has the program
# under build/ and the scenarios under lua/; files that it shows are saved
# under the name in their first line. make and what it needs are run by CI:
# here each target named must exist. The last line is "N passed, N failed".
build=$(cd "$1" && pwd) || exit 1
top=$(pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0
ln -s "$build" "$scratch/build"
ln -s "$top/lua" "$scratch/lua"

awk -v dir="$scratch" '
/^```/ { kind = kind == "" ? substr($0, 4) : ""; name = ""; next }
kind == "sh" { print >(dir "/commands") }
kind == "lua" && name == "" && /^-- / { name = dir "/" substr($0, 4) }
kind == "lua" && name != "" { print >name }
' README.md

while IFS= read -r command <&3; do
    case $command in
    make*)
        # shellcheck disable=SC2086  # the targets, one by one
        out=$(make -n ${command#make} 2>&1) ;;
    *)
        out=$(cd "$scratch" && eval "$command" 2>&1) ;;
    esac
    code=$?
    if [ $code -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED README.md: %s (exit code %s)\n%s\n' "$command" \
            "$code" "$out"
    fi
done 3<"$scratch/commands"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
