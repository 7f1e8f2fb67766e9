# Peaks that a user measured, beside the estimates of a run.

$ peakproof run --out o --snapshot snap --only real-40 pr-accuracy.lua >table

+ mine.csv
| rank,allocated_bytes,requested_bytes,reserved_bytes
| 0,23300000000,23200000000,70000000000
| 1,24040000000,24000000000,70000000000
$ cp -r o p; peakproof import p --peaks mine.csv --case real-40
> real-40 wave 0 rank 0: 23300000000 bytes allocated
> real-40 wave 0 rank 1: 24040000000 bytes allocated
$ grep '^import.*max,.*\(total\|raw\|admitted\),' p/records.csv
> import,pr-accuracy,real-40,0,cold,max,peak,total,24040000000,ok,
> import,pr-accuracy,real-40,0,cold,max,busiest-rank,raw,25831390943,ok,
> import,pr-accuracy,real-40,0,cold,max,busiest-rank,admitted,28414530037,ok,
> import,pr-accuracy,real-40,0,cold,max,per-rank,raw,25818107903,ok,
> import,pr-accuracy,real-40,0,cold,max,per-rank,admitted,28399918693,ok,
> import,pr-accuracy,real-40,0,cold,max,per-rank-any,raw,22714769576,ok,
> import,pr-accuracy,real-40,0,cold,max,per-rank-any,admitted,24986246533,ok,
$ peakproof report p >files; grep -c imported.md files; grep '`real-40`' p/imported.md | tr -s ' '
> 1
> | `real-40` | cold | 96,794 | 24.040 | 70.000 | 1 | none | +7.5 % | +18.2 % | +7.4 % | +18.1 % | -5.5 % UNDER | +3.9 % |
$ grep '^import' p/peaks.csv
> import,pr-accuracy,real-40,0,cold,0,23300000000,23200000000,70000000000,0,none,,,other,,,,
> import,pr-accuracy,real-40,0,cold,1,24040000000,24000000000,70000000000,0,none,,,other,,,,
$ peakproof explain p import/pr-accuracy/real-40 >text; peakproof explain p dry/pr-accuracy/real-40 >text
$ peakproof explain p real-40
! peakproof: p: case 'real-40' stands in dry/pr-accuracy and in import/pr-accuracy (write DEVICE/SCENARIO/CASE)
= 2

# Once, and nothing is lost by trying again.

