-- Every combination of a few lists: what "peakproof run --model M --lengths
-- 8k..64k:x2 --cp 2,4 ..." runs. Lists are text: "8k,16k", "8k..64k:x2" (times
-- two from one to the next) or "8k..64k:+8k".
local units = {k = 1000, M = 1000000}

local function number(text, what)
  local digits, unit = text:match("^(%d+)([kM]?)$")
  if not digits or #digits > 12 then
    error(("%s: '%s' is no whole number like 8192 or 8k"):format(what, text),
          0)
  end
  return math.tointeger(tonumber(digits)) * (units[unit] or 1)
end

local function range(text, what)
  local first, last, how, step = text:match("^(%w+)%.%.(%w+):([x+])(%w+)$")
  if not first then return {number(text, what)} end
  first, last, step = number(first, what), number(last, what),
                      number(step, what)
  if step < (how == "x" and 2 or 1) or first < 1 then
    error(("%s: '%s' never ends"):format(what, text), 0)
  end
  local list = {}
  while first <= last do
    list[#list + 1] = first
    first = how == "x" and first * step or first + step
  end
  return list
end

local function numbers(text, what)
  local list = {}
  for part in (text .. ","):gmatch("([^,]*),") do
    for _, n in ipairs(range(part, what)) do list[#list + 1] = n end
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
               default = "8k..64k:x2"},
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
