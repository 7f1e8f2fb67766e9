#!/bin/sh
# usage: run.sh NVCC [PATCH...]      (what "make planted" runs; make planted
#                                     BUGS='tests/planted/06-*' plants some)
# Plants one bug after another in a copy of the tree and shows that a test
# fails which was not written for it: on emulated threads (with ASan and
# UBSan), on the PTX interpreter, or with the whole program. A patch names
# what to run: "tests: WHERE PROGRAM"; on the other one of the two it is tried
# where the first finds nothing. Without a bug all of that must pass.
# The bugs 01 to 18 are a reading's; those from 19 on were chosen once the
# tests were written. The last line is "18 of 18 found".
nvcc=$1
shift
[ $# -gt 0 ] || set -- tests/planted/*.patch
[ -n "$nvcc" ] || { echo 'planted: no nvcc: skipped'; exit 2; }
root=$(pwd)
work=$root/build-planted
jobs=$(nproc 2>/dev/null || echo 1)
clean=$work/clean tree=$work/tree log=$work/log
mkdir -p "$clean"
git ls-files -z | tar --null -cf - -T - | (cd "$clean" && tar xf -)

# build FOLDER: everything that a bug may show in.
build() {
    (cd "$1" && make -s -j"$jobs" BUILD=build-san SAN=address,undefined \
        emu-programs && make -s -j"$jobs" all build/emu/peakproof-cuda.so \
        ptx-programs NVCC="$nvcc") >"$log" 2>&1 && return
    echo 'planted: does not build:'
    tail -n 20 "$log"
    return 1
}

# on_emu PROGRAM, on_ptx PROGRAM: whether it passes in the tree.
on_emu() {
    [ "$1" != program ] || {
        (cd "$tree" && sh tests/run-emu.sh build) >"$log" 2>&1
        return
    }
    (cd "$tree" && timeout 300 "build-san/cuda/test_cuda_$1"; exit $?) \
        >"$log" 2>&1
}
on_ptx() {
    [ -x "$tree/build/ptx90/tests/test_cuda_$1" ] || return 0
    rm -f "$work/counts"
    (cd "$tree" && PTX_COUNTS=$work/counts timeout 300 \
        "build/ptx90/tests/test_cuda_$1"; exit $?) >"$log" 2>&1 || return 1
    # as tests/ptx/run.sh: no conflict in ldmatrix
    awk -F '\t' '$15 > 0 { bad = 1; print $1 " meets conflicts in ldmatrix" }
                 END { exit bad }' "$work/counts" >>"$log"
}

# What the log says of it, in a line.
why() {
    grep -m 1 -E 'ptx: |ERROR: |emu: |emu nccl|conflicts in|runtime error|FAILED' \
        "$log" | cut -c 1-110
}

build "$clean" || exit 1
rm -rf "$tree" && cp -a "$clean" "$tree"
sed -n 's/^tests: [a-z]* //p' "$@" | sort -u | while read -r program; do
    for where in emu ptx; do
        on_$where "$program" && continue
        echo "planted: $program fails on $where without a bug:"
        tail -n 20 "$log"
        exit 1
    done
done || exit 1

# find PATCH: says where it was found.
find_bug() {
    rm -rf "$tree" && cp -a "$clean" "$tree"
    # (in a folder of a repository git would pass over the files)
    (cd "$tree" && GIT_CEILING_DIRECTORIES=$work git apply -C1 \
        "$root/$1") || {
        echo '  the patch does not apply: write it anew'
        return 1
    }
    # shellcheck disable=SC2046
    set -- $(sed -n 's/^tests: //p' "$1")
    first=$1 program=$2 second=ptx
    [ "$first" = emu ] || second=emu
    build_for "$first" "$program" || return 1
    on_"$first" "$program" || { echo "  $first, $program: $(why)"; return 0; }
    build_for "$second" "$program" || return 1
    on_"$second" "$program" || { echo "  $second, $program: $(why)"; return 0; }
    echo '  NOT FOUND'
    return 1
}

# build_for WHERE PROGRAM: only that.
build_for() {
    case $1,$2 in
    *,program) set -- all build/emu/peakproof-cuda.so ;;
    emu,*) set -- BUILD=build-san SAN=address,undefined \
               "build-san/cuda/test_cuda_$2" ;;
    ptx,attention | ptx,delta | ptx,moe | ptx,plain)
        set -- NVCC="$nvcc" "build/ptx90/tests/test_cuda_$2" ;;
    *) return 0 ;;
    esac
    (cd "$tree" && make -s -j"$jobs" "$@") >"$log" 2>&1 && return
    echo '  with the bug the tree does not build:'
    tail -n 5 "$log"
    return 1
}

listed=0 found=0 more=0 more_found=0
for patch in "$@"; do
    number=$(basename "$patch" | sed 's/-.*//; s/^0//')
    from=$(date +%s)
    said=$(find_bug "$patch") && rc=0 || rc=1
    echo "$(basename "$patch" .patch): $(sed -n 1p "$patch")" \
        "($(($(date +%s) - from)) s)"
    echo "$said"
    if [ "$number" -le 18 ]; then
        listed=$((listed + 1)) found=$((found + 1 - rc))
    else
        more=$((more + 1)) more_found=$((more_found + 1 - rc))
    fi
done
rm -rf "$tree"
echo "$more_found of $more more found"
echo "$found of $listed found"
[ "$found" -eq "$listed" ] && [ "$more_found" -eq "$more" ]