$ cp p/records.csv a; peakproof import p --peaks mine.csv --case dry/pr-accuracy/real-40; cmp a p/records.csv
! peakproof: import: p: peaks of case 'real-40' are there already
$ peakproof import p --peaks mine.csv --case import/pr-accuracy/real-40
! peakproof: import: case 'real-40' is an imported one (name the run's own)
= 2

# Our own snapshots give the peaks that the run recorded, bytes for bytes; one
# rank alone, too.

$ cp -r o q; peakproof import q snap/*.wave0.* --case real-40
> real-40 wave 0 rank 0: 21912567296 bytes allocated
> real-40 wave 0 rank 1: 22626667008 bytes allocated
$ grep -E '^dry.*,0,cold' q/peaks.csv | cut -d, -f3-8 >a; grep ^import q/peaks.csv | cut -d, -f3-8 >b; wc -l <a; cmp a b
> 2
$ cp -r o r; peakproof import r snap/pr-accuracy.real-40.wave0.rank1.pickle --case real-40 --rank 1
> real-40 wave 0 rank 1: 22626667008 bytes allocated
! peakproof: warning: import: wave 0: 1 of 2 ranks are missing: the most-loaded one may be among them
$ grep -c '^import' r/peaks.csv
> 1
$ peakproof import o snap/*.wave0.* --case real-40 --rank 1
! peakproof: import: snap/pr-accuracy.real-40.wave0.rank1.pickle: rank 2, the case has 2 ranks
= 2

# A wave within a longer trace is an annotation: ours have one for the whole.

$ cp -r o u; peakproof import u snap/*.wave0.* --case real-40 --waves wave
>* real-40 wave 0 rank 0: * bytes allocated
>* real-40 wave 0 rank 1: * bytes allocated
$ grep ^import u/peaks.csv | cut -d, -f3-8 >b; cmp a b
$ peakproof import u snap/*.wave0.* --case dry/pr-accuracy/real-40 --waves step
! peakproof: snap/pr-accuracy.real-40.wave0.rank0.pickle: no annotation begins with 'step'
= 3
$ cp -r o x; peakproof import x snap/*.wave0.* --case real-40 --waves 'forward, layer 0' >text
!* peakproof: import: rank 0 of wave 0: a peak of *
= 3

# What cannot be the case's is refused, what is unlikely is said.

+ low.csv
| rank,allocated_bytes,requested_bytes,reserved_bytes
| 0,790000000,790000000,900000000
$ peakproof import x --peaks low.csv --case real-40
!* peakproof: import: rank 0 of wave 0: a peak of 790000000 B, but case 'real-40' holds * B of boundaries there alone: another model, other tokens, or no whole wave
= 3
$ low=$(peakproof import x --peaks low.csv --case real-40 2>&1 | sed 's/.* holds \([0-9]*\) B.*/\1/'); head -n 1 low.csv >exact.csv; echo "0,$low,$low,90000000000" >>exact.csv; cp -r o z; peakproof import z --peaks exact.csv --case real-40 2>text; grep -c 'alone: another' text
>* real-40 wave 0 rank 0: * bytes allocated
> 0
= 1
+ other.csv
| rank,allocated_bytes,requested_bytes,reserved_bytes,tokens
| 0,23300000000,23200000000,70000000000,1000
$ peakproof import x --peaks other.csv --case real-40
!* peakproof: other.csv:2: tokens: 1000 tokens, the case has *
= 3
+ high.csv
| rank,allocated_bytes,requested_bytes,reserved_bytes
| 0,53300000000,53200000000,70000000000
$ cp -r o y; peakproof import y --peaks high.csv --case real-40
> real-40 wave 0 rank 0: 53300000000 bytes allocated
!* peakproof: warning: import: rank 0 of wave 0: a peak of 53300000000 B, the step of this case has *: other tokens, layers or ranks?
! peakproof: warning: import: wave 0: 1 of 2 ranks are missing: the most-loaded one may be among them

$ peakproof import o snap/*.wave0.* --case real-40 --wave 2
! peakproof: import: --wave 2: the case has 2 waves
= 2
$ peakproof import o --peaks mine.csv --case real-40 --wave 0
! peakproof: import: --rank, --wave and --waves go with snapshots (a CSV file has columns rank and wave)
= 2

# Later waves, too, on a device that computes.

$ peakproof run --device cpu --out t --snapshot s2 --only train.cp2.ep2 tiny-train.lua -- waves=2 >table; ls s2
> tiny-train.train.cp2.ep2.wave0.rank0.pickle
> tiny-train.train.cp2.ep2.wave0.rank1.pickle
> tiny-train.train.cp2.ep2.wave1.rank0.pickle
> tiny-train.train.cp2.ep2.wave1.rank1.pickle
$ peakproof import t s2/*.wave1.* --case train.cp2.ep2 --wave 1 >text; grep -E '^cpu.*,1,warm' t/peaks.csv | cut -d, -f3-8 >a; grep ^import t/peaks.csv | cut -d, -f3-8 >b; wc -l <a; cmp a b
> 2

# What is wrong is told, and the run stays as it was.

$ peakproof import o --case real-40
! peakproof: import: needs either snapshots or --peaks F.csv
= 2
$ peakproof import o --peaks mine.csv
! peakproof: import: needs --case NAME
= 2
$ peakproof import o --peaks mine.csv --case real-4
! peakproof: o: no case 'real-4' (did you mean 'real-40'?)
= 2
$ peakproof import none --peaks mine.csv --case real-40
!* peakproof: none*
= 3
+ bad.csv
| rank,allocated_bytes,requested_bytes,reserved_bytes
| 0,1,2,3
$ peakproof import o --peaks bad.csv --case real-40
! peakproof: bad.csv:2: requested_bytes: '2' is not a whole number from 0 to 1
= 3
+ bad.csv
| rank,allocated_bytes,requested_bytes,reserved_bytes
| 2,1,1,3
$ peakproof import o --peaks bad.csv --case real-40
! peakproof: bad.csv:2: rank: '2' is not a whole number from 0 to 1
= 3
+ bad.csv
| rank,allocated_bytes,requested_bytes,reserved_bytes,wav
| 0,23300000000,23200000000,70000000000,1
$ peakproof import o --peaks bad.csv --case real-40
! peakproof: bad.csv:1: unknown column 'wav' (did you mean 'wave'?)
= 3
$ sed 's/wav$/host/' bad.csv >host.csv; peakproof import o --peaks host.csv --case real-40
! peakproof: host.csv:1: unknown column 'host' (known: wave,rank,tokens,allocated_bytes,requested_bytes,reserved_bytes)
= 3
+ bad.csv
| rank,allocated_bytes
| 0,1
$ peakproof import o --peaks bad.csv --case real-40
! peakproof: bad.csv:1: no column 'requested_bytes' (it has rank,allocated_bytes)
= 3
$ echo no >bad.pickle; peakproof import o bad.pickle --case real-40
!* peakproof: bad.pickle*
= 3
$ peakproof compare --check o p
>...
!* peakproof: o and p differ in 1 cases
= 4
