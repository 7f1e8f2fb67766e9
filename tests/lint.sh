#!/bin/sh
# shellcheck disable=SC2086,SC2046  # lists of file names without blanks
# Checks that the compiler does not make: which module includes which, sizes,
# words that mean unfinished work, scripts. Each check prints what it found
# and counts once; the last line is "N passed, N failed". BUILD, CC and
# PKG_CFLAGS come from the Makefile. A tool that is missing skips its check, and
# says so.
LC_ALL=C
export LC_ALL
passed=0 failed=0
found=$(mktemp)
trap 'rm -f "$found"' EXIT

# check NAME: passes when the command just run wrote nothing to $found.
check() {
    if [ -s "$found" ]; then
        echo "lint: $1:"
        sed 's/^/  /' "$found"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
}

sources=$(find src bench cuda tests -name '*.[ch]' -o -name '*.cu' \
    -o -name '*.cuh' -o -name '*.cpp' | LC_ALL=C sort)
scripts=$(find tests -name '*.sh' | LC_ALL=C sort; echo .ci/run)
luas=$(find lua -name '*.lua' | LC_ALL=C sort)

# One line a module: itself, then the modules whose headers it may include.
awk -v out="$found" '
BEGIN {
    n = split("base:;" \
        "model:base;" \
        "batch:base;" \
        "mem:base;" \
        "snapshot:base mem;" \
        "dev:base mem;" \
        "comm:base dev;" \
        "plan:base model batch;" \
        "price:base model batch plan;" \
        "step:base model batch plan mem dev comm;" \
        "script:base model batch plan price;" \
        "record:base model plan price mem;" \
        "report:base model plan price record;" \
        "run:base model batch plan price step script record mem snapshot " \
            "dev comm;" \
        "fit:base model batch plan price step script record mem snapshot " \
            "dev comm run;" \
        "bench:base model batch plan price step script record mem " \
            "snapshot dev comm report run fit", line, ";")
    for (i = 1; i <= n; i++) {
        split(line[i], part, ":")
        known[part[1]] = 1
        m = split(part[2], word, " ")
        may[part[1], part[1]] = 1
        for (j = 1; j <= m; j++) may[part[1], word[j]] = 1
    }
}
/^#include "/ {
    split(FILENAME, path, "/")
    from = path[1] == "src" ? path[2] : path[1]
    name = $2
    gsub(/"/, "", name)
    if (index(name, "/") == 0) next
    to = name
    sub(/\/.*/, "", to)
    if (!known[from] || !may[from, to])
        print FILENAME ":" FNR ": " from " must not include " name >out
}' $(echo "$sources" | grep '^src/\|^bench/')
check 'include arrows'

# What differs by machine is not kept.
git ls-files -ci --exclude-standard >"$found" 2>/dev/null
check 'no file is both kept and ignored'

# Circles of units by their headers, and by symbols where objects lie; and
# what they show to no use.
objects=
[ -z "$BUILD" ] || [ ! -d "$BUILD/src" ] || objects=$BUILD
sh tests/circles.sh . "$objects" >"$found" 2>&1
check 'no circle of more than two units'
if [ -n "$objects" ]; then
    sh tests/unused.sh . "$objects" >"$found" 2>&1
    check 'every name that a file shows is used'
    sh tests/prefixes.sh . "$objects" >"$found" 2>&1
    check 'a prefix belongs to one room'
else
    echo 'lint: no objects: symbols not checked'
fi

sh tests/faces.sh . >"$found" 2>&1
check 'what is inside a room is not included from others'

