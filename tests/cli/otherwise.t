# What only a GPU can decide, made otherwise (otherwise = {...}), and one rank
# alone on 2,000 to 50,000 tokens: raw busiest-rank errors without and with the
# differentiating thread's own workspace.

+ one.lua
| local list = {}
| for _, m in ipairs{"Qwen3.6-35B-A3B", "Qwen3-30B-A3B"} do
|   for _, o in ipairs{{}, {"autograd"}} do
|     for tokens = 2000, 50000, 8000 do
|       list[#list + 1] = {
|         name = ("%s.%s.%d"):format(m:match("%d+B"), o[1] or "without", tokens),
|         model = m, cp = 1, lora_rank = 8, otherwise = o,
|         estimators = {"busiest-rank"}, batch = batch.lengths{tokens}}
|     end
|   end
| end
| return {cases = list}
+ range.awk
| NR == FNR { if (FNR > 1) peak[$3] = $7; next }
| $7 == "busiest-rank" && $8 == "raw" && $6 == "max" {
|     split($3, p, "."); k = p[1] " " p[2]
|     e = 100 * ($9 / peak[$3] - 1)
|     if (!(k in n) || e < lo[k]) lo[k] = e
|     if (!(k in n) || e > hi[k]) hi[k] = e
|     n[k]++
| }
| END { for (k in n) printf "%s %d: %+.1f to %+.1f %%\n", k, n[k], lo[k], hi[k] }
$ peakproof run --out o one.lua >table
$ awk -F, -f range.awk o/peaks.csv o/records.csv | sort
> 30B autograd 7: -1.7 to +2.6 %
> 30B without 7: +0.5 to +2.8 %
> 35B autograd 7: -1.1 to +0.4 %
> 35B without 7: +0.4 to +0.7 %

$ awk -F, '$3 ~ /35B.*[.]2000$/ { r[$3] = $8 } END { print r["35B.autograd.2000"] - r["35B.without.2000"] }' o/peaks.csv
> 33554432

# Bytes that a choice adds, where they are exact: three hidden-wide tensors,
# 4,096 B a row each, in the last of one layer; a router's map and choices, 320
# B a row, in the seven of eight layers that hold them at the peak; blocks that
# are requests rounded to 512 B have no other remainder.

+ two.lua
| local function case(name, layers, choice)
|   return {name = name, model = "Qwen3.6-35B-A3B", cp = 1, lora_rank = 8,
|           layers = layers, otherwise = choice,
|           estimators = {"busiest-rank"}, batch = batch.lengths{40000}}
| end
| return {cases = {
|   case("one", 1, {}), case("one-wide", 1, {"wide-last"}),
|   case("eight", 8, {}), case("eight-state", 8, {"router-state"}),
|   case("eight-rounded", 8, {"rounded"}),
| }}
$ peakproof run --out p two.lua >table
$ awk -F, 'NR > 1 { r[$3] = $8; a[$3] = $7 } END { print r["one-wide"] - r["one"]; print r["eight-state"] - r["eight"]; print r["eight-rounded"] - r["eight"], a["eight-rounded"] - r["eight"] < 100000, a["eight-rounded"] < a["eight"] }' p/peaks.csv
> 491520000
> 89600000
> 0 1 1

# And over tensor-parallel ranks: one attention layer in four keeps 28,672 B a
# row less 4,096; a tensor more is taken and freed of the embedding, and of each
# of five row-parallel products, or of these one less.

+ three.lua
| local function case(name, choice)
|   return {name = name, model = "Qwen3.6-27B", tp = 8, lora_rank = 1,
|           layers = 4, recompute = "none", wave = "hidden",
|           otherwise = choice, estimators = {},
|           batch = batch.lengths{4096}}
| end
| return {cases = {
|   case("built", {}), case("sliced", {"qkv-sliced"}),
|   case("whole", {"embedding-whole"}), case("scaled", {"adapter-scaled"}),
|   case("fused", {"residual-fused"}),
| }}
$ peakproof run --out q three.lua >table
$ awk -F, 'NR > 1 { e[$3] = $10; k[$3] = $17 } END { print k["built"] - k["sliced"]; print e["whole"] - e["built"], e["scaled"] - e["built"], e["fused"] - e["built"] }' q/peaks.csv
> 100663296
> 2 10 -10

# Not where numbers are computed, and not by another word.

$ sed 's/"autograd"/"autogrd"/' one.lua >bad.lua; peakproof list bad.lua
!...
= 3
