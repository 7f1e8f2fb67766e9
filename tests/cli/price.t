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

$ peakproof price facts.json | grep -E '"(name|raw_bytes|admitted_bytes)"'
>       "name": "busiest-rank",
>       "raw_bytes": 25831390943,
>       "admitted_bytes": 28414530037,
>       "name": "per-rank",
>       "raw_bytes": 25818107903,
>       "admitted_bytes": 28399918693,

$ peakproof price facts.json >a; peakproof price - <facts.json >b; cmp a b
$ peakproof price --json facts.json >b; cmp a b

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

$ sed 's/"softmax_offset": false/"softmax_offset": true/' facts.json | peakproof price - | grep -E '"(supported|reason|raw_bytes)"'
>       "supported": true,
>       "reason": null,
>       "raw_bytes": 25831390943,
>       "supported": false,
>       "reason": "attention has a softmax offset",
>       "raw_bytes": 25831390943,

$ sed 's/"tp": 1/"tp": 2/' facts.json | peakproof price - | grep -E '"(supported|reason|raw_bytes)"'
>       "supported": false,
>       "reason": "TP2 PP1: only TP1 and PP1 are priced",
>       "raw_bytes": null,
>       "supported": false,
>       "reason": "TP2 PP1: only TP1 and PP1 are priced",
>       "raw_bytes": null,
