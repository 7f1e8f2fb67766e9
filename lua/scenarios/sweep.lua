-- Waves of many shapes, drawn: what the estimators are worth away from the
-- published cases. Thousands are meant to run with
--   peakproof run --totals -j N sweep.lua -- count=10000
local models = {
  {name = "Qwen3.6-35B-A3B", layers = 40, weight = 3},
  {name = "Qwen3-30B-A3B", layers = 48, weight = 1},
}

-- Park and Miller's generator: the same numbers on every machine.
local function generator(seed)
  local state = seed % 2147483646 + 1
  local function uniform()
    state = state * 48271 % 2147483647
    return (state - 1) / 2147483646
  end
  for _ = 1, 3 do uniform() end
  local g = {uniform = uniform}
  function g.pick(list) return list[1 + math.floor(uniform() * #list)] end
  function g.between(lo, hi)
    return lo + math.floor(uniform() * (hi - lo + 1))
  end
  function g.log(lo, hi)        -- as many between 1 and 10 as 10 and 100
    return math.floor(lo * (hi / lo) ^ uniform() + 0.5)
  end
  return g
end

local function some_model(g)
  local at, sum = g.uniform(), 0
  for _, m in ipairs(models) do sum = sum + m.weight end
  for _, m in ipairs(models) do
    at = at - m.weight / sum
    if at < 0 then return m end
  end
  return models[1]
end

-- One sequence, some alike, some of any length, or a tree.
local function some_batch(g, tokens)
  local kind = g.pick{"one", "equal", "random", "tree"}
  local n = g.log(2, math.max(2, math.min(64, tokens // 16)))
  if kind == "one" then return batch.lengths{tokens}, "one" end
  if kind == "equal" then
    return batch.random{count = n, length = math.max(1, tokens // n),
                        seed = 1}, "equal"
  end
  local lengths, parents = {}, {}
  for i = 1, n do
    lengths[i] = g.between(1, math.max(1, 2 * tokens // n))
    parents[i] = i == 1 and -1 or g.between(-1, i - 2)
  end
  if kind == "random" then return batch.lengths(lengths), kind end
  return batch.tree{parents = parents, lengths = lengths}, kind
end

local function some_routing(g, ep)
  if ep == 1 then return "balanced" end
  local kind = g.pick{"balanced", "cv", "share", "hot"}
  if kind == "cv" then
    return {cv = g.pick{0.5, 1, 2}, seed = g.between(0, 1000000)}
  elseif kind == "share" then
    return {share = 1 + g.uniform() * math.min(1, ep - 1),
            rank = g.between(0, ep - 1)}
  elseif kind == "hot" then
    return {hot_expert = g.between(0, 127), factor = g.log(2, 50)}
  end
  return "balanced"
end

local function some_case(g, i, opt)
  local m = some_model(g)
  local cp = g.pick{1, 2, 4, 8}
  if opt.least_cp > cp then cp = opt.least_cp end
  local divisors = {}
  for ep = 1, cp do
    if cp % ep == 0 then divisors[#divisors + 1] = ep end
  end
  local ep = g.pick(divisors)
  local b, kind = some_batch(g, g.log(opt.least_tokens, opt.most_tokens))
  return {
    name = ("%05d.%s.cp%d.ep%d"):format(i, kind, cp, ep),
    model = m.name,
    layers = g.pick{4, 8, 12, 20, 32, m.layers},
    lora_rank = g.pick{1, 4, 8, 16, 32},
    cp = cp, ep = ep, waves = 2, batch = b,
    routing = some_routing(g, ep),
  }
end

return {
  name = "sweep",
  about = "drawn waves: tokens, lengths, trees, models, layers, ranks, shapes",
  options = {
    count = {help = "cases", default = 500, min = 1, max = 100000},
    seed = {help = "of the draw", default = 1, min = 0},
    least_tokens = {help = "about so many at least", default = 64, min = 16},
    most_tokens = {help = "and at most", default = 250000, max = 1000000},
    least_cp = {help = "context-parallel size at least", default = 2,
                values = {1, 2, 4, 8}},
  },
  cases = function(opt)
    local g, list = generator(opt.seed), {}
    for i = 1, opt.count do list[i] = some_case(g, i, opt) end
    return list
  end,
}
