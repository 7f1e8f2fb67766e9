# A wave against a device. Weights of the 35B in bf16: 69,321,221,376 bytes at
# EP1, 37,108,966,656 at EP2.

$ peakproof fit --memory 80G --lengths 20000,9000 --ep 2 >a; sed -n 1,7p a
> device memory, bytes            80,000,000,000
> kept free (context, NCCL)        2,400,000,000
> weights                         37,108,966,656
> adapters                           480,542,720
> optimizer moments                1,922,170,880
> left for a wave                 38,088,319,744
> tokens of the wave                      29,000
$ sed -n '/^busiest/,/^per-rank-any/p' a
> busiest-rank later     480,542,720   8,639,802,067  48,632,025,043  28,967,974,957 fits        129,921
> per-rank     later     480,542,720   8,321,454,394  48,313,677,370  29,286,322,630 fits        133,240
> per-rank-any later     480,542,720   7,359,805,039  47,352,028,015  30,247,971,985 fits        152,324
$ grep ^simulated a
>* simulated    later * fits *
>* simulated: three waves on the dry device, allocator and all, routing balanced, recompute full; rank * dispatch buffers; its peak is in *
$ peakproof fit --memory 80G --lengths 2000 --layers 4 --ep 2 --routing cv=1,seed=3 | grep -o "routing.*recompute [a-z]*"; peakproof fit --memory 80G --lengths 2000 --layers 4 --model Qwen3-8B --json | grep -A1 '"routing"'
> routing cv 1 seed 3, recompute full
>       "routing": null,
>       "recompute": "full"

# What it grants runs on a device of that size, in one or more waves; the first
# failure it names does not. The same shape at another scale has the same
# budget.

+ granted.sh
| set -e
| json() { sed -n "/\"simulated\"/,/}/s/.*\"$1\": \([0-9]*\).*/\1/p"; }
| peakproof fit --json --memory 80G --lengths 20000 --ep 2 >fit.json
| peakproof fit --json --memory 80G --lengths 90000 --ep 2 | json budget_tokens >b
| json budget_tokens <fit.json | cmp - b
| device=$(sed -n 's/.*"device_bytes": \([0-9]*\).*/\1/p' fit.json)
| for n in $(cat b) $(json first_failure_tokens <fit.json); do
|     cat >case.lua <<END
| return {cases = {{name = "a", model = "Qwen3.6-35B-A3B", cp = 2, ep = 2,
|   waves = 3, learning_rate = 1e-3, device_bytes = "$device",
|   batch = batch.lengths{$n}}}}
| END
|     peakproof run --out o case.lua >table 2>said && echo runs || echo $?
| done
$* sh granted.sh
> runs
> 6

# A case of a scenario; a recorded layout has no budget.

$ peakproof fit --memory 141G pr-accuracy.lua --only real-40 | grep -E '^simulated +later.* fits $' | grep -c .
> 1
# What a case tells the estimators they are told here too: the same bytes as in
# its run, to the byte.

