#!/bin/sh
# usage: run.sh NVCC [PATCH...]      (what "make planted" runs; make planted
#                                     BUGS='tests/planted/06-*' plants some)
# Plants one bug after another in a copy of the tree and shows that a test
# fails which was not written for it: on emulated threads (with ASan and
# UBSan), on the PTX interpreter, or with the whole program. A patch names
# what to run: "tests: WHERE PROGRAM"; on the other one of the two it is tried
# where the first finds nothing. What is run must pass without a bug, and only
# that is built.
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
rm -f "$work"/passes-*
mkdir -p "$clean"
git ls-files -z | tar --null -cf - -T - | (cd "$clean" && tar xf -)

# build_for FOLDER WHERE PROGRAM: only that.
build_for() {
    folder=$1
    case $2,$3 in
    *,program) set -- all build/emu/peakproof-cuda.so ;;
    emu,*) set -- BUILD=build-san SAN=address,undefined \
               "build-san/cuda/test_cuda_$3" ;;
    ptx,attention | ptx,delta | ptx,moe | ptx,plain)
        set -- NVCC="$nvcc" "build/ptx90/tests/test_cuda_$3" ;;
    *) return 0 ;;
    esac
    (cd "$folder" && make -s -j"$jobs" "$@") >"$log" 2>&1 && return
    echo "  $folder does not build:"
    tail -n 5 "$log"
    return 1
}

# on_emu PROGRAM, on_ptx PROGRAM: whether it passes in the folder $here.
on_emu() {
    [ "$1" != program ] || {
        (cd "$here" && sh tests/run-emu.sh build) >"$log" 2>&1
        return
    }
    (cd "$here" && timeout 300 "build-san/cuda/test_cuda_$1"; exit $?) \
        >"$log" 2>&1
}
on_ptx() {
    [ -x "$here/build/ptx90/tests/test_cuda_$1" ] || return 0
    rm -f "$work/counts"
    (cd "$here" && PTX_COUNTS=$work/counts timeout 300 \
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

# ready WHERE PROGRAM: it is built and passes without a bug, or all ends.
ready() {
    [ ! -e "$work/passes-$1-$2" ] || return 0
    here=$clean
    build_for "$clean" "$1" "$2" || exit 1
    on_"$1" "$2" || {
        echo "planted: $2 fails on $1 without a bug:"
        tail -n 20 "$log"
        exit 1
    }
    : >"$work/passes-$1-$2"
}

# find PATCH: says where it was found.
find_bug() {
    fresh "$1" || return 1
    # shellcheck disable=SC2046
    set -- $(sed -n 's/^tests: //p' "$1") "$1"
    first=$1 program=$2 second=ptx
    [ "$first" = emu ] || second=emu
    for where in $first $second; do
        if [ "$where" = "$second" ]; then
            ready "$second" "$program"
            fresh "$3" || return 1
        fi
        here=$tree
        build_for "$tree" "$where" "$program" || return 1
        on_"$where" "$program" || {
            echo "  $where, $program: $(why)"
            return 0
        }
    done
    echo '  NOT FOUND'
    return 1
}

# fresh PATCH: the tree anew, with the bug.
fresh() {
    rm -rf "$tree" && cp -a "$clean" "$tree"
    # (in a folder of a repository git would pass over the files)
    (cd "$tree" && GIT_CEILING_DIRECTORIES=$work git apply -C1 \
        "$root/$1") || {
        echo '  the patch does not apply: write it anew'
        return 1
    }
}

listed=0 found=0 more=0 more_found=0
for patch in "$@"; do
    number=$(basename "$patch" | sed 's/-.*//; s/^0//')
    from=$(date +%s)
    # shellcheck disable=SC2046
    ready $(sed -n 's/^tests: //p' "$patch")
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
times >"$log"        # user and system time of all that was run
tail -n 1 "$log"
echo "$more_found of $more more found"
echo "$found of $listed found"
[ "$found" -eq "$listed" ] && [ "$more_found" -eq "$more" ]
