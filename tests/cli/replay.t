# PyTorch snapshots: what held the memory, and our allocator beside the record.

$ peakproof replay $TOP/tests/golden/snapshots/composition.pickle
>* */composition.pickle, device 0: 9 events, default settings
>   predicted: every block and segment where it was recorded
>   bytes                     peak                 end
>   allocated          524,288,000         209,715,200
>   reserved           524,288,000         524,288,000
>   requested          524,288,000         209,715,200
>   active             524,288,000         209,715,200
> 
>   at the peak, event 3 of 9: 524,288,000 B allocated
>          314,572,800   60.0 %  attention (model.py:20)
>          209,715,200   40.0 %  mlp (model.py:30)
>   largest blocks then:
>          314,572,800  event 1  attention (model.py:20)
>          209,715,200  event 3  mlp (model.py:30)
> 
>   at the end: 209,715,200 B allocated
>          209,715,200  100.0 %  adam (model.py:40)

# Groups, points, growth.

$ cp $TOP/tests/golden/snapshots/composition.pickle c.pickle; peakproof replay --by module --at 8 --at time=1700000000057000 c.pickle | grep -A1 '^  at'
>   at the peak, event 3 of 9: 524,288,000 B allocated
>          524,288,000  100.0 %  model  x 2
> --
>   at the point, event 8 of 9: 209,715,200 B allocated
>          209,715,200  100.0 %  model
> --
>   at the point, event 1 of 9: 314,572,800 B allocated
>          314,572,800  100.0 %  model
> --
>   at the end: 209,715,200 B allocated
>          209,715,200  100.0 %  model
$ for by in file category size stream pool age; do peakproof replay --by $by c.pickle | sed -n '10,11p'; done
>          524,288,000  100.0 %  model.py  x 2
>   largest blocks then:
>          524,288,000  100.0 %  (no category)  x 2
>   largest blocks then:
>          314,572,800   60.0 %  314572800 B
>          209,715,200   40.0 %  209715200 B
>          524,288,000  100.0 %  stream 0  x 2
>   largest blocks then:
>          524,288,000  100.0 %  pool (0, 0)  x 2
>   largest blocks then:
>          524,288,000  100.0 %  under 10 events  x 2
>   largest blocks then:
$ peakproof replay --since 3 c.pickle | sed -n '/growth/,$p'
>   growth from event 3 to the end: -314,572,800 B
>         -314,572,800  attention (model.py:20)
>          209,715,200  adam (model.py:40)
>         -209,715,200  mlp (model.py:30)
$ peakproof replay --since 1 --at 3 c.pickle | sed -n '/growth/,$p'
>   growth from event 1 to event 3: 209,715,200 B
>          209,715,200  mlp (model.py:30)
+ groups
| # the mixer and the rest
| mixer: attention (
| rest: model.py:[3-9]*)
$ peakproof replay --patterns groups c.pickle | sed -n '10,11p'
>          314,572,800   60.0 %  mixer
>          209,715,200   40.0 %  rest
$ (printf '\357\273\277'; sed 1d groups) >mark; peakproof replay --patterns mark c.pickle | sed -n '10,11p'
>          314,572,800   60.0 %  mixer
>          209,715,200   40.0 %  rest
$ peakproof replay --rows 1 c.pickle | sed -n '10,11p'
>          314,572,800   60.0 %  attention (model.py:20)
>          209,715,200   40.0 %  in 1 more (--rows 0 shows all)
$ peakproof replay --at 9 c.pickle
!* peakproof: replay: c.pickle: '9' is no point of device 0 (0 to 8, *
= 2
$ peakproof replay --at oom c.pickle
! peakproof: replay: c.pickle: device 0: no out-of-memory was recorded
= 2
$ echo nothing >bad; peakproof replay --patterns bad c.pickle
! peakproof: bad:1: must be GROUP: PATTERN
= 3
$ printf 'a: b\n\0c: d\n' >bad; peakproof replay --patterns bad c.pickle
! peakproof: bad: holds a NUL byte, so it is no text
= 3
$ peakproof replay --patterns groups --by file c.pickle
! peakproof: replay: --by or --patterns, not both
= 2

# What must be known first.

$ for f in no-trace ring-overflow oom-recorded private-pool conf-throw; do peakproof replay $TOP/tests/golden/snapshots/$f.pickle | grep '!'; done
>*   ! no history was recorded: a state, without a peak (to record one: *
>*   ! the ring buffer overflowed (3 entries kept): peaks are of the last 3 events only; before, allocated may have been up to 1,048,576,000 B (reserved)*
>   ! out of memory at event 2: forward (model.py:10) asked 41,943,040 B with 20,971,520 B free on the device; 62,914,560 B allocated, 62,914,560 B reserved
>   ! not predicted, but followed as recorded: private pools (CUDA graphs)
>   ! throw_on_cudamalloc_oom:True decided nothing: no out-of-memory and no freed segment
$ f=$TOP/tests/golden/snapshots/oom-recorded.pickle; peakproof replay --json $f | grep '"ooms"'; peakproof replay --json --set limit=1G $f | grep '"ooms"'; peakproof replay --json --set limit=60M $f | grep '"ooms"'
>           "ooms": 1,
>           "ooms": 0,
>           "ooms": 1,

# Every protocol, from a file or a pipe.

$ for p in 2 3 4 5; do peakproof replay --json $TOP/tests/fuzz/corpus/snapshot/protocol$p | grep -cE '"allocated_peak_bytes": 2004878848|_mismatches": 0'; done
> 5
> 5
> 5
> 5
$ cat $TOP/tests/fuzz/corpus/snapshot/protocol4 | peakproof replay --json - | grep '"file"'
>       "file": "-",
$ gzip -c c.pickle | peakproof replay -
! peakproof: -: byte 0: compressed by gzip (zcat FILE | peakproof replay -)
= 3

# Other settings. 2,000,000,000 B round up to 2^31 in quarters of a power of
# two.

$ peakproof replay --set roundup_power2_divisions=4 $TOP/tests/fuzz/corpus/snapshot/protocol4 | grep -E -- '--set|allocated  '
>   --set: roundup_power2_divisions=4
>   bytes           peak, recorded         peak, --set                 end
>   allocated        2,004,878,848       2,151,679,488           7,342,080
$ peakproof replay --set limit=1000000000 $TOP/tests/fuzz/corpus/snapshot/protocol4 | grep '! with'
>   ! with limit=1000000000: 1 request fails, the first at event 4
$ peakproof replay --set limit=? $TOP/tests/golden/snapshots/growing-lengths.pickle | grep least
>   least limit under which every request succeeds: 199,229,440 B; 2 MiB less fails first at event 37
$ peakproof replay --set limit=? $TOP/tests/golden/snapshots/oom-recorded.pickle | grep least
>   least limit under which every request succeeds, those that failed too: 104,857,600 B; 2 MiB less fails first at event 2
$ peakproof replay --set limit=20M --set max_split_size_mb=20 $TOP/tests/golden/snapshots/ring-overflow.pickle | grep 'the limit'
>   ! the limit is below the 1,048,576,000 B that were reserved before the trace
$ peakproof replay --set garbage_collection_threshold=0.5 c.pickle | grep -E '!|--set'
>   ! garbage_collection_threshold=0.5 changes nothing in a replay
$ peakproof replay --set max_split_size_mb=512 c.pickle | grep -E '!|--set'
>   ! with max_split_size_mb=512: every block and segment stays where it was recorded
>   --set: max_split_size_mb=512
>   bytes           peak, recorded         peak, --set                 end

# A refused file is one line, and the others are answered.

$ peakproof replay $TOP/tests/fuzz/corpus/snapshot/runs-code none.pickle c.pickle | grep allocated,
!* peakproof: */runs-code: byte 2: the pickle would make objects or run code; a memory snapshot does not
! peakproof: none.pickle: No such file or directory
= 1
$ peakproof replay none.pickle c.pickle >text; echo $?; grep -c allocated text
> 3
> 3
! peakproof: none.pickle: No such file or directory
$ peakproof replay --json none.pickle c.pickle | grep -E '"error"|allocated_peak_bytes'
>       "error": "none.pickle: No such file or directory"
>           "allocated_peak_bytes": 524288000,
$ peakproof replay --json none.pickle >json; echo $?
> 3
$ head -c 100 $TOP/tests/fuzz/corpus/snapshot/protocol4 | peakproof replay -
!* peakproof: -: *
= 3
$ peakproof replay --set foo=1 none.pickle
!* peakproof: --set: foo: not a setting of the allocator*
= 2
$ peakproof replay --set limit=? --set max_split_size_mb=20 --set limit=5G none.pickle
! peakproof: --set: limit given twice (limit=?, limit=5G)
= 2
$ peakproof replay --set limit=0 none.pickle
! peakproof: --set: limit: "0" is not a number of bytes (80G, 80Gi)
= 2
$ peakproof replay --set limit none.pickle
!* peakproof: --set limit: must be key=value*
= 2
$ peakproof replay --by frames none.pickle
! peakproof: replay: --by: unknown value 'frames' (did you mean 'frame'?)
= 2
$ peakproof replay
!...
= 2

# Histories that PyTorch itself recorded on an H200, and what its own counters
# said beside them (tests/golden/snapshots/README.md).
$ cd $TOP/tests/golden/snapshots; for n in default plain roundup split-limit oom; do gzip -dc $n.pickle.gz | peakproof replay --json - | tr -d ' ,"' >$OLDPWD/ours; for w in allocated reserved requested active; do grep -x "${w}_peak_bytes:$(sed -n "s/.*\"${w}_bytes.all.peak\": \([0-9]*\).*/\1/p" $n.json)" $OLDPWD/ours; done | wc -l; grep -c '_mismatches:0' $OLDPWD/ours; done | xargs
> 4 3 4 3 4 3 4 3 4 3

# Histories that PyTorch recorded: peaks as its own counters had them, and
# every address predicted where it is.

+ peaks
| for n in allocated reserved requested active; do
|     sed -n "s/ *\"${n}_bytes.all.peak\": \([0-9]*\),*/$n \1/p" "$1"
| done
$ for f in $TOP/tests/golden/snapshots/*.gz; do n=${f%.pickle.gz}; zcat $f | peakproof replay --json - >got; sh ./peaks $n.json | sort >a; sed -n 's/^          "\([a-z]*\)_peak_bytes": \([0-9]*\),/\1 \2/p' got | sort >b; cmp a b; wc -l <b; grep -cE '"(address|segment|block)_mismatches": 0' got; done | sort | uniq -c | tr -s ' '
>  7 3
>  7 4

# What would have been is what was: the same steps were recorded under several
# settings.

$ for k in expandable_segments=True roundup_power2_divisions=4; do zcat $TOP/tests/golden/snapshots/plain.pickle.gz | peakproof replay --set $k - | grep '^  reserved'; done
>   reserved           480,247,808         442,499,072         299,892,736
>   reserved           480,247,808         488,636,416         299,892,736
$ for f in expandable roundup; do zcat $TOP/tests/golden/snapshots/$f.pickle.gz | peakproof replay - | grep '^  reserved'; done
>   reserved           442,499,072         295,698,432
>   reserved           488,636,416         297,795,584
$ zcat $TOP/tests/golden/snapshots/expandable.pickle.gz | peakproof replay --set expandable_segments=False - | grep '^  reserved'
>   reserved           442,499,072         480,247,808         295,698,432

# Under the limit that the recorded processes had (429.47 MiB), the request that
# failed there fails, and no other.

$ for f in oom expandable-oom; do zcat $TOP/tests/golden/snapshots/$f.pickle.gz | peakproof replay --set limit=450330624 - | grep -E '! with'; done
>   ! with limit=450330624: 1 request fails, the first at event 1381
>   ! with limit=450330624: every block and segment stays where it was recorded
>   ! with limit=450330624: 1 request fails, the first at event 1359
>   ! with limit=450330624: every block and segment stays where it was recorded

# Two snapshots.

$ cp $TOP/tests/golden/snapshots/basic.pickle b.pickle; peakproof compare c.pickle b.pickle
> c.pickle against b.pickle, device 0
>          peak before          peak after              change
>          524,288,000         146,800,640        -377,487,360  allocated
>          524,288,000         146,800,640        -377,487,360  reserved
>          524,288,000         146,800,640        -377,487,360  requested
>          524,288,000         146,800,640        -377,487,360  active
> 
>   of the allocated bytes then, by frame:
>          314,572,800          41,943,040        -272,629,760  attention (model.py:20)
>          209,715,200                   0        -209,715,200  mlp (model.py:30)
>                    0         104,857,600        +104,857,600  __init__ (model.py:3)
>   0 the same
$ peakproof compare --check --by module c.pickle b.pickle | tail -2
>          524,288,000         146,800,640        -377,487,360  model
>   0 the same
! peakproof: the peaks of c.pickle and b.pickle differ
$ peakproof compare --check c.pickle b.pickle >text
! peakproof: the peaks of c.pickle and b.pickle differ
= 4
$ peakproof compare --check c.pickle c.pickle | tail -1
>   2 the same
$ peakproof compare --json c.pickle b.pickle | grep -c change_bytes
> 7
$ peakproof compare c.pickle none.pickle
! peakproof: none.pickle: No such file or directory
= 3
$ mkdir d; peakproof compare --by file d d
! peakproof: compare: --by, --patterns and --rows go with two snapshots
= 2

# Files beside the answer.

$ peakproof replay --timeline t.svg --perfetto p.json --folded - c.pickle | head -2; head -c 5 t.svg; head -c 15 p.json; echo
> attention (model.py:20) 314572800
> mlp (model.py:30) 209715200
> <?xml{"traceEvents":
$ peakproof replay --at end --folded - c.pickle | head -1
> adam (model.py:40) 209715200
$ peakproof replay --timeline t.html c.pickle >text; grep -o '<title>c.pickle, device 0' t.html
> <title>c.pickle, device 0
$ peakproof replay --timeline t.html c.pickle b.pickle
! peakproof: replay: --timeline, --perfetto and --folded go with one snapshot
= 2
$ peakproof replay --device 7 c.pickle
! peakproof: c.pickle: device 7 (--device) holds no memory and has no trace
= 3

# What was recorded once is not written over, and a device stays one.

$ cp c.pickle d.pickle; ln -s d.pickle l.pickle
$ peakproof replay --folded d.pickle c.pickle
! peakproof: replay: --folded: d.pickle is a snapshot, which would be lost (name another file; - is standard output)
= 2
$ peakproof replay --timeline l.pickle d.pickle
! peakproof: replay: --timeline: l.pickle is a snapshot, which would be lost (name another file; - is standard output)
= 2
$ peakproof replay --timeline t.svg --folded t.svg c.pickle
! peakproof: replay: --timeline and --folded name one file
= 2
$ cmp c.pickle d.pickle; mkfifo f; peakproof replay --folded f c.pickle >a
! peakproof: cannot write f: No such device or address
= 1
$ ln -s /dev/full full; peakproof replay --folded full c.pickle >a
! peakproof: cannot write full: No space left on device
= 1
$ peakproof replay --folded /dev/stderr c.pickle >a 2>b; head -n 1 b; test -L full; test -p f
> attention (model.py:20) 314572800
$ peakproof replay --timeline t.html $TOP/tests/golden/snapshots/no-trace.pickle
!* peakproof: */no-trace.pickle: device 0: no history was recorded, so there is no timeline
= 3
