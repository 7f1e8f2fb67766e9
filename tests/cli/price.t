# Frozen facts in, every estimator out.

+ facts.json
| {"format": 1, "model": "Qwen3.6-35B-A3B.json", "layers": 40,
|  "parallel": {"cp": 2, "ep": 2, "tp": 1, "pp": 1}, "lora_rank": 8,
|  "cold": true, "adapter_pending": true, "moe_stages": true,
|  "routing_state": true, "head_rows": 0, "output_bytes": 0,
|  "hybridep_held_rows": null, "packed_length": null,
|  "softmax_offset": false, "cp_attention": true, "block": [128, 64],
|  "groups": [{"grad": true, "slot": "policy",
|   "attention_rows": [52480, 44314], "gdn_rows": [48194, 48600],
|   "routed_rows": null, "stages": [
|    [{"local": true, "q": 52480, "k": 52480, "q_len": 52480, "k_len": 52480}],
|    [{"local": true, "q": 44314, "k": 44314, "q_len": 44352, "k_len": 44352},
|     {"local": false, "q": 44314, "k": 16504, "q_len": 44352,
|      "k_len": 16512}]]}]}

$ peakproof price facts.json | grep -E '"(name|raw_bytes|admitted_bytes)"' | head -9
>       "name": "busiest-rank",
>       "raw_bytes": 25831390943,
>       "admitted_bytes": 28414530037,
>       "name": "per-rank",
>       "raw_bytes": 25818107903,
>       "admitted_bytes": 28399918693,
>       "name": "per-rank-any",
>       "raw_bytes": 22714769576,
>       "admitted_bytes": 24986246533,

$ peakproof price facts.json >a; peakproof price - <facts.json >b; cmp a b
$ peakproof price --json facts.json >b; cmp a b

# What is a stage's is null where an estimator prices none.

$ grep -E '"(name|attention_stage|gdn_stage|moe_workspace|adapter_extra)": ("per|null)' a | sort | uniq -c | sed 's/^ *//'
> 2           "adapter_extra": null,
> 2           "attention_stage": null,
> 2           "gdn_stage": null,
> 2           "moe_workspace": null,
> 1       "name": "per-rank",
> 1       "name": "per-rank-any",
# A mark of byte order is no part of a text, as in CSV.

$ (printf '\357\273\277'; cat facts.json) >mark.json; peakproof price mark.json >b; cmp a b
$ (printf '\357\273\277'; cat mark.json) >twice.json; peakproof price twice.json
!* peakproof: twice.json:1: not JSON: *
= 3

$ sed 's/"cp": 2/"cp": 2, "dp": 2/' facts.json | peakproof price -
! peakproof: standard input: parallel: unknown key 'dp' (did you mean 'cp'?)
= 3

$ sed 's/44314, 16504/0/; s/"stages"/"stage"/' facts.json >b; peakproof price b
! peakproof: b: groups[0]: unknown key 'stage' (did you mean 'stages'?)
= 3

$ sed 's/52480, 44314/1099511627776, 44314/' facts.json >b; peakproof price b
! peakproof: b: groups[0].attention_rows[0]: 1099511627776 is not from 0 to 68719476736
= 3

$ sed 's/52480, 44314/99999999999999999999, 44314/' facts.json >b; peakproof price b
! peakproof: b: groups[0].attention_rows[0]: 1e+20 does not fit 64 bits (line 8)
= 3

$ sed 's/"ep": 2/"ep": 3/' facts.json >b; peakproof price b
! peakproof: b: parallel.ep: 3 does not divide the 256 experts of Qwen3.6-35B-A3B
= 3

$ peakproof price none.json
! peakproof: none.json: No such file or directory
= 3

$ peakproof price
!...
= 2

# What is not covered gets a reason, and the busiest rank's bytes or none.

$ sed 's/"softmax_offset": false/"softmax_offset": true/' facts.json | peakproof price - | grep -E '"(supported|reason|raw_bytes)"' | head -6
>       "supported": true,
>       "reason": null,
>       "raw_bytes": 25831390943,
>       "supported": false,
>       "reason": "attention has a softmax offset",
>       "raw_bytes": 25831390943,

