# What four layers of every model family hold before a wave, to the byte:
# weights and adapters follow from the family's parts (gate, head norms, biases,
# shared expert).

+ families.lua
| local list = {}
| for _, m in ipairs{"Qwen3-Next-80B-A3B", "Qwen3.6-35B-A3B", "Qwen3.6-27B",
|                    "Qwen3-30B-A3B", "Qwen3-8B", "Qwen2-57B-A14B",
|                    "Mixtral-8x7B", "Llama-3.1-8B"} do
|   list[#list + 1] = {name = m, model = m, layers = 4, batch = batch.lengths{3000}}
| end
| return {cases = list}
$ peakproof run --out o families.lua >table; awk -F, 'NR == 1 {for (i = 1; i <= NF; i++) c[$i] = i; next} {print $c["case"], $c["start_bytes"]}' o/peaks.csv
> Qwen3-Next-80B-A3B 14607525376
> Qwen3.6-35B-A3B 8857134592
> Qwen3.6-27B 8138653184
> Qwen3-30B-A3B 6286319616
> Qwen3-8B 4039847936
> Qwen2-57B-A14B 18339494912
> Mixtral-8x7B 12163948544
> Llama-3.1-8B 3851493376
