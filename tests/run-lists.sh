#!/bin/sh
# usage: run-lists.sh    (CC and PKG_CFLAGS come from the Makefile)
# Every list of the program stands in one place. Each check plants the mistake
# that a second place would allow into a copy of that one, and the compiler
# must refuse it; the same line unchanged must compile. The last line is
# "N passed, N failed".
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0

# compiles FILE: with the copies in $scratch before the tree's.
compiles() {
    # shellcheck disable=SC2086
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L \
        -D_DEFAULT_SOURCE -I"$scratch" -I. -Isrc $PKG_CFLAGS -fsyntax-only \
        "$1" 2>"$scratch/said"
}

# plant NAME HEADER SED FILE: FILE compiles; with HEADER changed it must not.
plant() {
    mkdir -p "$scratch/${2%/*}"
    cp "src/$2" "$scratch/$2"
    compiles "$4" || { echo "FAILED lists: $1: $4 does not compile"
        cat "$scratch/said"; failed=$((failed + 1)); return; }
    sed "$3" "src/$2" >"$scratch/$2"
    if cmp -s "src/$2" "$scratch/$2"; then
        echo "FAILED lists: $1: the mistake was not planted in $2"
        failed=$((failed + 1))
    elif compiles "$4"; then
        echo "FAILED lists: $1: compiles"
        failed=$((failed + 1))
    else
        passed=$((passed + 1))
    fi
    rm "$scratch/$2"
}

plant 'a category without a name' base/category.h \
    's/X(GDN, "gdn", GDN,/X(PLANTED) X(GDN, "gdn", GDN,/' src/base/category.c
plant 'a category that is part of no bar' base/category.h \
    's/X(GDN, "gdn", GDN,/X(GDN, "gdn", NONE,/' src/base/category.c
plant 'a category that stands twice' base/category.h \
    's/X(GDN, "gdn", GDN,/X(HEAD, "gdn", GDN,/' src/base/category.c
plant 'a bar without a colour' base/category.h \
    's/X(GDN, "GDN", "#117733")/X(GDN, "GDN")/' src/base/category.c
plant 'a kernel that the cpu device lacks' dev/kernel.h \
    's/ X(add) / X(add) X(planted) /' src/dev/cpu/f32.c
plant 'a kernel that the step calls and the list lacks' dev/kernel.h \
    's/ X(swiglu) / /' src/step/shared.c
plant 'a phase without a name' mem/mem.h \
    's/X(HEAD, "head")/X(HEAD)/' src/mem/trace.c
plant 'a status without a name' record/record.h \
    's/X(OOM, "oom")/X(OOM)/' src/record/columns.c
plant 'a column whose member is of another type' record/read.h \
    's/    int64_t allocated, requested,/    double allocated; int64_t requested,/' \
    src/record/columns.c
plant 'a column without a member' record/record.h \
    's/ X(hybridep_bytes)//' src/record/columns.c
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
