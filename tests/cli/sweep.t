# Many cases: totals, shards, merge; and cases without a scenario.

$ peakproof run --totals -j 2 --out all sweep.lua -- count=12 most_tokens=5000 | sed -n '1p; /per-rank-any  /s/ waves,.*//p; $p' | tr -s ' ' | sed 's/^ //'
> 12 cases: 0 out of memory, 0 refused, 0 failed
> per-rank-any 24
>* the worst *: all/worst, and as scenarios in all/worst.lua
$ grep -c ',max,per-rank-any,raw,' all/records.csv; grep ',max,per-rank-any,boundaries,' all/records.csv
> 24
= 1
$ grep -q ',max,per-rank-any,boundaries,' all/worst/records.csv
$ peakproof run --out again all/worst.lua >table; cut -d, -f3-9 all/worst/records.csv | grep ',raw,\|,total,' >a; cut -d, -f3-9 again/records.csv | grep ',raw,\|,total,' | cmp - a

# Shards, in any order and number of workers, are the whole.

$ for i in 1 2 3; do peakproof run --totals --shard $i/3 --out s$i sweep.lua -- count=12 most_tokens=5000 >/dev/null; done; peakproof merge m s3 s1 s2 | head -n 1
> 12 cases: 0 out of memory, 0 refused, 0 failed
$ for f in records peaks cases inventory; do cmp m/$f.csv all/$f.csv; done
$ peakproof merge n s1 s2
! peakproof: shard 3 of 3 is missing
= 3
$ peakproof merge n s1 s2 s2
! peakproof: shard 2 of 3 is there twice
= 3

$ peakproof merge ./s1 s1 s2 s3; wc -l <s1/cases.csv
! peakproof: merge: ./s1 is one of the shards, and would be emptied first (choose another OUT)
> 5
$ peakproof merge s2 s2; wc -l <s2/cases.csv; peakproof merge m s1 s2 s3 | head -n 1
! peakproof: merge: s2 is one of the shards, and would be emptied first (choose another OUT)
> 5
> 12 cases: 0 out of memory, 0 refused, 0 failed
$ cp -r s1 cut; sed -i '$d' cut/cases.csv; peakproof merge n cut s2 s3
!* peakproof: cut/cases.csv: * rows of the files beside it are of no case that stands there (cut short? run again)
= 3
$ peakproof merge n s1 all
! peakproof: all/run.json: no whole: not of a run with --shard
= 3
$ peakproof run --totals --shard 4/3 sweep.lua
! peakproof: run: --shard: '4/3' is not I/N, from 1/N to N/N
= 2

# A config of one's own is found from where worst.lua stands.

$ cp $TOP/lua/models/tiny.json 'o"n.json'
+ own.lua
| return {cases = {{name = "o", model = 'o"n.json', batch = batch.lengths{64}}}}
$ peakproof run --totals --out deep/own own.lua >table; peakproof list deep/own/worst.lua | tail -1
>   o

# An interrupted run goes on to the same bytes, the worst included.

$ cp -r all half; head -n 60 half/records.csv >r; cp r half/records.csv; sed -i 's/"finished": true/"finished": false/' half/run.json; peakproof run --totals --resume --out half sweep.lua -- count=12 most_tokens=5000 >/dev/null; for f in records peaks cases worst/records; do cmp half/$f.csv all/$f.csv; done
$ cp -r all wide; cp -r all wide/sweep; sed -i 's/"finished": true/"finished": false/' wide/sweep/run.json; peakproof report wide >a; sed -n 3p wide/shapes.md; sed -n 3,4p wide/accuracy.md
> The run in the folder `sweep` is not finished; what follows covers the cases
> The run in the folder `sweep` is not finished; what follows covers the cases
> that are.
! peakproof: warning: wide/sweep: the run is not finished: what is written of it covers the cases that are

# Without a scenario.

$ peakproof run --out o --lengths 2k..8k:x2,3000 --cp 2,4 --ep 1,2,4 --layers 8 | tail -n +2 | grep / | cut -d' ' -f1 | sort -u
> shapes/2000.cp2.ep1.r8.l8
> shapes/2000.cp2.ep2.r8.l8
> shapes/2000.cp4.ep1.r8.l8
> shapes/2000.cp4.ep2.r8.l8
> shapes/2000.cp4.ep4.r8.l8
> shapes/3000.cp2.ep1.r8.l8
> shapes/3000.cp2.ep2.r8.l8
> shapes/3000.cp4.ep1.r8.l8
> shapes/3000.cp4.ep2.r8.l8
> shapes/3000.cp4.ep4.r8.l8
> shapes/4000.cp2.ep1.r8.l8
> shapes/4000.cp2.ep2.r8.l8
> shapes/4000.cp4.ep1.r8.l8
> shapes/4000.cp4.ep2.r8.l8
> shapes/4000.cp4.ep4.r8.l8
> shapes/8000.cp2.ep1.r8.l8
> shapes/8000.cp2.ep2.r8.l8
> shapes/8000.cp4.ep1.r8.l8
> shapes/8000.cp4.ep2.r8.l8
> shapes/8000.cp4.ep4.r8.l8

