-- Every combination of a few lists: what "peakproof run --model M --lengths
-- 8k..64k:x2 --cp 2,4 ..." runs, which takes ranges apart. Here a list is
-- numbers, "8192,16384".
local function numbers(text, what)
  local list = {}
  for part in (text .. ","):gmatch("([^,]*),") do
    local n = part:match("^%d+$") and math.tointeger(tonumber(part))
    if not n then
      error(("%s: '%s' is no whole number like 8192 (ranges are for "
             .. "peakproof run --lengths)"):format(what, part), 0)
    end
    list[#list + 1] = n
  end
  return list
end

return {
  name = "shapes",
  about = "every combination of lists of lengths and parallel sizes",
  options = {
    model = {help = "a shipped model, or a config.json",
             default = "Qwen3.6-35B-A3B"},
    lengths = {help = "tokens of a case's one sequence",
               default = "8000,16000,32000,64000"},
    cp = {help = "context-parallel sizes", default = "2"},
    ep = {help = "expert-parallel sizes; those that divide", default = "1"},
    lora_rank = {help = "ranks of the adapters", default = "8"},
    layers = {help = "numbers of layers; 0: all", default = "0"},
    waves = {help = "waves of a case", default = 2, min = 1},
  },
  cases = function(opt)
    local list = {}
    for _, c in ipairs(cross{
      {"length", numbers(opt.lengths, "lengths")},
      {"cp", numbers(opt.cp, "cp")},
      {"ep", numbers(opt.ep, "ep")},
      {"rank", numbers(opt.lora_rank, "lora_rank")},
      {"layers", numbers(opt.layers, "layers")},
    }) do
      if c.cp % c.ep == 0 then
        list[#list + 1] = {
          name = ("%d.cp%d.ep%d.r%d.l%d"):format(c.length, c.cp, c.ep, c.rank,
                                                 c.layers),
          model = opt.model, cp = c.cp, ep = c.ep, lora_rank = c.rank,
          layers = c.layers > 0 and c.layers or nil, waves = opt.waves,
          batch = batch.lengths{c.length},
        }
      end
    end
    return list
  end,
}
