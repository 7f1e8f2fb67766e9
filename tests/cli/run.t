# Running scenarios: the table, the files, failures and their exit codes.

+ two.lua
| return {
|   name = "two",
|   about = "two prompts at EP1 and EP2",
|   options = {
|     len = {help = "tokens of each prompt", default = 2000, min = 1},
|   },
|   cases = function(opt)
|     local list = {}
|     for _, ep in ipairs{1, 2} do
|       list[ep] = {
|         name = "ep" .. ep, model = "Qwen3.6-35B-A3B", layers = 8,
|         cp = 2, ep = ep, batch = batch.lengths{opt.len, opt.len},
|         tolerance = {under = 0, over = 50},
|       }
|     end
|     return list
|   end,
| }

$ peakproof list two.lua
> two: two prompts at EP1 and EP2
> options (set them after --):
>* *len=2000*default 2000*tokens of each prompt*
> cases:
>   ep1
>   ep2

$ peakproof list two.lua -- len=7 | sed -n 3p
>* *len=7*default 2000*

$ peakproof list --json two.lua -- len=7
> {
>   "format": 1,
>   "scenarios": [
>     {
>       "name": "two",
>       "file": "two.lua",
>       "about": "two prompts at EP1 and EP2",
>       "options": [
>         {
>           "name": "len",
>           "type": "int",
>           "default": "2000",
>           "value": "7",
>           "help": "tokens of each prompt"
>         }
>       ],
>       "cases": [
>         {
>           "name": "ep1",
>           "about": null,
>           "cp": 2,
>           "ep": 1,
>           "waves": 1,
>           "tokens": 14
>         },
>         {
>           "name": "ep2",
>           "about": null,
>           "cp": 2,
>           "ep": 2,
>           "waves": 1,
>           "tokens": 14
>         }
>       ]
>     }
>   ]
> }

# What the rows of a case and of its peaks say, cell by cell.

$ peakproof run --out rows two.lua >table; sed 's/,[0-9a-f]\{16\},ok,$/,SUM,ok,/' rows/cases.csv | sed 1d; sed 1d rows/peaks.csv
> dry,two,ep1,,Qwen3.6-35B-A3B,8,2,1,1,1,8,bf16,random,full,"",yes,yes,train,lengths,4000,2,3584 416,2000 2000,3584,8,4000,0,balanced,0,1,,,,,,,,,,,,,429,2,SUM,ok,
> dry,two,ep2,,Qwen3.6-35B-A3B,8,2,2,1,1,8,bf16,random,full,"",yes,yes,train,lengths,4000,2,3584 416,2000 2000,2000,8,4000,0,balanced,0,1,,,,,,,,,,,,,429,2,SUM,ok,
> dry,two,ep1,0,cold,0,1455817216,1451885576,17878220800,3042,recompute,3,experts.fc2,moe_experts,28672,0,343674368,15680027648
> dry,two,ep1,0,cold,1,1018247680,1009014680,17104371712,4153,recompute,0,experts.fc2,moe_experts,16000,0,278221312,15680027648
> dry,two,ep2,0,cold,0,1137592832,1137200136,10770972672,1478,head,,head.index_gradient,head,16000,43868160,343282176,9145302016
> dry,two,ep2,0,cold,1,906712576,901307016,10504634368,1518,head,,head.index_gradient,head,16000,43868160,277829120,9145302016

$ peakproof list | grep -c '^pr-accuracy  *3 cases'
> 1

$ peakproof list --json >a

$ peakproof run two.lua
>* case *wave *peak GB device GB  estimator *raw GB *error admitted GB *error
>* two/ep1     0 cold *  busiest-rank *%*%
>* two/ep1     0 cold *  per-rank *%*%
>* two/ep1     0 cold *  per-rank-any *%*%
>* two/ep2     0 cold *  busiest-rank *%*%
>* two/ep2     0 cold *  per-rank *%*%
>* two/ep2     0 cold *  per-rank-any *%*%
> 2 cases: 0 out of memory, 0 refused, 0 failed; waves under: busiest-rank 0 of 2, per-rank 0 of 2, per-rank-any 0 of 2

