-- Routing that moves from wave to wave: what a price is worth that knows the
-- wave's routing, the last wave's, only how far loads spread, or nothing.
local shapes = {{2, 2}, {4, 2}, {4, 4}, {8, 4}}

return {
  name = "drift",
  about = "routing that drifts and bursts from wave to wave",
  options = {
    waves = {help = "waves of a case", default = 4, min = 2, max = 100},
    seed = {help = "seed of the loads", default = 7, min = 0},
  },
  cases = function(opt)
    local list = {}
    local function case(name, cp, ep, cv, routing)
      list[#list + 1] = {
        name = ("cp%d.ep%d.%s"):format(cp, ep, name),
        model = "Qwen3.6-35B-A3B",
        cp = cp, ep = ep, waves = opt.waves, load_cv = cv,
        batch = batch.lengths{30000, 20000, 10000, 5000},
        routing = routing,
      }
    end
    for _, shape in ipairs(shapes) do
      local cp, ep = table.unpack(shape)
      for _, cv in ipairs{0.5, 1, 2} do
        case(("cv-%g.drift"):format(cv), cp, ep, cv,
             {cv = cv, seed = opt.seed, drift = 0.1})
      end
      case("burst", cp, ep, 1, {cv = 0.5, seed = opt.seed, drift = 0.1,
                                burst = 0.1, factor = 20})
    end
    return list
  end,
}