+ told.lua
| local list = {}
| local function case(name, tokens, more)
|   local c = {name = name, model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
|              ep = 2, batch = batch.lengths{tokens, 700}}
|   for k, v in pairs(more) do c[k] = v end
|   list[#list + 1] = c
| end
| case("offset", 9000, {softmax_offset = true})
| case("other", 9000, {cp_attention = false})
| case("bytes", 9000, {output_bytes = 3000000000})
| case("rows", 900, {price_head_rows = 10})
| case("held", 9000, {hybridep_held_rows = 512})
| case("plain", 9000, {})
| case("short", 900, {})
| return {cases = list}
$ peakproof run --out o told.lua >table
$* for c in offset other bytes rows held plain short; do peakproof fit --json --memory 80G told.lua --only $c >f.$c; sed -n 's/.*"admitted_bytes": \([0-9]*\).*/\1/p' f.$c >a.$c; awk -F, -v c=$c '$3 == c && $6 == "max" && $8 == "admitted" && $7 !~ "/" {print $9}' o/records.csv | cmp - a.$c && echo $c; done | paste -s -d ' '
> offset other bytes rows held plain short
$* cat a.bytes a.held a.plain | sort -u | wc -l; cmp -s a.rows a.short || echo differ
> 9
> differ
$* sed -n 's/.*"reason": "\(.*\)".*/\1/p' f.offset f.other | sort | uniq -c | sed 's/^ *//'
> 2 attention has a softmax offset
> 2 attention is not the project's context-parallel attention
$* for c in plain bytes held offset; do sed -n 's/.*"budget_tokens": \([0-9]*\).*/\1/p' f.$c | sed 1d | paste -s -d ' '; done
> 322555 334346 400909
> 308087 318313 382722
> 306568 316595 376465
> 322555 322555 322555
# So they are of routing: pairs by rank and layer, wave by wave, unless
# --routing says otherwise than the case, and rows of a recorded layout.

+ routed.lua
| local list = {}
| local function case(name, routing, b)
|   list[#list + 1] = {name = name, model = "Qwen3.6-35B-A3B", layers = 4,
|     cp = 2, ep = 2, waves = 3, routing = routing,
|     batch = b or batch.lengths{9000, 700}}
| end
| local rows = {5000, 4700}
| local function layout(routed)
|   return batch.layout{attention_rows = rows, gdn_rows = rows,
|     stages = {{{q = 5000, k = 5000}}, {{q = 4700, k = 4700}}},
|     routed_rows = routed}
| end
| case("even", "balanced")
| case("share", {share = 1.3, rank = 1})
| case("waves", {{share = 1.1, rank = 0}, {share = 1, rank = 0},
|                {share = 1.6, rank = 0}})
| case("layout", "balanced", layout())
| case("rows", "balanced", layout(9000))
| return {cases = list}
$ peakproof run --out r routed.lua >table
$ for c in even share waves layout rows; do peakproof fit --json --memory 80G routed.lua --only $c | sed -n 's/.*"admitted_bytes": \([0-9]*\).*/\1/p' >a.$c; for w in 0 1 2; do for n in 1 2 3; do awk -F, -v c=$c -v w=$w '$3 == c && $4 == w && $6 == "max" && $8 == "admitted" && $7 !~ "/" {print $9}' r/records.csv | sed -n ${n}p >b; sed -n ${n}p a.$c | cmp -s - b && echo $c $w $n; done; done; done | paste -s -d ' '
> even 0 1 even 0 2 even 0 3 share 0 1 share 0 2 share 0 3 waves 0 1 waves 0 2 waves 2 3 layout 0 1 layout 0 2 layout 0 3 rows 0 1 rows 0 2 rows 0 3
$* for c in even share waves; do peakproof fit --json --memory 80G routed.lua --only $c | sed -n 's/.*"budget_tokens": \([0-9]*\).*/\1/p' | sed -n 4p; done | sort -u | wc -l
> 3
$ sort -u a.even a.share a.waves | wc -l; sort -u a.layout a.rows | wc -l
> 5
> 5
$* peakproof fit --json --memory 80G routed.lua --only share --routing share=1.3 | sed -n 's/.*"admitted_bytes": \([0-9]*\).*/\1/p' | cmp - a.even
$ echo '{"tokens": [1, 2, 3]}' >l.jsonl; sed 's/^case("short".*/case("labels", 900, {labels = "l.jsonl"})/' told.lua >labels.lua
$ peakproof fit --memory 80G labels.lua --only labels
! peakproof: labels.lua: case labels: labels: fit has no file of them for the batches that it tries (say how many rows are labelled, head_rows, in its place)
= 3
$ peakproof fit --memory 141G pr-accuracy.lua
!* peakproof: */scenarios/pr-accuracy.lua: which case? say --only CASE (peakproof list */pr-accuracy.lua names its cases)
= 2
$ peakproof fit --memory 80G --lengths 90000 --ep 2 --routing cv=1,seed=3 --json | grep -c '"fits": true'
> 4
$ peakproof fit --memory 80G --lengths 9000 --ep 2 --routing often
! peakproof: --routing: 'often' is not balanced, cv=1.0, cv=1.0,seed=3 or share=1.3
= 2
# All digits of a seed count, and a number of too many is none.
$* for s in 1 1234567890123456789 12345678901234; do peakproof fit --memory 80G --lengths 9000 --ep 2 --routing cv=0.12345678,seed=$s | sed -n 's/^simulated *later *\([0-9,]*\).*/\1/p'; done | sort -u | grep -c ,
> 3
$ for ep in 1 2; do peakproof fit --memory 80G --lengths 9000 --ep $ep --routing share=64; echo $?; done
> 2
> 2
! peakproof: --routing: share: must be at most ep, 1, not 64
! peakproof: --routing: share: must be at most ep, 2, not 64
$ peakproof fit --memory 80G --lengths 9000 --ep 2 --routing share=1.2000000000000000000000000000000000000000000000000000000000000000
! peakproof: --routing: 'share=1.20000000000000000000000000000000' is not balanced, cv=1.0, cv=1.0,seed=3 or share=1.3
= 2
$ peakproof fit --memory 80G --reserve 90G --lengths 9000
! peakproof: --reserve leaves nothing of --memory
= 2

# The picture.

$ peakproof fit --memory 80G --lengths 2000 --layers 4 --plot p >a; ls p
> fit.dat
> fit.gp
> fit.png
> fit.svg
$ head -n 1 p/fit.dat; cut -d ' ' -f 1 p/fit.dat | sed 1d | paste -s -d ' '; grep -c '^[0-9]*\( [0-9]*\.[0-9]\{6\}\)\{4\}$' p/fit.dat
> # tokens; GB: simulated, then each estimator's
> 20592 41185 61778 82371 102963 123556 144149 164742 185334 205927 226520 247113 267706 288298 308891 329484
> 16
$ grep '^2\(0592\|67706\) ' p/fit.dat
> 20592 15.227421 14.677533 14.514034 14.493790
> 267706 77.020004 78.524756 76.301982 75.863164
$ sed '1,/^set grid/d' p/fit.gp
> set title "What a rank takes of its device"
> set xlabel "tokens in the wave"
> set ylabel "GB"
> set format x "%.0s%c"
> set yrange [0:*]
> set key bottom right reverse Left
> do for [kind in "svg png"] {
>   set terminal @svg
>   if (kind eq "png") { set terminal @png }
>   set output "fit.".kind
>   plot "fit.dat" using 1:2 with linespoints pointtype 7 linewidth 2 linecolor '#000000' title "simulated", \
>     "" using 1:3 with lines linewidth 1.5 linecolor '#56b4e9' title "busiest-rank", \
>     "" using 1:4 with lines linewidth 1.5 linecolor '#0072b2' title "per-rank", \
>     "" using 1:5 with lines linewidth 1.5 linecolor '#009e73' title "per-rank-any", \
>     77.600000 with lines dashtype 2 linewidth 2 linecolor '#d55e00' title "device, less what is kept free"
>   unset output
> }

# What has no lengths cannot be drawn at others.

$ peakproof fit --memory 141G pr-accuracy.lua --only real-40 --plot q
! peakproof: --plot draws the batch at other lengths, planned anew: a recorded layout has rows and stages of one plan, no lengths (give --lengths, --tree, --sequences or a case with such a batch)
= 2
$ peakproof plan --lengths 2047 --facts >f; peakproof fit --memory 80G --plot q f
!* *planned anew: facts have rows, no lengths (give *
= 2

# A row adds up, and tells which of the two waves it is.

$* peakproof fit --memory 80G --lengths 20000,9000 --ep 2 | tr -d , | awk '/^weights|^adapters|^optimizer/ {held += $NF} /^per-rank/ {print held + $3 + $4 - $5, $2}'
> 0 later
> 0 later
$ peakproof fit --memory 80G --lengths 20000,9000 --ep 2 --layers 4 | tr -d , | awk '/^weights|^adapters|^optimizer/ {held += $NF} /^per-rank/ {print held + $3 + $4 - $5, $2}'
> 0 first
> 0 first
$* peakproof fit --memory 80G --lengths 20000,9000 --ep 2 --json | grep -c '"wave": "later"'
> 3

# The budget is where it stops to fit: of one sequence, to the token.

+ budget.sh
| b=$(peakproof fit --json --memory $1 --lengths 8000 | sed -n 's/.*budget_tokens": \([0-9]*\).*/\1/p' | sed -n $(($2 + 1))p)
| for n in $b $((b + 1)); do
|     peakproof fit --json --memory $1 --lengths $n | sed -n 's/.*"fits": \([a-z]*\).*/\1/p' | sed -n $(($2 + 1))p
| done
$* sh budget.sh 90G 1; sh budget.sh 90G 2; sh budget.sh 79G 2
> true
> false
> true
> false
> true
> false

# What to cut: tokens, or what stays between waves.

$ peakproof fit --memory 80G --lengths 40000 >a; grep -E 'cut|NO' a
>* simulated * -*,???,???,??? NO *
>* busiest-rank * -*,???,???,??? NO *
>* per-rank * -*,???,???,??? NO *
>* per-rank-any * -*,???,???,??? NO *
>* cut: waves of this shape fit up to ?*,??? tokens (or more --cp or --ep)
$ shape="--reserve 0 --model Qwen3-1.7B --layers 4 --lengths 9000,9000,9000,9000,9000,9000,9000,9000"; peakproof fit --memory 2900M $shape --cp 8 | grep '^fits'; peakproof fit --memory 2100M $shape --cp 16 | grep -c '^fits\|NO '
> fits with --cp 16
> 4
$ peakproof fit --memory 60G --lengths 100 | grep -E 'cut|left'
> left for a wave                -15,830,802,176
> cut: what a rank holds between waves does not fit (more --ep, fewer --layers, a smaller --lora-rank)
$ peakproof fit --memory 60G --lengths 100 --json | grep -c '"budget_tokens": 0'
> 4

# Facts as they stand; a later wave has its gradients allocated.

$ peakproof plan --lengths 2047 --facts | peakproof fit --memory 80G --json - | grep gradient
>       "gradient_bytes": 0,
>       "gradient_bytes": 0,
>       "gradient_bytes": 0,
$ peakproof plan --lengths 2047 --facts --warm >f; peakproof fit --memory 80G --json f | grep -E 'gradient|"adapter'
>   "adapter_bytes": 941916160,
>       "gradient_bytes": 941916160,
>       "gradient_bytes": 941916160,
>       "gradient_bytes": 941916160,

# Where per-rank does not apply the bytes are busiest-rank's; under TP nothing
# is known.

$ peakproof fit --memory 141G --lengths 9000,9000 --cp 4 --layers 4 | grep -A2 '^per-rank ' | tail -n 2
>*              (as busiest-rank: *
>* per-rank-any *fits*
$ sed 's/"tp": 1/"tp": 2/' f >t; peakproof fit --memory 80G t | tail -n 3
>* busiest-rank not priced: *
>* per-rank     not priced: *
>* per-rank-any not priced: *
$ peakproof fit --memory 80G --json t | grep -c '"fits": null'
> 4

# Mistakes.

$ peakproof fit --lengths 5
! peakproof: fit needs the device's memory (--memory 80G)
= 2
$ peakproof fit --memory 80G
! peakproof: nothing to plan (give --lengths, --tree or --sequences)
= 2
$ peakproof fit --memory 80X --lengths 5
!* peakproof: fit: --memory*80X*
= 2
$ peakproof fit --memory 80G --lengths 5 f
! peakproof: facts and the options of a plan exclude each other
= 2
$ peakproof fit --memory 80G pr-accuracy --only real-40 | grep -c '^simulated .* fits '
> 1
$ peakproof fit --memory 80G pr-acuracy --only real-40
!* peakproof: pr-acuracy: No such file or directory* (did you mean pr-accuracy?*
= 3
$ peakproof fit --memory 80G none.json
! peakproof: none.json: No such file or directory
= 3
$ peakproof fit --memory 9000000T --lengths 5 --layers 4 | grep -c 2,147,483,647
> 3

# A case as it is: its mode, its types, its ranks, or the reason why not.

+ modes.lua
| local function case(name, more)
|   local c = {name = name, model = "Qwen3.6-35B-A3B", layers = 4, cp = 2,
|              ep = 2, waves = 2, learning_rate = 1e-4,
|              batch = batch.lengths{5000}}
|   for key, value in pairs(more) do c[key] = value end
|   return c
| end
| return {cases = {case("none", {recompute = "none"}),
|   case("f32", {dtype = "f32"}), case("tp", {tp = 2}), case("pp", {pp = 2})}}
$ for c in none f32 tp pp; do peakproof fit --memory 80G modes.lua --only $c | grep -E '^(weights|busiest|simulated +[ln])' | cut -c 1-69; done
>* weights  *
>* simulated    later *
> busiest-rank not priced: prices training waves with full recompute on
>* simulated    later *
> busiest-rank not priced: dtype f32: priced in bf16 only
>* simulated    later *
> busiest-rank not priced: TP2 PP1: only TP1 and PP1 are priced
> simulated    not run: rank 0: pp: 2: the step has one pipeline stage,
> busiest-rank not priced: TP1 PP2: only TP1 and PP1 are priced
$* for c in none f32 tp; do peakproof run --json --only $c modes.lua >a; peakproof fit --json --memory 80G modes.lua --only $c >b; for key in a.device b.needed; do sed -n "s/.*\"${key#*.}_bytes\": \([0-9]*\),*/\1/p" ${key%.*} | sort -n | tail -n 1; done | uniq | wc -l; done
> 1
> 1
> 1
$ peakproof run --only pp modes.lua >a; code=$?; tail -n 1 a; exit $code
> 1 case: 0 out of memory, 0 refused, 1 failed
! peakproof: modes/pp: rank 0: pp: 2: the step has one pipeline stage, all layers on each rank (leave pp out; estimators alone are told of it)
= 3

# What run refuses of a case is no answer here either.

+ bad.lua
| local function case(name, more)
|   local c = {name = name, model = "tiny", cp = 2, ep = 2,
|              batch = batch.lengths{500}}
|   for key, value in pairs(more) do c[key] = value end
|   return c
| end
| return {cases = {case("tp", {tp = 3}), case("grad", {grad = false}),
|   case("loads", {routing = {loads = {{1, 1}}}}),
|   case("hot", {routing = {hot_expert = 8, factor = 2}})}}
$ for c in tp grad loads hot; do peakproof fit --memory 80G bad.lua --only $c; echo $?; done
> 3
> 3
> 3
> 3
! peakproof: bad.lua: case 'tp': tp: 3 does not divide the 4 query heads (num_attention_heads)
! peakproof: bad.lua: case 'grad': grad: a wave without gradients ends with the hidden states (use wave = "hidden")
! peakproof: bad.lua: case 'loads': routing: the histogram has 1 waves, 1 layers and 2 experts (1, 4 and at most 8 are needed)
! peakproof: bad.lua: case 'hot': routing: hot_expert: must be below the model's experts, 8, not 8

# One shape at two scales is searched from one place: what fits is the same.

$* for l in 4500,2700,900 35000,21000,7000; do peakproof fit --json --memory 77600M --lengths $l --ep 2 --layers 20 --routing cv=0.5 | grep -m 1 '"budget_tokens": [1-9]'; done | uniq | wc -l
> 1