$ sed 's/"tp": 1/"tp": 2/' facts.json | peakproof price - | grep -E '"(supported|reason|raw_bytes)"' | head -6
>       "supported": false,
>       "reason": "TP2 PP1: only TP1 and PP1 are priced",
>       "raw_bytes": null,
>       "supported": false,
>       "reason": "TP2 PP1: only TP1 and PP1 are priced",
>       "raw_bytes": null,

# Other recompute modes, dense models, tensor parallelism: a pair of 4,096
# rows that shares a prefix, on four ranks.

+ tp4.json
| {"format": 1, "model": "Qwen3.6-27B.json", "layers": 64,
|  "parallel": {"cp": 1, "ep": 1, "tp": 4, "pp": 1}, "lora_rank": 1,
|  "cold": false, "adapter_pending": false, "moe_stages": true,
|  "routing_state": true, "head_rows": 0, "output_bytes": 83886080,
|  "softmax_offset": false, "cp_attention": true, "block": [128, 64],
|  "recompute": "selective", "recompute_modules": ["core_attn"],
|  "segments": 3, "groups": [{"grad": true, "slot": "policy",
|   "attention_rows": [6964], "gdn_rows": [6964]}]}

$ peakproof price tp4.json | grep -E -A4 '"name": "(heuristic|retained)'
>       "name": "heuristic",
>       "supported": true,
>       "reason": null,
>       "raw_bytes": 1224867840,
>       "admitted_bytes": 1347354624,
> --
>       "name": "retained-states",
>       "supported": true,
>       "reason": null,
>       "raw_bytes": 37863161856,
>       "admitted_bytes": 41649478041,
> --
>       "name": "retained-rank",
>       "supported": true,
>       "reason": null,
>       "raw_bytes": 37863161856,
>       "admitted_bytes": 41649478041,

$ sed 's/"core_attn"/"core_attn", "mlp"/' tp4.json | peakproof price - | grep -A4 retained-states | grep admitted
>       "admitted_bytes": 22870344499,

$ sed 's/"core_attn"/"attn"/' tp4.json >b; peakproof price b
! peakproof: b: recompute_modules[0]: no such module: 'attn' (core_attn, mlp or moe)
= 3

$ sed 's/"core_attn"/"moe"/' tp4.json >b; peakproof price b
! peakproof: b: recompute_modules: moe, but Qwen3.6-27B has no experts
= 3

$ sed 's/"selective"/"some"/' tp4.json >b; peakproof price b
! peakproof: b: recompute: no such recompute: 'some'
= 3

$ sed 's/"segments": 3/"swiglu_widths": 4/' tp4.json >b; peakproof price b
! peakproof: b: swiglu_widths: must be 3 (fused), 5 or 7 (clamped)
= 3

$ sed 's/"pp": 1/"pp": 2/' tp4.json | peakproof price - | grep -A2 heuristic
>       "name": "heuristic",
>       "supported": false,
>       "reason": "PP2: only PP1 is priced",

# Facts that contradict themselves are not priced.

$ sed 's/48194, 48600/1, 1/' facts.json >b; peakproof price b
! peakproof: b: groups[0].gdn_rows: sum to 2, attention_rows to 96794 (both hold the same rows)
= 3
$ sed 's/{"local": true, "q": 44314, "k": 44314, "q_len": 44352, "k_len": 44352},//' facts.json >b; peakproof price b
! peakproof: b: groups[0].stages[1]: its local stage must have the rank's 44314 attention rows as q and k (every row attends to itself)
= 3
$ sed 's/"k": 16504, "q_len": 44352,/"k": 52481, "q_len": 44352,/; s/"k_len": 16512/"k_len": 52608/' facts.json >b; peakproof price b
! peakproof: b: groups[0].stages[1][1].k: 52481 keys are fetched, and the other ranks hold 52480 rows
= 3

# One slot's gradients exist once; two slots have their own.