# shapes.lua gets numbers, and takes nothing else.

$ grep '"settings"' o/run.json
>   "settings": ["lengths=2000,4000,8000,3000", "cp=2,4", "ep=1,2,4", "layers=8"],
$ peakproof list shapes.lua -- lengths=200,300 | sed -n '$p'; peakproof list shapes.lua -- lengths=8k
>   300.cp2.ep1.r8.l0
!* peakproof: *shapes.lua: lengths: '8k' is no whole number like 8192 (ranges are for peakproof run --lengths)
!...
= 3
$ mkdir mine; sed 's/"num_hidden_layers": 48/"num_hidden_layers": 2/' $TOP/lua/models/Qwen3-30B-A3B.json >mine/config.json; cp mine/config.json tiny.json
+ priced.sh
| peakproof run --out o --lengths 200 --model $1 --waves 1 >/dev/null
| peakproof plan --lengths 200 --model $1 --facts >f
| awk -F, '$6 == "max" && $7 == "per-rank-any" && $8 == "raw" {print $9}' o/records.csv
| peakproof price f | grep raw_bytes | sed -n 3p | tr -dc '0-9\n'
$ for m in mine/config.json tiny tiny.json Qwen3-30B-A3B; do sh priced.sh $m; done | uniq -c | awk '{print $1}'
> 6
> 2
$ rm tiny.json
+ wrong.sh
| while read -r line; do
|     peakproof run $line
|     echo $?
| done
+ wrong
| --lengths 8q
| --lengths 0
| --lengths 8k..64k
| --lengths 8k..4k:x2
| --lengths 8k..64k:x1
| --lengths 1..9000:+1
| --lengths 99999999999999999999
| --lengths 5,,6
| --lengths 5,5
| --lengths 5 --cp 65
| --lengths 5 --cp 3 --ep 2,6
| --lengths 5 --waves 0
| --lengths 5 --lora-rank 1k,1M
| --lengths 5 --model mine
| --lengths 5 --model Qwen3-9B
$ sh wrong.sh <wrong 2>&1
> peakproof: run: --lengths: '8q' is no whole number like 8192 or 8k, and no range like 8k..64k:x2 or 8k..64k:+8k
> 2
> peakproof: run: --lengths: 0 is not from 1 to 2147483647
> 2
> peakproof: run: --lengths: '8k..64k' is no whole number like 8192 or 8k, and no range like 8k..64k:x2 or 8k..64k:+8k
> 2
> peakproof: run: --lengths: '8k..4k:x2' holds nothing, or never ends
> 2
> peakproof: run: --lengths: '8k..64k:x1' holds nothing, or never ends
> 2
> peakproof: run: --lengths: more than 1000 numbers
> 2
> peakproof: run: --lengths: '99999999999999999999' is no whole number like 8192 or 8k, and no range like 8k..64k:x2 or 8k..64k:+8k
> 2
> peakproof: run: --lengths: '' is no whole number like 8192 or 8k, and no range like 8k..64k:x2 or 8k..64k:+8k
> 2
> peakproof: run: --lengths: 5 is there twice
> 2
> peakproof: run: --cp: 65 is not from 1 to 64
> 2
> peakproof: run: --ep: none of 2,6 divides --cp, 3
> 2
> peakproof: run: --waves: '0' is not a whole number from 1 to 1000
> 2
> peakproof: run: --lora-rank: 1000000 is not from 0 to 65536
> 2
> peakproof: mine: no such model, here or shipped (peakproof list --models names those; of a folder name its config.json)
> 3
> peakproof: Qwen3-9B: no such model, here or shipped (did you mean Qwen3-8B? peakproof list --models names those; of a folder name its config.json)
> 3
$ peakproof run --cp 2 sweep.lua
! peakproof: run: --cp goes with --lengths only (a scenario says it itself)
= 2
$ peakproof run --lengths 8k sweep.lua
! peakproof: run: --lengths stands instead of a scenario and its settings
= 2

