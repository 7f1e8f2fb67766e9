# Every model family to the byte, four layers of a shipped geometry each: what a
# rank holds before a wave (weights and adapters follow from the family's parts:
# gate, head norms, biases, shared expert), and the peak of the wave with one
# rank and with two, where it lies too.

+ families.lua
| local list = {}
| for _, m in ipairs{"Qwen3-Next-80B-A3B", "Qwen3.6-35B-A3B", "Qwen3.6-27B",
|                    "Qwen3-30B-A3B", "Qwen3-8B", "Qwen2-57B-A14B",
|                    "Mixtral-8x7B", "Llama-3.1-8B"} do
|   for cp = 1, 2 do
|     list[#list + 1] = {name = m .. ".cp" .. cp, model = m, layers = 4, cp = cp,
|                        batch = batch.lengths{3000, 500}}
|   end
| end
| return {cases = list}
+ columns.awk
| BEGIN { FS = ","; n = split(want, name, " ") }
| FNR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
| {
|     line = $c["case"]
|     for (i = 1; i <= n; i++) line = line " " $c[name[i]]
|     print line
| }
$ peakproof run --out o families.lua >table; awk -v want=start_bytes -f columns.awk o/peaks.csv | grep cp1
> Qwen3-Next-80B-A3B.cp1 14607525376
> Qwen3.6-35B-A3B.cp1 8857134592
> Qwen3.6-27B.cp1 8138653184
> Qwen3-30B-A3B.cp1 6285271040
> Qwen3-8B.cp1 4039847936
> Qwen2-57B-A14B.cp1 18338970624
> Mixtral-8x7B.cp1 12163162112
> Llama-3.1-8B.cp1 3851493376
$ awk -v want='rank allocated requested phase operator' -f columns.awk o/peaks.csv
> Qwen3-Next-80B-A3B.cp1 0 1620434432 1616851956 recompute experts.fc2
> Qwen3-Next-80B-A3B.cp2 0 1455542272 1450492928 recompute experts.fc2
> Qwen3-Next-80B-A3B.cp2 1 641219072 639893176 head head.index_gradient
> Qwen3.6-35B-A3B.cp1 0 1375858176 1370769940 recompute experts.fc2
> Qwen3.6-35B-A3B.cp2 0 1232313856 1229678912 recompute experts.fc2
> Qwen3.6-35B-A3B.cp2 1 888733184 887407288 head head.index_gradient
> Qwen3.6-27B.cp1 0 1526190080 1525149844 backward shared.act.backward
> Qwen3.6-27B.cp2 0 1340075520 1335189792 backward shared.act.backward
> Qwen3.6-27B.cp2 1 954752512 954077880 head head.index_gradient
> Qwen3-30B-A3B.cp1 0 1176661504 1169179480 recompute experts.fc2
> Qwen3-30B-A3B.cp2 0 1113102848 1111532552 recompute experts.fc2
> Qwen3-30B-A3B.cp2 1 618062336 616344248 head head.index_gradient
> Qwen3-8B.cp1 0 1006373888 1004304232 backward shared.act.backward
> Qwen3-8B.cp2 0 817255936 817255432 backward shared.act.backward
> Qwen3-8B.cp2 1 603857408 603166392 head head.index_gradient
> Qwen2-57B-A14B.cp1 0 2447241216 2443358152 recompute experts.fc2
> Qwen2-57B-A14B.cp2 0 1569543680 1567061000 recompute experts.fc2
> Qwen2-57B-A14B.cp2 1 1257041408 1252560520 recompute experts.fc2
> Mixtral-8x7B.cp1 0 1871616512 1869546328 recompute experts.fc1
> Mixtral-8x7B.cp2 0 1223161344 1223160840 recompute experts.fc1
> Mixtral-8x7B.cp2 1 1004097536 998930712 recompute experts.fc1
> Llama-3.1-8B.cp1 0 1081679872 1077021672 backward shared.act.backward
> Llama-3.1-8B.cp2 0 728221184 728220680 backward shared.act.backward
> Llama-3.1-8B.cp2 1 630445568 626139560 backward shared.act.backward