# Three files that need each other by both, beside two that do; a name that
# nothing uses, one for its own file and one for a test.
planted=$(mktemp -d)
mkdir "$planted/src" "$planted/bench" "$planted/cuda" "$planted/tests"
(
    cd "$planted" || exit
    for x in a b c d e; do echo "int $x(void);" >"src/$x.h"; done
    for pair in 'a b' 'b c' 'c a' 'd e' 'e d'; do
        x=${pair% *} y=${pair#* }
        printf '#include "%s.h"\nint %s(void) { return %s(); }\n' \
            "$y" "$x" "$y" >"src/$x.c"
    done
    printf '/* dead */\nint dead(void) { return 1; }\n%s\n%s\n%s\n' \
        'int own(void) { return 2; }' 'int seen(void) { return 3; }' \
        'int e(void) { return own() + seen() + d(); }' >>"src/e.c"
    sed -i '/return d();/d' src/e.c
    echo 'int f(void) { return seen(); }' >tests/f.c
    for x in a b c d e; do
        ${CC:-cc} -Isrc -c -o "src/$x.o" "src/$x.c"
    done
)
sh tests/circles.sh "$planted" . >"$found" 2>&1
sh tests/unused.sh "$planted" . >>"$found" 2>&1
mkdir "$planted/src/one" "$planted/src/two"
(
    cd "$planted" || exit
    for x in one two; do
        echo "int all_$x(void) { return 1; }" >"src/$x/$x.c"
        ${CC:-cc} -c -o "src/$x/$x.o" "src/$x/$x.c"
    done
)
sh tests/prefixes.sh "$planted" . >>"$found" 2>&1
printf '/* Inside src/one. */\n' >"$planted/src/one/in.h"
echo '#include "one/in.h"' >"$planted/src/two/out.h"
sh tests/faces.sh "$planted" | grep two >>"$found"
rm -r "$planted"
diff - "$found" >"$found.diff" <<'END'
includes: 3 units: src/a src/b src/c
symbols: 3 units: src/a src/b src/c
src/e.c: nothing in the program uses dead
src/e.c: its own file alone uses own: static
all_: one two
src/one/in.h: is inside, and src/two/out.h includes it
src/two/out.h: no other room sees it: Inside src/two.
END
mv "$found.diff" "$found"
check 'circles, unused names, shared prefixes, wrong faces are found'

for h in $(echo "$sources" | grep '^src/.*\.h$\|^bench/.*\.h$'); do
    # shellcheck disable=SC2086
    printf '#include "%s"\n' "$h" | ${CC:-cc} -std=c11 -Wall -Wextra -Werror \
        -D_POSIX_C_SOURCE=200809L -D_DEFAULT_SOURCE -I. -Isrc $PKG_CFLAGS \
        -fsyntax-only -x c - || echo "$h does not compile alone"
done >"$found" 2>&1
check 'headers compile alone'

awk 'FNR == 601 { print FILENAME ": more than 600 lines" }' $sources >"$found"
check 'length of files'

awk 'length > 80 { print FILENAME ":" FNR ": " length " columns" }
     /\t/ { print FILENAME ":" FNR ": a tab" }
     /[ ]$/ { print FILENAME ":" FNR ": blanks at the end" }' $sources $luas \
    >"$found"
check 'lines: 80 columns, no tabs, no trailing blanks'

# What comments cite is a text in the tree, or what `report` saves by its name.
texts=$(find src bench cuda reports/published -name '*.md' | LC_ALL=C sort)
pages=$(awk 'match($0, /^    [{]"[a-z]*", "[a-z]*",/) ||
             match($0, /^#define DETAILS "[a-z]*"/) ||
             match($0, /save_doc\(w, &d, "[a-z]*"/) {
                 n = split(substr($0, RSTART, RLENGTH), part, "\"")
                 printf "%s ", part[n - 1]
             }' src/report/report.c)
citations() {
    awk -v pages="$pages" -f tests/citations.awk $texts "$@"
}
citations $sources >"$found"
check 'what comments cite is in the tree'

# Paths that the page for the next person names, with a folder in them.
# shellcheck disable=SC2016  # the backquotes are the page's
grep -oE '`[A-Za-z.]+(/[A-Za-z0-9_.-]+)+`' src/README.md | tr -d '`' |
    sort -u | while read -r path; do
    case $path in
    bench/cmd_NAME.c | build/*) ;;
    *) [ -e "$path" ] || echo "src/README.md: no $path in the tree" ;;
    esac
done >"$found"
check 'paths of src/README.md'

# Of seven planted citations four are wrong; the check has to name these.
planted=$(mktemp)
cat >"$planted" <<'END'
/* (model.md 2.2, 3.5 to 3.99; pricing.md 12, rows 54, 999), accuracy.md,
** nowhere.md 1; section numbers are planner.md's: 7.1, 7.77 */
END
citations "$planted" | sed 's/.*: //' >"$found"
rm "$planted"
diff "$found" - >"$found.diff" <<'END'
model.md has no section 3.99
pricing.md 12 has no row 999
no nowhere.md in the tree
planner.md has no section 7.77
END
mv "$found.diff" "$found"
check 'a wrong citation is found'

words='TODO|FIXME|XXX|HACK|not implemented|unimplemented|placeholder|stub'
grep -nwEi "$words" $(echo "$sources" | grep -v '^tests/') $luas >"$found"
check 'words that mean unfinished work'

if command -v ctags >/dev/null && ctags --version | grep -q Universal; then
    ctags --languages=C --kinds-C=f --fields=+ne -f - \
        $(echo "$sources" | grep '^src/\|^bench/') | awk -F'\t' '{
            for (i = 4; i <= NF; i++) {
                if ($i ~ /^line:/) from = substr($i, 6)
                if ($i ~ /^end:/) to = substr($i, 5)
            }
            if (to - from >= 60)
                print $2 ":" from ": " $1 " has " to - from + 1 " lines"
        }' >"$found"
    check 'functions: 60 lines'

    # From the first line of its head to its last.
    ctags --languages=C --kinds-C=f --fields=+ne -f - \
        $(echo "$sources" | grep '^src/\|^bench/') | awk -F'\t' '
        /\tfile:/ {
            for (i = 4; i <= NF; i++) {
                if ($i ~ /^line:/) from = substr($i, 6) + 0
                if ($i ~ /^end:/) to = substr($i, 5) + 0
            }
            if (to - from < 20) next
            if ($2 != file) {
                n = 0
                while ((getline line[++n] <$2) > 0) {}
                close($2)
                file = $2
            }
            while (from > 1 && line[from - 1] ~ /^[a-z ].*[^;{}\/]$/) from--
            if (line[from - 1] !~ /\*\/$/)
                print $2 ":" from ": " $1 " does not say why it exists"
        }' >"$found"
    check 'static functions over 20 lines say why they exist'
else
    echo 'lint: no Universal Ctags: length of functions not checked'
fi

if command -v shellcheck >/dev/null; then
    shellcheck $scripts >"$found" 2>&1
    check 'shellcheck'
else
    echo 'lint: no shellcheck: scripts not checked'
fi

if command -v luacheck >/dev/null && [ -n "$luas" ]; then
    luacheck --no-color -q --std lua54 --read-globals batch cross csv estimator \
        --max-line-length 80 -- $luas >"$found" 2>&1 && : >"$found"
    check 'luacheck'
elif [ -n "$luas" ]; then
    echo 'lint: no luacheck: scenarios not checked'
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
