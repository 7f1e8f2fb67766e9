-- The random cases of pr-accuracy.lua with the loads that routers of random
-- weights give, instead of even ones: are they why the published errors are
-- lower than ours? A set of loads is what `peakproof route` writes: a row a
-- layer with the pairs that each expert got, of any total.
local layouts = require "layouts"

-- "31 226 96" as {31, 226, 96}.
local function numbers(text)
  local list, n = {}, nil
  for _, byte in ipairs{text:byte(1, -1)} do
    if byte ~= 32 then
      n = (n or 0) * 10 + byte - 48
    elseif n then
      list[#list + 1], n = n, nil
    end
  end
  list[#list + 1] = n
  return list
end

-- The sets of a file in its order, each {name, layers = N, loads = {...}}.
local function sets(file)
  local list, at = {}, {}
  for _, row in ipairs(csv.rows{file = file}) do
    local init = row.init
    if row.adapter_rank ~= "0" then
      init = init .. "-adapters-" .. row.adapter_rank
    end
    local name = "random-" .. row.model_layers .. "." .. init .. "-seed-"
                 .. row.seed
    if not at[name] then
      at[name] = {name = name, layers = math.tointeger(row.model_layers),
                  loads = {}}
      list[#list + 1] = at[name]
    end
    at[name].loads[math.tointeger(row.layer) + 1] = numbers(row.loads)
  end
  return list
end

return {
  name = "random-weights",
  about = "the published random cases with routers of random weights",
  options = {
    loads = {help = "file of loads, as peakproof route writes it",
             default = "router-loads-random.csv"},
  },
  cases = function(opt)
    local list = {}
    for _, set in ipairs(sets(opt.loads)) do
      list[#list + 1] = {
        name = set.name,
        model = "Qwen3.6-35B-A3B",
        layers = set.layers,
        cp = 2,
        ep = 2,
        lora_rank = 8,
        batch = layouts.random,
        routing = {loads = set.loads},
      }
    end
    return list
  end,
}
