# PyTorch snapshots through our allocator.

$ peakproof replay $TOP/tests/fuzz/corpus/snapshot/protocol4 | grep -E '_peak_bytes|_mismatches'
>           "allocated_peak_bytes": 2004878848,
>           "reserved_peak_bytes": 2025848832,
>           "requested_peak_bytes": 2004195916,
>           "active_peak_bytes": 2004879360,
>           "address_mismatches": 0,
>           "segment_mismatches": 0,
>             "block_mismatches": 0
$ for p in 2 3 5; do peakproof replay $TOP/tests/fuzz/corpus/snapshot/protocol$p | grep -c '"allocated_peak_bytes": 2004878848'; done
> 1
> 1
> 1
$ cat $TOP/tests/fuzz/corpus/snapshot/protocol4 | peakproof replay - | grep '"file"'
>       "file": "-",

# 2,000,000,000 B round up to 2^31 in quarters of a power of two.
$ peakproof replay --set roundup_power2_divisions=4 $TOP/tests/fuzz/corpus/snapshot/protocol4 | grep allocated_peak
>           "allocated_peak_bytes": 2151679488,
$ peakproof replay --set limit=1000000000 $TOP/tests/fuzz/corpus/snapshot/protocol4 | grep ooms
>           "ooms": 1,

$ peakproof replay $TOP/tests/fuzz/corpus/snapshot/runs-code
!* peakproof: */runs-code: byte 2: the pickle would make objects or run code; a memory snapshot does not
= 3
$ head -c 100 $TOP/tests/fuzz/corpus/snapshot/protocol4 | peakproof replay -
!* peakproof: -: *
= 3
$ peakproof replay none.pickle
! peakproof: none.pickle: No such file or directory
= 3
$ peakproof replay --set foo=1 none.pickle
!* peakproof: --set: foo: not a setting of the allocator*
= 2
$ peakproof replay --set limit none.pickle
!* peakproof: --set limit: must be key=value*
= 2
$ peakproof replay
!...
= 2

# Histories that PyTorch itself recorded on an H200, and what its own counters
# said beside them (tests/golden/snapshots/README.md).
$ cd $TOP/tests/golden/snapshots; for n in default plain roundup split-limit oom; do gzip -dc $n.pickle.gz | peakproof replay --json - | tr -d ' ,"' >$OLDPWD/ours; for w in allocated reserved requested active; do grep -x "${w}_peak_bytes:$(sed -n "s/.*\"${w}_bytes.all.peak\": \([0-9]*\).*/\1/p" $n.json)" $OLDPWD/ours; done | wc -l; grep -c '_mismatches:0' $OLDPWD/ours; done | xargs
> 4 3 4 3 4 3 4 3 4 3