# Where an estimator covers no wave there is nothing to say of its errors.
+ none.lua
| local function case(name, dtype, bytes)
|   return {name = name, model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
|           dtype = dtype, device_bytes = bytes, batch = batch.lengths{500}}
| end
| return {name = "none", cases = {case("a", "bf16", 1000000000),
|                                 case("b", "f32")}}
$ peakproof run --totals --out n none.lua 2>err
> 2 cases: 1 out of memory, 0 refused, 0 failed
= 6
$ peakproof report n >files; sed -n '/^`none`/,$p' n/accuracy.md | grep -v '^|[-|:]*$' | head -n 9
> `none`: 2 cases, of which 1 ran out of memory, 0 were refused and 0 failed; 1
> waves have a peak. Raw errors against the most-loaded rank's peak, of each
> estimator where it covers the wave:
> 
>* | estimator *
>* | `busiest-rank` |     0 |     0 |     — |*
>* | `per-rank`     |     0 |     0 |     — |*
>* | `per-rank-any` |     0 |     0 |     — |*
> 

# Every run says what came out, and a merged one that all shards were there.
$ cat m/checks.csv
> check,cases,seed,failed,worst,note
> shards,3,0,0,0,"cases: shards, each there once, finished and of one run"
$ peakproof run --json --lengths 200 --cp 2 --layers 4 --out o | sed -n '/"summary"/,/"least/p' | grep -v least
>   "summary": {
>     "cases": 1,
>     "out_of_memory": 0,
>     "refused": 0,
>     "failed": 0,
>     "estimators": [
>       {
>         "name": "busiest-rank",
>         "waves": 2,
>         "under": 0,

# The report of such a folder opens with what came out, the waves under first;
# beside a run that has it in its folder sweep, it is a page.
$ peakproof report all >/dev/null; sed -n '/^## Waves/,/^`per-rank-any/p' all/accuracy.md | grep -v '^|[-|:]*$' | sed 's/ *[+-][0-9.]* % */ X /g' | tr -s ' '
> ## Waves of other shapes, drawn
> 
> `sweep` (`count=12 most_tokens=5000`): 12 cases, of which 0 ran out of memory,
> 0 were refused and 0 failed; 24 waves have a peak. Raw errors against the
> most-loaded rank's peak, of each estimator where it covers the wave:
> 
> | estimator | waves | under | least | 5 % | median | 95 % | most | admitted under |
> | `busiest-rank` | 24 | 7 | X UNDER | X UNDER | X | X | X | 0 |
> | `per-rank` | 8 | 6 | X UNDER | X UNDER | X UNDER | X | X | 0 |
> | `per-rank-any` | 24 | 0 | 0.0 % | X | X | X | X | 0 |
> 
> `per-rank-any`: 0 of 24 waves are under. The furthest under, if any, then the
$ grep -c '^| `000' all/accuracy.md; grep '^## ' all/accuracy.md
> 35
> ## Waves of other shapes, drawn
> ## What knowing of routing is worth
$ peakproof run --model Qwen3-30B-A3B --lengths 200 --cp 2 --ep 1 --layers 4 --waves 1 --out both >/dev/null; cp -r all both/sweep; peakproof report both | grep -c 'both/shapes.md'; grep '^## ' both/shapes.md; grep -c 'Waves of other' both/accuracy.md
> 1
> ## Waves of other shapes, drawn
> ## What knowing of routing is worth
> 0
= 1

# A worker takes one case after another. One that dies ends its case alone:
# those behind it are begun again, by another, and all stand in order. The
# parent, which runs the worst once more, is the fourth.

+ many.lua
| local list = {}
| for i = 1, 120 do
|   list[i] = {name = ("c%03d"):format(i), model = "Qwen3-30B-A3B", layers = 1,
|              cp = 1, ep = 1, waves = 1, batch = batch.lengths{100 + i}}
| end
| return {name = "many", cases = list}
+ killer.lua
| estimator{
|   name = "killer",
|   price = function(facts)
|     os.execute("echo $PPID >>pids")
|     if facts.head_rows == 150 then os.execute("kill -9 $PPID") end
|     return {raw = 1}
|   end,
| }
$ peakproof run --unsafe --totals -j 2 --out many --estimator killer.lua many.lua >table
! peakproof: many/c050: worker was ended by signal 9 (Killed)
= 1
$ sed -n 's/.*,\(error\|ok\),.*/\1/p' many/cases.csv | sort | uniq -c | tr -s ' '
>  1 error
>  119 ok
$ sed 1d many/cases.csv | cut -d, -f3 | sort -c; sed 1d many/cases.csv | wc -l
> 120
$ sort -u pids | wc -l
> 4
