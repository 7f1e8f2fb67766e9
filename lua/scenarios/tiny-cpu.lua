-- A model of this architecture small enough to compute on a CPU, at every
-- shape: one and two context-parallel ranks, experts on one rank or on both,
-- ragged sequences (one of one token), shared prefixes that fork.
--   peakproof run --device cpu tiny-cpu.lua
local batches = {
  ragged = batch.lengths{1, 70, 133},
  fork = batch.tree{parents = {-1, 0, 0, 1}, lengths = {70, 5, 133, 64}},
  roots = batch.tree{parents = {-1, 0, -1, 2, 2},
                     lengths = {65, 3, 40, 1, 90}},
}
-- Cuts one row, three rows, and just before and behind a chunk of 64.
local cuts = {1, 3, 64, 65}

local function case(name, cp, ep, wave, cut)
  return {
    name = name,
    model = "tiny",
    dtype = "f32",
    seed = 1,
    cp = cp,
    ep = ep,
    lora_rank = 4,
    learning_rate = 0.01,
    waves = 2,
    batch = wave,
    plan = cut and {cut = cut},
  }
end

return {
  name = "tiny-cpu",
  about = "a tiny model at CP1 and CP2, EP1 and EP2",
  cases = function()
    local list = {}
    for name, wave in pairs(batches) do
      for _, s in ipairs{{1, 1}, {2, 1}, {2, 2}} do
        list[#list + 1] = case(("%s.cp%d.ep%d"):format(name, s[1], s[2]),
                               s[1], s[2], wave)
      end
      for _, cut in ipairs(cuts) do
        list[#list + 1] = case(("%s.cut-%d"):format(name, cut), 2, 2, wave,
                               cut)
      end
    end
    return list
  end,
}
