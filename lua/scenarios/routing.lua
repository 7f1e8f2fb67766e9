-- How the peak depends on routing: the cold cases of pr-accuracy.lua with
-- expert loads of a stated coefficient of variation (drawn per layer from a
-- seed), and with a stated share of the rows on one rank in every layer.
local layouts = require "layouts"

local shapes = {
  {name = "real-40", layers = 40, layout = layouts.real},
  {name = "random-8", layers = 8, layout = layouts.random},
  {name = "random-40", layers = 40, layout = layouts.random},
}

local function case(shape, suffix, routing)
  return {
    name = shape.name .. "." .. suffix,
    model = "Qwen3.6-35B-A3B",
    layers = shape.layers,
    cp = 2,
    ep = 2,
    lora_rank = 8,
    batch = shape.layout,
    routing = routing,
  }
end

return {
  name = "routing",
  about = "sensitivity of the published cases to expert routing",
  options = {
    seeds = {help = "draws for each coefficient of variation",
             default = 2, min = 1, max = 100},
  },
  cases = function(opt)
    local list = {}
    for _, shape in ipairs(shapes) do
      list[#list + 1] = case(shape, "cv-0", {cv = 0, seed = 1})
      for _, cv in ipairs{0.65, 1.0, 1.2} do
        for seed = 1, opt.seeds do
          list[#list + 1] = case(shape, "cv-" .. cv .. "-seed-" .. seed,
                                 {cv = cv, seed = seed})
        end
      end
      list[#list + 1] = case(shape, "share-1.0", {share = 1.0})
      for _, share in ipairs{1.1, 1.2} do
        for rank = 0, 1 do
          list[#list + 1] = case(shape, "share-" .. share .. "-rank-" .. rank,
                                 {share = share, rank = rank})
        end
      end
    end
    return list
  end,
}
