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
>   b.qkv-sliced
>   b.embedding-whole
>   b.adapter-scaled
>   b.residual-fused
>   b.weights-apart

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

$ for l in '256*' '256+' '+256' '128++128'; do sed "s/,256,0/,$l,0/" mine.csv >x.csv; peakproof list measured.lua -- data=x.csv 2>&1 | sed -n 1p; done
> peakproof: x.csv:2: lengths: must be like 4096, 4096+2048 or 512*8, not '256*'
> peakproof: x.csv:2: lengths: must be like 4096, 4096+2048 or 512*8, not '256+'
> peakproof: x.csv:2: lengths: must be like 4096, 4096+2048 or 512*8, not '+256'
> peakproof: x.csv:2: lengths: must be like 4096, 4096+2048 or 512*8, not '128++128'

$ sed 's/,6964,/,many,/' mine.csv >x.csv; peakproof list measured.lua -- data=x.csv
! peakproof: x.csv:3: packed_rows: must be a whole number from 1 on (bytes and rows, no unit), not 'many'
!...
= 3

$ sed 's/forward_peak/forward_first/' mine.csv >x.csv; peakproof list measured.lua -- data=x.csv
! peakproof: x.csv:1: forward_peak: no such column, or nothing in it (id, model, tp, cp, recompute, lengths, packed_rows, forward_peak are needed)
!...
= 3

# A misspelt column is not lost.

$ sed 's/shared_prefix/shared_prefx/' mine.csv >x.csv; peakproof list measured.lua -- data=x.csv
!* peakproof: *csv.rows: file: x.csv:1: unknown column 'shared_prefx' [(]did you mean 'shared_prefix'[?])
!...
= 3

$ sed '1s/$/,host/; 2,$s/$/,node7/' mine.csv >x.csv; peakproof import o3 --table x.csv
!* peakproof: x.csv:1: unknown column 'host' (known: series,ep,*,forward_peak)
= 3

$ peakproof list measured.lua -- data=none.csv
!* peakproof: *measured.lua:*: csv.rows: file: no file 'none.csv' (looked in *
!...
= 3

# One command from a table to the report.

$ cat mine.csv >t.csv; echo 'c,mine,Qwen3.8-27B,1,2,none,,512,0,512,1,,,' >>t.csv
$ peakproof import o2 --table t.csv >files 2>talk; head -1 files; grep -c . o2/cases.csv; grep '^## Simulated' o2/accuracy.md
> o2/accuracy.md
> 14
> ## Simulated against measured peaks

$ grep 'to the byte:' o2/accuracy.md
> Estimates printed beside these cells that come out to the byte: 1 of 1.

$ peakproof import o2 --table t.csv --json 2>talk | head -2
> {
>   "format": 1,

$ sed 's/,6964,/,7000,/' mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:3: packed_rows: must be 6964 rounded up to a multiple of 4, not 7000
= 3

# What the program finds in a case is told of the table's line too.

$ sed 's/^b,final,Qwen3.8-27B,4/b,final,Qwen3.8-27B,3/; s/,6964,/,6966,/' mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:3: case 'b': tp: 3 does not divide the 16 key heads of the delta net (linear_num_key_heads)
= 3

$ sed 's/^b,final,Qwen3.8-27B/b,final,Qwen9-27B/' mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:3: case 'b': model: no file 'Qwen9-27B' (did you mean 'Qwen3-1.7B'?)
= 3

$ sed 's/^b,/a,/' mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:3: id: 'a' stands in line 2 already
= 3

$ sed 's/,core_attn,/,core_atn,/' mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:2: modules: must be core_attn, mlp and moe joined by +, as in core_attn+mlp, not 'core_atn'
= 3

$ sed 's/selective/some/' mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:2: recompute: must be full, none or selective, not 'some'
= 3

$ sed 's/37657602560/37.6 GB/' mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:3: forward_peak: must be a whole number from 1 on (bytes and rows, no unit), not '37.6 GB'
= 3

$ sed 's/,6964,/,6000,/; s/,1228,/,,/' mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:3: packed_rows: must be 8192 rounded up to a multiple of 4, not 6000 (fewer only where shared_prefix says what is shared)
= 3

$ (head -1 mine.csv | sed 's/,lengths/,compiled,lengths/'; echo 'a,x,Qwen3-8B,1,1,none,,maybe,256,0,256,1,,,') >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:2: compiled: must be yes or no, not 'maybe'
= 3

$ head -1 mine.csv >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv: no rows behind the header
= 3

$ (cat mine.csv; echo 'c,x') >x.csv; peakproof import o3 --table x.csv
! peakproof: x.csv:4: 2 cells where the header has 14
= 3

# A config beside the table, and a mixture over ranks, whose routing no column
# of this table tells: no choice is shown where no cell decides one.

+ m.csv
| id,model,tp,cp,ep,recompute,lengths,packed_rows,forward_peak
| m,own/moe.json,2,1,2,none,1000,1000,9000000000
$ mkdir own; cp $TOP/lua/models/Mixtral-8x7B.json own/moe.json; peakproof import o5 --table m.csv >files 2>talk; grep '^Mixtures' o5/accuracy.md; grep -c 'Choices that' o5/accuracy.md
> Mixtures of experts over ranks, forward: 1 cell, -50.0 to -50.0 %. A cell's
> 0
= 1

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
