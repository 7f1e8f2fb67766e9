-- What only a GPU can decide, made otherwise, and what that changes: never a
-- default. Four parts. stack.*: cold first waves of one sequence, of 2,047 to
-- 20,000 tokens and of the recorded sequences, at EP1 and EP2. one.*: cold
-- first waves of 2,000 to 50,000 tokens on one GPU. share.*: the published
-- batches with rank 1 getting more than its even share of pairs in the last
-- layer alone. hidden.*: the published batches as a program that asks for
-- hidden states and a mean-square loss would run them.
local layouts = require "layouts"
local file = "tau-airline-sequences"

local SWITCHES = {
  {}, {"rounded"}, {"table-late"}, {"rounded", "table-late"},
  {"rounded", "table-late", "blas-late"}, {"autograd"}, {"wide-last"},
  {"router-state"},
}
local EXPERTS, HALF = 256, 128

local function case(name, layers, ep, content, t)
  t.name, t.model, t.layers = name, "Qwen3.6-35B-A3B", layers
  t.cp, t.ep, t.lora_rank, t.batch = 2, ep, 8, content
  t.estimators = {"per-rank"}
  return t
end

local function add_stack(list, opt)
  for i, switch in ipairs(SWITCHES) do
    for _, ep in ipairs{1, 2} do
      local function add(name, content)
        name = ("stack.%d.ep%d.%s"):format(i, ep, name)
        list[#list + 1] = case(name, 40, ep, content, {otherwise = switch})
      end
      for n = 2047, 20000, opt.step do
        add("tokens-" .. n, batch.lengths{n})
      end
      for s = 0, 199, 200 // math.max(opt.sequences, 1) do
        if opt.sequences == 0 then break end
        add(("seq-%03d"):format(s), batch.sequences{file = file, select = s})
      end
    end
  end
end

-- Where gradients make the peak, block sizes change from length to length.
local function one_lengths(step)
  local list = {}
  for n = 2000, 5999, step do list[#list + 1] = n end
  for n = 6000, 10000, 1000 do list[#list + 1] = n end
  for n = 12000, 50000, 2000 do list[#list + 1] = n end
  return list
end

-- With the differentiating thread's workspace and without.
local function add_one(list, opt)
  for _, model in ipairs{"Qwen3.6-35B-A3B", "Qwen3-30B-A3B"} do
    for i, switch in ipairs{{}, {"autograd"}} do
      for _, n in ipairs(one_lengths(opt.step)) do
        list[#list + 1] = {
          name = ("one.%d.%s.tokens-%d"):format(i, model, n), model = model,
          cp = 1, batch = batch.lengths{n}, otherwise = switch,
          estimators = {"busiest-rank"},
        }
      end
    end
  end
end

-- Loads by layer: even, but for the last one.
local function loads_of(layers, share)
  local list = {}
  for l = 1, layers do
    local x = l == layers and share or 1000
    local loads = {}
    for e = 1, EXPERTS do loads[e] = e <= HALF and 2000 - x or x end
    list[l] = loads
  end
  return list
end

local CELLS = {
  {"real-40", 40, layouts.real}, {"random-8", 8, layouts.random},
  {"random-40", 40, layouts.random},
}

local function add_shares(list)
  for _, c in ipairs(CELLS) do
    for share = 1000, 1400, 20 do
      list[#list + 1] = case(("share.%s.%d"):format(c[1], share), c[2], 2,
                             c[3], {waves = 2, routing = {
                               loads = loads_of(c[2], share)}})
    end
  end
end

local function add_hidden(list)
  for _, c in ipairs(CELLS) do
    list[#list + 1] = case("hidden." .. c[1], c[2], 2, c[3],
                           {wave = "hidden-loss"})
  end
end

return {
  name = "sensitivity",
  about = "what only a GPU can decide, made otherwise",
  options = {
    step = {help = "tokens from one length to the next", default = 250,
            min = 1, max = 20000},
    sequences = {help = "how many of the 200 recorded sequences, evenly",
                 default = 40, min = 0, max = 200},
  },
  cases = function(opt)
    local list = {}
    add_stack(list, opt)
    add_one(list, opt)
    add_shares(list)
    add_hidden(list)
    return list
  end,
}
