#!/bin/sh
# usage: run-make.sh [BUILD]
# What make says on a machine that lacks things: a compiler or headers, apt's
# lock, git (compilers and apt-get are stand-ins), and what it installs. The
# last line is "N passed, N failed".
build=${1:-build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# check NAME COMMAND...
check() {
    name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED make: $name"
        cat "$scratch/said"
    fi
}
said() { grep -qF "$1" "$scratch/said"; }

make BUILD="$scratch/b" CC=no-such-cc >"$scratch/said" 2>&1
check 'no compiler' [ $? -eq 2 ]
check 'says what to do' said "run 'make deps' first"
check 'compiles nothing' [ ! -e "$scratch/b/src" ]
make BUILD="$scratch/b" PKG_CFLAGS=-nostdinc >"$scratch/said" 2>&1
check 'no headers' [ $? -eq 2 ]
check 'names them' said 'lua.h jansson.h cblas.h csv.h'
make have-tests CXX=no-such-c++ >"$scratch/said" 2>&1
check 'no C++ compiler' [ $? -eq 2 ]
check 'says what to do' said "run 'make deps' first"

# An apt-get that finds a lock LOCKED times, and no package installed.
mkdir "$scratch/bin"
cat >"$scratch/bin/apt-get" <<END
#!/bin/sh
echo "\$@" >>$scratch/calls
if [ \$(wc -l <$scratch/calls) -le \$LOCKED ]; then
    echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held.' >&2
    exit 100
fi
exit \$CODE
END
printf '#!/bin/sh\nexit 1\n' >"$scratch/bin/dpkg-query"
printf '#!/bin/sh\nexec "$@"\n' >"$scratch/bin/sudo"
chmod +x "$scratch/bin"/*
# deps LOCKED CODE WAIT
deps() {
    rm -f "$scratch/calls"
    LOCKED=$1 CODE=$2 WAIT=$3 PATH=$scratch/bin:$PATH \
        make deps >"$scratch/said" 2>&1
}
deps 2 0 9
check 'deps waits for a lock' [ $? -eq 0 ]
check 'and asks again' [ "$(grep -c 'update' "$scratch/calls")" = 3 ]
check 'then installs' grep -q ' install .*g++' "$scratch/calls"
check 'and says that it waits' said 'deps: waiting for another apt-get to end'
deps 9 0 1
check 'deps waits no longer than WAIT' [ $? -eq 2 ]
deps 0 100 9
check 'another failure is not waited for' [ $? -eq 2 ]
check 'once' [ "$(wc -l <"$scratch/calls")" = 1 ]

PEAKPROOF_VERSION=v9-test make -p -n clean 2>/dev/null |
    grep '^VERSION :\?= ' >"$scratch/said"
check 'a tree without git is told its version' \
    [ "$(cat "$scratch/said")" = 'VERSION := v9-test' ]

# Into a folder with blanks, from a copy of the build, and out again.
cp -Rp "$build" "$scratch/b2"
cp -p "$build/fake/peakproof-cuda.so" "$scratch/b2" 2>/dev/null ||
    : >"$scratch/b2/peakproof-cuda.so"
to="$scratch/a place/of mine" root="$scratch/a root"
installed() {
    make -s BUILD="$scratch/b2" PREFIX="$to" DESTDIR="$1" "$2" \
        >"$scratch/said" 2>&1
}
check 'install' installed '' install
cp lua/scenarios/template.lua "$to/share/peakproof/scenarios/mine.lua"
"$to/bin/peakproof" list >"$scratch/said" 2>&1
check 'what is installed runs' [ $? -eq 0 ]
check 'and finds its data' said 'pr-accuracy-ep1'
check 'man page' [ -s "$to/share/man/man1/peakproof.1" ]
check 'completion' [ -s "$to/share/bash-completion/completions/peakproof" ]
check 'CUDA module' [ -e "$to/lib/peakproof/peakproof-cuda.so" ]
check 'below DESTDIR' installed "$root" install
check 'too' [ -x "$root$to/bin/peakproof" ]
check 'uninstall below DESTDIR' installed "$root" uninstall
check 'leaves no file' [ -z "$(find "$root" -type f)" ]
check 'uninstall' installed '' uninstall
find "$to" -type f >"$scratch/said"
check 'leaves what is not its own' [ "$(cat "$scratch/said")" = \
    "$to/share/peakproof/scenarios/mine.lua" ]

release=$(sed -n 's/^## \([0-9][0-9.]*\).*/\1/p' CHANGELOG.md | head -n 1)
"$build/peakproof" version >"$scratch/said"
check 'the release of CHANGELOG.md' said "peakproof $release ("
tag=$(git describe --tags --exact-match 2>/dev/null) || tag=v$release
check 'and of the tag, where there is one' [ "$tag" = "v$release" ]
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
