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
