# Measured peaks of one's own run again, and the estimates printed beside them.

+ mine.csv
| id,series,model,tp,cp,recompute,modules,lengths,shared_prefix,packed_rows,forward_peak,retained,forward_backward_peak,published_estimate
| a,final,Qwen3.8-27B,1,1,selective,core_attn,256,0,256,4000000000,3900000000,4100000000,
| b,final,Qwen3.8-27B,4,1,selective,core_attn,4096+4096,1228,6964,37657602560,37575004672,38078323200,41649478041

$ peakproof list measured.lua -- data=$PWD/mine.csv | sed 1,/^cases/d
>   a
>   a.loss
>   b
>   b.loss
>   b.norm-freed
>   b.v-copied
>   b.fused

$ peakproof run --out o measured.lua --only 'b' -- data=mine.csv >table 2>talk; grep -c retained-states table; grep ',1,warm,max,retained-states,admitted' o/records.csv | cut -d, -f3,7-9
> 3
> b,retained-states,admitted,41649478041

$ cut -d, -f3,35-41 o/cases.csv
> case,series,measured_bytes,measured_first_bytes,measured_retained_bytes,measured_note,printed_estimate,printed_by
> b,final,37657602560,,37575004672,,41649478041,retained-states

# A table that cannot be run names file, line and column.

$ sed 's/,6964,/,7000,/' mine.csv >x.csv; peakproof list measured.lua -- data=x.csv
! peakproof: x.csv:3: packed_rows: must be 6964 rounded up to a multiple of 4, not 7000
!...
= 3

$ sed 's/4096+4096/4096-4096/' mine.csv >x.csv; peakproof list measured.lua -- data=x.csv
! peakproof: x.csv:3: lengths: must be like 4096, 4096+2048 or 512*8, not '4096-4096'
!...
= 3

$ sed 's/,6964,/,many,/' mine.csv >x.csv; peakproof list measured.lua -- data=x.csv
! peakproof: x.csv:3: packed_rows: must be a whole number, not 'many'
!...
= 3

$ sed 's/forward_peak/peak/' mine.csv >x.csv; peakproof list measured.lua -- data=x.csv
! peakproof: x.csv:2: forward_peak: missing
!...
= 3

$ peakproof list measured.lua -- data=none.csv
!* peakproof: *measured.lua:*: csv.rows: file: no file 'none.csv' (looked in *
!...
= 3

# One command from a table to the report.

$ cat mine.csv >t.csv; echo 'c,mine,Qwen3.8-27B,1,2,none,,512,0,512,1,,,' >>t.csv
$ peakproof import o2 --table t.csv >files 2>talk; head -1 files; grep -c . o2/cases.csv; grep '^## Simulated' o2/accuracy.md
> o2/accuracy.md
> 9
> ## Simulated against measured peaks

$ grep 'to the byte:' o2/accuracy.md
> Estimates printed beside these cells that come out to the byte: 1 of 1.

$ peakproof import o2 --table t.csv --json 2>talk | head -2
> {
>   "format": 1,

$ sed 's/,6964,/,7000,/' mine.csv >x.csv; peakproof import o3 --table x.csv
!* peakproof: */x.csv:3: packed_rows: must be 6964 rounded up to a multiple of 4, not 7000
!...
= 3

$ peakproof import o3 --table none.csv
! peakproof: none.csv: No such file or directory
= 3

$ peakproof import o2 --table t.csv --case a
! peakproof: import: --table names cases itself and goes without --case
= 2

+ other.lua
| return {cases = {{name = "a", model = "tiny", batch = batch.lengths{64}}}}
$ peakproof run --out o4 other.lua >table; peakproof import o4 --table t.csv
! peakproof: import: o4 holds other cases ('a'): name a folder of its own
= 2
