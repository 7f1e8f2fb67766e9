# Layouts from tokens. A short sequence as published: attention 1,536 and 511
# rows, all GDN rows on rank 0.

$ peakproof plan --lengths 2047 | grep -v score_ms
> {
>   "format": 1,
>   "tokens": 2047,
>   "chunk": 512,
>   "chunks": 4,
>   "fetch_waves": 1,
>   "attention_rows": [1536, 511],
>   "gdn_rows": [2047, 0],
>   "chained": false,
>   "plan_ms": null,
>   "ranks": [
>...
$ peakproof plan --lengths 2047 --cp 1 | grep -c '"local"'
> 1
$ peakproof plan --lengths 2047 --time | grep plan_ms
>*   "plan_ms": [0-9]*,
$ peakproof plan --lengths 1 | grep rows
>   "attention_rows": [0, 1],
>   "gdn_rows": [0, 1],
$ peakproof plan --lengths 900,700,500 | grep rows
>   "attention_rows": [2048, 52],
>   "gdn_rows": [900, 1200],

# The random batch, and real conversations with the tree beside them.

$ peakproof plan --lengths 21248,21248,21248,21248,21376,20877,20877,20877,20877,20877 >p; grep -E 'rows|"q": 768|"k": 20608' p
>   "attention_rows": [105600, 105153],
>   "gdn_rows": [105626, 105127],
>           "q": 768,
>           "k": 20608,
$ peakproof plan --sequences tau-airline-sequences.csv --select 0-22 | grep -E 'tokens|chunk|rows'
>   "tokens": 96904,
>   "chunk": 640,
>   "chunks": 152,
>   "attention_rows": [52480, 44424],
>   "gdn_rows": [47915, 48989],
$ peakproof plan --sequences $TOP/lua/data/tau-airline-sequences.csv --select 0-22 --ep 2 | grep -E 'attention|"k": 7621'
>   "attention_rows": [53120, 43784],
>           "k": 7621,
$ peakproof plan --tree tau-airline-prefix-tree.csv --cp 4 | grep tokens
>   "tokens": 545543,
$ cp $TOP/lua/data/tau-airline-sequences.csv alone.csv; peakproof plan --sequences alone.csv --select 3,0 | grep tokens
>   "tokens": 12917,
! peakproof: warning: alone.csv: no --tree for its leaf_segment: the sequences are planned as if they shared nothing
$ peakproof plan --sequences alone.csv --tree tau-airline-prefix-tree.csv --select 3,0 | grep tokens
>   "tokens": 11592,

# Facts go into price.

$ peakproof plan --lengths 20000,9000 --ep 2 --facts >f; peakproof price f | grep -E 'name|supported|reason' | head -6
>       "name": "busiest-rank",
>       "supported": true,
>       "reason": null,
>       "name": "per-rank",
>       "supported": true,
>       "reason": null,
$ grep -E 'cold|pending|head_rows|"model"|lora' f
>   "model": "Qwen3.6-35B-A3B.json",
>   "lora_rank": 8,
>   "cold": true,
>   "adapter_pending": true,
>   "head_rows": 29000,
$ peakproof plan --lengths 9 --facts --warm --head-rows 3 --lora-rank 0 | grep -E 'cold|pending|head_rows|lora'
>   "lora_rank": 0,
>   "cold": false,
>   "adapter_pending": false,
>   "head_rows": 3,
$ cp $TOP/lua/models/Qwen3.6-27B.json mine.json; peakproof plan --lengths 4096 --model mine.json --layers 8 --facts >f; grep -E '"model"|layers' f; peakproof price f | grep -c supported
>   "model": "mine.json",
>   "layers": 8,
> 7

$ peakproof plan --lengths 4096 --model Qwen3.6-27B --layers 8 --facts >g; grep '"model"' g; peakproof plan --lengths 4096 --model Qwen3.6-27B.json --layers 8 --facts | cmp - g
>   "model": "Qwen3.6-27B.json",

# Mistakes.

$ peakproof plan --lengths 4096 --ep 3
! peakproof: --ep: 3 does not divide the 256 experts of Qwen3.6-35B-A3B.json
= 2
$ peakproof plan --lengths 4096 --cp 3 --ep 2
! peakproof: --ep: 2 does not divide --cp, 3 (groups of ep ranks share the experts)
= 2
$ peakproof fit --memory 80G --lengths 4096 --ep 4
! peakproof: --ep: 4 does not divide --cp, 2 (groups of ep ranks share the experts)
= 2
$ peakproof plan --lengths 4096 --model Qwen3.6-27
! peakproof: Qwen3.6-27: no such model, here or shipped (did you mean Qwen3.6-27B? peakproof list --models names those; of a folder name its config.json)
= 3

$ peakproof plan
! peakproof: nothing to plan (give --lengths, --tree or --sequences)
= 2
$ peakproof plan --lengths 5,,6
! peakproof: --lengths: '' is not a number of tokens (1 to 2147483647, as in 64k,9000)
= 2
$ peakproof plan --lengths 5,-6
! peakproof: --lengths: '-6' is not a number of tokens (1 to 2147483647, as in 64k,9000)
= 2
$ peakproof plan --lengths 99999999999999999999999999999
!* peakproof: --lengths: '9999999999999999999999?*' is not a number of tokens*
= 2
$ peakproof plan --lengths 2147483647,1
! peakproof: --lengths: sequence 1: the tokens up to here add up to 2147483648 (a wave holds at most 2147483647)
= 3
$ peakproof plan --lengths 5 --tree x.csv
! peakproof: --lengths and --tree exclude each other
= 2
$ peakproof plan --lengths 5 --select 1
! peakproof: --select needs --sequences
= 2
$ peakproof plan --lengths 5 --cp 65
!* peakproof: plan: --cp*65*
= 2
$ peakproof plan --lengths 5 --profile newer
!* peakproof: plan: *newer*
= 2
$ peakproof plan --lengths 5 --facts --time
! peakproof: --facts and --time exclude each other
= 2
$ peakproof plan --lengths 5 --warm
! peakproof: --warm needs --facts
= 2
$ peakproof plan --sequences tau-airline-sequences.csv --select 0-200
! peakproof: --select: bad selection '0-200' (as in 0-19,25, each once, numbers below 200)
= 2
$ peakproof plan --sequences tau-airline-sequences.csv --select 3,3
! peakproof: --select: sequence 3 is chosen twice
= 2
$ peakproof plan --tree none.csv
! peakproof: none.csv: No such file or directory
= 3

# Bad trees, each by its line.

+ cycle.csv
| segment,parent,tokens
| 0,-1,5
| 1,2,3
| 2,1,3
$ peakproof plan --tree cycle.csv
! peakproof: cycle.csv:3: segment 1: its parents form a cycle through 2
= 3
+ late.csv
| segment,parent,tokens
| 0,-1,5
| 1,2,3
| 2,0,3
$ peakproof plan --tree late.csv
! peakproof: late.csv:3: segment 1: its parent 2 stands after it (put parents first)
= 3
+ orphan.csv
| segment,parent,tokens
| 0,-1,5
| 1,7,3
$ peakproof plan --tree orphan.csv
! peakproof: orphan.csv:3: segment 1: its parent 7 does not exist (0 to 1, or -1 for a root)
= 3
+ negative.csv
| segment,parent,tokens
| 0,-1,-5
$ peakproof plan --tree negative.csv
!* peakproof: negative.csv:2: tokens: *-5*
= 3
+ empty.csv
| segment,parent,tokens
$ peakproof plan --tree empty.csv
! peakproof: empty.csv: no segments
= 3
+ levels.csv
| segment,parent,tokens
| 0,-1,5
| 1,-1,6
| 2,0,7
$ peakproof plan --tree levels.csv | grep tokens
>   "tokens": 18,

# A dense model has no experts to split: plan, its facts, price and run say so.

$ peakproof plan --lengths 3000 --model Qwen3.6-27B --ep 2
! peakproof: --ep: Qwen3.6-27B is dense, it has no experts to split (use 1)
= 2
$ peakproof plan --lengths 3000 --model Qwen3.6-27B --ep 2 --facts
! peakproof: --ep: Qwen3.6-27B is dense, it has no experts to split (use 1)
= 2
$ peakproof plan --lengths 3000 --model Qwen3.6-27B --facts | sed 's/"ep": 1/"ep": 2/' | peakproof price -
! peakproof: standard input: parallel.ep: Qwen3.6-27B is dense, it has no experts to split (use 1)
= 3
$ printf 'return {cases = {{name = "a", model = "Qwen3.6-27B", cp = 2, ep = 2, batch = batch.lengths{90}}}}' | peakproof run -
! peakproof: stdin: case 'a': ep: Qwen3.6-27B is dense, it has no experts to split (use 1)
= 3
