# Routers of random weights: streamed layer by layer, the same as all at once.

+ full.lua
| local list = {}
| for _, init in ipairs{"own", "megatron", "huggingface"} do
|   for _, rank in ipairs{0, 8} do
|     list[#list + 1] = {name = init .. "." .. rank, model = "tiny", cp = 1,
|       ep = 1, wave = "hidden", grad = false, dtype = "f32", seed = 3,
|       lora_rank = rank, init = init, batch = batch.lengths{96}}
|   end
| end
| return {name = "full", cases = list}

$ peakproof run --device cpu --histograms full.lua | grep -c '^full/'
> 6
$ for i in own megatron huggingface; do for r in 0 8; do peakproof route --model tiny --init $i --adapters $r --rows 96 --seed 3 >loads.$i.$r || echo bad; done; done
$ for i in own megatron huggingface; do for r in 0 8; do awk -F, 'NR > 1 { n = split($7, x, " "); for (j = 1; j <= n; j++) print "0," $6 ",0," j - 1 "," x[j] }' loads.$i.$r >a; tail -n +2 out/histograms/full.$i.$r.csv | cmp - a || echo "$i $r"; done; done
$ cat loads.* | awk -F, '$1 != "init" { print $7 }' | sort -u | wc -l
> 24

# The scenario reads such a file; every layer's pairs sum to rows x top-k.
$ sed 1p loads.megatron.0 -n; awk -F, 'NR > 1 { n = split($7, x, " "); s = 0; for (j = 1; j <= n; j++) s += x[j]; print n, s }' loads.megatron.0 | sort -u
> init,adapter_rank,model_layers,seed,rows,layer,loads
> 8 192
$ peakproof list random-weights -- loads=loads.megatron.8 | tail -n 1
>   random-4.megatron-adapters-8-seed-3

$ peakproof route --model tiny --init megatron --rows 64 --json | sed -n 2,8p
>   "format": 1,
>   "init": "megatron",
>   "adapter_rank": 0,
>   "model_layers": 4,
>   "seed": 1,
>   "rows": 64,
>   "loads": [
$ peakproof route --model tiny
! peakproof: route: whose initial weights? (--init megatron or huggingface)
= 2
$ peakproof route --model Qwen3-30B --init megatron
! peakproof: Qwen3-30B: no such model, here or shipped (did you mean Qwen3-30B-A3B? peakproof list --models names those; of a folder name its config.json)
= 3
$ peakproof route --model Qwen3-8B --init megatron
!* peakproof: */Qwen3-8B.json: a dense model has no router
= 3
$ peakproof route --model tiny --init megatron --rows 999999
!* peakproof: *max_position_embeddings*
= 3
$ peakproof route --init hugingface
! peakproof: route: --init: unknown value 'hugingface' (one of own, megatron, huggingface)
= 2
$ sed 's/init = init/init = "xavier"/' full.lua >bad.lua; peakproof list bad.lua
!* peakproof: bad.lua:*: case 'own.0': init: unknown value 'xavier'*
= 3

# A histogram that leaves out what is 0, and loads of another sum, are the same.

+ sparse.csv
| wave,layer,rank,expert,rows
| 0,0,0,1,192
| 0,1,0,1,192
| 0,2,1,1,192
| 0,3,0,5,192
+ loads.csv
| wave,layer,rank,expert,rows
| 0,0,0,1,3
| 0,1,0,1,1
| 0,2,1,1,1000
| 0,3,0,5,1
+ sparse.lua
| local function case(name, routing)
|   return {name = name, model = "tiny", cp = 2, ep = 2, routing = routing,
|           batch = batch.lengths{96}}
| end
| return {cases = {
|   case("sparse", {histogram = "sparse.csv"}),
|   case("scaled", {histogram = "loads.csv", scaled = true}),
|   case("lua", {loads = {{0, 7, 0, 0, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 0, 0, 0},
|                         {0, 1, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 2, 0, 0}}}),
| }}
$ peakproof run sparse.lua >table; awk -F, 'NR > 1 { print $3, $6, $15 }' out/peaks.csv | sort
> lua 0 192
> lua 1 192
> scaled 0 192
> scaled 1 192
> sparse 0 192
> sparse 1 192
$ for c in sparse scaled lua; do awk -F, -v c=$c '$3 == c { print $4, $6, $7, $10 }' out/peaks.csv >$c; done; cmp sparse scaled; cmp sparse lua
$ sed -i 's/0,3,0,5,192/0,3,0,5,191/' sparse.csv; peakproof run sparse.lua >table
!* peakproof: sparse/sparse: *routing: the histogram has 191 pairs in wave 0, layer 3, but the batch routes 192 (rows x top-k)
= 3