+ two.json
| {"format": 1, "model": "Qwen3.6-35B-A3B.json", "layers": 40,
|  "parallel": {"cp": 2, "ep": 1, "tp": 1, "pp": 1}, "lora_rank": 8,
|  "cold": true, "adapter_pending": true, "moe_stages": true,
|  "routing_state": true, "head_rows": 3000, "output_bytes": 0,
|  "hybridep_held_rows": null, "packed_length": null,
|  "softmax_offset": false, "cp_attention": true, "block": [128, 64],
|  "groups": [
|   {"grad": true, "slot": "a", "attention_rows": [2560, 440],
|    "gdn_rows": [3000, 0], "routed_rows": null, "stages": [
|     [{"local": true, "q": 2560, "k": 2560, "q_len": 2560, "k_len": 2560}],
|     [{"local": true, "q": 440, "k": 440, "q_len": 512, "k_len": 512},
|      {"local": false, "q": 440, "k": 2560, "q_len": 512, "k_len": 2560}]]},
|   {"grad": true, "slot": "a", "attention_rows": [2560, 440],
|    "gdn_rows": [3000, 0], "routed_rows": null, "stages": [
|     [{"local": true, "q": 2560, "k": 2560, "q_len": 2560, "k_len": 2560}],
|     [{"local": true, "q": 440, "k": 440, "q_len": 512, "k_len": 512},
|      {"local": false, "q": 440, "k": 2560, "q_len": 512, "k_len": 2560}]]}]}
$ peakproof price two.json | grep raw_bytes | head -2
>       "raw_bytes": 2625262304,
>       "raw_bytes": 2584343264,
$ sed '0,/"slot": "a"/s//"slot": "b"/' two.json >ab.json; peakproof price ab.json | grep raw_bytes | head -2
>       "raw_bytes": 3075658464,
>       "raw_bytes": 3070784224,
$ sed 's/"adapter_pending": true/"adapter_pending": {"a": true, "b": true}/' ab.json | peakproof price - >by; peakproof price ab.json | cmp - by
$ sed 's/"adapter_pending": true/"adapter_pending": {"a": false, "b": false}/' ab.json | peakproof price - >none; sed 's/"adapter_pending": true/"adapter_pending": false/' ab.json | peakproof price - | cmp - none
$ sed 's/"adapter_pending": true/"adapter_pending": {"a": true, "c": true}/' ab.json | peakproof price -
! peakproof: standard input: adapter_pending: no group is of slot 'c'
= 3
$ sed 's/"adapter_pending": true/"adapter_pending": {"a": true}/' ab.json | peakproof price -
! peakproof: standard input: adapter_pending.b: missing
= 3

# Ranks that share experts outside the wave, operators that nobody fused: not
# what per-rank-any has priced.

$ for cut in 's/"ep": 2/"ep": 4/' 's/"cold"/"compiled": false, "cold"/'; do peakproof plan --lengths 3000,500 --ep 2 --facts | sed "$cut" | peakproof price - | grep -A 2 '"per-rank-any"'; done
>       "name": "per-rank-any",
>       "supported": false,
>       "reason": "EP4 CP2: ranks that share experts are others than the wave's",
>       "name": "per-rank-any",
>       "supported": false,
>       "reason": "not compiled: operators are priced as fused",

# The estimators that are text decline where those of the program do.

+ modes.lua
| local list = {{name = "dense", model = "Qwen3-8B"}, {name = "f32", dtype = "f32"},
|   {name = "none", recompute = "none"}, {name = "eager", compiled = false},
|   {name = "moe", recompute = "selective", recompute_modules = {"moe"}},
|   {name = "loss", wave = "hidden-loss"}, {name = "tp", tp = 2},
|   {name = "forward", wave = "hidden", grad = false}, {name = "cp4", cp = 4}}
| for _, c in ipairs(list) do
|   c.model, c.layers = c.model or "Qwen3.6-35B-A3B", 4
|   c.cp, c.ep = c.cp or 2, c.name ~= "dense" and 2 or nil
|   c.batch = batch.lengths{5000, 300}
| end
| return {cases = list}
$ L=$TOP/lua/estimators; peakproof run --estimator $L/busiest-rank.lua --estimator $L/per-rank.lua --estimator $L/per-rank-any.lua modes.lua >a
$ awk -F, '$6 == "max" && $8 == "raw" && $7 ~ /-rank/ && $7 !~ "/" {b = $7; sub(/[.]lua$/, "", b); n[$3 " " b]++; v[$3 " " b, n[$3 " " b]] = $10 " " $11 (($10 == "ok") ? $9 : "")} END {for (k in n) if (n[k] == 2 && v[k, 1] != v[k, 2]) print k ": " v[k, 1] " / " v[k, 2]; else if (n[k] == 2) same++; print same " alike"}' out/records.csv
> 27 alike
