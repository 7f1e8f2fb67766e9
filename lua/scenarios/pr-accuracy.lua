-- The accuracy table of the pull request "Price CP2 recompute per rank on
-- each layer type's layout": two ranks, experts split over both, a cold and a
-- warm wave of each batch. The published warm calls ran other batches than
-- the cold ones, so only the cold cells have a known layout.
local layouts = require "layouts"

local function case(name, about, layers, layout, published)
  return {
    name = name,
    about = about,
    model = "Qwen3.6-35B-A3B",
    layers = layers,
    cp = 2,
    ep = 2,
    lora_rank = 8,
    waves = 2,
    batch = layout,
    routing = "balanced",
    published = published,      -- admitted errors in percent
  }
end

return {
  name = "pr-accuracy",
  about = "the published accuracy table at EP2: three cases, cold and warm",
  cases = {
    case("real-40", "real data, 40 layers", 40, layouts.real,
         {before_cold = 18.2, before_warm = 19.2,
          after_cold = 18.2, after_warm = 20.2}),
    case("random-8", "random weights, 8 layers", 8, layouts.random,
         {before_cold = 26.5, before_warm = 23.6,
          after_cold = 26.6, after_warm = 23.7}),
    case("random-40", "random weights, 40 layers", 40, layouts.random,
         {before_cold = 19.7, before_warm = 17.5,
          after_cold = 18.8, after_warm = 16.6}),
  },
}
