-- The cases of pr-accuracy.lua with every expert on both ranks (EP1), where
-- no rows cross ranks. Nothing is published for them.
local layouts = require "layouts"

local function case(name, about, layers, layout)
  return {
    name = name,
    about = about,
    model = "Qwen3.6-35B-A3B",
    layers = layers,
    cp = 2,
    ep = 1,
    lora_rank = 8,
    waves = 2,
    batch = layout,
  }
end

return {
  name = "pr-accuracy-ep1",
  about = "the cases of pr-accuracy at EP1",
  cases = {
    case("real-40", "real data, 40 layers", 40, layouts.real),
    case("random-8", "random weights, 8 layers", 8, layouts.random),
    case("random-40", "random weights, 40 layers", 40, layouts.random),
  },
}
