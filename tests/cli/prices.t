# What every estimator asks for a dozen shapes, to the byte, and of what: a
# change of a price shows here in the term that moved.

+ shapes
| --lengths 3000,500 --cp 2 --ep 2
| --lengths 9000 --cp 1 --ep 1 --layers 8
| --lengths 20000,9000 --cp 2 --ep 1
| --lengths 700 --cp 2 --ep 2
| --lengths 65,64,3 --cp 2 --ep 2 --layers 4
| --lengths 40000,40000 --cp 4 --ep 4 --layers 12 --warm
| --lengths 2047 --cp 2 --ep 1 --lora-rank 1 --warm
| --model Qwen3-30B-A3B --lengths 4000,3000 --cp 4 --ep 2
| --model Mixtral-8x7B --lengths 6000 --cp 2 --ep 2 --layers 4
| --model Qwen3-1.7B --lengths 4096 --cp 1
| --model tiny --lengths 64,32 --cp 2 --ep 2
| --lengths 30000 --cp 8 --ep 8 --lora-rank 64
+ prices.sh
| while read -r shape; do
|     echo "# $shape"
|     peakproof plan --facts $shape >f.json && peakproof price f.json |
|         awk -F '"' '
|             /"name"/ { name = $4 }
|             /"raw_bytes"/ { printf "%s%s", name, $3 }
|             /"terms"/ { terms = 1; next }
|             /}/ && terms { print ""; terms = 0 }
|             terms && $3 !~ /: 0,?$/ { printf " %s%s", $2, $3 }' |
|         tr -d ':' | sed 's/,$//'
| done
$ sh prices.sh <shapes
> # --lengths 3000,500 --cp 2 --ep 2
> busiest-rank 1540363264, boundaries 503316480, input_gradient 37748736, head 764411904, workspace 234886144
> per-rank 1534465024, boundaries 497418240, input_gradient 37748736, head 764411904, workspace 234886144
> per-rank-any 1554409934, boundaries 497418240, head 802697216, workspace 234886144, rounding 17835470, other 1572864
> heuristic 200704000, boundaries 200704000
> retained-states 200704000, boundaries 200704000
> retained-rank 200704000, boundaries 200704000
> kept-rank null
> # --lengths 9000 --cp 1 --ep 1 --layers 8
> busiest-rank 3230617760, boundaries 294912000, gdn 737280000, residual_norm 73728000, moe_routing 29988000, moe_dispatch 589824000, moe_experts 1108224000, shared_expert 101376000, input_gradient 36864000, adapter_gradients 23535616, workspace 234886144
> per-rank 3230617760, boundaries 294912000, gdn 737280000, residual_norm 73728000, moe_routing 29988000, moe_dispatch 589824000, moe_experts 1108224000, shared_expert 101376000, input_gradient 36864000, adapter_gradients 23535616, workspace 234886144
> per-rank-any 3239649573, boundaries 258048000, gdn 746887368, residual_norm 73764000, moe_routing 31140000, moe_dispatch 589824000, moe_experts 1108512000, shared_expert 101844000, input_gradient 36864000, adapter_gradients 23535616, workspace 234886144, rounding 29736445, other 4608000
> heuristic 221184000, boundaries 221184000
> retained-states 221184000, boundaries 221184000
> retained-rank 221184000, boundaries 221184000
> kept-rank null
> # --lengths 20000,9000 --cp 2 --ep 1
> busiest-rank 7791717376, boundaries 2600468480, attention 1088946176, attention_records 422576128, residual_norm 130023424, moe_routing 52885504, moe_dispatch 1040187392, moe_experts 1954414592, shared_expert 178782208, input_gradient 65011712, adapter_gradients 23535616, workspace 234886144
> per-rank 7548382208, boundaries 2485125120, attention 1088946176, attention_records 294584320, residual_norm 130023424, moe_routing 52885504, moe_dispatch 1040187392, moe_experts 1954414592, shared_expert 178782208, input_gradient 65011712, adapter_gradients 23535616, workspace 234886144
> per-rank-any 7562379816, boundaries 2485125120, attention 1042409472, attention_records 294584320, residual_norm 130086912, moe_routing 54917120, moe_dispatch 1040187392, moe_experts 1954922496, shared_expert 179607552, input_gradient 65011712, workspace 234886144, rounding 72515112, other 8126464
> heuristic 1662976000, boundaries 1662976000
> retained-states 1662976000, boundaries 1662976000
> retained-rank 1662976000, boundaries 1662976000
> kept-rank null
> # --lengths 700 --cp 2 --ep 2
> busiest-rank 1121373184, boundaries 114688000, input_gradient 8601600, head 763197440, workspace 234886144
> per-rank 1105972224, boundaries 99287040, input_gradient 8601600, head 763197440, workspace 234886144
> per-rank-any 1125307316, boundaries 99287040, head 771229696, workspace 234886144, rounding 19642292, other 262144
> heuristic 40140800, boundaries 40140800
> retained-states 40140800, boundaries 40140800
> retained-rank 40140800, boundaries 40140800
> kept-rank null
> # --lengths 65,64,3 --cp 2 --ep 2 --layers 4
> busiest-rank 433510912, boundaries 1097728, input_gradient 823296, head 196703744, workspace 234886144
> per-rank 433502720, boundaries 1089536, input_gradient 823296, head 196703744, workspace 234886144
> per-rank-any 338577160, boundaries 1089536, head 99416328, workspace 234886144, rounding 3151360, other 33792
> heuristic 2703360, boundaries 2703360
> retained-states 2703360, boundaries 2703360
> retained-rank 2703360, boundaries 2703360
> kept-rank null
> # --lengths 40000,40000 --cp 4 --ep 4 --layers 12 --warm
> busiest-rank 9731567328, boundaries 1358954496, attention 1896873984, attention_records 736100352, residual_norm 226492416, moe_routing 99532800, moe_dispatch 1048560000, moe_experts 3940380000, shared_expert 311427072, input_gradient 113246208
> per-rank 9731567328, boundaries 1358954496, attention 1896873984, attention_records 736100352, residual_norm 226492416, moe_routing 99532800, moe_dispatch 1048560000, moe_experts 3940380000, shared_expert 311427072, input_gradient 113246208
> per-rank-any 8267741184, boundaries 1157627904, attention 1782183936, attention_records 1400012800, residual_norm 222406656, moe_routing 101163008, moe_dispatch 655360000, moe_experts 2463360000, shared_expert 307070976, input_gradient 111149056, rounding 53513216, other 13893632
> heuristic 2293760000, boundaries 2293760000
> retained-states 2293760000, boundaries 2293760000
> retained-rank 2293760000, boundaries 2293760000
> kept-rank null
> # --lengths 2047 --cp 2 --ep 1 --lora-rank 1 --warm
> busiest-rank 1124421120, boundaries 335380480, input_gradient 25153536, head 763887104
> per-rank 1082560000, boundaries 293519360, input_gradient 25153536, head 763887104
> per-rank-any 1099297157, boundaries 293519360, head 783816704, rounding 21174661, other 786432
> heuristic 117383168, boundaries 117383168
> retained-states 117383168, boundaries 117383168
> retained-rank 117383168, boundaries 117383168
> kept-rank null
> # --model Qwen3-30B-A3B --lengths 4000,3000 --cp 4 --ep 2
> busiest-rank 1316963328, boundaries 402653184, attention 106954752, attention_records 54525952, residual_norm 16777216, moe_routing 3702784, moe_dispatch 93952000, moe_experts 388290560, input_gradient 8388608, adapter_gradients 6832128, workspace 234886144
> per-rank 1316963328, boundaries 402653184, attention 106954752, attention_records 54525952, residual_norm 16777216, moe_routing 3702784, moe_dispatch 93952000, moe_experts 388290560, input_gradient 8388608, adapter_gradients 6832128, workspace 234886144
> per-rank-any 1128023674, boundaries 402653184, head 494018560, workspace 211817472, rounding 17961594, other 1572864
> heuristic 458752000, boundaries 458752000
> retained-states 458752000, boundaries 458752000
> retained-rank 458752000, boundaries 458752000
> kept-rank null
> # --model Mixtral-8x7B --lengths 6000 --cp 2 --ep 2 --layers 4
> busiest-rank 2442109184, boundaries 150994944, attention 292552704, attention_records 132120576, residual_norm 75497472, moe_routing 589824, moe_dispatch 68811000, moe_experts 1445205000, input_gradient 37748736, adapter_gradients 3702784, workspace 234886144
> per-rank 2405540096, boundaries 150994944, attention 292552704, attention_records 95551488, residual_norm 75497472, moe_routing 589824, moe_dispatch 68811000, moe_experts 1445205000, input_gradient 37748736, adapter_gradients 3702784, workspace 234886144
> per-rank-any 1899533249, boundaries 150994944, attention 227543040, attention_records 95551488, residual_norm 75515904, moe_routing 737280, moe_dispatch 49152000, moe_experts 1032312000, input_gradient 37748736, workspace 209720320, rounding 16718593, other 3538944
> heuristic 245760000, boundaries 245760000
> retained-states 245760000, boundaries 245760000
> retained-rank 245760000, boundaries 245760000
> kept-rank null
> # --model Qwen3-1.7B --lengths 4096 --cp 1
> busiest-rank 1224872960, boundaries 469762048, input_gradient 50331648, head 469893120, workspace 234886144
> per-rank 1224872960, boundaries 469762048, input_gradient 50331648, head 469893120, workspace 234886144
> per-rank-any 1224872960, boundaries 469762048, input_gradient 50331648, head 469893120, workspace 234886144
> heuristic 184549376, boundaries 184549376
> retained-states 184549376, boundaries 184549376
> retained-rank 184549376, boundaries 184549376
> kept-rank 1091978240, boundaries 486539264, residual_norm 16384, input_gradient 33554432, head 466747392, workspace 100664320, other 4456448
> # --model tiny --lengths 64,32 --cp 2 --ep 2
> busiest-rank 235290784, boundaries 32768, gdn 131072, residual_norm 16384, moe_routing 8192, moe_dispatch 17184, moe_experts 81792, shared_expert 28672, input_gradient 8192, adapter_gradients 80384, workspace 234886144
> per-rank 235378720, boundaries 20480, attention 59904, attention_records 182656, residual_norm 12288, moe_routing 6144, moe_dispatch 17184, moe_experts 81792, shared_expert 21504, input_gradient 8192, adapter_gradients 82432, workspace 234886144
> per-rank-any 201818368, boundaries 20480, attention 163968, attention_records 182656, input_gradient 12288, adapter_gradients 20992, workspace 201364480, rounding 40448, other 13056
> heuristic 61440, boundaries 61440
> retained-states 61440, boundaries 61440
> retained-rank 61440, boundaries 61440
> kept-rank null
> # --lengths 30000 --cp 8 --ep 8 --lora-rank 64
> busiest-rank 4228797440, boundaries 1593835520, attention 667418624, attention_records 258998272, residual_norm 79691776, moe_routing 35020800, moe_dispatch 245760000, moe_experts 936960000, shared_expert 109576192, input_gradient 39845888, adapter_gradients 26804224, workspace 234886144
> per-rank 4228797440, boundaries 1593835520, attention 667418624, attention_records 258998272, residual_norm 79691776, moe_routing 35020800, moe_dispatch 245760000, moe_experts 936960000, shared_expert 109576192, input_gradient 39845888, adapter_gradients 26804224, workspace 234886144
> per-rank-any 3062513978, boundaries 331874304, attention 643254272, attention_records 180551680, residual_norm 79730688, moe_routing 36265984, moe_dispatch 122880000, moe_experts 468600000, shared_expert 113350656, input_gradient 39845888, adapter_gradients 753270784, workspace 234886144, rounding 53022842, other 4980736
> heuristic 1720320000, boundaries 1720320000
> retained-states 1720320000, boundaries 1720320000
> retained-rank 1720320000, boundaries 1720320000
> kept-rank null