$ ls out
> cases.csv
> checks.csv
> device.csv
> inventory.csv
> losses.csv
> peaks.csv
> records.csv
> run.json
> timings.csv

$ head -n 1 out/records.csv
> device,scenario,case,wave,temperature,rank,source,term,bytes,status,note

# The same bytes again, by any number of workers, and as JSON.

$ mv out first; peakproof run -j 2 --out second two.lua >table
$ for f in records peaks cases checks inventory; do cmp first/$f.csv second/$f.csv; done
$ peakproof run --json --out third two.lua >run.json; head -n 5 run.json
> {
>   "format": 1,
>   "device": "dry",
>   "folder": "third",
>   "kept": 0,
$ cmp first/records.csv third/records.csv

# A selection of cases.

$ peakproof run --out o --only 'two/*2' two.lua | cut -c 1-7
> case   
> two/ep2
> two/ep2
> two/ep2
> 1 case:
$ peakproof run --only 'ep[2]' --out o two.lua | wc -l
> 5
$ peakproof run --only 'ep3' --out none two.lua
! peakproof: run: --only: none of 2 cases matches 'ep3' (peakproof list names them)
= 2
$ ls none
! ls: cannot access 'none': No such file or directory
= 2

# A shipped scenario is found by its name alone.

$ peakproof run --out pr --only real-40 pr-accuracy.lua >table; grep -c ',per-rank,raw,25818107903,' pr/records.csv
> 2

# Settings.

$ peakproof run --out o two.lua -- len=500 >table
$ peakproof run --out o two.lua -- ln=500
! peakproof: two.lua: unknown option 'ln' (did you mean 'len'?)
= 2
$ peakproof run --out o two.lua -- len=x
!* peakproof: two.lua:*len*
= 2
$ peakproof run --out o two.lua -- len
! peakproof: run: 'len' after -- must be name=value
= 2

# Wrong options.

$ peakproof run --device tpu9 two.lua
! peakproof: run: --device: unknown value 'tpu9' (one of dry, cpu, cuda)
= 2
$ peakproof run
! peakproof: run needs a SCENARIO.lua (or --lengths; 'peakproof help run' tells more)
= 2
$ peakproof run -j 0 two.lua
! peakproof: run: --jobs: '0' is not a whole number from 1 to 256
= 2
$ peakproof run --device gpu two.lua
! peakproof: run: --device: unknown value 'gpu' (one of dry, cpu, cuda)
= 2
$ peakproof run --out
! peakproof: run: option --out needs a value (--out DIR)
= 2
$ peakproof run --out a --out b two.lua
! peakproof: run: --out given twice
= 2
$ peakproof run two.lua two.lua
! peakproof: two.lua: scenario 'two' is already there from two.lua
= 2

# Exit 1: the folder cannot be written.

$ : >file; peakproof run --out file/x two.lua
! peakproof: cannot make folder file/x: Not a directory
= 1

# Exit 4: an estimate outside its case's tolerance.

$ peakproof run --check --out o two.lua >table; tail -n 2 table
> check: 2 of 2 cases have a tolerance, 0 estimates are outside; of 22009 drawn cases 0 failed (o/checks.csv)
> 2 cases: 0 out of memory, 0 refused, 0 failed; waves under: busiest-rank 0 of 2, per-rank 0 of 2, per-rank-any 0 of 2
$ cut -d , -f 1-4 o/checks.csv
> check,cases,seed,failed
> mirror-executor,10000,20250601,0
> lower-bound,10000,20250601,0
> plan-coverage,2000,20250601,0
> routing-sensitivity,9,0,0

+ tight.lua
| return {
|   name = "tight",
|   cases = {{
|     name = "a", model = "Qwen3.6-35B-A3B", layers = 8, cp = 2, ep = 2,
|     batch = batch.lengths{2000, 2000}, tolerance = {under = 0, over = 0.01},
|   }},
| }
$ peakproof run --check --out o tight.lua >table; code=$?; tail -n 2 table | head -n 1; (exit $code)
> check: 1 of 1 cases have a tolerance, 3 estimates are outside; of 22009 drawn cases 0 failed (o/checks.csv)
!* peakproof: check: tight/a: wave 0: busiest-rank is +* % of the peak off (allowed -0 to +0.01 %)
!* peakproof: check: tight/a: wave 0: per-rank is +* % of the peak off (allowed -0 to +0.01 %)
!* peakproof: check: tight/a: wave 0: per-rank-any is +* % of the peak off (allowed -0 to +0.01 %)
= 4

# Exit 5: no such device here.

$ peakproof run --device cuda --out none two.lua
!* peakproof: device cuda: *
= 5

# Exit 6: out of memory in the workload. The case is a record, the later one
# still runs, and its estimates stand beside it.

+ full.lua
| local function case(name, bytes)
|   return {
|     name = name, model = "Qwen3.6-35B-A3B", layers = 8, cp = 2, ep = 2,
|     waves = 2, batch = batch.lengths{2000, 2000}, device_bytes = bytes,
|   }
| end
| return {name = "full", cases = {case("small", "9G"), case("large", "80G")}}
$ peakproof run --out o full.lua | cut -c 1-45
>* case *
>* full/small *0 cold *oom *
>* full/small *0 cold *oom *
>* full/small *0 cold *oom *
>* full/small *1 warm *skipped *
>* full/small *1 warm *skipped *
>* full/small *1 warm *skipped *
>* full/large *0 cold *
>...
!* peakproof: full/small: rank 0: out of device memory: *
$ peakproof run --out o full.lua >table
!* peakproof: full/small: rank 0: out of device memory: *
= 6
$ sed -n 's/.*,\(oom\|ok\),.*/\1/p' o/cases.csv
> oom
> ok

# The error tells the segment that 128 bytes take, and what lies beside the
# allocator: 178257920 B and 172032 B are those taken.

+ short.lua
| return {options = {bytes = {default = 0}, rate = {default = 0.0}},
|         cases = function(o) return {{
|   name = "a", model = "tiny", cp = 2, ep = 2, device_bytes = o.bytes,
|   learning_rate = o.rate, batch = batch.lengths{3},
| }} end}
$ peakproof run --out s short.lua -- bytes=1000000 >table
! peakproof: short/a: rank 0: out of device memory: weights (layer 0, none, other) requests 128 B, a segment of 2097152 B; allocated 0 B, reserved 0 B, the dry device has 1000000 B, 0 B of them taken
= 6
$ peakproof run --out s short.lua -- bytes=208000000 >table
! peakproof: short/a: rank 0: out of device memory: workspace.grouped (layer -1, forward, workspace) requests 33555456 B, a segment of 35651584 B; allocated 168805376 B, reserved 178257920 B, the dry device has 208000000 B, 178429952 B of them taken; dispatch buffers beside the allocator hold 172032 B
= 6

# Adam's moments take of the device's bytes, whether a step is taken or not.

$ peakproof run --out s short.lua -- bytes=300000000 >table; peakproof run --out t short.lua -- bytes=300000000 rate=0.001 >table; cmp s/peaks.csv t/peaks.csv; sed -n '1s/.*,//p; s/^dry.*,\([0-9]*\)$/\1/p' s/peaks.csv
> start_bytes
> 986112
> 986112

# A worker that is killed makes a failed case; the run goes on.

+ kill.lua
| local calls = 0
| estimator{
|   name = "killer",
|   price = function(facts)
|     if facts.parallel.ep == 1 then os.execute("kill -9 $PPID") end
|     return {raw = 1}
|   end,
| }
$ peakproof run --unsafe -j 2 --out o --estimator kill.lua two.lua >table
! peakproof: two/ep1: worker was ended by signal 9 (Killed)
= 1
$ cut -d , -f 2,3 o/cases.csv; sed -n 's/.*,\(error\|ok\),.*/\1/p' o/cases.csv
> scenario,case
> two,ep1
> two,ep2
> error
> ok
$ peakproof run --out o --estimator kill.lua two.lua >table
!* peakproof: two/ep1: *os*
!...
= 3

# Exit 130: interrupted. Finished cases are kept, and --resume goes on to the
# same bytes.

+ stop.lua
| estimator{
|   name = "stopper",
|   price = function(facts)
|     if facts.parallel.ep == 2 then
|       if os.execute("[ -e go ]") then return {raw = 1} end
|       os.execute("(sleep 0.2; kill -INT $PPID) >/dev/null 2>&1 &")
|       while true do end
|     end
|     return {raw = 1}
|   end,
| }
$ touch go; peakproof run --unsafe --out whole --estimator stop.lua two.lua >table; rm go
$ peakproof run --unsafe --out part --estimator stop.lua two.lua >table
! peakproof: interrupted (finished cases are kept; --resume goes on)
= 130
$ cut -d , -f 2,3 part/cases.csv
> scenario,case
> two,ep1
$ peakproof run --resume --out part --estimator stop.lua tight.lua >table
!* peakproof: part*
= 2
$ touch go; peakproof run --unsafe --resume --out part --estimator stop.lua two.lua >table
$ for f in records peaks cases checks inventory; do cmp whole/$f.csv part/$f.csv; done

$ peakproof run --resume --out part - <two.lua
! peakproof: run: --resume needs a file, not standard input
= 2
$ peakproof run --out stdin - <two.lua >table; cmp first/records.csv stdin/records.csv
$ sed -n 's/.*"command": //p' second/run.json
> "peakproof run -j 2 --out second two.lua",

# Snapshots of the ranks' allocators, which replay without a difference.

$ peakproof run --out o --snapshot snap --only ep2 two.lua >table; ls snap
> two.ep2.rank0.pickle
> two.ep2.rank1.pickle
$ peakproof replay --json snap/* | grep -c 'mismatches": 0'
> 6
$ peakproof run --out o --snapshot snap --only ep1 -j 2 two.lua >table; ls snap | wc -l
> 4

# A folder that is not ours is not replaced.

$ mkdir mine; echo hello >mine/records.csv; peakproof run --out mine two.lua
!* peakproof: mine*
= 2
$ cat mine/records.csv
> hello

# Every key of a case that "help scenarios" names, and an estimator of the
# scenario's own.

+ keys.lua
| estimator{name = "mine", price = function(facts)
|   return {raw = facts.groups[1].attention_rows[1] * 200000}
| end}
| return {
|   name = "keys",
|   cases = {{
|     name = "a", about = "all keys", model = "Qwen3.6-35B-A3B", layers = 8,
|     cp = 2, ep = 2, tp = 1, pp = 1, lora_rank = 8, lora_alpha = 32,
|     waves = 2, dtype = "bf16", seed = 3, weights = "random",
|     batch = batch.random{count = 3, length = {400, 900}, seed = 4},
|     plan = {cut = 512, profile = "new"}, head_rows = 3,
|     price_head_rows = 2, output_bytes = 5, hybridep_held_rows = 0,
|     routing = {share = 1.1, rank = 1}, softmax_offset = false,
|     cp_attention = true, learning_rate = 0, device_bytes = "80G",
|     tolerance = {under = 1, over = 2},
|     published = {before_cold = 1, before_warm = 2, after_cold = 3,
|                  after_warm = 4},
|   }},
| }
$ peakproof run --out o keys.lua | wc -l
> 10
$ grep -c ',max,mine,raw,102400000,' o/records.csv
> 2

# A worker that was killed says nothing of its case: --resume runs it again,
# to the same bytes as if nothing had been. SIGTERM to a worker changes nothing.

+ once.lua
| estimator{
|   name = "once",
|   price = function(facts)
|     if facts.parallel.ep == 1 then
|       os.execute("[ -e well ] || kill -$(cat signal) $PPID")
|     end
|     return {raw = 1}
|   end,
| }
$ echo TERM >signal; peakproof run --unsafe -j 2 --out well --estimator once.lua two.lua >table
$ rm -r well; echo KILL >signal; peakproof run --unsafe -j 2 --out died --estimator once.lua two.lua >table
! peakproof: two/ep1: worker was ended by signal 9 (Killed)
= 1
$ echo 0 >signal; peakproof run --unsafe -j 2 --out whole --estimator once.lua two.lua >table
$ peakproof run --unsafe --resume -j 2 --out died --estimator once.lua two.lua >table
$ for f in records peaks cases checks inventory; do cmp whole/$f.csv died/$f.csv; done

# A failed case is kept otherwise, with its exit code, and told of.

$ peakproof run --out f full.lua >table 2>&1
= 6
$ peakproof run --resume --out f full.lua >table
!* peakproof: warning: run: full/small failed before (oom, *
= 6

# Workers end with the parent, and do not hold its folder.

+ hold.lua
| estimator{
|   name = "holder",
|   price = function(facts)
|     if os.execute("[ -e free ]") then return {raw = 1} end
|     os.execute("echo $PPID >>pids; kill -9 $(cat parent); sleep 1")
|     return {raw = 1}
|   end,
| }
$ sh -c 'echo $$ >parent; exec peakproof run --unsafe -j 2 --out h --estimator hold.lua two.lua' >table 2>&1
= 137
$ touch free; peakproof run --unsafe --resume --out h --estimator hold.lua two.lua >table
$ for p in $(cat pids); do awk '/^Name/ {n = $2} /^State/ && n == "peakproof" && $2 != "Z"' /proc/$p/status 2>&-; done; :

# What a run has read makes it another one when it changes: a module, a model,
# a file of sequences.

+ lens.lua
| return {100, 50}
+ read.lua
| return {name = "read", cases = {
|   {name = "a", model = "m.json", cp = 2, ep = 2,
|    batch = batch.lengths(require "lens")},
|   {name = "b", model = "m.json", cp = 2, ep = 2,
|    batch = batch.sequences{file = "x-sequences.csv"}},
| }}
$ cp $TOP/lua/models/tiny.json m.json; for f in sequences prefix-tree; do cp $TOP/lua/data/tau-airline-$f.csv x-$f.csv; done
$ peakproof run --out r read.lua >table && peakproof run --resume --out r read.lua >table
$ for f in lens.lua m.json x-sequences.csv x-prefix-tree.csv; do cp $f keep; echo >>$f; peakproof run --resume --out r read.lua >table; echo $?; cp keep $f; done
> 2
> 2
> 2
> 2
! peakproof: r: holds a run of other scenarios or settings (repeat its command, or leave out --resume to replace it)
! peakproof: r: holds a run of other scenarios or settings (repeat its command, or leave out --resume to replace it)
! peakproof: r: holds a run of other scenarios or settings (repeat its command, or leave out --resume to replace it)
! peakproof: r: holds a run of other scenarios or settings (repeat its command, or leave out --resume to replace it)
$ peakproof run --resume --out r read.lua >table

$ cp -r r bad; sed -i '2s/[0-9]*$/late/' bad/timings.csv; peakproof run --resume --out bad read.lua
! peakproof: bad/timings.csv:2: ns: 'late' is not a whole number from 0 to 18014398509481983
= 3

$ peakproof run --misses 0 --out m two.lua >table; ls m/misses | wc -l
> 2
$ peakproof run --resume --misses 0 --out m two.lua >table; ls m/misses | wc -l
> 2
$ sed -i 2q m/cases.csv; peakproof run --resume --misses 0 --out m two.lua >table; ls m/misses | wc -l
> 2
$ sed -i 1q m/cases.csv; touch m/misses/old.json; peakproof run --resume --misses 0 --out m two.lua >table; ls m/misses | wc -l
> 3
$ peakproof run --out m two.lua >table; ls m/misses
> old.json

# --resume ends as the run did: a bad estimator is exit 3, an estimate outside
# its tolerance 4, checked then or not.

+ bad.lua
| estimator{name = "bad", price = function(facts)
|   if facts.parallel.ep == 1 then error("no, \"thanks\"") end
|   return {raw = 1}
| end}
$ peakproof run --out b --estimator bad.lua two.lua >table 2>&1
= 3
$ grep -c '"exit 3: ' b/cases.csv
> 1
$ peakproof run --resume --out b --estimator bad.lua two.lua >table
! peakproof: warning: run: two/ep1 failed before (error, cases.csv says why) and is kept (leave out --resume to run it again)
= 3
$ peakproof run --out t tight.lua >table
$ peakproof run --check --resume --out t tight.lua >table 2>again
= 4
$ peakproof run --check --out t tight.lua >table 2>fresh
= 4
$ cmp fresh again; sort -u fresh | wc -l
> 3
$ peakproof run --check --resume --out t tight.lua >table 2>again
= 4
$ cmp fresh again; peakproof run --resume --out t tight.lua >table

# What an estimator says is no command to a terminal or a table program.

+ escape.lua
| estimator{name = "loud", price = function()
|   return nil, "=cmd|' /C calc'!A0 \27[31mred\nnext"
| end}
| return {cases = {{name = "a", model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
|   batch = batch.lengths{3000, 2000}}}}
$ peakproof run --out loud escape.lua >said; LC_ALL=C grep -c "[[:cntrl:]]" said loud/records.csv
> said:0
> loud/records.csv:0
= 1
$ grep loud,raw loud/records.csv
> dry,escape,a,0,cold,max,loud,raw,,refused,'=cmd|' /C calc'!A0 ?[31mred?next
$ peakproof report loud >said; LC_ALL=C grep -c '[[:cntrl:]]' loud/accuracy.md
> 0
= 1
$ printf 'return {cases = {{name = "=a", model = "tiny", batch = batch.lengths{9}}}}' | peakproof run -
!* peakproof: stdin:1: case '=a': name: must not begin with + = @ or - *
= 3
$ for n in '=x' '+x' '@x' '-x'; do echo "return {name = '$n', cases = {{name = 'a', model = 'tiny', batch = batch.lengths{9}}}}" | peakproof run -; done
!* peakproof: stdin:1: name: must not begin with + = @ or - *
!* peakproof: stdin:1: name: must not begin with + = @ or - *
!* peakproof: stdin:1: name: must not begin with + = @ or - *
!* peakproof: stdin:1: name: must not begin with + = @ or - *
= 3
$ echo "return {cases = {{name = 'a', model = 'tiny', batch = batch.lengths{9}}}}" >=x.lua; peakproof run ./=x.lua
! peakproof: ./=x.lua:1: name: must not begin with + = @ or - (a table program takes such a cell for a formula)
= 3

# What cases.csv says of every kind of routing.

+ routings.lua
| local function case(name, routing)
|   return {name = name, model = "Qwen3.6-35B-A3B", layers = 4, cp = 2, ep = 2,
|           batch = batch.lengths{600, 500}, routing = routing}
| end
| return {name = "routings", cases = {
|   case("even", "balanced"),
|   case("cv", {cv = 0.5, seed = 9}),
|   case("drift", {cv = 0.5, seed = 9, drift = 0.25}),
|   case("burst", {cv = 0.5, seed = 9, drift = 0.25, burst = 0.125, factor = 3}),
|   case("share", {share = 1.5, rank = 1}),
|   case("hot", {hot_expert = 5, factor = 8.5}),
|   case("list", {{cv = 0.5, seed = 3}, {hot_expert = 2, factor = 4}}),
| }}
$ peakproof run --out routed routings.lua >table
$ awk -F, 'NR == 1 { for (i = 1; $i != "routing"; i++); next } { print $i $(i + 1) }' routed/cases.csv
> balanced0
> cv 0.5 seed 90
> cv 0.5 seed 9 drift 0.250
> cv 0.5 seed 9 drift 0.25 burst 0.125 x 30
> share 1.5 rank 10
> expert 5 x 8.50
> "by wave 2"
